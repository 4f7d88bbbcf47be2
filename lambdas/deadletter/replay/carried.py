"""How letters leave a run without a queue: the port of its carriers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from deadletter.redrive.journal import Slot
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.replay.run_room import RunRoom


class DirectCarrier(Protocol):
    """Takes letters to a place that is no queue: to the consumer function, or out of the world."""

    @property
    def seconds(self) -> float:
        """Seconds that carrying may take: so much longer an intent of its worker stands."""

    def carry(self, orders: Sequence[Order], slot: Slot, room: RunRoom, until: float) -> Left:
        """Carry letters, as `Mover.move` does: mark what is confirmed, then delete it.

        `room` puts the tickets first, with the outcomes that the carrier was told. A letter that
        was tried and failed has the stamp of the try. Nothing is begun after `until` (epoch
        seconds).
        """
