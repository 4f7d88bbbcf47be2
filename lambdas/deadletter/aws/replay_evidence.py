"""What is known about a replay run when it is judged: its status rows, and its surroundings."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.circuit.state import Circuits, CircuitsUnavailable
from deadletter.contract import MAIN, MINUTE, with_config_keys
from deadletter.failure.causes import CausesUnavailable, bucket_of
from deadletter.message.queue import Queue, QueueUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.source_memory import UNKNOWN, SourceMemory
from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.judge import RunEvidence
from deadletter.replay.manifest import Manifest, ManifestIndex, ShardProgress, Statuses
from deadletter.replay.plan import DELIVER, MAIN_QUEUE, ReplayPlan
from deadletter.replay.run import ReplayRun
from deadletter.replay.ticket import ReplayOutcome
from deadletter.settings.pipeline import Pipeline
from deadletter.watch.queues import oldest_known, with_memory
from deadletter.watch.row import WatchRow

READ_WITHIN = 10.0 * MINUTE
"""Seconds after which the watch's reading of a queue says nothing any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Surroundings:
    """What a run looks at beside its own letters.

    `trouble` says why the dependency is down by its health URL; empty if it is not.
    """

    pipeline: Pipeline
    circuits: Circuits
    main: Queue
    causes: DynamoDBCauses
    collisions: DynamoDBCollisions
    watch: DynamoDBWatchStore
    trouble: Callable[[], str]
    clock: Callable[[], float]

    def evidence(
        self,
        run: ReplayRun,
        plan: ReplayPlan,
        *,
        index: ManifestIndex,
        manifest: Manifest,
        statuses: Statuses,
    ) -> RunEvidence:
        """Raises StatusUnavailable and ObjectsUnavailable: without its letters no run is judged.

        What the surroundings do not answer does not hold the run: the workers look themselves.
        """
        outcomes, returned, late = counted(index, statuses)
        to_consumer = plan.destination in (MAIN_QUEUE, DELIVER)
        return replace(
            self.of_dependency(plan),
            outcomes=outcomes,
            returned=returned,
            late=late,
            backlog=self._backlog() if to_consumer else None,
            backlog_limit=self.pipeline.backlog_limit,
            same_causes=self._same_causes(run, index, manifest) if to_consumer else 0,
            collisions=self._collisions(run) if to_consumer else 0,
            seconds_to_expiry=self._seconds_to_expiry(),
        )

    def of_dependency(self, plan: ReplayPlan) -> RunEvidence:
        """Whether a letter may be tried: all that is known of a run without a snapshot."""
        if plan.destination not in (MAIN_QUEUE, DELIVER):
            return RunEvidence()
        circuit = self._circuit()
        return RunEvidence(
            circuit=circuit,
            # An open circuit is reason enough: the page of a dependency that is down is spared.
            unwell=self.trouble() if circuit == "CLOSED" else "",
        )

    def _seconds_to_expiry(self) -> float | None:
        try:
            row, memories = self.watch.read()
        except LeaseUnavailable:
            return None
        return None if row is None else soonest_expiry(row, memories, self.clock())

    def _circuit(self) -> str:
        """The worse state of the pipeline's two circuits."""
        try:
            circuits = self.circuits.read(with_config_keys([self.pipeline.name])).values()
        except CircuitsUnavailable:
            return "CLOSED"
        return next((str(item.state) for item in circuits if not item.is_closed), "CLOSED")

    def _backlog(self) -> int | None:
        try:
            return self.main.depth().visible
        except QueueUnavailable:
            return None

    def _same_causes(self, run: ReplayRun, index: ManifestIndex, manifest: Manifest) -> int:
        """Messages that failed at their first try since the step began, for a cause of the run.

        The causes are those of the first letters of each shard.
        """
        if not self.pipeline.consumer_library or not run.step_began:
            return 0
        try:
            causes = self.causes.read()
        except CausesUnavailable:
            return 0
        first = bucket_of(run.step_began) + 1
        fresh = {
            cause: sum(number for bucket, number in buckets.items() if bucket >= first)
            for cause, buckets in causes.counts.items()
        }
        if not any(fresh.values()):
            return 0
        ours = {
            name.cause
            for shard in range(SHARDS)
            if index.shards[shard]
            for name in manifest.part(shard, 0)
        }
        return sum(number for cause, number in fresh.items() if cause in ours)

    def _collisions(self, run: ReplayRun) -> int:
        if not self.pipeline.consumer_library or not run.step_began:
            return 0
        try:
            known = self.collisions.read()
        except CircuitsUnavailable:
            return 0
        first = int(run.step_began // MINUTE) + 1
        counts = known.counts if known else {}
        return sum(collided for minute, (_, collided) in counts.items() if minute >= first)


def soonest_expiry(row: WatchRow, memories: Mapping[str, SourceMemory], now: float) -> float | None:
    """Seconds until SQS drops the oldest letter of one of the pipeline's sources.

    None if they hold no letters, as far as the watch knows. Nothing is known of the age of the
    main queue's messages.
    """
    expiries = []
    for source, queue in row.queues.items():
        if source == MAIN or now - queue.read_at > READ_WITHIN or not queue.retention:
            continue
        oldest = oldest_known(with_memory(queue, memories.get(source, UNKNOWN)))
        if oldest is not None:
            expiries.append(max(0.0, oldest + queue.retention - now))
    return min(expiries, default=None)


def counted(index: ManifestIndex, statuses: Statuses) -> tuple[dict[ReplayOutcome, int], int, int]:
    """All letters of a manifest by outcome; tries whose letters came back; those that were late."""
    outcomes: Counter[ReplayOutcome] = Counter()
    returned = late = 0
    for shard, letters in enumerate(index.shards):
        if not letters:
            continue
        progress = ShardProgress.of(shard, statuses.read(shard))
        counts = progress.counts()
        counts[ReplayOutcome.OPEN] += letters - sum(counts.values())
        outcomes.update(counts)
        returned += progress.returns_total
        late += progress.late_total
    return dict(outcomes), returned, late
