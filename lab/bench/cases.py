"""The ways and cases of `lab.bench.moving`: what the stub is, and who empties its queue."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.lease import DynamoDBLease
from deadletter.contract import MAIN_DLQ, ROWS_KEPT
from deadletter.redrive.journal import Intent, Plan
from deadletter.redrive.source_memory import PAST, SourceMemory
from deadletter.signals.figures import Figure
from deadletter.testing.fakes import MemoryDynamoDB
from lab.bench.drain import Effort, Job, effort
from lab.bench.figures import BESIDE, INTENTS, SHARDS, Drained, Started
from lab.bench.imports import GOALS, start_ms
from lab.bench.lean_queue import LetterSeries
from lab.bench.lean_stub import PIPELINE, Conditions, LeanStub, Spent, to_wire
from lab.bench.peers import PEERS
from lab.bench.tables import create_tables

LETTERS = int(os.environ.get("LETTERS", "10000"))
MANY = int(os.environ.get("MANY", "100000"))
TURNS = int(os.environ.get("TURNS", "3"))

FEWER = {"messages": 200, "batches": 1_000}
"""Letters of the ways that are so slow that more would only take longer."""

PACE = float(os.environ.get("PACE", "4"))
"""How much faster the stub's clock runs at the default pace: 50 letters a second are 200."""

COUNTED = LETTERS // 2
"""Letters of cases that take long, and of which counts matter more than speed."""

SHARD_LETTERS = 2 * LETTERS
SHARD_LATENCY = 0.100

PASSES = 4_000.0
"""Seconds that letters which wait an hour are left alone."""

TRICKLE = 23
"""Letters a minute: a million in a month."""

ORDERED = 2_000
"""Letters of the FIFO case, each of which waits once."""

OLD_SECONDS = 600.0

UNPACED: Mapping[str, Any] = {
    "fixed_rate": 1e6,
    # The main queue has no consumer here: its backlog grows with each letter.
    "backlog_limit": 10_000_000,
    "context": {"tenantId": "body.tenantId"},
    "consumer_library": True,
}
DEFAULT_PACE: Mapping[str, Any] = {**UNPACED, "fixed_rate": 50.0}

DEFAULT_RATE: Mapping[str, Any] = {
    name: value for name, value in UNPACED.items() if name != "fixed_rate"
}
"""The rate finds itself; messages are gone from the stub's main queue at once."""

HOUR_OF_BACKOFF: Mapping[str, Any] = {
    **UNPACED,
    # An hour of it has passed: the stub's letters died then.
    "policy": {"backoff": {"base": 7200, "floor": 7200, "cap": 7200}},
}

MEMORY_GB = 512 / 1024
"""Of each of our functions, as deployed."""

CPU_SHARE = 512 / 1769
"""The part of a core that Lambda gives a function of this memory (1,769 MB are a whole one)."""

BATCHED = ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")


def drained(
    case: str,
    way: str,
    conditions: Conditions,
    *,
    pipeline: Mapping[str, Any] = UNPACED,
    rules: Sequence[Mapping[str, Any]] | None = None,
    intents: int = 0,
    waits: bool = False,
    is_counted_from_wait: bool = False,
    is_on_own_core: bool = False,
    **more: Any,
) -> Drained:
    """Let a way empty a fresh queue.

    With `waits` the letters are in the waiting room then, and time passes until they are due;
    counted is all, or what comes after. `is_on_own_core` gives the stub one core and all
    processes of the way another.
    """
    ours, stubs = _cores() if is_on_own_core else (None, None)
    with contextlib.ExitStack() as ends:
        with _on(stubs):
            stub = ends.enter_context(LeanStub(conditions))
        ends.enter_context(_on(ours))
        stub.put_items("rules", [*(rules if rules is not None else IDLE_RULES)])
        stub.put_items("letters", of_earlier_runs(intents, stub.began))
        job = Job(
            way=way,
            endpoint=stub.endpoint,
            began=stub.began,
            pace=conditions.pace,
            pipeline=pipeline,
            **more,
        )
        made = effort(job)
        if waits:
            stub.skip(PASSES)
            if is_counted_from_wait:
                stub.reset()
            later = effort(replace(job, until="unsent", skipped=PASSES))
            made = later if is_counted_from_wait else made.and_then(later)
        name = f"{way} thin" if way == "deadletter" else way
        return _drained(case, name, conditions, made, stub)


def _cores() -> tuple[set[int], set[int]]:
    """A core for a way and one for the stub; the same if there is only one."""
    cores = sorted(os.sched_getaffinity(0))
    return {cores[-1]}, {cores[0]}


@contextlib.contextmanager
def _on(cores: set[int] | None) -> Iterator[None]:
    """What is started now runs on these cores alone."""
    if cores is None:
        yield
        return
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, cores)
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


def _drained(case: str, way: str, conditions: Conditions, made: Effort, stub: LeanStub) -> Drained:
    spent = stub.spent()
    letters = conditions.letters.number
    cpu = made.cpu + made.router_cpu
    return Drained(
        case=case,
        way=way,
        letters=letters,
        seconds=spent.seconds,
        rate=letters / spent.seconds if spent.seconds else 0.0,
        cpu=cpu / letters * 1000,
        peak_mb=made.peak_mb,
        sqs_calls=spent.sqs_calls / letters,
        billed=spent.billed / letters,
        write_requests=spent.write_requests / letters,
        write_units=spent.write_units / letters,
        read_units=spent.read_units / letters,
        invocations=made.invocations / letters,
        gb_seconds=_function_seconds(made, spent, conditions.latency) * MEMORY_GB / letters,
        runs=made.runs,
        shards=made.shards,
        possible_duplicates=made.counts.get(Figure.POSSIBLE_DUPLICATE, 0),
        intents_left=stub.count_items("letters", "plans"),
        audit=stub.audit(),
        cores=cpu / spent.seconds if spent.seconds else 0.0,
        trouble=made.trouble,
        requests={**spent.sqs, **spent.dynamodb},
    )


def _function_seconds(made: Effort, spent: Spent, latency: float) -> float:
    """What Lambda bills for both functions, by the stub's clock."""
    # The two functions and the stub share this machine's cores: the router's seconds here are
    # mostly those of waiting for a core. On Lambda it waits for its tables alone.
    reads = sum(spent.dynamodb.get(name, 0) for name in ("BatchGetItem", "GetItem", "Query"))
    router = made.router_cpu / CPU_SHARE + reads * latency
    # A run that keeps to a pace takes its time.
    return router + max(made.cpu / CPU_SHARE, made.busy_seconds[0])


def rule(name: str, tenant: str, action: str, **more: Any) -> dict[str, Any]:
    """A rule about one tenant, as an item of the rules table."""
    values = {"pipeline": PIPELINE, "rule_id": name, "tenantId": tenant, "action": action, **more}
    return {
        key: {"N": str(value)} if isinstance(value, int) else {"S": value}
        for key, value in values.items()
    }


IDLE_RULES = [rule(f"idle-{n}", f"no-such-tenant-{n}", "QUARANTINE") for n in range(20)]
MATCHING_RULES = [rule(f"slow-{n}", f"t{n}", "DELAYED_REDRIVE", delay_seconds=60) for n in range(3)]
DEDICATED = ("d1", "d2", "d3")
DIVERTING_RULES = [
    rule(f"to-{queue}", f"t{number}", "DEDICATED_DLQ", queue=queue)
    for number, queue in enumerate(DEDICATED, 1)
]


def of_earlier_runs(intents: int, began: float) -> list[dict[str, Any]]:
    """Items of a queue that was drained before: its lease, whose first runs are over.

    With intents that ended long ago, each with one letter that is not marked as sent.
    """
    client: Any = MemoryDynamoDB(lambda: began)
    create_tables(client)
    lease = DynamoDBLease(client, "letters", PIPELINE, MAIN_DLQ, first_rate=1.0)
    lease.record(SourceMemory(first_step=PAST))
    journal = DynamoDBJournal(client, "letters", PIPELINE, ROWS_KEPT)
    for at in range(intents):
        plan = Plan(at.to_bytes(16, "big"), "main", 1)
        expires = began - OLD_SECONDS
        journal.write(
            Intent(f"{at:08x}.0", f"{at:08x}", 1, expires, [plan], 0, home=MAIN_DLQ), None
        )
    return [to_wire(item) for item in client.items("letters")]


def _conditions(letters: int = LETTERS, **more: Any) -> Conditions:
    looks = {name: more.pop(name) for name in ("body_bytes", "groups", "tenants") if name in more}
    return Conditions(letters=LetterSeries(number=letters, **looks), **more)


def _ours(case: str, conditions: Conditions, **more: Any) -> Iterator[Drained]:
    """Our own."""
    yield drained(case, "deadletter", conditions, **more)


def installed() -> list[str]:
    """The other tools that are installed."""
    return [name for name, peer in PEERS.items() if peer.is_installed()]


def _beside(case: str, conditions: Conditions) -> Iterator[Drained]:
    """The fastest other ways."""
    for way in ("threads", *(["lumigo"] if "lumigo" in installed() else [])):
        yield drained(case, way, conditions)


def ways() -> Iterator[Drained]:
    others = ["messages", "batches", "threads", *(["lumigo"] if "lumigo" in installed() else [])]
    for turn in range(TURNS):
        for way in others:
            yield drained("ways", way, _conditions(FEWER.get(way, LETTERS), seed=turn))
        yield from _ours("ways", _conditions(seed=turn))


def pace() -> Iterator[Drained]:
    yield from _ours(
        "pace",
        _conditions(COUNTED, pace=PACE),
        pipeline=DEFAULT_PACE,
        scheduled=True,
        run_seconds=55.0,
    )


def auto() -> Iterator[Drained]:
    yield from _ours(
        "auto",
        # At the highest rate this machine has to keep up with the stub's clock.
        _conditions(2 * LETTERS, pace=PACE / 2),
        pipeline=DEFAULT_RATE,
        scheduled=True,
        run_seconds=55.0,
    )


def trickle() -> Iterator[Drained]:
    """What a run finds that comes each minute where a few messages a minute fail."""
    for turn in range(TURNS):
        yield from _ours("trickle", _conditions(TRICKLE, seed=turn), scheduled=True)


def uneven() -> Iterator[Drained]:
    pipeline = {**UNPACED, "dedicated": DEDICATED}
    conditions = _conditions(uneven=True)
    yield from _ours("uneven", conditions, pipeline=pipeline, rules=[*IDLE_RULES, *DIVERTING_RULES])


def rules() -> Iterator[Drained]:
    yield from _ours("rules", _conditions(tenants=3), rules=[*IDLE_RULES, *MATCHING_RULES])


def failing() -> Iterator[Drained]:
    conditions = _conditions(COUNTED, failing_entries=dict.fromkeys(BATCHED, 0.02))
    yield from _beside("failing", conditions)
    yield from _ours("failing", conditions, most_runs=1)


def memory() -> Iterator[Drained]:
    yield from _ours("memory", _conditions(1_000))


def start() -> Iterator[Started]:
    for function in GOALS:
        yield Started(function=function, transport="thin", cpu_ms=start_ms(function))


def many() -> Iterator[Drained]:
    for letters in (LETTERS, MANY):
        yield from _ours("many", _conditions(letters))


def standing() -> Iterator[Drained]:
    for _ in range(TURNS):
        for intents in (0, INTENTS):
            yield from _ours(f"standing {intents}", _conditions(), intents=intents)


def room() -> Iterator[Drained]:
    yield from _ours(
        "room",
        _conditions(COUNTED),
        pipeline=HOUR_OF_BACKOFF,
        waits=True,
        is_counted_from_wait=True,
    )


def groups() -> Iterator[Drained]:
    pipeline = {**HOUR_OF_BACKOFF, "fifo": True}
    conditions = _conditions(ORDERED, groups=200)
    yield from _ours("groups", conditions, pipeline=pipeline, waits=True)


def large() -> Iterator[Drained]:
    yield from _ours("large", _conditions(1_000, body_bytes=200_000))


def latency() -> Iterator[Drained]:
    for milliseconds in (2, 10, 40):
        case, conditions = f"latency {milliseconds} ms", _conditions(latency=milliseconds / 1e3)
        yield from _beside(case, conditions)
        yield from _ours(case, conditions)


def share() -> Iterator[Drained]:
    """One run with the part of a core that Lambda gives our functions."""
    for turn in range(TURNS):
        for milliseconds in (10, 40):
            conditions = _conditions(latency=milliseconds / 1e3, seed=turn)
            yield from _ours(f"share 0.29, {milliseconds} ms", conditions, share=CPU_SHARE)


def parking() -> Iterator[Drained]:
    """All letters have used up their attempts."""
    pipeline = {**UNPACED, "policy": {"max_attempts": 0}}
    yield from _ours("parking", _conditions(COUNTED), pipeline=pipeline)


def shards() -> Iterator[Drained]:
    for number in SHARDS:
        conditions = _conditions(SHARD_LETTERS, latency=SHARD_LATENCY)
        yield from _ours(f"shards {number}", conditions, shards=number)


def beside() -> Iterator[Drained]:
    if "lumigo" not in installed():
        return
    for milliseconds in BESIDE:
        case = f"beside {milliseconds} ms"
        conditions = _conditions(SHARD_LETTERS, latency=milliseconds / 1e3)
        yield drained(case, "lumigo", conditions, is_on_own_core=True)
        for number in SHARDS:
            yield drained(
                f"{case}, {number} shards",
                "deadletter",
                conditions,
                shards=number,
                is_on_own_core=True,
            )


def peers() -> Iterator[Drained]:
    for name in installed():
        conditions = _conditions(LETTERS if name == "lumigo" else FEWER["messages"])
        yield drained("peers", name, conditions)
    yield from _ours("peers", _conditions())


Measured = Drained | Started

SHORT: Mapping[str, Callable[[], Iterable[Measured]]] = {
    case.__name__: case for case in (ways, pace, trickle, uneven, rules, failing, memory, start)
}
CASES: Mapping[str, Callable[[], Iterable[Measured]]] = {
    **SHORT,
    **{
        case.__name__: case
        for case in (
            *(auto, many, standing, room, groups, parking, large),
            *(latency, share, shards, beside, peers),
        )
    },
}
