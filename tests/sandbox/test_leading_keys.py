"""Each DynamoDB request names the partitions that it touches."""

from typing import Any

import pytest

from sandbox.leading_keys import leading_keys, named_attributes
from tests.each_row import each_row

KEYS = {("messages", None): "pk", ("messages", "lanes"): "lane", ("rules", None): "pipeline"}

A, B = {"pk": {"S": "a"}, "sk": {"S": "1"}}, {"pk": {"S": "b"}, "sk": {"S": "1"}}


def touched(action: str, **request: Any) -> dict[tuple[str, str], list[str]]:
    found = leading_keys(
        f"dynamodb:{action}", request, lambda table, index: KEYS.get((table, index))
    )
    return {
        (asked.removeprefix("dynamodb:"), table): keys for (asked, table), keys in found.items()
    }


def query(**request: Any) -> list[str]:
    return touched("Query", TableName="messages", **request).get(("Query", "messages"), [])


@pytest.mark.parametrize(
    ("action", "request_"),
    [
        ("GetItem", {"Key": A}),
        ("PutItem", {"Item": {**A, "body": {"S": "b"}}}),
        ("UpdateItem", {"Key": A, "UpdateExpression": "SET x = :x"}),
        ("DeleteItem", {"Key": A}),
    ],
)
def test_a_call_on_one_item_touches_its_partition(action: str, request_: dict[str, Any]):
    assert touched(action, TableName="messages", **request_) == {(action, "messages"): ["a"]}


@each_row(
    "condition",
    [
        "pk = :p",
        ":p = pk",
        "#p=:p",
        "(#p = :p) AND begins_with(sk, :s)",
        "sk BETWEEN :s AND :t AND pk = :p",
        "#s >= :s AND #p = :p",
        "sk = :s and pk = :p",
    ],
)
def test_a_query_touches_the_partition_of_its_key_condition(condition: str):
    values = {":p": {"S": "a"}, ":s": {"S": "1"}, ":t": {"S": "2"}}
    names = {"#p": "pk", "#s": "sk"}
    assert query(
        KeyConditionExpression=condition,
        ExpressionAttributeNames=names,
        ExpressionAttributeValues=values,
    ) == ["a"]


def test_a_query_in_the_older_form_touches_the_partition_of_its_key_condition():
    conditions = {
        "sk": {"ComparisonOperator": "GT", "AttributeValueList": [{"S": "1"}]},
        "pk": {"ComparisonOperator": "EQ", "AttributeValueList": [{"S": "a"}]},
    }
    assert query(KeyConditions=conditions) == ["a"]


def test_a_query_of_an_index_touches_the_partition_of_the_index():
    assert query(
        IndexName="lanes",
        KeyConditionExpression="lane = :lane AND due <= :now",
        ExpressionAttributeValues={":lane": {"S": "orders|due|0"}, ":now": {"N": "1"}},
    ) == ["orders|due|0"]


def test_a_filter_is_no_key_condition():
    assert query(FilterExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "a"}}) == []


def test_a_batch_touches_the_partitions_of_each_table():
    rule = {"pipeline": {"S": "orders"}, "rule_id": {"S": "r"}}
    assert touched(
        "BatchGetItem", RequestItems={"messages": {"Keys": [A, B, A]}, "rules": {"Keys": [rule]}}
    ) == {("BatchGetItem", "messages"): ["a", "b"], ("BatchGetItem", "rules"): ["orders"]}
    writes = [{"PutRequest": {"Item": A}}, {"DeleteRequest": {"Key": B}}]
    assert touched("BatchWriteItem", RequestItems={"messages": writes}) == {
        ("BatchWriteItem", "messages"): ["a", "b"]
    }


def test_a_transaction_asks_for_each_of_its_actions_with_the_partitions_of_that_action():
    items = [
        {"ConditionCheck": {"TableName": "messages", "Key": A}},
        {"Put": {"TableName": "messages", "Item": B}},
        {"Update": {"TableName": "messages", "Key": A}},
        {"Delete": {"TableName": "messages", "Key": B}},
    ]
    assert touched("TransactWriteItems", TransactItems=items) == {
        ("ConditionCheckItem", "messages"): ["a"],
        ("PutItem", "messages"): ["b"],
        ("UpdateItem", "messages"): ["a"],
        ("DeleteItem", "messages"): ["b"],
    }


def test_a_scan_names_no_partition():
    assert touched("Scan", TableName="messages") == {}


@pytest.mark.parametrize("table", ["unknown", "messages"])
def test_a_request_that_dynamodb_would_refuse_names_no_partition(table: str):
    assert touched("Query", TableName=table, KeyConditionExpression="pk = :missing") == {}


NAMES = {"#stamp": "stamp", "#lane": "lane"}


def named(action: str, **request: Any) -> dict[tuple[str, str], list[str]]:
    return {
        (asked.removeprefix("dynamodb:"), table): names
        for (asked, table), names in named_attributes(f"dynamodb:{action}", request).items()
    }


def test_a_batch_names_the_attributes_of_its_projection_and_none_without_one():
    keys = [{"pk": {"S": "a"}, "sk": {"S": "b"}}]
    asked = {"Keys": keys, "ProjectionExpression": "#stamp", "ExpressionAttributeNames": NAMES}
    assert named("BatchGetItem", RequestItems={"messages": asked, "others": {"Keys": keys}}) == {
        ("BatchGetItem", "messages"): ["lane", "pk", "sk", "stamp"]
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"ProjectionExpression": "#stamp, message", "ExpressionAttributeNames": NAMES},
        {
            "ProjectionExpression": "message.body[0], #stamp.#lane",
            "ExpressionAttributeNames": NAMES,
        },
        {"AttributesToGet": ["message", "stamp", "lane"]},
    ],
)
def test_a_projection_names_attributes_by_their_own_names_too(asked: dict[str, Any]):
    """Else who names a harmless one beside it would be shown it."""
    request = {"TableName": "messages", "Key": {"pk": {"S": "a"}}, **asked}
    assert named("GetItem", **request) == {
        ("GetItem", "messages"): ["lane", "message", "pk", "stamp"]
    }


def test_each_member_of_a_transaction_names_its_own_attributes():
    key = {"pk": {"S": "a"}}
    items = [
        {"Update": {"TableName": "messages", "Key": key, "ExpressionAttributeNames": NAMES}},
        {"ConditionCheck": {"TableName": "messages", "Key": key}},
    ]
    assert named("TransactWriteItems", TransactItems=items) == {
        ("UpdateItem", "messages"): ["lane", "pk", "stamp"]
    }


@pytest.mark.parametrize(
    ("expression", "text", "names"),
    [
        ("UpdateExpression", "SET lane = :l, #stamp = :s REMOVE due", {"lane", "due", "stamp"}),
        (
            "UpdateExpression",
            "SET due = if_not_exists(due, :due) ADD counts.a :one",
            {"due", "counts"},
        ),
        (
            "ConditionExpression",
            "attribute_not_exists(lane) OR NOT due IN (:a, :b)",
            {"lane", "due"},
        ),
        ("ConditionExpression", "begins_with (lane, :set) AND size(body) < :n", {"lane", "body"}),
    ],
)
def test_a_name_counts_without_a_placeholder_too(expression: str, text: str, names: set[str]):
    placeholders = {"ExpressionAttributeNames": {"#stamp": "stamp"}} if "#" in text else {}
    asked = {"TableName": "messages", "Key": A, expression: text, **placeholders}
    [found] = named("UpdateItem", **asked).values()
    assert set(found) == {"pk", "sk", *names}


def test_an_item_that_is_put_names_its_attributes():
    item = {**A, "lane": {"S": "x"}}
    assert named("PutItem", TableName="messages", Item=item) == {
        ("PutItem", "messages"): ["lane", "pk", "sk"]
    }
    writes = [{"PutRequest": {"Item": item}}, {"DeleteRequest": {"Key": B}}]
    assert named("BatchWriteItem", RequestItems={"messages": writes}) == {
        ("BatchWriteItem", "messages"): ["lane", "pk", "sk"]
    }
    assert named("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item}}])
