"""How letters leave a run without a queue: the port of its carriers, and what they report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deadletter.redrive.journal import Slot
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.replay.run_room import RunRoom
from deadletter.replay.ticket import ReplayOutcome


@dataclass(frozen=True, slots=True)
class CarriedLetters:
    """What a carrier did: the letters without a confirmation, and the outcomes it was told.

    `left` is as the mover says it. `outcomes` are by copy; a copy that was tried and failed has
    the outcome OPEN: its item stays, with the stamp of the try. `retry_after` are the seconds
    for which the receiver wants to be left alone.
    """

    left: Left = field(default_factory=Left)
    outcomes: Mapping[str, ReplayOutcome] = field(default_factory=dict)
    retry_after: float = 0.0


class DirectCarrier(Protocol):
    """Takes letters to a place that is no queue: to the consumer function, or out of the world."""

    @property
    def seconds(self) -> float:
        """Seconds that carrying may take: so much longer an intent of its worker stands."""

    def carry(
        self, orders: Sequence[Order], slot: Slot, room: RunRoom, until: float
    ) -> CarriedLetters:
        """Carry letters, as `Mover.move` does: mark what is confirmed, then delete it.

        `room` puts the tickets first. Nothing is begun after `until` (epoch seconds).
        """
