"""`dlq rules test`: a rule tried on messages, without effect and without showing them."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError

from console.cli.exit import Exit
from deadletter.contract import PARKED_LANE
from deadletter.failure.ledger import AboutLetter
from deadletter.message.letter import Letter, to_event
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp, attribute
from deadletter.redrive.order import Order
from deadletter.routing.decision import Hold
from tests.console.conftest import TRUSTED


@pytest.fixture
def orders(cloud: Any) -> Any:
    """A deployed pipeline `orders` with a dedicated DLQ."""
    context = {"tenantId": "body.tenantId", "region": "attributes.region"}
    cloud.deploy("orders", dedicated=["bulk"], context=list(context), settings={"context": context})
    return cloud


@pytest.fixture
def three(orders: Any) -> list[str]:
    """Three letters in the DLQ, two of tenant `a`."""
    return [orders.letter(json.dumps({"tenantId": tenant, "secret": 424_242})) for tenant in "aab"]


OF_A = ("-f", "tenant=a")


def trial(dlq: Any, *arguments: str, answers: str = "") -> Any:
    done = dlq("rules", "test", "--json", *arguments, answers=answers)
    assert done.exit_code == Exit.DONE, done.output
    answer = json.loads(done.stdout)
    assert answer["files"] is None
    return answer["trial"]


def tried(answer: Any) -> dict[str, tuple[int, int]]:
    """Messages and matches, by the place."""
    return {each["place"]: (each["messages"], each["matched"]) for each in answer["tried"]}


def test_messages_of_the_dlq_are_counted_and_given_back(
    orders: Any, dlq: Any, three: list[str]
) -> None:
    answer = trial(dlq, *OF_A, "--look")
    assert tried(answer) == {"dlq": (3, 2)}
    assert set(answer["matching"]) == set(three[:2])
    assert orders.visible("orders-dlq") == 3
    page = dlq("rules", "test", *OF_A, "--look").stdout
    assert 'About: tenantId "a" in pipeline orders, account 123456789012' in page
    assert "Would match 2 of 3 messages of dlq." in page


def test_missed_fields_are_counted_and_never_quoted(
    orders: Any, dlq: Any, three: list[str]
) -> None:
    orders.letter("not JSON, and a secret")
    match = 'match={"body": {"secret": ["4111-x"], "n": [{"exists": true}]}}'
    missed = trial(dlq, "-f", match, "--look")["missed"]
    assert sorted((field["path"], field["found"], field["messages"]) for field in missed) == [
        ("body.n", "absent", 4),
        ("body.secret", "absent", 1),
        ("body.secret", "number", 3),
    ]
    page = dlq("rules", "test", "-f", match, "--look").stdout
    assert "body.secret" in page
    assert "424242" not in page
    assert "not JSON" not in page


def test_a_disabled_rule_of_the_table_is_tried_too(orders: Any, dlq: Any, three: list[str]) -> None:
    orders.rule(
        "r", "*", tenantId="a", action="DEDICATED_DLQ", queue="bulk", enabled=False,
        max_matches=1, expires_at="2026-01-01",
    )  # fmt: skip
    orders.rule("before", tenantId="a", action="DEFAULT", priority=1)
    answer = trial(dlq, "r", "--look")
    assert (answer["rule_id"], tried(answer)) == ("r", {"dlq": (3, 2)})


def test_either_branch_of_an_or_is_a_match(orders: Any, dlq: Any, three: list[str]) -> None:
    match = 'match={"$or": [{"body": {"tenantId": ["a"]}}, {"body": {"tenantId": ["b"]}}]}'
    assert tried(trial(dlq, "-f", match, "--look")) == {"dlq": (3, 3)}


def test_a_trial_reads_the_failure_records(orders: Any, dlq: Any, three: list[str]) -> None:
    orders.failed("orders", three[0], category="transient", http_status=503)
    answer = trial(dlq, "-f", "status>499", "--look")
    assert answer["matching"] == [three[0]]
    assert answer["on_record"]["matched"] == 1
    page = dlq("rules", "test", "-f", "status>499", "--look").stdout
    assert "Would match 1 of 3 messages of dlq." in page
    assert "Matches 1 of 1 message here now; 1 of 1 in 7 days" in page


def test_so_many_messages_of_a_place_are_enough(
    orders: Any, dlq: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("console.operations.rule_trial.SAMPLE", 12)
    for _ in range(25):
        orders.letter('{"tenantId": "a"}')
    assert tried(trial(dlq, *OF_A, "--look")) == {"dlq": (12, 12)}
    assert orders.visible("orders-dlq") == 25


def waits(orders: Any, lane: str, copy: str, tenant: str) -> None:
    """A letter that waits in a lane."""
    letter = Letter(copy, json.dumps({"tenantId": tenant}))
    held = Order(ReceivedLetter(letter, "", 0.0), Hold(lane, 1.0, "test"), Stamp(copy))
    assert orders._room("orders").admit([held])


def test_a_rule_is_tried_wherever_messages_lie(orders: Any, dlq: Any) -> None:
    waits(orders, "due", "one", "a")
    waits(orders, "rule:stop", "two", "a")
    waits(orders, "rule:stop", "three", "b")
    waits(orders, PARKED_LANE, "rescued", "b")
    orders.park("orders", "POISON", body='{"tenantId": "a"}')
    orders.letter('{"tenantId": "a"}')
    orders.letter('{"tenantId": "b"}', "orders-dlq-bulk")
    # Its record alone is no message to try a rule on.
    orders.failed("orders", "elsewhere", AboutLetter({"tenantId": "a"}))
    assert tried(trial(dlq, *OF_A, "--look")) == {
        "dlq": (1, 1), "dedicated:bulk": (1, 0), "parked": (2, 1), "rule:stop": (2, 1),
        "time": (1, 1),
    }  # fmt: skip
    assert "rescued" in trial(dlq, "-f", "tenant=b", "--look")["matching"]


@pytest.mark.parametrize(
    ("body", "typed", "matched"),
    [
        ('{"tenantId": "a", "Records": [{"s3": {}}]}', OF_A, 1),
        ("not JSON", OF_A, 0),
        ('{"tenantId": "a", "tenantId": "b"}', OF_A, 0),
        ('{"tenantId": "a", "tenantId": "b"}', ("-f", "tenant=b"), 0),
    ],
)
def test_a_pasted_body_is_a_message(
    orders: Any, dlq: Any, tmp_path: Any, body: str, typed: tuple[str, ...], matched: int
) -> None:
    answer = trial(dlq, *typed, "--body", "-", answers=body)
    assert (tried(answer), answer["on_record"]) == ({"pasted": (1, matched)}, None)
    (tmp_path / "message.json").write_text(body)
    answer = trial(dlq, *typed, "--body", str(tmp_path / "message.json"))
    assert tried(answer) == {"pasted": (1, matched)}


def test_output_of_the_aws_cli_may_be_pasted(orders: Any, dlq: Any) -> None:
    message = {
        "MessageId": "m1",
        "Body": '{"tenantId": "a"}',
        "Attributes": {"SenderId": TRUSTED, "SentTimestamp": "1"},
        "MessageAttributes": {
            "region": {"DataType": "String", "StringValue": "eu"},
            "zipped": {"DataType": "Binary", "BinaryValue": "AAE="},
            "Redrive": {"DataType": "String", "StringValue": attribute(Stamp("o", 4)).value},
        },
    }
    match = ("-f", "attempt=4", "-f", "attribute.region=eu")
    for pasted in ({"Messages": [message, message]}, message):
        answer = trial(dlq, *match, "--body", "-", answers=json.dumps(pasted))
        number = len(pasted.get("Messages", [1]))
        assert tried(answer) == {"pasted": (number, number)}
        assert answer["notes"] == []
    # A stamp that none of our roles wrote is none: the message is in its first attempt.
    forged = json.dumps({**message, "Attributes": {"SenderId": "AIDAPRODUCER:x"}})
    for attempt, matched in ((4, 0), (0, 1)):
        answer = trial(dlq, "-f", f"attempt={attempt}", "--body", "-", answers=forged)
        assert tried(answer) == {"pasted": (1, matched)}
        assert "1 message with an attribute Redrive of another sender" in answer["notes"][0]


def test_a_lambda_event_may_be_pasted(orders: Any, dlq: Any) -> None:
    record = to_event(Letter("m1", '{"tenantId": "a"}'), receipt_handle="r", source_arn="arn")
    pasted = json.dumps({"Records": [record]})
    assert trial(dlq, *OF_A, "--body", "-", answers=pasted)["matching"] == ["m1"]


@pytest.mark.parametrize(
    ("typed", "says"),
    [
        ([], "Name a rule, or say what it is about"),
        (["r", *OF_A], "Name a rule, or say what it is about"),
        ([*OF_A, "--look", "--body", "-"], "--body and --look exclude each other"),
        (["--file", "-", "r"], "--file checks files alone"),
        (["-f", "reason=POISON"], "a rule knows no reason"),
    ],
)
def test_what_can_not_be_tried_is_a_usage_error(
    orders: Any, dlq: Any, typed: list[str], says: str
) -> None:
    done = dlq("rules", "test", *typed)
    assert done.exit_code == Exit.USAGE
    assert says in done.stderr


def test_an_invalid_rule_is_called_invalid(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="a", action="HALT")
    done = dlq("rules", "test", "r")
    assert done.exit_code == Exit.ATTENTION
    assert "INVALID in orders: action 'HALT' is unknown" in done.stderr
    assert dlq("rules", "test", "q").exit_code == Exit.ABSENT


def test_a_refused_read_of_the_failure_records_is_a_sentence_about_aws(
    orders: Any, dlq: Any, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchGetItem")

    monkeypatch.setattr("deadletter.aws.table.DynamoDBTable.get_many", refused)
    done = dlq("rules", "test", *OF_A, "--look")
    assert done.exit_code == Exit.UNREACHABLE
    assert "AWS refuses BatchGetItem" in done.stderr


def test_a_rule_is_tried_on_the_failure_records(orders: Any, dlq: Any) -> None:
    for number in range(5):
        about = AboutLetter({"tenantId": "a" if number < 3 else "b"})
        orders.failed("orders", f"m{number}", about, fingerprint=f"f{number % 2}")
    orders.failed("orders", "old", AboutLetter({"tenantId": "a"}), at=time.time() - 7.5 * 86_400)
    orders.letter("{}")
    answer = trial(dlq, *OF_A)
    record = answer["on_record"]
    assert (record["here"], record["matched"], record["tenants"]) == (6, 4, 1)
    assert (record["failed"], record["failed_matched"]) == (5, 3)
    assert sorted(answer["matching"]) == ["m0", "m1", "m2", "old"]
    assert (answer["tried"], orders.received("orders-dlq")) == ([], 0)
    of_b = ("-f", "body.amount=5", "-f", "tenant=b")
    untold = trial(dlq, *of_b)["on_record"]
    assert (untold["matched"], untold["untold"]) == (0, 2)
    page = dlq("rules", "test", *of_b).stdout
    assert "Matches 0 of 6 messages here now; 0 of 5 in 7 days, since" in page
    assert "Can't be told for 2 messages: bodies and attributes are not kept." in page


def test_a_throttle_says_how_long_its_messages_take_and_how_many_are_too_old_by_then(
    cloud: Any, dlq: Any
) -> None:
    settings = {"context": {"tenantId": "body.tenantId"}, "message_ttl": 25}
    cloud.deploy("orders", context=["tenantId"], settings=settings)
    for _ in range(4):
        cloud.letter('{"tenantId": "a"}')
    cloud.rule("slow", tenantId="a", action="THROTTLE", rate=0.1)
    answer = trial(dlq, "slow", "--look")
    assert (tried(answer), answer["takes_seconds"]) == ({"dlq": (4, 4)}, 40.0)
    assert answer["expire"] == 2
    page = dlq("rules", "test", "slow", "--look").stdout
    assert "At its rate they take 40 s; 2 messages would be too old by then." in page
    assert trial(dlq, *OF_A, "--look")["takes_seconds"] is None
