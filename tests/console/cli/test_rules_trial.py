"""`dlq rules test`: a rule tried on messages, without effect and without showing them."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.contract import PARKED_LANE, Category
from deadletter.failure.ledger import AboutLetter
from deadletter.message.letter import Letter, to_event
from deadletter.message.stamp import Stamp, attribute
from tests.console.conftest import TRUSTED, refusing
from tests.console.rules import HOLD, lacks, typed
from tests.each_row import each_row

OF_A, OF_B = "-f tenant=a", "-f tenant=b"
EITHER = """-f 'match={"$or": [{"body": {"tenantId": ["a"]}}, {"body": {"tenantId": ["b"]}}]}'"""


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a dedicated DLQ, and two rules."""
    context = {"tenantId": "body.tenantId", "region": "attributes.region"}
    cloud.deploy("orders", dedicated=["bulk"], context=list(context), settings={"context": context})
    cloud.rule("bad", tenantId="a", action="HALT")
    cloud.rule("before", tenantId="a", action="DEFAULT", priority=1)
    return cloud


@pytest.fixture
def three(orders: Any) -> list[str]:
    """Three letters in the DLQ, two of tenant `a`."""
    return [orders.letter(json.dumps({"tenantId": tenant, "secret": 424_242})) for tenant in "aab"]


def trial(dlq: Any, line: str, *more: str, answers: str = "") -> Any:
    answer = json.loads(typed(dlq, f"test --json {line}", *more, answers=answers).stdout)
    assert answer["files"] is None
    return answer["trial"]


def tried(answer: Any) -> dict[str, tuple[int, int]]:
    """Messages and matches, by the place."""
    return {each["place"]: (each["messages"], each["matched"]) for each in answer["tried"]}


@each_row(
    ("line", "matched"), [(OF_A, 2), (OF_B, 1), (EITHER, 3), ("shared", 2), ("-f 'status>499'", 1)]
)
def test_messages_of_the_dlq_are_tried_and_given_back(
    orders: Any, dlq: Any, three: list[str], line: str, matched: int
) -> None:
    # A rule is tried whatever its state, and what records say of a message is a part of it.
    off = {"enabled": False, "max_matches": 1, "expires_at": "2026-01-01"}
    orders.rule("shared", "*", tenantId="a", action="DEDICATED_DLQ", queue="bulk", **off)
    orders.failed("orders", three[0], category=Category.TRANSIENT, http_status=503)
    answer = trial(dlq, line, "--look")
    assert tried(answer) == {"dlq": (3, matched)}
    assert set(answer["matching"]) == set(three[2:] if line == OF_B else three[:matched])
    assert answer["rule_id"] == ("shared" if line == "shared" else None)
    assert orders.visible("orders-dlq") == 3
    says = [f"Would match {matched} of 3 messages of dlq."]
    if line == OF_A:
        says.append('About: tenantId "a" in pipeline orders, account 123456789012')
    if "status" in line:
        says.append("Matches 1 of 1 message here now; 1 of 1 in 7 days")
        assert answer["on_record"]["matched"] == 1
    typed(dlq, f"test {line}", "--look", says=says)


def test_missed_fields_are_counted_and_never_quoted(
    orders: Any, dlq: Any, three: list[str]
) -> None:
    orders.letter("not JSON, and a secret")
    line = """-f 'match={"body": {"secret": ["4111-x"], "n": [{"exists": true}]}}' --look"""
    missed = trial(dlq, line)["missed"]
    assert sorted((field["path"], field["found"], field["messages"]) for field in missed) == [
        ("body.n", "absent", 4),
        ("body.secret", "absent", 1),
        ("body.secret", "number", 3),
    ]
    page = typed(dlq, f"test {line}", says="body.secret").stdout
    assert not [secret for secret in ("424242", "not JSON") if secret in page]


def test_so_many_messages_of_a_place_are_enough(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.operations.rule_trial.SAMPLE", 12)
    for _ in range(25):
        orders.letter('{"tenantId": "a"}')
    assert tried(trial(dlq, OF_A, "--look")) == {"dlq": (12, 12)}
    assert orders.visible("orders-dlq") == 25


def test_a_rule_is_tried_wherever_messages_lie(orders: Any, dlq: Any) -> None:
    waiting = {"one a": "due", "two a": "rule:stop", "three b": "rule:stop", "saved b": PARKED_LANE}
    for copy, lane in waiting.items():
        orders.admit(lane, Letter(copy, json.dumps({"tenantId": copy[-1]})), Stamp(copy))
    orders.park("orders", "POISON", body='{"tenantId": "a"}')
    orders.letter('{"tenantId": "a"}')
    orders.letter('{"tenantId": "b"}', "orders-dlq-bulk")
    # Its record alone is no message to try a rule on.
    orders.failed("orders", "elsewhere", AboutLetter({"tenantId": "a"}))
    answer = trial(dlq, OF_A, "--look")
    assert (len(answer["matching"]), "elsewhere" in answer["matching"]) == (4, False)
    assert tried(answer) == {
        "dlq": (1, 1), "dedicated:bulk": (1, 0), "parked": (2, 1), "rule:stop": (2, 1),
        "time": (1, 1),
    }  # fmt: skip
    assert "saved b" in trial(dlq, OF_B, "--look")["matching"]


# Pasted.

MESSAGE = {
    "MessageId": "m1",
    "Body": '{"tenantId": "a"}',
    "Attributes": {"SenderId": TRUSTED, "SentTimestamp": "1"},
    "MessageAttributes": {
        "region": {"DataType": "String", "StringValue": "eu"},
        "zipped": {"DataType": "Binary", "BinaryValue": "AAE="},
        "Redrive": {"DataType": "String", "StringValue": attribute(Stamp("o", 4)).value},
    },
}
RECORD = to_event(Letter("m1", '{"tenantId": "a"}'), receipt_handle="r", source_arn="arn")
DOUBLE = '{"tenantId": "a", "tenantId": "b"}'
SENT_BACK = "-f attempt=4 -f attribute.region=eu"


@each_row(
    ("body", "line", "found"),
    [
        ('{"tenantId": "a", "Records": [{"s3": {}}]}', OF_A, (1, 1)),
        ("not JSON", OF_A, (1, 0)),
        (DOUBLE, OF_A, (1, 0)),
        (DOUBLE, OF_B, (1, 0)),
        # Output of the AWS CLI, and a Lambda event.
        (json.dumps({"Messages": [MESSAGE, MESSAGE]}), SENT_BACK, (2, 2)),
        (json.dumps(MESSAGE), SENT_BACK, (1, 1)),
        (json.dumps({"Records": [RECORD]}), OF_A, (1, 1)),
    ],
)
def test_what_is_pasted_is_a_message(
    orders: Any, dlq: Any, tmp_path: Path, body: str, line: str, found: tuple[int, int]
) -> None:
    answer = trial(dlq, line, "--body", "-", answers=body)
    assert (tried(answer), answer["on_record"]) == ({"pasted": found}, None)
    sent = "MessageId" in body or "messageId" in body
    assert answer["matching"] == ["m1" if sent else "pasted"] * found[1]
    (tmp_path / "message.json").write_text(body)
    assert tried(trial(dlq, line, "--body", str(tmp_path / "message.json"))) == {"pasted": found}


def test_messages_of_which_one_is_broken_are_not_taken_for_a_body(orders: Any, dlq: Any) -> None:
    body = json.dumps({"Messages": [MESSAGE, {"MessageId": "b"}]})
    refuses = "Message 2 of 2 is not as SQS gives it"
    dlq(f"rules test {OF_A} --body -", answers=body, ends=Exit.USAGE, refuses=refuses)


def test_a_stamp_that_none_of_our_roles_wrote_is_ignored(orders: Any, dlq: Any) -> None:
    """The message is in its first attempt."""
    forged = json.dumps({**MESSAGE, "Attributes": {"SenderId": "AIDAPRODUCER:x"}})
    for attempt, matched in ((4, 0), (0, 1)):
        answer = trial(dlq, f"-f attempt={attempt}", "--body", "-", answers=forged)
        assert tried(answer) == {"pasted": (1, matched)}
        assert "1 message with an attribute Redrive of another sender" in answer["notes"][0]


@each_row(
    ("line", "ends", "says"),
    [
        ("", Exit.USAGE, "Name a rule, or say what it is about"),
        (f"r {OF_A}", Exit.USAGE, "Name a rule, or say what it is about"),
        (f"{OF_A} --look --body -", Exit.USAGE, "--body and --look exclude each other"),
        ("--file - r", Exit.USAGE, "--file checks files alone"),
        ("-f reason=POISON", Exit.USAGE, "a rule knows no reason"),
        ("bad", Exit.ATTENTION, "INVALID in orders: action 'HALT' is unknown"),
        ("nope", Exit.ABSENT, "There is no rule 'nope' for orders"),
    ],
)
def test_what_can_not_be_tried_is_named(
    orders: Any, dlq: Any, line: str, ends: Exit, says: str
) -> None:
    assert says in typed(dlq, f"test {line}", ends=ends).stderr


def test_a_refused_read_of_the_failure_records_is_a_sentence_about_aws(
    orders: Any, dlq: Any, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = refusing("BatchGetItem")
    monkeypatch.setattr("deadletter.aws.dynamodb.DynamoDBTable.get_many", refused)
    typed(dlq, f"test {OF_A} --look", ends=Exit.UNREACHABLE, refuses="AWS refuses BatchGetItem")


def test_a_rule_is_tried_on_the_failure_records(orders: Any, dlq: Any) -> None:
    old = {"at": time.time() - 7.5 * 86_400}
    for number in range(120):
        about = AboutLetter({"tenantId": "b" if number % 40 else "a"})
        orders.failed("orders", f"m{number}", about, **(old if number < 20 else {}))
    orders.rule("row", tenantId="a", action="HOLD")
    answer = trial(dlq, OF_A)
    record = answer["on_record"]
    assert (record["here"], record["matched"], record["tenants"]) == (120, 3, 1)
    assert (record["failed"], record["failed_matched"]) == (100, 2)
    assert (sorted(answer["matching"]), record["hints"]) == (["m0", "m40", "m80"], [])
    assert (answer["tried"], orders.received("orders-dlq")) == ([], 0)
    of_b = f"-f body.amount=5 {OF_B}"
    untold = trial(dlq, of_b)["on_record"]
    assert (untold["matched"], untold["untold"]) == (0, 117)
    says = (
        "Matches 0 of 120 messages here now; 0 of 100 in 7 days, since",
        "Can't be told for 117 messages: bodies and attributes are not kept.",
    )
    typed(dlq, f"test {of_b}", says=says)
    # A rule that is added, and a row that was typed into the table, say the same.
    for page in (
        typed(dlq, f"test {OF_A}"),
        typed(dlq, f"add r {OF_A} --action HOLD --reason x --expires 1h --dry-run"),
        dlq("show rule:row"),
    ):
        assert lacks(page.stdout, "atches 3 of 120 messages here now; 2 of 100 in 7 days") == []


def test_a_throttle_says_how_long_its_messages_take_and_how_many_are_too_old_by_then(
    cloud: Any, dlq: Any
) -> None:
    settings = {"context": {"tenantId": "body.tenantId"}, "message_ttl": 25}
    cloud.deploy("orders", context=["tenantId"], settings=settings)
    for _ in range(4):
        cloud.letter('{"tenantId": "a"}')
    cloud.rule("slow", **{**HOLD, "action": "THROTTLE", "rate": 0.1})
    answer = trial(dlq, "slow --look")
    assert (tried(answer), answer["takes_seconds"]) == ({"dlq": (4, 4)}, 40.0)
    assert answer["expire"] == 2
    page = typed(dlq, "test slow --look").stdout
    assert "At its rate they take 40 s; 2 messages would be too old by then." in page
    assert trial(dlq, f"{OF_A} --look")["takes_seconds"] is None
