"""Messages of one ordering key, as the consumer library handles them, on tables in memory."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest

from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.queue import SqsQueue
from deadletter.consumer import Permanent, consume
from deadletter.consumer import runtime as consumer_runtime
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import LedgerRow, LedgerUnavailable, Recovery
from deadletter.message.queue import SendResult
from deadletter.processing.key_order import arranged
from deadletter.routing.line import (
    LONGEST_HANDLING,
    Handling,
    Patience,
    PlaceState,
    patience_of,
    state_of,
)
from deadletter.routing.ordering import KeyPlace
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from deadletter.testing.letterbox import FUNCTION_SECONDS, VISIBILITY
from tests.samples import failed

SETTINGS = Pipeline(
    "orders",
    consumer_library=True,
    idempotency_key="body.id",
    ordering_key="body.account",
    sequence="body.version",
)


class Shop:
    """A consumer that applies versions of accounts, and refuses those that are `sick`."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, settings: Pipeline = SETTINGS) -> None:
        self.box = Letterbox(settings, max_receive_count=2)
        monkeypatch.setattr(consumer_runtime, "current_runtime", lambda: self.box.runtime)
        self.sick: set[int] = set()
        self.killed: set[int] = set()
        self.fatal: set[int] = set()
        self.during: dict[int, Callable[[], None]] = {}
        self.applied: list[tuple[str, int]] = []

    def send(self, *versions: int, account: str = "a") -> list[str]:
        ids = []
        for version in versions:
            body = {"id": f"{account}{version}", "account": account, "version": version}
            ids.append(self.box.send(body))
        return ids

    def work(self, record: dict[str, Any]) -> None:
        body = json.loads(record["body"])
        self.during.pop(body["version"], lambda: None)()
        if body["version"] in self.fatal:
            raise Permanent("of no use")
        if body["version"] in self.killed:
            raise KeyboardInterrupt
        if body["version"] in self.sick:
            raise TimeoutError
        self.applied.append((body.get("account", ""), body["version"]))

    def run(self) -> None:
        self.box.run(lambda event, context: consume(event, context, self.work))

    def settle(self, seconds: float = 1_000) -> None:
        self.box.clock.advance(seconds)
        self.run()

    def heal(self, first: str) -> None:
        """Bring version 1 back, whose first life had this id."""
        self.box.redrive({"id": "a1", "account": "a", "version": 1}, origin=first, attempt=1)
        self.run()

    def versions(self, account: str = "a") -> list[int]:
        return [version for name, version in self.applied if name == account]

    def lines(self) -> list[dict[str, Any]]:
        """The rows of all lines, each with its sort key's first word."""
        kind = f"#{Partition.LINE}#"
        return [
            {"kind": item["sk"]["S"].split()[0], **item}
            for item in self.box.dynamodb.items("messages")
            if kind in item["pk"]["S"]
        ]


@pytest.fixture
def shop(monkeypatch: pytest.MonkeyPatch) -> Shop:
    return Shop(monkeypatch)


def test_the_messages_of_a_batch_are_handled_in_order(shop: Shop) -> None:
    shop.send(3, 1, 2)
    shop.send(2, 1, account="b")
    shop.run()
    assert shop.versions() == [1, 2, 3]
    assert shop.versions("b") == [1, 2]


def test_a_later_one_waits_for_one_that_has_failed(shop: Shop) -> None:
    shop.sick = {1}
    shop.send(1)
    shop.run()
    shop.send(2, 3)
    shop.send(1, account="b")
    shop.run()
    assert shop.applied == []
    assert shop.box.metrics["BehindAnother"] == 2
    shop.sick = set()
    shop.settle()
    shop.settle()
    assert shop.versions() == [1, 2, 3]
    assert shop.versions("b") == [1]


def test_other_keys_do_not_wait(shop: Shop) -> None:
    shop.sick = {1}
    shop.send(1)
    shop.run()
    shop.send(2, account="b")
    shop.run()
    assert shop.versions("b") == [2]


def test_an_older_one_is_skipped_once_a_later_one_was_processed(shop: Shop) -> None:
    shop.send(2)
    shop.run()
    [late] = shop.send(1)
    shop.run()
    assert shop.versions() == [2]
    assert shop.box.metrics["Superseded"] == 1
    assert shop.box.waiting == []
    assert shop.box.dead == []
    # It was not processed, and no row says so.
    rows = shop.box.dynamodb.items("messages")
    [row] = [each for each in rows if each.get("origin") == {"S": late}]
    assert row["status"]["S"] == "RELEASED"
    assert shop.box.ledger(late).recovered_as is Recovery.SUPERSEDED


def test_a_dead_one_that_is_skipped_is_on_record_as_superseded(shop: Shop) -> None:
    shop.send(2)
    shop.run()
    body = {"id": "a1", "account": "a", "version": 1}
    shop.box.redrive(body, origin="its-first-id", attempt=1)
    shop.run()
    assert shop.box.ledger("its-first-id").outcome_in(1) == "superseded"
    assert "RedriveSuccess" not in shop.box.metrics


@pytest.mark.parametrize("version", [None, "ten"])
def test_a_message_without_a_number_supersedes_none(shop: Shop, version: str | None) -> None:
    odd = {"id": "odd", "account": "a", "version": version}
    shop.box.send(odd)
    shop.run()
    shop.send(1)
    shop.run()
    assert shop.versions() == [version, 1]
    assert "Superseded" not in shop.box.metrics


def test_a_ledger_that_gives_no_answer_brings_the_message_back(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.sick = {1}
    shop.send(1)
    shop.run()

    def down(*_: Any, **__: Any) -> Any:
        raise LedgerUnavailable("down")

    shop.send(2)
    with monkeypatch.context() as patched:
        patched.setattr(shop.box.runtime.consumer.order._lines, "rows", down)  # type: ignore[union-attr]
        shop.run()
    assert shop.applied == []
    assert shop.box.metrics["IdempotencyUnavailable"] == 1
    shop.sick = set()
    shop.settle()
    shop.settle()
    assert shop.versions() == [1, 2]


def test_one_place_may_have_two_messages(shop: Shop) -> None:
    for name in ("x", "y"):
        shop.box.send({"id": name, "account": "a", "version": 1})
    shop.run()
    assert shop.versions() == [1, 1]


def test_a_parked_one_lets_the_others_go_on(shop: Shop) -> None:
    shop.sick = {1}
    [first] = shop.send(1)
    shop.run()
    shop.send(2)
    shop.run()
    shop.settle()
    assert shop.applied == []
    client: Any = shop.box.dynamodb
    ledger = DynamoDBLedger(client, "messages", "orders", shop.box.clock, ROWS_KEPT)
    ledger.note_parked(first, shop.box.clock(), "POISON", "")
    shop.box.redrive({"id": "a2", "account": "a", "version": 2}, origin="its-id", attempt=1)
    shop.run()
    assert shop.versions() == [2]


@pytest.mark.parametrize(("life", "goes"), [(0, [2]), (1, [])])
def test_a_late_word_of_a_life_that_was_parked_holds_up_no_key(
    shop: Shop, life: int, goes: list[int]
) -> None:
    """It is of a process that slept; what a person sends again has a new life."""
    shop.sick = {1}
    [first] = shop.send(1)
    shop.run()
    records(shop).note_parked(first, shop.box.clock(), "CRASH", "")
    shop.box.clock.advance(1)
    untried = {"error_type": str(Fate.UNGUARDED), "message": GIVEN_BACK, "fingerprint": ""}
    records(shop).failed(first, failed(at=shop.box.clock(), attempt=life, **untried), None)
    shop.send(2)
    shop.run()
    assert shop.versions() == goes


@pytest.mark.parametrize("version", [1, 3])
def test_others_wait_while_an_effect_may_have_happened(shop: Shop, version: int) -> None:
    shop.killed = {2}
    shop.send(2)
    with pytest.raises(KeyboardInterrupt):
        shop.run()
    shop.killed = set()
    # Its claim has ended, and SQS hides it still.
    shop.box.clock.advance(FUNCTION_SECONDS + 10)
    shop.send(version)
    shop.run()
    assert shop.applied == []
    assert shop.box.metrics["BusyElsewhere"] == 1
    shop.settle()
    shop.settle()
    assert shop.versions() == [2, 3] if version == 3 else [2]


def test_a_message_of_which_no_more_is_heard_is_waited_for_so_long(shop: Shop) -> None:
    shop.killed = {1}
    shop.send(1)
    with pytest.raises(KeyboardInterrupt):
        shop.run()
    shop.box.clock.advance(VISIBILITY + 1)
    [message] = shop.box.sqs.receive_message(QueueUrl=shop.box.main)["Messages"]
    shop.box.sqs.delete_message(QueueUrl=shop.box.main, ReceiptHandle=message["ReceiptHandle"])
    shop.send(2)
    shop.settle(patience_of(SETTINGS).unrecorded - 2 * VISIBILITY)
    assert shop.applied == []
    shop.send(2)
    shop.settle()
    assert shop.versions() == [2]


def test_without_a_sequence_the_first_send_decides_and_none_is_skipped(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    shop = Shop(monkeypatch, Pipeline("orders", consumer_library=True, ordering_key="body.account"))
    shop.sick = {9}
    shop.send(9)
    shop.run()
    shop.box.clock.advance(1)
    shop.send(1)
    shop.run()
    assert shop.applied == []
    shop.sick = set()
    shop.settle()
    shop.settle()
    assert shop.versions() == [9, 1]
    assert "Superseded" not in shop.box.metrics


def test_a_message_without_the_key_waits_for_none(shop: Shop) -> None:
    shop.box.send({"id": "x", "version": 1})
    shop.run()
    assert shop.box.waiting == []
    assert shop.lines() == []


def test_nothing_is_written_without_the_setting(monkeypatch: pytest.MonkeyPatch) -> None:
    shop = Shop(monkeypatch, Pipeline("orders", consumer_library=True, idempotency_key="body.id"))
    shop.send(2, 1)
    shop.run()
    assert shop.versions() == [2, 1]
    assert shop.lines() == []


def test_a_message_costs_one_write_more(shop: Shop) -> None:
    shop.send(*range(1, 6))
    shop.run()
    assert [row["kind"] for row in shop.lines()] == ["head"]


def test_what_has_waited_leaves_no_row(shop: Shop) -> None:
    shop.sick = {1}
    shop.send(1)
    shop.run()
    shop.send(2)
    shop.run()
    assert sorted(row["kind"] for row in shop.lines()) == ["head", "open"]
    shop.sick = set()
    shop.settle()
    shop.settle()
    assert [row["kind"] for row in shop.lines()] == ["head"]


def test_a_claim_without_an_end_holds_up_no_key_for_ever(shop: Shop) -> None:
    shop.send(1)
    shop.run()
    [claim] = [row for row in shop.box.dynamodb.items("messages") if row["sk"]["S"] == "claim"]
    endless = {"status": {"S": "CLAIMED"}, "until": {"N": "9999999999"}}
    shop.box.dynamodb.put_item(TableName="messages", Item={**claim, **endless})
    shop.send(2)
    shop.settle()
    assert shop.versions() == [1]
    shop.send(3)
    shop.settle(LONGEST_HANDLING)
    assert 3 in shop.versions()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("own", {"N": "7"}),
        ("place", {"N": "7"}),
        ("origin", {"S": ""}),
        ("done", {"BOOL": True}),
        ("at", {"S": "soon"}),
        ("at", {"N": "99999999999"}),
        ("ttl", {"S": "never"}),
        ("ttl", {"N": "1"}),
    ],
)
def test_a_broken_head_stops_no_message(shop: Shop, name: str, value: dict[str, Any]) -> None:
    shop.send(1)
    shop.run()
    [head] = shop.lines()
    head.pop("kind")
    shop.box.dynamodb.put_item(TableName="messages", Item={**head, name: value})
    shop.send(2)
    shop.settle()
    assert shop.versions() == [1, 2]


def test_places_of_a_key_change_among_themselves() -> None:
    def place(line: str, number: str) -> KeyPlace:
        return KeyPlace(line, number, "x")

    places = [place("a", "3"), None, place("b", "1"), place("a", "1"), place("a", "2")]
    assert arranged(places) == [3, 1, 2, 4, 0]


# What others of the key are told, and when.


def records(shop: Shop) -> DynamoDBLedger:
    client: Any = shop.box.dynamodb
    return DynamoDBLedger(client, "messages", "orders", shop.box.clock, ROWS_KEPT)


def behind(shop: Shop, *later: dict[str, Any]) -> str:
    """Have `later` messages wait for version 1, which heals. Returns the id of version 1."""
    shop.sick = {1}
    [first] = shop.send(1)
    shop.run()
    shop.sick = set()
    for body in later:
        shop.box.send({"account": "a", **body})
    return first


def test_a_message_that_collides_waits_under_a_claim_of_its_own(shop: Shop) -> None:
    shop.box.send({"id": "k", "account": "a", "version": 0})
    shop.run()
    first = behind(shop, {"id": "k", "version": 5})
    shop.run()
    shop.heal(first)
    shop.send(7)
    shop.run()
    shop.settle()
    shop.settle()
    assert shop.versions() == [0, 1, 7]
    assert [parked.stamp.reason for parked in shop.box.parked] == ["KEY_CONFLICT"]


def test_one_given_back_is_waited_for_while_its_batch_goes_on(shop: Shop) -> None:
    first = behind(shop, {"id": "a2", "version": 2}, {"id": "b", "account": "b", "version": 100})

    def meanwhile() -> None:
        shop.heal(first)
        shop.send(3)
        shop.run()

    shop.during = {100: meanwhile}
    shop.run()
    shop.settle()
    shop.settle()
    assert shop.versions() == [1, 2, 3]


FULL = {f"x{number}": "v" for number in range(10)}


def test_a_message_that_cannot_be_parked_is_waited_for(shop: Shop) -> None:
    shop.fatal = {1}
    body = {"id": "a1", "account": "a", "version": 1}
    first = shop.box.send(body, attributes=FULL)
    shop.run()
    shop.settle()
    assert (shop.box.parked, shop.box.ledger(first).parked_as) == ([], None)
    shop.send(2)
    shop.run()
    assert shop.applied == []


def test_a_message_whose_parking_was_refused_is_waited_for_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Any, envelopes: Any) -> SendResult:
        shop.box.clock.advance(1)
        return SendResult(refused={each.copy: "AccessDenied" for each in envelopes})

    monkeypatch.setattr(SqsQueue, "send", refused)
    shop.fatal = {1}
    shop.send(1)
    shop.run()
    shop.settle()
    shop.send(2)
    shop.run()
    assert (shop.applied, shop.box.parked) == ([], [])


def test_a_discarded_message_is_waited_for_no_more(shop: Shop) -> None:
    shop.killed = {1}
    [first] = shop.send(1)
    with pytest.raises(KeyboardInterrupt):
        shop.run()
    shop.killed = set()
    shop.box.clock.advance(VISIBILITY + 1)
    [message] = shop.box.sqs.receive_message(QueueUrl=shop.box.main)["Messages"]
    shop.box.sqs.delete_message(QueueUrl=shop.box.main, ReceiptHandle=message["ReceiptHandle"])
    shop.send(2)
    shop.run()
    assert shop.applied == []
    records(shop).note_discarded(first, shop.box.clock())
    shop.settle()
    assert shop.versions() == [2]


@pytest.mark.parametrize("row", [{}, {"at": {"N": "5E+11"}}, {"at": {"S": "x"}}])
def test_a_row_that_does_not_say_since_when_blocks_no_key(shop: Shop, row: Any) -> None:
    shop.send(2)
    shop.run()
    [head] = shop.lines()
    shop.box.dynamodb.put_item(
        TableName="messages", Item={"pk": head["pk"], "sk": {"S": "open 0c001 nobody"}, **row}
    )
    shop.send(3)
    shop.run()
    assert shop.versions() == [2, 3]


def test_a_damaged_version_supersedes_nothing(shop: Shop) -> None:
    shop.send(1)
    shop.run()
    [head] = shop.lines()
    head = {name: value for name, value in head.items() if name != "kind"}
    shop.box.dynamodb.put_item(TableName="messages", Item={**head, "done": {"S": "0zzz"}})
    shop.send(2)
    shop.run()
    assert shop.versions() == [1, 2]


def other(shop: Shop, version: Any, account: str, id_: str) -> str:
    """Send a message that names the business key of another one."""
    return shop.box.send({"id": id_, "account": account, "version": version})


def test_a_message_is_not_done_because_another_one_with_its_key_is(shop: Shop) -> None:
    """Nothing of its account was processed, so nothing of it is superseded."""
    shop.sick = {9}
    shop.send(9)
    shop.run()
    other(shop, 1, "b", "a9")
    shop.run()
    assert shop.versions("b") == [1]
    shop.send(5)
    shop.run()
    assert shop.versions() == [5]
    assert "Superseded" not in shop.box.metrics


def test_another_message_with_its_business_key_waits_for_it_too(shop: Shop) -> None:
    shop.sick = {2}
    shop.send(2)
    shop.run()
    other(shop, 3, "a", "a2")
    shop.run()
    assert shop.versions() == []
    shop.sick = set()
    shop.settle()
    shop.settle()
    assert shop.versions()[0] == 2


def test_a_second_send_of_a_message_does_not_wait_for_the_first(shop: Shop) -> None:
    shop.sick = {2}
    shop.send(2)
    shop.run()
    shop.sick = set()
    shop.send(2)
    shop.run()
    assert shop.versions() == [2]


def test_a_version_that_is_a_text_does_not_end_the_order_of_numbers(shop: Shop) -> None:
    shop.send(5)
    shop.run()
    for version in ("x", 3, "w"):
        other(shop, version, "a", f"odd {version}")
        shop.run()
    assert shop.versions() == [5, "x"]
    assert shop.box.metrics["Superseded"] == 2


@pytest.mark.parametrize("later", ["v1 0", "v1\t", "v1\0", "v1é", "v10"])
def test_a_text_is_behind_the_one_that_it_begins_with(shop: Shop, later: str) -> None:
    shop.sick = {"v1"}  # type: ignore[arg-type]
    other(shop, "v1", "a", "one")
    shop.run()
    # With another one handled since, v1 is among those that wait.
    other(shop, "v0", "a", "zero")
    shop.run()
    other(shop, later, "a", "two")
    shop.run()
    assert shop.versions() == ["v0"]


def test_a_place_that_is_cut_off_has_no_other_of_its_text_above_it() -> None:
    long = "1" + "𝄞" * 128
    first, second = (KeyPlace("line", f"{long}{end}", f"f{end}") for end in "ab")
    assert first.sort < second.upto
    assert second.sort < first.upto
    assert len(f"open {first.sort}") < 1_024 - 36


def test_a_line_of_many_is_read_to_the_first_that_waits(shop: Shop) -> None:
    shop.sick = {1}
    shop.send(1)
    shop.run()
    [head] = shop.lines()
    line, lines = head["pk"]["S"].rpartition("#")[2], shop.box.runtime.consumer.order._lines
    for number in range(100):
        lines.add(KeyPlace(line, f"1{number:03}", f"origin {number}"))
    before = shop.box.dynamodb.consumed
    found = lines.read([KeyPlace(line, "1999", "last")])[line]
    used = shop.box.dynamodb.consumed - before
    assert [place.number[:1] for place in found.open[:2]] == ["0", "1"]
    assert not found.is_whole
    assert used.read_units < 20


def test_the_late_failure_of_a_process_that_slept_holds_up_nobody(shop: Shop) -> None:
    """Its message was received again meanwhile, and parked."""
    shop.box.max_receive_count = 5

    def sleeps() -> None:
        shop.box.clock.advance(VISIBILITY + 60)
        shop.fatal = {1}
        shop.run()
        shop.settle()
        assert (len(shop.box.parked), shop.box.waiting) == (1, [])
        shop.fatal, shop.sick = set(), {1}

    shop.during = {1: sleeps}
    [first] = shop.send(1)
    shop.run()
    shop.send(2)
    shop.settle()
    assert shop.versions() == [2]
    row = shop.box.ledger(first)
    assert row is not None
    assert row.parked_at is not None


def test_a_parking_that_was_refused_is_taken_back_whatever_a_stale_read_says(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(self: Any, envelopes: Any) -> SendResult:
        shop.box.clock.advance(1)
        return SendResult(refused={each.copy: "AccessDenied" for each in envelopes})

    monkeypatch.setattr(SqsQueue, "send", refused)
    shop.box.max_receive_count = 5
    shop.fatal = {1}
    [first] = shop.send(1)
    shop.run()
    # As if each replica had what was written before the word of the parking.
    monkeypatch.setattr(DynamoDBLedger, "_knows", lambda *_: True)
    shop.settle(200)
    row = shop.box.ledger(first)
    assert row is not None
    assert row.going_on
    shop.send(2)
    shop.run()
    assert shop.versions() == []


def test_what_the_ledger_says_was_processed_is_done_though_its_claim_was_not_told(
    shop: Shop,
) -> None:
    shop.sick = {5}
    [late] = shop.send(5)
    shop.run()
    shop.box.runtime.consumer.log.recovered(late, 1, shop.box.clock() + 1, Recovery.PROCESSED)
    shop.box.clock.advance(2)
    shop.send(3)
    shop.run()
    assert shop.versions() == []
    assert shop.box.metrics["Superseded"] == 1


@pytest.mark.parametrize(
    ("late", "state"),
    [
        # SQS shows a copy once more that was processed in its next life.
        (failed(error_type=Fate.UNGUARDED, message=GIVEN_BACK, at=200.0), PlaceState.DONE),
        (
            failed(error_type=Fate.UNGUARDED, message=GIVEN_BACK, at=200.0, attempt=2),
            PlaceState.OPEN,
        ),
        (failed(at=200.0), PlaceState.OPEN),
        (failed(at=90.0), PlaceState.DONE),
    ],
)
def test_a_late_word_of_a_life_before_reopens_no_processed_message(
    late: Failure, state: PlaceState
) -> None:
    row = LedgerRow((late,), recovered_at=100.0, recovered_attempt=1)
    patience = Patience(unrecorded=1_000.0, recorded=1_000.0)
    assert state_of(Handling.NONE, row, 50.0, 300.0, patience, is_holder=False) is state
