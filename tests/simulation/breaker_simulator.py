"""One dependency, six workers and everything that can go wrong between them: one seed is one
schedule.

In `eager` schedules each worker reports outcomes and probes whenever it thinks that it may. In
the others an execution runs the outage, as the state machine does; executions get lost, and a
sweep starts the next.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from random import Random
from typing import Any

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.executions import StepFunctionsExecutions
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.circuit.state import (
    NO_END,
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    OutcomeCounts,
    Override,
    State,
)
from deadletter.circuit.transitions import (
    CLOCK_SKEW,
    CanaryAnswered,
    CanaryLost,
    CanaryVerdict,
    Event,
    ExecutionLost,
    MappingPaused,
    MappingPutBack,
    OverrideBegun,
    OverrideEnded,
    PermitTaken,
    Refusal,
    TransitionResult,
)
from deadletter.outage.executions import (
    START_SECONDS,
    ExecutionsUnavailable,
    is_run_by,
    repairs_for,
)
from deadletter.testing.clock import START
from deadletter.testing.fakes import MemoryDynamoDB, client_error
from tests.simulation.breaker_witness import MOST_SKEW, BreakerWitness, Canary
from tests.simulation.scheduler import Client, Crash, Fault, Process, Scheduler
from tests.simulation.witness import Broken
from tests.tables import CIRCUITS, create_circuits_table

PIPELINE = KEY = "orders"
MAPPING = "a-mapping"

# Shorter than in life, so that many things happen in few calls; in the same order.
POLICY = CircuitPolicy(
    window=60,
    minimum=6,
    consecutive=4,
    cooldown=10,
    cooldown_cap=40,
    settle=60,
    lease=30,
)
ANSWER_SECONDS = 8.0
"""The dependency's timeout: less than the lease."""
WORKERS = 6
TROUBLE = 240.0
"""Seconds in which the dependency fails and faults strike."""
RUN = 60.0
"""Seconds between two sweeps."""

FAULTS = (
    *(Fault.CRASH_BEFORE, Fault.CRASH_AFTER, Fault.CRASH_AFTER, Fault.ERROR, Fault.THROTTLED),
    *(Fault.LOST_RETRIED, Fault.LOST_RETRIED, Fault.LOST, Fault.PAUSE),
    *(Fault.HANG, Fault.SLOW),
)


class MemoryStepFunctions:
    """As much of Step Functions as starting and listing executions takes."""

    def __init__(self, begin: Callable[[str, dict[str, Any]], None]) -> None:
        self._begin = begin
        self.taken: set[str] = set()
        self.running: set[str] = set()

    def start_execution(self, *, stateMachineArn: str, name: str, input: str) -> dict[str, Any]:  # noqa: A002, N803
        if name in self.taken:
            raise client_error("StartExecution", "ExecutionAlreadyExists", "taken")
        self.taken.add(name)
        self.running.add(name)
        self._begin(name, {"input": input})
        return {"executionArn": name}

    def list_executions(self, **_: Any) -> dict[str, Any]:
        return {"executions": [{"name": execution} for execution in sorted(self.running)]}


@dataclass(eq=False)
class Worker:
    """One process with its own clock and clients."""

    process: Process
    breaker: DynamoDBBreaker
    outcomes: DynamoDBOutcomes
    outages: StepFunctionsExecutions
    clock: Callable[[], float]


class BreakerSimulation:
    """One schedule of six workers, an operator and, unless eager, executions and a sweep."""

    def __init__(self, seed: int, *, fault_rate: float = 0.08, monotonic: bool = False) -> None:
        self.random = Random(seed)
        self.eager = seed % 2 == 0
        self.fault_rate = fault_rate
        self.monotonic = monotonic
        self.scheduler = Scheduler(seed, START, self._plan)
        self.dynamodb = MemoryDynamoDB(self.scheduler.clock, lagging_indexes=False)
        create_circuits_table(self.dynamodb)
        self.states = MemoryStepFunctions(self._begin)
        self.witness = BreakerWitness(self.scheduler, self.dynamodb, POLICY, KEY)
        self.ids = (f"id{number}" for number in itertools.count(1))
        self.names = itertools.count(1)
        self.healed_at = START + TROUBLE
        self.well_from, self.ill_from = self._weather()
        self.calm_from = self.healed_at
        self.asleep: set[Process] = set()
        self.disabled = False
        self.held = False
        self.metrics: dict[str, int] = {}

    def _weather(self) -> tuple[float, float]:
        """When the dependency seems to recover, and when it fails again until it is healed."""
        first = START + 20 + self.random.random() * TROUBLE
        return first, first + self.random.random() * 80

    def is_well(self) -> bool:
        now = self.scheduler.now
        return now >= self.healed_at or self.well_from <= now < self.ill_from

    def _plan(self, process: Process, name: str, number: int) -> Fault | None:
        self._awake(process)
        if self.scheduler.now >= self.healed_at or self.random.random() >= self.fault_rate:
            return None
        fault = self.random.choice(FAULTS)
        if fault in (Fault.PAUSE, Fault.HANG, Fault.SLOW):
            self.asleep.add(process)
        return fault

    def _awake(self, process: Process) -> None:
        """What fell asleep while there was trouble is part of it until it wakes."""
        if process in self.asleep:
            self.asleep.remove(process)
            self.calm_from = max(self.calm_from, self.scheduler.now)

    def run(self) -> BreakerSimulation:
        for number in range(WORKERS):
            self.scheduler.add(self._actor(f"worker{number}", self._works))
        if not self.eager:
            self.scheduler.add(self._actor("sweep", self._sweeps))
        if self.random.random() < 0.3:
            self.scheduler.add(self._actor("operator", self._operates))
        self.scheduler.run()
        if not self._is_over():
            raise Broken(f"stuck: {self.witness.circuit}")
        return self

    def outcome(self) -> Mapping[str, Any]:
        """What has become of the circuit, and what it took."""
        return {
            "state": str(self.witness.circuit.state),
            "outages": self.witness.trips,
            "canaries": len(self.witness.canaries),
            "fenced": self.witness.fenced,
        }

    # When it has to be over.

    def _bound(self) -> float:
        """Cooldown, lease and two runs after the last fault, and what clocks differ by."""
        lost = 0.0 if self.eager else START_SECONDS
        patience = POLICY.cooldown_cap + POLICY.lease + CLOCK_SKEW + 2 * RUN + lost
        return self.calm_from + patience + 2 * MOST_SKEW

    def _is_over(self) -> bool:
        circuit = self.witness.circuit
        return circuit.is_closed and circuit.paused is None and not self.disabled

    def _next_step(self) -> bool:
        now = self.scheduler.now
        if self.asleep or self.held or now <= self.calm_from:
            return True
        return now < self._bound() and not self._is_over()

    def _sleep(self, seconds: float) -> None:
        self.scheduler.sleep(seconds)

    # Processes.

    def _actor(self, name: str, work: Callable[[Worker], Iterator[float]]) -> Callable[[], None]:
        """A loop of processes: where one crashes the next begins, with another clock."""

        def act() -> None:
            while self._next_step():
                worker = self._worker(name)
                try:
                    for seconds in work(worker):
                        # Its calls have come back: it may wait for a circuit held without an end.
                        self._awake(worker.process)
                        self._sleep(seconds)
                        self._notice_fault(worker)
                except Crash:
                    self._sleep(1 + self.random.random() * 10)
                else:
                    return
                finally:
                    self._notice_fault(worker)

        return act

    def _notice_fault(self, worker: Worker) -> None:
        self._awake(worker.process)
        if worker.process.faults:
            worker.process.faults = 0
            self.calm_from = max(self.calm_from, self.scheduler.now)

    def _worker(self, name: str) -> Worker:
        process = Process(
            f"{name}.{next(self.names)}", skew=(self.random.random() * 2 - 1) * MOST_SKEW
        )
        began = self.scheduler.now if self.monotonic else 0.0

        def clock() -> float:
            return self.scheduler.now + process.skew - began

        dynamodb: Any = Client(self.scheduler, process, "dynamodb", self.dynamodb)
        states: Any = Client(self.scheduler, process, "states", self.states)
        breaker = DynamoDBBreaker(
            client=dynamodb,
            table=CIRCUITS,
            pipeline=PIPELINE,
            policy=POLICY,
            clock=clock,
            random=self.random,
            new_id=lambda: next(self.ids),
        )
        outages = StepFunctionsExecutions(lambda: states, "arn", PIPELINE)
        outcomes = DynamoDBOutcomes(
            client=dynamodb,
            table=CIRCUITS,
            pipeline=PIPELINE,
            policy=POLICY,
            breaker=breaker,
            outages=None if self.eager else outages,
            clock=clock,
            count_metric=self._count_metric,
        )
        return Worker(process, breaker, outcomes, outages, clock)

    def _count_metric(self, name: str, number: int) -> None:
        self.metrics[name] = self.metrics.get(name, 0) + number

    def _apply(
        self, worker: Worker, event: Event, known: Circuit | None = None
    ) -> TransitionResult | None:
        """None if the outcome is unknown."""
        with self.witness.asked(worker.process, event):
            try:
                if known is None:
                    moved = worker.breaker.apply(KEY, event)
                else:
                    moved = worker.breaker.apply_to(known, event)
            except CircuitsUnavailable:
                return None
        self.witness.told(worker.process, event, moved)
        return moved

    # What they do.

    def _works(self, worker: Worker) -> Iterator[float]:
        yield self.random.random() * 15
        while self._next_step():
            try:
                circuit = worker.breaker.read([KEY])[KEY]
            except CircuitsUnavailable:
                yield 10
                continue
            if circuit.is_closed:
                if not self.disabled:
                    well = self.is_well()
                    worker.outcomes.report(
                        KEY, OutcomeCounts(3, 0) if well else OutcomeCounts(0, 3)
                    )
                yield 8 + self.random.random() * 15
            elif self.eager:
                yield from self._probes(worker, circuit)
            else:
                yield 30 + self.random.random() * 40

    def _probes(self, worker: Worker, circuit: Circuit) -> Iterator[float]:
        """Wait for the cooldown's end, send one canary, say how it went."""
        moved = self._apply(worker, PermitTaken(next(self.ids)), circuit)
        if moved is None:
            yield 5
            return
        if moved.refused is Refusal.LEASE_ENDED:
            self._apply(worker, CanaryLost(moved.circuit.generation), moved.circuit)
            yield 1
        elif moved.refused is Refusal.PERMIT_TAKEN:
            yield 5 + self.random.random() * 10
        elif moved.refused is not None:
            # Everybody wakes at the same moment.
            yield min(RUN, max(0.5, moved.circuit.open_until - worker.clock()))
        elif moved.circuit.permit and moved.circuit.permit.lasts_for(
            ANSWER_SECONDS, worker.clock()
        ):
            yield from self._canary(worker, moved.circuit)

    def _canary(self, worker: Worker, circuit: Circuit) -> Iterator[float]:
        assert circuit.permit is not None
        owner = circuit.permit.owner
        canary = self.witness.sent(worker.process, owner, ANSWER_SECONDS)
        if self._strikes():
            # The prober is gone while its canary is under way.
            raise Crash
        yield self.random.random() * ANSWER_SECONDS
        verdict = self._verdict(canary)
        if self._strikes():
            worker.process.faults += 1
            yield POLICY.lease * (0.5 + 4 * self.random.random())
        known: Circuit | None = circuit
        for _ in range(3):
            answer = CanaryAnswered(circuit.generation, owner, verdict)
            if self._apply(worker, answer, known) is not None:
                return
            known = None
            yield 2

    def _strikes(self) -> bool:
        calm = self.scheduler.now >= self.healed_at
        return not calm and self.random.random() < self.fault_rate

    def _verdict(self, canary: Canary) -> CanaryVerdict:
        if self.scheduler.now < self.healed_at and self.random.random() < 0.15:
            self.witness.answered(canary, None)
            return CanaryVerdict.NEUTRAL
        well = self.is_well()
        self.witness.answered(canary, well)
        if well:
            return CanaryVerdict.SUCCESS
        return self.random.choice((CanaryVerdict.FAILURE, CanaryVerdict.NO_ANSWER))

    def _operates(self, worker: Worker) -> Iterator[float]:
        """Hold the circuit for a while, or without an end and then take it back."""
        if not self.held:
            yield self.random.random() * TROUBLE
            if self.scheduler.now >= self.healed_at:
                return
            changes_mind = self.random.random() < 0.5
            until = NO_END if changes_mind else worker.clock() + 20 + self.random.random() * 60
            self.calm_from = max(self.calm_from, self.scheduler.now + 100)
            self.held = changes_mind
            state = self.random.choice((State.OPEN, State.CLOSED))
            self._apply(worker, OverrideBegun(Override(state, "ada", "looks odd", until)))
        if self.held:
            yield self.random.random() * 60
        while self.held:
            # A person sees whether it worked.
            self.held = self._apply(worker, OverrideEnded()) is None
            self.calm_from = max(self.calm_from, self.scheduler.now)
            yield 1

    # The outage as an execution of the state machine.

    def _begin(self, name: str, about: dict[str, Any]) -> None:
        generation, restart = (int(part) for part in name.rsplit("-", 2)[1:])

        def runs(worker: Worker) -> Iterator[float]:
            yield 1
            yield from self._executes(worker, generation, restart)

        actor = self._actor(f"execution{generation}-{restart}", runs)

        def act() -> None:
            actor()
            self.states.running.discard(name)

        self.scheduler.add(act)

    def _executes(self, worker: Worker, generation: int, restart: int) -> Iterator[float]:
        while self._next_step():
            if self._strikes():
                worker.process.faults += 1
                return
            try:
                circuit = worker.breaker.read([KEY])[KEY]
            except CircuitsUnavailable:
                yield 2
                continue
            if not is_run_by(circuit, generation, restart):
                return
            if circuit.is_closed:
                if self._puts_back(worker, circuit):
                    return
                yield 2
                continue
            if circuit.paused is None:
                moved = self._apply(worker, MappingPaused(MAPPING, None), circuit)
                if moved is None or moved.refused is not None:
                    yield 1
                    continue
                circuit = moved.circuit
            self.disabled = True
            if worker.clock() < circuit.open_until:
                yield circuit.open_until - worker.clock()
            else:
                yield from self._probes(worker, circuit)

    def _puts_back(self, worker: Worker, circuit: Circuit) -> bool:
        if circuit.paused is None:
            return True
        self.disabled = False
        return self._apply(worker, MappingPutBack(MAPPING), circuit) is not None

    def _sweeps(self, worker: Worker) -> Iterator[float]:
        yield self.random.random() * RUN
        while self._next_step():
            try:
                found = repairs_for(
                    PIPELINE, worker.breaker.troubled(), worker.outages.running(), worker.clock()
                )
                for key in found.start:
                    moved = self._apply(worker, ExecutionLost(key.generation, key.restart), key)
                    if moved is not None and moved.refused is None:
                        now = moved.circuit
                        worker.outages.start(KEY, now.outage, now.restart)
                for key in found.put_back:
                    self._puts_back(worker, key)
            except (CircuitsUnavailable, ExecutionsUnavailable):
                pass
            yield RUN


def schedule(seed: int) -> BreakerSimulation:
    """The schedule of a seed; some are calm, some are full of faults."""
    return BreakerSimulation(seed, fault_rate=(0.0, 0.03, 0.08, 0.15)[seed // 2 % 4])


def simulate(seed: int) -> BreakerSimulation:
    """One schedule, to its end; raises Broken for a promise that does not hold."""
    return schedule(seed).run()
