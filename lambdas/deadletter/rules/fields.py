"""Reads the leaves of a document that patterns name, once for all rules; counts the work on them.

Work is counted in steps. No clock: a rule alone and in a book, a fast and a slow machine give the
same answer. A step takes about 0.1 µs on the machine on which the figures of docs/rules.md were
measured.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from typing import Any, Final

STEPS: Final = 250_000
"""Steps that a rule may cause on one letter: for its comparisons, and again for combining them
in arrays of objects."""

CHARACTERS_PER_STEP: Final = 200
"""Comparisons of one character in a step."""


class TooCostly(Exception):
    """A rule would cause more work on a letter than it may."""


class Work:
    """The steps that a rule has left on one letter to combine its fields in arrays."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = STEPS

    def spend(self, steps: int) -> None:
        """Take these steps; raises TooCostly if fewer are left."""
        self.left -= steps
        if self.left < 0:
            raise TooCostly


Place = tuple["Place", int, int] | None
"""Where a leaf stands: the innermost array element around it, with the element around that.

An element is (the place of its array, the array, the element); arrays and elements are
numbered within one document. None stands for a place outside of all arrays.
"""


class FieldValues:
    """The values of one name below an array.

    `deep` says that some of them stand in an object or an array that is an element.
    """

    __slots__ = ("_distinct", "_joined", "characters", "count", "deep", "entries")

    def __init__(self) -> None:
        self.entries: list[tuple[Place, Sequence[Any]]] = []
        self.deep = False
        self.count = 0
        self.characters = 0
        self._distinct: dict[Hashable, tuple[Any, list[Place]]] | None = None
        self._joined: str | None = None

    def add(self, place: Place, values: Sequence[Any]) -> None:
        """Add values that stand in one place."""
        self.entries.append((place, values))
        self.count += len(values)
        self.characters += sum(len(value) for value in values if value.__class__ is str)
        if place is not None:
            self.deep = True

    @property
    def distinct(self) -> Mapping[Hashable, tuple[Any, list[Place]]]:
        """Each different value once, by its key, with its places."""
        if self._distinct is None:
            self._distinct = {}
            for place, values in self.entries:
                for value in values:
                    key = exact_key(value)
                    known = self._distinct.get(key)
                    if known is None:
                        self._distinct[key] = (value, [place])
                    else:
                        known[1].append(place)
        return self._distinct

    @property
    def joined(self) -> str:
        """All texts one after the other: what is not in it is in none of them."""
        if self._joined is None:
            self._joined = "\n".join(key for key in self.distinct if key.__class__ is str)
        return self._joined

    def values(self) -> Iterator[Any]:
        """All values, in any order of elements."""
        for _, values in self.entries:
            yield from values


class Leaves(dict[str, Any]):
    """The leaf of each name: a scalar, or FieldValues; `deep` if one of these is."""

    deep = False
    numbered = 0

    @cached_property
    def size(self) -> float:
        """The size of the largest leaf, in units of what a comparison of one short value costs."""
        size = 1.0
        for leaf in self.values():
            if leaf.__class__ is str:
                size = max(size, 1 + len(leaf) / CHARACTERS_PER_STEP)
            elif leaf.__class__ is FieldValues:
                size = max(size, leaf.count + leaf.characters / CHARACTERS_PER_STEP)
        return size


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


# Arrays directly in arrays whose elements are told apart.
_MAX_ARRAYS: Final = 5


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


def exact_key(value: Any) -> Hashable:
    """A leaf as a look-up key: `1`, `1.0` and Decimal("1") are equal, `true` and 1 are not."""
    if value.__class__ is str:
        return value
    if value is None or isinstance(value, bool):
        return (value,)
    if isinstance(value, int | float | Decimal):
        return plain_number(value)
    return value  # type: ignore[no-any-return]


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

    def read(self, document: Mapping[str, Any]) -> Leaves:
        """The leaf of each name. A name without a leaf is left out.

        An object is not a leaf, an empty array has none, and `null` is a leaf. Numbers are
        in the form of `plain_number`. Values that are not JSON are ignored.
        """
        leaves = Leaves()
        _read_object(self._root, document, None, leaves)
        return leaves


def _read_object(node: NameNode, branch: Mapping[str, Any], place: Place, leaves: Leaves) -> None:
    onward = node.onward
    fewer, other = (onward, branch) if len(onward) <= len(branch) else (branch, onward)
    for key in fewer:
        if key not in other:
            continue
        value, inner = branch[key], onward[key]
        if value.__class__ not in _SCALARS:
            if value.__class__ is dict or isinstance(value, Mapping):
                if inner.onward:
                    _read_object(inner, value, place, leaves)
                continue
            if isinstance(value, list | tuple):
                _read_array(inner, value, place, leaves)
                continue
            if not isinstance(value, Decimal):
                continue
            value = plain_number(value)
        name = inner.name
        if name is not None:
            if place is not None or name in leaves:
                _add(leaves, name, place, (value,))
            else:
                leaves[name] = value


def _read_array(node: NameNode, items: Sequence[Any], place: Place, leaves: Leaves) -> None:
    """Reads an array and the arrays in it, each of which is an element of the one around it.

    The elements of an array deeper than _MAX_ARRAYS belong to the array at that depth.
    """
    leaves.numbered += 1
    unread: list[tuple[Iterator[Any], Place, int, list[Any]]] = [
        (iter(items), place, leaves.numbered, [])
    ]
    while unread:
        rest, place, array, values = unread[-1]
        for item in rest:
            if item.__class__ in _SCALARS:
                values.append(item)
            elif item.__class__ is dict or isinstance(item, Mapping):
                if node.onward:
                    leaves.numbered += 1
                    _read_object(node, item, (place, array, leaves.numbered), leaves)
            elif isinstance(item, list | tuple):
                if len(unread) < _MAX_ARRAYS:
                    leaves.numbered += 1
                    inside = (place, array, leaves.numbered)
                    unread.append((iter(item), inside, leaves.numbered, []))
                else:
                    unread.append((iter(item), place, array, values))
                break
            elif isinstance(item, Decimal):
                values.append(plain_number(item))
        else:
            unread.pop()
            of_outer = bool(unread) and unread[-1][3] is values
            if values and node.name is not None and not of_outer:
                _add(leaves, node.name, place, values)


def _add(leaves: Leaves, name: str, place: Place, values: Sequence[Any]) -> None:
    field_values = leaves.get(name)
    if field_values.__class__ is not FieldValues:
        scalar = (field_values,) if name in leaves else ()
        field_values = leaves[name] = FieldValues()
        if scalar:
            field_values.add(None, scalar)
    field_values.add(place, values)
    if place is not None:
        leaves.deep = True
