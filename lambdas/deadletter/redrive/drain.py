"""A drain of one queue by several runs, as it stands in the lease of the queue."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.contract import HOUR
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPaid

LONGEST_DRAIN = 1.0 * HOUR
"""Seconds from now after which no drain ends: it lasts no longer than its owner's function."""

OWNER = 1
"""The number of the shard that is the owner's own run."""


@dataclass(frozen=True, slots=True)
class Drain:
    """A drain as its owner has recorded it.

    `id` is the owner's; `of` is how many shards there are, the owner among them; each sends at
    most `rate` letters a second, `burst` at once, and none after `until` (epoch seconds).
    """

    id: str = ""
    of: int = 1
    until: float = 0.0
    rate: float = 0.0
    burst: float = 0.0

    def is_on(self, now: float) -> bool:
        """Whether other shards than the owner's may still be sending at `now`."""
        return self.of > OWNER and now < self.until <= now + LONGEST_DRAIN

    def paid(self, now: float) -> RunPaid:
        """What a shard may send that begins at `now`: the owner has what had been saved."""
        return RunPaid(Rate(self.rate, self.burst), now)


NO_DRAIN = Drain()
"""What is recorded before the first drain in shards."""
