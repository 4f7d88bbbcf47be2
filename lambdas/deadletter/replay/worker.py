"""Works on the letters of a replay run: by key in order, at the run's pace, each one once.

A letter is in the run's lane (its item), under way (its ticket) or at its end (its outcome): a
worker that ends anywhere leaves it in one of them for the next one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any

from deadletter.contract import with_config_keys
from deadletter.redrive.draining import Draining
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.turns import ENDS_A_RUN, stop_reason
from deadletter.replay.judge import RunEvidence, unwell
from deadletter.replay.limiter import (
    LOOK_SECONDS,
    MOST_GRANTED,
    SHORTEST_WAIT,
    RunLimiter,
    SendingEnded,
    why_not,
)
from deadletter.replay.lineup import RunLetter, RunStage, ShardLineup
from deadletter.replay.manifest import ShardProgress, StatusUnavailable, save
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE
from deadletter.replay.run import BadRunRow, RunState, RunsUnavailable
from deadletter.replay.run_lane import TicketedLane
from deadletter.replay.run_source import RunSource
from deadletter.replay.standing import ReplayWorkerSetup, Standings
from deadletter.replay.ticket import TERMINAL, ReplayOutcome, TicketsUnavailable

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


@dataclass(frozen=True, slots=True)
class WorkReport:
    """What a worker did in one step, and how its shards stand.

    sent       letters that it sent, delivered or discarded
    outcomes   letters of its shards by outcome, since the run began
    returned   tries whose letter came back, since the run began
    waiting    letters that it has sent and whose outcome is awaited
    stopped_keys  ordering keys that do not go on behind a failed letter
    stopped    why it ended
    done       whether all letters of its shards are at their end
    ended_well whether it could do its work
    """

    sent: int
    outcomes: Mapping[str, int]
    returned: int
    waiting: int
    stopped_keys: int
    stopped: str
    done: bool
    ended_well: bool = True

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


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
        self._room = TicketedLane(setup.room, setup.tickets, setup.tally)
        self._shards: dict[int, RunSource] = {}
        self._drains: dict[int, Draining] = {}
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
            )
            standings = Standings(setup, lineup, progress, self._room, self._limiter)
            source = RunSource(setup, standings, self._known, self._room, self._limiter)
            self._shards[shard] = source
            self._drains[shard] = Draining(setup, source, source)
        self._before = self._tries()

    def _close(self) -> bool:
        """Save what is known and give the shards up; returns whether all of it succeeded."""
        well = True
        try:
            save(self._setup.statuses, self._progress)
        except StatusUnavailable as error:
            # All of it is in the tickets and in the ledger: the next worker reads it there.
            self._tally.note_trouble(str(error))
            well = False
        for source in self._shards.values():
            try:
                source.close()
            except ENDS_A_RUN as error:
                self._tally.note_trouble(str(error))
                well = False
        return well

    def _report(self, stopped: str, well: bool) -> WorkReport:
        outcomes: dict[str, int] = {}
        sent = returned = waiting = stopped_keys = unfinished = 0
        for shard, source in self._shards.items():
            progress = source.standings.progress
            counts = progress.counts()
            known = sum(counts.values())
            counts[ReplayOutcome.OPEN] += self._setup.shards[shard] - known
            for outcome, number in counts.items():
                outcomes[outcome.name] = outcomes.get(outcome.name, 0) + number
                unfinished += 0 if outcome in TERMINAL else number
            returned += progress.returns_total
            waiting += counts[ReplayOutcome.SENT]
            stopped_keys += source.standings.lineup.stopped_keys
            sent += source.sent
        done = bool(self._shards) and not unfinished
        return WorkReport(sent, outcomes, returned, waiting, stopped_keys, stopped, done, well)

    def _work(self, deadline: float) -> str:
        """Work until there is no time or nothing to do any more; returns why."""
        while True:
            now = self._clock()
            if now >= deadline - WIND_DOWN_SECONDS:
                return "the deadline is near"
            self._check(now)
            self._fill()
            for each in self._shards.values():
                each.standings.look_up()
            source = self._next_shard()
            if source is not None and not self._sending_ended:
                try:
                    self._move_some(source, deadline)
                except SendingEnded as ended:
                    self._sending_ended = str(ended)
                self._save_now_and_then()
                continue
            if all(each.is_done for each in self._shards.values()):
                return "all messages are at their end or stopped"
            if self._sending_ended and not self._awaits_outcomes():
                return self._sending_ended
            self._save_now_and_then()
            self._pause(deadline)

    def _move_some(self, source: RunSource, deadline: float) -> None:
        """Move some letters of a shard, or wait until the pace allows it."""
        pause = source.pause()
        if pause:
            left = max(0.0, deadline - self._clock())
            self._setup.wait(min(max(pause, SHORTEST_WAIT), LOOK_SECONDS, left))
            return
        source.further = self._ready_beside(source)
        self._drains[source.shard].take_batch(MOST_GRANTED)
        self._turn += 1

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
                outcomes=progress.counts(),
                returned=progress.returns_total,
                late=progress.late_total,
            )
            for progress in self._progress
        ]
        return sum(each.known for each in found), sum(each.failed for each in found)

    @property
    def _progress(self) -> list[ShardProgress]:
        return [source.standings.progress for source in self._shards.values()]

    def _in_hand(self) -> Iterator[tuple[RunSource, RunLetter]]:
        for source in self._shards.values():
            for letter in source.standings.lineup.letters.values():
                yield source, letter

    def _fill(self) -> None:
        most = MOST_IN_HAND // max(1, len(self._shards))
        for source in self._shards.values():
            lineup, now = source.standings.lineup, self._clock()
            letters = lineup.letters.values()
            waiting = sum(each.stage is RunStage.SENT or each.look_at > now for each in letters)
            # No more than are moved soon: each of them is looked at in every round.
            lineup.fill(min(most, waiting + READY_AHEAD))
            source.standings.read_trails()

    def _awaits_outcomes(self) -> bool:
        return any(letter.stage is RunStage.SENT for _, letter in self._in_hand())

    def _pause(self, deadline: float) -> None:
        now = self._clock()
        looks = [
            max(letter.look_at, source.busy_until if letter.stage is RunStage.READY else 0.0)
            for source, letter in self._in_hand()
            if letter.stage is RunStage.SENT or not self._sending_ended
        ]
        until = min([*looks, now + LOOK_SECONDS, deadline - WIND_DOWN_SECONDS])
        self._setup.wait(min(LOOK_SECONDS, max(0.05, until - now)))

    def _save_now_and_then(self) -> None:
        if self._clock() - self._saved_at >= SAVE_SECONDS:
            self._saved_at = self._clock()
            save(self._setup.statuses, self._progress)

    def _next_shard(self) -> RunSource | None:
        """A shard with a letter to move, each in its turn; a turn lasts until it has moved some."""
        now = self._clock()
        sources = list(self._shards.values())
        for step in range(len(sources)):
            source = sources[(self._turn + step) % len(sources)]
            if source.ready(1, now):
                self._turn += step
                return source
        return None

    def _ready_beside(self, source: RunSource) -> int:
        """Letters of other shards that are to be moved next, up to those of one grant."""
        now, ready = self._clock(), 0
        for other in self._shards.values():
            if ready < MOST_GRANTED and other is not source:
                ready += len(other.ready(MOST_GRANTED, now))
        return min(ready, MOST_GRANTED)
