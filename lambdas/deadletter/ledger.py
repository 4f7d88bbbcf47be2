"""The record of why and when each letter failed, and what became of it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deadletter import failure, stamp
from deadletter.failure import Failure
from deadletter.stamp import Stamp


class LedgerUnavailable(Exception):
    """The ledger could not be read. That is not an empty ledger: the letters stay."""


@dataclass(frozen=True, slots=True)
class Row:
    """What the ledger knows of one origin id.

    `failures` are oldest first; `attempt` is the highest that was recorded;
    `released_at` (epoch seconds) is when a person last released the letter, and
    only failures after it count; `stamp` is there when a letter could not carry its
    own, and is then kept under the id it was sent with.
    """

    failures: tuple[Failure, ...] = ()
    attempt: int = 0
    released_at: float = 0.0
    stamp: Stamp | None = None
    unreadable: bool = False

    @property
    def since_release(self) -> tuple[Failure, ...]:
        return tuple(one for one in self.failures if one.at >= self.released_at)

    @property
    def last(self) -> Failure | None:
        recent = self.since_release
        return recent[-1] if recent else None

    def lives_by_fingerprint(self) -> Mapping[str, int]:
        """In how many lives each failure came back that the dependency does not explain."""
        lives: defaultdict[str, set[int]] = defaultdict(set)
        for one in self.since_release:
            if one.fingerprint and not one.explained_by_dependency:
                lives[one.fingerprint].add(one.attempt)
        return {fingerprint: len(seen) for fingerprint, seen in lives.items()}


NO_ROW = Row()
UNREADABLE = Row(unreadable=True)
"""A row that cannot be understood: judging its letter as if it had no history could re-drive
it past its end, so nobody judges it."""


class Ledger(Protocol):
    """Where the rows are kept; raises LedgerUnavailable when it cannot answer."""

    def rows(self, origins: Sequence[str]) -> Mapping[str, Row]:
        """The rows there are for these ids; an id without a row is absent."""

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        """How often each of these rules has matched so far."""


def row_from_item(item: Mapping[str, Any]) -> Row:
    """The row in a stored item, as plain Python data; UNREADABLE if it is none."""
    try:
        return Row(
            failures=tuple(failure.from_data(one) for one in item.get("failures", ())),
            attempt=int(item.get("attempt", 0)),
            released_at=float(item.get("released_at", 0)),
            stamp=_stamp(item.get("stamp")),
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return UNREADABLE


def _stamp(data: Any) -> Stamp | None:
    if data is None:
        return None
    found = stamp.parse(data) if isinstance(data, str) else None
    if found is None:
        raise ValueError("a stamp that cannot be understood")
    return found


class RecordsUnavailable(Exception):
    """Something worth knowing about a letter could not be written down."""


class Records(Protocol):
    """What the redriver writes into the ledger; raises RecordsUnavailable."""

    def keep_stamps(self, stamps: Mapping[str, Stamp]) -> None:
        """Keep the stamps of letters that could not carry them, by their new message ids."""

    def count_matches(self, matches: Mapping[str, int]) -> None:
        """Add to how often each rule has matched."""
