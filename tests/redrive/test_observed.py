"""What a pipeline in mode observe would have done is kept, each letter once."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.observed import DynamoDBObserved
from deadletter.contract import Mode, Reason
from deadletter.redrive.observed import (
    MOST_OBSERVED,
    Observed,
    ObservedUnavailable,
    WouldGo,
    from_text,
    to_text,
    would_go,
)
from deadletter.redrive.redriver import Redriver
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from tests.simulation.stage import Stage

BACK = Redrive(60, "attempt 1, backoff of 60 s")
GIVEN_UP = Park(Reason.POISON, "the same failure in 3 lives")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def observed(stage: Stage) -> dict[str, Observed]:
    resources = stage.resources
    client: Any = stage.clients.dynamodb
    store = DynamoDBObserved(client, resources.messages_table, stage.pipeline.name, stage.clock)
    return dict(store.read())


def test_an_observing_run_keeps_what_it_would_have_done(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    good, bad = stage.put(url=stage.dlq), stage.put("{", url=stage.dlq)
    began = stage.clock()
    stage.run()
    [(source, seen)] = observed(stage).items()
    assert (source, seen.since) == ("dlq", pytest.approx(began, abs=60))
    assert seen.messages[good].where == WouldGo("REDRIVE", "main queue")
    assert seen.messages[bad].where == WouldGo("PARK", "MALFORMED")
    assert "cannot be read" in seen.messages[bad].because


def test_a_second_look_counts_no_letter_again(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    stage.put(url=stage.dlq)
    stage.run()
    first = observed(stage)
    stage.clock.advance(120)
    stage.run()
    assert observed(stage) == first


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_run_that_moves_letters_and_a_dry_run_keep_nothing(stage: Stage, dry_run: bool) -> None:
    stage.put(url=stage.dlq)
    stage.run(dry_run=dry_run)
    assert observed(stage) == {}


class Refusing:
    """A store that takes nothing."""

    def note(self, *_: Any) -> None:
        raise ObservedUnavailable("denied")


def test_a_store_that_gives_no_answer_costs_no_letter_and_is_noted(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    stage.put(url=stage.dlq)
    setup = replace(stage.redriver()._setup, observed=Refusing())
    report = Redriver(setup).run(stage.clock() + 55)
    assert report.stopped == "looked at 1 messages, moved none"
    assert report.to_json()["trouble"] == "denied"
    assert len(stage.bodies(stage.dlq)) == 1


def test_the_first_decision_on_a_letter_counts() -> None:
    seen = Observed(1.0).with_judged([("a", BACK)], 2.0).with_judged([("a", GIVEN_UP)], 3.0)
    assert [(letter.where.action, letter.at) for letter in seen.messages.values()] == [
        ("REDRIVE", 2.0)
    ]


def test_letters_that_do_not_fit_in_are_counted() -> None:
    many = [(str(number), BACK) for number in range(MOST_OBSERVED + 3)]
    seen = Observed(1.0).with_judged(many, 2.0)
    assert (len(seen.messages), seen.more) == (MOST_OBSERVED, 3)
    # 36 characters an id, and an item holds 400 KB.
    assert len(to_text(seen)) < 150_000


@pytest.mark.parametrize(
    ("decision", "where"),
    [
        (replace(BACK, rule="slow"), WouldGo("REDRIVE", "main queue", "slow")),
        (Hold("circuit:orders", 9.0, "x"), WouldGo("HOLD", "lane circuit:orders")),
        (Divert("vip", "x", "r"), WouldGo("DIVERT", "dedicated DLQ vip", "r")),
        (GIVEN_UP, WouldGo("PARK", "POISON")),
    ],
)
def test_each_decision_says_where_its_letter_would_go(decision: Decision, where: WouldGo) -> None:
    assert would_go(decision) == where


def test_what_was_observed_survives_its_text() -> None:
    seen = Observed(1.0, more=4).with_judged([("a", BACK), ("b", GIVEN_UP), ("c", BACK)], 2.0)
    assert from_text(to_text(seen), 1.0) == seen


DANGLING = json.dumps({"places": [], "messages": {"a": [0, 1]}, "more": 0})


@pytest.mark.parametrize("text", ["", "[]", "{}", DANGLING])
def test_what_cannot_be_read_starts_again(text: str) -> None:
    assert from_text(text, 5.0) == Observed(5.0)
