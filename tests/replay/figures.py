"""What the workers of a replay run cost, and what a run does in an outage of the endpoint.

`python -m tests.replay.figures [case ...]`: the production worker, redriver and judge on the
strict fakes in memory. Time is the fakes' own: it passes where a worker waits, and the consumer
and the schedule act meanwhile.

case     letters, settings                                      figures to reach
costs    1,000 letters of 1 KB: without a key, by key in        7.6 write units a letter, and SQS
         order through the queue, and delivered directly        calls: 0.45, 1.3, 0.2
outage   1,000 letters at 10 a second; the endpoint fails       none is parked
         for a time in the middle, and the run holds itself
workers  2,000 letters at any pace by 1, 2 and 4 workers        so many times the letters a second
memory   a worker and a sum of 50,000 and of 200,000 letters    50 bytes more a letter
"""

from __future__ import annotations

import argparse
import multiprocessing
import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from random import Random
from resource import RUSAGE_SELF, getrusage
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.clients import Clients
from deadletter.aws.replay_evidence import counted
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.failure.failure import TIMEOUT
from deadletter.replay.carriers import DirectCarrier, DirectFate
from deadletter.replay.judge import RunEvidence, judged
from deadletter.replay.machine import replay_event
from deadletter.replay.plan import DELIVER, ReplayPlan
from deadletter.replay.run import RunState, resumed
from deadletter.replay.ticket import ReplayOutcome
from tests.replay import test_memory
from tests.replay.bench import NoExecutions, ReplayBench, orders_pipeline
from tests.replay.test_delivering import Answers, delivering
from tests.simulation.scheduler import Client, Process, Scheduler
from tests.simulation.simulator import configured
from tests.simulation.stage import Stage


def show(text: str) -> None:
    sys.stdout.write(f"{text}\n")


TICK = 0.5
"""Seconds between two turns of the consumer."""

PLAN = ReplayPlan(pipeline="orders", canary=(), ramp=(1.0,))

STEP = 120.0
"""Seconds of one step of work."""


class LiveRun:
    """A run whose consumer and schedule are at work while its worker waits.

    `schedule` are the seconds between two runs of the redriver; `answers` says whether the
    consumer succeeds with a letter.
    """

    def __init__(self, bench: ReplayBench, schedule: float, answers: Callable[[int], bool]) -> None:
        self.bench = bench
        self._schedule = schedule
        self._answers = answers
        self._redriver_at = bench.clock() + schedule

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        bench = self.bench
        until = bench.clock() + seconds
        while (rest := until - bench.clock()) > 0:
            bench.clock.advance(min(TICK, rest))
            bench.consume(self._answers, error_type=TIMEOUT, fingerprint="timeout")
            if bench.clock() >= self._redriver_at:
                self._redriver_at += self._schedule
                # The redriver is a function of its own: its seconds are not the worker's.
                now = bench.clock()
                bench.stage.run()
                bench.clock.now = now


# What a letter costs

COST_LETTERS = 1_000
MOST_UNITS = 7.6


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkCosts:
    """What each letter of a run cost: write units of DynamoDB, and requests to SQS."""

    case: str
    into_room: float
    work: float
    sqs: float

    @property
    def units(self) -> float:
        return self.into_room + self.work


class CountedCalls:
    """A client that counts the calls of its methods."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.calls: Counter[str] = Counter()

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        if not name.endswith(("_message", "_batch", "_attributes", "_visibility")):
            return method

        def call(*args: Any, **options: Any) -> Any:
            self.calls[name] += 1
            return method(*args, **options)

        return call


def costs_of(
    case: str,
    keys: Sequence[str],
    plan: ReplayPlan,
    carrier_for: Callable[[ReplayBench], DirectCarrier] | None = None,
) -> WorkCosts:
    """What the letters cost, from their waiting room item to the outcome."""
    stage = Stage(orders_pipeline())
    put = stage.put
    pad = ', "pad": "' + "x" * 900 + '"}'
    stage.put = lambda body="", url=None, **more: put(body[:-1] + pad, url, **more)  # type: ignore[method-assign]
    bench = ReplayBench(keys, plan, stage=stage, rate=100.0, burst=40)
    into_room = stage.dynamodb.consumed.write_units
    stage.redriver_sqs = sqs = CountedCalls(stage.redriver_sqs)  # type: ignore[assignment]
    carrier = carrier_for(bench) if carrier_for else None
    consumer = 0.0

    def consume(_number: int) -> bool:
        return True

    live = LiveRun(bench, float("inf"), consume)

    def wait(seconds: float) -> None:
        nonlocal consumer
        before = stage.dynamodb.consumed.write_units
        live.wait(seconds)
        consumer += stage.dynamodb.consumed.write_units - before

    while not bench.work(STEP, wait=wait, carrier=carrier).done:
        pass
    work = stage.dynamodb.consumed.write_units - into_room - consumer
    number = len(keys)
    return WorkCosts(
        case=case,
        into_room=into_room / number,
        work=work / number,
        sqs=sum(sqs.calls.values()) / number,
    )


def by_key(keys: int) -> list[str]:
    return [f"k{number % keys}" for number in range(COST_LETTERS)]


def costs() -> list[str]:
    def carrier_for(bench: ReplayBench) -> DirectCarrier:
        return delivering(bench, Answers([DirectFate.RECOVERED]))

    ordered = replace(PLAN, ordered=True)
    rows = [
        (costs_of("no key", [""] * COST_LETTERS, PLAN), 0.45),
        (costs_of("50 keys in order", by_key(50), ordered), 1.3),
        (costs_of("200 keys in order", by_key(200), ordered), 1.3),
        (
            costs_of(
                "50 keys, directly", by_key(50), replace(ordered, destination=DELIVER), carrier_for
            ),
            0.2,
        ),
    ]
    show(f"{'case':<20} {'into room':>9} {'work':>6} {'write units':>11} {'SQS':>6}")
    for row, _ in rows:
        show(
            f"{row.case:<20} {row.into_room:>9.2f} {row.work:>6.2f} {row.units:>11.3f}"
            f" {row.sqs:>6.3f}"
        )
    return [
        f"{row.case}: {row.units:.2f} write units and {row.sqs:.2f} SQS calls a message"
        for row, calls in rows
        if row.units > MOST_UNITS or row.sqs > calls
    ]


# An outage

OUTAGE_LETTERS = 1_000

OUTAGE_BEGINS = 30.0
"""Seconds of the run after which the endpoint answers no letter, for some time."""

PATIENCE = 20.0
"""Seconds after which a person resumes a run that has held itself, not knowing of the endpoint."""


@dataclass(frozen=True, slots=True, kw_only=True)
class OutageOutcome:
    """What an outage of the endpoint did to a run."""

    outage: float
    schedule: float
    retry_after: float
    recovered: int
    exhausted: int
    failed_tries: int
    holds: int
    seconds: float


def outage_of(
    outage: float, schedule: float, retry_after: float, letters: int = OUTAGE_LETTERS
) -> OutageOutcome:
    """A run of letters while the consumer's endpoint fails for some time."""
    plan = replace(PLAN, rate=10.0, burst=10, retry_after=retry_after)
    bench = ReplayBench([""] * letters, plan, rate=plan.rate, burst=plan.burst)
    began = bench.clock()
    failed = holds = 0

    def answers(_number: int) -> bool:
        nonlocal failed
        is_down = OUTAGE_BEGINS <= bench.clock() - began < OUTAGE_BEGINS + outage
        failed += is_down
        return not is_down

    live = LiveRun(bench, schedule, answers)
    while not bench.work(STEP, wait=live.wait).done:
        outcomes, returned, late = counted(bench.index, bench.statuses)
        evidence = RunEvidence(outcomes=outcomes, returned=returned, late=late)
        run = bench.run
        after = judged(run, plan, evidence, bench.clock()).run
        if after.generation != run.generation:
            bench.runs.change(run, after)
        if after.state is RunState.HELD:
            holds += 1
            live.wait(PATIENCE)
            bench.runs.change(after, resumed(after, at=bench.clock(), by="ann"))
    outcomes, _, _ = counted(bench.index, bench.statuses)
    return OutageOutcome(
        outage=outage,
        schedule=schedule,
        retry_after=retry_after,
        recovered=outcomes.get(ReplayOutcome.RECOVERED, 0),
        exhausted=outcomes.get(ReplayOutcome.QUARANTINED, 0),
        failed_tries=failed,
        holds=holds,
        seconds=bench.clock() - began,
    )


def outage() -> list[str]:
    """Runs with and without a pause before the next try, by a slow and by a fast schedule."""
    rows = [
        outage_of(seconds, schedule, retry_after)
        for seconds, schedule in ((60.0, 60.0), (60.0, 5.0), (180.0, 60.0))
        for retry_after in (0.0, 30.0)
    ]
    show(
        f"{'outage s':>8} {'schedule s':>10} {'retry after s':>13} {'recovered':>9} {'parked':>6}"
        f" {'failed tries':>12} {'holds':>5} {'run s':>6}"
    )
    for row in rows:
        show(
            f"{row.outage:>8.0f} {row.schedule:>10.0f} {row.retry_after:>13.0f}"
            f" {row.recovered:>9} {row.exhausted:>6} {row.failed_tries:>12} {row.holds:>5}"
            f" {row.seconds:>6.0f}"
        )
    return [f"{row.exhausted} messages were parked" for row in rows if row.exhausted]


# Several workers

WORKERS_LETTERS = 2_000

LEAST_GAIN = 0.9
"""The share of n times the speed of one worker that n workers have at least."""


class TenMilliseconds(Random):
    """Chance by which each call of the simulated clients takes 10 ms."""

    def random(self) -> float:
        return 0.18


def letters_per_second(workers: int, letters: int = WORKERS_LETTERS) -> float:
    """Letters a second that so many workers send side by side, at any pace, in simulated time.

    Each request takes 10 ms, as on the stub of SQS; CPU takes none.
    """
    bench = ReplayBench([""] * letters, PLAN, rate=10_000.0, burst=1_000)
    stage = bench.stage
    scheduler = Scheduler(1, bench.clock(), lambda *_: None)
    scheduler.clock, scheduler.random = bench.clock, TenMilliseconds(1)
    began, ended = bench.clock(), 0
    real: dict[str, Any] = {"sqs": stage.redriver_sqs, "dynamodb": stage.dynamodb, "s3": stage.s3}

    def client(process: Process, name: str) -> Any:
        service, patience = configured()[name].service, configured()[name].patience
        return Client(scheduler, process, service, real.get(service), patience)

    def work(number: int) -> None:
        nonlocal ended
        process = Process(f"worker{number}")
        world = replace(stage.world, wait=partial(scheduler.wait, process))
        clients = Clients(**{field.name: client(process, field.name) for field in fields(Clients)})
        steps = replay_steps_for(
            stage.pipeline,
            stage.resources,
            clients,
            world,
            lambda _name, _number: None,
            executions=NoExecutions(),
            router=router_for(stage.pipeline, stage.resources, clients, world),
            in_parallel=scheduler.in_parallel,
        )
        worker = {"number": number, "of": workers}
        event = {"run": bench.run_id, "step": "work", "worker": worker}
        steps.take(replay_event({**event, "execution": bench.run.execution}), began + 900)
        ended += 1

    def consume() -> None:
        while ended < workers:
            scheduler.sleep(TICK)
            bench.consume()

    for number in range(workers):
        scheduler.add(partial(work, number))
    scheduler.add(consume)
    scheduler.run()
    tried = bench.tried_at()
    if len(tried) != letters:
        raise SystemExit(f"{len(tried)} of {letters} messages were sent")
    return letters / (tried[-1] - began)


def workers() -> list[str]:
    rates = {number: letters_per_second(number) for number in (1, 2, 4)}
    for number, rate in rates.items():
        show(f"{number} workers: {rate:,.0f} letters/s, {rate / rates[1]:.2f} times one worker")
    return [
        f"{number} workers are {rate / rates[1]:.2f} times as fast as one"
        for number, rate in rates.items()
        if rate < LEAST_GAIN * number * rates[1]
    ]


# Memory

MEMORY_LETTERS = (50_000, 200_000)

MOST_BYTES = 50.0
"""Bytes of memory that a letter may add."""

STEPS = {"worker": test_memory.work, "reconcile": test_memory.add_up}
"""The steps of a run whose memory is compared, on stores that keep one row for each part."""


def _measure(step: str, letters: int, answer: Connection) -> None:
    """The largest resident memory of this process, in bytes, after a step with so many letters."""
    STEPS[step](letters)
    answer.send(getrusage(RUSAGE_SELF).ru_maxrss * 1_024)


def resident(step: str, letters: int) -> float:
    """The same of a process of its own."""
    spawning = multiprocessing.get_context("spawn")
    answer, answering = spawning.Pipe(duplex=False)
    process = spawning.Process(target=_measure, args=(step, letters, answering))
    process.start()
    process.join()
    if not answer.poll():
        raise SystemExit(f"{step} of {letters} letters ended without an answer")
    return float(answer.recv())


def memory() -> list[str]:
    wrong = []
    for step in STEPS:
        few, many = (resident(step, letters) for letters in MEMORY_LETTERS)
        slope = (many - few) / (MEMORY_LETTERS[1] - MEMORY_LETTERS[0])
        million = many + slope * (1_000_000 - MEMORY_LETTERS[1])
        show(
            f"{step}: {few / 2**20:.0f} MiB and {many / 2**20:.0f} MiB,"
            f" {slope:.1f} bytes more a message; {million / 2**20:.0f} MiB for 1,000,000"
        )
        if slope > MOST_BYTES:
            wrong.append(f"{step} grows by {slope:.0f} bytes a message")
    return wrong


CASES: Mapping[str, Callable[[], list[str]]] = {
    "costs": costs,
    "outage": outage,
    "workers": workers,
    "memory": memory,
}


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of the cases; 1 if one is over its limit."""
    parser = argparse.ArgumentParser(description="what the workers of a run cost")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - CASES.keys())
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; there are: {', '.join(CASES)}")
    wrong = [f"{name}: {fault}" for name in options.cases or CASES for fault in CASES[name]()]
    for fault in wrong:
        show(fault)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
