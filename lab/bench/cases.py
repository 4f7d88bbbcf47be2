"""The ways and cases of `lab.bench.moving`: what the stub is, and who empties its queue."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from lab.bench import lumigo
from lab.bench.drain import Effort, Job, effort
from lab.bench.letters import LetterSeries
from lab.bench.record import Drained
from lab.bench.stub import Conditions, Stub, stub

LETTERS = int(os.environ.get("LETTERS", "10000"))
MANY = int(os.environ.get("MANY", "100000"))
TURNS = int(os.environ.get("TURNS", "3"))

# Letters of cases that take long, and of which counts matter more than speed.
COUNTED = LETTERS // 2

# Letters for the memory of more to grow from.
FEWEST = 1_000

# Letters of 50 seconds, at 50 a second.
PACED = 2_500

# Letters a minute: a million in a month.
TRICKLE = 23

# Seconds that letters which wait an hour are left alone.
PASSES = 4_000.0

# Letters on record as intents of runs that were killed.
INTENTS = 4_000

# Lanes of the waiting room that were used in the last day, and are empty.
LANES = (1_000, 10_000)

SHARDS = (1, 2, 4, 8)

# Milliseconds a request at which ours with shards runs beside lumigo-cli.
BESIDE = (10, 100)

UNPACED: Mapping[str, Any] = {
    "fixed_rate": 1e6,
    "context": {"tenantId": "body.tenantId"},
    "consumer_library": True,
}

HOUR_OF_BACKOFF: Mapping[str, Any] = {
    **UNPACED,
    # An hour of it has passed: the stub's letters died then.
    "policy": {"backoff": dict.fromkeys(("base", "floor", "cap"), 7200)},
}

# Of each of our functions, as deployed.
MEMORY_GB = 512 / 1024

# The part of a core that Lambda gives a function of this memory (1,769 MB are a whole one).
CPU_SHARE = 512 / 1769


def drained(
    case: str,
    way: str,
    conditions: Conditions,
    *,
    pipeline: Mapping[str, Any] = UNPACED,
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
    cores = sorted(os.sched_getaffinity(0))
    ours, stubs = ({cores[-1]}, {cores[0]}) if is_on_own_core else ({*cores}, {*cores})
    rules = [*IDLE_RULES, *conditions.rules]
    with contextlib.ExitStack() as ends:
        ends.callback(os.sched_setaffinity, 0, cores)
        # What is started now runs on these cores alone.
        os.sched_setaffinity(0, stubs)
        at = ends.enter_context(stub(replace(conditions, rules=rules)))
        os.sched_setaffinity(0, ours)
        job = Job(way=way, endpoint=at.endpoint, pipeline=pipeline, **more)
        made = effort(job)
        if waits:
            at.skip(PASSES, recount=is_counted_from_wait)
            later = effort(replace(job, until="unsent", skipped=PASSES))
            made = later if is_counted_from_wait else made + later
        return _drained(case, way, conditions, made, at)


def _drained(case: str, way: str, conditions: Conditions, made: Effort, at: Stub) -> Drained:
    spent = at.spent()
    letters = conditions.letters.number
    cpu = made.cpu + made.router_cpu
    # The two functions and the stub share this machine's cores: the router's seconds here are
    # mostly those of waiting for a core. On Lambda it waits for its tables alone.
    reads = sum(spent.dynamodb.get(name, 0) for name in ("BatchGetItem", "GetItem", "Query"))
    router = made.router_cpu / CPU_SHARE + reads * conditions.latency
    # A run that keeps to a pace takes its time.
    run = max(made.cpu / CPU_SHARE, made.busy_seconds)
    return Drained(
        case=case, way=way, letters=letters, seconds=spent.seconds, runs=made.runs,
        rate=letters / spent.seconds if spent.seconds else 0.0,
        cpu=cpu / letters * 1_000, cores=cpu / spent.seconds if spent.seconds else 0.0,
        peak_mb=made.peak_mb, sqs_calls=sum(spent.sqs.values()) / letters,
        billed=spent.billed / letters, write_requests=spent.write_requests / letters,
        write_units=spent.write_units / letters, read_units=spent.read_units / letters,
        invocations=(made.invocations + made.runs) / letters,
        gb_seconds=(router + run) * MEMORY_GB / letters, shards=made.shards,
        possible_duplicates=made.possible_duplicates, audit=at.audit(), trouble=made.trouble,
        requests={**spent.sqs, **spent.dynamodb},
    )  # fmt: skip


def rule(name: str, tenant: str, action: str, **more: Any) -> dict[str, Any]:
    """A row of the rules table about one tenant."""
    return {"rule_id": name, "tenantId": tenant, "action": action, **more}


IDLE_RULES = [rule(f"idle-{n}", f"no-such-tenant-{n}", "QUARANTINE") for n in range(20)]
MATCHING_RULES = [rule(f"slow-{n}", f"t{n}", "DELAYED_REDRIVE", delay_seconds=60) for n in range(3)]
DEDICATED = ("d1", "d2", "d3")
DIVERTING_RULES = [
    rule(f"to-{queue}", f"t{number}", "DEDICATED_DLQ", queue=queue)
    for number, queue in enumerate(DEDICATED, 1)
]


def _conditions(letters: int = LETTERS, **more: Any) -> Conditions:
    looks = {name: more.pop(name) for name in ("body_bytes", "groups", "tenants") if name in more}
    return Conditions(letters=LetterSeries(number=letters, **looks), **more)


def others() -> list[str]:
    """The fastest other ways."""
    return ["threads", *(["lumigo"] if lumigo.is_installed() else [])]


def ways() -> Iterator[Drained]:
    """16 naive threads, lumigo-cli (if installed), ours."""
    for turn in range(TURNS):
        for way in (*others(), "ours"):
            yield drained("ways", way, _conditions(seed=turn))


def pace() -> Iterator[Drained]:
    """Ours at 50/s."""
    pipeline = {**UNPACED, "fixed_rate": 50.0}
    yield drained("pace", "ours", _conditions(PACED), pipeline=pipeline, scheduled=True)


def trickle() -> Iterator[Drained]:
    """What a run finds that comes each minute where 23 messages a minute fail."""
    for turn in range(TURNS):
        yield drained("trickle", "ours", _conditions(TRICKLE, seed=turn), scheduled=True)


def uneven() -> Iterator[Drained]:
    """Receives of 1 to 10 letters, to 4 destinations."""
    pipeline = {**UNPACED, "dedicated": DEDICATED}
    conditions = _conditions(uneven=True, rules=DIVERTING_RULES, dedicated=DEDICATED)
    yield drained("uneven", "ours", conditions, pipeline=pipeline)


def rules() -> Iterator[Drained]:
    """Three rules, one of which matches each letter."""
    yield drained("rules", "ours", _conditions(tenants=3, rules=MATCHING_RULES))


def failing() -> Iterator[Drained]:
    """2 % of all entries of batches fail; one run each."""
    for way in (*others(), "ours"):
        yield drained("failing", way, _conditions(COUNTED, failing=0.02), most_runs=1)


def many() -> Iterator[Drained]:
    """1,000 letters, 10,000 and 100,000 (MANY=1000000 takes a million)."""
    for letters in (FEWEST, LETTERS, MANY):
        yield drained("many", "ours", _conditions(letters))


def standing() -> Iterator[Drained]:
    """4,000 letters on record as intents of runs that were killed, and none."""
    for turn in range(TURNS):
        for intents in (0, INTENTS):
            yield drained(f"standing {intents}", "ours", _conditions(seed=turn, intents=intents))


def lanes() -> Iterator[Drained]:
    """One run of a few letters; the waiting room has 1,000 and 10,000 empty lanes."""
    for number in LANES:
        conditions = _conditions(TRICKLE, lanes=number)
        yield drained(f"lanes {number}", "ours", conditions, scheduled=True, most_runs=1)


def room() -> Iterator[Drained]:
    """All letters are in the waiting room; counted is what it takes to bring them back."""
    waits = {"waits": True, "is_counted_from_wait": True}
    yield drained("room", "ours", _conditions(COUNTED), pipeline=HOUR_OF_BACKOFF, **waits)


def groups() -> Iterator[Drained]:
    """A FIFO queue with 200 groups; each letter waits in the waiting room once."""
    pipeline = {**HOUR_OF_BACKOFF, "fifo": True}
    yield drained("groups", "ours", _conditions(2_000, groups=200), pipeline=pipeline, waits=True)


def large() -> Iterator[Drained]:
    """1,000 letters of 200 KB."""
    yield drained("large", "ours", _conditions(1_000, body_bytes=200_000))


def parking() -> Iterator[Drained]:
    """All letters have used up their attempts."""
    pipeline = {**UNPACED, "policy": {"max_attempts": 0}}
    yield drained("parking", "ours", _conditions(COUNTED), pipeline=pipeline)


def share() -> Iterator[Drained]:
    """Ours with 0.29 of a core for each function, at 10 and at 40 ms."""
    for turn in range(TURNS):
        for milliseconds in (10, 40):
            conditions = _conditions(latency=milliseconds / 1e3, seed=turn)
            yield drained(f"share 0.29, {milliseconds} ms", "ours", conditions, share=CPU_SHARE)


def shards() -> Iterator[Drained]:
    """1 to 8 shards at 100 ms, so that latency is the limit and not this machine."""
    for number in SHARDS:
        conditions = _conditions(2 * LETTERS, latency=0.100)
        yield drained(f"shards {number}", "ours", conditions, shards=number)


def beside() -> Iterator[Drained]:
    """lumigo-cli, and ours in 1 to 8 shards; one core for the stub, one for the way."""
    for milliseconds in BESIDE if lumigo.is_installed() else ():
        case = f"beside {milliseconds} ms"
        conditions = _conditions(2 * LETTERS, latency=milliseconds / 1e3)
        yield drained(case, "lumigo", conditions, is_on_own_core=True)
        for number in SHARDS:
            sharded = f"{case}, {number} shards"
            yield drained(sharded, "ours", conditions, shards=number, is_on_own_core=True)


Case = Callable[[], Iterator[Drained]]

SHORT: Sequence[Case] = (ways, pace, trickle, uneven, rules, failing)
LONG: Sequence[Case] = (
    *(many, standing, lanes, room, groups),
    *(large, parking, share, shards, beside),
)
