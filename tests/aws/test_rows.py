"""A row that can't be read is a value, and readers of an index tell own rows from foreign ones."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest

from deadletter.aws.cause_entries import DynamoDBCauseEntries
from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.dynamodb import stored
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.rows import (
    MOST_NAMED,
    Broken,
    MetRows,
    decoded,
    failing_origin,
    is_own_letter,
    readable,
    waiting_copy,
    whole,
)
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import CAUSE_SHARDS, ROWS_KEPT, Category, cause_partition, lane_partition
from deadletter.failure.failure import Failure
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter, compact_json, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import SHARDS, LaneCount, WaitingRoomEntry
from deadletter.replay.run import RunsUnavailable
from deadletter.routing.decision import Hold
from tests.aws.backends import Aws
from tests.each_row import each_row
from tests.tables import (
    CIRCUITS,
    LETTERS,
    create_circuits_table,
    create_messages_table,
    waiting_room,
)

BUCKET = "letters-of-the-contract"
DIGEST = "0123456789abcdef" * 2
PLACE = "7".zfill(32)


@each_row(
    ("partition", "sort", "copy"),
    [
        ("orders#message#a", "message", "a"),
        (f"orders#group#dlq#{DIGEST}", f"{PLACE}#a", "a"),
        (f"orders#group#parking:default#{DIGEST}", f"{PLACE}#a", "a"),
        ("orders#message#", "message", None),
        ("orders#message#a", "ledger", None),
        ("orders#message#a#runs", "message", None),
        ("orders#message", "message", None),
        ("other#message#a", "message", None),
        ("orders#done#a", "message", None),
        ("orders#ledger#a", "ledger", None),
        ("too-orders#message#a", "message", None),
        ("#orders#message#a", "message", None),
        (f"orders#group#dlq#{DIGEST}", "message", None),
        (f"orders#group#dlq#{DIGEST}", "7#a", None),
        (f"orders#group#dlq#{DIGEST}", f"{PLACE}#a#b", None),
        (f"orders#group#dlq#{DIGEST}#runs", f"{PLACE}#a", None),
        (f"other#group#dlq#{DIGEST}", f"{PLACE}#a", None),
        ("orders#group#dlq", f"{PLACE}#a", None),
    ],
)
def test_the_key_says_which_copy_waits(partition: str, sort: str, copy: str | None) -> None:
    assert waiting_copy("orders", (partition, sort)) == copy


@each_row(
    ("facts", "is_own"),
    [
        ({}, True),
        ({"object": "waiting/orders/a"}, True),
        ({"edit_object": "waiting/orders/a.1800000000000.edit"}, True),
        ({"copy": "b"}, False),
        ({"object": "waiting/orders/b"}, False),
        ({"object": "waiting/other/a"}, False),
        ({"edit_object": "waiting/orders/a"}, False),
        ({"edit_object": "waiting/orders/b.1.edit"}, False),
        ({"edit_object": "waiting/orders/a.b/c.edit"}, False),
        ({"edit_object": 7}, False),
    ],
)
def test_a_waiting_letter_names_its_own_objects(facts: dict[str, Any], is_own: bool) -> None:
    row = {"pk": "orders#message#a", "sk": "message", "copy": "a", **facts}
    assert is_own_letter("orders", row) is is_own
    del row["copy"]
    assert not is_own_letter("orders", row)


@each_row(
    ("partition", "sort", "origin"),
    [
        ("orders#ledger#a", "ledger", "a"),
        ("orders#ledger#a#b", "ledger", "a#b"),
        ("orders#ledger#", "ledger", None),
        ("orders#ledger#a", "claim", None),
        ("other#ledger#a", "ledger", None),
        ("orders#done#a", "ledger", None),
    ],
)
def test_the_key_says_which_letter_fails(partition: str, sort: str, origin: str | None) -> None:
    assert failing_origin("orders", (partition, sort)) == origin


def test_foreign_rows_are_told_once_each_and_not_without_end() -> None:
    told: list[Any] = []
    foreign = MetRows(told.append)
    for number in range(MOST_NAMED + 50):
        foreign.add((str(number), "x"))
        foreign.add((str(number), "x"))
    assert list(foreign.rows) == told == [(str(number), "x") for number in range(MOST_NAMED)]


@pytest.fixture
def room(aws: Aws) -> DynamoDBWaitingRoom:
    create_messages_table(aws.dynamodb)
    aws.s3.create_bucket(
        Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": "eu-central-1"}
    )
    return waiting_room(aws, bucket=BUCKET)


def order(copy: str, body: str = "{}") -> Order:
    received = ReceivedLetter(Letter(copy, body), "", 0.0)
    return Order(received, Hold("due", 100.0, "waits"), Stamp(copy))


def plant(aws: Aws, partition: str, sort: str, **facts: Any) -> None:
    aws.dynamodb.put_item(TableName=LETTERS, Item=stored({"pk": partition, "sk": sort, **facts}))


def due(room: DynamoDBWaitingRoom, most: int) -> list[WaitingRoomEntry]:
    return [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, most)]


def test_foreign_rows_are_neither_listed_nor_counted_and_hide_nothing(
    aws: Aws, room: DynamoDBWaitingRoom
) -> None:
    room.admit([order("a"), order("b")])
    for shard in range(SHARDS):
        for number in range(3):
            partition = f"other#done#{shard}-{number}"
            plant(aws, partition, "claim", lane=lane_partition("orders", "due", shard), due=number)
    for most in (1, 2, 25):
        assert sorted(entry.copy for entry in due(room, most)) == ["a", "b"]
    assert room.first_due("due") == 100.0
    assert [letter.copy for letter in room.look("due", 1)] in (["a"], ["b"])
    assert room.count("due") == LaneCount(2)
    assert {partition.rpartition("#")[0] for partition, _ in room.foreign.rows} == {"other#done"}
    assert len(room.foreign.rows) == 3 * SHARDS


def test_a_count_alone_names_the_foreign_rows(aws: Aws, room: DynamoDBWaitingRoom) -> None:
    room.admit([order("a")])
    assert room.count("due") == LaneCount(1)
    assert room.foreign.rows == ()
    plant(aws, "orders#done#x", "claim", lane=lane_partition("orders", "due", 0), due=1)
    assert room.count("due") == LaneCount(1)
    assert room.foreign.rows == (("orders#done#x", "claim"),)


def test_a_row_that_names_another_letters_body_is_not_read_and_that_body_stays(
    aws: Aws, room: DynamoDBWaitingRoom
) -> None:
    room.admit([order("large", "x" * 9_000)])
    evil = compact_json(to_json(Letter("evil", "evil")))
    lane = lane_partition("orders", "due", 0)
    facts = {"copy": "evil", "lane": lane, "due": 1, "home": "dlq"}
    plant(
        aws, "orders#message#evil", "message", **facts, message=evil, object="waiting/orders/large"
    )
    contents = room.read(due(room, 25), 1e10)
    assert [received.letter.message_id for received in contents.letters] == ["large"]
    assert contents.broken == 1
    assert room.foreign.rows == (("orders#message#evil", "message"),)
    gone = [(received, Confirmation("large", "test")) for received in contents.letters]
    assert aws.s3.get_object(Bucket=BUCKET, Key="waiting/orders/large")
    assert room.delete(gone) == []


def test_a_row_without_a_letter_is_no_proof_that_the_letter_is_in_the_room(
    aws: Aws, room: DynamoDBWaitingRoom
) -> None:
    """An update that says only when a letter is due makes a row, and SQS must keep the letter."""
    waiting, missing, bare = order("a"), order("b"), order("c")
    room.admit([waiting])
    lane = lane_partition("orders", "due", 0)
    plant(aws, "orders#message#b", "message", lane=lane, due=1)
    plant(aws, "orders#message#c", "message", lane=lane, due=1, copy="c")
    assert set(room.find([each.received for each in (waiting, missing, bare)])) == {"a"}


def test_a_place_that_is_no_waiting_letter_of_the_pipeline_is_not_asked_for(
    aws: Aws, room: DynamoDBWaitingRoom
) -> None:
    lane = lane_partition("orders", "due", 0)
    plant(aws, "other#message#x", "message", lane=lane, due=1)
    room.admit([order("a")])
    assert set(
        room.held("due", [("other#message#x", "message"), ("orders#message#a", "message")])
    ) == {("orders#message#a", "message")}
    entry = WaitingRoomEntry("x", '["other#message#x", "message"]', "due", 0, 1.0)
    assert room.read([entry], 1e10).letters == []


def test_a_cause_is_read_from_the_pipelines_own_ledger_and_in_its_own_shard(aws: Aws) -> None:
    create_messages_table(aws.dynamodb)
    failure = Failure(5.0, 0, Category.TRANSIENT, fingerprint="ours", message="ours")
    DynamoDBLedger(aws.dynamodb, LETTERS, "orders", aws.clock, ROWS_KEPT).failed("a", failure)
    index = DynamoDBCauseEntries(aws.dynamodb, LETTERS, "orders")
    for shard in range(CAUSE_SHARDS):
        entry = {
            "causes": cause_partition("orders", shard), "fingerprint": "enemy", "seen": 1,
            "category": "transient", "words": "words of an enemy",
        }  # fmt: skip
        plant(aws, f"other#ledger#{shard}", "ledger", **entry)
        plant(aws, f"orders#done#{shard}", "ledger", **entry)
        plant(aws, "orders#ledger#b", "ledger", **entry)
        pages = [index.page(each, 25, ("words",)) for each in range(CAUSE_SHARDS)]
        entries = [entry for page in pages for entry in page.entries]
        # The last one is a row of the ledger, and in its own shard only once.
        assert {entry.origin for entry in entries} <= {"a", "b"}
        assert sum(entry.origin == "a" for entry in entries) == 1
    kinds = {partition.rpartition("#")[0] for partition, _ in index.foreign.rows}
    assert kinds >= {"other#ledger", "orders#done"}


def test_a_circuit_of_another_pipeline_is_not_among_those_in_trouble(aws: Aws) -> None:
    create_circuits_table(aws.dynamodb)
    for pipeline, key in (("orders", "orders"), ("other", "made-up")):
        item = {"pipeline": pipeline, "circuit_key": key, "state": "OPEN", "troubled": "orders"}
        aws.dynamodb.put_item(TableName=CIRCUITS, Item=stored(item))
    circuits = DynamoDBCircuits(aws.dynamodb, CIRCUITS, "orders")
    assert [circuit.key for circuit in circuits.troubled()] == ["orders"]


def text_in(row: Mapping[str, Any]) -> Any:
    return json.loads(row["text"])


@pytest.mark.parametrize(
    "row",
    [{}, {"text": None}, {"text": "{"}, {"text": "[" * 100_000}, {"text": b"\xff"}],
)
def test_a_row_that_can_not_be_read_is_a_value_with_its_name(row: Mapping[str, Any]) -> None:
    named = {"pk": "orders#runs", "sk": "r1", **row}
    broken = decoded(text_in, named, "messages")
    assert broken == Broken("messages orders#runs r1")
    assert readable(text_in, named, "nothing") == "nothing"
    with pytest.raises(RunsUnavailable, match="messages orders#runs r1"):
        whole(broken, RunsUnavailable)


def test_what_a_row_says_is_the_value_itself() -> None:
    assert whole(decoded(text_in, {"text": "7"}, "messages"), RunsUnavailable) == 7


def test_an_error_that_is_not_about_the_row_is_no_broken_row() -> None:
    """A row of which only a store knows more is not broken when the store gives no answer."""

    def asks(_row: Mapping[str, Any]) -> None:
        raise RunsUnavailable("no answer")

    with pytest.raises(RunsUnavailable, match="no answer"):
        decoded(asks, {}, "messages")
