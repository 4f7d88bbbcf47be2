"""What a run leaves over is sent nowhere: it is parked, or goes back to the schedule."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.objects import S3RunObjects
from deadletter.contract import DISCARDED, PARKED_LANE, ROWS_KEPT, Reason, run_lane
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import OUT_OF_ROOM, Plan, Slot, key_of
from deadletter.redrive.lane_claim import lane_slot
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import FOREVER, SHARDS, RoomUnavailable
from deadletter.replay.names import PART
from deadletter.replay.objects import ObjectsUnavailable, discarded_name
from deadletter.replay.plan import DISCARD, ReplayPlan
from deadletter.replay.run_lane import CLAIM_SECONDS
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable
from deadletter.routing.router import RouterAnswer, RouterUnavailable
from deadletter.signals.figures import Figure
from tests.replay.bench import ReplayBench, orders_pipeline
from tests.simulation.stage import Stage
from tests.tables import BUCKET, LETTERS

DISCARDS = ReplayPlan(
    pipeline="orders", source="lane:parked", destination=DISCARD, who="ann", why="wrong letters"
)


def in_room(bench: ReplayBench) -> dict[str, tuple[str, str, Stamp]]:
    """Lane, home and stamp of each letter in the waiting room, by the copy."""
    found = {}
    for item in bench.stage.waiting():
        mark = stamps.parse(item["stamp"]["S"])
        assert mark is not None
        lane = item["lane"]["S"].split("|")[1]
        found[item["copy"]["S"]] = (lane, item["home"]["S"], mark)
    return found


def test_the_letters_of_an_aborted_run_are_parked_and_nothing_is_sent() -> None:
    bench = ReplayBench(["", "a", "a"])
    bench.abort()
    assert bench.leave()
    assert bench.in_lane() == []
    assert bench.stage.bodies(bench.stage.main) == bench.stage.bodies(bench.stage.parking) == []
    for lane, home, mark in in_room(bench).values():
        assert (lane, home) == (PARKED_LANE, "parking:default")
        assert (mark.decision, mark.reason) == ("PARK", "RUN_ABORTED")
        assert (mark.run, mark.ticket) == (None, None)
    assert set(bench.outcomes().values()) == {ReplayOutcome.LEFT}
    assert bench.reconcile().counts == {"LEFT": 3}
    assert bench.leave()


def test_a_shard_of_several_parts_is_left_whole() -> None:
    bench = ReplayBench(["a"] * (PART + 3))
    bench.abort()
    assert bench.leave()
    assert bench.in_lane() == []
    assert bench.reconcile().counts == {"LEFT": PART + 3}


def test_the_next_run_names_a_letter_of_a_fifo_queue_by_the_place_where_it_is() -> None:
    """It belongs to the parking queue now, and its item's key still names the DLQ's group."""
    bench = ReplayBench(["a", "a"], stage=Stage(orders_pipeline(fifo=True)))
    bench.abort()
    assert bench.leave()
    entries = [
        entry
        for shard in range(SHARDS)
        for entry in bench.room.due(PARKED_LANE, shard, FOREVER, 10)
    ]
    letters = bench.room.read(entries, bench.clock() + 60).letters
    assert {letter.home for letter in letters} == {"parking:default"}
    assert {bench.room.key(letter) for letter in letters} == {name.place for name in bench.names}


def test_letters_of_the_schedule_go_back_to_it_with_a_fresh_backoff() -> None:
    bench = ReplayBench(["", ""])
    bench.abort(leave_to="schedule")
    assert bench.leave()
    assert {lane for lane, _, _ in in_room(bench).values()} == {"due"}
    bench.clock.advance(60)
    bench.stage.run()
    bench.clock.advance(1)
    assert sorted(bench.consume()) == [0, 1]


def test_a_letter_that_was_tried_goes_back_to_the_schedule_too() -> None:
    bench = ReplayBench([""])
    bench.work(5)
    bench.consume(lambda _number: False)
    bench.bring_back()
    bench.abort(leave_to="schedule")
    assert bench.leave()
    bench.clock.advance(60)
    bench.stage.run()
    assert bench.consume() == [0]
    assert bench.stage.bodies(bench.stage.parking) == []


def test_a_released_letter_that_is_left_over_keeps_its_reason() -> None:
    bench = ReplayBench([""], replace(ReplayPlan(pipeline="orders"), source="lane:parked"))
    item = bench.stage.waiting()[0]
    mark = stamps.parse(item["stamp"]["S"])
    assert mark is not None
    item["stamp"] = {"S": str(stamps.attribute(replace(mark, reason="POISON")).value)}
    item["home"] = {"S": "parking:poison"}
    bench.dynamodb.put_item(TableName="messages", Item=item)
    bench.abort()
    assert bench.leave()
    [(lane, home, left)] = in_room(bench).values()
    assert (lane, home, left.reason) == (PARKED_LANE, "parking:poison", "POISON")


def test_the_letters_of_an_aborted_run_go_to_the_parking_queue_that_is_named_for_them() -> None:
    parking = {"RUN_ABORTED": "aborted", "POISON": "poison"}
    bench = ReplayBench([""], stage=Stage(orders_pipeline(parking=parking)))
    bench.abort()
    assert bench.leave()
    assert [home for _, home, _ in in_room(bench).values()] == ["parking:aborted"]


def test_what_was_under_way_is_awaited_and_recorded() -> None:
    bench = ReplayBench(["", ""])
    bench.work(5)
    bench.abort()
    assert not bench.leave()
    bench.consume(lambda number: number == 0)
    assert not bench.leave()
    bench.clock.advance(150)
    assert bench.leave()
    assert bench.outcomes() == {0: ReplayOutcome.RECOVERED, 1: ReplayOutcome.UNKNOWN}


def test_a_letter_that_was_sent_and_not_deleted_is_not_parked() -> None:
    bench = ReplayBench([""])
    item = bench.stage.waiting()[0]
    bench.work(5)
    # A worker that dies between its ticket and its delete leaves the item in the lane.
    bench.dynamodb.put_item(TableName="messages", Item=item)
    bench.abort()
    bench.leave()
    assert in_room(bench) == {}
    bench.consume()
    assert bench.leave()
    assert bench.outcomes() == {0: ReplayOutcome.RECOVERED}


def test_the_ticket_of_a_letter_that_was_sent_without_one_says_where_it_stands() -> None:
    bench = ReplayBench(["a", "a", "a"])

    class NoPuts:
        read, settle = bench.tickets.read, bench.tickets.settle

        def put(self, _tickets: object) -> None:
            raise TicketsUnavailable("throttled")

    bench.work(5, tickets=NoPuts())
    assert len(bench.stage.bodies(bench.stage.main)) == 3
    assert list(bench.tickets.all()) == []
    bench.abort()
    bench.clock.advance(60)
    bench.leave()
    places = {ticket.copy: ticket.position for ticket in bench.tickets.all()}
    assert places == {name.copy: number for number, name in enumerate(bench.names)}


NEW_ID = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"


def sent_without_facts(bench: ReplayBench) -> str:
    """A worker has sent a letter of ten attributes and marked it, and died; returns its copy."""
    name = bench.names[0]
    journal = DynamoDBJournal(bench.stage.clients.journal, LETTERS, "orders", ROWS_KEPT)
    worker = Slot(journal, f"{lane_slot(run_lane(bench.run_id), name.shard)}~worker.1", "worker")
    worker.intend([Plan(key_of(name.copy), OUT_OF_ROOM, 0)], bench.clock() + 15.0)
    worker.mark([name.copy], {name.copy: NEW_ID})
    bench.clock.advance(30.0)
    return name.copy


def test_what_a_worker_could_not_write_of_a_letter_is_written_before_it_is_deleted() -> None:
    bench = ReplayBench([""])
    copy = sent_without_facts(bench)
    bench.abort()
    bench.leave()
    assert bench.in_lane() == []
    stamp = bench.ledger.stored_stamp(NEW_ID)
    assert stamp is not None
    assert (stamp.origin, stamp.attempt) == (copy, 1)
    assert [ticket.fate for ticket in bench.tickets.all()] == [ReplayOutcome.SENT]


class Down:
    """A router that gives no answer."""

    def decide(self, _questions: object) -> RouterAnswer:
        raise RouterUnavailable("throttled")


def test_a_sent_letter_whose_facts_are_missing_stays_while_the_router_gives_no_answer() -> None:
    bench = ReplayBench([""])
    copy = sent_without_facts(bench)
    bench.abort()

    assert not bench.leave(router=Down())
    assert bench.in_lane() == [copy]
    assert bench.tally.report("orders", "dlq", "").trouble == "throttled"
    bench.clock.advance(31.0)
    bench.leave()
    assert bench.in_lane() == []


def test_a_router_that_gives_no_answer_holds_up_only_what_was_sent() -> None:
    bench = ReplayBench(["a", "a"])
    copy = sent_without_facts(bench)
    bench.abort()

    assert not bench.leave(router=Down())
    assert bench.in_lane() == [copy]
    assert bench.outcomes() == {0: ReplayOutcome.OPEN, 1: ReplayOutcome.LEFT}


def test_a_leaving_that_stood_still_moves_nothing_after_its_claim_has_ended() -> None:
    """Another worker may have the shard by then."""
    bench = ReplayBench([""])
    bench.abort()

    class Slow:
        read, settle = bench.tickets.read, bench.tickets.settle

        def put(self, tickets: Sequence[Ticket]) -> None:
            bench.tickets.put(tickets)
            bench.clock.advance(CLAIM_SECONDS)

    assert not bench.leave(tickets=Slow())
    assert len(bench.in_lane()) == 1
    assert bench.tally.count_of(Figure.POSSIBLE_DUPLICATE) == 0
    assert bench.leave()
    assert bench.in_lane() == []


def test_the_ledger_knows_what_an_aborted_run_has_parked() -> None:
    bench = ReplayBench([""])
    bench.abort()
    assert bench.leave()
    [name] = bench.names
    assert bench.ledger.rows([name.origin])[name.origin].parked_as is Reason.RUN_ABORTED


def test_a_letter_that_a_run_of_its_queue_may_still_be_moving_stays() -> None:
    """The run that put it into the room has not said so yet: its copy may be in the queue."""
    bench = ReplayBench([""])
    [name] = bench.names
    journal = DynamoDBJournal(bench.stage.clients.journal, LETTERS, "orders", ROWS_KEPT)
    Slot(journal, "queue.1", "run").intend([Plan(key_of(name.copy), "main", 0)], bench.clock() + 15)
    bench.abort()
    assert not bench.leave()
    assert bench.in_lane() == [name.copy]
    bench.clock.advance(31.0)
    assert bench.leave()


def exports(bench: ReplayBench) -> list[str]:
    return [stored.name for stored in bench.objects.listed(DISCARDED)]


def test_the_export_of_a_letter_that_is_left_is_deleted_and_of_a_discarded_one_stays() -> None:
    bench = ReplayBench(["", ""], DISCARDS)
    bench.clock.advance(60)
    # Workers that were killed: one in front of its ticket, one behind it.
    left, discarded = bench.names
    ticket = Ticket(
        run=bench.run_id,
        origin=discarded.origin,
        copy=discarded.copy,
        shard=0,
        position=1,
        attempt=0,
        at=bench.clock(),
        fate=ReplayOutcome.DISCARDED,
    )
    bench.tickets.put([ticket])
    for name in (left, discarded):
        bench.objects.put(discarded_name(name.copy), b"{}")
    bench.abort()
    bench.leave()
    assert bench.leave()
    assert exports(bench) == [discarded_name(discarded.copy)]
    assert list(in_room(bench)) == [left.copy]


def test_a_letter_stays_in_the_lane_until_its_export_is_deleted() -> None:
    bench = ReplayBench(["", ""], DISCARDS)
    for name in bench.names:
        bench.objects.put(discarded_name(name.copy), b"{}")
    bench.abort()

    class NoDeletes(S3RunObjects):
        def delete(self, names: Sequence[str]) -> None:
            raise ObjectsUnavailable(f"SlowDown for {len(names)}")

    s3: Any = bench.stage.s3
    assert not bench.leave(objects=NoDeletes(s3, BUCKET, "orders", bench.run_id))
    assert len(bench.in_lane()) == 2
    assert "SlowDown" in bench.tally.report("orders", "dlq", "").trouble
    assert bench.leave()
    assert (bench.in_lane(), exports(bench)) == ([], [])


def test_a_letter_that_a_late_worker_discards_first_keeps_its_export() -> None:
    """Its ticket comes between the look of the leaving and its own: the first one decides."""
    bench = ReplayBench([""], DISCARDS)
    [name] = bench.names
    bench.objects.put(discarded_name(name.copy), b"{}")
    bench.abort()

    class Late:
        read, settle = bench.tickets.read, bench.tickets.settle

        def put(self, tickets: Sequence[Ticket]) -> None:
            bench.tickets.put([replace(each, fate=ReplayOutcome.DISCARDED) for each in tickets])
            bench.tickets.put(tickets)

    assert not bench.leave(tickets=Late())
    bench.leave()
    assert bench.leave()
    assert (in_room(bench), exports(bench)) == ({}, [discarded_name(name.copy)])
    assert bench.outcomes() == {0: ReplayOutcome.DISCARDED}


def test_a_run_that_discards_nothing_deletes_no_object() -> None:
    bench = ReplayBench([""])
    bench.objects.put(discarded_name(bench.names[0].copy), b"{}")
    bench.abort()
    assert bench.leave()
    assert exports(bench) == [discarded_name(bench.names[0].copy)]


def test_a_letter_stays_in_the_lane_until_its_ticket_stands() -> None:
    bench = ReplayBench([""])
    bench.abort()

    class NoPuts:
        read, settle = bench.tickets.read, bench.tickets.settle

        def put(self, _tickets: object) -> None:
            raise TicketsUnavailable("throttled")

    with pytest.raises(TicketsUnavailable):
        bench.leave(tickets=NoPuts())
    assert len(bench.in_lane()) == 1
    bench.clock.advance(31)
    assert bench.leave()
    assert bench.in_lane() == []


def test_a_worker_and_a_leaving_run_never_have_a_shard_at_once() -> None:
    bench = ReplayBench([""])
    [shard] = [shard for shard, letters in enumerate(bench.index.shards) if letters]
    claimed = bench.claim(shard).take(["another"], bench.clock())
    assert claimed is not None
    bench.abort()
    assert not bench.leave()
    assert len(bench.in_lane()) == 1
    bench.clock.advance(31)
    assert bench.leave()


def test_letters_that_the_manifest_does_not_name_leave_too() -> None:
    bench = ReplayBench(["", ""], stage=Stage(orders_pipeline(fifo=True)))
    bench.abort()
    assert bench.leave(index=None)
    assert bench.in_lane() == []
    bodies = [json.loads(body) for body in bench.stage.bodies(bench.stage.main)]
    assert bodies == []


@pytest.mark.parametrize("is_named", [True, False])
def test_in_its_last_five_seconds_a_leaving_begins_no_letter(is_named: bool) -> None:
    bench = ReplayBench(["", "a", "a"])
    bench.abort()
    index = bench.index if is_named else None
    assert not bench.leave(seconds=5.0, index=index)
    assert len(bench.in_lane()) == 3
    assert bench.leave(seconds=5.1, index=index)
    assert bench.in_lane() == []


def test_a_letter_that_its_new_lane_does_not_take_stays_in_the_old_one() -> None:
    bench = ReplayBench(["", ""])
    bench.abort()
    refused, other = (name.copy for name in bench.names)

    class Refusing:
        def __init__(self) -> None:
            self.room = bench.room

        def __getattr__(self, name: str) -> Any:
            return getattr(self.room, name)

        def postpone(self, order: Order) -> None:
            if order.copy == refused:
                raise RoomUnavailable("throttled")
            self.room.postpone(order)

    assert not bench.leave(room=Refusing())
    assert bench.in_lane() == [refused]
    assert in_room(bench)[other][0] == PARKED_LANE
    assert bench.tally.report("orders", "dlq", "").trouble == "throttled"
    assert bench.outcomes() == {0: ReplayOutcome.OPEN, 1: ReplayOutcome.LEFT}
    assert bench.leave()
    assert bench.reconcile().counts == {"LEFT": 2}


def test_a_letter_that_an_earlier_worker_may_still_be_sending_stays_until_it_cannot_any_more() -> (
    None
):
    bench = ReplayBench([""])
    [name] = bench.names
    journal = DynamoDBJournal(bench.stage.clients.journal, LETTERS, "orders", ROWS_KEPT)
    kept = Slot(journal, f"{lane_slot(run_lane(bench.run_id), name.shard)}~worker.1", "worker")
    kept.intend([Plan(key_of(name.copy), OUT_OF_ROOM, 0)], bench.clock() + 15.0)
    bench.abort()
    bench.clock.advance(29.0)
    assert not bench.leave()
    assert bench.in_lane() == [name.copy]
    assert bench.tally.count_of(Figure.POSSIBLE_DUPLICATE) == 0
    bench.clock.advance(1.0)
    assert bench.leave()
    assert bench.in_lane() == []
    # It may have been sent, and a person who releases it from the parking lot has to know.
    assert bench.tally.count_of(Figure.POSSIBLE_DUPLICATE) == 1


def test_a_letter_that_came_back_leaves_as_the_copy_that_is_in_the_lane() -> None:
    bench = ReplayBench(["", ""])
    bench.work(5)
    bench.consume(lambda number: number == 1)
    bench.bring_back()
    bench.abort()
    assert bench.leave()
    [(lane, home, mark)] = in_room(bench).values()
    assert (lane, home, mark.origin) == (PARKED_LANE, "parking:default", bench.names[0].origin)
    assert mark.because == f"run {bench.run_id} ended before it was sent"
    assert mark.at == int(bench.clock())
    assert bench.outcomes() == {0: ReplayOutcome.LEFT, 1: ReplayOutcome.RECOVERED}
    [progress] = [each for each in bench.progress() if each.returns_total]
    assert progress.returns_total == 1
    [left] = [ticket for ticket in bench.tickets.all() if ticket.fate is ReplayOutcome.LEFT]
    # No life has begun: the letter was not sent.
    assert (left.attempt, left.position, left.generation) == (1, 0, bench.run.generation)


def test_what_is_under_way_is_awaited_for_two_minutes_after_the_end() -> None:
    bench = ReplayBench([""], replace(ReplayPlan(pipeline="orders"), outcome_timeout=60.0))
    bench.work(5)
    bench.abort()
    bench.clock.advance(119.0)
    # Its own time is over.
    assert bench.leave()
    long = ReplayBench([""])
    long.work(5)
    long.abort()
    long.clock.advance(119.0)
    assert not long.leave()
    long.clock.advance(1.0)
    assert long.leave()
    assert long.outcomes() == bench.outcomes() == {0: ReplayOutcome.UNKNOWN}


def test_the_schedule_gets_a_letter_of_a_parking_queue_as_one_of_its_own() -> None:
    bench = ReplayBench(["", ""], replace(ReplayPlan(pipeline="orders"), source="lane:parked"))
    for item, home in zip(bench.stage.waiting(), ("parking:poison", "dedicated:slow"), strict=True):
        item["home"] = {"S": home}
        bench.dynamodb.put_item(TableName="messages", Item=item)
    bench.abort(leave_to="schedule")
    assert bench.leave()
    assert sorted(home for _, home, _ in in_room(bench).values()) == ["dedicated:slow", "dlq"]
    assert {mark.reason for _, _, mark in in_room(bench).values()} == {None}
    assert {mark.decision for _, _, mark in in_room(bench).values()} == {"HOLD"}
