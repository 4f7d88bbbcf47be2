"""What moving letters costs: `python -m tools.bench.redriver [case ...] [--json]`.

The production redriver with its production boto3 clients and four worker threads drains a DLQ
in the SQS stub (`tools.bench.sqs_stub`: 10 ms latency with jitter, in a process of its own).
The router is a function in memory that is asked with the production client's payload. DynamoDB
and S3 are the strict fakes in memory. All calls are counted, and each message is audited at the
end: one that is lost, duplicated, changed or left makes the bench fail.

case      letters, settings                                     figure to reach
pace      3,000, default pace (50/s, burst 500), runs of 55 s   SQS calls, writes, invocations
full      3,000, no pace                                        the same
uneven    3,000, no pace, receives of 1 to 10 messages          none: for comparison
intents   3,000, no pace, with 4,000 old intents and without    ratio of CPU time
          merged: all in few items, as the runs after them have merged them
          kept: of one letter each, as a chunk leaves them, in the run that begins to merge
          abandoned: of 100 letters each, 99 of them marked, as a killed run leaves them
failing   3,000, no pace, 2 % of the entries fail               nothing unfinished, no duplicate
memory    3,000 and 30,000, no pace, one run each               growth of the peak

CPU is that of this process without the router and the fakes, but with boto3. Memory is the peak
that tracemalloc sees. Writes are items, not units; what a transaction writes counts twice.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import sys
import threading
import time
import tracemalloc
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from random import Random
from statistics import median
from typing import Any
from unittest.mock import patch

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.clients import Clients, clients
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.wiring.redrive import redriver_for
from deadletter.aws.wiring.route import router_for
from deadletter.aws.wiring.world import World
from deadletter.contract import MAIN_DLQ, ROWS_KEPT, Metric
from deadletter.redrive.journal import MAX_STANDING_PLANS, Intent, Plan
from deadletter.redrive.report import Report
from deadletter.routing.wire import answer_event
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.testing.fakes import MemoryDynamoDB, MemoryLambda, MemoryS3
from tools.bench.sqs_stub import Audit, Behaviour, SqsStub
from tools.bench.tables import create_tables

LETTERS = 3_000
MANY_LETTERS = 30_000
OLD_INTENTS = 4_000
OLD_SECONDS = 600.0
"""Seconds since these intents ended: too few for an empty queue to explain them."""

PLANS = 100
"""Letters of an intent that a killed run left."""

RUN_SECONDS = 55.0
"""The deadline of a run: the default of `redrive.timeout`."""

LONGEST_RUN_SECONDS = 840.0
"""The longest deadline that the settings allow."""

MOST_RUNS = 10
ROUNDS = 3
"""Rounds of a comparison; the ways of a round take turns."""

REDRIVER = "AROAREDRIVER"

MOST_SQS_CALLS = 0.32
MOST_WRITES = 0.05
MOST_INVOCATIONS = 40
"""At the default pace: calls and writes a letter, and router invocations in all."""

MOST_CPU = 1.1
"""CPU with 4,000 old intents, as a multiple of that without."""

MOST_GROWTH = 5.0
"""MB by which the peak of 30,000 letters may be above that of 3,000: a run remembers the last
10,000 copies that it moved (`deadletter.redrive.mover.MOST_REMEMBERED`), and nothing of others."""

# DynamoDB operations that write, and the items of one request.
_WRITES: Mapping[str, Callable[[Mapping[str, Any]], int]] = {
    "put_item": lambda _: 1,
    "update_item": lambda _: 1,
    "delete_item": lambda _: 1,
    "batch_write_item": lambda request: sum(map(len, request["RequestItems"].values())),
    "transact_write_items": lambda request: 2 * len(request["TransactItems"]),
}


class Counted:
    """A fake client that counts its calls and the CPU time inside them; one thread at a time."""

    def __init__(self, fake: Any, lock: AbstractContextManager[Any]) -> None:
        self._fake = fake
        self._lock = lock
        self.calls: Counter[str] = Counter()
        self.writes = 0
        self.cpu = 0.0

    def __getattr__(self, name: str) -> Any:
        act: Callable[..., Any] = getattr(self._fake, name)

        def call(**request: Any) -> Any:
            with self._lock:
                began = time.thread_time()
                self.calls[name] += 1
                self.writes += _WRITES[name](request) if name in _WRITES else 0
                try:
                    return act(**request)
                finally:
                    self.cpu += time.thread_time() - began

        return call


@dataclass(frozen=True, slots=True, kw_only=True)
class RunCosts:
    """What one case cost. CPU is in milliseconds a letter, memory in MB."""

    case: str
    letters: int
    runs: int
    seconds: float
    sqs: Mapping[str, int]
    sqs_calls: float
    empty_receives: int
    dynamodb: Mapping[str, int]
    writes: float
    router_reads: Mapping[str, int]
    invocations: int
    cpu_ms: float
    peak_mb: float | None
    possible_duplicates: int
    intents_left: int
    audit: Audit
    trouble: str
    counts: Mapping[str, int]


class Bench:
    """One pipeline with its own queues and tables."""

    def __init__(self, stub: SqsStub, pipeline: Pipeline) -> None:
        self._stub = stub
        self._pipeline = pipeline
        lock = threading.RLock()
        self._table = table = MemoryDynamoDB(time.time)
        create_tables(table)
        self._dynamodb = Counted(table, lock)
        self._router_dynamodb = Counted(table, lock)
        bucket = MemoryS3(time.time)
        bucket.create_bucket(Bucket="bodies")
        functions = MemoryLambda(time.time, lambda: uuid.uuid4().hex)
        functions.register("router", self._route)
        # Several invocations at once, and their reads one at a time.
        self._functions = Counted(functions, contextlib.nullcontext())
        real = _clients(stub.endpoint)
        dynamodb: Any = self._dynamodb
        s3: Any = Counted(bucket, lock)
        lambda_: Any = self._functions
        self._clients = replace(real, dynamodb=dynamodb, journal=dynamodb, s3=s3, functions=lambda_)
        name = uuid.uuid4().hex[:8]
        self.dlq = stub.create_queue(f"{name}-dlq")
        self.main = stub.create_queue(f"{name}-main")
        self._resources = Resources(
            main_url=self.main,
            dlq_url=self.dlq,
            parking={"default": stub.create_queue(f"{name}-parking")},
            letters_table="letters",
            letters_bucket="bodies",
            rules_table="rules",
            circuits_table="circuits",
            router_function="router",
            trusted_senders=(REDRIVER,),
        )
        self._world = World(
            clock=time.time,
            wait=time.sleep,
            new_id=lambda: uuid.uuid4().hex,
            random=Random(1),  # noqa: S311 - repeatable, not secret
        )
        in_router: Any = self._router_dynamodb
        router_clients: Clients = replace(self._clients, dynamodb=in_router)
        self._router = router_for(pipeline, self._resources, router_clients, self._world)

    def _route(self, event: Any, _: Any) -> Any:
        return answer_event(self._router, event)

    def add_old_intents(self, number: int, plans: int) -> None:
        """Put intents on record that ended long ago, each with one letter that is not marked."""
        numbers = Random(2)  # noqa: S311 - repeatable, not secret
        client: Any = self._table
        journal = DynamoDBJournal(client, "letters", self._pipeline.name, ROWS_KEPT)
        expires = time.time() - OLD_SECONDS
        for at in range(number):
            letters = [Plan(numbers.randbytes(16), "main", 1) for _ in range(plans)]
            sent = (1 << plans) - 2
            intent = Intent(f"{at:08x}.0", f"{at:08x}", 1, expires, letters, sent, home=MAIN_DLQ)
            journal.write(intent, None)

    def drain(
        self,
        case: str,
        letters: int,
        *,
        traced: bool = False,
        most_runs: int = MOST_RUNS,
        run_seconds: float = RUN_SECONDS,
    ) -> RunCosts:
        """Fill the DLQ and run the redriver until it is empty, `most_runs` times at most."""
        self._stub.fill(self.dlq, letters)
        self._stub.reset_counts()
        gc.collect()
        if traced:
            tracemalloc.start()
        counts: Counter[str] = Counter()
        began, cpu_before, fakes_before = time.monotonic(), time.process_time(), self._in_fakes
        runs, moved, trouble = 0, 0, ""
        while runs < most_runs and moved < letters:
            report = self._run(run_seconds)
            counts.update(report.counts)
            moved += report.counts.get(Metric.REDRIVEN, 0)
            trouble = trouble or report.trouble
            runs += 1
        seconds = time.monotonic() - began
        cpu = time.process_time() - cpu_before - (self._in_fakes - fakes_before)
        peak = None
        if traced:
            peak = tracemalloc.get_traced_memory()[1] / 1e6
            tracemalloc.stop()
        sqs = self._stub.counts()
        return RunCosts(
            case=case,
            letters=letters,
            runs=runs,
            seconds=seconds,
            sqs=sqs.requests,
            sqs_calls=sqs.total / letters,
            empty_receives=sqs.empty,
            dynamodb=dict(self._dynamodb.calls),
            writes=self._dynamodb.writes / letters,
            router_reads=dict(self._router_dynamodb.calls),
            invocations=self._functions.calls["invoke"],
            cpu_ms=cpu * 1e3 / letters,
            peak_mb=peak,
            possible_duplicates=counts[Metric.POSSIBLE_DUPLICATE],
            intents_left=self._intents_left(),
            audit=self._stub.audit(self.main),
            trouble=trouble,
            counts=dict(counts),
        )

    @property
    def _in_fakes(self) -> float:
        # The router's reads happen inside its invocation.
        return self._dynamodb.cpu + self._functions.cpu

    def _run(self, seconds: float) -> Report:
        redriver = redriver_for(self._pipeline, self._resources, self._clients, self._world)
        return redriver.run(time.time() + seconds, asked=True)

    def _intents_left(self) -> int:
        return sum("plans" in item for item in self._table.items("letters"))


def _clients(endpoint: str) -> Clients:
    """The production clients, with the stub for SQS."""
    environment = {
        "AWS_ENDPOINT_URL_SQS": endpoint,
        "AWS_ACCESS_KEY_ID": REDRIVER,
        "AWS_SECRET_ACCESS_KEY": "unused",
        "AWS_DEFAULT_REGION": "us-east-1",
    }
    # The clients keep what they find here; others in this process must not find it.
    with patch.dict(os.environ, environment):
        clients.cache_clear()
        made = clients()
        clients.cache_clear()
        return made


DEFAULT = Pipeline("orders")
# The main queue has no consumer here: its backlog grows with each letter.
UNPACED = replace(DEFAULT, rate=1e6, burst=1_000_000, backlog_limit=1_000_000)


def measure(
    case: str,
    letters: int,
    *,
    pipeline: Pipeline = UNPACED,
    behaviour: Behaviour | None = None,
    old_intents: int = 0,
    plans: int = 1,
    traced: bool = False,
    most_runs: int = MOST_RUNS,
    run_seconds: float = RUN_SECONDS,
) -> RunCosts:
    """Drain a DLQ of so many letters on a fresh stub with fresh tables."""
    with SqsStub(behaviour) as stub:
        bench = Bench(stub, pipeline)
        bench.add_old_intents(old_intents, plans)
        return bench.drain(
            case, letters, traced=traced, most_runs=most_runs, run_seconds=run_seconds
        )


@dataclass(frozen=True, slots=True)
class CaseResult:
    """The figures of a case, what is wrong with them, and how they compare."""

    figures: Sequence[RunCosts]
    wrong: Sequence[str] = ()
    comparison: str = ""


def pace() -> CaseResult:
    figures = measure("pace", LETTERS, pipeline=DEFAULT)
    return CaseResult([figures], _over_limits(figures))


def full() -> CaseResult:
    figures = measure("full", LETTERS)
    return CaseResult([figures], _over_limits(figures))


def uneven() -> CaseResult:
    return CaseResult([measure("uneven", LETTERS, behaviour=Behaviour(uneven=True))])


def intents() -> CaseResult:
    rounds = [
        (
            measure("without", LETTERS),
            measure(
                "merged",
                LETTERS,
                old_intents=math.ceil(OLD_INTENTS / MAX_STANDING_PLANS),
                plans=MAX_STANDING_PLANS,
            ),
            measure("kept", LETTERS, old_intents=OLD_INTENTS),
            measure("abandoned", LETTERS, old_intents=OLD_INTENTS, plans=PLANS),
        )
        for _ in range(ROUNDS)
    ]
    usual, merged, kept, abandoned = (
        median(figures.cpu_ms for figures in way) for way in zip(*rounds, strict=True)
    )
    ratio = merged / usual
    wrong = [f"{ratio:.2f} times the CPU, at most {MOST_CPU}"] if ratio > MOST_CPU else []
    comparison = (
        f"CPU with {OLD_INTENTS} letters on record: {ratio:.2f} times that without; before they"
        f" are merged {kept / usual:.2f} times; {OLD_INTENTS} abandoned intents:"
        f" {abandoned / usual:.2f} times"
    )
    return CaseResult([figures for ways in rounds for figures in ways], wrong, comparison)


def failing() -> CaseResult:
    actions = ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")
    behaviour = Behaviour(failing_entries=dict.fromkeys(actions, 0.02))
    figures = measure("failing", LETTERS, behaviour=behaviour, most_runs=1)
    wrong = []
    if figures.possible_duplicates:
        wrong.append(f"{figures.possible_duplicates} possible duplicates, of which there are 0")
    if figures.intents_left:
        wrong.append(f"{figures.intents_left} intents stand after a run that ended well")
    return CaseResult([figures], wrong)


def memory() -> CaseResult:
    few, many = (
        measure("memory", letters, traced=True, most_runs=1, run_seconds=LONGEST_RUN_SECONDS)
        for letters in (LETTERS, MANY_LETTERS)
    )
    assert few.peak_mb is not None
    assert many.peak_mb is not None
    growth = many.peak_mb - few.peak_mb
    wrong = [f"{growth:.1f} MB more, at most {MOST_GROWTH}"] if growth > MOST_GROWTH else []
    return CaseResult([few, many], wrong, f"peak of ten times the letters: {growth:+.1f} MB")


CASES: Mapping[str, Callable[[], CaseResult]] = {
    case.__name__: case for case in (pace, full, uneven, intents, failing, memory)
}


def _over_limits(figures: RunCosts) -> list[str]:
    limits = (
        ("SQS calls a letter", figures.sqs_calls, MOST_SQS_CALLS),
        ("writes a letter", figures.writes, MOST_WRITES),
        ("router invocations", figures.invocations, MOST_INVOCATIONS),
    )
    return [f"{value:.3g} {what}, at most {most}" for what, value, most in limits if value > most]


def _row(figures: RunCosts) -> str:
    peak = "" if figures.peak_mb is None else f"{figures.peak_mb:.1f}"
    audit = figures.audit
    return (
        f"{figures.case:<14} {figures.letters:>7} {figures.runs:>4} {figures.seconds:>7.1f}"
        f" {figures.sqs_calls:>9.3f} {figures.writes:>7.3f} {figures.invocations:>7}"
        f" {figures.cpu_ms:>7.2f} {peak:>8} {figures.possible_duplicates:>8}"
        f" {figures.intents_left:>7} {audit.lost:>5} {audit.duplicated:>5} {audit.changed:>7}"
        f" {audit.unfinished:>10}"
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the figures of the cases; 1 if one is over its limit or the audit is not clean."""
    parser = argparse.ArgumentParser(description="what moving letters costs")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--json", action="store_true", help="all counts, as JSON")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - CASES.keys())
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; there are: {', '.join(CASES)}")
    results: list[RunCosts] = []
    wrong: list[str] = []
    if not options.json:
        print(
            f"{'case':<14} {'letters':>7} {'runs':>4} {'seconds':>7} {'SQS calls':>9}"
            f" {'writes':>7} {'invoked':>7} {'CPU ms':>7} {'peak MB':>8} {'possible':>8}"
            f" {'intents':>7} {'lost':>5} {'twice':>5} {'changed':>7} {'unfinished':>10}"
        )
    for name in options.cases or CASES:
        result = CASES[name]()
        wrong += [f"{name}: {fault}" for fault in result.wrong]
        wrong += [f"{name}: {row.audit}" for row in result.figures if not row.audit.is_clean]
        wrong += [f"{name}: {row.trouble}" for row in result.figures if row.trouble]
        results += result.figures
        if not options.json:
            lines = [_row(figures) for figures in result.figures]
            lines += [result.comparison] if result.comparison else []
            print("\n".join(lines), flush=True)
    if options.json:
        print(json.dumps({"figures": [asdict(row) for row in results], "wrong": wrong}, indent=2))
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
