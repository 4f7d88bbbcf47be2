"""A drain in several shards: runs that empty one queue at the same time, each with a share of
the rate.

One run, the owner, holds the lease of the queue, records the drain there, and starts the others.
What makes two runs safe beside each other is not here: SQS hides a letter that one of them has
received, and all of them read the same journal.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from deadletter.contract import MOST_SHARDS
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPaid
from deadletter.redrive.source_memory import OWNER, Drain

ENOUGH_LETTERS = 5_000
"""Visible letters from which a drain has shards, and goes on without waiting for the schedule:
one run moves as many within minutes."""

LETTERS_A_SHARD = 2_500
"""Visible letters that are worth a start of a function."""

RATE_A_SHARD = 200.0
"""Letters a second that one run surely moves where the dependency is not the limit (ADR 30)."""

MOST_HOPS = 12
"""Runs in a row of which each starts the next. Lambda ends a chain of 16, because it could be a
loop; the schedule begins a new one within a minute."""


class RunNotStarted(Exception):
    """Another run could not be started, or gave no answer to its start."""


class RunStarter(Protocol):
    """Starts runs of the redriver beside this one."""

    def start(self, event: Mapping[str, Any]) -> None:
        """Start a run with this event; its end is not waited for. Raises RunNotStarted.

        A start may be repeated, late, or lost.
        """


@dataclass(frozen=True, slots=True)
class DrainShard:
    """The shard that a run was started for: its number, from 2, and the id of its drain."""

    drain: str
    number: int

    def belongs_to(self, drain: Drain, now: float) -> bool:
        """Whether the drain is still on, and has this shard."""
        return self.drain == drain.id and self.number <= drain.of and drain.is_on(now)


def shards_for(letters: int, rate: float, *, fifo: bool = False) -> int:
    """How many shards a drain has, from 1 to 8.

    `letters` are visible, `rate` (letters a second) is the pipeline's. More shards than the rate
    needs would only wait for it. A FIFO queue has one: see ADR 30.
    """
    if fifo or letters < ENOUGH_LETTERS:
        return OWNER
    wanted = math.ceil(rate / RATE_A_SHARD)
    return max(OWNER, min(wanted, MOST_SHARDS, letters // LETTERS_A_SHARD))


def saved(paid: RunPaid, drain: Drain, rate: Rate, now: float) -> RunPaid:
    """What an owner at this rate finds saved at `now` after a drain: while its shards may still be
    sending, only the last owner's part of the rate was free.
    """
    if drain.of == OWNER or drain.until <= paid.paid:
        return paid.at(rate, now)
    # An owner that was killed has left the whole rate.
    part = Rate(min(paid.rate.limit, drain.rate), drain.burst)
    return RunPaid(part, paid.paid).at(rate, min(drain.until, now))


def shard_event(home: str, drain: Drain, number: int) -> dict[str, Any]:
    """The event of a run that is to work on the queue `home` as this shard of a drain."""
    return {"source": home, "drain": drain.id, "shard": number}


def next_event(home: str, hop: int) -> dict[str, Any]:
    """The event of a run that goes on with the queue `home`, the so-manieth of its chain."""
    return {"source": home, "hop": hop}


def shard_in(event: Mapping[str, Any]) -> DrainShard | None:
    """The shard that an event asks for; None for any other run."""
    drain, number = event.get("drain"), event.get("shard")
    if not isinstance(drain, str) or not isinstance(number, int) or number <= OWNER:
        return None
    return DrainShard(drain, number)


def hop_in(event: Mapping[str, Any]) -> int:
    """How many runs started one another before this one; 0 for a run of the schedule."""
    hop = event.get("hop")
    return hop if isinstance(hop, int) and hop > 0 else 0
