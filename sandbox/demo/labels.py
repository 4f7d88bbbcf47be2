"""Where the name of each line of a chart stands: beside its line, and over no other name.

Places are shares of the plot: 0 is its left end or its top, 1 its right end or its bottom.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Self

Line = Sequence[tuple[float, float]]
"""Points from left to right."""

# How far a name is from its line, at least.
_GAP = 0.015

# A name may begin or end at each of so many places along its line, and stand so many rows off it.
_STEPS, _ROWS = 24, 5

# How bad it is if a name covers another one, if a line other than its own is as near to it, for
# each of `_PARTS` of it that a line crosses, for each share of the plot that it is off its line,
# and for each that it is below the line's highest point.
_COVERS, _AMBIGUOUS, _CROSSED, _OFF, _LOW = 1000.0, 20.0, 6.0, 150.0, 30.0
_PARTS = 16


@dataclass(frozen=True, slots=True)
class Box:
    """A name's place; `to_left` if it ends at the point of the line that it belongs to."""

    left: float
    top: float
    width: float
    height: float
    to_left: bool = False

    @property
    def right(self) -> float:
        return self.left + self.width

    @property
    def bottom(self) -> float:
        return self.top + self.height

    def covers(self, other: Self) -> bool:
        beside = self.right <= other.left or other.right <= self.left
        return not (beside or self.bottom <= other.top or other.bottom <= self.top)

    def gap_to(self, y: float) -> float:
        """How far it is above or below *y*; 0 if *y* crosses it."""
        return max(self.top - y, y - self.bottom, 0.0)


def place(
    lines: Mapping[str, Line], widths: Mapping[str, float], height: float, taken: Sequence[Box]
) -> Mapping[str, Box]:
    """Find a place for the name of each line, lowest line first; *taken* places stay free."""
    full = list(taken)
    placed: dict[str, Box] = {}

    # The places of a name share few of these.
    @cache
    def at(name: str, x: float) -> float:
        return _at(lines[name], x)

    for name in sorted(lines, key=lambda name: (-min(y for _, y in lines[name]), name)):
        highest = min(y for _, y in lines[name])

        def badness(box: Box, own: str = name, highest: float = highest) -> float:
            return _badness(box, own, lines, at, highest, full)

        placed[name] = min(_places(lines[name], widths[name], height), key=badness)
        full.append(placed[name])
    return placed


def _places(line: Line, width: float, height: float) -> Iterator[Box]:
    for step in range(_STEPS + 1):
        x = step / _STEPS
        y = _at(line, x)
        for row in range(_ROWS):
            for beside in (y - _GAP - (row + 1) * height, y + _GAP + row * height):
                top = min(max(beside, 0.0), 1 - height)
                if x + width <= 1:
                    yield Box(x, top, width, height)
                if x >= width:
                    yield Box(x - width, top, width, height, to_left=True)


def _badness(
    box: Box,
    own: str,
    names: Iterable[str],
    at: Callable[[str, float], float],
    highest: float,
    full: Sequence[Box],
) -> float:
    """How bad a place is for the name of the line *own*, whose highest point is *highest*."""
    along = [box.left + box.width * part / _PARTS for part in range(_PARTS + 1)]
    anchor = at(own, box.right if box.to_left else box.left)
    gap = box.gap_to(anchor)
    gaps = {name: [box.gap_to(at(name, x)) for x in along] for name in names}
    nearest = min((min(each) for name, each in gaps.items() if name != own), default=1.0)
    crossings = sum(each.count(0.0) for each in gaps.values())
    return (
        _COVERS * sum(map(box.covers, full))
        + _AMBIGUOUS * (nearest <= gap)
        + _CROSSED * crossings
        + _OFF * gap
        + _LOW * (anchor - highest)
    )


def _at(line: Line, x: float) -> float:
    """How high the line is there, straight between its points."""
    place = bisect_right(line, x, key=lambda point: point[0])
    if place == 0:
        return line[0][1]
    if place == len(line):
        return line[-1][1]
    (left, before), (right, after) = line[place - 1], line[place]
    return before + (after - before) * (x - left) / (right - left)
