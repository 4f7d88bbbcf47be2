"""Looking costs: SQS leaves a letter that was received three times out of its queue's age."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.contract import Mode
from tests.simulation.stage import Stage
from tests.simulation.test_bounded_receives import dead, memory, minutes, receives
from tests.simulation.test_redriver import NoRouter, changed


@pytest.fixture
def stage() -> Stage:
    return changed(Stage(), mode=Mode.OBSERVE)


def test_observing_looks_twice_at_each_letter_and_then_leaves_them_alone(stage: Stage) -> None:
    dead(stage, 3)
    reports = minutes(stage, 60)
    assert [report.counts.get("LookedAt", 0) for report in reports[:4]] == [3, 3, 0, 0]
    assert receives(stage) == 2
    assert reports[-1].stopped == (
        "looked twice at what is there, because each look hides a message from its queue's age;"
        " `dlq retry --auto` looks again"
    )
    assert all(report.ended_well for report in reports)
    assert memory(stage).looks == 6


def test_the_age_of_the_queue_stays_while_it_is_observed(stage: Stage) -> None:
    dead(stage, 3)
    minutes(stage, 60)
    dlq = stage.dlq.rpartition("/")[2]
    assert stage.sqs.measures()[dlq].age >= 3_600 - 60


def test_a_large_queue_is_looked_at_in_samples(stage: Stage) -> None:
    dead(stage, 130)
    looks = [report.counts.get("LookedAt", 0) for report in minutes(stage, 5)]
    assert looks == [100, 100, 60, 0, 0]


def test_a_person_who_asks_looks_again(stage: Stage) -> None:
    dead(stage, 3)
    minutes(stage, 5)
    report = stage.run(asked=True)
    assert report.decisions == {"REDRIVE": 3}
    assert memory(stage).looks == 9
    assert minutes(stage, 1)[0].counts.get("LookedAt", 0) == 0


def test_new_letters_are_looked_at_and_an_empty_queue_forgets_the_looks(stage: Stage) -> None:
    dead(stage, 3)
    minutes(stage, 5)
    dead(stage, 2)
    assert sum(report.counts.get("LookedAt", 0) for report in minutes(stage, 5)) == 4
    for message in stage.take(stage.dlq):
        stage.sqs.delete_message(QueueUrl=stage.dlq, ReceiptHandle=message["ReceiptHandle"])
    began = stage.clock()
    minutes(stage, 1)
    known = memory(stage)
    assert (known.looks, known.oldest, known.emptied_at) == (0, None, began)
    dead(stage, 1)
    assert minutes(stage, 1)[0].decisions == {"REDRIVE": 1}


def test_the_oldest_letter_that_was_looked_at_is_remembered(stage: Stage) -> None:
    sent = stage.clock()
    dead(stage, 1)
    stage.clock.advance(500)
    dead(stage, 2)
    minutes(stage, 10)
    assert memory(stage).oldest == sent


def test_looks_without_an_answer_of_the_router_count_as_well(stage: Stage) -> None:
    dead(stage, 3)
    minutes(stage, 10, router=NoRouter())
    assert receives(stage) == 1
    assert memory(stage).looks == 3


def test_dry_runs_count_their_looks(stage: Stage) -> None:
    changed(stage, mode=Mode.ENFORCE)
    dead(stage, 3)
    for _ in range(2):
        assert stage.run(dry_run=True, asked=True).counts["LookedAt"] == 3
    assert memory(stage).looks == 6
    report: Any = stage.run()
    assert report.moved == 3
