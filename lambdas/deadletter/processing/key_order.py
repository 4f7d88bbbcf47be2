"""When the turn of a message comes within its ordering key."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from enum import Enum, auto

from deadletter.message.stamp import Stamp
from deadletter.processing.delivery import Delivery, place_of
from deadletter.processing.idempotency import Claim
from deadletter.routing.line import NOBODY, Lines
from deadletter.routing.ordering import KeyPlace, Ordering
from deadletter.settings.pipeline import Pipeline

PAUSES = (0.1, 0.2, 0.4, 0.8)
"""Seconds between looks at a line in which another message is handled: most handlers return
within them, and a message that is given back has used up a receive."""


class Turn(Enum):
    """NOW: the message may be handled. SUPERSEDED: a later one was processed. BEHIND: an earlier
    one is not finished. BUSY: another one is being handled."""

    NOW = auto()
    SUPERSEDED = auto()
    BEHIND = auto()
    BUSY = auto()


class KeyOrder:
    """The order of one pipeline's messages, by its `ordering_key`; raises BadSettings.

    `clock` gives epoch seconds, and `pause` waits for seconds.
    """

    def __init__(
        self,
        pipeline: Pipeline,
        lines: Lines,
        clock: Callable[[], float],
        pause: Callable[[float], None],
    ) -> None:
        self._ordering = Ordering(pipeline)
        self._lines = lines
        self._clock = clock
        self._pause = pause

    def place_by(self, stamp: Stamp, delivery: Delivery) -> KeyPlace | None:
        """The place of a message by the stamp that is known of it; its own may have got lost."""
        return place_of(self._ordering, delivery.letter, stamp, delivery.document, delivery.key)

    def turn(self, place: KeyPlace, claim: Claim, *, passes: bool, until: float) -> Turn:
        """Wait for the message's turn, a moment and not beyond `until` (epoch seconds).

        With NOW it is its turn until its claim ends. One that `passes` does not wait for those
        before it: its replay run or its FIFO group keeps an order of its own.

        Raises LinesUnavailable.
        """
        place = replace(place, claim=claim.key)
        for pause in (*PAUSES, None):
            line = self._lines.read([place]).get(place.line, NOBODY)
            if line.is_past(place):
                return Turn.SUPERSEDED
            # A message whose process died in its turn may have had its effect: it goes first.
            goes_on = claim.taken_over and line.is_held_by(place)
            if not (passes or goes_on) and line.ahead_of(place) is not None:
                return Turn.BEHIND
            is_free = not line.is_busy or line.is_held_by(place)
            if is_free and self._lines.take(place, claim.owner, line):
                return Turn.NOW
            if pause is None or self._clock() + pause >= until:
                break
            self._pause(pause)
        return Turn.BUSY

    def wait(self, place: KeyPlace) -> None:
        """List a message that was given back untried. Raises LinesUnavailable."""
        self._lines.add(place)


def arranged(places: Sequence[KeyPlace | None]) -> list[int]:
    """The positions of messages in the order in which they are handled.

    The messages of a key exchange their positions with each other; all others keep theirs.
    """
    by_line: dict[str, list[int]] = {}
    for position, place in enumerate(places):
        if place is not None:
            by_line.setdefault(place.line, []).append(position)
    order = list(range(len(places)))
    for positions in by_line.values():
        in_order = sorted(positions, key=lambda position: _number(places[position]))
        for position, message in zip(positions, in_order, strict=True):
            order[position] = message
    return order


def _number(place: KeyPlace | None) -> str:
    return "" if place is None else place.number
