"""Wildcards: text in which each star stands for any text."""

from __future__ import annotations

from collections.abc import Callable


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
