"""One run: what is due in the waiting room and what lies in the DLQ is judged and moved."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from deadletter.circuit.state import Circuits, CircuitsUnavailable, Outcomes
from deadletter.contract import CIRCUIT_LEVELS, MAIN_DLQ, Metric, Mode
from deadletter.message.queue import MAX_BATCH, Queue, QueueUnavailable, ReceivedLetter
from deadletter.redrive.journal import MAX_PLANS, Journal, JournalUnavailable
from deadletter.redrive.mover import Mover
from deadletter.redrive.queue_worker import QueueWorker
from deadletter.redrive.report import Report, Tally
from deadletter.redrive.router_client import RouterClient
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE, RunLimits, RunStopped
from deadletter.redrive.token_bucket import RateLimiter, TokenBucket
from deadletter.redrive.waiting_room import END_OF_TIME, SHARDS, Lane, RoomUnavailable, WaitingRoom
from deadletter.redrive.waiting_room_worker import OpenShard, WaitingRoomWorker
from deadletter.routing.judgement import DUE
from deadletter.routing.router import Router, RouterUnavailable
from deadletter.settings.pipeline import Pipeline

LANES_A_MINUTE = 100
"""By how many lanes the beginning moves on: about as many as a run has time for."""

LOOKING = 10.0
"""Seconds of a run that go into looking at lanes; the next run begins with others."""

QUIET_LANE = 86_400.0
"""Seconds after which an open and empty lane is looked into no more: far longer than an
index lags behind its table."""


ENOUGH_BOUNCES = 5
"""Letters of one run that were re-driven and came back: fewer may be the letters' own fault."""

HOUR = 3_600.0
EXPIRY_MARGIN = 2 * 86_400.0
"""Seconds before SQS drops a letter in which it may not wait for a circuit in its DLQ."""


class LeaseUnavailable(Exception):
    """The lease could not be read or written."""


class Lease(Protocol):
    """One run at a time sends for a source: it keeps rate and cost; safety does not hang on it."""

    def acquire(self, owner: str, now: float, until: float) -> TokenBucket | None:
        """The pace that the last run left, or None while another run holds the lease.

        Raises LeaseUnavailable. A first run gets a full bucket.
        """

    def give_back(self, owner: str, bucket: TokenBucket, report: Report, now: float) -> None:
        """End the lease, leaving pace and report; a lease that is another's by now stays his."""


Reconcile = Callable[[], int | None]
"""Cleans up after outages; returns how many circuits of single keys are not closed.

None if the circuits could not be read. It never raises: the next run cleans up again.
"""

SideBySide = Callable[[Sequence[Callable[[], None]]], None]
"""Runs workers side by side, each to its end."""


class Redriver:
    """Drains one DLQ (or dedicated DLQ) of a pipeline, and what is due in its waiting room.

    Everything that is not plain thought is an argument: `clock` gives epoch seconds,
    `wait` lets seconds pass, `owner` is a text that nobody else has. Without
    `reconcile` no outage that lost its execution is restarted; `outcomes` hear of letters that came
    back, where the consumer itself says nothing.
    """

    def __init__(
        self,
        *,
        pipeline: Pipeline,
        source_id: str,
        source: Queue,
        main: Queue,
        main_arn: str,
        mover: Mover,
        router: Router,
        journal: Journal,
        room: WaitingRoom,
        circuits: Circuits,
        lease: Lease,
        tally: Tally,
        owner: str,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        abreast: SideBySide,
        reconcile: Reconcile | None = None,
        outcomes: Outcomes | None = None,
    ) -> None:
        self._pipeline = pipeline
        self._source_id = source_id
        self._source = source
        self._main = main
        self._main_arn = main_arn
        self._mover = mover
        self._router = router
        self._journal = journal
        self._room = room
        self._circuits = circuits
        self._lease = lease
        self._tally = tally
        self._owner = owner
        self._clock = clock
        self._wait = wait
        self._abreast = abreast
        self._reconcile = reconcile
        self._outcomes = outcomes
        self._asker = RouterClient(router=router, tally=tally)

    def run(self, deadline: float, *, dry_run: bool = False) -> Report:
        """Move what can be moved until `deadline` (epoch seconds) or until nothing is left.

        With `dry_run`, and in a pipeline whose mode is observe, a sample of letters is
        judged, counted and given back.
        """
        try:
            if not dry_run:
                self._count_open_circuits()
            stopped = self._run(deadline, dry_run or self._pipeline.mode is Mode.OBSERVE)
        except RunStopped as stop:
            stopped = str(stop)
        except CircuitsUnavailable:
            stopped = "the circuits cannot be read: hold"
        except LeaseUnavailable:
            stopped = "the lease cannot be read"
        except QueueUnavailable as error:
            self._tally.count(Metric.QUEUE_UNAVAILABLE)
            stopped = f"a queue gave no answer: {error}"
        except RouterUnavailable:
            self._tally.count(Metric.ROUTER_UNAVAILABLE)
            stopped = "the router gave no answer"
        except RoomUnavailable:
            self._tally.count(Metric.ROOM_UNAVAILABLE)
            stopped = "the waiting room gave no answer"
        except JournalUnavailable:
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)
            stopped = "the journal gave no answer"
        return self._report(stopped)

    def _run(self, deadline: float, look_only: bool) -> str:
        circuit = self._circuits.read([self._pipeline.name])[self._pipeline.name]
        self._tally.set_gauge(Metric.CIRCUIT_STATE, CIRCUIT_LEVELS[circuit.state])
        if not circuit.is_closed and not self._near_its_end():
            return f"circuit {circuit.key} is {circuit.state}"
        now = self._clock()
        rate, burst = self._pipeline.rate, float(self._pipeline.burst)
        run = self._new_run(
            deadline, RateLimiter(TokenBucket(rate, burst, burst, now), self._clock)
        )
        if look_only:
            return self._look(run)
        first: list[ReceivedLetter] = []
        try:
            nothing_visible = self._source.depth().visible == 0
            if nothing_visible:
                # The depth is approximate: one poll before calling the queue empty.
                first.extend(self._source.receive(MAX_BATCH, run.lock_seconds, 1))
                self._tally.count(Metric.RECEIVED, len(first))
            openings = self._openings()
            if nothing_visible and not first and not openings:
                return "nothing to do"
            bucket = self._lease.acquire(self._owner, now, run.locked_until)
        except BaseException:
            self._source.make_visible([one.handle for one in first])
            raise
        if bucket is None:
            self._source.make_visible([one.handle for one in first])
            return "another run holds the lease"
        # Of an open circuit's letters none is sent: at any pace they go into its lane.
        share = circuit.admitted_share(self._pipeline.circuit, now) or 1.0
        return self._drain(
            deadline, RateLimiter(bucket.slowed(share), self._clock), openings, first
        )

    def _count_open_circuits(self) -> None:
        open_circuits = None if self._reconcile is None else self._reconcile()
        if open_circuits is not None:
            self._tally.set_gauge(Metric.OPEN_CIRCUITS, open_circuits)

    def _report_bounces(self) -> None:
        """Letters that came back speak for a consumer that says nothing itself.

        Those that did not come back among as many as went out now speak well of it. Which
        key's dependency they failed for nobody here knows.
        """
        silent = not self._pipeline.consumer_library and self._pipeline.circuit_key is None
        bounced = self._tally.count_of(Metric.REDRIVE_BOUNCED)
        if self._outcomes is None or not silent or bounced < ENOUGH_BOUNCES:
            return
        going = self._tally.count_of(Metric.REDRIVEN)
        self._outcomes.report(self._pipeline.name, max(0, going - bounced), bounced)

    def _near_its_end(self) -> bool:
        """Whether SQS is about to drop letters of the DLQ, looked at once an hour.

        They cannot wait for the circuit in there; judged, they go into its lane.
        """
        now = self._clock()
        if now % HOUR >= 60:
            return False
        sample = self._source.receive(MAX_BATCH, LOCK_PAST_DEADLINE, 1)
        try:
            dropped_at = self._source.traits.retention - EXPIRY_MARGIN
            ages = [now - one.letter.sent_ms / 1000 for one in sample if one.letter.sent_ms]
            return any(age > dropped_at for age in ages)
        finally:
            self._source.make_visible([one.handle for one in sample])

    def _drain(
        self,
        deadline: float,
        pace: RateLimiter,
        openings: Sequence[OpenShard],
        first: Sequence[ReceivedLetter],
    ) -> str:
        run = self._new_run(deadline, pace)
        workers = [self._worker(run, number) for number in range(self._pipeline.workers)]
        carried = [list(first), *([] for _ in workers[1:])]
        try:
            self._drain_room(run, openings)
            self._abreast(
                [
                    lambda worker=worker, hand=hand: worker.work(hand)  # type: ignore[misc]
                    for worker, hand in zip(workers, carried, strict=True)
                ]
            )
        finally:
            self._source.make_visible(run.left)
            self._report_bounces()
            stopped = run.stopped or "the source is empty"
            self._lease.give_back(self._owner, pace.bucket, self._report(stopped), self._clock())
        return stopped

    def _drain_room(self, run: RunLimits, openings: Sequence[OpenShard]) -> None:
        worker = WaitingRoomWorker(
            run=run,
            fifo=self._pipeline.fifo,
            journal=self._journal,
            room=self._room,
            asker=self._asker,
            mover=self._mover,
            tally=self._tally,
        )
        try:
            worker.work(openings)
        except RoomUnavailable:
            # The letters in the room wait; those in the queue need not wait for them.
            self._tally.count(Metric.ROOM_UNAVAILABLE)
        except RunStopped as stop:
            run.stop(str(stop))
        except JournalUnavailable:
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)
            run.stop("the journal gave no answer")
        except QueueUnavailable as error:
            self._tally.count(Metric.QUEUE_UNAVAILABLE)
            run.stop(f"a queue gave no answer: {error}")

    def _look(self, run: RunLimits) -> str:
        worker = self._worker(run, 0)
        hand: list[ReceivedLetter] = []
        try:
            sample = worker.take_chunk(MAX_PLANS, hand)
            hand.extend(sample)
            verdicts = self._asker.verdicts(sample, served=False)
            self._tally.count(Metric.LEFT_IN_PLACE, len(sample))
        finally:
            self._source.make_visible([one.handle for one in hand])
        return f"looked at {len(verdicts)} letters, moved none"

    def _openings(self) -> list[OpenShard]:
        """Where letters may leave the waiting room now; the DLQ's own run sees to all of it."""
        if self._source_id != MAIN_DLQ:
            return []
        lanes = self._room.lanes()
        asked = [one.name for one in lanes if not one.name.startswith((DUE, "run:"))]
        opened = set(self._router.releasable_lanes(asked)) if asked else set()
        now = self._clock()
        openings: list[OpenShard] = []
        for lane in _in_turn(lanes, now):
            if self._clock() - now > LOOKING:
                break
            until = END_OF_TIME if lane.name in opened else now
            found = [
                OpenShard(lane.name, shard, until)
                for shard in range(SHARDS)
                if self._room.due(lane.name, shard, until, 1)
            ]
            openings += found
            if until == END_OF_TIME and not found and now - lane.touched > QUIET_LANE:
                self._room.retire(lane)
        return openings

    def _worker(self, run: RunLimits, number: int) -> QueueWorker:
        return QueueWorker(
            run=run,
            number=number,
            source=self._source,
            main_arn=self._main_arn,
            fifo=self._pipeline.fifo,
            journal=self._journal,
            room=self._room,
            asker=self._asker,
            mover=self._mover,
            tally=self._tally,
        )

    def _new_run(self, deadline: float, pace: RateLimiter) -> RunLimits:
        return RunLimits(
            owner=self._owner,
            deadline=deadline,
            clock=self._clock,
            wait=self._wait,
            main=self._main,
            backlog_limit=self._pipeline.backlog_limit,
            pace=pace,
        )

    def _report(self, stopped: str) -> Report:
        return self._tally.report(self._pipeline.name, self._source_id, stopped)


def _in_turn(lanes: Sequence[Lane], now: float) -> list[Lane]:
    """The lanes in an order that begins elsewhere each minute, the lane of delays always first."""
    first = [one for one in lanes if one.name == DUE]
    others = [one for one in lanes if one.name != DUE]
    start = int(now // 60) * LANES_A_MINUTE % len(others) if others else 0
    return [*first, *others[start:], *others[:start]]
