"""Hooks: what every value that a comparison accepts has in common, and can be looked up by.

A hook may also fit values that are not accepted: it finds candidates, never matches.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any, Final, NamedTuple


class Hook(NamedTuple):
    """A kind of look-up, its length in characters or bits if it has one, and what is looked up."""

    kind: str
    length: int
    key: Any


EXACT: Final = "exact"
STARTS: Final = "starts"
ENDS: Final = "ends"
FOLDED: Final = "in any case"
FOLDED_STARTS: Final = "starts in any case"
FOLDED_ENDS: Final = "ends in any case"
CONTAINS: Final = "contains"
NETWORK: Final = "network"
BETWEEN: Final = "between"
ALL_BUT: Final = "all but"

ANY: Final = Hook("any", 0, None)
"""Fits every value."""

# Lengths by which starts and ends are looked up: each costs one look-up for each value.
_LENGTHS: Final = (*range(1, 17), 24, 32, 48, 64)

# Lengths of the pieces by which a wildcard is looked up, from the longest.
_PIECES: Final = (4, 2, 1)

# Pieces of one wildcard among which the rarest is chosen.
_MOST_PIECES: Final = 32


def exact(key: Hashable) -> tuple[Hook, ...]:
    """The hooks of one exact value, in the form of `exact_key`."""
    return (Hook(EXACT, 0, key),)


def folded(text: str) -> tuple[Hook, ...]:
    """The hooks of an ASCII text in any case."""
    return (Hook(FOLDED, 0, text.lower()),)


def starts(text: str, *, any_case: bool = False) -> tuple[Hook, ...]:
    """The hooks of all texts that start with this one, which is ASCII in lower case if folded."""
    length = _length(text)
    kind = FOLDED_STARTS if any_case else STARTS
    return (Hook(kind, length, text[:length]),) if length else (ANY,)


def ends(text: str, *, any_case: bool = False) -> tuple[Hook, ...]:
    """The hooks of all texts that end with this one, which is ASCII in lower case if folded."""
    length = _length(text)
    kind = FOLDED_ENDS if any_case else ENDS
    return (Hook(kind, length, text[-length:]),) if length else (ANY,)


def _length(text: str) -> int:
    return max((length for length in _LENGTHS if length <= len(text)), default=0)


def contains(*texts: str) -> tuple[Hook, ...]:
    """The hooks of all texts that contain these: any piece of four characters, or of fewer."""
    for length in _PIECES:
        pieces = {
            text[start : start + length]: None
            for text in texts
            for start in range(min(len(text) - length + 1, _MOST_PIECES))
        }
        if pieces:
            return tuple(Hook(CONTAINS, length, piece) for piece in pieces)
    return (ANY,)


def like(pieces: list[str]) -> tuple[Hook, ...]:
    """The hooks of a wildcard: its start, its end, or a piece between its stars."""
    first, *middle, last = pieces
    hooks = (*starts(first), *ends(last), *contains(*middle))
    return tuple(hook for hook in hooks if hook is not ANY) or (ANY,)


def between(low: float, high: float) -> Hook:
    """The hook of all numbers from low to high."""
    return Hook(BETWEEN, 0, (low, high))


def any_of(written: str) -> Hook:
    """The hook of all values, for all comparisons that are written alike."""
    return Hook(ANY.kind, 0, written)


def all_but(keys: frozenset[Any]) -> Hook:
    """The hook of all values but these."""
    return Hook(ALL_BUT, 0, keys)


def network_of(network: int, shift: int) -> Hook:
    """The hook of the addresses that are this number when shifted right by so many bits."""
    return Hook(NETWORK, shift, network)
