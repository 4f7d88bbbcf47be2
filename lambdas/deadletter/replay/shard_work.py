"""The claim of a worker on one shard of a replay run."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.contract import run_lane
from deadletter.redrive.journal import Journal
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import LaneClaim, lane_slot, numbered

CLAIM_SECONDS = 15.0
"""Seconds from an intent of a run to its end: nothing is sent under it later. A worker that is
killed keeps its shard from others for so long, and GRACE more."""


def claim_of_run(
    run: str,
    shard: int,
    *,
    journal: Journal,
    known: KnownIntents,
    owner: str,
    clock: Callable[[], float],
    seconds: float = CLAIM_SECONDS,
) -> LaneClaim:
    """The claim of worker `owner` on a shard of a run's lane; an intent stands for `seconds`."""
    return LaneClaim(
        journal=journal,
        known=known,
        name=lane_slot(run_lane(run), shard),
        owner=numbered(owner),
        clock=clock,
        ends=lambda: clock() + seconds,
    )
