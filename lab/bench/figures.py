"""The figures to reach, of what was measured: a part of `lab.bench.moving`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from lab.bench.cases import BESIDE, INTENTS, LANES, SHARDS
from lab.bench.record import Drained, medians


class Measured:
    """The medians of what was measured; None where nothing was."""

    def __init__(self, rows: Sequence[Drained]) -> None:
        self._rows = rows

    def rows(self, case: str, way: str = "ours") -> list[Drained]:
        return [row for row in self._rows if row.case == case and row.way == way]

    def of(self, case: str, figure: str, way: str = "ours") -> float | None:
        rows = self.rows(case, way)
        return medians(rows, figure)[0] if rows else None

    def of_many(self, figure: str) -> list[float | None]:
        """A figure with the fewest letters, with more and with most."""
        rows = sorted(self.rows("many"), key=lambda row: row.letters)
        return [float(getattr(row, figure)) for row in rows] or [None] * 3


def over(upper: float | None, lower: float | None) -> float | None:
    return upper / lower if upper is not None and lower else None


@dataclass(frozen=True, slots=True)
class FigureGoal:
    """A figure that is to be reached: its bound, ≤ or ≥, its limit, and what was measured."""

    what: str
    bound: str
    limit: float
    measured: float | None

    @property
    def is_reached(self) -> bool | None:
        """None if nothing was measured."""
        if self.measured is None:
            return None
        rounded = float(f"{self.measured:.4g}")
        return rounded <= self.limit if self.bound == "≤" else rounded >= self.limit

    @property
    def wanted(self) -> str:
        return f"{self.bound} {self.limit:g}"

    def __str__(self) -> str:
        verdict = {None: "", True: "yes", False: "NO"}[self.is_reached]
        value = "-" if self.measured is None else f"{self.measured:.3f}"
        return f"{self.what:<52} {self.wanted:<12} {value:>9} {verdict}".rstrip()


def goals(rows: Sequence[Drained]) -> list[FigureGoal]:
    """Each figure to reach, with what was measured."""
    measured = Measured(rows)
    of = measured.of
    made: list[FigureGoal] = []

    def at_most(limit: float, what: str, value: float | None) -> None:
        made.append(FigureGoal(what, "≤", limit, value))

    def at_least(limit: float, what: str, value: float | None) -> None:
        made.append(FigureGoal(what, "≥", limit, value))

    at_most(0.305, "SQS calls a letter, full receives", of("ways", "sqs_calls"))
    at_most(0.32, "… default pace", of("pace", "sqs_calls"))
    at_most(0.40, "… receives of 1 to 10, 4 destinations", of("uneven", "sqs_calls"))
    for case, words in (("ways", "full"), ("pace", "default pace"), ("rules", "3 rules matching")):
        at_most(0.05, f"write requests a letter, {words}", of(case, "write_requests"))
        at_most(0.06, f"… write units, {words}", of(case, "write_units"))
    speed = over(of("ways", "rate"), of("ways", "rate", "lumigo"))
    at_least(0.7, "letters/s against lumigo-cli, one process", speed)
    for latency in BESIDE:
        case = f"beside {latency} ms"
        rates = [of(f"{case}, {number} shards", "rate") or 0.0 for number in SHARDS]
        what = f"… with the shards that help, a core each, {latency} ms"
        at_least(1.2, what, over(max(rates) or None, of(case, "rate", "lumigo")))
    threads = over(of("ways", "cpu"), of("ways", "cpu", "threads"))
    at_most(0.6, "CPU against 16 naive threads", threads)
    _, *cpu = measured.of_many("cpu")
    at_most(1.1, "… of most letters against fewer", over(cpu[-1], cpu[0]))
    intents = over(of(f"standing {INTENTS}", "cpu"), of("standing 0", "cpu"))
    at_most(1.1, f"… with {INTENTS:,} standing intents against none", intents)
    fewest, *_, most = measured.of_many("peak_mb")
    at_most(96, "resident memory with most letters, MB", most)
    growth = most - fewest if most and fewest else None
    at_most(10, "… growth from 1,000, MB", growth)
    failing = measured.rows("failing")
    for what, counts in (
        ("lost", [row.audit.lost for row in failing]),
        ("twice", [row.audit.duplicated for row in failing]),
        ("unfinished after one run", [row.audit.unfinished for row in failing]),
        ("false PossibleDuplicate", [row.possible_duplicates for row in failing]),
    ):
        at_most(0, f"2 % failing entries: {what}", max(counts, default=None))
    for number in SHARDS[1:]:
        linear = over(over(of(f"shards {number}", "rate"), of("shards 1", "rate")), number)
        at_least(0.9, f"{number} shards at 100 ms, of linear", linear)
    for latency, least in ((10, 2_000), (40, 1_400)):
        rate = of(f"share 0.29, {latency} ms", "rate")
        at_least(least, f"letters/s of one run with 0.29 core, {latency} ms", rate)
    for number in LANES:
        queries = [row.requests.get("Query", 0) for row in measured.rows(f"lanes {number}")]
        what = f"queries of a run with {number:,} empty lanes"
        at_most(50, what, max(queries, default=None))
    calls = [sum(row.requests.values()) / row.letters for row in measured.rows("room")]
    what = "waiting room out: SQS and DynamoDB calls a letter"
    at_most(0.40, what, max(calls, default=None))
    at_least(1_000, "… letters/s", of("room", "rate"))
    return made
