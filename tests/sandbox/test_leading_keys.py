"""Each DynamoDB request names the partitions that it touches."""

from typing import Any

import pytest

from sandbox.leading_keys import leading_keys, named_attributes
from tests.each_row import each_row

KEYS = {("letters", None): "pk", ("letters", "lanes"): "lane", ("rules", None): "pipeline"}

A, B = {"pk": {"S": "a"}, "sk": {"S": "1"}}, {"pk": {"S": "b"}, "sk": {"S": "1"}}


def touched(action: str, **request: Any) -> dict[tuple[str, str], list[str]]:
    found = leading_keys(
        f"dynamodb:{action}", request, lambda table, index: KEYS.get((table, index))
    )
    return {
        (asked.removeprefix("dynamodb:"), table): keys for (asked, table), keys in found.items()
    }


def query(**request: Any) -> list[str]:
    return touched("Query", TableName="letters", **request).get(("Query", "letters"), [])


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
    assert touched(action, TableName="letters", **request_) == {(action, "letters"): ["a"]}


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
        "BatchGetItem", RequestItems={"letters": {"Keys": [A, B, A]}, "rules": {"Keys": [rule]}}
    ) == {("BatchGetItem", "letters"): ["a", "b"], ("BatchGetItem", "rules"): ["orders"]}
    writes = [{"PutRequest": {"Item": A}}, {"DeleteRequest": {"Key": B}}]
    assert touched("BatchWriteItem", RequestItems={"letters": writes}) == {
        ("BatchWriteItem", "letters"): ["a", "b"]
    }


def test_a_transaction_asks_for_each_of_its_actions_with_the_partitions_of_that_action():
    items = [
        {"ConditionCheck": {"TableName": "letters", "Key": A}},
        {"Put": {"TableName": "letters", "Item": B}},
        {"Update": {"TableName": "letters", "Key": A}},
        {"Delete": {"TableName": "letters", "Key": B}},
    ]
    assert touched("TransactWriteItems", TransactItems=items) == {
        ("ConditionCheckItem", "letters"): ["a"],
        ("PutItem", "letters"): ["b"],
        ("UpdateItem", "letters"): ["a"],
        ("DeleteItem", "letters"): ["b"],
    }


def test_a_scan_names_no_partition():
    assert touched("Scan", TableName="letters") == {}


@pytest.mark.parametrize("table", ["unknown", "letters"])
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
    assert named("BatchGetItem", RequestItems={"letters": asked, "others": {"Keys": keys}}) == {
        ("BatchGetItem", "letters"): ["lane", "pk", "sk", "stamp"]
    }


@pytest.mark.parametrize(
    "asked",
    [
        {"ProjectionExpression": "#stamp, letter", "ExpressionAttributeNames": NAMES},
        {"ProjectionExpression": "letter.body[0], #stamp.#lane", "ExpressionAttributeNames": NAMES},
        {"AttributesToGet": ["letter", "stamp", "lane"]},
    ],
)
def test_a_projection_names_attributes_by_their_own_names_too(asked: dict[str, Any]):
    """Else who names a harmless one beside it would be shown it."""
    request = {"TableName": "letters", "Key": {"pk": {"S": "a"}}, **asked}
    assert named("GetItem", **request) == {
        ("GetItem", "letters"): ["lane", "letter", "pk", "stamp"]
    }


def test_each_member_of_a_transaction_names_its_own_attributes():
    key = {"pk": {"S": "a"}}
    items = [
        {"Update": {"TableName": "letters", "Key": key, "ExpressionAttributeNames": NAMES}},
        {"ConditionCheck": {"TableName": "letters", "Key": key}},
    ]
    assert named("TransactWriteItems", TransactItems=items) == {
        ("UpdateItem", "letters"): ["lane", "pk", "stamp"]
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
    asked = {"TableName": "letters", "Key": A, expression: text, **placeholders}
    [found] = named("UpdateItem", **asked).values()
    assert set(found) == {"pk", "sk", *names}


def test_an_item_that_is_put_names_its_attributes():
    item = {**A, "lane": {"S": "x"}}
    assert named("PutItem", TableName="letters", Item=item) == {
        ("PutItem", "letters"): ["lane", "pk", "sk"]
    }
    writes = [{"PutRequest": {"Item": item}}, {"DeleteRequest": {"Key": B}}]
    assert named("BatchWriteItem", RequestItems={"letters": writes}) == {
        ("BatchWriteItem", "letters"): ["lane", "pk", "sk"]
    }
    assert named("TransactWriteItems", TransactItems=[{"Put": {"TableName": "t", "Item": item}}])
