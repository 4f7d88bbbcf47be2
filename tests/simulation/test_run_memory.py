"""Runs read what earlier runs have left of a source, and record their own end."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.redrive.source_memory import SourceMemory
from tests.simulation.stage import Stage
from tests.simulation.test_redriver import NoRouter
from tests.tables import LETTERS


@pytest.fixture
def stage() -> Stage:
    return Stage()


def memory(stage: Stage, home: str = "dlq") -> SourceMemory:
    dynamodb: Any = stage.dynamodb
    return DynamoDBWatchStore(dynamodb, LETTERS, "orders").read()[1][home]


def test_a_run_with_nothing_to_do_records_its_end_and_that_the_queue_was_empty(
    stage: Stage,
) -> None:
    began = stage.clock()
    report = stage.run()
    known = memory(stage)
    assert report.ended_well
    assert known.stopped == "nothing to do"
    assert known.ended_at == known.ended_well_at == stage.clock()
    assert known.emptied_at == began


def test_a_run_that_drains_the_queue_remembers_when_it_began(stage: Stage) -> None:
    stage.put()
    stage.fail()
    began = stage.clock()
    assert stage.run().moved == 1
    assert memory(stage).emptied_at == began
    assert memory(stage).oldest is None


def test_a_queue_of_which_another_receiver_holds_a_letter_is_not_empty(stage: Stage) -> None:
    stage.put(url=stage.dlq)
    stage.take(stage.dlq, hide=600)
    assert stage.run().stopped.startswith("1 message of the queue is in flight")
    assert memory(stage).emptied_at is None


def test_a_letter_that_stays_is_remembered_by_its_age(stage: Stage) -> None:
    sent = stage.clock()
    stage.put(url=stage.dlq)
    stage.clock.advance(100)
    stage.put(url=stage.dlq)
    report = stage.run(router=NoRouter())
    known = memory(stage)
    assert known.oldest == sent
    assert (known.ended_well_at, known.trouble) == (None, "down")
    assert known.stopped == report.stopped == "the router gave no answer: down"
    assert known.fruitless == 1


def test_a_run_that_is_refused_the_lease_ends_well_and_says_so(stage: Stage) -> None:
    stage.put()
    stage.fail()
    held = {"own": {"S": "another"}, "until": {"N": str(int(stage.clock()) + 60)}}
    key = {"pk": {"S": "orders#lease"}, "sk": {"S": "dlq"}}
    stage.dynamodb.put_item(TableName=LETTERS, Item={**key, **held})
    assert stage.run().ended_well
    assert memory(stage).stopped == "another run holds the lease"


def test_a_metric_that_needs_a_person_is_remembered_with_its_time(stage: Stage) -> None:
    stage.put("x" * 300_000)
    stage.fail()
    stage.sqs.set_queue_attributes(
        QueueUrl=stage.parking, Attributes={"MaximumMessageSize": "262144"}
    )
    stage.run()
    assert memory(stage).troubles == {"Unsendable": pytest.approx(stage.clock(), abs=60)}


def test_a_dry_run_is_no_run_of_the_schedule(stage: Stage) -> None:
    stage.put(url=stage.dlq)
    sent = stage.clock()
    stage.run(dry_run=True)
    known = memory(stage)
    assert (known.ended_at, known.ended_well_at) == (None, None)
    assert known.oldest == sent


class Waits:
    """The queue's client, which notes for how many seconds each poll waits."""

    def __init__(self, client: Any) -> None:
        self._client, self.seconds = client, list[int]()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._client, name)

    def receive_message(self, **request: Any) -> Any:
        self.seconds.append(request["WaitTimeSeconds"])
        return self._client.receive_message(**request)


def test_runs_of_an_empty_queue_wait_a_second_once_in_ten_minutes(stage: Stage) -> None:
    stage.redriver_sqs = waits = Waits(stage.redriver_sqs)  # type: ignore[assignment]
    for _ in range(30):
        began = stage.clock()
        assert stage.run().stopped == "nothing to do"
        stage.clock.advance(60 - (stage.clock() - began))
    assert waits.seconds.count(1) in (3, 4)
    assert waits.seconds.count(0) == 30 - waits.seconds.count(1)


def test_a_letter_that_came_since_the_queue_was_empty_is_found_by_the_next_run(
    stage: Stage,
) -> None:
    stage.run()
    stage.clock.advance(60)
    stage.put(url=stage.dlq)
    assert stage.run().moved == 1


def test_the_queue_is_waited_for_if_another_receiver_holds_a_letter_or_a_person_asks(
    stage: Stage,
) -> None:
    stage.run()
    stage.redriver_sqs = waits = Waits(stage.redriver_sqs)  # type: ignore[assignment]
    stage.clock.advance(60)
    stage.run(asked=True)
    stage.put(url=stage.dlq)
    stage.take(stage.dlq, hide=600)
    stage.clock.advance(60)
    stage.run()
    assert waits.seconds == [1, 1]
