"""Letters of a run that go straight to the consumer, or out of the world."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.aws.consumer_function import LambdaDelivery, fates_in
from deadletter.aws.journal import DynamoDBJournal
from deadletter.contract import CAUSES, ROWS_KEPT, Category
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import RecordsUnavailable
from deadletter.message.letter import Letter
from deadletter.message.stamp import NAME, parse
from deadletter.redrive.journal import (
    GRACE,
    ROOM,
    ClaimLost,
    JournalUnavailable,
    OpenIntents,
    Slot,
    key_of,
)
from deadletter.redrive.journal import Plan as JournalPlan
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay.carriers import Delivering, DirectAnswer, DirectFate, Discarding
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.plan import DELIVER, DISCARD, ReplayPlan
from deadletter.replay.ticket import ReplayOutcome, TicketsUnavailable
from deadletter.signals.figures import Count, Figure
from deadletter.testing.fakes import MemoryLambda
from tests.each_row import each_row
from tests.replay.bench import ReplayBench
from tests.tables import LETTERS

DIRECT = replace(ReplayPlan(pipeline="orders", retry_after=0.0), destination=DELIVER, ordered=True)


@dataclass
class Answers:
    """A consumer that gives these answers, the last one again and again."""

    answers: list[DirectFate]
    retry_after: float = 0.0
    timeout: float = 30.0
    got: list[int] = field(default_factory=list)
    attempts: list[int] = field(default_factory=list)

    def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
        fate = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        for letter in letters:
            mark = parse(str(letter.attributes[NAME].value))
            assert mark is not None
            assert mark.run == run
            self.got.append(json.loads(letter.body)["number"])
            self.attempts.append(mark.attempt)
        return DirectAnswer({letter.message_id: fate for letter in letters}, self.retry_after)


def delivering(bench: ReplayBench, consumer: Answers) -> Delivering:
    return Delivering(
        consumer=consumer,
        room=bench.room,
        run=bench.run_id,
        clock=bench.clock,
        tally=bench.tally,
    )


def test_each_key_is_delivered_in_order_and_its_fate_is_known_at_once() -> None:
    bench = ReplayBench(["a", "a", "b", "a"], DIRECT)
    consumer = Answers([DirectFate.RECOVERED])
    report = bench.work(10, carrier=delivering(bench, consumer))
    assert report.done
    assert [number for number in consumer.got if number != 2] == [0, 1, 3]
    assert set(bench.outcomes().values()) == {ReplayOutcome.RECOVERED}
    assert bench.in_lane() == bench.stage.bodies(bench.stage.main) == []
    assert bench.stage.journal() == []
    assert bench.reconcile().unaccounted == 0


def test_a_failed_delivery_is_tried_again_until_the_letter_is_quarantined() -> None:
    bench = ReplayBench(["a", "a"], replace(DIRECT, attempts=2))
    consumer = Answers([DirectFate.FAILED, DirectFate.FAILED, DirectFate.DUPLICATE])
    report = bench.work(20, carrier=delivering(bench, consumer))
    assert (consumer.got, consumer.attempts) == ([0, 0, 1], [1, 2, 1])
    assert report.returned == 2
    assert bench.outcomes() == {0: ReplayOutcome.QUARANTINED, 1: ReplayOutcome.DUPLICATE}
    assert len(bench.stage.bodies(bench.stage.parking)) == 1


def test_a_letter_without_an_answer_is_left_alone_until_its_intent_has_ended() -> None:
    bench = ReplayBench([""], DIRECT)
    consumer = Answers([DirectFate.UNKNOWN, DirectFate.DUPLICATE])
    carrier = delivering(bench, consumer)
    bench.work(20, carrier=carrier)
    bench.work(20, carrier=carrier)
    assert consumer.got == [0]
    bench.clock.advance(60)
    assert bench.work(20, carrier=carrier).done
    assert consumer.got == [0, 0]
    assert bench.tally.count_of(Figure.POSSIBLE_DUPLICATE) == 1


def test_a_worker_that_got_no_answer_counts_a_possible_duplicate_when_it_tries_again() -> None:
    """It has read the journal before, and holds the claim: what it knows itself counts too."""
    bench = ReplayBench([""], DIRECT)
    consumer = Answers([DirectFate.UNKNOWN, DirectFate.DUPLICATE])
    assert bench.work(200, carrier=delivering(bench, consumer)).done
    assert consumer.got == [0, 0]
    assert bench.tally.count_of(Figure.POSSIBLE_DUPLICATE) == 1


def test_a_receiver_that_asks_for_a_pause_gets_it() -> None:
    bench = ReplayBench([""], DIRECT)
    consumer = Answers([DirectFate.UNTRIED], retry_after=60.0)
    bench.work(30, carrier=delivering(bench, consumer))
    assert consumer.got == [0]


@pytest.mark.parametrize(("most", "batches"), [(200, [2, 2]), (199, [1, 1, 1, 1])])
def test_an_invocation_takes_as_many_letters_as_fit_into_it(most: int, batches: list[int]) -> None:
    bench = ReplayBench(["a"] * 4, replace(DIRECT, ordered=False))
    took: list[int] = []

    class Noting(Answers):
        def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
            took.append(len(letters))
            return super().deliver(letters, run)

    with of_a_hundred_bytes_each(most):
        bench.work(10, carrier=delivering(bench, Noting([DirectFate.RECOVERED])))
    assert took == batches


@pytest.mark.parametrize(("seconds", "pause"), [(0.0, 60.0), (60.0, 0.0)])
def test_no_invocation_begins_too_late_or_in_a_pause_behind_another(
    seconds: float, pause: float
) -> None:
    """Neither after the grant has ended, nor if the receiver asks for a pause."""
    bench = ReplayBench(["a"] * 4, replace(DIRECT, ordered=False))

    class Slow(Answers):
        def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
            bench.clock.advance(seconds)
            return super().deliver(letters, run)

    consumer = Slow([DirectFate.RECOVERED], retry_after=pause)
    with of_a_hundred_bytes_each(100):
        bench.work(30, carrier=delivering(bench, consumer))
    assert len(consumer.got) == 1
    assert len(bench.in_lane()) == 3


@contextmanager
def of_a_hundred_bytes_each(most: int) -> Iterator[None]:
    """Letters of 100 bytes, and invocations that take so many bytes."""
    module = "deadletter.replay.carriers"
    with patch(f"{module}.request_bytes", return_value=100), patch(f"{module}.MAX_REQUEST", most):
        yield


def test_what_was_processed_is_not_delivered_again_although_its_ticket_is_late() -> None:
    bench = ReplayBench([""], DIRECT)
    consumer = Answers([DirectFate.ACCEPTED])

    class LatePuts:
        def __init__(self) -> None:
            self.tickets = bench.tickets
            self.read, self.settle = self.tickets.read, self.tickets.settle
            self.refused = 2

        def put(self, tickets: Any) -> None:
            if self.refused:
                self.refused -= 1
                raise TicketsUnavailable("throttled")
            self.tickets.put(tickets)

    report = bench.work(30, carrier=delivering(bench, consumer), tickets=LatePuts())
    assert (consumer.got, report.done) == ([0], True)
    assert bench.outcomes() == {0: ReplayOutcome.DELIVERED}


def test_a_delivery_whose_ticket_was_never_written_ends_as_the_consumer_says() -> None:
    """The answer was lost with its worker: the next one finds the mark, and asks the ledger."""
    bench = ReplayBench([""], DIRECT)

    class NoPuts:
        def __init__(self) -> None:
            self.read, self.settle = bench.tickets.read, bench.tickets.settle

        def put(self, tickets: Any) -> None:
            raise TicketsUnavailable("throttled")

    bench.work(6, carrier=delivering(bench, Answers([DirectFate.PARKED])), tickets=NoPuts())
    bench.ledger.parked(bench.names[0].origin, 1, bench.clock(), "PERMANENT")
    bench.clock.advance(120)
    consumer = Answers([DirectFate.RECOVERED])
    assert bench.work(30, carrier=delivering(bench, consumer)).done
    assert consumer.got == []
    assert bench.outcomes() == {0: ReplayOutcome.PARKED}


def test_what_was_processed_is_on_record_although_another_worker_has_the_shard_by_then() -> None:
    bench = ReplayBench([""], DIRECT)
    [name] = bench.names

    class Slow(Answers):
        def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
            bench.clock.advance(120)
            assert bench.claim(name.shard).take([name.copy], bench.clock()) is not None
            return super().deliver(letters, run)

    consumer = Slow([DirectFate.RECOVERED])
    report = bench.work(200, carrier=delivering(bench, consumer))
    assert (report.done, report.ended_well) == (True, True)
    assert bench.outcomes() == {0: ReplayOutcome.RECOVERED}
    assert bench.in_lane() == []


@pytest.mark.parametrize("keep_export", [True, False])
def test_discarded_letters_are_gone_and_may_leave_an_export(keep_export: bool) -> None:
    plan = ReplayPlan(
        pipeline="orders",
        destination=DISCARD,
        source="lane:parked",
        keep_export=keep_export,
        who="ann",
        why="the sale is over",
    )
    bench = ReplayBench(["", "a"], plan)
    bench.stage.set_circuit("OPEN")
    for name in bench.names:
        bench.ledger.failed(name.origin, Failure(bench.clock(), 0, Category.TRANSIENT))
    discarding = Discarding(
        objects=bench.objects,
        plan=plan,
        records=bench.ledger,
        clock=bench.clock,
        tally=bench.tally,
    )
    assert bench.work(10, carrier=discarding).done
    assert set(bench.outcomes().values()) == {ReplayOutcome.DISCARDED}
    rows = bench.stage.dynamodb.items(LETTERS)
    assert not [item for item in rows if CAUSES.partition in item]
    assert bench.stage.waiting() == []
    export = bench.objects.get(f"discarded/{bench.names[0].copy}.json")
    assert (export is not None) is keep_export
    if export is not None:
        kept = json.loads(export)
        assert json.loads(kept["message"]["body"]) == {"number": 0, "key": ""}
        why = (kept["discarded"]["by"], kept["discarded"]["because"])
        assert why == ("ann", "the sale is over")


def test_a_worker_that_was_paused_does_not_discard_what_an_abort_has_parked() -> None:
    bench = ReplayBench([""], replace(ReplayPlan(pipeline="orders"), destination=DISCARD))
    [name] = bench.names

    class Paused:
        def put(self, name_of_object: str, data: bytes) -> None:
            bench.abort()
            bench.clock.advance(200)
            bench.leave()

    paused: Any = Paused()
    carrier = Discarding(
        objects=paused,
        plan=bench.plan,
        records=bench.ledger,
        clock=bench.clock,
        tally=bench.tally,
    )
    bench.work(10, carrier=carrier)
    assert [item["copy"]["S"] for item in bench.stage.waiting()] == [name.copy]
    assert bench.in_lane() == []


def test_of_a_discarded_letter_the_copy_in_its_queue_is_known_to_be_done() -> None:
    """The process that put it into the room was killed before it deleted it from its queue."""
    bench = ReplayBench(["", ""], replace(ReplayPlan(pipeline="orders"), destination=DISCARD))
    left, other = (name.copy for name in bench.names)
    journal = DynamoDBJournal(bench.stage.clients.journal, LETTERS, "orders", ROWS_KEPT)
    killed = Slot(journal, "killed.0", "killed", home="dlq")
    killed.intend([JournalPlan(key_of(left), ROOM, 0)], bench.clock())
    bench.clock.advance(GRACE + 1)
    carrier = Discarding(
        objects=bench.objects,
        plan=bench.plan,
        records=bench.ledger,
        clock=bench.clock,
        tally=bench.tally,
    )
    assert bench.work(10, carrier=carrier).done
    intents = OpenIntents(journal.read(), bench.clock())
    assert intents.record_of(left).mark is not None
    assert not intents.record_of(other).is_named


@pytest.mark.parametrize("ordered", [False, True])
def test_a_discard_without_the_ledger_leaves_what_others_of_its_key_wait_for(ordered: bool) -> None:
    plan = ReplayPlan(
        pipeline="orders", destination=DISCARD, source="lane:parked", keep_export=False
    )
    bench = ReplayBench([""], plan)

    class Silent:
        def leave_index(self, *of: object) -> None:
            raise RecordsUnavailable(f"no answer about {of}")

        note_discarded = leave_index

    records: Any = Silent()
    discarding = Discarding(
        objects=bench.objects,
        plan=plan,
        records=records,
        clock=bench.clock,
        tally=bench.tally,
        ordered=ordered,
    )
    assert bench.work(10, carrier=discarding).done is not ordered
    assert len(bench.stage.waiting()) == int(ordered)


def test_the_function_gets_a_believable_stamp_and_its_run() -> None:
    bench = ReplayBench([""], DIRECT)
    events: list[Any] = []

    def consume(event: Any, context: Any) -> Any:
        events.append((event, context.client_context.custom))
        [record] = event["Records"]
        return {"deadletter": {"outcomes": {record["messageId"]: "recovered"}, "retry_after": 2}}

    functions: Any = MemoryLambda(bench.clock, bench.stage.world.new_id)
    functions.register("consumer", consume)
    consumer = LambdaDelivery(
        functions, "consumer", source_arn="arn:aws:sqs:x:1:orders", sender="AROAME", timeout=5.0
    )
    letter = Letter("id", "{}", {}, {"SenderId": "AIDAPRODUCER"})
    answer = consumer.deliver([letter], "run1")
    assert answer == DirectAnswer({"id": DirectFate.RECOVERED}, 2.0)
    [(event, custom)] = events
    assert custom == {"replay": "run1"}
    assert event["Records"][0]["attributes"]["SenderId"] == "AROAME"


@each_row(
    ("response", "fates"),
    [
        (None, {"a": "accepted", "b": "accepted"}),
        ({"batchItemFailures": [{"itemIdentifier": "a"}]}, {"a": "failed", "b": "accepted"}),
        ({"batchItemFailures": [{"itemIdentifier": "?"}]}, {"a": "failed", "b": "failed"}),
        ({"deadletter": {"outcomes": {"a": "duplicate", "z": "failed"}}}, {"a": "duplicate"}),
        ({"deadletter": {"outcomes": {"a": "wonderful"}}}, {}),
        ("text", {}),
    ],
)
def test_a_response_says_what_became_of_each_letter(response: Any, fates: dict[str, str]) -> None:
    assert fates_in(json.dumps(response).encode(), ["a", "b"]).fates == fates


def test_a_response_that_cannot_be_read_says_nothing() -> None:
    for payload in (b"<html>", b"[" * 100_000):
        assert fates_in(payload, ["a"]) == DirectAnswer()


def test_a_letter_whose_export_is_refused_is_not_discarded() -> None:
    plan = ReplayPlan(pipeline="orders", destination=DISCARD, source="lane:parked")
    bench = ReplayBench(["", ""], plan)
    refused, other = (name.copy for name in bench.names)

    class Refusing:
        def put(self, name: str, data: bytes) -> None:
            if refused in name:
                raise ObjectsUnavailable("SlowDown")
            bench.objects.put(name, data)

    objects: Any = Refusing()
    discarding = Discarding(
        objects=objects,
        plan=plan,
        records=bench.ledger,
        clock=bench.clock,
        tally=bench.tally,
    )
    report = bench.work(10, carrier=discarding)
    assert (report.sent, report.done) == (1, False)
    assert bench.in_lane() == [refused]
    assert bench.outcomes() == {0: ReplayOutcome.OPEN, 1: ReplayOutcome.DISCARDED}
    assert [stored.name for stored in bench.objects.listed("discarded/")] == [
        f"discarded/{other}.json"
    ]
    assert bench.tally.report("orders", "dlq", "").trouble == "SlowDown"


def test_no_export_begins_after_the_grant_has_ended() -> None:
    plan = ReplayPlan(pipeline="orders", destination=DISCARD, source="lane:parked")
    bench = ReplayBench(["a"] * 3, plan)
    exported: list[str] = []

    class Slow:
        def put(self, name: str, data: bytes) -> None:
            bench.clock.advance(20)
            exported.append(name)

    objects: Any = Slow()
    carrier = Discarding(
        objects=objects, plan=plan, records=bench.ledger, clock=bench.clock, tally=bench.tally
    )
    bench.work(20, carrier=carrier)
    assert len(exported) == 1
    assert len(bench.in_lane()) == 2


@pytest.mark.parametrize("error", [JournalUnavailable, ClaimLost])
@pytest.mark.parametrize("destination", [DISCARD, DELIVER])
def test_what_is_done_is_done_although_its_mark_is_refused(
    error: type[Exception], destination: str
) -> None:
    bench = ReplayBench([""], replace(DIRECT, destination=destination))
    discards = Discarding(
        objects=bench.objects,
        plan=bench.plan,
        records=bench.ledger,
        clock=bench.clock,
        tally=bench.tally,
    )
    delivers = delivering(bench, Answers([DirectFate.RECOVERED]))
    with (
        patch.object(Slot, "mark", side_effect=error("throttled")),
        patch.object(Slot, "keeps", return_value=True),
    ):
        report = bench.work(10, carrier=discards if destination == DISCARD else delivers)
    assert (report.done, report.sent, bench.in_lane()) == (True, 1, [])
    assert bench.tally.count_of(Count.JOURNAL_UNAVAILABLE) == 1


def test_a_failed_try_that_cannot_be_counted_is_none_of_the_letters_few() -> None:
    bench = ReplayBench([""], replace(DIRECT, attempts=1))

    class Refusing:
        def postpone(self, _order: Order) -> None:
            raise RoomUnavailable("throttled")

    room: Any = Refusing()
    consumer = Answers([DirectFate.FAILED])
    carrier = Delivering(
        consumer=consumer, room=room, run=bench.run_id, clock=bench.clock, tally=bench.tally
    )
    report = bench.work(5, carrier=carrier)
    assert (report.sent, report.returned) == (0, 0)
    assert consumer.attempts == [1]
    assert len(bench.in_lane()) == 1
    assert bench.tally.report("orders", "dlq", "").trouble == "throttled"


def test_a_letter_that_failed_lies_in_the_lane_of_its_run_with_the_stamp_of_its_try() -> None:
    bench = ReplayBench(["a"], replace(DIRECT, retry_after=60.0))
    bench.work(5, carrier=delivering(bench, Answers([DirectFate.FAILED])))
    [item] = bench.stage.waiting()
    mark = parse(item["stamp"]["S"])
    assert mark is not None
    assert (mark.attempt, mark.decision, mark.ticket, mark.run) == (1, "HOLD", None, bench.run_id)
    assert bench.in_lane() == [bench.names[0].copy]
    assert item["lane"]["S"].endswith(f"|{bench.names[0].shard}")
