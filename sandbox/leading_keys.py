"""What a DynamoDB request touches, as IAM is given it: `dynamodb:LeadingKeys`, the partitions, and
`dynamodb:Attributes`, the attributes of items.

A policy that keeps a role to some rows of a table compares this key. The emulator
evaluates such conditions but does not supply the key, and without it a
``ForAllValues`` condition is met by every request.

A Scan names no partition, so on AWS, too, it meets every ``ForAllValues``
condition; only leaving dynamodb:Scan out of the policy keeps a role from it.
PartiQL statements are not read.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

# Item keys and attribute values as they travel: {"S": "text"}.
Value = Mapping[str, str]

# (table, index or None) -> the name of the attribute that is its partition key.
PartitionKey = Callable[[str, str | None], str | None]

# The action of each member of a transaction: IAM is asked about each by itself.
TRANSACTED = {
    "ConditionCheck": "dynamodb:ConditionCheckItem",
    "Put": "dynamodb:PutItem",
    "Update": "dynamodb:UpdateItem",
    "Delete": "dynamodb:DeleteItem",
    "Get": "dynamodb:GetItem",
}

# What may name an attribute of an item, beside the placeholders.
_EXPRESSIONS = (
    *("ProjectionExpression", "UpdateExpression", "ConditionExpression"),
    *("FilterExpression", "KeyConditionExpression"),
)

# The first word of a path that is no placeholder, and no function's name.
_NAME = re.compile(r"(?<![#:\w.-])([A-Za-z_]\w*)(?!\w*\s*\()")
_WORDS = {"SET", "REMOVE", "ADD", "DELETE", "AND", "OR", "NOT", "BETWEEN", "IN"}

# "name = :value" or ":value = name"; a name may be a #placeholder.
_EQUALITY = re.compile(r"([#:]?[\w.-]+)\s*=\s*([#:]?[\w.-]+)")


def leading_keys(
    action: str, request: Mapping[str, Any], partition_key: PartitionKey
) -> dict[tuple[str, str], list[str]]:
    """Return the partitions that a request touches, by the action asked for and its table.

    *action* is the request's own, such as dynamodb:Query; *request* is its body. Each
    partition is listed once. A request that names no partition is in no list.
    """
    touched: dict[tuple[str, str], list[str]] = {}
    for asked, table, index, item in _items(action, request):
        name = partition_key(table, index)
        value = item.get(name) if name else None
        if not isinstance(value, Mapping) or not value:
            continue
        [text] = map(str, value.values())
        partitions = touched.setdefault((asked, table), [])
        if text not in partitions:
            partitions.append(text)
    return touched


def named_attributes(action: str, request: Mapping[str, Any]) -> dict[tuple[str, str], list[str]]:
    """Return the attributes that a request names, by the action asked for and its table.

    Those of items that are put, of projections, updates and conditions, and those of the key. A
    request that names none is in no list: it is shown whole items, or deletes them.
    """
    named: dict[tuple[str, str], list[str]] = {}
    for asked, table, part in _parts(action, request):
        names = [str(name) for name in part.get("Item") or {}]
        names += map(str, (part.get("ExpressionAttributeNames") or {}).values())
        for expression in _EXPRESSIONS:
            found = _NAME.findall(part.get(expression) or "")
            names += [name for name in found if name.upper() not in _WORDS]
        names += part.get("AttributesToGet") or []
        keys = [part.get("Key") or {}, *(part.get("Keys") or [])]
        if names:
            names += [str(name) for key in keys for name in key]
            named[asked, table] = sorted({*named.get((asked, table), []), *names})
    return named


def _parts(action: str, request: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """The action, the table and the arguments of each part of a request."""
    if isinstance(table := request.get("TableName"), str):
        yield action, table, request
    for table, entries in (request.get("RequestItems") or {}).items():
        if isinstance(entries, Mapping):
            yield action, table, entries
            continue
        for entry in entries:
            for part in entry.values():
                yield action, table, part
    for entry in request.get("TransactItems") or []:
        for member, part in entry.items():
            yield TRANSACTED.get(member, action), part["TableName"], part


def _items(
    action: str, request: Mapping[str, Any]
) -> Iterator[tuple[str, str, str | None, Mapping[str, Value]]]:
    """Each item or key of a request: the action, the table, the index, the attributes."""
    if isinstance(table := request.get("TableName"), str):
        item = request.get("Key") or request.get("Item") or _condition(request)
        yield action, table, request.get("IndexName"), item
    for table, entries in (request.get("RequestItems") or {}).items():
        for item in _batched(entries):
            yield action, table, None, item
    for entry in request.get("TransactItems") or []:
        for member, part in entry.items():
            item = part.get("Key") or part.get("Item") or {}
            yield TRANSACTED.get(member, action), part["TableName"], None, item


def _batched(entries: Any) -> Iterator[Mapping[str, Value]]:
    if isinstance(entries, Mapping):
        yield from entries.get("Keys") or []
        return
    for entry in entries:
        for part in entry.values():
            yield part.get("Key") or part.get("Item") or {}


def _condition(request: Mapping[str, Any]) -> dict[str, Value]:
    """The attributes that the key condition of a Query fixes, in either of its forms."""
    fixed: dict[str, Value] = {
        name: condition["AttributeValueList"][0]
        for name, condition in (request.get("KeyConditions") or {}).items()
        if condition.get("ComparisonOperator") == "EQ"
    }
    names: Mapping[str, str] = request.get("ExpressionAttributeNames") or {}
    values = request.get("ExpressionAttributeValues") or {}
    for equality in _EQUALITY.finditer(request.get("KeyConditionExpression") or ""):
        name, value = map(str, equality.groups())
        if name.startswith(":"):
            name, value = value, name
        if value in values:
            fixed[names.get(name, name)] = values[value]
    return fixed
