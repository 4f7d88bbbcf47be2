"""The leaves of a document that patterns name: found once, whatever the number of rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

ArrayPath = tuple[tuple["NameNode", int], ...]
"""In which element of which array a leaf stands, from the outermost array inwards."""


class FieldValues(list[tuple[ArrayPath, Sequence[Any]]]):
    """The values of one name when an array is on the way: (elements they stand in, values)."""

    def values(self) -> Iterator[Any]:
        """All values, in no particular order of elements."""
        for _, values in self:
            yield from values


@dataclass(slots=True, eq=False)
class NameNode:
    """A place in a document that the names lead to, and where they go on from there.

    `name` is the dotted name if one ends here. `onward` has an entry for each name that
    goes on, under each of its first keys: `{"a": {"b": 1}}` and `{"a.b": 1}` both have
    the leaf `a.b`, as in EventBridge.
    """

    name: str | None = None
    onward: dict[str, NameNode] = field(default_factory=dict)


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

EXACT_IN_DOUBLE: Final = 2**53
"""Whole numbers up to here are doubles; above, only some are."""


def plain_number(value: int | float | Decimal) -> int | float | Decimal:
    """The number in one form: int or float if one of them has its decimal text, else as it is.

    So Decimal("0.1") is the float 0.1, and 10**23 is the float 1e23.
    """
    if (
        isinstance(value, Decimal)
        and value.is_finite()
        and value.adjusted() < 400  # an int of a billion digits would fill the memory
        and value == value.to_integral_value()
    ):
        value = int(value)
    if isinstance(value, float) or (
        isinstance(value, int) and -EXACT_IN_DOUBLE <= value <= EXACT_IN_DOUBLE
    ):
        return value
    try:
        nearest = float(value)
    except OverflowError:
        return value
    return nearest if Decimal(repr(nearest)) == value else value


class Outline:
    """The dotted names that somebody asks about. Reads a document only where they lead.

    A name costs one look-up a level, and an object is never walked through: of a
    document's keys and the outline's, the fewer are counted off. Arrays are walked
    whole. Recursion is as deep as the longest name, not as the document: arrays in
    arrays are walked in a loop.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._root = NameNode()
        for name in names:
            steps = name.split(".")
            # Every place on the way can be reached from every earlier one by the joined key.
            places = [self._root]
            for at in range(1, len(steps) + 1):
                place = places[-1].onward.get(steps[at - 1]) or NameNode()
                for start, earlier in enumerate(places):
                    earlier.onward[".".join(steps[start:at])] = place
                places.append(place)
            places[-1].name = name

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """Name to leaf: a scalar, or Leaves. A name without a leaf is not in it.

        An object is no leaf and an empty array has none; `null` is one. Numbers come as
        `plain_number` writes them. What is not JSON is not seen.
        """
        found: dict[str, Any] = {}
        _read_object(self._root, document, (), found)
        return found


def _read_object(
    place: NameNode, branch: Mapping[str, Any], chain: ArrayPath, found: dict[str, Any]
) -> None:
    onward = place.onward
    fewer, other = (onward, branch) if len(onward) <= len(branch) else (branch, onward)
    for key in fewer:
        if key not in other:
            continue
        value, inner = branch[key], onward[key]
        if value.__class__ not in _SCALARS:
            if value.__class__ is dict or isinstance(value, Mapping):
                if inner.onward:
                    _read_object(inner, value, chain, found)
                continue
            if isinstance(value, list | tuple):
                _read_array(inner, value, chain, found)
                continue
            if not isinstance(value, Decimal):
                continue
            value = plain_number(value)
        name = inner.name
        if name is not None:
            if chain or name in found:
                _add(found, name, chain, (value,))
            else:
                found[name] = value


def _read_array(
    place: NameNode, items: Sequence[Any], chain: ArrayPath, found: dict[str, Any]
) -> None:
    element = 0
    values: list[Any] = []
    unread = [iter(items)]
    while unread:
        for item in unread[-1]:
            if item.__class__ in _SCALARS:
                values.append(item)
            elif item.__class__ is dict or isinstance(item, Mapping):
                if place.onward:
                    element += 1
                    _read_object(place, item, (*chain, (place, element)), found)
            elif isinstance(item, list | tuple):
                unread.append(iter(item))
                break
            elif isinstance(item, Decimal):
                values.append(plain_number(item))
        else:
            unread.pop()
    if values and place.name is not None:
        _add(found, place.name, chain, values)


def _add(found: dict[str, Any], name: str, chain: ArrayPath, values: Sequence[Any]) -> None:
    leaves = found.get(name)
    if not isinstance(leaves, FieldValues):
        leaves = found[name] = FieldValues([((), (leaves,))] if name in found else ())
    leaves.append((chain, values))
