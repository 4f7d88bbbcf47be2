"""The record of why and when each letter failed, and what became of it."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from deadletter.failure import failure
from deadletter.failure.failure import Failure
from deadletter.message import stamp
from deadletter.message.stamp import Stamp

LIVES = 8
RECEIVES = 2
"""Of how many lives, and of how many receives of each, a row keeps the failure.

DynamoDB charges a write by the KB of the whole row, and each failure is a write: sixteen
of at most 0.5 KB, mostly 0.3, stay around 5 KB. Eight lives are one more than the default
policy allows; of a life the last receives are kept, which mostly fail as the ones before.
"""

_SLOT = re.compile(r"f\d+_\d+")


def slot(failure: Failure, lives: int = LIVES) -> str:
    """The attribute of the row that the failure lies in.

    The same failure has the same slot however often it is written, and a later one takes
    the slot of one that is `lives` lives, or RECEIVES receives, older: so the row is
    capped, and nobody has to read it first.
    """
    return f"f{failure.attempt % lives}_{failure.receive % RECEIVES}"


class LedgerUnavailable(Exception):
    """The ledger could not be read. That is not an empty ledger: the letters stay."""


@dataclass(frozen=True, slots=True)
class LedgerRow:
    """What the ledger knows of one origin id.

    `failures` are oldest first, as many as the row has slots for; `attempt` is the
    highest that was recorded; `released_at` (epoch seconds) is when a person last
    released the letter, and only failures after it count; `stamp` is there when a
    letter could not carry its own, and is then kept under the id it was sent with;
    `recovered_at` (epoch seconds) is when it was processed after all, in the life
    `recovered_attempt`; `recovered_unasked` says that its dependency had no part in that,
    because it was a duplicate, or there was nothing to do.
    """

    failures: tuple[Failure, ...] = ()
    attempt: int = 0
    released_at: float = 0.0
    stamp: Stamp | None = None
    unreadable: bool = False
    recovered_at: float | None = None
    recovered_attempt: int | None = None
    recovered_unasked: bool = False

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


NO_ROW = LedgerRow()
UNREADABLE = LedgerRow(unreadable=True)
"""A row that cannot be understood: judging its letter as if it had no history could re-drive
it past its end, so nobody judges it."""


class Ledger(Protocol):
    """Where the rows are kept; raises LedgerUnavailable when it cannot answer."""

    def rows(self, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
        """The rows there are for these ids; an id without a row is absent."""

    def matches(self, rules: Sequence[str]) -> Mapping[str, int]:
        """How often each of these rules has matched so far."""


def row_from_item(item: Mapping[str, Any]) -> LedgerRow:
    """The row in a stored item, as plain Python data; UNREADABLE if it is none."""
    try:
        kept = [failure.from_data(one) for name, one in item.items() if _SLOT.fullmatch(name)]
        released_at = float(item.get("released_at", 0))
        lived = [one.attempt for one in kept if one.at >= released_at]
        recovered_at, recovered_attempt = item.get("recovered_at"), item.get("recovered_attempt")
        return LedgerRow(
            failures=tuple(sorted(kept, key=lambda one: (one.at, one.attempt, one.receive))),
            attempt=max(int(item.get("attempt", 0)), *lived, 0),
            released_at=released_at,
            stamp=_stamp(item.get("stamp")),
            recovered_at=None if recovered_at is None else float(recovered_at),
            recovered_attempt=None if recovered_attempt is None else int(recovered_attempt),
            recovered_unasked=item.get("recovered_unasked") is True,
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


class FailureLog(Protocol):
    """What the consumer writes into the ledger, at the moment that it happens."""

    def failed(self, origin: str, failure: Failure) -> None:
        """Keep the failure; the same one again changes nothing. Raises RecordsUnavailable."""

    def recovered(self, origin: str, attempt: int, at: float, *, unasked: bool = False) -> bool:
        """Say that the letter was processed in its life `attempt`, at `at` epoch seconds.

        `unasked` says that it took nothing of its dependency. False if its row said so
        already. Raises RecordsUnavailable.
        """

    def kept_stamp(self, message_id: str) -> Stamp | None:
        """The stamp of a letter that could not carry it. Raises LedgerUnavailable."""
