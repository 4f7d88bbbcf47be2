"""Reads the leaves of a document that patterns name, once for all rules."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Final

ArrayPath = tuple[tuple["NameNode", int], ...]
"""The array elements around a leaf, from the outermost array inwards."""


class FieldValues(list[tuple[ArrayPath, Sequence[Any]]]):
    """The values of one name below an array: pairs of (elements around them, values)."""

    def values(self) -> Iterator[Any]:
        """All values, in any order of elements."""
        for _, values in self:
            yield from values


@dataclass(slots=True, eq=False)
class NameNode:
    """A node in the tree of names; a document is read along it.

    `name` is the dotted name that ends here, or None. `onward` has the next node for each
    key by which a name may continue: `{"a": {"b": 1}}` and `{"a.b": 1}` both have the leaf
    `a.b`, as in EventBridge.
    """

    name: str | None = None
    onward: dict[str, NameNode] = field(default_factory=dict)


_SCALARS: Final = frozenset({str, int, float, bool, type(None)})

EXACT_IN_DOUBLE: Final = 2**53
"""A double represents every whole number up to here, and only some above."""


def plain_number(value: int | float | Decimal) -> int | float | Decimal:
    """The number as int or float if one of them has the same decimal text, else unchanged.

    Decimal("0.1") becomes the float 0.1, and 10**23 the float 1e23.
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
    """The dotted names of a set of patterns; reads only those places of a document.

    A name costs one look-up for each level. Of an object's keys and the outline's, the
    smaller set is iterated. Arrays are read completely. The recursion is as deep as the
    longest name, not as the document: arrays in arrays are read in a loop.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._root = NameNode()
        for name in names:
            steps = name.split(".")
            # Every node on the way can be reached from every earlier one by the joined key.
            nodes = [self._root]
            for depth in range(1, len(steps) + 1):
                node = nodes[-1].onward.get(steps[depth - 1]) or NameNode()
                for start, earlier in enumerate(nodes):
                    earlier.onward[".".join(steps[start:depth])] = node
                nodes.append(node)
            nodes[-1].name = name

    def read(self, document: Mapping[str, Any]) -> dict[str, Any]:
        """The leaf of each name: a scalar, or FieldValues. A name without a leaf is left out.

        An object is not a leaf, an empty array has none, and `null` is a leaf. Numbers are
        in the form of `plain_number`. Values that are not JSON are ignored.
        """
        leaves: dict[str, Any] = {}
        _read_object(self._root, document, (), leaves)
        return leaves


def _read_object(
    node: NameNode, branch: Mapping[str, Any], chain: ArrayPath, leaves: dict[str, Any]
) -> None:
    onward = node.onward
    fewer, other = (onward, branch) if len(onward) <= len(branch) else (branch, onward)
    for key in fewer:
        if key not in other:
            continue
        value, inner = branch[key], onward[key]
        if value.__class__ not in _SCALARS:
            if value.__class__ is dict or isinstance(value, Mapping):
                if inner.onward:
                    _read_object(inner, value, chain, leaves)
                continue
            if isinstance(value, list | tuple):
                _read_array(inner, value, chain, leaves)
                continue
            if not isinstance(value, Decimal):
                continue
            value = plain_number(value)
        name = inner.name
        if name is not None:
            if chain or name in leaves:
                _add(leaves, name, chain, (value,))
            else:
                leaves[name] = value


def _read_array(
    node: NameNode, items: Sequence[Any], chain: ArrayPath, leaves: dict[str, Any]
) -> None:
    element = 0
    values: list[Any] = []
    unread = [iter(items)]
    while unread:
        for item in unread[-1]:
            if item.__class__ in _SCALARS:
                values.append(item)
            elif item.__class__ is dict or isinstance(item, Mapping):
                if node.onward:
                    element += 1
                    _read_object(node, item, (*chain, (node, element)), leaves)
            elif isinstance(item, list | tuple):
                unread.append(iter(item))
                break
            elif isinstance(item, Decimal):
                values.append(plain_number(item))
        else:
            unread.pop()
    if values and node.name is not None:
        _add(leaves, node.name, chain, values)


def _add(leaves: dict[str, Any], name: str, chain: ArrayPath, values: Sequence[Any]) -> None:
    field_values = leaves.get(name)
    if not isinstance(field_values, FieldValues):
        scalar = [((), (field_values,))] if name in leaves else ()
        field_values = leaves[name] = FieldValues(scalar)
    field_values.append((chain, values))
