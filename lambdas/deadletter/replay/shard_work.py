"""One shard of a replay run while a worker has it."""

from __future__ import annotations

from deadletter.replay.lineup import RunLetter, RunStage, ShardLineup
from deadletter.replay.progress import ShardProgress
from deadletter.replay.shard_claim import ShardClaim


class ShardWork:
    """One shard: its letters, its status and its claim.

    Another worker has the shard at least until `busy_until` (epoch seconds).
    """

    def __init__(self, lineup: ShardLineup, progress: ShardProgress, claim: ShardClaim) -> None:
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
