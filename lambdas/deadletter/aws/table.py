"""The letters table: plain Python in and out, and batches that are carried to their end."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from deadletter.contract import LETTERS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = LETTERS.partition
SORT = LETTERS.sort

MOST_TRIES = 5
"""Times a batch is asked for its unprocessed rest before it is given up."""

_serializer = TypeSerializer()


class _PlainDeserializer(TypeDeserializer):
    """boto3 wraps binaries in a class of its own; here bytes are bytes."""

    def _deserialize_b(self, value: bytes) -> bytes:
        return bytes(value)


_deserializer = _PlainDeserializer()

Key = tuple[str, str]
T = TypeVar("T")


class StillUnprocessed(Exception):
    """DynamoDB left part of a batch undone again and again: it is throttling."""


def stored(item: Mapping[str, Any]) -> dict[str, Any]:
    """Plain data as DynamoDB attribute values."""
    return {name: _serializer.serialize(value) for name, value in item.items()}


def plain(item: Mapping[str, Any]) -> dict[str, Any]:
    """DynamoDB attribute values as plain data; numbers are Decimal, binaries bytes."""
    return {name: _deserializer.deserialize(value) for name, value in item.items()}


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


class Table:
    """One table with the keys `pk` and `sk`. Raises what boto3 raises, and StillUnprocessed."""

    def __init__(self, client: DynamoDBClient, name: str) -> None:
        self.client: Any = client
        self.name = name

    def get_many(self, keys: Sequence[Key]) -> dict[Key, dict[str, Any]]:
        """The items there are, read consistently."""
        found: dict[Key, dict[str, Any]] = {}
        for part in parts(sorted(set(keys)), 100):
            wanted: Any = {self.name: {"Keys": list(map(_key, part)), "ConsistentRead": True}}
            for _ in range(MOST_TRIES):
                answer = self.client.batch_get_item(RequestItems=wanted)
                for one in answer.get("Responses", {}).get(self.name, []):
                    item = plain(one)
                    found[item[PARTITION], item[SORT]] = item
                wanted = answer.get("UnprocessedKeys")
                if not wanted:
                    break
            else:
                raise StillUnprocessed(self.name)
        return found

    def get(self, key: Key) -> dict[str, Any] | None:
        """One item, read consistently; None if it is missing."""
        answer = self.client.get_item(TableName=self.name, Key=_key(key), ConsistentRead=True)
        return plain(answer["Item"]) if "Item" in answer else None

    def write_many(
        self, puts: Sequence[Mapping[str, Any]] = (), deletes: Sequence[Key] = ()
    ) -> None:
        """Put and delete items, unconditionally and in no particular order."""
        requests = [{"PutRequest": {"Item": stored(one)}} for one in puts]
        requests += [{"DeleteRequest": {"Key": _key(one)}} for one in deletes]
        for part in parts(requests, 25):
            wanted: Any = {self.name: list(part)}
            for _ in range(MOST_TRIES):
                wanted = self.client.batch_write_item(RequestItems=wanted).get("UnprocessedItems")
                if not wanted:
                    break
            else:
                raise StillUnprocessed(self.name)

    def query(
        self, condition: str, values: Mapping[str, Any], **options: Any
    ) -> list[dict[str, Any]]:
        """All items of a partition that meet the condition, in order, up to the option Limit."""
        most = options.get("Limit")
        found: list[dict[str, Any]] = []
        start: dict[str, Any] = {}
        while True:
            answer = self.client.query(
                TableName=self.name,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=stored(values),
                **options,
                **start,
            )
            found.extend(plain(one) for one in answer.get("Items", []))
            last = answer.get("LastEvaluatedKey")
            if not last or (most is not None and len(found) >= most):
                return found if most is None else found[:most]
            start = {"ExclusiveStartKey": last}

    def count(self, condition: str, values: Mapping[str, Any], **options: Any) -> int:
        """The number of items that meet the condition."""
        number = 0
        start: dict[str, Any] = {}
        while True:
            answer = self.client.query(
                TableName=self.name,
                KeyConditionExpression=condition,
                ExpressionAttributeValues=stored(values),
                Select="COUNT",
                **options,
                **start,
            )
            number += int(answer["Count"])
            if not answer.get("LastEvaluatedKey"):
                return number
            start = {"ExclusiveStartKey": answer["LastEvaluatedKey"]}

    def update(self, key: Key, expression: str, values: Mapping[str, Any], **options: Any) -> Any:
        return self.client.update_item(
            TableName=self.name,
            Key=_key(key),
            UpdateExpression=expression,
            ExpressionAttributeValues=stored(values),
            **options,
        )


def _key(key: Key) -> dict[str, Any]:
    return {PARTITION: {"S": key[0]}, SORT: {"S": key[1]}}
