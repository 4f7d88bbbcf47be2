"""What is asked of a table, as values: conditions on a row, joined by `&` and `|`, and changes.

Attributes are named as they are called. How DynamoDB writes it all is in `dynamodb`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal, NamedTuple, TypeVar

from deadletter.contract import MESSAGES

PARTITION = MESSAGES.partition
SORT = MESSAGES.sort

T = TypeVar("T")

Path = str | tuple[str, ...]
"""The name of an attribute; or that of a map, and of what is in it."""

Key = tuple[str, str]
"""Partition and sort key of a row."""


class Condition:
    """What a row must be like. A row that does not exist has no attribute."""

    __slots__ = ()

    def __and__(self, other: Condition) -> Condition:
        return Joined("AND", (self, other))

    def __or__(self, other: Condition) -> Condition:
        return Joined("OR", (self, other))

    def __invert__(self) -> Condition:
        return Opposite(self)


@dataclass(frozen=True, slots=True)
class Compared(Condition):
    """One attribute beside some values. Without the attribute only `absent` and `differs` hold.

    `sign` is DynamoDB's own word for how they are compared.
    """

    sign: str
    path: Path
    values: tuple[Any, ...] = ()


@dataclass(frozen=True, slots=True)
class Joined(Condition):
    """Conditions that all hold, or of which one does: `word` is AND or OR."""

    word: str
    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class Opposite(Condition):
    """True where a condition is not."""

    of: Condition

    def __invert__(self) -> Condition:
        return self.of


def absent(path: Path) -> Condition:
    return Compared("attribute_not_exists", path)


def present(path: Path) -> Condition:
    return Compared("attribute_exists", path)


def equals(path: Path, value: Any) -> Condition:
    return Compared("=", path, (value,))


def differs(path: Path, value: Any) -> Condition:
    return Compared("<>", path, (value,))


def below(path: Path, value: Any) -> Condition:
    return Compared("<", path, (value,))


def at_most(path: Path, value: Any) -> Condition:
    return Compared("<=", path, (value,))


def above(path: Path, value: Any) -> Condition:
    return Compared(">", path, (value,))


def at_least(path: Path, value: Any) -> Condition:
    return Compared(">=", path, (value,))


def between(path: Path, least: Any, most: Any) -> Condition:
    return Compared("BETWEEN", path, (least, most))


def one_of(path: Path, values: Sequence[Any]) -> Condition:
    return Compared("IN", path, tuple(values))


def begins(path: Path, text: str) -> Condition:
    return Compared("begins_with", path, (text,))


def is_number(path: Path) -> Condition:
    return Compared("attribute_type", path, ("N",))


def every(conditions: Sequence[Condition]) -> Condition:
    """All of these conditions, of which there is at least one."""
    return conditions[0] if len(conditions) == 1 else Joined("AND", tuple(conditions))


def unchanged(row: Mapping[str, Any], names: Sequence[str]) -> Condition:
    """The attributes with these names are as in a row: those that it lacks are absent."""
    return every([equals(name, row[name]) if name in row else absent(name) for name in names])


class OrElse(NamedTuple):
    """A value to set: that of an attribute of the row, or else this one."""

    name: str
    value: Any


def kept(values: Mapping[str, Any]) -> dict[str, OrElse]:
    """Values to set where the row has no such attribute."""
    return {name: OrElse(name, value) for name, value in values.items()}


class Change(NamedTuple):
    """An update of the row with a key, if the row meets the condition; one that is missing is made.

    `adds` are numbers for counters, which begin at 0, and sets for sets.
    """

    key: Key
    sets: Mapping[str, Any]
    when: Condition | None = None
    adds: Mapping[str, Any] = {}
    removes: Sequence[str] = ()


Shown = Literal["", "ALL_OLD", "ALL_NEW", "UPDATED_OLD"]
"""What a change answers with: nothing, the row before or after it, or what was overwritten."""


def stored_number(value: float) -> Decimal | int:
    """A number as DynamoDB accepts it: Decimal or int, because it refuses floats.

    Rounded to thousandths: no clock here is more exact than a millisecond.
    """
    return value if isinstance(value, int) else Decimal(str(round(value, 3)))


def parts(items: Sequence[T], size: int) -> Iterator[Sequence[T]]:
    """The items in runs of at most `size`."""
    for start in range(0, len(items), size):
        yield items[start : start + size]
