"""A DynamoDB request once everything in it is understood; what isn't is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from deadletter.testing.fakes.attribute_values import (
    Item,
    ValidationError,
    Value,
    accept,
    accept_item,
    size_of_item,
)
from deadletter.testing.fakes.dynamodb_table import FakeIndex, FakeTable, KeySchema, Spot, StoredRow
from deadletter.testing.fakes.errors import malformed
from deadletter.testing.fakes.expressions import (
    ConditionComparison,
    Expression,
    Names,
    Projection,
    Requirement,
    Update,
    condition,
    key_condition,
    projection,
    update,
)

# An argument that the caller left out. None is not that: boto3 refuses it.
ABSENT: Any = object()

# Bytes.
_LARGEST_ITEM = 400 * 1024

_SELECTIONS = ("ALL_ATTRIBUTES", "ALL_PROJECTED_ATTRIBUTES", "SPECIFIC_ATTRIBUTES", "COUNT")
_TRANSACTED = "an item of a transaction is one of Put, Update, Delete and ConditionCheck"
_BATCHED = "an item of a batch is a PutRequest with an Item or a DeleteRequest with a Key"


class ConditionFailed(Exception):
    """A write's condition doesn't hold of the row that is there."""

    def __init__(self, row: StoredRow | None) -> None:
        self.row = row


@dataclass(frozen=True, slots=True)
class Clauses:
    """The arguments that every write may have, as the caller gave them."""

    condition: str = ABSENT
    names: Mapping[str, str] = ABSENT
    values: Mapping[str, Value] = ABSENT
    on_failure: str = "NONE"

    def understood(
        self, changes: Update | None = None
    ) -> tuple[Requirement | None, Mapping[str, Value], bool]:
        """The condition, the values of all expressions, whether a failure shows the item."""
        check_choice(self.on_failure, "ReturnValuesOnConditionCheckFailure", ("NONE", "ALL_OLD"))
        holds = None
        expressions: tuple[Expression, ...] = (changes,) if changes else ()
        if self.condition is not ABSENT:
            holds = _condition("ConditionExpression", self.condition, self.names)
            expressions += (holds,)
        return holds, bound(expressions, self.names, self.values), self.on_failure == "ALL_OLD"


@dataclass(frozen=True, slots=True)
class Write:
    """One item's put, update, delete or check."""

    table: FakeTable
    spot: Spot
    condition: Requirement | None
    values: Mapping[str, Value]
    shows_old: bool
    put: StoredRow | None = None
    # An update, which makes an item of its key if it is missing.
    key: Mapping[str, Value] | None = None
    update: Update | None = None
    # A ConditionCheck of a transaction.
    leaves_alone: bool = False

    def outcome(self) -> tuple[StoredRow | None, StoredRow | None]:
        """The row before and after; nothing is written yet. ConditionFailed, ValidationError."""
        old = self.table.get(self.spot)
        if self.condition is not None and not self.condition.holds(
            old.item if old else {}, self.values
        ):
            raise ConditionFailed(old)
        if self.key is None:
            return old, self.put
        item = old.item if old else accept_item(self.key)[0]
        if self.update is not None:
            item = self.update.of(item, self.values)
            self.table.check_index_keys(item)
        row = StoredRow(item, size_of_item(item))
        if row.size > _LARGEST_ITEM:
            raise ValidationError("Item size to update has exceeded the maximum allowed size")
        return old, row


def put(table: FakeTable, item: object, clauses: Clauses) -> Write:
    accepted, size = accept_item(item)
    if size > _LARGEST_ITEM:
        raise ValidationError("Item size has exceeded the maximum allowed size")
    table.check_index_keys(accepted)
    spot = table.primary_of(accepted)
    return Write(table, spot, *clauses.understood(), put=StoredRow(accepted, size))


def delete(table: FakeTable, key: object, clauses: Clauses) -> Write:
    return Write(table, table.primary(key), *clauses.understood())


def check(table: FakeTable, key: object, clauses: Clauses) -> Write:
    return Write(table, table.primary(key), *clauses.understood(), leaves_alone=True)


def change(table: FakeTable, key: Mapping[str, Value], text: str, clauses: Clauses) -> Write:
    spot = table.primary(key)
    changes = None
    if text is not ABSENT:
        changes = update(_text(text, "UpdateExpression"), _names(clauses.names))
        keys = changes.touched.attributes & set(table.key.names)
        if keys:
            raise ValidationError(
                "One or more parameter values were invalid: Cannot update attribute "
                f"{min(keys)}. This attribute is part of the key"
            )
    return Write(table, spot, *clauses.understood(changes), key=key, update=changes)


def batched(table: FakeTable, request: Mapping[str, Any]) -> Write:
    """One entry of a BatchWriteItem."""
    kind, members = _only_entry(request, _BATCHED)
    if kind == "PutRequest" and members.keys() == {"Item"}:
        return put(table, members["Item"], Clauses())
    if kind == "DeleteRequest" and members.keys() == {"Key"}:
        return delete(table, members["Key"], Clauses())
    raise malformed(_BATCHED)


def transacted(table: FakeTable, request: Mapping[str, Any]) -> Write:
    """One entry of a TransactWriteItems, on a table that the client has found."""
    kind, given = _only_entry(request, _TRANSACTED)
    members = dict(given)
    del members["TableName"]
    clauses = Clauses(
        members.pop("ConditionExpression", ABSENT),
        members.pop("ExpressionAttributeNames", ABSENT),
        members.pop("ExpressionAttributeValues", ABSENT),
        members.pop("ReturnValuesOnConditionCheckFailure", "NONE"),
    )
    target = members.pop("Item" if kind == "Put" else "Key", ABSENT)
    if kind == "Put":
        write = put(table, target, clauses)
    elif kind == "Update":
        write = change(table, target, members.pop("UpdateExpression", ABSENT), clauses)
    elif kind == "Delete":
        write = delete(table, target, clauses)
    elif kind == "ConditionCheck" and clauses.condition is not ABSENT:
        write = check(table, target, clauses)
    else:
        raise malformed(_TRANSACTED)
    if members:
        raise malformed(f"{kind} has no member {min(members)}")
    return write


def table_of_transacted(request: Mapping[str, Any]) -> str:
    _, members = _only_entry(request, _TRANSACTED)
    return str(members.get("TableName"))


def _only_entry(request: object, rule: str) -> tuple[str, Mapping[str, Any]]:
    if isinstance(request, Mapping) and len(request) == 1:
        ((kind, members),) = request.items()
        if isinstance(members, Mapping):
            return kind, members
    raise malformed(rule)


class View:
    """What a query or a scan shows of the rows that it comes by."""

    def __init__(
        self,
        table: FakeTable,
        index: FakeIndex | None,
        *,
        filter_text: str,
        projection_text: str,
        names: Mapping[str, str],
        select: str,
        limit: int,
    ) -> None:
        self.table = table
        self.index = index
        self.filter: Requirement | None = None
        self.shown: Projection | None = None
        self.expressions: tuple[Expression, ...] = ()
        if filter_text is not ABSENT:
            self.filter = _condition("FilterExpression", filter_text, names)
            self.expressions += (self.filter,)
        if projection_text is not ABSENT:
            self.shown = projection(_text(projection_text, "ProjectionExpression"), _names(names))
            self.expressions += (self.shown,)
        if select is not ABSENT:
            check_choice(select, "Select", _SELECTIONS)
        if index and index.kept is not None:
            if self.shown and not self.shown.attributes <= index.kept:
                raise ValidationError(
                    "One or more parameter values were invalid: Global secondary index "
                    f"{index.name} does not project all of the requested attributes"
                )
            if select == "ALL_ATTRIBUTES":
                raise ValidationError(
                    "One or more parameter values were invalid: Select type ALL_ATTRIBUTES is not "
                    f"supported for global secondary index {index.name}"
                )
        self.counts = select == "COUNT"
        self.limit: int | None = None
        if limit is not ABSENT:
            if type(limit) is not int or limit < 1:
                raise malformed("Limit is a whole number from 1")
            self.limit = limit

    def key_of(self, item: Mapping[str, Value]) -> Item:
        """The item's key in this view: of an index, its own attributes and the table's."""
        names = self.table.key.names
        if self.index:
            names += tuple(name for name in self.index.key.names if name not in names)
        return {name: item[name] for name in names}

    def spot_of(self, start: Mapping[str, Value]) -> Spot | None:
        """Where an ExclusiveStartKey lies."""
        if start is ABSENT:
            return None
        item, _ = accept_item(start)
        try:
            if self.key_of(item).keys() == item.keys():
                primary = self.table.primary_of(item)
                return self.index.spot(item, primary) if self.index else primary
        except KeyError:
            pass
        raise ValidationError("The provided starting key is invalid")


def key_range(
    view: View, text: str, names: Mapping[str, str], values: Mapping[str, Value]
) -> tuple[Any, str, Sequence[Any], Mapping[str, Value]]:
    """A query's hash key, the operator on its sort key ("" for none), the bounds, the values."""
    schema = view.index.key if view.index else view.table.key
    keys = key_condition(_text(text, "KeyConditionExpression"), _names(names))
    accepted = bound((keys, *view.expressions), names, values)
    if view.filter and not view.filter.attributes.isdisjoint(schema.names):
        raise ValidationError("Filter Expression can only contain non-primary key attributes")
    own, sort = _parts(schema, keys.parts)
    hash_key = schema.native(schema.hash, accepted[own.placeholders[0]])
    if sort is None:
        return hash_key, "", (), accepted
    bounds = [schema.native(schema.range, accepted[name]) for name in sort.placeholders]
    return hash_key, sort.operator, bounds, accepted


def _parts(
    schema: KeySchema, parts: Sequence[ConditionComparison]
) -> tuple[ConditionComparison, ConditionComparison | None]:
    by_name = {part.attribute: part for part in parts}
    own = by_name.pop(schema.hash, None)
    if own is None or own.operator != "=":
        raise ValidationError(f"Query condition missed key schema element: {schema.hash}")
    sort = by_name.pop(schema.range, None) if schema.range else None
    if by_name or len(parts) != 1 + (sort is not None):
        raise ValidationError("Query key condition not supported")
    return own, sort


def projected(text: str, names: Mapping[str, str]) -> Projection | None:
    """The ProjectionExpression of a read that has no other expression."""
    shown = None
    if text is not ABSENT:
        shown = projection(_text(text, "ProjectionExpression"), _names(names))
    bound((shown,) if shown else (), names, ABSENT)
    return shown


def index_of(table: FakeTable, name: str, *, consistent: bool) -> FakeIndex | None:
    if name is ABSENT:
        return None
    index = table.indexes.get(name)
    if index is None:
        raise ValidationError(f"The table does not have the specified index: {name}")
    if consistent:
        raise ValidationError("Consistent reads are not supported on global secondary indexes")
    return index


def bound(
    expressions: Sequence[Expression], names: Mapping[str, str], values: Mapping[str, Value]
) -> Mapping[str, Value]:
    """The canonical values. Each placeholder given is used, and each used is given."""
    _check_used("ExpressionAttributeNames", names, [e.names for e in expressions])
    given = _check_used("ExpressionAttributeValues", values, [e.values for e in expressions])
    if not given:
        return {}
    accepted = {placeholder: accept(value)[0] for placeholder, value in values.items()}
    for expression in expressions:
        expression.check_values(accepted)
    return accepted


def _check_used(what: str, given: object, used: Sequence[frozenset[str]]) -> bool:
    needed = set(chain.from_iterable(used))
    if given is ABSENT:
        if needed:
            raise ValidationError(f"{what} does not define {min(needed)}")
        return False
    if not isinstance(given, Mapping):
        raise malformed(f"{what} is a mapping")
    if not given:
        raise ValidationError(f"{what} must not be empty")
    if needed - given.keys():
        raise ValidationError(f"{what} does not define {min(needed - given.keys())}")
    if given.keys() - needed:
        raise ValidationError(
            f"Value provided in {what} unused in expressions: keys: {min(given.keys() - needed)}"
        )
    return True


def check_distinct(spots: Sequence[Spot]) -> None:
    if len(set(spots)) != len(spots):
        raise ValidationError("Provided list of item keys contains duplicates")


def check_choice(value: str, parameter: str, choices: Sequence[str]) -> None:
    if value not in choices:
        raise ValidationError(f"{parameter} is one of {', '.join(choices)}")


def _condition(kind: str, text: object, names: object) -> Requirement:
    return condition(kind, _text(text, kind), _names(names))


def _names(names: object) -> Names:
    if names is ABSENT:
        return ()
    if not isinstance(names, Mapping):
        raise malformed("ExpressionAttributeNames is a mapping")
    for placeholder, name in names.items():
        if type(placeholder) is not str or type(name) is not str:
            raise malformed("ExpressionAttributeNames maps strings to strings")
        if placeholder[:1] != "#" or not name:
            raise ValidationError("ExpressionAttributeNames has an invalid key or an empty name")
    return tuple(names.items())


def _text(value: object, parameter: str) -> str:
    if type(value) is not str:
        raise malformed(f"{parameter} is a string")
    return value
