"""A DynamoDB request once everything in it is understood; what isn't is refused here."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from deadletter.aws.table import Compared, Condition, Joined
from deadletter.testing.fakes.attribute_values import (
    Item,
    ValidationError,
    Value,
    accept_item,
    copied_item,
)
from deadletter.testing.fakes.conditions import canonical_value, changed, holds, names_in
from deadletter.testing.fakes.dynamodb_table import FakeIndex, FakeTable, Spot, StoredRow
from deadletter.testing.fakes.errors import Declined, malformed

# Bytes.
_LARGEST_ITEM = 400 * 1024

_BATCHED = "an item of a batch is a PutRequest with an Item or a DeleteRequest with a Key"


class ConditionFailed(Declined):
    """A write's condition doesn't hold of the row that is there."""

    def __init__(self, row: StoredRow | None) -> None:
        shown: dict[str, Any] = {"Item": copied_item(row.item)} if row else {}
        super().__init__(
            "ConditionalCheckFailedException", "The conditional request failed", **shown
        )
        self.row = row


@dataclass(frozen=True, slots=True)
class Write:
    """One item's put, update, delete or check."""

    table: FakeTable
    spot: Spot
    when: Condition | None
    put: StoredRow | None = None
    # An update, which makes an item of its key if it is missing.
    key: Mapping[str, Value] | None = None
    update: tuple[Mapping[str, Any], Mapping[str, Any], Sequence[str]] = ({}, {}, ())
    # A ConditionCheck of a transaction.
    leaves_alone: bool = False

    def outcome(self) -> tuple[StoredRow | None, StoredRow | None]:
        """The row before and after; nothing is written yet. ConditionFailed, ValidationError."""
        old = self.table.get(self.spot)
        if not holds(self.when, old.item if old else {}):
            raise ConditionFailed(old)
        if self.key is None:
            return old, self.put
        return old, _row(
            self.table, changed(old.item if old else accept_item(self.key), *self.update)
        )


def _row(table: FakeTable, item: Item) -> StoredRow:
    """A row that is to be written."""
    row = StoredRow(item)
    if row.size > _LARGEST_ITEM:
        raise ValidationError("Item size has exceeded the maximum allowed size")
    table.check_index_keys(item)
    return row


def put(table: FakeTable, item: object, when: Condition | None = None) -> Write:
    row = _row(table, accept_item(item))
    return Write(table, table.primary_of(row.item), when, put=row)


def delete(table: FakeTable, key: object, when: Condition | None = None) -> Write:
    return Write(table, table.primary(key), when)


def change(
    table: FakeTable,
    key: Mapping[str, Value],
    sets: Mapping[str, Any],
    adds: Mapping[str, Any],
    removes: Sequence[str],
    when: Condition | None = None,
) -> Write:
    spot = table.primary(key)
    if keys := set(table.key.names) & {*sets, *adds, *removes}:
        raise ValidationError(
            "One or more parameter values were invalid: Cannot update attribute "
            f"{min(keys)}. This attribute is part of the key"
        )
    return Write(table, spot, when, key=key, update=(sets, adds, removes))


def batched(table: FakeTable, request: Mapping[str, Any]) -> Write:
    """One entry of a BatchWriteItem."""
    match request:
        case {"PutRequest": {"Item": item}}:
            return put(table, item)
        case {"DeleteRequest": {"Key": key}}:
            return delete(table, key)
    raise malformed(_BATCHED)


def transacted(table: FakeTable, kind: str, members: Mapping[str, Any]) -> Write:
    """One entry of a TransactWriteItems, on a table that the client has found."""
    when = members.get("When")
    match kind:
        case "Put":
            return put(table, members["Item"], when)
        case "Delete":
            return delete(table, members["Key"], when)
        case "Update":
            sets, adds, removes = (members.get(name, {}) for name in ("Sets", "Adds", "Removes"))
            return change(table, members["Key"], sets, adds, [*removes], when)
        case "ConditionCheck" if when is not None:
            return Write(table, table.primary(members["Key"]), when, leaves_alone=True)
    raise malformed("an item of a transaction is one of Put, Update, Delete and ConditionCheck")


@dataclass(frozen=True, slots=True)
class View:
    """What a query or a scan shows of the rows that it comes by."""

    table: FakeTable
    index: FakeIndex | None
    keep: Condition | None
    only: Sequence[str]
    counts: bool
    limit: int | None

    def __post_init__(self) -> None:
        schema = self.index.key if self.index else self.table.key
        if not names_in(self.keep).isdisjoint(schema.names):
            raise ValidationError("Filter Expression can only contain non-primary key attributes")
        if self.index and self.index.kept is not None and not self.index.kept.issuperset(self.only):
            raise ValidationError(
                "One or more parameter values were invalid: Global secondary index "
                f"{self.index.name} does not project all of the requested attributes"
            )
        if self.limit is not None and self.limit < 1:
            raise malformed("Limit is a whole number from 1")

    def key_of(self, item: Mapping[str, Value]) -> Item:
        """The item's key in this view: of an index, its own attributes and the table's."""
        names = self.table.key.names
        if self.index:
            names += tuple(name for name in self.index.key.names if name not in names)
        return {name: item[name] for name in names}

    def spot_of(self, start: Mapping[str, Value] | None) -> Spot | None:
        """Where an ExclusiveStartKey lies."""
        if start is None:
            return None
        item = accept_item(start)
        try:
            if self.key_of(item).keys() == item.keys():
                primary = self.table.primary_of(item)
                return self.index.spot(item, primary) if self.index else primary
        except KeyError:
            pass
        raise ValidationError("The provided starting key is invalid")


_OF_SORT_KEYS = frozenset({"=", "<", "<=", ">", ">=", "BETWEEN", "begins_with"})


def key_range(view: View, where: Condition) -> tuple[Any, str, Sequence[Any]]:
    """A query's hash key, the sign of its sort key ("" for none), and the bounds."""
    schema = view.index.key if view.index else view.table.key
    parts = where.parts if isinstance(where, Joined) and where.word == "AND" else (where,)
    by_name = {part.path: part for part in parts if isinstance(part, Compared)}
    own = by_name.pop(schema.hash, None)
    if own is None or own.sign != "=":
        raise ValidationError(f"Query condition missed key schema element: {schema.hash}")
    hash_key = schema.native(schema.hash, canonical_value(own.values[0]))
    sort = by_name.pop(schema.range, None) if schema.range else None
    is_plain = sort is None or sort.sign in _OF_SORT_KEYS
    if by_name or len(parts) != 1 + (sort is not None) or not is_plain:
        raise ValidationError("Query key condition not supported")
    if sort is None:
        return hash_key, "", ()
    bounds = [schema.native(schema.range, canonical_value(value)) for value in sort.values]
    if bounds != sorted(bounds):
        raise ValidationError("The BETWEEN operator requires upper bound to be at least the lower")
    return hash_key, sort.sign, bounds


def shown_of(item: Item, only: Sequence[str]) -> Item:
    """What is asked for of an item: without names, all of it."""
    return {name: item[name] for name in only if name in item} if only else item


def index_of(table: FakeTable, name: str, *, consistent: bool) -> FakeIndex | None:
    if not name:
        return None
    index = table.indexes.get(name)
    if index is None:
        raise ValidationError(f"The table does not have the specified index: {name}")
    if consistent:
        raise ValidationError("Consistent reads are not supported on global secondary indexes")
    return index


def check_distinct(spots: Sequence[Spot]) -> None:
    if len(set(spots)) != len(spots):
        raise ValidationError("Provided list of item keys contains duplicates")
