"""Sends the letters of a replay run: by key in order, at the run's pace, each one once.

For up to ten letters of a shard at a time: intent, read the items consistently, judge, grant,
send, mark, tickets, delete. A letter is in the run's lane (its item), under way (its ticket) or
at its end (its outcome): a worker that ends anywhere leaves it in one of them for the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

from deadletter.circuit.state import Circuits
from deadletter.contract import Metric, run_lane, with_config_keys
from deadletter.failure.ledger import Ledger, LedgerUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import Queue, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.in_parallel import InParallel
from deadletter.redrive.journal import GRACE, Journal, OpenIntents, Slot
from deadletter.redrive.known_intents import KnownIntents, Reading
from deadletter.redrive.missing_facts import MissingFacts
from deadletter.redrive.mover import Left, Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import RouterClient
from deadletter.redrive.sending import LAST_SEND
from deadletter.redrive.stop_reason import ENDS_A_RUN, stop_reason
from deadletter.redrive.waiting_room import WaitingRoom, WaitingRoomEntry
from deadletter.replay.carried import CarriedLetters, DirectCarrier
from deadletter.replay.judge import FAILED, RunEvidence
from deadletter.replay.limiter import (
    GRANT_SECONDS,
    LOOK_SECONDS,
    Bids,
    RunLimiter,
    SendingEnded,
    most_letters,
    why_not,
)
from deadletter.replay.lineup import RunLetter, RunStage, ShardLineup
from deadletter.replay.names import Name
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.outcomes import learned, room_place, trails
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE, KeyPolicy, ReplayPlan
from deadletter.replay.plan_limits import Fates, is_own_circuit, is_send, within
from deadletter.replay.progress import ShardProgress, Statuses, StatusUnavailable, save
from deadletter.replay.run import ReplayRun, ReplayRuns, RunState, RunsUnavailable
from deadletter.replay.run_room import RunRoom
from deadletter.replay.shard_claim import CLAIM_SECONDS, ShardClaim
from deadletter.replay.ticket import (
    OUTSIDE,
    TERMINAL,
    ReplayOutcome,
    Ticket,
    Tickets,
    TicketsUnavailable,
    confirmation_by,
)
from deadletter.routing.decision import Redrive
from deadletter.routing.router import Router, Verdict
from deadletter.settings.pipeline import Pipeline

MOST_KEYS = 200
"""Ordering keys that a worker has open at once."""

MOST_IN_HAND = 5_000
"""Letters that a worker has in hand, most of them sent: more than outcomes take to become known."""

READY_AHEAD = 100
"""Letters of a shard that are in hand and not sent yet."""

SAVE_SECONDS = 10.0
"""Seconds between two saves of the status rows; a worker that is killed loses no more of it,
and all of it is in the tickets and in the ledger."""

CHECK_SECONDS = 5.0
"""Seconds between two looks at the pipeline's circuit and at the main queue's backlog."""

WIND_DOWN_SECONDS = 3.0
"""Seconds before the deadline in which no letter is moved any more."""

FIRST_LOOK, LONGEST_LOOK, LOOK_FACTOR = 0.5, 15.0, 1.6
"""Seconds from a send to the first look at its outcome, the longest pause between two looks, and
by how much each pause is longer than the one before."""

MOST_LOOKED_UP = 100
"""Letters whose outcomes are looked up together: what one request reads."""

ASIDE_SECONDS = 3.0
"""Seconds for which a letter that could not be moved is left alone."""

LONGEST_RETRY = 600.0
"""Seconds that a letter waits at most from one try to the next."""

MOST_MISSES = 5
"""Moves of a letter that came to nothing, after which the worker leaves it to the next one."""

_STORES: tuple[type[Exception], ...] = (
    *ENDS_A_RUN,
    RunsUnavailable,
    TicketsUnavailable,
    StatusUnavailable,
    ObjectsUnavailable,
)
_FAILED = frozenset({ReplayOutcome.PARKED, ReplayOutcome.QUARANTINED})


class ManifestParts(Protocol):
    """Reads the parts of a manifest. Raises ObjectsUnavailable."""

    def part(self, shard: int, part: int) -> Sequence[Name]: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayWorkerSetup:
    """Everything that a worker is given.

    shards      the shards of this worker, with the letters of each
    mover_for   makes the mover whose room is the given one
    carrier     takes letters where the destination is no queue
    owner       a text that no other worker has
    new_token   returns a text that no other grant has
    """

    pipeline: Pipeline
    plan: ReplayPlan
    run: ReplayRun
    shards: Mapping[int, int]
    manifest: ManifestParts
    runs: ReplayRuns
    bids: Bids
    tickets: Tickets
    statuses: Statuses
    ledger: Ledger
    room: WaitingRoom
    mover_for: Callable[[WaitingRoom], Mover]
    router: Router
    journal: Journal
    circuits: Circuits
    main: Queue
    tally: Tally
    owner: str
    clock: Callable[[], float]
    wait: Callable[[float], None]
    new_token: Callable[[], str]
    in_parallel: InParallel
    carrier: DirectCarrier | None = None


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
        return {
            "sent": self.sent,
            "outcomes": dict(self.outcomes),
            "returned": self.returned,
            "waiting": self.waiting,
            "stopped_keys": self.stopped_keys,
            "stopped": self.stopped,
            "done": self.done,
            "ended_well": self.ended_well,
        }


class _ShardWork:
    """One shard: its letters, its status and its claim."""

    def __init__(self, lineup: ShardLineup, progress: ShardProgress, claim: ShardClaim) -> None:
        self.lineup = lineup
        self.progress = progress
        self.claim = claim
        self.busy_until = 0.0


class ReplayWorker:
    """Moves the letters of some shards of one run, until `deadline` or until none is left."""

    def __init__(self, setup: ReplayWorkerSetup) -> None:
        self._setup = setup
        self._plan = setup.plan
        self._clock = setup.clock
        self._tally = setup.tally
        self._fates = Fates(setup.plan, setup.pipeline.consumer_library)
        self._room = RunRoom(setup.room, setup.tickets, setup.tally)
        self._mover = setup.mover_for(self._room)
        self._router = RouterClient(router=setup.router, tally=setup.tally)
        self._missing_facts = MissingFacts(setup.router, self._mover, setup.tally)
        self._known = KnownIntents(setup.journal, setup.clock)
        self._limiter = RunLimiter(
            bids=setup.bids,
            run=setup.run,
            clock=setup.clock,
            wait=setup.wait,
            new_token=setup.new_token,
        )
        self._shards: dict[int, _ShardWork] = {}
        self._sent = 0
        self._saved_at = setup.clock()
        self._checked_at = -1.0
        self._before = (0, 0)
        self._sending_ended = ""
        self._turn = 0
        self._is_carrying = False

    def run(self, deadline: float) -> WorkReport:
        """Work until `deadline` (epoch seconds). What raises is a fault of the program."""
        stopped, well = "", True
        try:
            self._open()
            stopped = self._work(deadline)
        except SendingEnded as ended:
            stopped = str(ended)
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
        keys = max(1, MOST_KEYS // max(1, len(setup.shards)))
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
            claim = ShardClaim(
                journal=setup.journal,
                known=self._known,
                run=setup.run.id,
                shard=shard,
                owner=setup.owner,
                clock=setup.clock,
                seconds=CLAIM_SECONDS + (setup.carrier.seconds if setup.carrier else 0.0),
            )
            self._shards[shard] = _ShardWork(lineup, progress, claim)
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
            self._sent, outcomes, returned, waiting, stopped_keys, stopped, done, well
        )

    # The loop

    def _work(self, deadline: float) -> str:
        """Work until there is no time or nothing to do any more; returns why."""
        while True:
            now = self._clock()
            if now >= deadline - WIND_DOWN_SECONDS:
                return "the deadline is near"
            self._check(now)
            self._fill()
            self._look_up()
            work = self._next_shard()
            if work is not None and not self._sending_ended:
                try:
                    self._move_some(work, deadline)
                except SendingEnded as ended:
                    self._sending_ended = str(ended)
                self._save_now_and_then()
                continue
            if all(shard.lineup.is_exhausted for shard in self._shards.values()):
                return "all letters are at their end or stopped"
            if self._sending_ended and not self._awaits_outcomes():
                return self._sending_ended
            self._save_now_and_then()
            self._pause(deadline)

    def _check(self, now: float) -> None:
        """Raise SendingEnded if the run, the circuit or the backlog allows no more sends."""
        if now - self._limiter.seen_at >= LOOK_SECONDS:
            reason = why_not(run := self._look_at_run())
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

    def _look_at_run(self) -> ReplayRun:
        """The run as it is now. Raises SendingEnded if it is unknown or may not send."""
        began = self._clock()
        run = self._setup.runs.read(self._setup.run.id)
        if run is None or not run.may_send:
            raise SendingEnded(why_not(run) or "")
        self._limiter.saw(run, began)
        return run

    def _fill(self) -> None:
        most = max(1, MOST_IN_HAND // max(1, len(self._shards)))
        for work in self._shards.values():
            letters, now = work.lineup.letters.values(), self._clock()
            waiting = sum(each.stage is RunStage.SENT or each.look_at > now for each in letters)
            # No more than are moved soon: each of them is looked at in every round.
            work.lineup.fill(min(most, waiting + READY_AHEAD))
            self._read_trails(work)

    def _read_trails(self, work: _ShardWork) -> None:
        """Find out where letters stand that have just come in hand."""
        unread = [
            letter for letter in work.lineup.letters.values() if letter.stage is RunStage.UNREAD
        ]
        for start in range(0, len(unread), MOST_LOOKED_UP):
            part = unread[start : start + MOST_LOOKED_UP]
            began = self._clock()
            found = trails(part, self._setup.tickets)
            self._sweep(work, [place for trail in found for place in trail.sent], found_by(found))
            for letter, trail in zip(part, found, strict=True):
                letter.copy, letter.place, letter.ticket = trail.copy, trail.place, trail.last
                letter.returns = max(letter.returns, trail.returns)
                if trail.tickets:
                    letter.known_at = began
                self._stand(work, letter, is_open=trail.is_open)

    def _stand(self, work: _ShardWork, letter: RunLetter, *, is_open: bool) -> None:
        """Put a letter where its tickets say that it stands."""
        ticket = letter.ticket
        if is_open or ticket is None:
            self._make_ready(work, letter)
            if self._is_stopped(work, letter):
                work.lineup.stop(letter)
        elif ticket.fate is ReplayOutcome.SENT:
            self._await_outcome(work, letter, ticket)
        elif ticket.fate in OUTSIDE:
            # Its ticket was put before it left: the item says whether it has.
            letter.stage, letter.bound = RunStage.READY, ticket.fate
        else:
            self._end(work, letter, ticket.fate)

    def _make_ready(self, work: _ShardWork, letter: RunLetter) -> None:
        """The letter is in the lane, to be sent; after a try that failed, not at once."""
        letter.stage = RunStage.READY
        if letter.ticket is not None and letter.returns:
            letter.look_at = letter.ticket.at + self._retry_pause(letter)
        has_come_back = letter.returns > work.progress.returned(letter.position)
        if has_come_back and self._is_forgiven(letter):
            work.progress.note_late(letter.position)
        work.progress.set(letter.position, ReplayOutcome.OPEN, letter.returns)

    def _retry_pause(self, letter: RunLetter) -> float:
        """Seconds from a try to the next one of a letter that has come back."""
        return min(LONGEST_RETRY, self._plan.retry_after * 2.0 ** (letter.returns - 1))

    def _sweep(
        self,
        work: _ShardWork,
        places: Sequence[tuple[str, str]],
        tickets: Mapping[str, Ticket],
    ) -> None:
        """Delete items that a worker left behind their tickets: the letters were sent."""
        entries = [self._entry(copy, place, work.progress.shard) for copy, place in places]
        for start in range(0, len(entries), MOST_LOOKED_UP):
            part = entries[start : start + MOST_LOOKED_UP]
            left = self._setup.room.read(part, self._clock() + LAST_SEND).letters
            if left:
                self._room.expect({_copy(received): tickets[_copy(received)] for received in left})
                self._room.delete(
                    [(received, confirmation_by(tickets[_copy(received)])) for received in left]
                )

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

    # Outcomes

    def _look_up(self) -> None:
        """Learn the outcomes of letters that were sent."""
        for work in self._shards.values():
            now = self._clock()
            awaited = [
                letter
                for letter in work.lineup.letters.values()
                if letter.stage is RunStage.SENT and letter.look_at <= now
            ]
            for start in range(0, len(awaited), MOST_LOOKED_UP):
                self._look_up_some(work, awaited[start : start + MOST_LOOKED_UP])

    def _look_up_some(self, work: _ShardWork, letters: Sequence[RunLetter]) -> None:
        now = self._clock()
        try:
            answers = learned(
                letters,
                ledger=self._setup.ledger,
                tickets=self._setup.tickets,
                now=now,
                timeout=self._plan.outcome_timeout,
            )
        except LedgerUnavailable as error:
            # Nothing is lost: it is looked up again, at the latest by the next worker.
            self._tally.note_trouble(str(error))
            answers = {}
        for letter in letters:
            answer = answers.get(letter)
            if answer is None:
                letter.looks += 1
                pause = FIRST_LOOK * LOOK_FACTOR ** min(letter.looks, 20)
                letter.look_at = now + min(LONGEST_LOOK, pause)
            elif answer.outcome is ReplayOutcome.OPEN:
                self._come_back(work, letter, answer.ticket, now)
            else:
                letter.ticket = answer.ticket
                self._end(work, letter, answer.outcome)

    def _come_back(self, work: _ShardWork, letter: RunLetter, ticket: Ticket, now: float) -> None:
        assert ticket.returned is not None, "a letter that came back has a new copy"
        assert ticket.returned_place is not None, "a copy in the waiting room has a place"
        letter.copy, letter.place = ticket.returned, room_place(ticket.returned_place)
        letter.ticket = ticket
        letter.returns += 1
        letter.known_at = now
        letter.maybe_sent = False
        letter.misses = 0
        self._make_ready(work, letter)

    def _await_outcome(self, work: _ShardWork, letter: RunLetter, ticket: Ticket) -> None:
        letter.stage, letter.ticket, letter.looks = RunStage.SENT, ticket, 0
        letter.look_at = self._clock() + FIRST_LOOK
        work.progress.set(letter.position, ReplayOutcome.SENT, letter.returns)

    def _end(self, work: _ShardWork, letter: RunLetter, outcome: ReplayOutcome) -> None:
        """The letter is at its end: its key goes on, or stops, as the plan says."""
        if outcome in FAILED and self._is_forgiven(letter):
            work.progress.note_late(letter.position)
        work.progress.set(letter.position, outcome, letter.returns)
        if self._stops_key(outcome, letter.ticket):
            work.lineup.stop(letter)
        else:
            work.lineup.done(letter)

    def _stops_key(self, outcome: ReplayOutcome, ticket: Ticket | None) -> bool:
        """Whether an ordering key waits behind this outcome until a person resumes the run."""
        unknown = outcome in (ReplayOutcome.UNKNOWN, ReplayOutcome.MISSING)
        policy = self._plan.on_unknown if unknown else self._plan.on_failure
        stops = policy is KeyPolicy.STOP and (unknown or outcome in _FAILED)
        at = ticket.at if ticket is not None else self._clock()
        return stops and at >= self._limiter.run.resumed_at

    def _is_stopped(self, work: _ShardWork, letter: RunLetter) -> bool:
        """Whether the letter before this one in its key stopped the key, in an earlier step."""
        if KeyPolicy.STOP not in (self._plan.on_failure, self._plan.on_unknown):
            return False
        name = work.lineup.before(letter)
        if name is None:
            return False
        outcome = work.progress.outcome(letter.position - 1)
        [trail] = trails(
            [RunLetter(name, letter.position - 1, name.copy, room_place(name.place))],
            self._setup.tickets,
        )
        if trail.last is None and self._limiter.run.resumed_at:
            return False
        return self._stops_key(outcome, trail.last)

    # Moving

    def _next_shard(self) -> _ShardWork | None:
        """A shard with a letter to move, each in its turn."""
        now = self._clock()
        works = list(self._shards.values())
        for step in range(len(works)):
            work = works[(self._turn + step) % len(works)]
            if work.busy_until <= now and self._ready(work, 1):
                self._turn = (self._turn + step + 1) % len(works)
                return work
        return None

    def _ready(self, work: _ShardWork, most: int) -> list[RunLetter]:
        now = self._clock()
        ready: list[RunLetter] = []
        for letter in work.lineup.letters.values():
            if letter.stage is RunStage.READY and letter.look_at <= now:
                ready.append(letter)
                if len(ready) == most:
                    break
        return sorted(ready, key=lambda letter: letter.position)

    def _move_some(self, work: _ShardWork, deadline: float) -> None:
        """Move some letters of a shard, if the pace allows it."""
        run = self._limiter.run
        most = most_letters(run)
        if run.state is RunState.CANARY:
            most = min(most, max(1, run.allowance))
        letters = self._ready(work, most)
        pause = self._limiter.seconds_until(len(letters))
        if pause:
            self._setup.wait(min(pause, LOOK_SECONDS, max(0.0, deadline - self._clock())))
            return
        known_at = max(letter.known_at for letter in letters)
        claimed = work.claim.intend([letter.copy for letter in letters], known_at)
        if claimed is None:
            work.busy_until = self._clock() + ASIDE_SECONDS
            return
        slot, reading, expires = claimed
        self._is_carrying = False
        try:
            self._move_claimed(work, letters, slot, reading, expires)
        except BaseException:
            # An intent under which letters may have been sent stands: its marks are needed.
            if not self._is_carrying:
                work.claim.hold(slot)
            raise
        work.claim.hold(slot)

    def _move_claimed(
        self,
        work: _ShardWork,
        letters: Sequence[RunLetter],
        slot: Slot,
        reading: Reading,
        expires: float,
    ) -> None:
        outward = reading.room_without(work.claim.name)
        free: list[RunLetter] = []
        for letter in letters:
            if reading.queue.is_busy(letter.copy) or outward.is_busy(letter.copy):
                letter.look_at = self._clock() + ASIDE_SECONDS
            else:
                free.append(letter)
        # The intent that put it in was never marked: its copy may still be in the queue, and
        # only our mark will tell that it must not be moved again.
        slot.keep([each.copy for each in free if reading.queue.may_be_in_room(each.copy)])
        here = self._read_items(work, free, expires)
        unmoved = self._settle_sent(work, here, outward, slot)
        if unmoved:
            self._move(work, unmoved, outward, slot, expires)

    def _entry(self, copy: str, place: str, shard: int) -> WaitingRoomEntry:
        return WaitingRoomEntry(copy, place, run_lane(self._setup.run.id), shard, 0.0)

    def _read_items(
        self, work: _ShardWork, letters: Sequence[RunLetter], expires: float
    ) -> dict[RunLetter, ReceivedLetter]:
        """The items of these letters that are still in the run's lane."""
        entries = [self._entry(each.copy, each.place, work.progress.shard) for each in letters]
        contents = self._setup.room.read(entries, expires + LAST_SEND)
        by_copy = {_copy(received): received for received in contents.letters}
        absent = [letter for letter in letters if letter.copy not in by_copy]
        if absent:
            self._explain_absence(work, absent, is_broken=contents.broken > 0)
        return {each: by_copy[each.copy] for each in letters if each.copy in by_copy}

    def _explain_absence(
        self, work: _ShardWork, letters: Sequence[RunLetter], *, is_broken: bool
    ) -> None:
        """Find out where letters are whose items are gone: another worker may have moved them."""
        found = trails(letters, self._setup.tickets)
        for letter, trail in zip(letters, found, strict=True):
            is_same = trail.copy == letter.copy
            letter.copy, letter.place, letter.ticket = trail.copy, trail.place, trail.last
            letter.returns = max(letter.returns, trail.returns)
            letter.known_at = self._clock()
            ticket = letter.ticket
            if not trail.is_open and ticket is not None:
                if ticket.fate in OUTSIDE:
                    self._end(work, letter, ticket.fate)
                else:
                    letter.bound = None
                    self._stand(work, letter, is_open=False)
            elif not is_same:
                self._make_ready(work, letter)
            elif is_broken:
                self._miss(letter)
            else:
                # Neither in the lane nor on a ticket. The index does not lie here: both were
                # read consistently, the item first.
                self._tally.note_trouble("a letter of the run is neither in its lane nor sent")
                self._end(work, letter, ReplayOutcome.MISSING)

    def _miss(self, letter: RunLetter) -> None:
        """Leave a letter alone that could not be moved; after several times, for this worker."""
        letter.misses += 1
        pause = ASIDE_SECONDS * letter.misses
        letter.look_at = float("inf") if letter.misses >= MOST_MISSES else self._clock() + pause

    def _settle_sent(
        self,
        work: _ShardWork,
        here: Mapping[RunLetter, ReceivedLetter],
        intents: OpenIntents,
        slot: Slot,
    ) -> dict[RunLetter, ReceivedLetter]:
        """Give letters their tickets that an earlier worker has sent; returns the others."""
        sent = {
            letter: confirmation
            for letter, received in here.items()
            if (confirmation := self._confirmation(_copy(received), intents)) is not None
        }
        if sent:
            self._tally.count(Metric.ALREADY_SENT, len(sent))
            recorded = self._missing_facts.write([here[letter] for letter in sent], intents)
            tickets = {
                letter.copy: self._ticket(work, letter, here[letter].stamp) for letter in sent
            }
            self._room.expect(tickets)
            self._room.delete(
                [
                    (here[letter], confirmation)
                    for letter, confirmation in sent.items()
                    if letter.copy in recorded
                ]
            )
            slot.keep([letter.copy for letter in sent if letter.copy not in self._room.gone])
            for letter in sent:
                self._after_move(work, letter, tickets[letter.copy])
        return {letter: received for letter, received in here.items() if letter not in sent}

    def _confirmation(self, copy: str, intents: OpenIntents) -> Confirmation | None:
        """The confirmation that a copy has left, by this worker or by one before it."""
        owed = self._room.owed(copy)
        if owed is not None:
            return confirmation_by(owed)
        return intents.confirmation_of(copy) or self._mover.confirmation_of(copy)

    def _ticket(self, work: _ShardWork, letter: RunLetter, stamp: Stamp | None) -> Ticket:
        """The ticket of a letter that is sent; its stamp is the one before the send."""
        if letter.bound is not None and letter.ticket is not None:
            return letter.ticket
        owed = self._room.owed(letter.copy)
        if owed is not None:
            return owed
        attempt = (stamp.attempt if stamp is not None else letter.name.attempt) + 1
        return self._new_ticket(work, letter, attempt, self._fates.sent)

    def _new_ticket(
        self, work: _ShardWork, letter: RunLetter, attempt: int, fate: ReplayOutcome
    ) -> Ticket:
        return Ticket(
            run=self._setup.run.id,
            origin=letter.origin,
            copy=letter.copy,
            shard=work.progress.shard,
            position=letter.position,
            attempt=attempt,
            at=self._clock(),
            fate=fate,
        )

    def _move(
        self,
        work: _ShardWork,
        here: Mapping[RunLetter, ReceivedLetter],
        outward: OpenIntents,
        slot: Slot,
        expires: float,
    ) -> None:
        """Judge letters, and move those that the grant covers."""
        orders = self._judged(work, here, outward)
        sends = {
            letter: order for letter, order in orders.items() if is_send(order.decision, self._plan)
        }
        others = {letter: order for letter, order in orders.items() if letter not in sends}
        until = min(expires, self._limiter.seen_at + GRANT_SECONDS)
        if sends:
            grant = self._limiter.take(len(sends), expires)
            if grant is None:
                sends = {}
            else:
                sends = dict(list(sends.items())[: grant.letters])
                until = grant.until
        elif self._clock() - self._limiter.seen_at >= LOOK_SECONDS:
            self._look_at_run()
            until = min(expires, self._limiter.seen_at + GRANT_SECONDS)
        going = {**sends, **others}
        if not going or self._clock() >= until:
            return
        tickets = {letter: self._ticket_of(work, letter, order) for letter, order in going.items()}
        self._room.expect({letter.copy: ticket for letter, ticket in tickets.items()})
        leaving = [tickets[letter] for letter in going if letter in others]
        if leaving:
            self._room.put_ahead(leaving)
        self._is_carrying = True
        carried = self._carry(
            [_locked_until(order, until + LAST_SEND) for order in going.values()], slot, until
        )
        self._is_carrying = False
        unknown = set(map(_copy, carried.left.unknown))
        stayed = set(map(_copy, carried.left.stayed))
        for letter in going:
            if letter.copy in self._room.gone:
                self._after_move(work, letter, tickets[letter], carried.outcomes.get(letter.copy))
            elif letter.copy in unknown:
                # It may have been sent. No worker touches it until its intent has ended.
                letter.maybe_sent = True
                letter.look_at = expires + GRACE + 1.0
            elif carried.outcomes.get(letter.copy) is ReplayOutcome.OPEN:
                self._try_again(work, letter, carried.retry_after)
            elif letter.copy in stayed and carried.retry_after:
                letter.look_at = self._clock() + carried.retry_after
            elif letter.copy in stayed:
                self._miss(letter)
            else:
                self._after_move(work, letter, tickets[letter])

    def _try_again(self, work: _ShardWork, letter: RunLetter, pause: float) -> None:
        """A direct delivery failed: the letter is where it was, one try the poorer."""
        letter.returns += 1
        letter.maybe_sent = False
        letter.look_at = self._clock() + max(ASIDE_SECONDS, pause, self._retry_pause(letter))
        work.progress.set(letter.position, ReplayOutcome.OPEN, letter.returns)

    def _carry(self, orders: Sequence[Order], slot: Slot, until: float) -> CarriedLetters:
        carrier = self._setup.carrier
        direct = [order for order in orders if isinstance(order.decision, Redrive)]
        if carrier is None or self._plan.destination not in (DELIVER, DISCARD) or not direct:
            return CarriedLetters(self._mover.move_from_room(orders, slot))
        others = [order for order in orders if not isinstance(order.decision, Redrive)]
        moved = self._mover.move_from_room(others, slot) if others else Left()
        carried = carrier.carry(direct, slot, self._room, until)
        return CarriedLetters(
            Left([*moved.stayed, *carried.left.stayed], [*moved.unknown, *carried.left.unknown]),
            carried.outcomes,
            carried.retry_after,
        )

    def _after_move(
        self,
        work: _ShardWork,
        letter: RunLetter,
        ticket: Ticket,
        outcome: ReplayOutcome | None = None,
    ) -> None:
        """Note where a letter stands that has left, or is about to."""
        if letter.copy not in self._room.gone:
            # It has left, and its item has not: the next try finds the confirmation.
            self._miss(letter)
            return
        letter.bound = None
        letter.ticket = ticket
        if outcome is not None and outcome is not ReplayOutcome.SENT:
            self._sent += 1
            self._end(work, letter, outcome)
        elif ticket.fate is ReplayOutcome.SENT:
            self._sent += 1
            self._await_outcome(work, letter, ticket)
        else:
            self._sent += ticket.fate is ReplayOutcome.DELIVERED
            self._end(work, letter, ticket.fate)

    # Judging

    def _verdicts(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Verdict]:
        """What the router says; of letters that a person throws away it is not asked."""
        if self._plan.destination != DISCARD:
            return self._router.verdicts(letters, served=True)
        decision = Redrive(0, f"replay run {self._setup.run.id}: discarded")
        return {
            (copy := _copy(received)): Verdict(copy, decision, received.stamp or Stamp(copy))
            for received in letters
        }

    def _judged(
        self,
        work: _ShardWork,
        here: Mapping[RunLetter, ReceivedLetter],
        outward: OpenIntents,
    ) -> dict[RunLetter, Order]:
        """What is done with each letter; one that stays for now is left out."""
        verdicts = self._verdicts(list(here.values()))
        orders: dict[RunLetter, Order] = {}
        for letter, received in here.items():
            verdict = verdicts.get(letter.copy)
            if verdict is None:
                self._miss(letter)
                continue
            answer = within(
                verdict.decision,
                verdict.stamp,
                self._plan,
                key_stops=letter.name.is_ordered,
                let_go=letter.bound is not None,
                forgiven=self._is_forgiven(letter),
            )
            if is_own_circuit(answer.decision, self._setup.pipeline.name):
                raise SendingEnded(answer.decision.because)
            if answer.waits:
                work.lineup.stop(letter)
                continue
            maybe_sent = letter.maybe_sent or outward.may_be_sent(letter.copy)
            orders[letter] = Order(received, answer.decision, answer.stamp, maybe_sent)
        return orders

    def _is_forgiven(self, letter: RunLetter) -> bool:
        """Whether a person has resumed the run since the letter's last try: it has one more."""
        ticket = letter.ticket
        return ticket is not None and ticket.at < self._limiter.run.resumed_at

    def _ticket_of(self, work: _ShardWork, letter: RunLetter, order: Order) -> Ticket:
        if letter.bound is not None and letter.ticket is not None:
            return letter.ticket
        return self._new_ticket(work, letter, order.stamp.attempt, self._fates.of(order.decision))


def _locked_until(order: Order, end: float) -> Order:
    """The order with a lock that ends then: the mover begins no send after it, less its margin."""
    return replace(order, received=replace(order.received, locked_until=end))


def found_by(found: Sequence[Any]) -> dict[str, Ticket]:
    """The tickets of all trails, by the copy that they stand for."""
    return {ticket.copy: ticket for trail in found for ticket in trail.tickets}


def _copy(received: ReceivedLetter) -> str:
    return received.letter.message_id
