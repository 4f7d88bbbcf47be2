"""Wildcards: text in which each star stands for any text."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

LONG_TEXT: Final = 30_000
"""In texts with more characters, `str.find` is linear for every piece."""


@dataclass(frozen=True, slots=True)
class Scan:
    """The most comparisons that a search makes for each character of a text."""

    of_any: float
    of_long: float

    def __add__(self, other: Scan) -> Scan:
        return Scan(self.of_any + other.of_any, self.of_long + other.of_long)


NO_SCAN: Final = Scan(0, 0)


def scan_of(longest: int) -> Scan:
    """What it costs to search pieces of at most this length; see `matches_wildcard`."""
    if longest < 2:
        # One character is found by memchr, many characters of the text at a time.
        return Scan(longest / 10, longest / 10)
    return Scan(min(longest, 100), min(longest, 4))


def read_wildcard(text: str) -> list[str]:
    """The literal text before, between and after the stars; one piece if there is no star.

    `\\*` is a star and `\\\\` a backslash. Raises ValueError for any other backslash, and
    for two stars in a row, which EventBridge refuses.
    """
    pieces = [""]
    characters = iter(text)
    star = False
    for character in characters:
        if character == "*":
            if star:
                raise ValueError("has two stars in a row; one is enough")
            pieces.append("")
        elif character == "\\":
            escaped = next(characters, "")
            if escaped not in ("*", "\\"):
                raise ValueError("has a backslash that stands before neither * nor \\")
            pieces[-1] += escaped
        else:
            pieces[-1] += character
        star = character == "*"
    return pieces


def matches_wildcard(text: str, pieces: list[str], find: Callable[..., int] = str.find) -> bool:
    """True if the text consists of the pieces, two or more, in order with any text between them.

    Each search begins where the last one ended, and the leftmost place always suffices: one
    search for each piece, over spans that together are no longer than the text. `str.find`
    makes a bounded number of comparisons for each character: a few above 30,000 characters
    (two-way search, since Python 3.10), at most 100 below, and for texts under 2,500
    characters at most the length of the piece.
    """
    first, last = pieces[0], pieces[-1]
    start, end = len(first), len(text) - len(last)
    if start > end or not text.startswith(first) or not text.endswith(last):
        return False
    for piece in pieces[1:-1]:
        start = find(text, piece, start, end)
        if start < 0:
            return False
        start += len(piece)
    return True
