"""Reads that decide about letters see the last write, and every page of what was written.

DynamoDB answers a read without ConsistentRead from a replica that may lag, and ends a page after
1 MB. Here the replica has seen no write at all, and a page holds one item.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.edits import DynamoDBBookVersions, SsmPipelines
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease, read_last_run
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.queue import SqsQueue
from deadletter.aws.rules import DynamoDBRules
from deadletter.aws.waiting_room import MOST_PAGES, DynamoDBLanes, DynamoDBWaitingRoom
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.circuit.state import CircuitPolicy
from deadletter.circuit.transitions import Tripped
from deadletter.contract import ROWS_KEPT, Category
from deadletter.failure.failure import Failure
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.pace.run import RunPaid, rate_of
from deadletter.redrive.journal import Intent, Plan, key_of
from deadletter.redrive.order import Order
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import SourceMemory
from deadletter.redrive.waiting_room import SHARDS, LaneCount, RoomUnavailable
from deadletter.routing.decision import Hold
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemoryDynamoDB, MemoryS3, client_error
from deadletter.watch.row import WatchRow
from tests.tables import BUCKET, CIRCUITS, LETTERS, RULES, create_tables

NAMES = ["a", "b", "c"]


@dataclass
class Account:
    """The adapters of one pipeline on a DynamoDB whose replica has seen nothing."""

    dynamodb: Any = field(
        default_factory=lambda: MemoryDynamoDB(Clock(), stale_reads=lambda: True, page_items=1)
    )

    def __post_init__(self) -> None:
        create_tables(self.dynamodb)
        self.clock = Clock()
        self.journal = DynamoDBJournal(self.dynamodb, LETTERS, "orders", ROWS_KEPT)
        self.ledger = DynamoDBLedger(self.dynamodb, LETTERS, "orders", self.clock, 100)
        self.rules = DynamoDBRules(self.dynamodb, RULES, LETTERS, self.clock)
        self.watch = DynamoDBWatchStore(self.dynamodb, LETTERS, "orders")
        self.breaker = DynamoDBBreaker(
            client=self.dynamodb,
            table=CIRCUITS,
            pipeline="orders",
            policy=CircuitPolicy(),
            clock=self.clock,
            random=Random(1),
            new_id=lambda: "id",
        )

    def add_rule(self, rule_id: str, pipeline: str) -> None:
        key = {"pipeline": {"S": pipeline}, "rule_id": {"S": rule_id}}
        self.dynamodb.put_item(TableName=RULES, Item=key)

    def room(self, *, fifo: bool = False, s3: Any = None) -> DynamoDBWaitingRoom:
        if s3 is None:
            s3 = MemoryS3(self.clock)
            s3.create_bucket(Bucket=BUCKET)
        return DynamoDBWaitingRoom(
            client=self.dynamodb,
            table=LETTERS,
            s3=s3,
            bucket=BUCKET,
            pipeline="orders",
            fifo=fifo,
            clock=self.clock,
        )

    def lease(self, home: str = "dlq") -> DynamoDBLease:
        return DynamoDBLease(self.dynamodb, LETTERS, "orders", home, 10.0)


@pytest.fixture
def account() -> Account:
    return Account()


def denied(**_: Any) -> Any:
    raise client_error("BatchGetItem", "AccessDeniedException", "")


class FailingBodies:
    """An S3 that answers every read with the same error."""

    def __init__(self, code: str) -> None:
        self._code = code

    def get_object(self, **_: Any) -> Any:
        raise client_error("GetObject", self._code, "")


def waiting(copy: str, lane: str = "due", body: str = "{}", **system: str) -> Order:
    received = ReceivedLetter(Letter(copy, body, {}, system), "h", 0)
    return Order(received, Hold(lane, 100, "waits"), Stamp(copy, 0, 5))


def grouped(copy: str) -> Order:
    return waiting(copy, MessageGroupId="g", SequenceNumber=str(NAMES.index(copy)))


def due_copies(room: DynamoDBWaitingRoom) -> list[str]:
    entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 10)]
    return sorted(entry.copy for entry in entries)


def taken_out(room: DynamoDBWaitingRoom) -> list[str]:
    entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 10)]
    return sorted(taken.letter.message_id for taken in room.read(entries, 1e10).letters)


def test_the_journal_shows_every_intent_at_once(account: Account) -> None:
    for name in NAMES:
        account.journal.write(Intent(name, "me", 1, START, (Plan(key_of(name), "main", 1),)), None)
    assert [intent.slot for intent in account.journal.read()] == NAMES


def test_the_waiting_room_shows_every_letter_at_once(account: Account) -> None:
    room = account.room()
    orders = [waiting(name) for name in NAMES]
    room.admit(orders)
    assert sorted(room.find([order.received for order in orders])) == NAMES
    assert due_copies(room) == taken_out(room) == NAMES
    assert room.count("due") == LaneCount(3)
    assert sorted(letter.copy for letter in room.look("due", 10)) == NAMES
    assert room.first_due("due") == 100


def test_a_letter_that_has_left_the_room_is_not_taken_out_again(account: Account) -> None:
    room = account.room()
    room.admit([waiting("a")])
    [entry] = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 10)]
    [taken] = room.read([entry], 1e10).letters
    # What a replica shows that has seen the admission, and not yet the end of the wait.
    account.dynamodb.settle()
    room.delete([(taken, Confirmation("a", "test"))])
    assert room.read([entry], 1e10).letters == []
    assert room.find([taken]) == {}


def test_the_groups_of_a_fifo_room_are_read_in_order_and_at_once(account: Account) -> None:
    room = account.room(fifo=True)
    room.admit([grouped(name) for name in NAMES])
    assert room.waits(["g"], "dlq")["g"].lane == "due"
    assert taken_out(room) == NAMES


def test_a_group_is_read_in_the_order_of_numbers_not_of_texts(account: Account) -> None:
    room = account.room(fifo=True)
    orders = [
        waiting(f"sent {number}", MessageGroupId="g", SequenceNumber=str(number))
        for number in (9, 10, 100)
    ]
    room.admit(orders[::-1])
    entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 10)]
    letters = room.read(entries, 1e10).letters
    assert [taken.letter.message_id for taken in letters] == ["sent 9", "sent 10", "sent 100"]


@pytest.mark.parametrize("code", ["NoSuchKey", "AccessDenied"])
def test_a_body_that_is_gone_is_no_outage_of_s3(account: Account, code: str) -> None:
    """Without the permission to list a bucket, S3 answers AccessDenied for a missing key."""
    account.room().admit([waiting("a", body="x" * 9_000), waiting("b")])
    room = account.room(s3=FailingBodies(code))
    entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 10)]
    contents = room.read(entries, 1e10)
    assert [taken.letter.message_id for taken in contents.letters] == ["b"]
    assert contents.broken == 1


def test_a_body_that_cannot_be_read_now_keeps_the_letters_in_the_room(account: Account) -> None:
    account.room().admit([waiting("a", body="x" * 9_000)])
    room = account.room(s3=FailingBodies("SlowDown"))
    entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 10)]
    with pytest.raises(RoomUnavailable, match="SlowDown for s3:GetObject on bodies"):
        room.read(entries, 1e10)


def test_every_lane_is_listed(account: Account) -> None:
    room = account.room()
    room.admit([waiting(name, lane=f"rule:{name}") for name in NAMES])
    # A run that misses a new lane finds it a minute later: this read may be stale.
    account.dynamodb.settle()
    assert [lane.name for lane in room.lanes()] == [f"rule:{name}" for name in NAMES]


def test_memories_of_sources_are_read_at_once(account: Account) -> None:
    assert DynamoDBWatchStore(account.dynamodb, LETTERS, "orders").read()[1] == {}
    known = {home: SourceMemory(stopped=home) for home in ("dlq", "parking:default", "slow")}
    for home, memory in known.items():
        account.lease(home).record(memory)
    account.watch.write(WatchRow(first_at=START, ran_at=START))
    assert account.lease().read() == SourceMemory(stopped="dlq")
    # Without the row of the watch.
    assert DynamoDBWatchStore(account.dynamodb, LETTERS, "orders").read()[1] == known
    assert account.watch.read() == (WatchRow(first_at=START, ran_at=START), known)


def test_the_report_of_the_last_run_is_read_at_once(account: Account) -> None:
    account.lease().acquire("run", 100, 200)
    paid = RunPaid(rate_of(10.0), 159.0)
    account.lease().give_back("run", paid, Report("orders", "dlq", "done"), 160)
    last_run = read_last_run(account.dynamodb, LETTERS, "orders", "dlq")
    assert last_run is not None
    assert last_run["stopped"] == "done"


def test_the_ledger_shows_every_row_at_once(account: Account) -> None:
    for name in NAMES:
        account.ledger.failed(name, Failure(START, 1, Category.TRANSIENT))
        account.ledger.store_stamps({f"new-{name}": Stamp(name, 1, 5)})
        account.ledger.count_matches({name: 2})
    rows = account.ledger.rows(NAMES)
    assert [len(rows[name].failures) for name in NAMES] == [1, 1, 1]
    assert account.ledger.stored_stamp("new-a") == Stamp("a", 1, 5)
    counted = {key: counts.matched for key, counts in account.ledger.all_counts().items()}
    assert counted == dict.fromkeys(NAMES, 2)
    assert account.ledger.matches(NAMES) == dict.fromkeys(NAMES, 2)


def test_the_rule_book_shows_every_rule_at_once(account: Account) -> None:
    for pipeline in ("orders", "*"):
        for name in NAMES:
            key = {"pipeline": {"S": pipeline}, "rule_id": {"S": name}}
            account.dynamodb.put_item(TableName=RULES, Item=key)
    assert [item["rule_id"] for item in account.rules.items("orders")] == NAMES * 2


def test_every_circuit_is_read_at_once(account: Account) -> None:
    for name in NAMES:
        account.breaker.apply(name, Tripped())
    assert all(not circuit.is_closed for circuit in account.breaker.read(NAMES).values())
    assert sorted(account.breaker.recorded(NAMES)) == NAMES
    assert not account.breaker.find("a").is_closed
    assert sorted(circuit.key for circuit in account.breaker.troubled()) == NAMES
    # Keys are listed for people: a new one may come a second later.
    account.dynamodb.settle()
    assert sorted(account.breaker.keys()) == NAMES


# What is used again for a time instead of being read.


def test_rules_are_used_for_five_seconds_and_read_anew_by_a_clock_that_went_back(
    account: Account,
) -> None:
    def rules() -> list[str]:
        return [item["rule_id"] for item in account.rules.items("orders")]

    assert rules() == []
    key = {"pipeline": {"S": "orders"}, "rule_id": {"S": "stop"}}
    versions = DynamoDBBookVersions(account.dynamodb, LETTERS)
    account.dynamodb.put_item(TableName=RULES, Item=key)
    versions.write("orders", "1")
    account.clock.advance(4.9)
    assert rules() == []
    account.clock.advance(0.1)
    assert rules() == ["stop"]
    account.dynamodb.delete_item(TableName=RULES, Key=key)
    versions.write("*", "2")
    assert rules() == ["stop"]
    # Else a clock that was an hour ahead would keep the rules for an hour.
    account.clock.advance(-3_600)
    assert rules() == []


@pytest.mark.parametrize("pipeline", ["orders", "*"])
def test_rules_are_read_when_their_version_is_another_one_and_every_ten_minutes(
    account: Account, pipeline: str
) -> None:
    reads = 0
    query = account.dynamodb.query

    def counted(**options: Any) -> Any:
        nonlocal reads
        reads += 1
        return query(**options)

    def items() -> list[str]:
        return [item["rule_id"] for item in account.rules.items("orders")]

    with patch.object(account.dynamodb, "query", counted):
        for _ in range(119):
            assert items() == []
            account.clock.advance(5)
        # One query for each of the two partitions, and one page of each.
        assert reads == 2
        account.add_rule("stop", pipeline)
        assert items() == []
        # The checker does not run: the edit is in force all the same.
        account.clock.advance(5)
        assert items() == ["stop"]
        account.add_rule("more", pipeline)
        DynamoDBBookVersions(account.dynamodb, LETTERS).write(pipeline, "1")
        account.clock.advance(5)
        assert items() == ["more", "stop"]
        # Two of the table's pages hold one rule each.
        assert reads == 7


def test_the_counts_of_versions_that_are_gone_are_removed_and_no_others(account: Account) -> None:
    kept = {"r#new": 1, "r2#old": 1, "r#x#old": 1}
    account.ledger.count_matches({**kept, "r#old": 1, "r#older": 1, "r": 1})
    counts = DynamoDBBookVersions(account.dynamodb, LETTERS)
    counts.forget(["orders", "refunds"], "r", "new")
    assert set(account.ledger.all_counts()) == set(kept)
    counts.forget(["orders"], "r", None)
    assert set(account.ledger.all_counts()) == {"r2#old", "r#x#old"}


def test_rules_whose_versions_cannot_be_read_are_read_themselves(account: Account) -> None:
    account.rules.items("orders")
    account.add_rule("stop", "orders")
    account.clock.advance(5)
    with patch.object(account.dynamodb, "batch_get_item", denied):
        assert [item["rule_id"] for item in account.rules.items("orders")] == ["stop"]


# Batches that are larger than one request.


@pytest.mark.parametrize("number", [25, 26, 100, 101, 230])
def test_a_batch_of_any_length_is_written_read_and_deleted_whole(
    account: Account, number: int
) -> None:
    table = DynamoDBTable(account.dynamodb, LETTERS)
    keys = [("p", f"{position:03}") for position in range(number)]
    table.write_many(puts=[{"pk": partition, "sk": sort} for partition, sort in keys])
    assert sorted(table.get_many([*keys, keys[0]])) == keys
    assert len(table.query("p")) == number
    table.write_many(deletes=keys)
    assert table.get_many(keys) == {}


@pytest.mark.parametrize("fifo", [False, True])
def test_any_number_of_letters_goes_into_the_room_and_out_of_it(
    account: Account, fifo: bool
) -> None:
    room = account.room(fifo=fifo)
    orders = [waiting(f"{number:02}") for number in range(60)]
    copies = [order.received.letter.message_id for order in orders]
    assert sorted(room.admit(orders)) == copies
    assert sorted(room.find([order.received for order in orders])) == copies
    entries = [entry for shard in range(SHARDS) for entry in room.due("due", shard, 100, 60)]
    letters = room.read(entries, 1e10).letters
    proofs = [(taken, Confirmation(taken.letter.message_id, "test")) for taken in letters]
    assert room.delete(proofs) == []
    assert room.find([order.received for order in orders]) == {}


def test_a_limit_counts_items_and_not_pages(account: Account) -> None:
    table = DynamoDBTable(account.dynamodb, LETTERS)
    table.write_many(puts=[{"pk": "p", "sk": name} for name in NAMES])
    for most in (1, 2, 3):
        found = table.query("p", limit=most)
        assert [item["sk"] for item in found] == NAMES[:most]


# The pages of other services.


class Pages:
    """A client whose operations answer in pages of one, as botocore's paginators give them."""

    def __init__(self, *pages: dict[str, Any]) -> None:
        self._pages = pages
        self.requests: list[dict[str, Any]] = []

    def get_paginator(self, _operation: str) -> Any:
        return self

    def paginate(self, **request: Any) -> Sequence[dict[str, Any]]:
        self.requests.append(request)
        return self._pages

    def __getattr__(self, _operation: str) -> Callable[..., dict[str, Any]]:
        def call(**request: Any) -> dict[str, Any]:
            self.requests.append(request)
            return self._pages[int(request.get("nextToken", 0))]

        return call


def test_every_running_execution_is_known() -> None:
    """A sweep starts the executions that it does not see running."""
    client: Any = Pages(
        {"executions": [{"name": "first"}], "nextToken": "1"},
        {"executions": [], "nextToken": "2"},
        {"executions": [{"name": "last"}]},
    )
    running = StepFunctionsExecutions(lambda: client, "arn:machine", "orders").running()
    assert running == {"first", "last"}
    assert all(request["statusFilter"] == "RUNNING" for request in client.requests)


def test_every_registration_is_read() -> None:
    terms = {"context": [], "dedicated": [], "policies": [], "max_delay": 900}
    value = json.dumps({"terms": terms})
    parameters = [{"Name": f"/deadletter/{name}", "Value": value} for name in NAMES]
    client: Any = Pages(*({"Parameters": [parameter]} for parameter in parameters))
    assert sorted(SsmPipelines(client, "/deadletter", Clock()).pipelines()) == NAMES


def test_every_handle_of_a_queue_is_hidden_and_every_letter_deleted() -> None:
    """SQS takes ten entries a call."""

    class Sqs:
        def __init__(self) -> None:
            self.entries: list[Any] = []

        def __getattr__(self, _operation: str) -> Callable[..., dict[str, Any]]:
            def call(**request: Any) -> dict[str, Any]:
                assert len(request["Entries"]) <= 10
                self.entries += request["Entries"]
                return {"Successful": [{"Id": entry["Id"]} for entry in request["Entries"]]}

            return call

    client: Any = Sqs()
    queue = SqsQueue(client, "https://sqs/orders", Clock())
    letters = [ReceivedLetter(Letter(str(n), "{}"), f"h{n}", 0) for n in range(25)]
    handles = [letter.handle for letter in letters]
    assert queue.hide([(handle, 5) for handle in handles]) == 0
    assert [entry["ReceiptHandle"] for entry in client.entries] == handles
    client.entries.clear()
    proofs = [Confirmation(letter.letter.message_id, "test") for letter in letters]
    assert queue.delete(list(zip(letters, proofs, strict=True))) == []
    assert [entry["ReceiptHandle"] for entry in client.entries] == handles


@dataclass
class EndlessIndex:
    """An index whose shards have more pages than any look could read; `foreign` rows a page."""

    foreign: int = 0
    asked: int = 0

    def query(self, **_: Any) -> dict[str, Any]:
        self.asked += 1
        assert self.asked <= 100, "a look must end"
        counts = {"Count": 4_000 - self.foreign, "ScannedCount": 4_000}
        return {"Items": [], **counts, "LastEvaluatedKey": {"pk": {"S": str(self.asked)}}}


@pytest.mark.parametrize("foreign", [0, 1])
def test_a_lane_of_millions_is_counted_for_some_pages_and_says_so(foreign: int) -> None:
    index: Any = EndlessIndex(foreign)
    counted = DynamoDBLanes(index, LETTERS, "orders").count("due")
    pages = SHARDS * MOST_PAGES
    assert counted == LaneCount(pages * (4_000 - foreign), is_at_least=True)
    # A page without foreign rows is followed by another, as foreign rows are looked for.
    assert index.asked == pages * (2 if foreign else 1)
