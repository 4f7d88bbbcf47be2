"""`dlq rules test`: a rule tried on letters, without effect and without showing them."""

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
def orders(cloud: Any, functions: Any) -> Any:
    """A deployed pipeline `orders`, and three letters of two tenants in its DLQ."""
    context = {"tenantId": "body.tenantId", "region": "attributes.region"}
    cloud.deploy("orders", dedicated=["bulk"], context=list(context), settings={"context": context})
    functions.configure("orders", context=context, dedicated=["bulk"])
    return cloud


@pytest.fixture
def three(orders: Any) -> list[str]:
    """Three letters in the DLQ, two of tenant `a`."""
    return [orders.letter(json.dumps({"tenantId": tenant, "secret": 424_242})) for tenant in "aab"]


def trial(dlq: Any, *arguments: str, answers: str = "") -> Any:
    done = dlq("rules", "test", "--json", *arguments, answers=answers)
    assert done.exit_code == Exit.DONE, done.output
    return json.loads(done.stdout)


def test_letters_of_the_dlq_are_counted_and_given_back(
    orders: Any, dlq: Any, three: list[str]
) -> None:
    answer = trial(dlq, "--tenant", "a")
    assert (answer["matched"], answer["looked_at"]) == (2, 3)
    assert set(answer["matching"]) == set(three[:2])
    assert orders.visible("orders-dlq") == 3
    page = dlq("rules", "test", "--tenant", "a").stdout
    assert "Would match 2 of 3 messages from dlq in account 123456789012" in page
    assert 'About: tenantId "a"' in page


def test_missed_fields_are_counted_and_never_quoted(
    orders: Any, dlq: Any, three: list[str]
) -> None:
    orders.letter("not JSON, and a secret")
    arguments = ("--pattern", '{"body": {"secret": ["4111-x"], "n": [{"exists": true}]}}')
    missed = trial(dlq, *arguments)["missed"]
    assert sorted((field["path"], field["found"], field["letters"]) for field in missed) == [
        ("body.n", "absent", 4),
        ("body.secret", "absent", 1),
        ("body.secret", "number", 3),
    ]
    page = dlq("rules", "test", *arguments).stdout
    assert "body.secret" in page
    assert "424242" not in page
    assert "not JSON" not in page


def test_a_disabled_rule_of_the_table_is_tried_too(orders: Any, dlq: Any, three: list[str]) -> None:
    orders.rule(
        "r", "*", tenantId="a", action="DEDICATED_DLQ", queue="bulk", enabled=False,
        max_matches=1, expires_at="2026-01-01",
    )  # fmt: skip
    orders.rule("before", tenantId="a", action="DEFAULT", priority=1)
    answer = trial(dlq, "r")
    assert (answer["rule_id"], answer["matched"]) == ("r", 2)


def test_either_branch_of_an_or_is_a_match(orders: Any, dlq: Any, three: list[str]) -> None:
    pattern = '{"$or": [{"body": {"tenantId": ["a"]}}, {"body": {"tenantId": ["b"]}}]}'
    assert trial(dlq, "--pattern", pattern)["matched"] == 3


def test_a_trial_reads_the_ledger(orders: Any, dlq: Any, three: list[str]) -> None:
    orders.put(
        "letters",
        {
            "pk": {"S": f"orders#ledger#{three[0]}"},
            "sk": {"S": "ledger"},
            "f0_1": {
                "M": {
                    "at": {"N": "1"},
                    "attempt": {"N": "0"},
                    "category": {"S": "transient"},
                    "blame": {"S": "dependency"},
                    "http_status": {"N": "503"},
                }
            },
        },
    )
    pattern = '{"failure": {"http_status": [{"numeric": [">=", 500]}]}}'
    assert trial(dlq, "--pattern", pattern)["matching"] == [three[0]]


def test_the_sample_is_as_large_as_asked_for(orders: Any, dlq: Any) -> None:
    for _ in range(25):
        orders.letter('{"tenantId": "a"}')
    assert trial(dlq, "--tenant", "a", "--limit", "12")["matched"] == 12
    assert orders.visible("orders-dlq") == 25


def test_other_sources_may_be_sampled(orders: Any, dlq: Any) -> None:
    orders.park("orders", "POISON", body='{"tenantId": "a"}')
    orders.letter('{"tenantId": "b"}', "orders-dlq-bulk")
    assert trial(dlq, "--tenant", "a", "--source", "parking")["matched"] == 1
    assert trial(dlq, "--tenant", "b", "--source", "bulk")["matched"] == 1
    done = dlq("rules", "test", "--tenant", "a", "--source", "nope")
    assert done.exit_code == Exit.ABSENT
    assert "it has dlq, parking, bulk" in done.stderr


def test_a_pasted_body_is_a_letter(orders: Any, dlq: Any, tmp_path: Any) -> None:
    body = '{"tenantId": "a", "Records": [{"s3": {}}]}'
    answer = trial(dlq, "--tenant", "a", "--body", "-", answers=body)
    assert (answer["matched"], answer["looked_at"], answer["source"]) == (1, 1, "-")
    (tmp_path / "letter.json").write_text(body)
    assert trial(dlq, "--tenant", "a", "--body", str(tmp_path / "letter.json"))["matched"] == 1
    assert trial(dlq, "--tenant", "a", "--body", "-", answers="not JSON")["matched"] == 0


def test_a_pasted_body_may_have_attributes(orders: Any, dlq: Any) -> None:
    arguments = ("--where", "region=eu", "--body", "-", "--attribute", "region=eu")
    assert trial(dlq, *arguments, answers="{}")["matched"] == 1
    done = dlq("rules", "test", "--tenant", "a", "--body", "-", "--attribute", "region")
    assert done.exit_code == Exit.USAGE


def test_a_duplicate_key_makes_a_body_unreadable_for_rules(orders: Any, dlq: Any) -> None:
    body = '{"tenantId": "a", "tenantId": "b"}'
    assert trial(dlq, "--tenant", "a", "--body", "-", answers=body)["matched"] == 0
    assert trial(dlq, "--tenant", "b", "--body", "-", answers=body)["matched"] == 0


def test_output_of_the_aws_cli_may_be_pasted(orders: Any, dlq: Any) -> None:
    message = {
        "MessageId": "m1",
        "Body": '{"tenantId": "a"}',
        "Attributes": {"SenderId": TRUSTED, "SentTimestamp": "1"},
        "MessageAttributes": {
            "region": {"DataType": "String", "StringValue": "eu"},
            "zipped": {"DataType": "Binary", "BinaryValue": "AAE="},
            "Redrive": {
                "DataType": "String",
                "StringValue": attribute(Stamp("o", 4)).value,
            },
        },
    }
    pattern = '{"redrive": {"attempt": [4]}, "attributes": {"region": ["eu"]}}'
    for pasted in ({"Messages": [message, message]}, message):
        answer = trial(dlq, "--pattern", pattern, "--body", "-", answers=json.dumps(pasted))
        assert answer["matched"] == answer["looked_at"] == len(pasted.get("Messages", [1]))


def test_a_lambda_event_may_be_pasted(orders: Any, dlq: Any) -> None:
    record = to_event(Letter("m1", '{"tenantId": "a"}'), receipt_handle="r", source_arn="arn")
    pasted = json.dumps({"Records": [record]})
    assert trial(dlq, "--tenant", "a", "--body", "-", answers=pasted)["matching"] == ["m1"]


@pytest.mark.parametrize("arguments", [[], ["r", "--tenant", "a"]])
def test_a_rule_must_be_named_or_described(orders: Any, dlq: Any, arguments: list[str]) -> None:
    assert dlq("rules", "test", *arguments).exit_code == Exit.USAGE


def test_an_invalid_rule_is_called_invalid(orders: Any, dlq: Any) -> None:
    orders.rule("r", tenantId="a", action="HALT")
    done = dlq("rules", "test", "r")
    assert done.exit_code == Exit.ATTENTION
    assert "INVALID in orders: action 'HALT' is unknown" in done.stderr
    assert dlq("rules", "test", "q").exit_code == Exit.ABSENT


def test_a_refused_read_of_the_ledger_is_a_sentence_about_aws(
    orders: Any, dlq: Any, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> Any:
        raise ClientError({"Error": {"Code": "AccessDeniedException"}}, "BatchGetItem")

    monkeypatch.setattr("deadletter.aws.table.DynamoDBTable.get_many", refused)
    done = dlq("rules", "test", "--tenant", "a")
    assert done.exit_code == Exit.UNREACHABLE
    assert "AWS refuses BatchGetItem" in done.stderr


def test_a_function_without_permission_is_named_with_the_permission(
    orders: Any, dlq: Any, functions: Any
) -> None:
    functions.raises = ClientError(
        {"Error": {"Code": "AccessDeniedException"}}, "GetFunctionConfiguration"
    )
    done = dlq("rules", "test", "--tenant", "a")
    assert done.exit_code == Exit.UNREACHABLE
    assert "lambda:GetFunctionConfiguration" in done.stderr
    functions.raises = None
    for hidden in ({"Error": {"ErrorCode": "AccessDeniedException"}, "Variables": {}}, {}):
        functions.environments["orders-router"] = hidden
        done = dlq("rules", "test", "--tenant", "a")
        assert done.exit_code == Exit.UNREACHABLE
        assert "kms:Decrypt" in done.stderr


def test_a_function_of_another_version_is_refused(orders: Any, dlq: Any, functions: Any) -> None:
    functions.configure("orders", from_a_later_version=1)
    done = dlq("rules", "test", "--tenant", "a")
    assert done.exit_code == Exit.ABSENT
    assert "use the dlq of the version that is deployed" in done.stderr


def waits(orders: Any, lane: str, copy: str, tenant: str) -> None:
    """A letter that waits in a lane."""
    letter = Letter(copy, json.dumps({"tenantId": tenant}))
    held = Order(ReceivedLetter(letter, "", 0.0), Hold(lane, 1.0, "test"), Stamp(copy))
    assert orders._room("orders").admit([held])


@pytest.fixture
def elsewhere(orders: Any) -> Any:
    """One letter waits as due, two are held by a rule, one is parked, one is in the DLQ."""
    waits(orders, "due", "one", "a")
    waits(orders, "rule:stop", "two", "a")
    waits(orders, "rule:stop", "three", "b")
    orders.park("orders", "POISON", body='{"tenantId": "a"}')
    orders.letter('{"tenantId": "a"}')
    return orders


def test_a_rule_is_tried_on_the_letters_that_wait_in_every_lane(elsewhere: Any, dlq: Any) -> None:
    answer = trial(dlq, "--tenant", "a", "--against", "waiting")
    assert (answer["source"], answer["matched"], answer["looked_at"]) == ("waiting", 2, 3)
    assert set(answer["matching"]) == {"one", "two"}
    assert trial(dlq, "--tenant", "a", "--against", "waiting", "--limit", "1")["looked_at"] == 1


def test_a_rule_is_tried_on_parked_letters(elsewhere: Any, dlq: Any) -> None:
    answer = trial(dlq, "--tenant", "a", "--against", "parked")
    assert (answer["source"], answer["matched"], answer["looked_at"]) == ("parked", 1, 1)
    assert trial(dlq, "--tenant", "b", "--against", "parked")["matched"] == 0
    waits(elsewhere, PARKED_LANE, "rescued", "b")
    answer = trial(dlq, "--tenant", "b", "--against", "parked")
    assert (answer["matching"], answer["looked_at"]) == (["rescued"], 2)


def test_letters_are_chosen_in_one_way_only(orders: Any, dlq: Any) -> None:
    for more in (["--source", "bulk"], ["--body", "-"]):
        done = dlq("rules", "test", "--tenant", "a", "--against", "parked", *more)
        assert done.exit_code == Exit.USAGE
        assert "leave out --body and --source" in done.stderr


def test_a_rule_is_tried_on_the_failure_records(orders: Any, dlq: Any) -> None:
    for number in range(5):
        about = AboutLetter({"tenantId": "a" if number < 3 else "b"})
        orders.failed("orders", f"m{number}", about, fingerprint=f"f{number % 2}")
    orders.failed("orders", "old", AboutLetter({"tenantId": "a"}), at=time.time() - 7.5 * 86_400)
    answer = trial(dlq, "--tenant", "a", "--against", "ledger")
    record = answer["on_record"]
    assert (answer["looked_at"], answer["matched"], record["tenants"]) == (6, 4, 1)
    assert (record["failed"], record["failed_matched"]) == (5, 3)
    assert sorted(answer["matching"]) == ["m0", "m1", "m2", "old"]
    pattern = '{"body": {"amount": [5]}, "context": {"tenantId": ["b"]}}'
    untold = trial(dlq, "--pattern", pattern, "--against", "ledger")
    assert (untold["matched"], untold["on_record"]["untold"]) == (0, 2)
    page = dlq("rules", "test", "--pattern", pattern, "--against", "ledger").stdout
    assert "Matches 0 of 6 messages here now; 0 of 5 in 7 days, since" in page
    assert "Can't be told for 2 messages: bodies and attributes are not kept." in page


def test_a_trial_on_a_sample_says_what_the_records_say_too(orders: Any, dlq: Any) -> None:
    orders.failed("orders", orders.letter('{"tenantId": "a"}'), AboutLetter({"tenantId": "a"}))
    page = dlq("rules", "test", "--tenant", "a").stdout
    assert "Would match 1 of 1 message from dlq" in page
    assert "Matches 1 of 1 message here now; 1 of 1 in 7 days" in page
    assert trial(dlq, "--tenant", "a", "--body", "-", answers="{}")["on_record"] is None


def test_a_throttle_says_how_long_its_letters_take_and_how_many_are_too_old_by_then(
    orders: Any, dlq: Any, functions: Any
) -> None:
    functions.configure("orders", context={"tenantId": "body.tenantId"}, message_ttl=25)
    for _ in range(4):
        orders.letter('{"tenantId": "a"}')
    orders.rule("slow", tenantId="a", action="THROTTLE", rate=0.1)
    answer = trial(dlq, "slow")
    assert (answer["matched"], answer["takes_seconds"]) == (4, 40.0)
    assert answer["expire"] == 2
    page = dlq("rules", "test", "slow").stdout
    assert "At its rate they take 40 s; 2 messages would be too old by then." in page
    assert trial(dlq, "--tenant", "a")["takes_seconds"] is None
