"""DynamoDB tables: plain Python in and out, and batches and pages read to their end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

# The same names in one place for all adapters.
from deadletter.aws.attribute_values import plain as plain
from deadletter.aws.attribute_values import stored as stored
from deadletter.aws.errors import StillUnprocessed, condition_failed
from deadletter.contract import LETTERS

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = LETTERS.partition
SORT = LETTERS.sort

MOST_TRIES = 5
"""Requests for one batch, the first among them, before its unprocessed rest is given up."""

_PLACEHOLDER = re.compile(r"#(\w+)")

Key = tuple[str, str]
T = TypeVar("T")


def stored_number(value: float) -> Decimal | int:
    """A number as DynamoDB accepts it: Decimal or int, because it refuses floats.

    Rounded to thousandths: no clock here is more exact than a millisecond.
    """
    return value if isinstance(value, int) else Decimal(str(round(value, 3)))


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]


def conditional(
    condition: str, values: Mapping[str, Any] = {}, names: Mapping[str, str] = {}
) -> dict[str, Any]:
    """The arguments of a write that takes effect only if the condition holds.

    `#x` in the condition is the attribute `x`, unless `names` names another: it allows
    names that DynamoDB reserves, such as `ttl`, `status` and `until`.
    """
    arguments = {
        "ConditionExpression": condition,
        "ExpressionAttributeNames": {
            **{f"#{name}": name for name in _PLACEHOLDER.findall(condition)},
            **names,
        },
        "ExpressionAttributeValues": stored(values),
    }
    # DynamoDB refuses each of them when it is empty.
    return {name: argument for name, argument in arguments.items() if argument}


def changes(
    sets: Mapping[str, Any],
    *,
    keeps: Mapping[str, Any] = {},
    adds: Mapping[str, int] = {},
    removes: Sequence[str] = (),
    condition: str = "",
    values: Mapping[str, Any] = {},
    names: Mapping[str, str] = {},
) -> dict[str, Any]:
    """The arguments of an UpdateItem that sets attributes and removes others.

    `keeps` are set only where the item has no such attribute; `adds` are added to counters, which
    begin at 0. The value of an attribute `x` is `:x`, in the condition too; the condition's other
    values are in `values`. For its names see `conditional`.
    """
    kept = [f"#{name} = if_not_exists(#{name}, :{name})" for name in keeps]
    assignments = ", ".join([*(f"#{name} = :{name}" for name in sets), *kept])
    additions = ", ".join(f"#{name} :{name}" for name in adds)
    removals = ", ".join(f"#{name}" for name in removes)
    clauses = [
        *([f"SET {assignments}"] if assignments else []),
        *([f"ADD {additions}"] if additions else []),
        *([f"REMOVE {removals}"] if removals else []),
    ]
    return {
        "UpdateExpression": " ".join(clauses),
        **conditional(
            condition,
            {**{f":{name}": value for name, value in {**sets, **keeps, **adds}.items()}, **values},
            {**{f"#{name}": name for name in (*sets, *keeps, *adds, *removes)}, **names},
        ),
    }


def conflicting_item(error: ClientError | BotoCoreError) -> dict[str, Any] | None:
    """The item that did not meet a write's condition; None if the write failed otherwise.

    Empty if there is no item, or if the write did not ask for it by
    ReturnValuesOnConditionCheckFailure.
    """
    if not isinstance(error, ClientError) or not condition_failed(error):
        return None
    item: Any = error.response.get("Item") or {}
    return plain(item)


def batch_get(
    client: Any, table: str, keys: Sequence[Mapping[str, Any]], **options: Any
) -> list[dict[str, Any]]:
    """The items with these keys, read consistently; a missing item is left out.

    `options` are those of a table's request. Raises what boto3 raises, and StillUnprocessed.
    """
    items: list[dict[str, Any]] = []
    for part in parts(keys, 100):
        request = {table: {"Keys": list(part), "ConsistentRead": True, **options}}
        for answer in _answers(client.batch_get_item, request, "UnprocessedKeys"):
            items.extend(plain(item) for item in answer.get("Responses", {}).get(table, []))
    return items


def _answers(
    call: Callable[..., dict[str, Any]], request: Mapping[str, Any], unprocessed: str
) -> list[dict[str, Any]]:
    """The answers to a batch and to its unprocessed rest, which is requested until it is empty.

    Raises StillUnprocessed after MOST_TRIES requests.
    """
    answers: list[dict[str, Any]] = []
    for _ in range(MOST_TRIES):
        answers.append(call(RequestItems=request))
        request = answers[-1].get(unprocessed) or {}
        if not request:
            return answers
    raise StillUnprocessed(", ".join(request))


def pages(client: Any, **query: Any) -> Iterator[dict[str, Any]]:
    """Each answer to a Query, to the last page."""
    while True:
        answer = client.query(**query)
        yield answer
        if not answer.get("LastEvaluatedKey"):
            return
        query["ExclusiveStartKey"] = answer["LastEvaluatedKey"]


class DynamoDBTable:
    """One table with the keys `pk` and `sk`. Raises what boto3 raises, and StillUnprocessed."""

    def __init__(self, client: DynamoDBClient, name: str) -> None:
        self._client: Any = client
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def get(self, key: Key) -> dict[str, Any] | None:
        """One item, read consistently; None if it is missing."""
        answer = self._client.get_item(TableName=self._name, Key=_key(key), ConsistentRead=True)
        return plain(answer["Item"]) if "Item" in answer else None

    def get_many(self, keys: Sequence[Key], **options: Any) -> dict[Key, dict[str, Any]]:
        """The items that exist, read consistently; `options` as in `batch_get`."""
        wanted = [_key(key) for key in sorted(set(keys))]
        items = batch_get(self._client, self._name, wanted, **options)
        return {(item[PARTITION], item[SORT]): item for item in items}

    def put(
        self,
        item: Mapping[str, Any],
        condition: str,
        values: Mapping[str, Any] = {},
        **options: Any,
    ) -> Any:
        """Put one item if the condition holds; `conflicting_item` gives the one that did not.

        Returns DynamoDB's answer.
        """
        return self._client.put_item(
            TableName=self._name,
            Item=stored(item),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **conditional(condition, values),
            **options,
        )

    def change(
        self,
        key: Key,
        sets: Mapping[str, Any],
        *,
        keeps: Mapping[str, Any] = {},
        adds: Mapping[str, int] = {},
        removes: Sequence[str] = (),
        condition: str = "",
        values: Mapping[str, Any] = {},
        **options: Any,
    ) -> Any:
        """Change attributes of one item, as `changes` describes; returns DynamoDB's answer."""
        change = changes(
            sets, keeps=keeps, adds=adds, removes=removes, condition=condition, values=values
        )
        return self._client.update_item(TableName=self._name, Key=_key(key), **change, **options)

    def update(self, key: Key, **arguments: Any) -> Any:
        """Update one item by an expression with plain values; returns DynamoDB's answer."""
        values = stored(arguments.pop("ExpressionAttributeValues"))
        return self._client.update_item(
            TableName=self._name, Key=_key(key), ExpressionAttributeValues=values, **arguments
        )

    def change_together(self, sets_by_key: Mapping[Key, Mapping[str, Any]]) -> None:
        """Set attributes of up to a hundred items, of all or of none."""
        if len(sets_by_key) == 1:
            [(key, sets)] = sets_by_key.items()
            self.change(key, sets)
            return
        self._client.transact_write_items(
            TransactItems=[
                {"Update": {"TableName": self._name, "Key": _key(key), **changes(sets)}}
                for key, sets in sets_by_key.items()
            ]
        )

    def delete(self, key: Key, condition: str, values: Mapping[str, Any] = {}) -> None:
        """Delete one item if the condition holds."""
        self._client.delete_item(
            TableName=self._name, Key=_key(key), **conditional(condition, values)
        )

    def write_many(
        self, puts: Sequence[Mapping[str, Any]] = (), deletes: Sequence[Key] = ()
    ) -> None:
        """Put and delete items, unconditionally and in no particular order."""
        requests = [{"PutRequest": {"Item": stored(item)}} for item in puts]
        requests += [{"DeleteRequest": {"Key": _key(key)}} for key in deletes]
        for part in parts(requests, 25):
            request = {self._name: list(part)}
            _answers(self._client.batch_write_item, request, "UnprocessedItems")

    def query(
        self, condition: str, values: Mapping[str, Any], **options: Any
    ) -> list[dict[str, Any]]:
        """All items of a partition that meet the condition, in order, up to the option Limit."""
        most = options.get("Limit")
        items: list[dict[str, Any]] = []
        for page in self._pages(condition, values, **options):
            items.extend(plain(item) for item in page.get("Items", []))
            if most is not None and len(items) >= most:
                break
        return items[:most]

    def stored_items(
        self, condition: str, values: Mapping[str, Any], **options: Any
    ) -> Iterator[dict[str, Any]]:
        """All items of a partition as DynamoDB sends them, for callers that read thousands."""
        for page in self._pages(condition, values, **options):
            yield from page.get("Items", [])

    def write_together(
        self,
        puts: Sequence[Mapping[str, Any]],
        changed: Sequence[tuple[Key, Mapping[str, Any], str, Mapping[str, Any]]],
    ) -> None:
        """Put items and set attributes of others, each on its condition: all or nothing.

        Each of `changed` is a key, the attributes to set, a condition and its values, as
        `changes` describes them; `cancelled` recognizes a condition that did not hold.
        """
        requests: list[Any] = [
            {
                "Update": {
                    "TableName": self._name,
                    "Key": _key(key),
                    **changes(sets, condition=condition, values=values),
                }
            }
            for key, sets, condition, values in changed
        ]
        requests += [{"Put": {"TableName": self._name, "Item": stored(item)}} for item in puts]
        self._client.transact_write_items(TransactItems=requests)

    def replace_many(
        self,
        deletes: Sequence[tuple[Key, str, Mapping[str, Any]]],
        puts: Sequence[Mapping[str, Any]],
    ) -> None:
        """Delete items, each on its condition, and put others that are new: all or nothing.

        At most 100 items in all; `cancelled` recognizes a condition that did not hold.
        """
        requests: list[Any] = [
            {
                "Put": {
                    "TableName": self._name,
                    "Item": stored(item),
                    **conditional(f"attribute_not_exists({PARTITION})"),
                }
            }
            for item in puts
        ]
        requests += [
            {
                "Delete": {
                    "TableName": self._name,
                    "Key": _key(key),
                    **conditional(condition, values),
                }
            }
            for key, condition, values in deletes
        ]
        self._client.transact_write_items(TransactItems=requests)

    def count(self, condition: str, values: Mapping[str, Any], **options: Any) -> tuple[int, int]:
        """The number of items that meet the condition and the filter, and the condition alone."""
        options["Select"] = "COUNT"
        pages = [*self._pages(condition, values, **options)]
        return sum(int(page["Count"]) for page in pages), sum(
            int(page["ScannedCount"]) for page in pages
        )

    def _pages(
        self, condition: str, values: Mapping[str, Any], **options: Any
    ) -> Iterator[dict[str, Any]]:
        return pages(
            self._client,
            TableName=self._name,
            KeyConditionExpression=condition,
            ExpressionAttributeValues=stored(values),
            **options,
        )


def _key(key: Key) -> dict[str, Any]:
    return {PARTITION: {"S": key[0]}, SORT: {"S": key[1]}}
