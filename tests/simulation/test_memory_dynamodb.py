"""What the DynamoDB in memory does to reads and rows, because AWS may do it."""

from __future__ import annotations

from typing import Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.tables import LETTERS, create_messages_table


def letters(clock: Clock | None = None, **options: Any) -> MemoryDynamoDB:
    dynamodb = MemoryDynamoDB(clock or Clock(), **options)
    create_messages_table(dynamodb)
    return dynamodb


def put(dynamodb: MemoryDynamoDB, sort: str, **columns: Any) -> dict[str, Any]:
    key = {"pk": {"S": "p"}, "sk": {"S": sort}}
    dynamodb.put_item(TableName=LETTERS, Item={**key, **columns})
    return key


def test_a_read_that_asks_for_no_consistency_may_be_stale() -> None:
    dynamodb = letters(stale_reads=lambda: True)
    key = put(dynamodb, "a")
    asked: dict[str, Any] = {"TableName": LETTERS, "Key": key}
    assert "Item" not in dynamodb.get_item(**asked)
    assert "Item" in dynamodb.get_item(**asked, ConsistentRead=True)
    dynamodb.settle()
    dynamodb.delete_item(**asked)
    assert "Item" in dynamodb.get_item(**asked)
    dynamodb.settle()
    assert "Item" not in dynamodb.get_item(**asked)


def test_a_stale_query_shows_the_items_of_before() -> None:
    dynamodb = letters(stale_reads=lambda: True)
    put(dynamodb, "a")
    query: dict[str, Any] = {
        "TableName": LETTERS,
        "KeyConditionExpression": "pk = :p",
        "ExpressionAttributeValues": {":p": {"S": "p"}},
    }
    assert dynamodb.query(**query)["Count"] == 0
    assert dynamodb.query(**query, ConsistentRead=True)["Count"] == 1


def test_a_page_ends_after_so_many_items_and_says_where() -> None:
    dynamodb = letters(page_items=2)
    for number in range(5):
        put(dynamodb, str(number))
    table: Any = DynamoDBTable(dynamodb, LETTERS)  # type: ignore[arg-type]
    before = dynamodb.consumed.read_requests
    assert len(table.query("p")) == 5
    assert dynamodb.consumed.read_requests - before == 3


def test_time_to_live_ends_rows_late_or_never() -> None:
    clock = Clock()
    dynamodb = letters(clock)
    put(dynamodb, "kept", ttl={"N": str(int(clock() + 61))})
    put(dynamodb, "ended", ttl={"N": str(int(clock() + 60))})
    put(dynamodb, "without")
    clock.advance(60.5)
    assert dynamodb.expire(LETTERS, spared=lambda: True) == 0
    assert dynamodb.expire(LETTERS, spared=lambda: False) == 1
    assert [item["sk"]["S"] for item in dynamodb.items(LETTERS)] == ["kept", "without"]
