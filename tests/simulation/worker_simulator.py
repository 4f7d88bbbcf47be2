"""One seed, one schedule of the workers of a replay run alone: the real steps, worker, mover and
leaving over stores in memory, and a small model in place of the consumer, the redriver and the
router. A hundred times as many schedules as of whole runs fit into the same time.
"""

from __future__ import annotations

import heapq
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from random import Random
from typing import Any, Self

from deadletter.aws.replay_evidence import counted
from deadletter.contract import DISCARDED, Reason, run_lane
from deadletter.failure.ledger import LedgerRow, Recovery
from deadletter.message import stamp as stamps
from deadletter.message.envelope import Envelope
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import GRACE, key_of
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import never
from deadletter.replay.carriers import Delivering, DirectAnswer, DirectFate, Discarding
from deadletter.replay.judge import RunEvidence
from deadletter.replay.leaving import LeavingSetup, RunLeaving
from deadletter.replay.machine import (
    Frozen,
    ReplaySetup,
    ReplaySteps,
    Taken,
    replay_event,
    restarted,
)
from deadletter.replay.manifest import ManifestIndex
from deadletter.replay.names import Name, key_hash
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE, KeyPolicy, ReplayPlan, RunApproval
from deadletter.replay.reconcile import ReconcileSetup, reconcile
from deadletter.replay.run import ReplayRun, RunRefused, RunState, RunSum, aborted, held, resumed
from deadletter.replay.standing import ReplayWorkerSetup
from deadletter.replay.ticket import OUTSIDE, ReplayOutcome
from deadletter.replay.worker import ReplayWorker
from deadletter.routing.decision import Decision, Hold, Park, Redrive
from deadletter.routing.router import Question, RouterAnswer, Verdict
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Figure
from deadletter.testing.clock import START
from tests.simulation.replay_simulator import (
    LONGEST_STAND_STILL,
    PART,
    SHARDS,
    STEP_FAILURES,
)
from tests.simulation.replay_witness import STOPS_WITHIN, USED_WITHIN, check_window
from tests.simulation.scheduler import Crash, Fault, Process, Scheduler
from tests.simulation.stage import PRODUCER, in_turn, prompt_policy
from tests.simulation.witness import Broken
from tests.simulation.worker_stores import (
    LaneItem,
    MemoryCircuits,
    MemoryJournal,
    MemoryLedger,
    MemoryManifest,
    MemoryObjects,
    MemoryQueue,
    MemoryRoom,
    MemoryRuns,
    MemoryStatuses,
    MemoryTickets,
    Store,
    copies_in,
    unanswered,
)

KINDS = ("good", "good", "good", "good", "flaky", "poison", "refused", "done", "silent", "ruled")
"""What waits: a flaky letter comes back from its first try, poison from each; a refused one is
parked by the consumer, a done one was processed before, nobody learns of a silent one, and a
ruled one is stopped by a rule."""

DEEDS = ("hold", "resume", "abort", "abort to schedule", "start again", "flip")
"""What a person, or the world, does beside the run."""

FAULTS = (
    *(Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.ERROR, Fault.LOST, Fault.PAUSE, Fault.SLOW),
    Fault.HANG,
)
"""What strikes a call of a process; one that hangs may take effect or not."""

WEATHER = 240.0
"""Seconds that faults last at most: then everything is mended, and has to end."""

HEALING = 1_800.0
"""Seconds within which a run has ended once everything is mended."""

FUNCTION_LIFE = 300.0
MOST_TRIES = 3
STOPPED_TURNS = 4
"""Half minutes after which a person aborts a run that is held again and again."""

RULE_LANE = "rule:slow"

GRANT_TO_SEND = ("bid", "bid", "bid", "put", "send", "wait", "write", "read", "decide")
"""The calls from a grant to the last send under it. What is granted beyond the letters of one shard
is kept for the next one's: a whole move may lie between."""


@dataclass(frozen=True, slots=True)
class WorkerShape:
    """What a schedule is made of; the rest follows from the seed.

    `faults` is the rate of faults, at the calls with the names in `struck`, or at all.
    Behind half of the calls with the names in `stands_behind` the process stands still; a person
    meanwhile does one of `stopped_by`.
    """

    kinds: tuple[str, ...] = ("good",)
    destination: str = MAIN_QUEUE
    ordered: bool = True
    keys: int = 2
    canary: tuple[int, ...] = (1,)
    rate: float = 5.0
    burst: int = 10
    tries: int = 2
    retry_after: float = 3.0
    error_rate: float = 1.0
    on_failure: KeyPolicy = KeyPolicy.GO
    outcome_timeout: float = 60.0
    machines: int = 1
    workers: int = 1
    skew: float = 0.0
    deeds: tuple[str, ...] = ()
    deeds_after: float = 20.0
    slowest: float = 3.0
    keep_export: bool = True
    faults: float = 0.0
    fault_kinds: tuple[Fault, ...] = FAULTS
    struck: tuple[str, ...] = ()
    stands_behind: tuple[str, ...] = ()
    stopped_by: tuple[str, ...] = ()


def worker_shape(seed: int) -> WorkerShape:
    """The shape of the random schedule with this seed."""
    random = Random(seed * 8_009 + 41)
    number = random.randint(1, 5)
    return WorkerShape(
        kinds=tuple(random.choice(KINDS) for _ in range(number)),
        destination=random.choice((MAIN_QUEUE, MAIN_QUEUE, MAIN_QUEUE, DELIVER, DISCARD)),
        ordered=random.random() < 0.7,
        keys=random.choice((1, 2)),
        canary=random.choice(((1,), (2,), (1, 2), (5,))),
        rate=random.choice((0.5, 5.0, 5.0)),
        burst=random.choice((1, 10)),
        tries=random.choice((1, 2, 3)),
        retry_after=random.choice((0.0, 3.0)),
        error_rate=random.choice((1.0, 1.0, 0.4)),
        on_failure=random.choice((KeyPolicy.GO, KeyPolicy.GO, KeyPolicy.STOP)),
        machines=random.choice((1, 1, 2)),
        workers=random.choice((1, 1, 2)),
        skew=random.choice((0.0, 1.0)),
        deeds=tuple(random.choice(DEEDS) for _ in range(random.choice((0, 0, 1, 2)))),
        deeds_after=random.choice((5.0, 20.0, 40.0)),
        slowest=random.choice((1.0, 1.0, 20.0)),
        keep_export=random.random() < 0.5,
        faults=random.choice((0.0, 0.02, 0.05, 0.1)),
        fault_kinds=FAULTS if random.random() < 0.5 else (random.choice(FAULTS),),
    )


@dataclass(eq=False, slots=True)
class LetterTruth:
    """What has really become of a letter of the run."""

    origin: str
    kind: str
    key: str | None
    number: int
    sends: int = 0
    returns: int = 0
    began: float = 0.0
    lives: int = 0
    copies: int = 0
    is_done: bool = False
    is_parked: bool = False
    sent_copies: set[str] = field(default_factory=set)

    @property
    def is_under_way(self) -> bool:
        """Whether a send of it has neither come back nor ended."""
        return self.sends > self.returns and not self.is_done and not self.is_parked


Event = tuple[float, int, Callable[[], None]]


class WorkerSimulation:
    """One schedule of a run, ended and then healed; raises Broken at the first broken promise.

    It is made and run within `smaller_run`.
    """

    def __init__(self, seed: int, shape: WorkerShape) -> None:
        self.shape = shape
        self._random = Random(seed)
        self._faults = Random(seed * 31 + 7)
        self.scheduler = Scheduler(seed, START, lambda *_: None)
        self.log = self.scheduler.log
        self._events: list[Event] = []
        self._numbers = itertools.count()
        self._is_healing = False
        self._end = START + WEATHER
        self.counts: Counter[str] = Counter()
        self._published = 0
        self._extra = 0
        self._lost_notes = 0
        self._strikes = 0
        self._stopped: float | None = None
        self._resumes = 0
        self._resumed_at = 0.0
        self._allowed = 0
        self._allowance = 0
        self._canaries = 0
        self._state = RunState.CANARY
        self._sent_at: list[float] = []
        self._last_effect: dict[str, int] = {}
        self._marked: set[bytes] = set()
        self._ticketed: dict[str, float] = {}
        self._looked: dict[Process, float] = {}
        self.started: set[str] = set()
        self.running: set[str] = set()
        self._pipeline = Pipeline("orders", policy=prompt_policy(), consumer_library=True)
        self.plan = self._plan()
        # It is the hash of the whole plan, each time anew.
        self.run_id = self.plan.run_id
        self.lane = run_lane(self.run_id)
        self.letters = self._letters()
        self._by_origin = {letter.origin: letter for letter in self.letters}
        self._create_world()

    def _plan(self) -> ReplayPlan:
        shape = self.shape
        return ReplayPlan(
            pipeline="orders",
            destination=shape.destination,
            rate=shape.rate,
            burst=shape.burst,
            canary=shape.canary,
            ramp=(1.0,),
            ramp_seconds=20.0,
            error_rate=shape.error_rate,
            attempts=shape.tries,
            retry_after=shape.retry_after,
            on_failure=shape.on_failure,
            ordered=shape.ordered,
            outcome_timeout=shape.outcome_timeout,
            workers=shape.workers,
            keep_export=shape.keep_export,
            created=START,
            expires=START + 86_400,
        )

    def _letters(self) -> list[LetterTruth]:
        keys = self.shape.keys
        return [
            LetterTruth(
                origin=f"{number:08x}-0000-4000-8000-{self._random.getrandbits(48):012x}",
                kind=kind,
                key=f"k{number % keys}" if self.shape.ordered else None,
                number=number,
                is_done=kind == "done",
            )
            for number, kind in enumerate(self.shape.kinds)
        ]

    def _create_world(self) -> None:
        run_id, lane = self.run_id, self.lane
        names: defaultdict[int, list[Name]] = defaultdict(list)
        items: dict[str, LaneItem] = {}
        for each in self.letters:
            name = Name(
                copy=each.origin,
                origin=each.origin,
                place=("room", each.origin),
                key=key_hash(each.key or each.origin),
                sequence=f"{each.number:09}",
                first_sent=int(START * 1000),
            )
            stamp = Stamp(
                each.origin,
                first_sent=int(START * 1000),
                sender=PRODUCER,
                run=run_id,
                spared=1,
                decision="HOLD",
            )
            letter = Letter(each.origin, f'{{"n": {each.number}}}')
            items[each.origin] = LaneItem(letter, each.origin, lane, name.shard, stamp)
            names[name.shard].append(name)
        for shard in names.values():
            shard.sort(key=lambda name: name.sort_key)
        self.index = ManifestIndex(tuple(len(names[shard]) for shard in range(SHARDS)), "hash")
        self.manifest = MemoryManifest(names, PART)
        self.runs = MemoryRuns(
            ReplayRun(
                id=run_id,
                pipeline="orders",
                state=RunState.CANARY,
                messages=len(self.letters),
                created=START,
                started=START,
                expires=self.plan.expires,
            )
        )
        self.runs.on_change = self._look_at_run
        self.room = MemoryRoom(items)
        self.room.on_delete = self._check_delete
        self.room.on_move = self._check_move
        self.tickets, self.statuses = MemoryTickets(), MemoryStatuses()
        self.ledger, self.journal = MemoryLedger(), MemoryJournal()
        self.objects, self.circuits = MemoryObjects(), MemoryCircuits()
        self.main, self.parking = MemoryQueue(self._accepted), MemoryQueue(self._parked)

    def run(self) -> Self:
        """Run, heal, check."""
        for _ in range(self.shape.machines):
            self.started.discard(self.runs.run.execution)
            self.start(self.runs.run)
        if self.shape.deeds:
            self.scheduler.add(self._person)
        self.scheduler.run()
        self._is_healing = True
        self.circuits.is_open = False
        self._end = self.scheduler.now + HEALING
        self.scheduler.add(self._watch)
        self.scheduler.run()
        self._check_end()
        return self

    # The machine

    def start(self, run: ReplayRun) -> None:
        """Start an execution, unless one with its name was started before."""
        if run.execution in self.started:
            return
        self.started.add(run.execution)
        number = len(self.started)
        self.scheduler.add(lambda: self._execute(f"replay{number}", run.execution))

    def answer(self, token: str) -> None:
        raise AssertionError("no run here waits for an approval")

    def _execute(self, name: str, execution: str) -> None:
        self.running.add(execution)
        event: dict[str, Any] = {"run": self.run_id, "execution": execution, "loops": 0}
        step, numbers = "preflight", itertools.count()
        while self.scheduler.now < self._end:
            answer = self._step({**event, "step": step}, name, numbers)
            if answer is None or answer["next"] in ("done", "hand over"):
                break
            event["loops"], step = answer["loops"], answer["next"]
            if step == "work":
                self.scheduler.in_parallel(
                    [
                        partial(
                            self._step,
                            {**event, "step": "work", "worker": worker},
                            f"{name}w{at}",
                            numbers,
                        )
                        for at, worker in enumerate(answer["workers"])
                    ]
                )
                step = "judge"
            if step == "wait":
                self.scheduler.sleep(min(answer["wait_seconds"], 20.0))
                step = "judge"
            self.scheduler.sleep(1.0)
        self.running.discard(execution)

    def _step(
        self, event: Mapping[str, Any], name: str, numbers: Iterator[int]
    ) -> Mapping[str, Any] | None:
        """One step, each try by a new process; None if the execution is lost."""
        for _ in range(MOST_TRIES):
            skew = (self._random.random() * 2 - 1) * self.shape.skew
            process = Process(f"{name}.{next(numbers)}", skew)
            process.ends = self.scheduler.now + FUNCTION_LIFE
            try:
                return self._steps(process).take(replay_event(event), process.ends + process.skew)
            except Crash:
                self._check_equation()
                self.scheduler.sleep(1.0)
            except STEP_FAILURES:
                self.scheduler.sleep(1.0)
        return None

    def _steps(self, process: Process) -> ReplaySteps:
        return ReplaySteps(ProcessParts(self, process).setup())

    # What a process calls

    def call(
        self,
        process: Process,
        store: str,
        name: str,
        act: Callable[..., Any],
        arguments: Sequence[Any],
    ) -> Any:
        """One call of a process: others may come first, and a fault may strike it."""
        if process.dead:
            raise Crash
        random, fault = self._faults, None
        if self._may_strike(name) and random.random() < self.shape.faults:
            fault = random.choice(self.shape.fault_kinds)
            self._strikes += 1
        self._lost_notes += fault is not None and name == "postpone"
        called = f"{store}.{name}"
        self.log.append((self.scheduler.now, process.name, called, fault))
        answering = partial(self._answer, process, store, name, act, arguments, fault)
        return self.scheduler.heard(process, called, arguments, fault, answering)

    def _answer(
        self,
        process: Process,
        store: str,
        name: str,
        act: Callable[..., Any],
        arguments: Sequence[Any],
        fault: Fault | None,
    ) -> Any:
        random = self._faults
        if store == "main" and name == "send":
            self._beginning(process, [(each.copy, each.stamp) for each in arguments[0]])
        elif name == "send" or (
            f"{store}.{name}" == "objects.put" and arguments[0].startswith(DISCARDED)
        ):
            self._check_stopped(process)
        if fault is Fault.PAUSE:
            # Longer than a claim stands, or not.
            self.wait(process, random.choice((5.0, 40.0, 90.0)))
        elif fault is Fault.HANG:
            fault = random.choice((Fault.ERROR, Fault.LOST))
            self.wait(process, 6.0)
        self.wait(process, 0.001 + random.random() * 0.03)
        if fault is Fault.CRASH_BEFORE:
            self._kill(process)
        if fault is Fault.ERROR:
            self.stand_still(process, name)
            return unanswered(store, name, arguments, applied=False)
        self.happen()
        if name == "mark":
            self._note_marks(arguments[0])
        answer = act(*arguments)
        self._note_taken(process, f"{store}.{name}", arguments)
        if fault is Fault.CRASH_AFTER:
            self._kill(process)
        if fault is Fault.SLOW:
            self.wait(process, 0.2 + random.random() * 5)
        if fault is Fault.LOST:
            return unanswered(store, name, arguments, applied=True)
        self.stand_still(process, name)
        return answer

    def stand_still(self, process: Process, behind: str) -> None:
        """The process may stand still behind a call, and a person may stop the run meanwhile."""
        shape, random = self.shape, self._faults
        if self._is_healing or behind not in shape.stands_behind or random.random() < 0.5:
            return
        self._strikes += 1
        seconds = LONGEST_STAND_STILL ** random.random()
        if shape.stopped_by:
            deed, after = random.choice(shape.stopped_by), seconds * random.random()
            self.scheduler.add(lambda: (self.scheduler.sleep(after), self._change(deed))[1])
        self.wait(process, seconds)

    def _may_strike(self, name: str) -> bool:
        struck = self.shape.struck
        return not self._is_healing and (not struck or name in struck)

    def wait(self, process: Process, seconds: float) -> None:
        """Let a process's time pass; it may be killed meanwhile."""
        if self.scheduler.now + seconds >= process.ends:
            self.scheduler.sleep(process.ends - self.scheduler.now)
            self._kill(process)
        self.scheduler.sleep(seconds)

    def _kill(self, process: Process) -> None:
        process.dead = True
        self._strikes += 1
        raise Crash

    def happen(self) -> None:
        """Let everything happen that is due by now."""
        events = self._events
        while events and events[0][0] <= self.scheduler.now:
            heapq.heappop(events)[2]()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        at = self.scheduler.now + seconds
        heapq.heappush(self._events, (at, next(self._numbers), act))

    def published(self, metric: str, number: int) -> None:
        """A process has counted a metric where it outlives the process."""
        if metric == Figure.POSSIBLE_DUPLICATE:
            self._published += number

    # The consumer and the redriver, as a small model

    def _accepted(self, envelope: Envelope) -> None:
        """The main queue has taken a letter."""
        letter = self._by_origin[envelope.stamp.origin]
        self._note_send(letter, envelope.copy)
        self.main.waiting += 1
        pause = 0.1 + self._random.random() * self.shape.slowest
        self.later(pause, partial(self._received, letter, envelope.stamp))

    def _received(self, letter: LetterTruth, stamp: Stamp) -> None:
        """The consumer has got a letter."""
        self.main.waiting -= 1
        if letter.kind == "silent":
            return
        fails = letter.kind == "poison" or (letter.kind == "flaky" and not letter.lives)
        letter.lives += 1
        if fails:
            self.later(0.5 + self._random.random() * 3, partial(self._redriven, letter, stamp))
        elif letter.kind == "refused":
            self._refused(letter, stamp.attempt)
        else:
            self._processed(letter, stamp.attempt)

    def _redriven(self, letter: LetterTruth, stamp: Stamp) -> None:
        """A letter has died again: it goes back to its run, or into the parking lot."""
        key = (letter.origin, str(stamp.ticket))
        ticket = self.tickets.stored.get(key)
        if self.runs.run.is_live and ticket is None:
            # The room takes none without its ticket: the next run of the redriver tries again.
            self.later(5.0, partial(self._redriven, letter, stamp))
            return
        awaits = (
            self.runs.run.is_live
            and ticket is not None
            and ticket.fate is ReplayOutcome.SENT
            and ticket.returned is None
        )
        if not awaits or ticket is None:
            letter.is_parked = True
            return
        letter.returns += 1
        letter.copies += 1
        copy = f"{letter.number:08x}-{letter.copies:04x}-4000-9000-{letter.origin[-12:]}"
        self.tickets.stored[key] = replace(
            ticket, returned=copy, returned_place=f'["room", "{copy}"]'
        )
        self.room.items[copy] = LaneItem(
            Letter(copy, f'{{"n": {letter.number}}}'),
            copy,
            self.lane,
            ticket.shard,
            replace(stamp, decision="HOLD"),
        )

    def _parked(self, envelope: Envelope) -> None:
        self._by_origin[envelope.stamp.origin].is_parked = True

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        """The router: a rule stops some letters, every other one is sent."""
        return RouterAnswer(tuple(map(self._verdict, questions)))

    def _verdict(self, question: Question) -> Verdict:
        stamp, copy = question.stamp, question.letter.message_id
        assert stamp is not None, "a letter in custody has a stamp"
        kind = self._by_origin[stamp.origin].kind
        decision: Decision
        if kind == "ruled" and stamp.origin[-1] in "01234567":
            decision = Hold(RULE_LANE, never(question.letter), "a rule", "slow")
            return Verdict(copy, decision, replace(stamp, decision="HOLD", rule="slow"))
        if kind == "ruled":
            decision = Park(Reason.POISON, "a rule", "stop")
            parked = replace(stamp, decision="PARK", reason=str(Reason.POISON))
            return Verdict(copy, decision, parked)
        decision = Redrive(0, "replay run")
        sent = replace(stamp, attempt=stamp.attempt + 1, ticket=copy, decision="REDRIVE")
        return Verdict(copy, decision, sent)

    def deliver(self, process: Process, letters: Sequence[tuple[Letter, Stamp]]) -> DirectAnswer:
        """The consumer function, invoked directly."""
        self._beginning(process, [(letter.message_id, stamp) for letter, stamp in letters])
        for letter, stamp in letters:
            self._note_send(self._by_origin[stamp.origin], letter.message_id)
        self.wait(process, 0.1 + self._random.random() * self.shape.slowest)
        self.happen()
        fates = {
            letter.message_id: self._delivered(self._by_origin[stamp.origin], stamp)
            for letter, stamp in letters
        }
        struck = self._faults.random()
        if self.shape.faults and not self._is_healing and struck < 2 * self.shape.faults:
            self._strikes += 1
            if struck < self.shape.faults:
                self._kill(process)
            return DirectAnswer()
        slow = DirectFate.FAILED in fates.values() and self._random.random() < 0.3
        return DirectAnswer(fates, 4.0 if slow else 0.0)

    def _delivered(self, letter: LetterTruth, stamp: Stamp) -> DirectFate:
        fails = letter.kind == "poison" or (letter.kind == "flaky" and not letter.lives)
        letter.lives += 1
        if fails:
            letter.returns += 1
            return DirectFate.FAILED
        if letter.kind == "refused":
            self._refused(letter, stamp.attempt)
            return DirectFate.PARKED
        is_again = letter.is_done
        self._processed(letter, stamp.attempt)
        if letter.kind == "silent":
            self._strikes += 1
            return DirectFate.UNKNOWN
        return DirectFate.DUPLICATE if is_again else DirectFate.RECOVERED

    def _processed(self, letter: LetterTruth, attempt: int) -> None:
        how = Recovery.DUPLICATE if letter.is_done else Recovery.PROCESSED
        self._effect(letter)
        row = self.ledger.stored.get(letter.origin, LedgerRow())
        if row.recovered_attempt is None or row.recovered_attempt < attempt:
            self.ledger.stored[letter.origin] = replace(
                row,
                recovered_at=self.scheduler.now,
                recovered_attempt=attempt,
                recovered_as=how,
            )

    def _refused(self, letter: LetterTruth, attempt: int) -> None:
        letter.is_parked = True
        row = self.ledger.stored.get(letter.origin, LedgerRow())
        self.ledger.stored[letter.origin] = replace(row, ended_attempt=attempt, ended_as="parked")

    # What a person does

    def _person(self) -> None:
        for deed in self.shape.deeds:
            self.scheduler.sleep(self._random.random() * self.shape.deeds_after)
            self.happen()
            if deed == "flip":
                self.circuits.is_open = not self.circuits.is_open
            elif deed == "start again":
                self._restart()
            else:
                self._change(deed)

    def _change(self, deed: str) -> None:
        run, now = self.runs.run, self.scheduler.now
        try:
            if deed == "hold":
                after = held(run, at=now, by="ana", because="a look at it")
            elif deed == "resume":
                after = resumed(run, at=now, by="ana")
            else:
                to = "schedule" if deed == "abort to schedule" else "parked"
                after = aborted(run, at=now, by="ana", because="enough", leave_to=to)
        except RunRefused:
            return
        self.runs.change(run, after)

    def _restart(self) -> None:
        run = self.runs.run
        after = replace(restarted(run, self.scheduler.now), left=False)
        self.runs.change(run, after)
        self.start(after)

    def _watch(self) -> None:
        """What the watch and a person do each half minute until the run has ended."""
        for turn in itertools.count():
            self.scheduler.sleep(30.0)
            self.happen()
            run = self.runs.run
            has_ended = not run.is_live and run.left and not copies_in(self.room.items, self.lane)
            if self.scheduler.now > self._end or has_ended:
                return
            if run.state is RunState.BROKEN:
                raise Broken(f"the run is BROKEN: {run.because}")
            if run.execution not in self.running:
                self._restart()
            if run.state is RunState.HELD:
                self._change("resume" if turn < STOPPED_TURNS else "abort")
            elif turn > 3 * STOPPED_TURNS and run.is_live:
                self._change("abort")

    # The witness

    def _look_at_run(self) -> None:
        """See what has become of the run."""
        run, now = self.runs.run, self.scheduler.now
        if run.may_send:
            if self._state is RunState.HELD:
                self._resumes, self._resumed_at = self._resumes + 1, now
            self._stopped = None
        elif self._stopped is None:
            self._stopped = now
        if run.allowance > self._allowance:
            self._allowed += run.allowance - self._allowance
        self._allowance = run.allowance
        self._state = run.state

    def _check_stopped(self, process: Process) -> None:
        """A send, a delivery or a discard is about to begin: the run allows it, or did just now."""
        if self._stopped is None:
            return
        late = self.scheduler.now - self._stopped
        if late > STOPS_WITHIN:
            raise Broken(f"{process.name} sends {late:.1f} s after the run was {self._state}")

    def _beginning(self, process: Process, sends: Sequence[tuple[str, Stamp]]) -> None:
        """Sends to the consumer are about to begin."""
        self._check_stopped(process)
        now = self.scheduler.now
        for copy, stamp in sends:
            letter = self._by_origin[stamp.origin]
            ticket = self.tickets.stored.get((letter.origin, copy))
            if key_of(copy) in self._marked:
                raise Broken(f"{process.name} sends number {letter.number} behind its mark")
            is_sent = ticket is not None and ticket.fate not in OUTSIDE
            # A process that slept since it sent may put its ticket at any moment. Until then the
            # letter is sent again, and counted.
            is_late = is_sent and self._ticketed[copy] >= self._looked.get(process, now)
            if is_sent and not is_late:
                raise Broken(f"{process.name} sends number {letter.number} behind its ticket")
            if ticket is not None and not is_sent:
                raise Broken(f"{process.name} sends number {letter.number}, which has left")
            if copy not in self.room.items and not is_late:
                raise Broken(f"{process.name} sends number {letter.number}, which is gone")
            if stamp.attempts_used > self._tries():
                raise Broken(f"number {letter.number} is sent {stamp.attempts_used} times")
            if self.shape.ordered:
                self._check_order(process, letter)
            letter.began = now

    def _tries(self) -> int:
        """A person who resumes a run grants the letter in front one try more.

        A try within the clocks' difference after that may count as one before it.
        """
        stops = self.shape.ordered and self.shape.on_failure is KeyPolicy.STOP
        granted = self._resumes * (2 if self.shape.skew else 1)
        return self.shape.tries + (granted if stops else 0)

    def _check_order(self, process: Process, letter: LetterTruth) -> None:
        """A letter may start only while no other one of its key is in the way."""
        for other in self.letters:
            if other is letter or other.key != letter.key:
                continue
            if other.is_under_way and not self._is_given_up(other):
                raise Broken(
                    f"{process.name} sends number {letter.number} while {other.number} is under way"
                )
            if self._is_stopped_by(other) and other.number < letter.number:
                raise Broken(f"{process.name} sends number {letter.number}, whose key has stopped")
            # Of a letter that was sent twice, one copy may come back after the other is processed.
            is_settled = other.is_done and other.sends > 0
            if other.number < letter.number and not is_settled and self._is_in_lane(other):
                raise Broken(
                    f"{process.name} sends number {letter.number} before {other.number} is settled"
                )

    def _is_stopped_by(self, letter: LetterTruth) -> bool:
        """Whether a key stops behind this letter, and no person has resumed the run since."""
        return (
            self.shape.on_failure is KeyPolicy.STOP
            and letter.kind == "refused"
            and letter.is_parked
            and letter.began > self._resumed_at + 2 * self.shape.skew + 1
            and not self._is_given_up(letter)
        )

    def _is_given_up(self, letter: LetterTruth) -> bool:
        waited = self.scheduler.now - letter.began
        return waited >= self.plan.outcome_timeout - 2 * self.shape.skew - 5

    def _is_in_lane(self, letter: LetterTruth) -> bool:
        # What was sent and not deleted yet is at its end, or under way.
        return any(
            item.lane == self.lane
            and item.stamp.origin == letter.origin
            and copy not in letter.sent_copies
            for copy, item in self.room.items.items()
        )

    def _note_send(self, letter: LetterTruth, copy: str) -> None:
        """A queue or a consumer has a letter now."""
        is_again = copy in letter.sent_copies and self.shape.destination != DELIVER
        if is_again or letter.sends > letter.returns:
            self._note_extra(letter)
        else:
            letter.sends += 1
        # A failed direct delivery whose try could not be noted is tried once more.
        uncounted = self._published + self._lost_notes if self.shape.destination == DELIVER else 0
        if letter.sends > self._tries() + uncounted:
            raise Broken(f"number {letter.number} is sent in {letter.sends} lives")
        letter.sent_copies.add(copy)
        self._sent_at.append(self.scheduler.now)
        if self._state is RunState.CANARY and self.shape.destination != DISCARD:
            self._canaries += 1
            if self._canaries > self._allowed:
                raise Broken(f"{self._canaries} canaries are sent of {self._allowed}")
        self.counts["letters sent"] += 1

    def _note_extra(self, letter: LetterTruth) -> None:
        """A letter is under way twice: each time, a possible duplicate was counted before."""
        self._extra += 1
        self.counts["sent twice, and counted"] += 1
        if self._extra > self._published:
            raise Broken(f"number {letter.number} is under way twice")

    def _note_taken(self, process: Process, call: str, arguments: Sequence[Any]) -> None:
        """A call that the witness goes by has taken effect."""
        now = self.scheduler.now
        if call == "room.read":
            self._looked[process] = now
        elif call == "tickets.put":
            for ticket in arguments[0]:
                self._ticketed.setdefault(ticket.copy, now)

    def _note_marks(self, intent: Any) -> None:
        """A process marks what it has sent: no other one has its shard before that time is over."""
        if self.scheduler.now > intent.expires + GRACE - 2 * self.shape.skew:
            return
        for position, key in enumerate(intent.packed.keys()):
            if intent.is_sent(position):
                self._marked.add(key)

    def _effect(self, letter: LetterTruth) -> None:
        """A handler has had its effect: the first one of each letter is in the key's order."""
        if letter.is_done:
            return
        letter.is_done = True
        if letter.key is not None:
            last = self._last_effect.get(letter.key, -1)
            if letter.number < last and not self._is_given_up(letter):
                raise Broken(f"number {letter.number} has its effect after number {last}")
            self._last_effect[letter.key] = max(last, letter.number)

    def _check_delete(self, copy: str) -> None:
        """An item leaves the lane only behind its ticket, and after it has gone somewhere."""
        origin = self.room.items[copy].stamp.origin
        letter = self._by_origin[origin]
        ticket = self.tickets.stored.get((origin, copy))
        if ticket is None:
            raise Broken(f"number {letter.number} leaves the lane without a ticket")
        if self.shape.destination == DISCARD and ticket.fate is ReplayOutcome.DISCARDED:
            letter.is_parked = True
            if self.shape.keep_export and f"discarded/{copy}.json" not in self.objects.stored:
                raise Broken(f"number {letter.number} is discarded and not exported")
        elif copy not in letter.sent_copies and not letter.is_parked:
            raise Broken(f"number {letter.number} is deleted and was not sent")

    def _check_move(self, item: LaneItem, before: str) -> None:
        if item.lane == self.lane:
            return
        letter = self._by_origin[item.stamp.origin]
        copy = item.letter.message_id
        if key_of(copy) in self._marked:
            raise Broken(f"number {letter.number} is left behind, which was sent")
        if item.lane == "due" and self.runs.run.leave_to != "schedule":
            raise Broken(f"number {letter.number} is left to the schedule: no person said so")
        if before == self.lane and (letter.origin, copy) not in self.tickets.stored:
            raise Broken(f"number {letter.number} leaves the run without a ticket")

    def _check_equation(self) -> None:
        """Wherever a process has ended, each letter of the snapshot is counted once."""
        sums = reconcile(
            ReconcileSetup(
                plan=self.plan,
                run=self.runs.run,
                index=self.index,
                manifest=self.manifest,
                statuses=MemoryStatuses(self.statuses.rows),
                tickets=(tickets := MemoryTickets(self.tickets.stored)),
                all_tickets=tickets.all,
                ledger=self.ledger,
                room=self.room,
                objects=MemoryObjects(),
                clock=self.scheduler.clock,
            ),
            self._end,
        )
        if sum(sums.counts.values()) != len(self.letters) or "MISSING" in sums.counts:
            raise Broken(f"after a crash the sum is {dict(sums.counts)}")
        self.counts["sums at a crash"] += 1

    def _check_end(self) -> None:
        run = self.runs.run
        if run.is_live or not run.left:
            raise Broken(f"stuck: the run is {run.state}: {run.because}")
        if copies_in(self.room.items, self.lane):
            raise Broken(f"stranded in the lane of the run, which is {run.state}")
        for letter in self.letters:
            waits = any(item.stamp.origin == letter.origin for item in self.room.items.values())
            is_somewhere = letter.is_done or letter.is_parked or waits or letter.kind == "silent"
            if not is_somewhere and not self._events:
                raise Broken(f"number {letter.number} is nowhere")
        # One of two executions may take over an intent under which the other has sent nothing.
        is_alone = self.shape.machines == 1 and "start again" not in self.shape.deeds
        if self._published and not self._strikes and is_alone:
            raise Broken("possible duplicates are counted and nothing has happened")
        check_window(
            self._sent_at,
            rate=self.plan.rate,
            burst=self.plan.burst,
            slack=2 * self.shape.skew + USED_WITHIN,
        )
        self._check_report(run)

    def outcome(self) -> Mapping[str, Any]:
        """Where each letter has ended, and what the run says."""
        lanes: dict[str, list[str]] = {}
        for item in self.room.items.values():
            lanes.setdefault(item.stamp.origin, []).append(item.lane)
        return {
            "places": {
                each.number: (each.is_done, each.is_parked, sorted(lanes.get(each.origin, ())))
                for each in self.letters
            },
            "order": self._last_effect,
            "duplicates": (self._published, self._extra),
            "run": (str(self.runs.run.state), self.runs.run.counts),
        }

    def _check_report(self, run: ReplayRun) -> None:
        counts = Counter({name: n for name, n in run.counts.items() if name != "UNACCOUNTED"})
        unsettled = {"OPEN", "SENT", "MISSING"} & counts.keys()
        if counts.total() != len(self.letters) or unsettled:
            raise Broken(f"the sum of {len(self.letters)} letters is {dict(counts)}")
        for shard, size in enumerate(self.index.shards):
            parts = self.statuses.read(shard)
            for position in range(size):
                part = parts[position // PART]
                outcome = ReplayOutcome(part.outcomes[position % PART])
                name = self.manifest.part(shard, position // PART)[position % PART]
                self._check_outcome(self._by_origin[name.origin], outcome)
                self.counts[f"outcome {outcome.name}"] += 1

    def _check_outcome(self, letter: LetterTruth, outcome: ReplayOutcome) -> None:
        """What the report says of a letter is true."""
        good = (ReplayOutcome.RECOVERED, ReplayOutcome.DUPLICATE)
        if outcome in good and not letter.is_done:
            raise Broken(f"number {letter.number} counts as {outcome.name}, and is not processed")
        is_sent = letter.sends > letter.returns
        if outcome is ReplayOutcome.LEFT and is_sent and not self._published:
            raise Broken(f"number {letter.number} counts as LEFT, and was sent")


class ProcessParts:
    """What one process of the run is given."""

    def __init__(self, world: WorkerSimulation, process: Process) -> None:
        self._world = world
        self._process = process
        self._tally = Tally(self._published)
        self._stores = {
            name: Store(name, getattr(world, name), partial(world.call, process))
            for name in (
                *("runs", "tickets", "statuses", "ledger", "journal", "room", "manifest"),
                *("objects", "circuits", "main", "parking"),
            )
        }
        self._router = Store("router", world, partial(world.call, process))

    def setup(self) -> ReplaySetup:
        stores: Any = self._stores
        return ReplaySetup(
            moves=True,
            runs=stores["runs"],
            plans=self,
            executions=self._world,
            evidence=self._evidence,
            snapshot=self._snapshot,
            freeze=self._freeze,
            work=self._work,
            leave=self._leave,
            reconcile=self._reconcile,
            clock=self.clock,
        )

    def plan(self, run: str) -> ReplayPlan:
        return self._world.plan

    def approval(self, run: str) -> RunApproval:
        return RunApproval(asked=False)

    def keep_asked(self, run: str, *, asked: bool) -> None:
        assert not asked, "no run here waits for an approval"

    def clock(self) -> float:
        return self._world.scheduler.now + self._process.skew

    def wait(self, seconds: float) -> None:
        self._world.wait(self._process, seconds)
        self._world.stand_still(self._process, "wait")

    def _published(self, metric: str, number: int) -> None:
        if not self._process.dead:
            self._world.published(metric, number)

    def _snapshot(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Taken:
        raise AssertionError("the snapshot was taken before")

    def _freeze(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> Frozen:
        raise AssertionError("the snapshot was frozen before")

    def _evidence(self, run: ReplayRun, plan: ReplayPlan) -> RunEvidence:
        outcomes, returned, late = counted(self._world.index, self._store("statuses"))
        state = "OPEN" if self._world.circuits.is_open else "CLOSED"
        return RunEvidence(outcomes=outcomes, returned=returned, late=late, circuit=state)

    def _store(self, name: str) -> Any:
        return self._stores[name]

    def _mover(self) -> Mover:
        return Mover(
            fifo=False,
            targets={MAIN: self._store("main"), "parking:default": self._store("parking")},
            parking_queues={},
            room=self._store("room"),
            records=self._world.ledger,
            clock=self.clock,
            wait=self.wait,
            random=self._world._random,
            in_parallel=in_turn,
            tally=self._tally,
        )

    def _token(self) -> str:
        return f"{self._process.name}-{next(self._world._numbers)}"

    def _work(
        self, run: ReplayRun, plan: ReplayPlan, worker: int, of: int, deadline: float
    ) -> Mapping[str, Any]:
        world, store = self._world, self._store
        began = self.clock()
        setup = ReplayWorkerSetup(
            pipeline=world._pipeline,
            plan=plan,
            run=run,
            shards={
                shard: letters
                for shard, letters in enumerate(world.index.shards)
                if letters and shard % of == worker
            },
            manifest=store("manifest"),
            runs=store("runs"),
            bids=store("runs"),
            tickets=store("tickets"),
            statuses=store("statuses"),
            ledger=store("ledger"),
            room=store("room"),
            mover=self._mover(),
            router=self._router,
            journal=store("journal"),
            circuits=store("circuits"),
            main=store("main"),
            tally=self._tally,
            owner=self._token(),
            clock=self.clock,
            wait=self.wait,
            new_token=self._token,
            in_parallel=in_turn,
            carrier=self._carrier(),
        )
        report = ReplayWorker(setup).run(deadline)
        if not report.sent and not report.done:
            self.wait(max(0.0, min(began + 5.0, deadline) - self.clock()))
        return report.to_json()

    def _carrier(self) -> Any:
        if self._world.plan.destination == DISCARD:
            return Discarding(
                objects=self._store("objects"),
                plan=self._world.plan,
                records=self._world.ledger,
                clock=self.clock,
                tally=self._tally,
            )
        if self._world.plan.destination != DELIVER:
            return None
        return Delivering(
            consumer=self,
            room=self._store("room"),
            run=self._world.run_id,
            clock=self.clock,
            tally=self._tally,
        )

    timeout = 30.0

    def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
        stamped = [(letter, _stamp_of(letter)) for letter in letters]
        return self._world.deliver(self._process, stamped)

    def _leave(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> bool:
        world, store = self._world, self._store
        leaving = RunLeaving(
            LeavingSetup(
                pipeline=world._pipeline,
                plan=plan,
                run=run,
                index=world.index,
                manifest=store("manifest"),
                statuses=store("statuses"),
                tickets=store("tickets"),
                ledger=store("ledger"),
                room=store("room"),
                objects=store("objects"),
                journal=store("journal"),
                owner=self._token(),
                router=self._router,
                mover=self._mover(),
                tally=self._tally,
                clock=self.clock,
                random=world._random,
            )
        )
        return leaving.run(deadline - 5.0)

    def _reconcile(self, run: ReplayRun, plan: ReplayPlan, deadline: float) -> RunSum:
        world, store = self._world, self._store
        return reconcile(
            ReconcileSetup(
                plan=plan,
                run=run,
                index=world.index,
                manifest=store("manifest"),
                statuses=store("statuses"),
                tickets=store("tickets"),
                all_tickets=world.tickets.all,
                ledger=store("ledger"),
                room=store("room"),
                objects=store("objects"),
                clock=self.clock,
            ),
            deadline - 5.0,
        )


def _stamp_of(letter: Letter) -> Stamp:
    mark = stamps.parse(letter.attributes[stamps.NAME].value)
    assert mark is not None
    return mark


def worked(seed: int) -> WorkerSimulation:
    """The random schedule with this seed, run to its end; raises Broken."""
    return WorkerSimulation(seed, worker_shape(seed)).run()


WORKER_SORTS: dict[str, Callable[[int], WorkerShape]] = {}
"""Special sorts of schedules, by name: the shape that a seed has."""


def worker_sort(make: Callable[[int], WorkerShape]) -> Callable[[int], WorkerShape]:
    WORKER_SORTS[make.__name__] = make
    return make


@worker_sort
def cut(seed: int) -> WorkerShape:
    """Workers that are killed and continued, with an abort in the middle of some."""
    random = Random(seed * 17 + 3)
    return replace(
        worker_shape(seed),
        destination=MAIN_QUEUE,
        kinds=tuple(random.choice(("good", "good", "flaky")) for _ in range(3)),
        canary=(random.choice((1, 3)),),
        on_failure=KeyPolicy.GO,
        deeds=random.choice(((), ("abort",), ("abort to schedule",))),
        deeds_after=random.choice((2.0, 10.0)),
        slowest=20.0,
        faults=random.choice((0.05, 0.1)),
        fault_kinds=(Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.LOST),
    )


@worker_sort
def crowded_run(seed: int) -> WorkerShape:
    """Two executions with two workers each, that are paused and started again."""
    random = Random(seed * 19 + 5)
    return replace(
        worker_shape(seed),
        destination=MAIN_QUEUE,
        kinds=("good",) * random.randint(2, 5),
        machines=2,
        workers=2,
        skew=1.0,
        canary=(5,),
        deeds=("start again",) * random.choice((1, 2)),
        faults=random.choice((0.0, 0.05)),
        fault_kinds=(Fault.PAUSE, Fault.SLOW),
    )


@worker_sort
def switched_off(seed: int) -> WorkerShape:
    """Runs that are held and resumed while grants are slow, and a pace that matters."""
    random = Random(seed * 23 + 7)
    return replace(
        worker_shape(seed),
        destination=random.choice((MAIN_QUEUE, DELIVER)),
        kinds=("good",) * 6,
        ordered=False,
        canary=(random.choice((1, 6)),),
        rate=random.choice((0.2, 1.0)),
        burst=random.choice((1, 2)),
        deeds=("hold", "resume", "hold"),
        deeds_after=8.0,
        faults=random.choice((0.0, 0.2)),
        fault_kinds=(Fault.SLOW,),
    )


@worker_sort
def stood_still(seed: int) -> WorkerShape:
    """Workers that stand still between a grant and its sends, while a person stops the run."""
    random = Random(seed * 31 + 15)
    return replace(
        worker_shape(seed),
        destination=random.choice((MAIN_QUEUE, MAIN_QUEUE, DELIVER, DISCARD)),
        kinds=tuple(random.choice(("good", "good", "ruled")) for _ in range(6)),
        ordered=False,
        canary=(1,),
        workers=1,
        rate=5.0,
        burst=10,
        deeds=(),
        faults=0.2,
        # What was surely not sent is sent again under the same grant.
        fault_kinds=(Fault.ERROR,),
        struck=("send",),
        stands_behind=(random.choice(GRANT_TO_SEND),),
        stopped_by=("hold", "hold", "abort", "abort to schedule"),
    )


@worker_sort
def delivered(seed: int) -> WorkerShape:
    """Direct delivery and discards, with failures of the consumer and of the stores."""
    random = Random(seed * 29 + 9)
    return replace(
        worker_shape(seed),
        destination=random.choice((DELIVER, DELIVER, DISCARD)),
        kinds=tuple(random.choice(("good", "flaky", "poison", "refused")) for _ in range(3)),
        deeds=(),
        faults=random.choice((0.0, 0.05)),
    )


@worker_sort
def stopping(seed: int) -> WorkerShape:
    """Few ordering keys that stop at a failed letter, and letters that fail."""
    random = Random(seed * 37 + 11)
    return replace(
        worker_shape(seed),
        destination=random.choice((MAIN_QUEUE, DELIVER)),
        kinds=tuple(random.choice(("good", "flaky", "refused", "poison")) for _ in range(4)),
        ordered=True,
        keys=1,
        on_failure=KeyPolicy.STOP,
        error_rate=1.0,
    )


@worker_sort
def left_over(seed: int) -> WorkerShape:
    """Runs that are aborted while a worker is killed or paused between two steps of a letter."""
    random = Random(seed * 41 + 13)
    discards = random.random() < 0.5
    return replace(
        worker_shape(seed),
        destination=DISCARD if discards else MAIN_QUEUE,
        kinds=tuple(random.choice(("good", "ruled", "ruled")) for _ in range(2)),
        canary=(3,),
        ordered=False,
        machines=1,
        workers=1,
        keep_export=True,
        error_rate=1.0,
        deeds=(random.choice(("abort", "abort to schedule")), "start again"),
        deeds_after=random.choice((2.0, 10.0)),
        faults=0.4,
        fault_kinds=(Fault.PAUSE,) if discards else (Fault.CRASH_BEFORE, Fault.CRASH_AFTER),
        struck=("put",) if discards else ("delete", "mark"),
    )
