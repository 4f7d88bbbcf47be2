"""The figures to reach, of what was measured: a part of `lab.bench.moving`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median

from lab.bench.cases import BESIDE, INTENTS, LANES, SHARDS
from lab.bench.record import Drained


class Measured:
    """The medians of what was measured; None where nothing was."""

    def __init__(self, rows: Sequence[Drained]) -> None:
        self._rows = rows

    def values(self, case: str, figure: Callable[[Drained], float], way: str) -> list[float]:
        return [figure(row) for row in self._rows if row.case == case and row.way == way]

    def of(self, case: str, figure: str, way: str = "ours") -> float | None:
        values = self.values(case, lambda row: float(getattr(row, figure)), way)
        return median(values) if values else None

    def worst(self, case: str, figure: Callable[[Drained], float]) -> float | None:
        return max(self.values(case, figure, "ours"), default=None)

    def of_many(self, figure: str) -> list[float]:
        """A figure by the number of letters, that with the fewest first."""
        rows = sorted((row for row in self._rows if row.case == "many"), key=lambda r: r.letters)
        return [float(getattr(row, figure)) for row in rows]

    def best(self, cases: Sequence[str]) -> float | None:
        """The highest speed of some cases."""
        rates = [self.of(case, "rate") for case in cases]
        return max((rate for rate in rates if rate is not None), default=None)


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
    of, worst = measured.of, measured.worst
    cpu, peaks = measured.of_many("cpu"), measured.of_many("peak_mb")
    made = [
        FigureGoal("SQS calls a letter, full receives", "≤", 0.305, of("ways", "sqs_calls")),
        FigureGoal("… default pace", "≤", 0.32, of("pace", "sqs_calls")),
        FigureGoal("… receives of 1 to 10, 4 destinations", "≤", 0.40, of("uneven", "sqs_calls")),
    ]
    for case, words in (("ways", "full"), ("pace", "default pace"), ("rules", "3 rules matching")):
        requests, units = of(case, "write_requests"), of(case, "write_units")
        made += [
            FigureGoal(f"write requests a letter, {words}", "≤", 0.05, requests),
            FigureGoal(f"… write units, {words}", "≤", 0.06, units),
        ]
    speed = over(of("ways", "rate"), of("ways", "rate", "lumigo"))
    made.append(FigureGoal("letters/s against lumigo-cli, one process", "≥", 0.7, speed))
    for latency in BESIDE:
        case = f"beside {latency} ms"
        best = measured.best([f"{case}, {number} shards" for number in SHARDS])
        what = f"… with the shards that help, a core each, {latency} ms"
        made.append(FigureGoal(what, "≥", 1.2, over(best, of(case, "rate", "lumigo"))))
    threads = over(of("ways", "cpu"), of("ways", "cpu", "threads"))
    intents = over(of(f"standing {INTENTS}", "cpu"), of("standing 0", "cpu"))
    growth = peaks[-1] - peaks[0] if peaks else None
    made += [
        FigureGoal("CPU against 16 naive threads", "≤", 0.6, threads),
        # Those of the fewest letters are mostly the start of a run.
        FigureGoal(
            "… of most letters against fewer", "≤", 1.1, over(*cpu[:-3:-1]) if cpu else None
        ),
        FigureGoal(f"… with {INTENTS:,} standing intents against none", "≤", 1.1, intents),
        FigureGoal("resident memory with most letters, MB", "≤", 96, peaks[-1] if peaks else None),
        FigureGoal("… growth from 1,000, MB", "≤", 10, growth),
    ]
    counts: dict[str, Callable[[Drained], float]] = {
        "lost": lambda row: row.audit.lost,
        "twice": lambda row: row.audit.duplicated,
        "unfinished after one run": lambda row: row.audit.unfinished,
        "false PossibleDuplicate": lambda row: row.possible_duplicates,
    }
    for what, count in counts.items():
        made.append(FigureGoal(f"2 % failing entries: {what}", "≤", 0, worst("failing", count)))
    for number in SHARDS[1:]:
        one = of("shards 1", "rate")
        linear = over(of(f"shards {number}", "rate"), one * number if one else None)
        made.append(FigureGoal(f"{number} shards at 100 ms, of linear", "≥", 0.9, linear))
    for latency, least in ((10, 2_000), (40, 1_400)):
        rate = of(f"share 0.29, {latency} ms", "rate")
        what = f"letters/s of one run with 0.29 core, {latency} ms"
        made.append(FigureGoal(what, "≥", least, rate))
    for number in LANES:
        queries = worst(f"lanes {number}", lambda row: row.requests.get("Query", 0))
        made.append(FigureGoal(f"queries of a run with {number:,} empty lanes", "≤", 50, queries))
    calls = worst("room", lambda row: sum(row.requests.values()) / row.letters)
    return [
        *made,
        FigureGoal("waiting room out: SQS and DynamoDB calls a letter", "≤", 0.40, calls),
        FigureGoal("… letters/s", "≥", 1_000, of("room", "rate")),
    ]
