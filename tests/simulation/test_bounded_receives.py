"""While a run can do nothing, letters are not received again and again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import SourceMemory
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.fakes import client_error
from tests.simulation.stage import Stage, prompt_policy
from tests.simulation.test_redriver import NoRouter, changed, slow_policy
from tests.tables import CIRCUITS, LETTERS

Matches = Callable[[dict[str, Any]], bool]


@pytest.fixture
def stage() -> Stage:
    return Stage()


def names(text: str) -> Matches:
    return lambda options: text in str(options)


@contextmanager
def refused(client: Any, operation: str, matches: Matches = lambda _: True) -> Iterator[None]:
    """Calls of one operation are denied if they match."""
    real = getattr(client, operation)
    action = "".join(word.capitalize() for word in operation.split("_"))

    def call(**options: Any) -> Any:
        if matches(options):
            raise client_error(action, "AccessDeniedException", "no", status=403)
        return real(**options)

    with patch.object(client, operation, call):
        yield


def dead(stage: Stage, letters: int, body: str = '{"tenantId": "a"}') -> None:
    for _ in range(letters):
        stage.put(body, url=stage.dlq)


def minutes(stage: Stage, number: int, **options: Any) -> list[Report]:
    """So many runs, one a minute."""
    reports = []
    for _ in range(number):
        began = stage.clock()
        reports.append(stage.run(**options))
        stage.clock.advance(max(0.0, began + 60 - stage.clock()))
    return reports


def receives(stage: Stage) -> int:
    """How often the letter of the DLQ was received that was received most often."""
    dlq = stage.dlq.rpartition("/")[2]
    return max(message.receive_count for message in stage.sqs.snapshot() if message.queue == dlq)


def memory(stage: Stage) -> SourceMemory:
    dynamodb: Any = stage.dynamodb
    return DynamoDBWatchStore(dynamodb, LETTERS, "orders").read()[1]["dlq"]


def test_a_router_that_gives_no_answer_costs_a_letter_one_receive(stage: Stage) -> None:
    dead(stage, 3)
    reports = minutes(stage, 10, router=NoRouter())
    assert receives(stage) == 1
    assert not any(report.ended_well for report in reports)
    assert {report.trouble for report in reports} == {"down"}
    # The next run after the outage moves them.
    assert stage.run().moved == 3


SILENT: dict[str, Callable[[Stage], Any]] = {
    "the journal cannot be read": lambda stage: refused(
        stage.dynamodb, "query", names("orders#journal")
    ),
    "the waiting room cannot be read": lambda stage: refused(
        stage.dynamodb, "query", names("orders#lanes")
    ),
    "the lease cannot be read": lambda stage: refused(
        stage.dynamodb, "batch_get_item", names("orders#lease")
    ),
    "the lease cannot be written": lambda stage: refused(
        stage.dynamodb, "update_item", names("orders#lease")
    ),
    "the circuits cannot be read": lambda stage: refused(
        stage.dynamodb, "batch_get_item", names(CIRCUITS)
    ),
    "the rules cannot be read": lambda stage: refused(stage.dynamodb, "query", names("rules")),
    "the queue cannot be received from": lambda stage: refused(
        stage.redriver_sqs, "receive_message"
    ),
}


@pytest.mark.parametrize("outage", SILENT.values(), ids=SILENT)
def test_a_store_that_gives_no_answer_costs_a_letter_one_receive_at_most(
    stage: Stage, outage: Callable[[Stage], Any]
) -> None:
    dead(stage, 3)
    with outage(stage):
        reports = minutes(stage, 10)
        assert receives(stage) <= 1
        assert not any(report.ended_well for report in reports)
        assert all("AccessDeniedException for" in report.trouble for report in reports)
    assert stage.run().moved == 3


REFUSING: dict[str, Callable[[Stage], Any]] = {
    "the main queue takes nothing": lambda stage: refused(stage.redriver_sqs, "send_message_batch"),
    "the queue's letters cannot be deleted": lambda stage: refused(
        stage.redriver_sqs, "delete_message_batch"
    ),
    "no intent can be written": lambda stage: refused(
        stage.dynamodb, "put_item", names("orders#journal")
    ),
    "the ledger cannot be read": lambda stage: refused(
        stage.dynamodb, "batch_get_item", names("orders#ledger")
    ),
}


@pytest.mark.parametrize("outage", REFUSING.values(), ids=REFUSING)
def test_after_a_fruitless_run_the_next_tries_wait_longer_and_longer(
    stage: Stage, outage: Callable[[Stage], Any]
) -> None:
    # Otherwise the ledger is not read.
    changed(stage, consumer_library=True)
    dead(stage, 3)
    with outage(stage):
        reports = minutes(stage, 10)
        assert receives(stage) <= 3
        tries = receives(stage)
        assert not any(report.ended_well for report in reports)
        assert all("AccessDeniedException for" in report.trouble for report in reports)
        minutes(stage, 60)
        # At most one try in fifteen minutes, in the long run.
        assert receives(stage) <= tries + 5
    minutes(stage, 16)
    assert stage.bodies(stage.dlq) == []


def test_a_waiting_room_that_takes_nothing_bounds_receives_too(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    dead(stage, 3)
    with refused(stage.dynamodb, "batch_write_item"):
        reports = minutes(stage, 10)
        assert receives(stage) <= 3
        assert reports[-1].trouble.endswith("for dynamodb:BatchWriteItem on messages")
    minutes(stage, 16)
    assert len(stage.waiting()) == 3


def test_a_try_after_a_fruitless_run_takes_ten_letters_until_one_moves(stage: Stage) -> None:
    dead(stage, 30)
    with refused(stage.redriver_sqs, "send_message_batch"):
        assert minutes(stage, 1)[0].counts["Received"] == 30
        assert [report.counts.get("Received", 0) for report in minutes(stage, 4)] == [0, 0, 10, 0]
    stage.clock.advance(900)
    assert stage.run().moved == 30


def test_letters_that_wait_to_be_tried_say_why(stage: Stage) -> None:
    dead(stage, 3)
    with refused(stage.redriver_sqs, "send_message_batch"):
        minutes(stage, 1)
        report = stage.run()
    assert report.stopped == (
        "the last run moved none of its messages: the next try is in 2 minutes or with"
        " `dlq retry --auto`"
    )
    assert report.trouble == "AccessDeniedException for sqs:SendMessage on orders"
    assert memory(stage).trouble == report.trouble


def test_a_run_that_a_person_asks_for_does_not_wait(stage: Stage) -> None:
    dead(stage, 3)
    with refused(stage.redriver_sqs, "send_message_batch"):
        minutes(stage, 1)
    assert stage.run().moved == 0
    assert stage.run(asked=True).moved == 3
    assert memory(stage).fruitless == 0


def test_letters_in_the_waiting_room_wait_for_a_try_as_well(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    dead(stage, 3)
    assert stage.run().decisions == {"HOLD": 3}
    stage.clock.advance(3_700)
    with refused(stage.redriver_sqs, "send_message_batch"):
        decided = [bool(report.decisions) for report in minutes(stage, 10)]
        assert decided.count(True) == 3
    minutes(stage, 16)
    assert stage.waiting() == []


def test_one_letter_that_no_queue_takes_waits_and_its_run_still_ends_well(stage: Stage) -> None:
    stage.put("x" * 300_000, url=stage.dlq)
    stage.sqs.set_queue_attributes(
        QueueUrl=stage.parking, Attributes={"MaximumMessageSize": "262144"}
    )
    reports = minutes(stage, 10)
    assert receives(stage) <= 3
    # The letter needs a person and has an alarm of its own; the redriver does its work.
    assert all(report.ended_well for report in reports)


def test_a_queue_that_takes_none_of_its_letters_is_trouble_although_others_move(
    stage: Stage,
) -> None:
    dead(stage, 3)
    dead(stage, 1, "{")
    with refused(stage.redriver_sqs, "send_message_batch", names("/orders'")):
        [report] = minutes(stage, 1)
    assert report.counts["MessageMovedToParkingLot"] == 1
    assert not report.ended_well
    assert report.trouble == "AccessDeniedException for sqs:SendMessage on orders"


class Flapping:
    """A router that answers a question about nothing, and none about letters."""

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        if questions:
            raise RouterUnavailable("out of memory")
        return RouterAnswer(())

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        return LaneAnswer([])


def test_a_router_that_fails_only_with_letters_is_tried_less_and_less_often(
    stage: Stage,
) -> None:
    dead(stage, 3)
    minutes(stage, 10, router=Flapping())
    assert receives(stage) <= 3


def test_runs_that_are_cut_off_before_their_end_are_tried_less_and_less_often(
    stage: Stage,
) -> None:
    """The function runs out of memory as soon as it has asked the router."""

    class OutOfMemory(BaseException):
        pass

    class Killed:
        def decide(self, questions: Sequence[Question]) -> RouterAnswer:
            if questions:
                raise OutOfMemory
            return RouterAnswer(())

        def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
            return LaneAnswer([])

    dead(stage, 30)
    with patch("deadletter.aws.lease.DynamoDBLease.give_back"):
        for _ in range(10):
            began = stage.clock()
            with suppress(OutOfMemory):
                stage.run(router=Killed())
            stage.clock.advance(max(0.0, began + 60 - stage.clock()))
    assert receives(stage) <= 3
    assert memory(stage).trouble == "the last run was cut off before its end"
    assert memory(stage).fruitless >= 2
    minutes(stage, 16)
    assert stage.bodies(stage.dlq) == []
    assert memory(stage).last_ended_well


def test_a_rescue_whose_waiting_room_gives_no_answer_receives_nothing(stage: Stage) -> None:
    dead(stage, 3)
    with refused(stage.dynamodb, "query", names("orders#lanes")):
        for _ in range(5):
            assert not stage.rescue().ended_well
    assert receives(stage) == 0
    assert stage.rescue().counts["Rescued"] == 3


def test_other_letters_that_move_do_not_excuse_a_main_queue_that_takes_nothing(
    stage: Stage,
) -> None:
    dead(stage, 3)
    with refused(stage.redriver_sqs, "send_message_batch", names("/orders'")):
        for _ in range(10):
            dead(stage, 1, "{")
            minutes(stage, 1)
        assert receives(stage) <= 3
        assert memory(stage).fruitless >= 2
    minutes(stage, 16)
    assert stage.bodies(stage.dlq) == []
    assert len(stage.bodies(stage.parking)) == 10


def test_a_fifo_group_that_is_stuck_keeps_no_other_group_from_a_try() -> None:
    stage = Stage(Pipeline("orders", fifo=True, policy=prompt_policy(), workers=1))
    stage.sqs.set_queue_attributes(
        QueueUrl=stage.parking, Attributes={"MaximumMessageSize": "262144"}
    )

    def put(group: str, number: int, body: str = "{}") -> None:
        key = f"{group}{number}"
        stage.put(body, url=stage.dlq, MessageGroupId=group, MessageDeduplicationId=key)

    put("stuck", 0, "x" * 300_000)
    for number in range(1, 15):
        put("stuck", number)
    reports = minutes(stage, 10)
    assert receives(stage) <= 3
    # One letter needs a person, and the others wait behind it: the redriver does its work.
    assert all(report.ended_well for report in reports)
    put("free", 0)
    minutes(stage, 16)
    assert stage.bodies(stage.main) == ["{}"]
    assert len(stage.bodies(stage.dlq)) == 15
