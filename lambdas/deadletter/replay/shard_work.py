"""One shard of a replay run while a worker has it."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.contract import run_lane
from deadletter.redrive.journal import Journal
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import LaneClaim, lane_slot, numbered
from deadletter.replay.lineup import RunLetter, RunStage, ShardLineup
from deadletter.replay.progress import ShardProgress

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


class ShardWork:
    """One shard: its letters, its status and its claim.

    Another worker has the shard at least until `busy_until` (epoch seconds).
    """

    def __init__(self, lineup: ShardLineup, progress: ShardProgress, claim: LaneClaim) -> None:
        self.lineup = lineup
        self.progress = progress
        self.claim = claim
        self.busy_until = 0.0

    def ready(self, most: int, now: float) -> list[RunLetter]:
        """Letters that are to be moved now, in the order of the manifest."""
        ready: list[RunLetter] = []
        for letter in self.lineup.letters.values():
            if letter.stage is RunStage.READY and letter.look_at <= now:
                ready.append(letter)
                if len(ready) == most:
                    break
        return sorted(ready, key=lambda letter: letter.position)
