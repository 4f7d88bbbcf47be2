"""One run: judges and moves the letters that are due in the waiting room and those in the DLQ."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from deadletter.circuit.state import Circuit, OutcomeCounts
from deadletter.contract import HOUR, MINUTE, Mode, with_config_keys
from deadletter.message.queue import MAX_BATCH, Depth, QueueUnavailable, ReceivedLetter
from deadletter.pace.auto_rate import DEEP, outcomes_since
from deadletter.pace.lane import LanePace
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid, rate_of
from deadletter.redrive.draining import Draining
from deadletter.redrive.journal import MAX_PLANS, JournalUnavailable
from deadletter.redrive.journal_sweep import (
    LONG_AGO,
    Explained,
    carry_out,
    empty_shards,
    sweeps,
)
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_source import LaneSource
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.openings import CLOSED, Openings, open_shards
from deadletter.redrive.queue_source import QueueSource
from deadletter.redrive.receiving import ChunkReceiver, LettersInHand
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import WAYS, Report
from deadletter.redrive.round_robin import NO_TURN, QUEUE, LastTurn, letters_a_turn
from deadletter.redrive.router_client import (
    LEASE_PAUSE,
    RescueVerdicts,
    RouterClient,
    VerdictSource,
    is_parking,
)
from deadletter.redrive.run_limits import (
    LOCK_PAST_DEADLINE,
    OUT_OF_TIME,
    WIND_DOWN,
    RunLimits,
    RunStopped,
    fixed_rate,
)
from deadletter.redrive.shards import (
    ENOUGH_LETTERS,
    MOST_HOPS,
    DrainOwner,
    DrainShard,
    RateKeeper,
    following,
    hop_in,
    next_event,
    shard_in,
    start_run,
)
from deadletter.redrive.source_memory import (
    FIRST_STEPS,
    OWNER,
    PAST,
    Drain,
    RunEnd,
    SourceMemory,
    after_look,
    after_rescue,
    after_run,
    after_step,
    first_step,
    seconds_until_next_try,
    was_just_empty,
    with_lost_run,
)
from deadletter.redrive.turns import ENDS_A_RUN, Turns, stop_reason
from deadletter.redrive.waiting_room import FOREVER, SHARDS, OpenShard, RoomUnavailable
from deadletter.routing.router import Verdict
from deadletter.signals.figures import Count, Figure

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

DRAIN_ENDED = "the drain that it was started for has ended"
"""Why the run of a shard ended before it began: its start came late, or twice."""

NOTHING_TO_DO = "nothing to do"

FIRST_LETTERS = (
    "the queue held over 100 messages before the first run: the first runs move 1, 2, 5 and 20,"
    " this one {count}"
)
"""Why one of the first runs ended."""

LOOKED_ENOUGH = (
    "looked twice at what is there, because each look hides a message from its queue's age;"
    " `dlq retry --auto` looks again"
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
        self._step: int | None = None
        self._last_turn: LastTurn | None = None
        self._rate_keeper: RateKeeper | None = None
        self._look_at_main: Callable[[Depth, RunPace], float] = fixed_rate
        self._owner = DrainOwner(setup)
        self._shard = ""

    def run(
        self, deadline: float, *, dry_run: bool = False, asked: bool = False, hop: int = 0
    ) -> Report:
        """Move what can be moved until `deadline` (epoch seconds) or until nothing is left.

        With `dry_run`, and in a pipeline whose mode is observe, a sample of letters is
        judged, counted and made visible again. A run that a person `asked` for does not
        wait although earlier runs could move nothing.

        Of a deep queue it may be the owner of a drain in shards, and it starts the next run if
        its time is too short: `hop` says how many did so before.
        """
        began = self._clock()
        judge_only = dry_run or self._pipeline.mode is Mode.OBSERVE
        memory: SourceMemory | None = None
        try:
            memory = self._setup.lease.read()
            known = with_lost_run(memory, began)
            stopped = self._run(deadline, known, judge_only=judge_only, asked=asked)
        except ENDS_A_RUN as error:
            stopped = stop_reason(error, self._tally)
        if memory is not None:
            end = self._end(self._report(stopped))
            self._record(memory, (after_look if dry_run else after_run)(known, end))
        if stopped in OUT_OF_TIME:
            self._go_on(deadline, hop)
        return self._report(stopped)

    def _recorded(
        self,
        act: Callable[[], str],
        after: Callable[[SourceMemory, RunEnd], SourceMemory] | None,
    ) -> Report:
        """One run beside those of the schedule; `after` says what the next ones know of it."""
        memory: SourceMemory | None = None
        try:
            memory = self._setup.lease.read()
            stopped = act()
        except ENDS_A_RUN as error:
            stopped = stop_reason(error, self._tally)
        if memory is not None and after is not None:
            self._record(memory, after(memory, self._end(self._report(stopped))))
        return self._report(stopped)

    def take_part(self, deadline: float, shard: DrainShard) -> Report:
        """Move letters of the queue as one shard of a drain, until the drain ends.

        It leaves the waiting room to the owner. A start that comes late or twice moves nothing.
        """
        try:
            drain = self._setup.lease.read().drain
        except LeaseUnavailable as error:
            return self._report(stop_reason(error, self._tally))
        if not shard.belongs_to(drain, self._clock()):
            return self._report(DRAIN_ENDED)
        lease = self._setup.lease.of_shard(shard.number)
        redriver = Redriver(replace(self._setup, lease=lease))
        redriver._shard = f"{shard.number} of {drain.of}"
        if self._pipeline.fixed_rate is None:
            redriver._look_at_main = following(
                self._setup.lease, self._tally, self._pipeline.first_rate
            )
        until = min(deadline, drain.until)
        return redriver._recorded(lambda: redriver._drain_part(until, drain), after_run)

    def _drain_part(self, deadline: float, drain: Drain) -> str:
        circuits = self._setup.circuits.read(with_config_keys([self._pipeline.name]))
        if stopped := not_closed(circuits):
            return stopped
        # The shard before this one with its number may be ending: both end with their owners.
        if self._lease_in_time(deadline, until=deadline) is None:
            return LEASE_HELD
        return self._drain(self._limits(deadline, drain.paid(self._clock())))

    def rescue(self, deadline: float) -> Report:
        """Move every letter of ours into the waiting room before its queue drops it.

        Needs neither router nor circuits, and keeps neither pace nor backlog limit. It waits
        for the lease until `deadline` (epoch seconds) is near. In a pipeline whose mode is
        observe it moves nothing.
        """
        return self._recorded(lambda: self._rescue(deadline), after_rescue)

    def take_all(
        self, deadline: float, verdict_source: VerdictSource, *, lane: str | None = None
    ) -> Report:
        """Move every letter of the queue by the verdicts of another source than the router.

        With a `lane`, it goes through that lane of the waiting room instead. Like a rescue, it
        keeps no pace, and waits for the lease until `deadline` (epoch seconds) is near.
        """
        after = after_rescue if lane is None else None
        return self._recorded(lambda: self._take_all(deadline, verdict_source, lane), after)

    def _rescue(self, deadline: float) -> str:
        if self._pipeline.mode is Mode.OBSERVE:
            return "mode observe moves nothing, not even messages about to be dropped"
        verdicts = RescueVerdicts(
            source=self._setup.home,
            trusted_senders=self._setup.trusted_senders,
            clock=self._clock,
            tally=self._tally,
        )
        try:
            return self._take_all(deadline, verdicts)
        finally:
            self._tally.count(Figure.RESCUED, self._tally.count_of(Figure.HELD))

    def _take_all(
        self, deadline: float, verdict_source: VerdictSource, lane: str | None = None
    ) -> str:
        self._ask_stores()
        # Ordinary runs may follow one another closely: only waiting finds the gap.
        paid = self._lease_in_time(deadline, until=deadline + LOCK_PAST_DEADLINE, wanted=True)
        if paid is None or not self._shards_have_ended(deadline, paid):
            return LEASE_HELD
        run = self._limits(deadline, paid, paced=False)
        if lane is None:
            return self._drain(run, verdict_source=verdict_source)
        shards = [OpenShard(lane, shard, FOREVER) for shard in range(SHARDS)]
        openings = Openings(shards)
        return self._drain(run, None, openings=openings, verdict_source=verdict_source)

    def _lease_in_time(
        self, deadline: float, *, until: float, wanted: bool = False
    ) -> RunPaid | None:
        """The lease, until that time, or None if others hold it until `deadline` is near.

        If it is `wanted`, no run goes on without a gap as long as this one waits.
        """
        lease, owner = self._setup.lease, self._setup.owner
        while (paid := lease.acquire(owner, self._clock(), until)) is None:
            if self._clock() + LEASE_PAUSE >= deadline - WIND_DOWN:
                return None
            if wanted:
                lease.record(SourceMemory(wanted_until=deadline))
                wanted = False
            self._setup.wait(LEASE_PAUSE)
        return paid

    def _shards_have_ended(self, deadline: float, paid: RunPaid) -> bool:
        """Wait for the shards of a drain whose owner has ended; False if there is no time."""
        lease, clock = self._setup.lease, self._clock
        ended = False
        try:
            drain = lease.read().drain
            while drain.is_on(clock()) and clock() + LEASE_PAUSE < deadline - WIND_DOWN:
                self._setup.wait(LEASE_PAUSE)
            ended = not drain.is_on(clock())
        finally:
            if not ended:
                lease.give_back(self._setup.owner, paid, self._report(LEASE_HELD), clock())
        return ended

    def _end(self, report: Report) -> RunEnd:
        return RunEnd(
            ended=self._clock(),
            report=report,
            fruitless=self._tally.fruitless,
            oldest=self._tally.oldest_left,
            pass_began=self._pass_began,
            emptied=self._emptied,
            last_turn=self._last_turn,
            auto_rate=None if self._rate_keeper is None else self._rate_keeper.rate,
            first_step=None if self._step is None else after_step(self._step, self._moved),
        )

    def _record(self, before: SourceMemory, after: SourceMemory) -> None:
        try:
            self._setup.lease.record(after, before)
        except LeaseUnavailable as error:
            # What the run has done is done; the next run asks for what this one could not do.
            stop_reason(error, self._tally)

    def _run(self, deadline: float, memory: SourceMemory, *, judge_only: bool, asked: bool) -> str:
        if is_parking(self._setup.home):
            return "parked messages wait for a person; a run can only rescue them"
        circuits = self._setup.circuits.read(with_config_keys([self._pipeline.name]))
        if stopped := not_closed(circuits):
            return stopped
        now = self._clock()
        pause = 0.0 if asked or judge_only else seconds_until_next_try(memory, now)
        if pause:
            return self._left_alone(memory, pause)
        if not memory.last_ended_well:
            self._ask_all()
        self._fruitless_before = memory.fruitless
        run = self._limits(deadline, RunPaid(rate_of(self._pipeline.first_rate), 0.0))
        if judge_only:
            was_empty = not asked and was_just_empty(memory, now)
            return self._look(run, None if asked else memory.looks, was_empty=was_empty)
        first_poll: list[ReceivedLetter] = []
        try:
            depth = self._dlq.depth()
            nothing_visible = depth.visible == 0
            self._step = self._first_step(memory, circuits[self._pipeline.name], depth)
            if nothing_visible:
                # The depth is approximate: one poll before calling the queue empty.
                is_first = now // HOUR != (memory.ended_at or 0.0) // HOUR
                brief = not (asked or is_first or depth.total) and was_just_empty(memory, now)
                wait = 0 if brief else 1
                first_poll.extend(self._dlq.receive(MAX_BATCH, run.lock_seconds, wait))
                sent_ms = [received.letter.sent_ms for received in first_poll]
                self._tally.count_received(sent_ms, now)
            openings = open_shards(self._setup, deadline - WIND_DOWN, memory.last_turn)
            if nothing_visible and not first_poll and not openings.shards:
                self._last_turn = openings.after(memory.last_turn)
                if brief:
                    return NOTHING_TO_DO
                # Shards of the last drain may have letters in hand.
                emptied = depth.total == 0 and not memory.drain.is_on(now)
                self._end_pass(now, emptied=emptied)
                if is_first:
                    self._sweep_journal(deadline, reads=True)
                return _nothing_to_take(depth)
            paid = self._setup.lease.acquire(self._setup.owner, now, run.locked_until)
            if paid is not None:
                deep = depth.visible >= DEEP
                rate = self._rate(circuits[self._pipeline.name], memory, deep=deep)
                more = not self._is_cautious
                paid = self._owner.part(paid, rate, depth.visible, deadline, more=more)
        except BaseException:
            self._make_visible(first_poll)
            raise
        if paid is None:
            self._make_visible(first_poll)
            return LEASE_HELD
        if self._owner.of > OWNER:
            self._shard = f"{OWNER} of {self._owner.of}"
        run = self._limits(deadline, paid)
        # The depth lags: of 0 a few may be there.
        visible = depth.visible or MAX_BATCH
        run.expect(visible if self._step == PAST else FIRST_STEPS[self._step])
        return self._drain(run, first_poll, openings=openings, last=memory.last_turn)

    def _first_step(self, memory: SourceMemory, circuit: Circuit, depth: Depth) -> int:
        """Which of the first runs over what was there before the deployment this is, if any."""
        since = memory.ended_at or 0.0
        outcomes = outcomes_since(circuit, self._pipeline.circuit, since, self._clock())
        return first_step(memory.first_step, depth.total, outcomes)

    def _rate(self, circuit: Circuit, memory: SourceMemory, *, deep: bool) -> Rate:
        """The rate of this run, and of all shards of its drain together.

        `circuit` is the pipeline's own: one for configuration has no ramp. Letters of a `deep`
        queue are delayed less.
        """
        if self._pipeline.fixed_rate is not None:
            share = circuit.admitted_share(self._pipeline.circuit, self._clock())
            return rate_of(self._pipeline.fixed_rate).share(share)
        keeper = RateKeeper(
            self._pipeline,
            memory.auto_rate,
            circuit,
            self._setup.circuits,
            self._tally,
            self._clock,
            self._owner,
            deep=deep,
        )
        self._look_at_main, self._rate_keeper = keeper.look, keeper
        return keeper.whole

    def _go_on(self, deadline: float, hop: int) -> None:
        """Start the next run at once if the queue is still deep, and nobody waits for it."""
        report = self._report("")
        can_start = self._setup.starter is not None and hop < MOST_HOPS
        if not can_start or not report.moved or not report.ended_well:
            return
        try:
            # Later, what this run has to report might be lost with its process.
            has_time = self._clock() < deadline - WIND_DOWN / 2
            if not has_time or self._dlq.depth().visible < ENOUGH_LETTERS:
                return
            if self._setup.lease.read().wanted_until <= self._clock():
                start_run(self._setup, next_event(self._setup.home, hop + 1))
        except (QueueUnavailable, LeaseUnavailable) as error:
            # The schedule starts the next run in any case.
            self._tally.note_trouble(str(error))

    def _left_alone(self, memory: SourceMemory, pause: float) -> str:
        """The reason of a run that does not try yet, and is no better than the last one."""
        if not memory.last_ended_well:
            self._tally.fail(memory.trouble)
        runs = "run moved none of its"
        if memory.fruitless > 1:
            runs = f"{memory.fruitless} runs moved none of their"
        minutes = math.ceil(pause / MINUTE)
        when = "a minute" if minutes == 1 else f"{minutes} minutes"
        return f"the last {runs} messages: the next try is in {when} or with `dlq retry --auto`"

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
        """How many more letters may be tried; None, any number, once one has left its place.

        Raises RunStopped if the letters of one of the first runs have been moved.
        """
        if self._step is not None and self._step < PAST:
            most = FIRST_STEPS[self._step]
            if self._moved >= most:
                raise RunStopped(FIRST_LETTERS.format(count=most))
            left = self._letters_of_fruitless_runs()
            return most - self._moved if left is None else min(most - self._moved, left)
        return self._letters_of_fruitless_runs()

    def _letters_of_fruitless_runs(self) -> int | None:
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
        bounced = self._tally.count_of(Count.REDRIVE_BOUNCED)
        if self._setup.outcomes is None or not silent or bounced < ENOUGH_BOUNCES:
            return
        redriven = self._tally.count_of(Figure.REDRIVEN)
        outcomes = OutcomeCounts(good=max(0, redriven - bounced), bad=bounced)
        self._setup.outcomes.report(self._pipeline.name, outcomes)

    def _drain(
        self,
        run: RunLimits,
        first_poll: Sequence[ReceivedLetter] | None = (),
        *,
        openings: Openings = CLOSED,
        last: LastTurn = NO_TURN,
        verdict_source: VerdictSource | None = None,
    ) -> str:
        """Move letters until nothing is left or the run has to end; returns why it ended.

        `first_poll` are letters in hand; None leaves the queue alone.
        """
        began = self._clock()
        polls = [] if first_poll is None else [first_poll, *([()] * (self._workers - 1))]
        queues = [
            QueueSource(self._setup, run, number, received, known=self._known)
            for number, received in enumerate(polls)
        ]
        of_queue = [Draining(self._setup, queue, verdict_source) for queue in queues]
        throttles = {
            shard.lane: LanePace(self._setup.room, shard.lane, shard.rate, self._clock)
            for shard in openings.shards
            if shard.rate is not None
        }
        lanes = [
            LaneSource(
                self._setup,
                run,
                shard,
                known=self._known,
                in_passing=verdict_source is not None,
                throttle=throttles.get(shard.lane),
            )
            for shard in openings.shards
        ]
        of_room = [Draining(self._setup, lane, verdict_source) for lane in lanes]
        of_lane: dict[str, list[Draining]] = {}
        for lane, worker in zip(lanes, of_room, strict=True):
            of_lane.setdefault(lane.lane, []).append(worker)
        turns = Turns(
            last=last,
            letters=letters_a_turn(run.paid.rate.limit),
            workers={QUEUE: of_queue, **of_lane},
            run=run,
            tally=self._tally,
        )
        try:
            with self._setup.mover.counts_gathered():
                threads = min(self._workers, max(1, run.chunks_worth) + len(of_room))
                self._setup.in_parallel([turns.work] * threads)
                workers = [*of_queue, *of_room]
                self._setup.in_parallel([worker.close for worker in workers])
            if first_poll is None and any(lane.is_elsewhere for lane in lanes):
                run.stop("another run works in the lane")
            if run.stopped is None and first_poll is not None and not self._shard:
                # What other shards have in hand this one has not seen.
                self._end_pass(began, emptied=self._has_only_foreign_letters(len(run.left)))
            self._sweep_journal(run.deadline)
        except QueueUnavailable as error:
            run.stop(stop_reason(error, self._tally))
        finally:
            for queue in queues:
                queue.release()
            self._last_turn = openings.after(turns.last, turns.served)
            self._dlq.make_visible(run.left)
            self._report_bounces()
            stopped = run.stopped or SOURCE_EMPTY
            self._setup.lease.give_back(
                self._setup.owner, run.paid, self._report(stopped), self._clock()
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
            self._tally.count(Count.JOURNAL_UNAVAILABLE)
            self._tally.note_trouble(str(error))
        except RoomUnavailable as error:
            self._tally.count(Count.ROOM_UNAVAILABLE)
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
        foreign = self._tally.count_of(Count.FOREIGN_MESSAGE)
        return left <= foreign and self._dlq.depth().total <= left

    def _look(self, run: RunLimits, looks: int | None, *, was_empty: bool = False) -> str:
        """Judge a sample of letters and make them visible again.

        `looks` are the letters that were looked at so far: unless it is None, each letter of
        the queue is looked at twice, and no more.
        """
        began, depth = self._clock(), self._dlq.depth()
        if was_empty and not depth.total:
            return NOTHING_TO_DO
        most = MAX_PLANS
        if looks is not None and depth.visible:
            most = min(most, LOOKS_AT_A_LETTER * depth.visible - looks)
        if most <= 0:
            return LOOKED_ENOUGH
        run.expect(depth.visible or MAX_BATCH)
        in_hand = LettersInHand()
        sample: list[ReceivedLetter] = []
        try:
            receiver = ChunkReceiver(
                self._dlq, run, self._tally, self._setup.in_parallel, fifo=self._pipeline.fifo
            )
            receiver.fill(in_hand, most, whole_receives=False)
            sample = in_hand.take(most)
            router_client = RouterClient(router=self._setup.router, tally=self._tally)
            verdicts = router_client.verdicts(sample, served=False)
            self._tally.count(Count.LEFT_IN_PLACE, len(sample))
            if looks is None:
                # A person waits for it; the schedule's log need not name each letter.
                self._tally.note_judged(
                    (id_, verdict.decision) for id_, verdict in verdicts.items()
                )
        finally:
            received = [*in_hand, *sample]
            self._tally.count(Count.LOOKED_AT, len(received))
            self._make_visible(received)
        if self._pipeline.mode is Mode.OBSERVE and verdicts:
            self._note_observed(verdicts.values())
        if len(received) >= depth.total:
            self._end_pass(began, emptied=not received)
        if not received:
            return _nothing_to_take(depth)
        return f"looked at {len(verdicts)} messages, moved none"

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
    def _moved(self) -> int:
        return sum(self._tally.count_of(way) for way in WAYS)

    @property
    def _is_cautious(self) -> bool:
        """Whether the run may try few letters only."""
        return bool(self._fruitless_before) or self._step not in (None, PAST)

    @property
    def _workers(self) -> int:
        """One worker tries few letters: several would try as many each."""
        return 1 if self._is_cautious else self._pipeline.workers

    def _limits(self, deadline: float, paid: RunPaid, *, paced: bool = True) -> RunLimits:
        return RunLimits(
            owner=self._setup.owner,
            deadline=deadline,
            clock=self._clock,
            wait=self._setup.wait,
            main=self._setup.main,
            backlog_limit=self._pipeline.backlog_limit if paced else None,
            pace=RunPace(paid, self._clock),
            paced=paced,
            look=self._look_at_main,
            trial=self._letters_to_try,
            workers=self._workers,
        )

    def _make_visible(self, letters: Sequence[ReceivedLetter]) -> None:
        self._tally.note_left(received.letter.sent_ms for received in letters)
        self._dlq.make_visible([received.handle for received in letters])

    def _report(self, stopped: str) -> Report:
        report = self._tally.report(self._pipeline.name, self._setup.home, stopped)
        return replace(report, shard=self._shard)


def run_as_asked(redriver: Redriver, event: Mapping[str, Any], deadline: float) -> Report:
    """The run that the event of an invocation asks for, until `deadline` (epoch seconds).

    A flag counts only if it is true: what is mistyped is an ordinary run.
    """
    if event.get("rescue") is True:
        return redriver.rescue(deadline)
    if shard := shard_in(event):
        return redriver.take_part(deadline, shard)
    dry_run, asked = (event.get(name) is True for name in ("dry_run", "asked"))
    return redriver.run(deadline, dry_run=dry_run, asked=asked, hop=hop_in(event))


def _nothing_to_take(depth: Depth) -> str:
    """The reason of a run that found no letter: none is there, or others have them in hand."""
    held = depth.in_flight
    if not held:
        return NOTHING_TO_DO
    letters = "1 message of the queue is" if held == 1 else f"{held:,} messages of the queue are"
    return (
        f"{letters} in flight: another receiver has them in hand, such as a look of a person"
        " (`dlq list --look`), and the next run finds those that come back"
    )


def not_closed(circuits: Mapping[str, Circuit]) -> str:
    """The reason of a run that a circuit keeps from its work; empty if none does."""
    for circuit in circuits.values():
        if not circuit.is_closed:
            return f"circuit {circuit.key} is {circuit.state}"
    return ""
