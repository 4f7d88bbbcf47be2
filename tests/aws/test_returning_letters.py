"""Letters that a replay run has in custody, and those that come back to it, on every backend."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import PARKED_LANE, run_lane
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter, compact_json, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import (
    FOREVER,
    SHARDS,
    RoomUnavailable,
    Wait,
    WaitingRoomEntry,
)
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.routing.decision import Hold
from tests.aws.backends import Aws
from tests.tables import LETTERS, create_messages_table, waiting_room

BUCKET = "letters-of-runs"
SENT = Ticket(run="r", origin="o", copy="c", shard=6, position=9, attempt=3, at=1.0)


def in_order(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]


@pytest.fixture
def tickets(aws: Aws) -> DynamoDBTickets:
    return DynamoDBTickets(
        aws.dynamodb, LETTERS, pipeline="orders", run="r", clock=aws.clock, in_parallel=in_order
    )


@pytest.fixture
def room(aws: Aws) -> DynamoDBWaitingRoom:
    return room_of(aws)


@pytest.fixture
def fifo_room(aws: Aws) -> DynamoDBWaitingRoom:
    return room_of(aws, fifo=True)


def room_of(aws: Aws, *, fifo: bool = False) -> DynamoDBWaitingRoom:
    create_messages_table(aws.dynamodb)
    aws.s3.create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return waiting_room(aws, bucket=BUCKET, fifo=fifo)


def order(copy: str, lane: str = run_lane("r"), *, group: str = "", body: str = "{}") -> Order:
    """A letter that comes back to its run, if the lane is that run's."""
    system = {"MessageGroupId": group, "SequenceNumber": copy} if group else {}
    received = ReceivedLetter(Letter(copy, body, {}, system), "h", 0)
    stamp = Stamp("o", 3, 5, run="r", ticket="c", base=1, decision="HOLD")
    return Order(received, Hold(lane, 100, "run r is live"), stamp)


def joins(copy: str, *, group: str = "", shard: int = 6) -> Order:
    """A letter that the snapshot of the run takes."""
    joined = order(copy, group=group)
    hold = replace(joined.hold, shard=shard)
    return replace(joined, decision=hold, stamp=replace(joined.stamp, ticket=None))


def lane_of(room: DynamoDBWaitingRoom, lane: str) -> list[WaitingRoomEntry]:
    return [each for s in range(SHARDS) for each in room.due(lane, s, FOREVER, 100)]


def test_a_letter_that_comes_back_is_noted_on_its_ticket(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets
) -> None:
    tickets.put([SENT])
    back = order("x", body="large" * 2_000)
    for _ in range(2):
        assert set(room.admit([back])) == {"x"}
    [ticket] = tickets.read([("o", "c")]).values()
    assert ticket.returned == "x"
    assert ticket.returned_place is not None
    entry = WaitingRoomEntry("x", ticket.returned_place, run_lane("r"), SENT.shard, 0)
    [taken] = room.read([entry], 1e10).letters
    assert (taken.letter, taken.stamp) == (back.received.letter, back.stamp)
    assert lane_of(room, run_lane("r")) == [replace(entry, due=taken_due(room), place=place(room))]


def taken_due(room: DynamoDBWaitingRoom) -> float:
    return lane_of(room, run_lane("r"))[0].due


def place(room: DynamoDBWaitingRoom) -> str:
    return lane_of(room, run_lane("r"))[0].place


def test_a_letter_without_its_ticket_stays_where_it_is(room: DynamoDBWaitingRoom) -> None:
    assert room.admit([order("x")]) == {}
    assert lane_of(room, run_lane("r")) == []


def test_a_letter_whose_ticket_is_closed_stays_where_it_is(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets
) -> None:
    tickets.put([replace(SENT, fate=ReplayOutcome.UNKNOWN)])
    assert room.admit([order("x")]) == {}
    assert lane_of(room, run_lane("r")) == []


def test_one_copy_of_a_life_comes_back_and_no_other(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets
) -> None:
    tickets.put([SENT])
    assert set(room.admit([order("x"), order("y"), joins("z")])) == {"x", "z"}
    assert room.admit([order("y")]) == {}
    assert {entry.copy for entry in lane_of(room, run_lane("r"))} == {"x", "z"}


def test_a_ticket_that_is_closed_meanwhile_keeps_its_letter_out(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets.put([SENT])
    store = room._store_body

    def closes(copy: str, data: bytes) -> bool:
        tickets.settle(SENT, ReplayOutcome.UNKNOWN)
        return store(copy, data)

    monkeypatch.setattr(room, "_store_body", closes)
    assert room.admit([order("x", body="large" * 2_000)]) == {}
    assert lane_of(room, run_lane("r")) == []


def test_a_lost_answer_to_a_return_is_a_return(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets, monkeypatch: pytest.MonkeyPatch
) -> None:
    tickets.put([SENT])
    write = room._table.together

    def twice(**writes: Any) -> None:
        write(**writes)
        write(**writes)

    monkeypatch.setattr(room._table, "together", twice)
    assert set(room.admit([order("x")])) == {"x"}


def test_a_letter_that_went_in_before_is_not_put_in_again(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets
) -> None:
    """The run may have sent it meanwhile: its item is gone, and its copy in the queue is old."""
    tickets.put([SENT])
    room.admit([order("x")])
    [taken] = room.read(lane_of(room, run_lane("r")), 1e10).letters
    room.delete([(taken, Confirmation("x", "test"))])
    assert set(room.admit([order("x")])) == {"x"}
    assert lane_of(room, run_lane("r")) == []


def test_a_waiting_letter_comes_back_with_its_ticket(
    room: DynamoDBWaitingRoom, tickets: DynamoDBTickets
) -> None:
    """A rescue moves letters of a live run into the lane of delays, unseen."""
    tickets.put([SENT])
    room.admit([order("x", "due"), order("y", "due")])
    waiting = {each.letter.message_id: each for each in room.read(lane_of(room, "due"), 1).letters}
    room.postpone(replace(order("x"), received=waiting["x"]))
    assert [entry.shard for entry in lane_of(room, run_lane("r"))] == [SENT.shard]
    assert tickets.read([("o", "c")])[("o", "c")].returned == "x"
    with pytest.raises(RoomUnavailable, match="does not wait for it"):
        room.postpone(replace(order("y"), received=waiting["y"]))
    assert [entry.copy for entry in lane_of(room, "due")] == ["y"]


def test_an_edited_letter_is_read_as_the_person_wrote_it(
    aws: Aws, room: DynamoDBWaitingRoom
) -> None:
    room.admit([joins("a"), joins("b"), joins("c", shard=5)])
    better = compact_json(to_json(Letter("a", "better")))
    aws.s3.put_object(Bucket=BUCKET, Key="waiting/orders/b.1800000000000.edit", Body=better)
    edit(aws, "a", "edit", {"B": better})
    edit(aws, "b", "edit_object", {"S": "waiting/orders/b.1800000000000.edit"})
    edit(aws, "c", "edit", {"B": b"not a letter"})
    contents = room.read(lane_of(room, run_lane("r")), 1e10)
    assert {each.letter.message_id: each.letter.body for each in contents.letters} == {
        "a": "better",
        "b": "better",
    }
    assert contents.broken == 1
    room.delete([(each, Confirmation(each.letter.message_id, "test")) for each in contents.letters])
    assert aws.s3.list_objects_v2(Bucket=BUCKET).get("Contents", []) == []


def edit(aws: Aws, copy: str, name: str, value: Any) -> None:
    aws.dynamodb.update_item(
        TableName=LETTERS,
        Key={"pk": {"S": f"orders#message#{copy}"}, "sk": {"S": "message"}},
        UpdateExpression="SET #edit = :edit",
        ExpressionAttributeNames={"#edit": name},
        ExpressionAttributeValues={":edit": value},
    )


def test_a_group_does_not_wait_for_its_parked_letters(fifo_room: DynamoDBWaitingRoom) -> None:
    """What an aborted run leaves is parked: automation is done with it."""
    room = fifo_room
    first, last = order("1", PARKED_LANE, group="g"), order("3", PARKED_LANE, group="g")
    room.admit([first, order("2", "due", group="g"), last])
    assert room.waits(["g"], "dlq") == {"g": Wait("due", 100)}
    [waiting] = room.read(lane_of(room, "due"), 1e10).letters
    assert waiting.letter.message_id == "2"
    parked = room.read(lane_of(room, PARKED_LANE), 1e10).letters
    assert {each.letter.message_id for each in parked} == {"1", "3"}
    assert [each.stamp for each in parked] == [first.stamp] * 2
    room.delete([(waiting, Confirmation("2", "test"))])
    assert room.waits(["g"], "dlq") == {}


def test_a_later_letter_of_a_group_stays_behind_those_in_a_run(
    fifo_room: DynamoDBWaitingRoom,
) -> None:
    room = fifo_room
    room.admit([joins("1", group="g"), order("2", "due", group="g")])
    assert room.read(lane_of(room, "due"), 1e10).letters == []
    [first] = room.read(lane_of(room, run_lane("r")), 1e10).letters
    room.delete([(first, Confirmation("1", "test"))])
    assert len(room.read(lane_of(room, "due"), 1e10).letters) == 1


def test_a_place_is_the_key_of_an_item(room: DynamoDBWaitingRoom) -> None:
    joined = joins("a")
    room.admit([joined])
    text = json.dumps(room.key(joined.received))
    [taken] = room.read([WaitingRoomEntry("a", text, run_lane("r"), 6, 0)], 1e10).letters
    assert taken.letter == joined.received.letter
