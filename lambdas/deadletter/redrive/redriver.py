"""One run: judges and moves the letters that are due in the waiting room and those in the DLQ."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence

from deadletter.circuit.state import OutcomeCounts
from deadletter.contract import HOUR, MINUTE, Metric, Mode, with_config_keys
from deadletter.message.queue import MAX_BATCH, QueueUnavailable, ReceivedLetter
from deadletter.redrive.fair_shares import NO_SHARES, QUEUE, Shares, quantum
from deadletter.redrive.journal import MAX_PLANS, JournalUnavailable
from deadletter.redrive.journal_sweep import (
    LONG_AGO,
    Explained,
    carry_out,
    empty_shards,
    sweeps,
)
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.letters_in_hand import LettersInHand
from deadletter.redrive.openings import CLOSED, Openings, open_shards
from deadletter.redrive.queue_worker import QueueWorker
from deadletter.redrive.rate_keeper import RateKeeper
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import Report
from deadletter.redrive.rescue import LEASE_PAUSE, RescueVerdicts, is_parking
from deadletter.redrive.router_client import RouterClient, VerdictSource
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE, WIND_DOWN, RunLimits, fixed_rate
from deadletter.redrive.source_memory import (
    RunEnd,
    SourceMemory,
    after_look,
    after_rescue,
    after_run,
    seconds_until_next_try,
    with_lost_run,
)
from deadletter.redrive.stop_reason import ENDS_A_RUN, stop_reason
from deadletter.redrive.throttle import Throttle
from deadletter.redrive.token_bucket import RateLimiter, TokenBucket
from deadletter.redrive.turns import TakesTurns, Turns
from deadletter.redrive.waiting_room import FOREVER, SHARDS, OpenShard, RoomUnavailable
from deadletter.redrive.waiting_room_worker import WaitingRoomWorker
from deadletter.routing.router import Verdict

ENOUGH_BOUNCES = 5
"""Letters of one run that were re-driven and came back: fewer may be the letters' own fault."""

LETTERS_TO_TRY = 10
"""Letters that a run tries after fruitless ones, until one of them leaves its place."""

LOOKS_AT_A_LETTER = 2
"""Receives that judge a letter and move nothing: after three, SQS leaves it out of the age."""

SOURCE_EMPTY = "the source is empty"
"""Why a run ended that received all there is."""

LEASE_HELD = "another run holds the lease"
"""Why a run ended before it began."""

LOOKED_ENOUGH = (
    "looked twice at what is there, because each look hides a letter from its queue's age;"
    " `dlq redrive now` looks again"
)


class Redriver:
    """Drains one DLQ (or dedicated DLQ) of a pipeline, and what is due in its waiting room."""

    def __init__(self, setup: RedriverSetup) -> None:
        self._setup = setup
        self._pipeline = setup.pipeline
        self._dlq = setup.dlq
        self._tally = setup.tally
        self._clock = setup.clock
        self._known = KnownIntents(setup.journal, setup.clock)
        self._pass_began: float | None = None
        self._emptied = False
        self._fruitless_before = 0
        self._shares: Shares | None = None
        self._rate_keeper: RateKeeper | None = None

    def run(self, deadline: float, *, dry_run: bool = False, asked: bool = False) -> Report:
        """Move what can be moved until `deadline` (epoch seconds) or until nothing is left.

        With `dry_run`, and in a pipeline whose mode is observe, a sample of letters is
        judged, counted and made visible again. A run that a person `asked` for does not
        wait although earlier runs could move nothing.
        """
        began, memory = self._clock(), None
        try:
            memory = self._setup.lease.read()
            judge_only = dry_run or self._pipeline.mode is Mode.OBSERVE
            known = with_lost_run(memory, began)
            stopped = self._run(deadline, known, judge_only=judge_only, asked=asked)
        except ENDS_A_RUN as error:
            stopped = stop_reason(error, self._tally)
        if memory is not None:
            end = self._end(self._report(stopped))
            self._record(memory, (after_look if dry_run else after_run)(known, end))
        return self._report(stopped)

    def rescue(self, deadline: float) -> Report:
        """Move every letter of ours into the waiting room before its queue drops it.

        Needs neither router nor circuits, and keeps neither pace nor backlog limit. It waits
        for the lease until `deadline` (epoch seconds) is near. In a pipeline whose mode is
        observe it moves nothing.
        """
        memory: SourceMemory | None = None
        try:
            memory = self._setup.lease.read()
            stopped = self._rescue(deadline)
        except ENDS_A_RUN as error:
            stopped = stop_reason(error, self._tally)
        self._tally.count(Metric.RESCUED, self._tally.count_of(Metric.HELD))
        if memory is not None:
            self._record(memory, after_rescue(memory, self._end(self._report(stopped))))
        return self._report(stopped)

    def take_all(
        self, deadline: float, verdict_source: VerdictSource, *, lane: str | None = None
    ) -> Report:
        """Move every letter of the queue by the verdicts of another source than the router.

        With a `lane`, it goes through that lane of the waiting room instead. Like a rescue, it
        keeps no pace, and waits for the lease until `deadline` (epoch seconds) is near.
        """
        memory: SourceMemory | None = None
        try:
            memory = self._setup.lease.read()
            stopped = self._take_all(deadline, verdict_source, lane)
        except ENDS_A_RUN as error:
            stopped = stop_reason(error, self._tally)
        if memory is not None and lane is None:
            self._record(memory, after_rescue(memory, self._end(self._report(stopped))))
        return self._report(stopped)

    def _rescue(self, deadline: float) -> str:
        if self._pipeline.mode is Mode.OBSERVE:
            return "mode observe moves nothing, not even letters about to be dropped"
        verdicts = RescueVerdicts(
            source=self._setup.home,
            trusted_senders=self._setup.trusted_senders,
            clock=self._clock,
            tally=self._tally,
        )
        return self._take_all(deadline, verdicts)

    def _take_all(
        self, deadline: float, verdict_source: VerdictSource, lane: str | None = None
    ) -> str:
        self._ask_stores()
        lease, owner = self._setup.lease, self._setup.owner
        until = deadline + LOCK_PAST_DEADLINE
        # Ordinary runs may follow one another closely: only waiting finds the gap.
        while (bucket := lease.acquire(owner, self._clock(), until)) is None:
            if self._clock() + LEASE_PAUSE >= deadline - WIND_DOWN:
                return LEASE_HELD
            self._setup.wait(LEASE_PAUSE)
        run = self._limits(deadline, bucket, paced=False)
        if lane is None:
            return self._drain(run, verdict_source=verdict_source)
        shards = [OpenShard(lane, shard, FOREVER) for shard in range(SHARDS)]
        openings = Openings(shards, frozenset({lane}))
        return self._drain(run, None, openings=openings, verdict_source=verdict_source)

    def _end(self, report: Report) -> RunEnd:
        return RunEnd(
            ended=self._clock(),
            stopped=report.stopped,
            well=report.ended_well,
            trouble=report.trouble,
            fruitless=self._tally.fruitless,
            oldest=self._tally.oldest_left,
            looks=report.counts.get(Metric.LOOKED_AT, 0),
            pass_began=self._pass_began,
            emptied=self._emptied,
            troubles=report.troubles,
            shares=self._shares,
            auto_rate=None if self._rate_keeper is None else self._rate_keeper.rate,
        )

    def _record(self, before: SourceMemory, after: SourceMemory) -> None:
        try:
            self._setup.lease.record(after, before)
        except LeaseUnavailable as error:
            # What the run has done is done; the next run asks for what this one could not do.
            stop_reason(error, self._tally)

    def _run(self, deadline: float, memory: SourceMemory, *, judge_only: bool, asked: bool) -> str:
        if is_parking(self._setup.home):
            return "parked letters wait for a person; a run can only rescue them"
        circuits = self._setup.circuits.read(with_config_keys([self._pipeline.name]))
        for circuit in circuits.values():
            if not circuit.is_closed:
                return f"circuit {circuit.key} is {circuit.state}"
        now = self._clock()
        pause = 0.0 if asked or judge_only else seconds_until_next_try(memory, now)
        if pause:
            return self._left_alone(memory, pause)
        if not memory.last_ended_well:
            self._ask_all()
        self._fruitless_before = memory.fruitless
        rate, burst = self._pipeline.first_rate, float(self._pipeline.burst)
        run = self._limits(deadline, TokenBucket(rate, burst, burst, now))
        if judge_only:
            return self._look(run, None if asked else memory.looks)
        first_poll: list[ReceivedLetter] = []
        try:
            depth = self._dlq.depth()
            nothing_visible = depth.visible == 0
            if nothing_visible:
                # The depth is approximate: one poll before calling the queue empty.
                first_poll.extend(self._dlq.receive(MAX_BATCH, run.lock_seconds, 1))
                sent_ms = [received.letter.sent_ms for received in first_poll]
                self._tally.count_received(sent_ms, now)
            openings = open_shards(self._setup, deadline - WIND_DOWN, memory.shares)
            if nothing_visible and not first_poll and not openings.shards:
                self._shares = openings.next_shares(memory.shares)
                self._end_pass(now, emptied=depth.total == 0)
                if now // HOUR != (memory.ended_at or 0.0) // HOUR:
                    self._sweep_journal(deadline, reads=True)
                return "nothing to do"
            bucket = self._setup.lease.acquire(self._setup.owner, now, run.locked_until)
        except BaseException:
            self._make_visible(first_poll)
            raise
        if bucket is None:
            self._make_visible(first_poll)
            return LEASE_HELD
        # A circuit for configuration has no ramp.
        own = circuits[self._pipeline.name]
        if self._pipeline.is_auto_rate:
            self._rate_keeper = RateKeeper(
                self._pipeline,
                memory.auto_rate,
                own,
                self._setup.circuits,
                self._tally,
                self._clock,
            )
            run = self._limits(deadline, self._rate_keeper.paced(bucket))
        else:
            share = own.admitted_share(self._pipeline.circuit, now)
            run = self._limits(deadline, bucket.slowed(share))
        return self._drain(run, first_poll, openings=openings, shares=memory.shares)

    def _left_alone(self, memory: SourceMemory, pause: float) -> str:
        """The reason of a run that does not try yet, and is no better than the last one."""
        if not memory.last_ended_well:
            self._tally.fail(memory.trouble)
        runs = "run moved none of its"
        if memory.fruitless > 1:
            runs = f"{memory.fruitless} runs moved none of their"
        minutes = math.ceil(pause / MINUTE)
        when = "a minute" if minutes == 1 else f"{minutes} minutes"
        return f"the last {runs} letters: the next try is in {when} or with `dlq redrive now`"

    def _ask_all(self) -> None:
        """Ask what a run needs, before it receives a letter: the last one could not do its work.

        Raises the errors of ENDS_A_RUN.
        """
        self._ask_stores()
        self._setup.router.decide([])

    def _ask_stores(self) -> None:
        self._known.fresh()
        self._setup.room.lanes()

    def _letters_to_try(self) -> int | None:
        """How many more letters may be tried; None, any number, once one has left its place."""
        if not self._fruitless_before or self._tally.fruitless is False:
            return None
        return LETTERS_TO_TRY - self._tally.futile

    def _end_pass(self, began: float, *, emptied: bool) -> None:
        """Note that every letter visible since `began` was received."""
        self._pass_began, self._emptied = began, emptied

    def _report_bounces(self) -> None:
        """Report letters that came back as failures of the pipeline's circuit.

        Only for a consumer that reports no outcomes itself. Letters sent now beyond the
        number that came back count as successes. Which key's dependency a letter failed
        for is not known here: a pipeline with a circuit key gets no report.
        """
        silent = not self._pipeline.consumer_library and self._pipeline.circuit_key is None
        bounced = self._tally.count_of(Metric.REDRIVE_BOUNCED)
        if self._setup.outcomes is None or not silent or bounced < ENOUGH_BOUNCES:
            return
        redriven = self._tally.count_of(Metric.REDRIVEN)
        outcomes = OutcomeCounts(good=max(0, redriven - bounced), bad=bounced)
        self._setup.outcomes.report(self._pipeline.name, outcomes)

    def _drain(
        self,
        run: RunLimits,
        first_poll: Sequence[ReceivedLetter] | None = (),
        *,
        openings: Openings = CLOSED,
        shares: Shares = NO_SHARES,
        verdict_source: VerdictSource | None = None,
    ) -> str:
        """Move letters until nothing is left or the run has to end; returns why it ended.

        `first_poll` are letters in hand; None leaves the queue alone.
        """
        began = self._clock()
        polls = [] if first_poll is None else [first_poll, *([()] * (self._workers - 1))]
        of_queue = [
            QueueWorker(
                self._setup,
                run,
                number,
                received,
                known=self._known,
                verdict_source=verdict_source,
            )
            for number, received in enumerate(polls)
        ]
        throttles = {
            shard.lane: Throttle(self._setup.room, shard.lane, shard.rate, self._clock)
            for shard in openings.shards
            if shard.rate is not None
        }
        of_room = [
            WaitingRoomWorker(
                self._setup,
                run,
                shard,
                known=self._known,
                verdict_source=verdict_source,
                throttle=throttles.get(shard.lane),
            )
            for shard in openings.shards
        ]
        turns = Turns(
            shares=shares,
            letters=quantum(run.bucket.rate),
            workers={QUEUE: of_queue, **_by_lane(of_room)},
            run=run,
            tally=self._tally,
        )
        try:
            self._setup.in_parallel([turns.work] * self._workers)
            workers: Sequence[TakesTurns] = (*of_queue, *of_room)
            for worker in workers:
                worker.close()
            if first_poll is None and any(worker.is_elsewhere for worker in of_room):
                run.stop("another run works in the lane")
            if run.stopped is None and first_poll is not None:
                self._end_pass(began, emptied=self._has_only_foreign_letters(len(run.left)))
            self._sweep_journal(run.deadline)
        except QueueUnavailable as error:
            run.stop(stop_reason(error, self._tally))
        finally:
            for queue_worker in of_queue:
                queue_worker.release()
            self._shares = openings.next_shares(turns.shares, turns.served)
            self._dlq.make_visible(run.left)
            self._report_bounces()
            stopped = run.stopped or SOURCE_EMPTY
            self._setup.lease.give_back(
                self._setup.owner, run.bucket, self._report(stopped), self._clock()
            )
        return stopped

    def _sweep_journal(self, deadline: float, *, reads: bool = False) -> None:
        """Take out of the journal what the run has explained; a later run can do it as well.

        `reads` is for runs that have not read the journal.
        """
        try:
            if reads or self._known.left_queue or self._known.left_room:
                self._known.fresh()
            reading, now = self._known.last, self._clock()
            if not reading.ended():
                return
            explained = Explained(
                home=self._setup.home,
                left_queue=self._known.left_queue,
                left_room=self._known.left_room,
                emptied_before=self._emptied_before,
                empty_shards=empty_shards(self._setup.room, reading, now),
            )
            steps = sweeps(reading, explained, self._setup.owner, now)
            carry_out(steps, self._setup.journal, lambda: self._clock() < deadline - WIND_DOWN)
        except JournalUnavailable as error:
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)
            self._tally.note_trouble(str(error))
        except RoomUnavailable as error:
            self._tally.count(Metric.ROOM_UNAVAILABLE)
            self._tally.note_trouble(str(error))

    @property
    def _emptied_before(self) -> float:
        """Intents that ended before are about letters that have left the queue; 0 for none."""
        if not self._emptied or self._pass_began is None:
            return 0.0
        return self._pass_began - LONG_AGO

    def _has_only_foreign_letters(self, left: int) -> bool:
        """Whether no letter of ours is in the queue after a pass that left so many in place.

        Letters that others have in flight come back: they count.
        """
        foreign = self._tally.count_of(Metric.FOREIGN_LETTER)
        return left <= foreign and self._dlq.depth().total <= left

    def _look(self, run: RunLimits, looks: int | None) -> str:
        """Judge a sample of letters and make them visible again.

        `looks` are the letters that were looked at so far: unless it is None, each letter of
        the queue is looked at twice, and no more.
        """
        began, depth = self._clock(), self._dlq.depth()
        most = MAX_PLANS
        if looks is not None and depth.visible:
            most = min(most, LOOKS_AT_A_LETTER * depth.visible - looks)
        if most <= 0:
            return LOOKED_ENOUGH
        in_hand = LettersInHand()
        sample: list[ReceivedLetter] = []
        try:
            sample = QueueWorker(self._setup, run, 0, known=self._known).receive_chunk(
                most, in_hand
            )
            router_client = RouterClient(router=self._setup.router, tally=self._tally)
            verdicts = router_client.verdicts(sample, served=False)
            self._tally.count(Metric.LEFT_IN_PLACE, len(sample))
            if looks is None:
                # A person waits for it; the schedule's log need not name each letter.
                self._tally.note_judged(
                    (id_, verdict.decision) for id_, verdict in verdicts.items()
                )
        finally:
            received = [*in_hand, *sample]
            self._tally.count(Metric.LOOKED_AT, len(received))
            self._make_visible(received)
        if self._pipeline.mode is Mode.OBSERVE and verdicts:
            self._note_observed(verdicts.values())
        if len(received) >= depth.total:
            self._end_pass(began, emptied=not received)
        return f"looked at {len(verdicts)} letters, moved none"

    def _note_observed(self, verdicts: Iterable[Verdict]) -> None:
        """Keep what would have been done, for the report: at most a hundred letters a run."""
        # Only observing runs load it.
        from deadletter.redrive.observed import ObservedUnavailable

        if self._setup.observed is None:
            return
        judged = [(verdict.stamp.origin, verdict.decision) for verdict in verdicts]
        try:
            self._setup.observed.note(self._setup.home, judged, self._clock())
        except ObservedUnavailable as error:
            self._tally.note_trouble(str(error))

    @property
    def _workers(self) -> int:
        """One worker tries after fruitless runs: several would try as many letters each."""
        return 1 if self._fruitless_before else self._pipeline.workers

    def _limits(self, deadline: float, bucket: TokenBucket, *, paced: bool = True) -> RunLimits:
        return RunLimits(
            owner=self._setup.owner,
            deadline=deadline,
            clock=self._clock,
            wait=self._setup.wait,
            main=self._setup.main,
            backlog_limit=self._pipeline.backlog_limit if paced else None,
            rate_limiter=RateLimiter(bucket, self._clock),
            paced=paced,
            look=fixed_rate if self._rate_keeper is None else self._rate_keeper.look,
            trial=self._letters_to_try,
        )

    def _make_visible(self, letters: Sequence[ReceivedLetter]) -> None:
        self._tally.note_left(received.letter.sent_ms for received in letters)
        self._dlq.make_visible([received.handle for received in letters])

    def _report(self, stopped: str) -> Report:
        return self._tally.report(self._pipeline.name, self._setup.home, stopped)


def _by_lane(workers: Sequence[WaitingRoomWorker]) -> Mapping[str, Sequence[WaitingRoomWorker]]:
    by_lane: dict[str, list[WaitingRoomWorker]] = {}
    for worker in workers:
        by_lane.setdefault(worker.lane, []).append(worker)
    return by_lane
