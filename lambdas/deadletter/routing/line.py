"""The messages of one ordering key that are not finished: a later one waits for those before it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from typing import Any, Protocol

from deadletter.contract import HOUR
from deadletter.failure.fate import was_tried
from deadletter.failure.ledger import LedgerRow
from deadletter.routing.decision import LONGEST_DELAY, Redrive
from deadletter.routing.ordering import KeyPlace
from deadletter.settings.pipeline import Pipeline

LONGEST_HANDLING = 12 * HOUR
"""Seconds: no queue hides a message for longer, whatever its claim says."""


@dataclass(frozen=True, slots=True)
class KeyLine:
    """What is known of one ordering key below some place.

    done      the highest version of each kind that was processed, as far as it is known
    open      the places that are open, in order: their messages have failed, or were given back,
              and are neither processed nor parked nor discarded
    is_whole  no other one is open: else only so many were read
    holder    the message that was handled last
    is_busy   it is handled now, or its process has died and its effect may have happened
    is_held   it is open, and nothing but the line says so
    token     of its handling, as it is stored, whatever that is; empty without one
    listed    the other places on record, as far as they were read
    finished  those of them that are not open any more
    """

    done: Mapping[str, str] = field(default_factory=dict)
    open: tuple[KeyPlace, ...] = ()
    is_whole: bool = True
    holder: KeyPlace | None = None
    is_busy: bool = False
    is_held: bool = False
    token: tuple[Any, ...] = ()
    listed: tuple[KeyPlace, ...] = ()
    finished: tuple[KeyPlace, ...] = ()

    def ahead_of(self, place: KeyPlace, going: Sequence[KeyPlace] = ()) -> KeyPlace | None:
        """The message that one at this place waits for; None if its turn has come.

        It does not wait for those that are `going`, just before it.
        """
        if not self.open or self.open[0].is_of(place):
            return None
        before = [each for each in self.open if each.number < place.number]
        for each in before:
            if not any(each.is_of(other) for other in (place, *going)):
                return each
        return None if self.is_whole or len(before) < len(self.open) else self.open[-1]

    def is_near(self, place: KeyPlace) -> bool:
        """Whether all that are open before a place were read."""
        return self.is_whole or place.number <= self.open[-1].number

    def is_past(self, place: KeyPlace) -> bool:
        """Whether a later version was processed than the one at this place. A number is no later
        version than a text, nor the other way round.
        """
        return place.number < self.done.get(place.kind, "")

    def is_held_by(self, place: KeyPlace) -> bool:
        """Whether the message at this place was handled last."""
        return self.holder is not None and self.holder.is_of(place)


NOBODY = KeyLine()

MOST_IN_A_ROW = 50
"""Messages of one key that go back one right after the other."""

SPACING = 1
"""Seconds between two of them."""


@dataclass
class InARow:
    """The messages of one key that go back together: none waits until those before it are done.

    Only messages that were given back untried follow one another. One that was tried and failed
    may well fail again, so none follows it.
    """

    places: list[KeyPlace] = field(default_factory=list)
    _delay: int | None = None

    def joined_by(self, place: KeyPlace, decision: Redrive, *, tried: bool) -> Redrive:
        """The decision for the next message that goes."""
        after = 0 if self._delay is None else self._delay + SPACING
        self._delay = min(max(decision.delay, after), LONGEST_DELAY)
        if not tried:
            self.places.append(place)
        return replace(decision, delay=self._delay)


class LinesUnavailable(Exception):
    """The lines of ordering keys gave no answer: no message is handled out of its turn."""


class Lines(Protocol):
    """The lines of a pipeline's ordering keys; raises LinesUnavailable."""

    def read(
        self, places: Sequence[KeyPlace], *, most: int = 1, lagging: bool = False
    ) -> Mapping[str, KeyLine]:
        """The lines of these places, by their hashes, each up to the highest place asked for, or to
        so many that wait.

        Those that may be `lagging` cost half, and may lack what was written a moment ago.
        """

    def take(self, place: KeyPlace, token: str, line: KeyLine) -> bool:
        """Say that a message is handled from now on, if the line is as it was read.

        `token` is that of its claim, whose end tells the line that it was processed. False if
        another message was faster.
        """

    def add(self, place: KeyPlace) -> None:
        """List a message that was given back without being handled: later ones wait for it."""


@dataclass(frozen=True, slots=True)
class Patience:
    """How long others wait for a message of which no more is heard, in seconds.

    unrecorded  after its process was gone, without a failure record: it is back by then; or it was
                processed, and the word of that was lost
    recorded    after its last failure: by then it has expired, if it is anywhere
    """

    unrecorded: float
    recorded: float


def patience_of(pipeline: Pipeline) -> Patience:
    """The longest that a message of this pipeline can be on its way back."""
    policies = (pipeline.policy, *pipeline.policies.values())
    longest = max(policy.backoff.cap for policy in policies)
    return Patience(longest + HOUR, pipeline.message_ttl)


class Handling(Enum):
    """What a message's claim says of its last handling: LIVE until its process ends, ABANDONED by
    one that has told of no end, DONE; NONE if it failed or is not known."""

    NONE = auto()
    LIVE = auto()
    ABANDONED = auto()
    DONE = auto()


class PlaceState(Enum):
    """DONE; BUSY: it is handled, or its effect may have happened; OPEN; FINISHED otherwise."""

    DONE = auto()
    BUSY = auto()
    OPEN = auto()
    FINISHED = auto()


def state_of(
    handling: Handling,
    row: LedgerRow | None,
    since: float,
    now: float,
    patience: Patience,
    *,
    is_holder: bool,
) -> PlaceState:
    """What a message of a key is to the others. The `is_holder` of its line was handled last.

    `row` is its failure record, `since` when it was taken or listed (epoch seconds).
    """
    if handling is Handling.DONE:
        return PlaceState.DONE
    if is_holder and handling is Handling.LIVE and now < since + LONGEST_HANDLING:
        return PlaceState.BUSY
    if is_holder and handling is not Handling.NONE and _is_silent(row, since):
        return PlaceState.BUSY if now < since + patience.unrecorded else PlaceState.FINISHED
    if _is_open(row, since, now, patience):
        return PlaceState.OPEN
    # Its claim may not have been told.
    return PlaceState.DONE if row is not None and row.was_processed else PlaceState.FINISHED


def _is_silent(row: LedgerRow | None, since: float) -> bool:
    """Whether nothing was told of a message since then: no failure, no end, and no parking."""
    if row is None:
        return True
    told = (failure.at for failure in row.failures if was_tried(failure))
    return max(row.ended_at, row.recovered_at or 0.0, *told) < since


def _was_processed_since(row: LedgerRow) -> bool:
    """Whether a message was processed or superseded after its last failure. Given back untried in
    a life from before is a late word: of SQS's second delivery.
    """
    at, life = row.recovered_at, row.recovered_attempt or 0
    return at is not None and not any(
        failure.at > at and (was_tried(failure) or failure.attempt > life)
        for failure in row.failures
    )


def _is_open(row: LedgerRow | None, since: float, now: float, patience: Patience) -> bool:
    """Whether a message that failed, or was given back, may still come."""
    if row is None:
        return now < since + patience.unrecorded
    if row.unreadable:
        return True
    failures = row.going_on
    if row.has_left_index or _was_processed_since(row) or (not failures and row.ended_at >= 0):
        return False
    return now < (failures[-1].at + patience.recorded if failures else since + patience.unrecorded)
