"""Works on the letters of a replay run: by key in order, at the run's pace, each one once.

A letter is in the run's lane (its item), under way (its ticket) or at its end (its outcome): a
worker that ends anywhere leaves it in one of them for the next one.
"""

from __future__ import annotations

from functools import partial

from deadletter.contract import with_config_keys
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.stop_reason import ENDS_A_RUN, stop_reason
from deadletter.replay.judge import RunEvidence, unwell
from deadletter.replay.limiter import LOOK_SECONDS, MOST_GRANTED, RunLimiter, SendingEnded, why_not
from deadletter.replay.lineup import RunStage, ShardLineup
from deadletter.replay.moving import RunMoves
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.outcomes import room_place
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE
from deadletter.replay.progress import ShardProgress, StatusUnavailable, save
from deadletter.replay.run import BadRunRow, RunState, RunsUnavailable
from deadletter.replay.run_room import RunRoom
from deadletter.replay.shard_work import CLAIM_SECONDS, ShardWork, claim_of_run
from deadletter.replay.standing import Standings
from deadletter.replay.ticket import TERMINAL, ReplayOutcome, TicketsUnavailable
from deadletter.replay.worker_setup import ReplayWorkerSetup, WorkReport

MOST_KEYS = 200
"""Ordering keys that a worker has open at once."""

MOST_IN_HAND = 5_000
"""Letters that a worker has in hand, most of them sent: more than outcomes take to become known."""

READY_AHEAD = 100
"""Letters of a shard that are in hand and not sent yet."""

SAVE_SECONDS = 30.0
"""Seconds between two saves of the status rows; a worker that is killed loses no more of it,
and all of it is in the tickets and in the ledger."""

CHECK_SECONDS = 5.0
"""Seconds between two looks at the pipeline's circuit, its health and the main queue's backlog."""

WIND_DOWN_SECONDS = 3.0
"""Seconds before the deadline in which no letter is moved any more."""

_STORES: tuple[type[Exception], ...] = (
    *ENDS_A_RUN,
    RunsUnavailable,
    TicketsUnavailable,
    StatusUnavailable,
    ObjectsUnavailable,
)


class ReplayWorker:
    """Moves the letters of some shards of one run, until `deadline` or until none is left."""

    def __init__(self, setup: ReplayWorkerSetup) -> None:
        self._setup = setup
        self._plan = setup.plan
        self._clock = setup.clock
        self._tally = setup.tally
        self._known = KnownIntents(setup.journal, setup.clock)
        self._limiter = RunLimiter(
            bids=setup.bids,
            run=setup.run,
            clock=setup.clock,
            wait=setup.wait,
            new_token=setup.new_token,
        )
        room = RunRoom(setup.room, setup.tickets, setup.tally)
        self._standings = Standings(setup, room, self._limiter)
        self._moves = RunMoves(setup, room, self._limiter, self._standings)
        self._shards: dict[int, ShardWork] = {}
        self._saved_at = setup.clock()
        self._checked_at = -1.0
        self._before = (0, 0)
        self._sending_ended = ""
        self._turn = 0

    def run(self, deadline: float) -> WorkReport:
        """Work until `deadline` (epoch seconds). What raises is a fault of the program."""
        stopped, well = "", True
        try:
            self._open()
            stopped = self._work(deadline)
        except SendingEnded as ended:
            stopped = str(ended)
        except BadRunRow:
            # No next step could read it either: the run is held.
            raise
        except _STORES as error:
            stopped, well = self._stop_reason(error), False
        finally:
            well = self._close() and well
        return self._report(stopped, well)

    def _stop_reason(self, error: Exception) -> str:
        if isinstance(error, ENDS_A_RUN):
            return stop_reason(error, self._tally)
        self._tally.fail(str(error))
        return f"a store of the run gave no answer: {error}"

    def _open(self) -> None:
        setup = self._setup
        keys = MOST_KEYS // max(1, len(setup.shards))
        for shard, letters in setup.shards.items():
            progress = ShardProgress.of(shard, setup.statuses.read(shard))
            lineup = ShardLineup(
                length=letters,
                part=partial(setup.manifest.part, shard),
                progress=progress,
                ordered=self._plan.ordered,
                most_keys=keys,
                place_of=lambda name: room_place(name.place),
            )
            claim = claim_of_run(
                setup.run.id,
                shard,
                journal=setup.journal,
                known=self._known,
                owner=setup.owner,
                clock=setup.clock,
                seconds=CLAIM_SECONDS + (setup.carrier.seconds if setup.carrier else 0.0),
            )
            self._shards[shard] = ShardWork(lineup, progress, claim)
        self._before = self._tries()

    def _close(self) -> bool:
        """Save what is known and give the shards up; returns whether all of it succeeded."""
        well = True
        try:
            save(self._setup.statuses, (work.progress for work in self._shards.values()))
        except StatusUnavailable as error:
            # All of it is in the tickets and in the ledger: the next worker reads it there.
            self._tally.note_trouble(str(error))
            well = False
        for work in self._shards.values():
            try:
                work.claim.close()
            except ENDS_A_RUN as error:
                self._tally.note_trouble(str(error))
                well = False
        return well

    def _report(self, stopped: str, well: bool) -> WorkReport:
        outcomes: dict[str, int] = {}
        returned = waiting = stopped_keys = unfinished = 0
        for shard, work in self._shards.items():
            counts = work.progress.counts()
            known = sum(counts.values())
            counts[ReplayOutcome.OPEN] += self._setup.shards[shard] - known
            for outcome, number in counts.items():
                outcomes[outcome.name] = outcomes.get(outcome.name, 0) + number
                unfinished += 0 if outcome in TERMINAL else number
            returned += work.progress.returns_total
            waiting += counts[ReplayOutcome.SENT]
            stopped_keys += work.lineup.stopped_keys
        done = bool(self._shards) and not unfinished
        return WorkReport(
            self._moves.sent, outcomes, returned, waiting, stopped_keys, stopped, done, well
        )

    def _work(self, deadline: float) -> str:
        """Work until there is no time or nothing to do any more; returns why."""
        while True:
            now = self._clock()
            if now >= deadline - WIND_DOWN_SECONDS:
                return "the deadline is near"
            self._check(now)
            self._fill()
            for shard in self._shards.values():
                self._standings.look_up(shard)
            work = self._next_shard()
            if work is not None and not self._sending_ended:
                try:
                    if self._moves.move_some(work, deadline, self._ready_beside(work)):
                        self._turn += 1
                except SendingEnded as ended:
                    self._sending_ended = str(ended)
                self._save_now_and_then()
                continue
            if all(each.lineup.is_exhausted for each in self._shards.values()):
                return "all messages are at their end or stopped"
            if self._sending_ended and not self._awaits_outcomes():
                return self._sending_ended
            self._save_now_and_then()
            self._pause(deadline)

    def _check(self, now: float) -> None:
        """Raise SendingEnded if the run, the circuit or the backlog allows no more sends."""
        if now - self._limiter.seen_at >= LOOK_SECONDS:
            reason = why_not(run := self._limiter.look(self._setup.runs))
            if reason is not None and run.state is not RunState.CANARY:
                raise SendingEnded(reason)
            # A canary whose allowance was raised goes on.
            self._sending_ended = reason or ""
        if now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        self._check_failures()
        if self._plan.destination == DISCARD:
            return
        name = self._setup.pipeline.name
        for circuit in self._setup.circuits.read(with_config_keys([name])).values():
            if not circuit.is_closed:
                raise SendingEnded(f"circuit {circuit.key} is {circuit.state}")
        if self._plan.destination in (MAIN_QUEUE, DELIVER):
            if because := unwell(self._setup.trouble()):
                raise SendingEnded(because)
            waiting = self._setup.main.depth().visible
            if waiting > self._setup.pipeline.backlog_limit:
                raise SendingEnded(f"{waiting} messages wait in the main queue already")

    def _check_failures(self) -> None:
        """Raise SendingEnded if too many tries of this step have failed: the run is judged next.

        Each failed try uses up one of a letter's few.
        """
        known, failed = (now - then for now, then in zip(self._tries(), self._before, strict=True))
        if known >= self._plan.minimum and failed > self._plan.error_rate * known:
            raise SendingEnded(f"{failed} of {known} tries failed in this step")

    def _tries(self) -> tuple[int, int]:
        """The tries whose outcome is known, and those of them that failed."""
        found = [
            RunEvidence(
                outcomes=work.progress.counts(),
                returned=work.progress.returns_total,
                late=work.progress.late_total,
            )
            for work in self._shards.values()
        ]
        return sum(each.known for each in found), sum(each.failed for each in found)

    def _fill(self) -> None:
        most = MOST_IN_HAND // max(1, len(self._shards))
        for work in self._shards.values():
            letters, now = work.lineup.letters.values(), self._clock()
            waiting = sum(each.stage is RunStage.SENT or each.look_at > now for each in letters)
            # No more than are moved soon: each of them is looked at in every round.
            work.lineup.fill(min(most, waiting + READY_AHEAD))
            self._standings.read_trails(work)

    def _awaits_outcomes(self) -> bool:
        return any(
            letter.stage is RunStage.SENT
            for work in self._shards.values()
            for letter in work.lineup.letters.values()
        )

    def _pause(self, deadline: float) -> None:
        now = self._clock()
        looks = [
            max(letter.look_at, work.busy_until if letter.stage is RunStage.READY else 0.0)
            for work in self._shards.values()
            for letter in work.lineup.letters.values()
            if letter.stage is RunStage.SENT or not self._sending_ended
        ]
        until = min([*looks, now + LOOK_SECONDS, deadline - WIND_DOWN_SECONDS])
        self._setup.wait(min(LOOK_SECONDS, max(0.05, until - now)))

    def _save_now_and_then(self) -> None:
        if self._clock() - self._saved_at >= SAVE_SECONDS:
            self._saved_at = self._clock()
            save(self._setup.statuses, (work.progress for work in self._shards.values()))

    def _next_shard(self) -> ShardWork | None:
        """A shard with a letter to move, each in its turn; a turn lasts until it has moved some."""
        now = self._clock()
        works = list(self._shards.values())
        for step in range(len(works)):
            work = works[(self._turn + step) % len(works)]
            if work.busy_until <= now and work.ready(1, now):
                self._turn += step
                return work
        return None

    def _ready_beside(self, work: ShardWork) -> int:
        """Letters of other shards that are to be moved next, up to those of one grant."""
        now, ready = self._clock(), 0
        for other in self._shards.values():
            if ready < MOST_GRANTED and other is not work and other.busy_until <= now:
                ready += len(other.ready(MOST_GRANTED, now))
        return min(ready, MOST_GRANTED)
