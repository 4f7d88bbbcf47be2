"""Whose turn it is: the queue, the lane of delays, and the other lanes one after the other."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from deadletter.routing.decision import DUE

QUEUE = "queue"
"""The name of the queue among the sources; the others have the names of their lanes."""

LANES = "lanes"
_KINDS = (DUE, LANES, QUEUE)
"""Each kind has one turn in three: however many circuits and rules hold letters, the queue and the
lane of delays are not lost among them."""

SECONDS_A_TURN = 5.0
SMALLEST_TURN, LARGEST_TURN = 10, 100
"""Letters of one turn: one receive at least, one intent of the journal at most."""


@dataclass(frozen=True, slots=True)
class LastTurn:
    """Where the turns of a source's runs go on.

    kind  the kind that had the last turn: the lane of delays, the other lanes, or the queue
    lane  the last of the other lanes that had its turn: the next one follows by name
    """

    kind: str = QUEUE
    lane: str = ""


NO_TURN = LastTurn()
"""The last turn before the first run."""


def letters_a_turn(rate: float) -> int:
    """Letters of a turn: what the pace (letters a second) allows in a few seconds."""
    return max(SMALLEST_TURN, min(LARGEST_TURN, int(rate * SECONDS_A_TURN)))


def next_turn(last: LastTurn, sources: Collection[str]) -> tuple[str, LastTurn] | None:
    """The source that has the next turn, and that turn; None if none has letters."""
    lanes = in_turn(last, [source for source in sources if kind_of(source) == LANES])
    after = _KINDS.index(last.kind) + 1 if last.kind in _KINDS else 0
    for kind in (*_KINDS[after:], *_KINDS[:after]):
        if kind == LANES and lanes:
            return lanes[0], LastTurn(kind, lanes[0])
        if kind in sources:
            return kind, LastTurn(kind, last.lane)
    return None


def in_turn(last: LastTurn, lanes: Collection[str]) -> list[str]:
    """The lanes in the order of their turns."""
    return sorted(lanes, key=lambda lane: (lane <= last.lane, lane))


def kind_of(source: str) -> str:
    return source if source in (DUE, QUEUE) else LANES
