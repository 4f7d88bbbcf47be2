"""The rule checker at its tables, and at SSM and EventBridge."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from typing import Any

import boto3
import pytest
from botocore.stub import Stubber

from deadletter.aws.dynamodb import plain, stored
from deadletter.aws.edits import (
    FRESH,
    REMEMBERED,
    DynamoDBCheckedRules,
    DynamoDBHistory,
    SsmPipelines,
    edits,
)
from deadletter.aws.events import EventBridgeRuleEvents, EventBus
from deadletter.rules.checker import (
    CheckedBatch,
    CheckUnavailable,
    RuleEdit,
    RuleRefusal,
    RuleStatus,
    RuleVerdict,
)
from deadletter.testing.clock import Clock
from tests.aws.backends import REGION, Aws
from tests.each_row import each_row
from tests.tables import create_keyed_table

RULE = {"pipeline": "orders", "rule_id": "r", "tenantId": "a", "action": "HOLD"}
KEY: Any = stored({"pipeline": "orders", "rule_id": "r"})
TERMS = {"context": ["tenantId"], "dedicated": [], "policies": [], "max_delay": 60}


@pytest.fixture(autouse=True)
def _tables(request: pytest.FixtureRequest) -> None:
    if "aws" not in request.fixturenames:
        return
    aws: Aws = request.getfixturevalue("aws")
    create_keyed_table(aws.dynamodb, "rules", ("pipeline", "rule_id"))
    create_keyed_table(aws.dynamodb, "audit", ("pk", "sk"))


def put(aws: Aws, **columns: Any) -> dict[str, Any]:
    item = {**RULE, **columns}
    aws.dynamodb.put_item(TableName="rules", Item=stored(item))
    return item


def read(aws: Aws) -> dict[str, Any] | None:
    found = aws.dynamodb.get_item(TableName="rules", Key=KEY, ConsistentRead=True)
    return plain(found["Item"]) if "Item" in found else None


def write(aws: Aws, judged: dict[str, Any], reason: str | None = None) -> bool:
    status = RuleStatus.VALID if reason is None else RuleStatus.INVALID
    verdict = RuleVerdict("orders", "r", judged, ("queue", "status2"), status, reason, "now")
    return DynamoDBCheckedRules(aws.dynamodb, "rules").write(verdict)


def test_a_verdict_is_written_beside_what_was_typed(aws: Aws) -> None:
    odd = put(
        aws,
        priority=Decimal("1E+2"),
        enabled=False,
        ticket=None,
        reason="",
        pattern={"body": {"x": [Decimal("1.50"), True, None]}},
        blob=b"\x00\xff",
        several={"b", "a"},
        blobs={b"\x01"},
        numbers={Decimal(1), Decimal(2)},
    )
    assert write(aws, odd, "because")
    assert read(aws) == {
        **odd,
        "status": "INVALID",
        "status_reason": "because",
        "checked_at": "now",
    }
    assert write(aws, odd)
    assert read(aws) == {**odd, "status": "VALID", "checked_at": "now"}


@each_row(
    "edited",
    [{"action": "QUARANTINE"}, {"tenantId": None}, {"tenantId": Decimal(1)}, {"queue": "x"}],
)
def test_a_newer_edit_is_not_overwritten(aws: Aws, edited: dict[str, Any]) -> None:
    item = put(aws, **edited)
    assert not write(aws, RULE, "because")
    assert read(aws) == item


def test_rules_with_the_same_id_are_found_under_their_keys(aws: Aws) -> None:
    put(aws)
    put(aws, pipeline="*", priority=Decimal(5))
    put(aws, rule_id="other")
    namesakes = DynamoDBCheckedRules(aws.dynamodb, "rules")
    found = namesakes.of("r", ["*", "billing", "orders"])
    assert found == {"*": {**RULE, "pipeline": "*", "priority": 5}, "orders": RULE}
    assert namesakes.of("r", []) == {}
    with pytest.raises(CheckUnavailable, match="for dynamodb:BatchGetItem on absent"):
        DynamoDBCheckedRules(aws.dynamodb, "absent").of("r", ["*"])


def test_a_rule_that_was_deleted_stays_deleted(aws: Aws) -> None:
    assert not write(aws, RULE, "because")
    assert read(aws) is None


def test_as_many_columns_as_are_compared_fit_into_one_condition(aws: Aws) -> None:
    item = put(aws, **{f"a{number:03}": "x" for number in range(58)})
    absent = tuple(f"b{number:03}" for number in range(60))
    verdict = RuleVerdict("orders", "r", item, absent, RuleStatus.VALID, None, "now")
    assert DynamoDBCheckedRules(aws.dynamodb, "rules").write(verdict)


def test_a_table_that_is_not_there_is_unavailable_and_not_overtaken(aws: Aws) -> None:
    verdict = RuleVerdict("orders", "r", RULE, (), RuleStatus.VALID, None, "now")
    with pytest.raises(
        CheckUnavailable, match="ResourceNotFoundException for dynamodb:UpdateItem on"
    ):
        DynamoDBCheckedRules(aws.dynamodb, "none").write(verdict)
    with pytest.raises(CheckUnavailable, match="ResourceNotFoundException for dynamodb:PutItem on"):
        DynamoDBHistory(aws.dynamodb, "none", lambda: 0.0, 1.0).keep(CHANGE)


AT = datetime.fromisoformat("2026-11-20T12:00:00+00:00").timestamp()
CHANGE = RuleEdit("7", "e1", AT, "orders", "r", RULE, None)


def test_a_change_kept_twice_is_kept_once_and_ends(aws: Aws) -> None:
    history = DynamoDBHistory(aws.dynamodb, "audit", lambda: 1000.5, 86_400.0)
    history.keep(CHANGE)
    history.keep(CHANGE)
    [item] = aws.dynamodb.scan(TableName="audit")["Items"]
    assert plain(item) == {
        "pk": "orders#r",
        "sk": f"2026-11-20T12:00:00+00:00#{'0' * 39}7",
        "at": "2026-11-20T12:00:00+00:00",
        "event_id": "e1",
        # By these the index finds it.
        "pipeline": "orders",
        "happened": 1_795_176_000,
        "rule_id": "r",
        "old": RULE,
        "ttl": 87_400,
    }


def test_changes_of_one_second_are_kept_in_the_order_of_the_stream(aws: Aws) -> None:
    history = DynamoDBHistory(aws.dynamodb, "audit", lambda: 0.0, 1.0)
    for sequence, event_id in (("100", "a"), ("99", "b"), ("9", "c")):
        history.keep(replace(CHANGE, sequence=sequence, event_id=event_id))
    rows = aws.dynamodb.query(
        TableName="audit",
        KeyConditionExpression="pk = :rule",
        ExpressionAttributeValues={":rule": {"S": "orders#r"}},
    )["Items"]
    assert [row["event_id"]["S"] for row in rows] == ["c", "b", "a"]


def test_a_record_of_the_stream_is_an_edit_in_plain_data() -> None:
    image = {
        **KEY,
        "b": {"B": "AP8="},
        "bs": {"BS": ["AQ=="]},
        "l": {"L": [{"B": "AP8="}, {"N": "1.5"}]},
        "m": {"M": {"x": {"B": "AP8="}, "y": {"NULL": True}}},
    }
    record = {
        "eventID": "e1",
        "dynamodb": {
            "ApproximateCreationDateTime": 1_790_000_000,
            "SequenceNumber": "7",
            "Keys": KEY,
            "NewImage": image,
        },
    }
    keys = {"pipeline": "orders", "rule_id": "r"}
    new = {
        **keys,
        "b": b"\x00\xff",
        "bs": {b"\x01"},
        "l": [b"\x00\xff", Decimal("1.5")],
        "m": {"x": b"\x00\xff", "y": None},
    }
    assert edits([record]) == [RuleEdit("7", "e1", 1_790_000_000.0, "orders", "r", None, new)]


def test_lambda_is_told_where_to_begin_again() -> None:
    assert CheckedBatch(()).to_response() == {"batchItemFailures": []}
    assert CheckedBatch((), "7", "why").to_response() == {
        "batchItemFailures": [{"itemIdentifier": "7"}]
    }


# SSM and EventBridge, whose answers are held against botocore's models.


@pytest.fixture
def ssm() -> Iterator[tuple[Any, Stubber]]:
    client = boto3.client("ssm", region_name=REGION)
    with Stubber(client) as stub:
        yield client, stub


def registered(stub: Stubber, *names: str, value: Any = None, more: bool = False) -> None:
    data = {"terms": TERMS} if value is None else value
    answer: dict[str, Any] = {
        "Parameters": [
            {"Name": f"/app/pipelines/{name}", "Value": json.dumps(data)} for name in names
        ]
    }
    stub.add_response("get_parameters_by_path", answer | ({"NextToken": "x"} if more else {}))


def test_terms_are_read_to_the_end_and_remembered(ssm: tuple[Any, Stubber]) -> None:
    client, stub = ssm
    clock = Clock()
    terms = SsmPipelines(client, "/app/pipelines", clock)
    registered(stub, "orders", more=True)
    registered(stub, "refunds")
    assert set(terms.pipelines()) == {"orders", "refunds"}
    clock.advance(REMEMBERED - 1)
    assert set(terms.pipelines()) == {"orders", "refunds"}
    registered(stub, "orders")
    clock.advance(1)
    assert set(terms.pipelines()) == {"orders"}


def test_fresh_terms_are_asked_for_again_but_not_for_every_bad_rule(
    ssm: tuple[Any, Stubber],
) -> None:
    client, stub = ssm
    clock = Clock()
    terms = SsmPipelines(client, "/app/pipelines", clock)
    registered(stub, "orders")
    terms.pipelines()
    clock.advance(FRESH)
    registered(stub, "orders", "new")
    assert set(terms.pipelines(fresh=True)) == {"orders", "new"}
    clock.advance(FRESH - 1)
    assert set(terms.pipelines(fresh=True)) == {"orders", "new"}


@pytest.mark.parametrize("value", [{}, [], {"terms": {}}])
def test_malformed_registrations_are_an_error(ssm: tuple[Any, Stubber], value: Any) -> None:
    client, stub = ssm
    registered(stub, "orders", value=value)
    with pytest.raises(CheckUnavailable, match="the registrations"):
        SsmPipelines(client, "/app/pipelines", Clock()).pipelines()


def test_ssm_that_refuses_is_unavailable(ssm: tuple[Any, Stubber]) -> None:
    client, stub = ssm
    stub.add_client_error("get_parameters_by_path", "AccessDeniedException")
    with pytest.raises(CheckUnavailable, match="AccessDeniedException for ssm:"):
        SsmPipelines(client, "/app/pipelines", Clock()).pipelines()


def test_a_refusal_is_announced_and_a_bus_that_drops_it_is_noticed() -> None:
    client = boto3.client("events", region_name=REGION)
    entry = {
        "Source": "deadletter",
        "DetailType": "RuleRefused",
        "Detail": '{"version": 1, "app": "shop", "pipeline": "orders", "at": 5.0,'
        ' "rule_id": "r", "reason": "why"}',
    }
    announcer = EventBridgeRuleEvents(EventBus(client, "shop", lambda: 5.0))
    refusal = RuleRefusal("orders", "r", "why", ("orders",))
    with Stubber(client) as stub:
        stub.add_response(
            "put_events", {"FailedEntryCount": 0, "Entries": [{}]}, {"Entries": [entry]}
        )
        announcer.announce(refusal)
        stub.add_response(
            "put_events", {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "Throttled"}]}
        )
        with pytest.raises(CheckUnavailable, match="the event bus: Throttled"):
            announcer.announce(refusal)
        stub.add_client_error("put_events", "AccessDenied")
        with pytest.raises(CheckUnavailable, match="the event bus: AccessDenied"):
            announcer.announce(refusal)
