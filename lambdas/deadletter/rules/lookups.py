"""Look-ups of the values of one name: which buckets of rules a value leads to."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Hashable, Iterable, Mapping
from typing import Any, Final, Generic, TypeVar

from deadletter.rules import hooks
from deadletter.rules.cidr import read_address
from deadletter.rules.hooks import Hook

B = TypeVar("B")

Numbers = list[int]
"""Numbers of entries of the index, in ascending order."""

# A text this long with few pieces to look for is searched once for each instead.
_LONG_TEXT: Final = 256
_FEW_PIECES: Final = 200


_SHORT: Final = 200
"""Characters of a text for which tests are remembered: longer ones hardly come twice."""

_MOST_SEEN: Final = 500
_MOST_REMEMBERED: Final = 50
"""Texts of one name: of 10,000 rules each, 4 MB."""


class Lookups(Generic[B]):
    """The buckets of one name by their hooks, and the entries that need a comparison of each.

    Ranges of numbers have no bucket. `any_value` are the entries that every value finds, with the
    test that those of one group share.
    """

    __slots__ = (
        "_networks",
        "_pieces",
        "_ranges",
        "_remembered",
        "_seen",
        "_slices",
        "any_value",
        "exact",
        "only_exact",
    )

    def __init__(
        self,
        buckets: Mapping[Hook, B],
        wide: Mapping[Hook, Numbers],
        tests: Mapping[Hook, Callable[[Any], bool]],
    ) -> None:
        tables: dict[tuple[str, int], dict[Any, B]] = {}
        for hook, bucket in buckets.items():
            tables.setdefault((hook.kind, hook.length), {})[hook.key] = bucket
        self.exact: dict[Hashable, B] = tables.pop((hooks.EXACT, 0), {})
        self._slices: list[tuple[slice, bool, dict[str, B]]] = []
        self._pieces: list[tuple[int, dict[str, B]]] = []
        self._networks: list[tuple[int, dict[int, B]]] = []
        for (kind, length), table in tables.items():
            if kind == hooks.CONTAINS:
                self._pieces.append((length, table))
            elif kind == hooks.NETWORK:
                self._networks.append((length, table))
            else:
                self._slices.append((_PART[kind](length), kind in _FOLDED, table))
        intervals = [
            (*hook.key, number)
            for hook, numbers in wide.items()
            if hook.kind == hooks.BETWEEN
            for number in numbers
        ]
        self._ranges = Ranges(intervals) if intervals else None
        self.any_value = [
            (tests[hook], numbers) for hook, numbers in wide.items() if hook.kind == hooks.ANY.kind
        ]
        self.only_exact = not (tables or wide)
        self._seen: set[str] = set()
        self._remembered: dict[str, Numbers] = {}

    def known_of_any_value(self, text: str) -> Numbers | None:
        """Those of `any_value` whose tests a text passes; None the first time it is seen.

        Many letters have the same region or type, and a test costs more than a look-up. A text
        that comes once only, such as an order's id, is neither tested early nor kept.
        """
        known = self._remembered.get(text)
        if known is not None or len(text) > _SHORT:
            return known
        if text not in self._seen:
            if len(self._seen) >= _MOST_SEEN:
                self._seen.clear()
            self._seen.add(text)
            return None
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        known = [number for test, numbers in self.any_value if test(text) for number in numbers]
        self._remembered[text] = known
        return known

    def of_value(self, value: Any, found: Numbers) -> Iterable[B]:
        """The buckets of a value, but for its exact one; entries without one go into `found`."""
        if value.__class__ is str:
            return self._of_text(value)
        if self._ranges is not None and value.__class__ in (int, float):
            self._ranges.containing(value, found)
        return ()

    def _of_text(self, text: str) -> list[B]:
        buckets: list[B] = []
        for part, folded, table in self._slices:
            piece = text[part]
            bucket = table.get(piece.lower() if folded else piece)
            if bucket is not None:
                buckets.append(bucket)
        for length, table in self._pieces:
            if len(text) > _LONG_TEXT and len(table) < _FEW_PIECES:
                buckets += [bucket for piece, bucket in table.items() if piece in text]
            else:
                pieces = {text[at : at + length] for at in range(len(text) - length + 1)}
                buckets += [table[piece] for piece in pieces & table.keys()]
        if self._networks:
            address = read_address(text)
            if address is not None:
                for shift, networks in self._networks:
                    bucket = networks.get(address >> shift)
                    if bucket is not None:
                        buckets.append(bucket)
        return buckets


_PART: Final[Mapping[str, Callable[[int], slice]]] = {
    hooks.STARTS: slice,
    hooks.ENDS: lambda length: slice(-length, None),
    hooks.FOLDED: lambda _: slice(None),
    hooks.FOLDED_STARTS: slice,
    hooks.FOLDED_ENDS: lambda length: slice(-length, None),
}
_FOLDED: Final = frozenset({hooks.FOLDED, hooks.FOLDED_STARTS, hooks.FOLDED_ENDS})


class Ranges:
    """Intervals of numbers: finds those around a number, as an interval tree.

    Each node has the intervals around its centre, by both ends; the rest lie on one side.
    """

    __slots__ = ("_above", "_below", "_by_high", "_by_low", "_centre", "_highs", "_lows")

    def __init__(self, intervals: list[tuple[float, float, int]]) -> None:
        ends = sorted(
            end for low, high, _ in intervals for end in (low, high) if abs(end) != float("inf")
        )
        self._centre = centre = ends[len(ends) // 2]
        here = [interval for interval in intervals if interval[0] <= centre <= interval[1]]
        below = [interval for interval in intervals if interval[1] < centre]
        above = [interval for interval in intervals if interval[0] > centre]
        by_low = sorted(here)
        by_high = sorted(here, key=lambda one: one[1])
        self._lows = [low for low, _, _ in by_low]
        self._by_low = [number for _, _, number in by_low]
        self._highs = [high for _, high, _ in by_high]
        self._by_high = [number for _, _, number in by_high]
        self._below = Ranges(below) if below else None
        self._above = Ranges(above) if above else None

    def containing(self, value: float, found: Numbers) -> None:
        """Add the numbers of the intervals around the value, ends included."""
        node: Ranges | None = self
        while node is not None:
            if value <= node._centre:
                found += node._by_low[: bisect_right(node._lows, value)]
                node = node._below if value < node._centre else None
            else:
                found += node._by_high[bisect_left(node._highs, value) :]
                node = node._above
