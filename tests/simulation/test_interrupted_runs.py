"""Runs that are cut off or get no answer at one call, and what the next run makes of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.journal import DynamoDBJournal
from deadletter.redrive.journal import GRACE, OUT_OF_ROOM, Intent, Plan, key_of
from deadletter.redrive.report import Report
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import RetryPolicy
from deadletter.testing.fakes import client_error
from tests.simulation.stage import Stage
from tests.tables import LETTERS, RULES

BODY = '{"tenantId": "a"}'
LOCKS_END = 300
"""Seconds after which no lease, no lock and no intent of an earlier run holds a letter back."""

Strike = Callable[[str, dict[str, Any]], str | None]
"""Says by a call's name and arguments what happens to it: it is "refused", its answer is "lost",
or the function is "cut" before the call takes effect or has ended "after" it."""


class FunctionEnded(BaseException):
    """Lambda has ended the function."""


class Struck:
    """A client some of whose calls are struck."""

    def __init__(self, client: Any, strike: Strike) -> None:
        self._client, self._strike = client, strike

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._client, name)
        if not callable(act):
            return act

        def call(**options: Any) -> Any:
            fault = self._strike(name, options)
            if fault == "cut":
                raise FunctionEnded
            if fault == "refused":
                raise client_error(name, "InternalServerError", "not applied", status=500)
            answer = act(**options)
            if fault == "after":
                raise FunctionEnded
            if fault == "lost":
                raise client_error(name, "InternalServerError", "applied", status=500)
            return answer

        return call


def run(stage: Stage, strike: Strike = lambda *_: None) -> Report | None:
    """One run whose calls may be struck; None if it was cut off. Then its locks end."""
    sqs, dynamodb = stage.redriver_sqs, stage.dynamodb
    struck_sqs: Any = Struck(sqs, strike)
    struck_dynamodb: Any = Struck(dynamodb, strike)
    stage.redriver_sqs, stage.dynamodb = struck_sqs, struck_dynamodb
    try:
        return stage.run()
    except FunctionEnded:
        return None
    finally:
        stage.redriver_sqs, stage.dynamodb = sqs, dynamodb
        stage.clock.advance(LOCKS_END)


def is_mark(name: str, options: dict[str, Any]) -> bool:
    return name == "update_item" and options["Key"]["pk"]["S"].endswith("#journal")


def at(number: int, fault: str) -> tuple[Strike, list[str]]:
    """A fault at one call, and the names of the calls so far."""
    calls: list[str] = []

    def strike(name: str, _options: dict[str, Any]) -> str | None:
        calls.append(name)
        return fault if len(calls) == number + 1 else None

    return strike, calls


def dead_letter() -> Stage:
    """A stage with one letter in its DLQ."""
    stage = Stage()
    stage.put(BODY)
    stage.fail()
    return stage


def due_letter() -> Stage:
    """A stage with one letter whose wait in the waiting room has ended."""
    stage = Stage()
    policy = RetryPolicy(Backoff(base=3_600, factor=1, cap=3_600, floor=3_600), 3)
    stage.pipeline = replace(stage.pipeline, policy=policy)
    stage.put(BODY)
    stage.fail()
    stage.run()
    assert len(stage.waiting()) == 1
    stage.clock.advance(3_700)
    return stage


def everywhere(stage: Stage) -> list[str]:
    """The copies of all letters, but for what waits in the room."""
    return [*stage.bodies(stage.main), *stage.bodies(stage.dlq), *stage.bodies(stage.parking)]


PLACES = pytest.mark.parametrize("place", [dead_letter, due_letter])


@PLACES
@pytest.mark.parametrize("fault", ["refused", "lost"])
def test_a_letter_whose_mark_is_not_confirmed_is_deleted_all_the_same(
    place: Callable[[], Stage], fault: str
) -> None:
    """It is safe elsewhere. What stays would be sent a second time."""
    stage = place()
    report = run(stage, lambda name, options: fault if is_mark(name, options) else None)
    assert report is not None
    assert report.counts["JournalUnavailable"] == 1
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]
    assert stage.waiting() == []
    later = run(stage)
    assert later is not None
    assert (later.moved, later.counts.get("PossibleDuplicate", 0)) == (0, 0)
    assert stage.bodies(stage.main) == [BODY]


@PLACES
def test_a_run_that_ends_between_send_and_mark_sends_twice_and_the_next_says_so(
    place: Callable[[], Stage],
) -> None:
    stage = place()
    assert run(stage, lambda name, options: "cut" if is_mark(name, options) else None) is None
    report = run(stage)
    assert report is not None
    assert report.counts["PossibleDuplicate"] == 1
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY, BODY]


@PLACES
@pytest.mark.parametrize("fault", ["cut", "after"])
def test_a_marked_letter_is_never_sent_again_wherever_the_next_run_ends(
    place: Callable[[], Stage], fault: str
) -> None:
    """The run that takes over may be cut off itself: the marks must outlive it too."""
    number, struck = 0, True
    while struck:
        stage = place()
        assert run(stage, lambda name, options: "after" if is_mark(name, options) else None) is None
        strike, calls = at(number, fault)
        reports = [run(stage, strike), run(stage), run(stage)]
        struck = len(calls) > number
        where = f"{fault} at {calls[number : number + 1]}, call {number}"
        assert everywhere(stage) == stage.bodies(stage.main) == [BODY], where
        assert stage.waiting() == [], where
        counted = [report.counts.get("PossibleDuplicate", 0) for report in reports if report]
        assert not any(counted), where
        number += 1
    assert number > 6


def is_intent(name: str, options: dict[str, Any]) -> bool:
    return name == "put_item" and options["Item"]["pk"]["S"].endswith("#journal")


def is_question(name: str, options: dict[str, Any]) -> bool:
    return name == "query" and options["TableName"] == RULES


def is_receive(name: str, _options: dict[str, Any]) -> bool:
    return name == "receive_message"


@pytest.mark.parametrize("is_slow", [is_receive, is_question, is_intent])
def test_nothing_is_sent_after_a_slow_call_that_the_function_cannot_live_to_mark(
    is_slow: Callable[[str, dict[str, Any]], bool],
) -> None:
    """Each step looks at the clock itself: the one before it may have taken the time."""
    stage = dead_letter()
    calls: list[str] = []

    def slowly(name: str, options: dict[str, Any]) -> str | None:
        calls.append("put_item of an intent" if is_intent(name, options) else name)
        if is_slow(name, options):
            stage.clock.advance(53)
        return None

    assert run(stage, slowly) is not None
    assert "send_message_batch" not in calls
    assert ("put_item of an intent" in calls) is (is_slow is is_intent)
    assert everywhere(stage) == stage.bodies(stage.dlq) == [BODY]
    assert run(stage) is not None
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]


def test_a_shard_in_which_another_run_works_is_left_alone_until_its_locks_end() -> None:
    stage = due_letter()

    def after_claim(name: str, options: dict[str, Any]) -> str | None:
        return "after" if is_intent(name, options) else None

    assert run(stage, after_claim) is None
    [claim] = stage.journal()
    stage.dynamodb.delete_item(TableName=LETTERS, Key={"pk": claim["pk"], "sk": claim["sk"]})
    ends = stage.clock() + LOCKS_END + 60
    plans = (Plan(key_of("another copy"), OUT_OF_ROOM, 0),)
    theirs = Intent(claim["sk"]["S"], "another run", 1, ends, plans)
    journal = DynamoDBJournal(stage.clients.dynamodb, LETTERS, "orders", 1e6)
    journal.write(theirs, None)
    assert run(stage) is not None
    assert (journal.read(), len(stage.waiting())) == ([theirs], 1)
    # Its last send may still be marked, and its clock may be behind.
    stage.clock.now = ends + GRACE - 5
    stage.run()
    assert len(stage.waiting()) == 1
    stage.clock.now = ends + GRACE
    assert run(stage) is not None
    assert everywhere(stage) == stage.bodies(stage.main) == [BODY]


def test_a_delete_that_is_answered_after_the_lock_is_not_believed() -> None:
    """By then SQS may have shown the copy again: it accepts the old handle and keeps the copy."""
    stage = dead_letter()

    def slowly(name: str, _options: dict[str, Any]) -> str | None:
        if name == "delete_message_batch":
            stage.clock.advance(LOCKS_END)
        return None

    assert run(stage, slowly) is not None
    assert stage.bodies(stage.main) == [BODY]
    # The mark stays, for the run that sees the copy again.
    assert len(stage.journal()) == 1
