"""What moving letters costs beside other ways: `python -m tools.bench.moving [case ...]`.

Each way empties a fresh source queue of the stub (`tools.bench.lean_stub`: 10 ms latency with
jitter, in a process of its own), in a process of its own (`tools.bench.drain`). The ways take
turns, so that what else the machine does falls on all of them; a figure is the median of the
turns. The letters of a way are audited: one that is lost, duplicated, changed or left by our own
fails the bench. For the others it stands in the table.

case       what
ways       message by message, batches, threads, lumigo-cli (if installed), ours by transport
pace       ours at 50/s on the stub's own clock, which runs faster: counts, no waiting
uneven     receives of 1 to 10 letters, to 4 destinations
rules      three rules, one of which matches each letter
failing    2 % of all entries of batches fail; ours, lumigo-cli and threads, one run each
memory     1,000 letters and 10,000
many       100,000 letters (MANY=1000000 takes a million); memory and CPU against 10,000
standing   4,000 letters on record as intents of runs that were killed
groups     a FIFO queue with 200 groups
large      1,000 letters of 200 KB
latency    letters a second at 2, 10 and 40 ms
shards     1, 2 and 4 shards at 100 ms, so that latency is the limit and not this machine
peers      other tools that `make bench-peers` has installed, by their names

Without cases: the first six. `--long`: all. Figures: build/bench.json, build/bench.svg. LETTERS,
MANY, TURNS and PACE of the environment are other numbers of letters and turns, and another pace of
the stub's clock: a busy machine needs a slower one.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from deadletter.aws.journal import DynamoDBJournal
from deadletter.contract import MAIN_DLQ, ROWS_KEPT, Metric, Transport
from deadletter.redrive.journal import Intent, Plan
from deadletter.testing.fakes import MemoryDynamoDB
from tools.bench.chart import Chart, Curve, charts
from tools.bench.drain import Effort, Job, effort
from tools.bench.lean_queue import Audited, LetterSeries
from tools.bench.lean_stub import PIPELINE, Conditions, LeanStub, Spent, to_wire
from tools.bench.peers import PEERS
from tools.bench.prices import billed_seconds, dollars_per_million
from tools.bench.redriver import create_tables

BUILD = Path(__file__).parents[2] / "build"

LETTERS = int(os.environ.get("LETTERS", "10000"))
MANY = int(os.environ.get("MANY", "100000"))
TURNS = int(os.environ.get("TURNS", "3"))

FEWER = {"messages": 300, "batches": 1500}
"""Letters of the ways that are so slow that more would only take longer."""

PACE = float(os.environ.get("PACE", "4"))
"""How much faster the stub's clock runs at the default pace: 50 letters a second are 200."""

SHARD_LETTERS = 20_000
SHARD_LATENCY = 0.100

INTENTS = 4_000
OLD_SECONDS = 600.0

UNPACED: Mapping[str, Any] = {
    "rate": 1e6,
    "burst": 1_000_000,
    # The main queue has no consumer here: its backlog grows with each letter.
    "backlog_limit": 10_000_000,
    "context": {"tenantId": "body.tenantId"},
    "consumer_library": True,
}
DEFAULT_PACE: Mapping[str, Any] = {**UNPACED, "rate": 50.0, "burst": 500}

BATCHED = ("SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch")


def transports() -> Sequence[str]:
    """The transports of our functions, by their names in the settings."""
    return tuple(Transport)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one way did with one queue. CPU is seconds per 1,000 letters, all processes of a way."""

    case: str
    way: str
    letters: int
    seconds: float
    rate: float
    cpu: float
    peak_mb: float
    sqs_calls: float
    billed: float
    write_requests: float
    write_units: float
    read_units: float
    invocations: float
    dollars: float
    runs: int
    shards: int
    possible_duplicates: int
    intents_left: int
    audit: Audited
    cores: float
    trouble: str
    requests: Mapping[str, int] = field(default_factory=dict)


def drained(
    case: str,
    way: str,
    conditions: Conditions,
    *,
    pipeline: Mapping[str, Any] = UNPACED,
    rules: Sequence[Mapping[str, Any]] | None = None,
    intents: int = 0,
    transport: str = "boto3",
    scheduled: bool = False,
    shards: bool = False,
    most_runs: int = 60,
    run_seconds: float = 840.0,
) -> Drained:
    """Let a way empty a fresh queue."""
    with LeanStub(conditions) as stub:
        stub.put_items("rules", [*(rules if rules is not None else IDLE_RULES)])
        stub.put_items("letters", old_intents(intents, stub.began))
        job = Job(
            way=way,
            endpoint=stub.endpoint,
            began=stub.began,
            pace=conditions.pace,
            pipeline={**pipeline, "transport": transport},
            shards=shards,
            scheduled=scheduled,
            most_runs=most_runs,
            run_seconds=run_seconds,
        )
        made = effort(job)
        name = f"{way} {transport}" if way == "deadletter" else way
        standing = stub.count_items("letters", "plans")
        return _drained(
            case,
            name,
            conditions,
            made,
            stub.spent(),
            stub.audit(),
            standing,
        )


def _drained(
    case: str,
    way: str,
    conditions: Conditions,
    made: Effort,
    spent: Spent,
    audit: Audited,
    intents_left: int,
) -> Drained:
    letters = conditions.letters.number
    cpu = made.cpu + made.router_cpu
    dollars = dollars_per_million(
        letters,
        billed=spent.billed,
        read_units=spent.read_units,
        write_units=spent.write_units,
        invocations=made.runs + made.invocations if way.startswith("deadletter") else 0,
        seconds=_function_seconds(made, spent, conditions.latency),
    )
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
        dollars=dollars.total,
        runs=made.runs,
        shards=made.shards,
        possible_duplicates=made.counts.get(Metric.POSSIBLE_DUPLICATE, 0),
        intents_left=intents_left,
        audit=audit,
        cores=cpu / spent.seconds if spent.seconds else 0.0,
        trouble=made.trouble,
        requests={**spent.sqs, **spent.dynamodb},
    )


def _function_seconds(made: Effort, spent: Spent, latency: float) -> float:
    """What Lambda bills for both functions, by the stub's clock."""
    # The two functions and the stub share this machine's cores: the router's seconds here are
    # mostly those of waiting for a core. On Lambda it waits for its tables alone.
    reads = sum(spent.dynamodb.get(name, 0) for name in ("BatchGetItem", "GetItem", "Query"))
    router = billed_seconds(cpu=made.router_cpu, waits=reads * latency)
    return router + billed_seconds(cpu=made.cpu, at_least=made.busy_seconds[0])


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


def old_intents(number: int, began: float) -> list[dict[str, Any]]:
    """Items of intents that ended long ago, each with one letter that is not marked as sent."""
    if not number:
        return []
    client: Any = MemoryDynamoDB(lambda: began)
    create_tables(client)
    journal = DynamoDBJournal(client, "letters", PIPELINE, ROWS_KEPT)
    for at in range(number):
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
    """Our own, by each transport."""
    for transport in transports():
        yield drained(case, "deadletter", conditions, transport=transport, **more)


def _peers() -> list[str]:
    """The other tools that are installed."""
    return [name for name, peer in PEERS.items() if peer.is_installed()]


def _beside(case: str, conditions: Conditions) -> Iterator[Drained]:
    """The fastest other ways."""
    for way in ("threads", *(["lumigo"] if "lumigo" in _peers() else [])):
        yield drained(case, way, conditions)


def ways() -> Iterator[Drained]:
    others = ["messages", "batches", "threads", *(["lumigo"] if "lumigo" in _peers() else [])]
    for turn in range(TURNS):
        for way in others:
            yield drained("ways", way, _conditions(FEWER.get(way, LETTERS), seed=turn))
        yield from _ours("ways", _conditions(seed=turn))


def pace() -> Iterator[Drained]:
    yield from _ours(
        "pace", _conditions(pace=PACE), pipeline=DEFAULT_PACE, scheduled=True, run_seconds=55.0
    )


def uneven() -> Iterator[Drained]:
    pipeline = {**UNPACED, "dedicated": DEDICATED}
    conditions = _conditions(uneven=True)
    yield from _ours("uneven", conditions, pipeline=pipeline, rules=[*IDLE_RULES, *DIVERTING_RULES])


def rules() -> Iterator[Drained]:
    yield from _ours("rules", _conditions(tenants=3), rules=[*IDLE_RULES, *MATCHING_RULES])


def failing() -> Iterator[Drained]:
    conditions = _conditions(failing_entries=dict.fromkeys(BATCHED, 0.02))
    yield from _beside("failing", conditions)
    yield from _ours("failing", conditions, most_runs=1)


def memory() -> Iterator[Drained]:
    for letters in (1_000, LETTERS):
        yield from _ours("memory", _conditions(letters))


def many() -> Iterator[Drained]:
    for letters in (LETTERS, MANY):
        yield from _ours("many", _conditions(letters))


def standing() -> Iterator[Drained]:
    for _ in range(TURNS):
        for intents in (0, INTENTS):
            for row in _ours("standing", _conditions(), intents=intents):
                yield replace(row, case=f"standing {intents}")


def groups() -> Iterator[Drained]:
    yield from _ours("groups", _conditions(groups=200), pipeline={**UNPACED, "fifo": True})


def large() -> Iterator[Drained]:
    yield from _ours("large", _conditions(1_000, body_bytes=200_000))


def latency() -> Iterator[Drained]:
    for milliseconds in (2, 10, 40):
        conditions = _conditions(latency=milliseconds / 1e3)
        for rows in (_beside("latency", conditions), _ours("latency", conditions)):
            for row in rows:
                yield replace(row, case=f"latency {milliseconds} ms")


def shards() -> Iterator[Drained]:
    for number in (1, 2, 4):
        pipeline = {**UNPACED, "drain": {"shards": number}}
        conditions = _conditions(SHARD_LETTERS, latency=SHARD_LATENCY)
        for row in _ours("shards", conditions, pipeline=pipeline, shards=True):
            yield replace(row, case=f"shards {number}")


def peers() -> Iterator[Drained]:
    for name in _peers():
        conditions = _conditions(LETTERS if name == "lumigo" else FEWER["messages"])
        yield drained("peers", name, conditions)
    yield from _ours("peers", _conditions())


SHORT: Mapping[str, Callable[[], Iterable[Drained]]] = {
    case.__name__: case for case in (ways, pace, uneven, rules, failing, memory)
}
CASES: Mapping[str, Callable[[], Iterable[Drained]]] = {
    **SHORT,
    **{case.__name__: case for case in (many, standing, groups, large, latency, shards, peers)},
}


@dataclass(frozen=True, slots=True)
class FigureGoal:
    """A figure that is to be reached; `most` or `least`, and what was measured (None: not)."""

    what: str
    bound: str
    limit: float
    measured: float | None

    @property
    def is_reached(self) -> bool:
        if self.measured is None:
            return False
        rounded = float(f"{self.measured:.4g}")
        return rounded <= self.limit if self.bound == "≤" else rounded >= self.limit

    def __str__(self) -> str:
        measured = "not measured" if self.measured is None else f"{self.measured:.3f}"
        verdict = "" if self.measured is None else "  yes" if self.is_reached else "  NO"
        return f"{self.what:<62} {self.bound} {self.limit:<6g} {measured:>12}{verdict}"


class Medians:
    """The medians of what was measured."""

    def __init__(self, rows: Sequence[Drained]) -> None:
        self._rows = rows

    def median(self, case: str, way: str, figure: str, letters: int | None = None) -> float | None:
        values = [
            float(getattr(row, figure))
            for row in self._rows
            if row.case == case and row.way == way and letters in (None, row.letters)
        ]
        return median(values) if values else None

    def ratio(
        self, figure: str, one: tuple[str, str], other: tuple[str, str], letters: Sequence[int] = ()
    ) -> float | None:
        """A figure of one (case, way) over that of another."""
        first, second = letters if letters else (None, None)
        upper = self.median(*one, figure, first)
        lower = self.median(*other, figure, second)
        return upper / lower if upper is not None and lower else None

    def worst(self, case: str, way: str, figure: Callable[[Drained], float]) -> float | None:
        values = [figure(row) for row in self._rows if row.case == case and row.way == way]
        return max(values) if values else None


def goals(rows: Sequence[Drained]) -> list[FigureGoal]:
    """Each figure to reach, with what was measured."""
    figures = Medians(rows)
    made: list[FigureGoal] = []
    for transport in transports():
        ours = f"deadletter {transport}"

        def at_most(what: str, limit: float, value: float | None, name: str = ours) -> None:
            made.append(
                FigureGoal(f"{what}, {name.removeprefix('deadletter ')}", "≤", limit, value)
            )

        at_most("SQS calls a letter", 0.305, figures.median("ways", ours, "sqs_calls"))
        at_most("… default pace", 0.32, figures.median("pace", ours, "sqs_calls"))
        at_most(
            "… receives of 1 to 10, 4 destinations",
            0.40,
            figures.median("uneven", ours, "sqs_calls"),
        )
        for case, words in (("ways", "full"), ("pace", "default pace"), ("rules", "3 rules")):
            requests = figures.median(case, ours, "write_requests")
            units = figures.median(case, ours, "write_units")
            at_most(f"DynamoDB write requests a letter, {words}", 0.05, requests)
            at_most(f"… units, {words}", 0.06, units)
        speed = figures.ratio("rate", ("ways", ours), ("ways", "lumigo"))
        made.append(FigureGoal(f"letters/s against lumigo-cli, {transport}", "≥", 0.7, speed))
        cpu = figures.ratio("cpu", ("ways", ours), ("ways", "threads"))
        at_most("CPU against naive threads", 0.6 if transport == "thin" else 1.1, cpu)
        growth = figures.ratio("cpu", ("many", ours), ("many", ours), (MANY, LETTERS))
        at_most(f"CPU a letter at {MANY:,} against {LETTERS:,}", 1.1, growth)
        standing = figures.ratio("cpu", (f"standing {INTENTS}", ours), ("standing 0", ours))
        at_most(f"CPU a letter with {INTENTS:,} standing intents", 1.1, standing)
        peak = figures.median("many", ours, "peak_mb", MANY)
        at_most(f"resident memory at {MANY:,}, MB", 96, peak)
        few = figures.median("memory", ours, "peak_mb", 1_000)
        at_most("… growth from 1,000, MB", 10, peak - few if peak and few else None)
        for what, figure in (
            ("lost", lambda row: row.audit.lost),
            ("duplicated", lambda row: row.audit.duplicated),
            ("unfinished after one run", lambda row: row.audit.unfinished),
            ("false PossibleDuplicate", lambda row: row.possible_duplicates),
        ):
            at_most(f"2 % failing entries: {what}", 0, figures.worst("failing", ours, figure))
        for number in (2, 4):
            linear = figures.ratio("rate", (f"shards {number}", ours), ("shards 1", ours))
            linear = linear / number if linear is not None else None
            made.append(FigureGoal(f"{number} shards, of linear, {transport}", "≥", 0.9, linear))
        at_most("dollars per million, default pace", 0.40, figures.median("pace", ours, "dollars"))
    return made


_HEAD = (
    f"{'case':<14} {'way':<17} {'letters':>7} {'letters/s':>9} {'CPU s/1000':>10} {'cores':>5}"
    f" {'peak MB':>7} {'SQS':>6} {'writes':>7} {'units':>6} {'$/million':>9} {'lost':>5}"
    f" {'twice':>5} {'changed':>7} {'left':>5} {'runs':>4}"
)


def line(row: Drained) -> str:
    """A row of the table."""
    audit = row.audit
    return (
        f"{row.case:<14} {row.way:<17} {row.letters:>7} {row.rate:>9.0f} {row.cpu:>10.3f}"
        f" {row.cores:>5.2f} {row.peak_mb:>7.1f} {row.sqs_calls:>6.3f}"
        f" {row.write_requests:>7.4f} {row.write_units:>6.3f} {row.dollars:>9.2f}"
        f" {audit.lost:>5} {audit.duplicated:>5} {audit.changed:>7} {audit.unfinished:>5}"
        f" {row.runs:>4}"
    )


def faults(rows: Sequence[Drained]) -> list[str]:
    """What is wrong with our own: anything but letters that arrived, once and unchanged."""
    return [
        f"{row.case}, {row.way}: {row.audit} {row.trouble}".rstrip()
        for row in rows
        if row.way.startswith("deadletter") and (not row.audit.is_clean or row.trouble)
    ]


def picture(rows: Sequence[Drained]) -> str:
    """Throughput against latency, and dollars against depth, as SVG."""
    names = list(dict.fromkeys(row.way for row in rows))

    def lines(x: Callable[[Drained], float | None], y: Callable[[Drained], float]) -> list[Curve]:
        made = []
        for name in names:
            points: dict[float, list[float]] = {}
            for row in rows:
                at = x(row)
                if row.way == name and at is not None:
                    points.setdefault(at, []).append(y(row))
            if points:
                made.append(Curve(name, [(at, median(points[at])) for at in sorted(points)]))
        return made

    def milliseconds(row: Drained) -> float | None:
        if row.case == "ways":
            return 10.0
        return float(row.case.split()[1]) if row.case.startswith("latency") else None

    def depth(row: Drained) -> float | None:
        is_ours = row.way.startswith("deadletter") and row.case in ("ways", "memory", "many")
        return float(row.letters) if is_ours else None

    return charts(
        [
            Chart("letters/s by latency (ms)", lines(milliseconds, lambda row: row.rate)),
            Chart("dollars per million by depth", lines(depth, lambda row: row.dollars)),
            Chart("CPU s per 1,000 by depth", lines(depth, lambda row: row.cpu)),
        ]
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures; 1 if a letter of ours did not arrive as it was."""
    parser = argparse.ArgumentParser(description="what moving letters costs beside other ways")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(CASES))
    parser.add_argument("--long", action="store_true", help="all cases")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - CASES.keys())
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; there are: {', '.join(CASES)}")
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"
    started = datetime.now(UTC).isoformat(timespec="seconds")
    print(f"{started}, {machine}, load {os.getloadavg()[0]:.1f}")
    if "lumigo" not in _peers():
        print("skipped: lumigo-cli is not installed (make bench-peers)")
    print(_HEAD, flush=True)
    rows: list[Drained] = []
    for name in options.cases or (CASES if options.long else SHORT):
        for row in CASES[name]():
            rows.append(row)
            print(line(row), flush=True)
    reached = goals(rows)
    print(f"\n{'figure to reach':<62}   {'goal':<6} {'measured':>12}")
    for goal in reached:
        if goal.measured is not None:
            print(goal)
    BUILD.mkdir(exist_ok=True)
    data = {
        "started": started,
        "machine": machine,
        "rows": [asdict(row) for row in rows],
        "goals": [{**asdict(goal), "reached": goal.is_reached} for goal in reached],
    }
    (BUILD / "bench.json").write_text(json.dumps(data, indent=1) + "\n")
    (BUILD / "bench.svg").write_text(picture(rows))
    wrong = faults(rows)
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
