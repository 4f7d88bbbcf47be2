"""A DynamoDB table: its items in key order, again in each index, and what a write costs."""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from functools import partial
from operator import itemgetter
from typing import Any
from zlib import crc32

from deadletter.testing.fakes.attribute_values import (
    Item,
    ValidationError,
    Value,
    accept,
    size_of_item,
)

# Bytes of a key attribute.
_LARGEST_HASH_KEY = 2_048
_LARGEST_RANGE_KEY = 1_024
_WRITE_UNIT = 1_024

OUTSIDE = "The provided starting key is outside query boundaries based on provided conditions"

# Where an item lies within its partition: its sort key and, in an index, its primary key too.
Place = tuple[Any, ...]
# The same with the partition's hash key.
Spot = tuple[Any, Place]
_first = itemgetter(0)


class StoredRow:
    """An item as it is stored, and its bytes. Never changed, only replaced: indexes share it."""

    __slots__ = ("item", "size")

    def __init__(self, item: Item) -> None:
        self.item = item
        self.size = size_of_item(item)


class KeySchema:
    """The one or two attributes of a key, and their types."""

    def __init__(self, schema: Sequence[Mapping[str, str]], types: Mapping[str, str]) -> None:
        by_role = {row["KeyType"]: row["AttributeName"] for row in schema}
        self.hash = by_role["HASH"]
        self.range = by_role.get("RANGE", "")
        self.names = tuple(name for name in (self.hash, self.range) if name)
        self.types = types

    def placed(self, item: Mapping[str, Value]) -> tuple[Any, Any]:
        """The key of an item that has one; the second is None without a sort key."""
        sort = self.native(self.range, item[self.range]) if self.range else None
        return self.native(self.hash, item[self.hash]), sort

    def native(self, name: str, value: Value) -> Any:
        """A key attribute as a Python value that orders as DynamoDB orders it."""
        kind = self.types[name]
        content = value.get(kind)
        if content is None:
            raise ValidationError(
                f"One or more parameter values were invalid: Type mismatch for key {name} "
                f"expected: {kind} actual: {next(iter(value))}"
            )
        if kind == "N":
            return Decimal(content)
        if not content:
            raise ValidationError(
                "One or more parameter values are not valid. The AttributeValue for a key "
                f"attribute cannot contain an empty {kind} value. Key: {name}"
            )
        largest = _LARGEST_HASH_KEY if name == self.hash else _LARGEST_RANGE_KEY
        # A string of 500 characters has at most 2,000 bytes.
        if len(content) > largest // 4:
            octets = content.encode() if kind == "S" else content
            if len(octets) > largest:
                raise ValidationError(
                    f"One or more parameter values were invalid: {name} has exceeded the maximum "
                    f"size limit of {largest} bytes for a key"
                )
        return content


class Rows:
    """Items by hash key and, within it, in the order of their places."""

    __slots__ = ("partitions",)

    def __init__(self) -> None:
        self.partitions: dict[Any, tuple[list[Place], dict[Place, StoredRow]]] = {}

    def get(self, hash_key: Any, place: Place) -> StoredRow | None:
        partition = self.partitions.get(hash_key)
        return None if partition is None else partition[1].get(place)

    def put(self, hash_key: Any, place: Place, row: StoredRow) -> None:
        partition = self.partitions.get(hash_key)
        if partition is None:
            self.partitions[hash_key] = ([place], {place: row})
            return
        order, rows = partition
        if place not in rows:
            insort(order, place)
        rows[place] = row

    def delete(self, hash_key: Any, place: Place) -> None:
        order, rows = self.partitions.get(hash_key, ([], {}))
        if place in rows:
            del rows[place]
            del order[bisect_left(order, place)]
            if not rows:
                del self.partitions[hash_key]

    def between(
        self,
        hash_key: Any,
        operator: str,
        bounds: Sequence[Any],
        after: Place | None,
        forward: bool,
    ) -> Iterator[tuple[Spot, StoredRow]]:
        """The rows of one hash key whose sort key is in bounds, beginning after a place."""
        order, rows = self.partitions.get(hash_key, ([], {}))
        low, high = 0, len(order)
        if operator in ("=", ">=", "BETWEEN"):
            low = bisect_left(order, bounds[0], key=_first)
        elif operator == ">":
            low = bisect_right(order, bounds[0], key=_first)
        elif operator == "begins_with":
            low = bisect_left(order, bounds[0], key=_first)
            length = len(bounds[0])
            high = bisect_right(order, bounds[0], key=lambda place: place[0][:length])
        if operator in ("=", "<=", "BETWEEN"):
            high = bisect_right(order, bounds[-1], key=_first)
        elif operator == "<":
            high = bisect_left(order, bounds[0], key=_first)
        if after is not None:
            if not low <= bisect_left(order, after) <= high:
                raise ValidationError(OUTSIDE)
            if forward:
                low = bisect_right(order, after)
            else:
                high = bisect_left(order, after)
        indexes = range(low, high) if forward else range(high - 1, low - 1, -1)
        return (((hash_key, order[index]), rows[order[index]]) for index in indexes)

    def all(self, after: Spot | None) -> Iterator[tuple[Spot, StoredRow]]:
        """Every row, the partitions in an order of no meaning, as in a scan."""
        hash_keys = sorted(self.partitions, key=_scattered)
        if after is not None:
            start = _scattered(after[0])
            hash_keys = [key for key in hash_keys if _scattered(key) >= start]
        for key in hash_keys:
            beginning = after[1] if after is not None and after[0] == key else None
            yield from self.between(key, "", (), beginning, True)


def _scattered(hash_key: Any) -> tuple[int, Any]:
    return crc32(repr(hash_key).encode()), hash_key


class FakeIndex:
    """A global secondary index: the items that have its key attributes, or parts of them."""

    def __init__(self, name: str, key: KeySchema, kept: frozenset[str] | None):
        self.name = name
        self.key = key
        # The attributes that it holds, keys included; None for all.
        self.kept = kept
        self.rows = Rows()

    def spot(self, item: Mapping[str, Value], primary: Spot) -> Spot | None:
        """Where an item lies in the index; None if it lacks one of the index's keys."""
        if not item.keys() >= {*self.key.names}:
            return None
        hash_key, sort = self.key.placed(item)
        return hash_key, (sort, primary[0], *primary[1])

    def view(self, row: StoredRow) -> StoredRow:
        """What the index holds of a row."""
        if self.kept is None:
            return row
        return StoredRow({name: value for name, value in row.item.items() if name in self.kept})

    def follow(self, leave: Spot | None, enter: Spot | None, row: StoredRow | None) -> None:
        """Do what has to be done after a write."""
        if leave is not None and leave != enter:
            self.rows.delete(*leave)
        if enter is not None and row is not None:
            self.rows.put(*enter, row)


class FakeTable:
    """A table and its indexes. With `lagging`, indexes stand still until `settle`.

    With `has_replica` so does `replica`, a second copy of the rows: what a read may see that
    does not ask for consistency.
    """

    def __init__(
        self, name: str, key: KeySchema, *, lagging: bool, has_replica: bool = False
    ) -> None:
        self.name = name
        self.key = key
        self.indexes: dict[str, FakeIndex] = {}
        self.rows = Rows()
        self.replica = Rows() if has_replica else self.rows
        self._lagging = lagging
        self._behind: list[Callable[[], None]] = []
        self._unreplicated: dict[Spot, StoredRow | None] = {}

    def settle(self) -> None:
        for follow in self._behind:
            follow()
        self._behind.clear()
        for spot, row in self._unreplicated.items():
            if row is not None:
                self.replica.put(*spot, row)
            else:
                self.replica.delete(*spot)
        self._unreplicated.clear()

    def primary(self, key: object) -> Spot:
        """The place of a `Key` argument: exactly the key attributes, of the right types."""
        if type(key) is not dict or key.keys() != {*self.key.names}:
            raise ValidationError("The provided key element does not match the schema")
        return self.primary_of({name: accept(value) for name, value in key.items()})

    def primary_of(self, item: Mapping[str, Value]) -> Spot:
        """The place of an item."""
        for name in self.key.names:
            if name not in item:
                raise ValidationError(
                    f"One or more parameter values were invalid: Missing the key {name} in the item"
                )
        hash_key, sort = self.key.placed(item)
        return hash_key, (sort,)

    def check_index_keys(self, item: Mapping[str, Value]) -> None:
        """An attribute that some index is keyed on has that key's type, and isn't empty."""
        for index in self.indexes.values():
            for name in index.key.names:
                if name in item:
                    index.key.native(name, item[name])

    def get(self, primary: Spot) -> StoredRow | None:
        return self.rows.get(*primary)

    def write(self, primary: Spot, row: StoredRow | None) -> tuple[int, int]:
        """Put a row, or with None delete it. Returns write units: the table's, its indexes'."""
        old = self.rows.get(*primary)
        if row is not None:
            self.rows.put(*primary, row)
        elif old is not None:
            self.rows.delete(*primary)
        if self.replica is not self.rows:
            self._unreplicated[primary] = row
        units = write_units(max(old.size if old else 0, row.size if row else 0))
        return units, sum(self._follow(index, primary, old, row) for index in self.indexes.values())

    def _follow(
        self, index: FakeIndex, primary: Spot, old: StoredRow | None, new: StoredRow | None
    ) -> int:
        leave = index.spot(old.item, primary) if old else None
        enter = index.spot(new.item, primary) if new else None
        before = index.view(old) if old and leave is not None else None
        after = index.view(new) if new and enter is not None else None
        if leave != enter:
            units = sum(write_units(row.size) for row in (before, after) if row is not None)
        elif before is None or after is None or before.item == after.item:
            units = 0
        else:
            units = write_units(max(before.size, after.size))
        # Where nothing is paid, an unchanged row may still be a new object.
        if leave is not None or enter is not None:
            follow = partial(index.follow, leave, enter, after)
            if self._lagging:
                self._behind.append(follow)
            else:
                follow()
        return units


def write_units(size: int) -> int:
    """A write unit pays for 1 KB, rounded up, and for nothing at all as well."""
    return max(1, -(-size // _WRITE_UNIT))


def kept(projection: Mapping[str, Any], *keys: KeySchema) -> frozenset[str] | None:
    if projection["ProjectionType"] == "ALL":
        return None
    names = (name for key in keys for name in key.names)
    return frozenset([*names, *projection.get("NonKeyAttributes", ())])
