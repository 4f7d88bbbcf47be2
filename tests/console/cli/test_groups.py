"""`dlq groups`: what is failing, and why."""

from __future__ import annotations

import json
import re
import time
from collections import Counter
from functools import partial
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations import groups as operation
from console.operations.groups import ShardReading, read_shard
from deadletter.aws.cause_entries import DynamoDBCauseEntries
from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.waiting_room import DynamoDBLanes
from deadletter.contract import CAUSE_SHARDS, Category, circuit_lane
from deadletter.failure.cause_index import hashed
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import AboutLetter, LedgerUnavailable
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.console.conftest import Cloud, Dlq, refusing
from tests.each_row import each_row
from tests.tables import create_messages_table

LIBRARY = {"consumer_library": True, "context": {"tenantId": "body.tenant"}}
DOWN = {"error_type": "HTTPError", "http_status": 503, "message": "unavailable",
        "fingerprint": "f503"}  # fmt: skip
BUG = {"error_type": "KeyError", "message": "no price", "fingerprint": "fbug"}


@pytest.fixture
def orders(cloud: Cloud) -> Cloud:
    """Pipeline orders is deployed."""
    cloud.deploy("orders", settings=LIBRARY)
    return cloud


def told(dlq: Dlq, line: str = "") -> dict[str, Any]:
    answer: dict[str, Any] = json.loads(dlq(f"groups {line} --json", ends=0).stdout)
    return answer


def sizes(answer: dict[str, Any], name: str = "name") -> dict[str, int]:
    """The messages of each group."""
    return {group[name]: group["messages"] for group in answer["groups"]}


def test_the_first_line_says_how_many_letters_fail_of_how_many_causes(
    orders: Cloud, dlq: Dlq
) -> None:
    now = time.time()
    for number in range(3):
        orders.failed("orders", orders.letter("{}"), at=now - 60 - number, **DOWN)
    orders.failed("orders", bug := orders.letter("{}"), at=now - 5_000, **BUG)
    orders.failed("orders", gone := "was-processed", at=now - 70, **BUG)
    orders.recovered("orders", gone)

    shown = dlq("groups orders").stdout

    assert shown.splitlines()[0].startswith("4 messages, 2 causes in pipeline orders, account ")
    assert re.search(r"^f503 +3 +1 min +rising +HTTPError 503: unavailable$", shown, re.M)
    assert shown.index("HTTPError 503") < shown.index("KeyError: no price")
    assert f"\n  dlq show {bug} --logs --pipeline orders\n" in shown
    assert "\n  dlq circuit list --pipeline orders\n" in shown
    assert "Note" not in shown


def test_only_a_pipeline_without_a_failing_letter_says_that_there_is_none(
    orders: Cloud, dlq: Dlq
) -> None:
    [only] = dlq("groups").stdout.splitlines()
    assert only.startswith("No message is failing in pipeline orders")
    orders.waiting("orders", circuit_lane("orders"), 2)
    shown = dlq("groups", says="The index knows 0 of 2 messages").stdout
    assert shown.startswith("No cause is known of 2 messages in pipeline orders")


def test_attempts_have_a_mean_and_a_share_over_half_of_what_is_allowed(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings={**LIBRARY, "policies": {"default": {"max_attempts": 5}}})
    for number, attempt in enumerate((0, 0, 3, 5)):
        cloud.failed("orders", f"m{number}", attempt=attempt, **DOWN)

    answer = told(dlq, "--by attempts")

    assert answer["attempts"] == {"mean": 3.0, "threshold": 3, "share_over": 0.5}
    assert list(sizes(answer).items()) == [("1", 2), ("4", 1), ("6", 1)]
    says = ("Attempts: 3.0 on average; 50% had more than 3", "\n1 attempt ")
    dlq("groups --by attempts", says=says)
    assert told(dlq)["attempts"] is None


def test_letters_are_grouped_by_their_tenant(orders: Cloud, dlq: Dlq) -> None:
    for number, tenant in enumerate(["t-1", "t-2", "t-1"]):
        orders.failed("orders", f"m{number}", AboutLetter({"tenantId": tenant}), **DOWN)
    answer = told(dlq, "--by tenant")
    assert list(sizes(answer).items()) == [("t-1", 2), ("t-2", 1)]
    assert answer["groups"][0]["next"]["command"].startswith("dlq show m")
    path = "give the pipeline's `context` a path named messageType"
    dlq("groups --by type", says=("3 messages, 1 type", path))
    dlq("groups --by colour", ends=2, refuses="tenant")


def test_what_the_index_and_the_queues_disagree_about_is_said(orders: Cloud, dlq: Dlq) -> None:
    orders.failed("orders", orders.letter("{}"), **DOWN)
    for _ in range(2):
        orders.letter("{}")
    orders.waiting("orders", circuit_lane("orders"), 2)
    answer = told(dlq)
    assert (answer["messages"], answer["in_queues"]) == (1, 5)
    [note] = answer["notes"]
    assert "knows 1 of 5 messages" in note
    assert "of the other 4 it has no row" in note
    for number in range(9):
        orders.failed("orders", f"in-main-{number}", **DOWN)
    [note] = told(dlq)["notes"]
    assert "the other 5 have failed and are in neither" in note


def test_rows_of_letters_that_sqs_has_dropped_are_left_out(orders: Cloud, dlq: Dlq) -> None:
    long_ago = time.time() - 30 * 86_400
    orders.failed("orders", "dropped", at=long_ago, **DOWN)
    orders.failed("orders", "first-life", at=long_ago, **BUG)
    orders.failed("orders", "lives", **BUG)
    # Its origin is first-life.
    orders.waiting("orders", circuit_lane("orders"), 1)
    answer = told(dlq)
    assert sizes(answer) == {"fbug": 2}
    assert "1 row of messages that SQS must have dropped by now" in answer["notes"][0]


@pytest.mark.parametrize("unread", ["lanes", "look"])
def test_a_row_is_left_out_only_if_all_that_waits_was_read(
    orders: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch, unread: str
) -> None:
    orders.failed("orders", "first-life", at=time.time() - 30 * 86_400, **BUG)
    orders.waiting("orders", circuit_lane("orders"), 1)
    monkeypatch.setattr(DynamoDBLanes, unread, refusing("Query"))
    answer = json.loads(dlq("groups --json").stdout)
    assert sizes(answer) == {"fbug": 1}


def test_a_cause_that_suddenly_dominates_is_marked(orders: Cloud, dlq: Dlq) -> None:
    orders.failed("orders", "m1", **BUG)
    orders.sudden("fbug", "KeyError")
    answer = told(dlq)
    assert [group["mark"] for group in answer["groups"]] == ["HELD"]
    [cause] = answer["causes"]
    assert (cause["state"], cause["error_type"]) == ("HELD", "KeyError")
    shown = dlq("groups").stdout
    assert re.search("^fbug +1 .* HELD +KeyError: no price$", shown, re.M)
    assert re.search(r"^Cause fbug \(KeyError\) is HELD for \d+ s until ", shown, re.M)


def test_a_pipeline_without_the_library_is_read_from_a_sample_that_says_so(
    cloud: Cloud, dlq: Dlq
) -> None:
    cloud.deploy("orders", settings={"context": {"tenantId": "body.tenant"}})
    for tenant in ("t-1", "t-1", "t-2"):
        cloud.letter(json.dumps({"tenant": tenant}))
    cloud.letter("not JSON")
    unread = told(dlq, "orders")
    assert [(place["place"], place["messages"]) for place in unread["not_searched"]] == [("dlq", 4)]
    assert "Not searched: dlq (4)\n  --look receives each" in dlq("groups").stdout
    answer = told(dlq, "orders --look")
    assert (answer["messages"], answer["is_at_least"]) == (4, False)
    kinds = {"body: object with tenant": 3, "body: text": 1}
    assert sizes(answer, "error_type") == kinds
    assert "SQS counts each look" in answer["notes"][0]
    assert "SQS does not record why a message failed: 4 of 4" in answer["notes"][1]
    by_tenant = told(dlq, "orders --look --by tenant")
    assert sizes(by_tenant) == {"t-1": 2, "t-2": 1, "unknown": 1}
    assert cloud.visible("orders-dlq") == 4


def test_a_sample_knows_the_causes_that_the_ledger_knows(orders: Cloud, dlq: Dlq) -> None:
    orders.failed("orders", orders.letter("{}"), **DOWN)
    answer = told(dlq, "--in dlq --look")
    [group] = answer["groups"]
    assert (group["name"], group["category"], group["http_status"]) == ("f503", "transient", 503)
    assert (group["messages"], len(answer["notes"])) == (1, 1)
    # Of a message that was sent again its stamp says which one it was.
    orders.failed("orders", "first-life", **BUG)
    orders.letter("{}", Redrive=json.dumps({"origin": "first-life", "attempt": 1}))
    groups = told(dlq, "--in dlq --look")["groups"]
    assert "first-life" in [group["sample"] for group in groups]


@each_row(("how", "name"), [("hashed", hashed("acme", "orders")), ("none", "unknown")])
def test_a_sample_shows_tenants_as_the_ledger_keeps_them(
    cloud: Cloud, dlq: Dlq, how: str, name: str
) -> None:
    cloud.deploy("orders", settings={**LIBRARY, "ledger": how})
    cloud.letter('{"tenant": "acme"}')
    assert {*sizes(told(dlq, "--in dlq --look --by tenant"))} == {name}


def test_a_queue_of_no_pipeline_is_read_with_nothing_deployed(cloud: Cloud, dlq: Dlq) -> None:
    cloud.queue("their-dlq")
    for _ in range(4):
        cloud.letter("{}", "their-dlq", ErrorCode="200", ErrorMessage="connection refused")
    chosen = "--in queue:their-dlq"
    assert told(dlq, chosen)["not_searched"][0]["messages"] == 4
    answer = told(dlq, f"{chosen} --look")
    assert (answer["pipeline"], answer["messages"], answer["is_at_least"]) == (None, 4, False)
    [group] = answer["groups"]
    assert (group["error_type"], group["text"]) == ("200", "connection refused")
    assert group["next"]["command"] == "dlq list --look --body --in queue:their-dlq"
    shown = dlq(f"groups {chosen} --look").stdout
    assert shown.startswith("4 messages, 1 cause, account ")


@pytest.fixture
def two_tenants(orders: Cloud) -> None:
    """A message of each of two tenants: one that waits, and one of which there is a record."""
    orders.failed("orders", "m1", AboutLetter({"tenantId": "t-1"}), **DOWN)
    orders.failed("orders", "first-life", AboutLetter({"tenantId": "t-2"}), **BUG)
    orders.waiting("orders", "due", 1)


@each_row(
    ("chosen", "names"),
    [
        ("-f tenant=t-1", ["f503"]),
        ("-f 'status>499'", ["f503"]),
        ("-f error=KeyError", ["fbug"]),
        ("-f text~PRICE", ["fbug"]),
        ("--in time", ["fbug"]),
        ("--in main", ["f503"]),
        ("-f tenant=t-11", []),
    ],
)
def test_only_chosen_messages_are_grouped(
    two_tenants: None, dlq: Dlq, chosen: str, names: list[str]
) -> None:
    answer = told(dlq, chosen)
    assert [group["name"] for group in answer["groups"]] == names
    assert answer["did_you_mean"] == ([] if names else ["tenant=t-1 (1)"])


def test_what_records_do_not_tell_is_named_as_unsearched(orders: Cloud, dlq: Dlq) -> None:
    orders.failed("orders", "m1", **DOWN)
    [unsearched] = told(dlq, "-f body.kind=order")["not_searched"]
    assert (unsearched["place"], unsearched["messages"]) == ("main or dlq", 1)


# More letters than are read.


@pytest.fixture(scope="module")
def many() -> DynamoDBCauseEntries:
    """One cause with most letters, and others that sort before and behind it."""
    dynamodb: Any = MemoryDynamoDB(Clock())
    create_messages_table(dynamodb)
    ledger = DynamoDBLedger(dynamodb, "messages", "orders", Clock(), 1e6)
    causes = {"a": 20, "b": 900, "c": 30, "d": 30, "": 30}
    for cause, letters in causes.items():
        for number in range(letters):
            failure = Failure(START, 0, Category.TRANSIENT, fingerprint=cause, error_type="E")
            ledger.failed(f"{cause}-{number}", failure)
    return DynamoDBCauseEntries(dynamodb, "messages", "orders")


def _left(reading: ShardReading, most: int) -> int:
    return most - reading.read


def test_a_cause_with_very_many_letters_hides_no_other(
    many: DynamoDBCauseEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "FIRST", 30)
    readings = [ShardReading() for _ in range(CAUSE_SHARDS)]
    for shard, reading in enumerate(readings):
        left = partial(_left, reading, 40)
        read_shard(many, shard, reading, lambda: True, left, ["error_type"])
    assert all(reading.is_whole for reading in readings)
    assert {cause for reading in readings for cause in reading.cut} == {"b"}
    counts = Counter(entry.fingerprint for reading in readings for entry in reading.entries)
    assert counts.pop("b") < 900
    assert counts == {"a": 20, "c": 30, "d": 30, "": 30}


def test_a_shard_is_read_whole_and_no_row_twice(
    many: DynamoDBCauseEntries, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(operation, "FIRST", 7)
    monkeypatch.setattr(operation, "PAGE", 11)
    origins = []
    for shard in range(CAUSE_SHARDS):
        reading = ShardReading()
        read_shard(many, shard, reading, lambda: True, partial(_left, reading, 1_000))
        assert (reading.is_whole, reading.cut) == (True, set())
        origins += [entry.origin for entry in reading.entries]
    assert len(origins) == len(set(origins)) == 1_010


def test_reading_ends_when_the_time_is_over(many: DynamoDBCauseEntries) -> None:
    reading = ShardReading()
    read_shard(many, 0, reading, lambda: False, partial(_left, reading, 1_000))
    assert (reading.entries, reading.is_whole) == ([], False)


def test_an_answer_that_is_not_whole_says_at_least(
    orders: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(60):
        orders.failed("orders", f"m{number}", **DOWN)
    orders.failed("orders", "m", **BUG)
    for name, most in (("MOST_ROWS", 10), ("FIRST", 1), ("A_FEW", 1)):
        monkeypatch.setattr(operation, name, most)
    says = ("messages, at least 2 causes", "≥ 1", "not all were counted")
    assert dlq("groups", says=says).stdout.startswith("At least ")


def test_an_index_that_was_not_read_in_time_is_not_said_to_be_empty(
    orders: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    orders.failed("orders", orders.letter("{}"), **DOWN)
    monkeypatch.setattr(operation, "read_shard", lambda *_: None)
    for options in ([], ["--json"], ["--jsonl"]):
        result = dlq("groups", *options)
        assert (result.exit_code, result.stdout) == (1, "")
        assert "Nothing could be read of the index of causes within 5 s" in result.stderr


def test_a_failure_that_was_not_read_is_not_said_to_be_missing(
    cloud: Cloud, dlq: Dlq, monkeypatch: pytest.MonkeyPatch
) -> None:
    def slow(*_: object) -> None:
        raise LedgerUnavailable("too slow")

    cloud.deploy("orders", settings=LIBRARY)
    cloud.failed("orders", "m1", **DOWN)
    monkeypatch.setattr(DynamoDBCauseEntries, "whole", slow)
    shown = dlq("groups --by tenant").stdout
    assert "its failure was not read" in shown
    [group] = told(dlq)["groups"]
    assert not group["is_read"]
    assert group["next"]["command"] == "dlq show m1 --pipeline orders"


CAUSE = "0123456789abcdef"


@pytest.fixture
def sudden(cloud: Any) -> Any:
    """A deployed pipeline `orders` whose messages suddenly fail."""
    cloud.deploy("orders")
    cloud.sudden(CAUSE)
    return cloud


RETRY = ("retry", "--in", "dlq", "-f", f"cause={CAUSE[:8]}", "--reason", "rolled back")


def test_a_cause_that_is_retried_is_counted_anew(sudden: Any, functions: Any, dlq: Any) -> None:
    sudden.failed("orders", sudden.letter("{}"), fingerprint=CAUSE)
    assert f"Cause {CAUSE} is counted anew" in dlq(*RETRY, "--dry-run").stdout
    dlq(*RETRY, "--yes", ends=Exit.DONE)
    causes, now = DynamoDBCauses(sudden.dynamodb, "circuits", "orders", str).read(), time.time()
    assert (causes.held(now), causes.counts) == ({}, {})
    assert "is MENDED" in dlq("groups").output
    assert "rolled back" in dlq("groups").output


def test_a_cause_is_shown_with_its_hold_its_messages_and_what_people_did(
    sudden: Any, functions: Any, dlq: Any
) -> None:
    sudden.failed("orders", sudden.letter("{}"), fingerprint=CAUSE)
    [held] = json.loads(dlq(f"show cause:{CAUSE[:8]} --json").stdout)["causes"]
    assert (held["pipeline"], held["cause"]) == ("orders", CAUSE)
    assert (held["state"]["state"], held["group"]["messages"]) == ("HELD", 1)
    assert held["changes"] == []
    page = dlq(f"show cause:{CAUSE}").stdout
    assert "Cause 01234567 (ValidationError) is HELD for " in page
    assert "No change of it is on record." in page
    dlq(*RETRY, "--yes")
    [mended] = json.loads(dlq(f"show cause:{CAUSE} --json").stdout)["causes"]
    assert (mended["state"]["state"], mended["state"]["reason"]) == ("MENDED", "rolled back")
    [change] = mended["changes"]
    assert (change["command"], change["why"]) == ("retry", "rolled back")
    assert "retry: cause 0123456789abcdef of orders" in dlq(f"show cause:{CAUSE}").stdout


def test_an_unknown_cause_is_refused(cloud: Any, dlq: Any) -> None:
    cloud.deploy("bills", "orders")
    look = "within a day. Those known:\n  dlq groups bills\n  dlq groups orders\n"
    dlq(
        "show cause:beef",
        ends=Exit.ABSENT,
        refuses=f"No cause 'beef' fails messages, or has dominated {look}",
    )


def test_a_cause_that_was_not_read_is_not_absent(
    sudden: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    typed, unsure = f"show cause:{CAUSE}", f"Whether there is a cause '{CAUSE}' is unknown"
    # It is behind the rows that were read.
    for at in range(CAUSE_SHARDS * 4):
        sudden.failed("orders", f"m-{at}", fingerprint=f"{at:016x}")
    with monkeypatch.context() as patch:
        for name in ("MOST_ROWS", "FIRST", "A_FEW", "MOST_CAUSES"):
            patch.setattr(operation, name, 1)
        page = dlq(typed, ends=Exit.ATTENTION, says="The index has more than").stdout
        assert "No message on record fails" not in page
        dlq("show cause:beef", ends=Exit.ATTENTION, refuses="a cause 'beef' is unknown: The index")
        dlq("groups -f cause=beef", says="No message found among those that were read")
    monkeypatch.setattr(DynamoDBCauses, "read", refusing("GetItem"))
    says = "The dominant causes could not be read"
    dlq(typed, ends=Exit.ATTENTION, refuses=f"{unsure}: {says}")
    sudden.failed("orders", "failing", fingerprint=CAUSE)
    assert "No change" in dlq(typed, ends=Exit.ATTENTION, says=f"! {says}").stdout
    assert json.loads(dlq("groups --json").stdout)["causes"] is None


def test_the_status_says_that_a_configuration_is_broken(cloud: Any, dlq: Any) -> None:
    cloud.deploy("orders")
    for key in ("orders#config", "dependency/payments#config"):
        item = {"pipeline": {"S": "orders"}, "circuit_key": {"S": key}, "state": {"S": "OPEN"}}
        cloud.put("circuits", {**item, "troubled": {"S": "orders"}})
    status = json.loads(dlq("status --json").stdout)
    broken = [item for item in status["attention"] if item["kind"] == "configuration"]
    says = [item["says"] for item in broken]
    assert [text.split()[1] for text in says] == ["dependency/payments#config", "orders#config"]
    assert all("why it opened is not on record" in text for text in says)
    assert broken[1]["type"] == "dlq show circuit:'orders#config' --pipeline orders"
