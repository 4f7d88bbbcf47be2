"""What was measured of moving letters, and the figures to reach: a part of `lab.bench.moving`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from lab.bench.imports import GOALS
from lab.bench.lean_queue import Audited

INTENTS = 4_000
"""Letters on record as intents of runs that were killed."""

BESIDE = (10, 100)
"""Milliseconds a request at which ours with shards runs beside lumigo-cli."""

SHARDS = (1, 2, 4)


def transports() -> Sequence[str]:
    """How our functions call AWS, as the tables of the page name it."""
    return ("thin",)


@dataclass(frozen=True, slots=True, kw_only=True)
class Drained:
    """What one way did with one queue. CPU is seconds per 1,000 letters, all processes of a way.

    Counts are those of a letter: of SQS calls and, as `billed`, of 64 KB of them, of DynamoDB's
    requests and units, of the router's invocations, and the GB-seconds of both functions.
    """

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
    gb_seconds: float
    runs: int
    shards: int
    possible_duplicates: int
    intents_left: int
    audit: Audited
    cores: float
    trouble: str
    requests: Mapping[str, int] = field(default_factory=dict)

    @property
    def all_calls(self) -> float:
        """Calls of SQS and DynamoDB a letter."""
        return sum(self.requests.values()) / self.letters


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """Milliseconds of CPU of a fresh process that imports a function and makes its clients."""

    function: str
    transport: str
    cpu_ms: float


class Medians:
    """The medians of what was measured."""

    def __init__(self, rows: Sequence[Drained], starts: Sequence[Started] = ()) -> None:
        self._rows = rows
        self._starts = starts

    def median(
        self, case: str, way: str, figure: str, letters: Callable[..., int] | None = None
    ) -> float | None:
        """The median of a figure; with `letters` only of rows with the most or fewest letters."""
        rows = [row for row in self._rows if row.case == case and row.way == way]
        if letters is not None and rows:
            wanted = letters(row.letters for row in rows)
            rows = [row for row in rows if row.letters == wanted]
        values = [float(getattr(row, figure)) for row in rows]
        return median(values) if values else None

    def ratio(self, figure: str, one: tuple[str, str], other: tuple[str, str]) -> float | None:
        """A figure of one (case, way) over that of another."""
        return _over(self.median(*one, figure), self.median(*other, figure))

    def growth(self, case: str, way: str, figure: str) -> float | None:
        """A figure with the most letters of a case over that with the fewest."""
        return _over(self.median(case, way, figure, max), self.median(case, way, figure, min))

    def worst(self, case: str, way: str, figure: Callable[[Drained], float]) -> float | None:
        values = [figure(row) for row in self._rows if row.case == case and row.way == way]
        return max(values) if values else None

    def start(self, function: str, transport: str) -> float | None:
        values = [
            start.cpu_ms
            for start in self._starts
            if (start.function, start.transport) == (function, transport)
        ]
        return median(values) if values else None


def _over(upper: float | None, lower: float | None) -> float | None:
    return upper / lower if upper is not None and lower else None


@dataclass(frozen=True, slots=True)
class FigureGoal:
    """A figure that is to be reached, by transport: the limit, and what was measured.

    `bound` is ≤ or ≥. A transport that has no limit, or was not measured, is not in the mapping.
    """

    what: str
    bound: str
    limits: Mapping[str, float]
    measured: Mapping[str, float]

    def is_reached(self, transport: str) -> bool | None:
        """None if there is nothing to compare."""
        if transport not in self.measured or transport not in self.limits:
            return None
        rounded = float(f"{self.measured[transport]:.4g}")
        limit = self.limits[transport]
        return rounded <= limit if self.bound == "≤" else rounded >= limit

    @property
    def wanted(self) -> str:
        """The limits as text."""
        return f"{self.bound} " + "; ".join(f"{n:g}" for n in dict.fromkeys(self.limits.values()))

    def __str__(self) -> str:
        cells = []
        for transport in transports():
            value = self.measured.get(transport)
            text = "-" if value is None else f"{value:.3f}"
            cells.append(f"{text:>9} {_VERDICTS[self.is_reached(transport)]:<3}")
        return f"{self.what:<52} {self.wanted:<12} {' '.join(cells)}"


_VERDICTS = {None: "", True: "yes", False: "NO"}


def goals(rows: Sequence[Drained], starts: Sequence[Started] = ()) -> list[FigureGoal]:
    """Each figure to reach, with what was measured."""
    figures = Medians(rows, starts)
    made: list[FigureGoal] = []

    def figure(
        what: str,
        limit: float | Mapping[str, float],
        measure: Callable[[str, str], float | None],
        bound: str = "≤",
    ) -> None:
        """`measure` is asked for our way and its transport."""
        measured = {name: measure(f"deadletter {name}", name) for name in transports()}
        limits = limit if isinstance(limit, Mapping) else dict.fromkeys(transports(), limit)
        known = {name: value for name, value in measured.items() if value is not None}
        made.append(FigureGoal(what, bound, limits, known))

    def of(case: str, name: str) -> Callable[[str, str], float | None]:
        return lambda way, _: figures.median(case, way, name)

    figure("SQS calls a letter, full receives", 0.305, of("ways", "sqs_calls"))
    figure("… default pace", 0.32, of("pace", "sqs_calls"))
    figure("… receives of 1 to 10, 4 destinations", 0.40, of("uneven", "sqs_calls"))
    for case, words in (("ways", "full"), ("pace", "default pace"), ("rules", "3 rules matching")):
        figure(f"write requests a letter, {words}", 0.05, of(case, "write_requests"))
        figure(f"… write units, {words}", 0.06, of(case, "write_units"))
    figure(
        "letters/s against lumigo-cli, one process",
        0.7,
        lambda way, _: figures.ratio("rate", ("ways", way), ("ways", "lumigo")),
        "≥",
    )
    for latency in BESIDE:
        figure(
            f"… with the shards that help, a core each, {latency} ms",
            {"thin": 1.2},
            lambda way, _, at=latency: _best_of_shards(figures, way, at),  # type: ignore[misc]
            "≥",
        )
    figure(
        "CPU against 16 naive threads",
        {"thin": 0.6},
        lambda way, _: figures.ratio("cpu", ("ways", way), ("ways", "threads")),
    )
    figure(
        "… of most letters against fewer", 1.1, lambda way, _: figures.growth("many", way, "cpu")
    )
    standing = f"standing {INTENTS}"
    figure(
        f"… with {INTENTS:,} standing intents against none",
        1.1,
        lambda way, _: figures.ratio("cpu", (standing, way), ("standing 0", way)),
    )
    figure(
        "resident memory with most letters, MB",
        96,
        lambda way, _: figures.median("many", way, "peak_mb", max),
    )
    figure("… growth from 1,000, MB", 10, lambda way, _: _memory_growth(figures, way))
    for what, count in (
        ("lost", lambda row: row.audit.lost),
        ("twice", lambda row: row.audit.duplicated),
        ("unfinished after one run", lambda row: row.audit.unfinished),
        ("false PossibleDuplicate", lambda row: row.possible_duplicates),
    ):
        figure(
            f"2 % failing entries: {what}",
            0,
            lambda way, _, count=count: figures.worst("failing", way, count),  # type: ignore[misc]
        )
    for number in SHARDS[1:]:
        figure(
            f"{number} shards at 100 ms, of linear",
            0.9,
            lambda way, _, number=number: _linear(figures, way, number),  # type: ignore[misc]
            "≥",
        )
    for latency, least in ((10, 2_000), (40, 1_400)):
        what = f"letters/s of one run with 0.29 core, {latency} ms"
        figure(what, least, of(f"share 0.29, {latency} ms", "rate"), "≥")
    figure("waiting room out: SQS and DynamoDB calls a letter", 0.40, of("room", "all_calls"))
    figure("… letters/s", 1_000, of("room", "rate"), "≥")
    for function, limit in GOALS.items():
        figure(
            f"CPU of import and clients, {function}, ms",
            limit,
            lambda _, name, function=function: figures.start(function, name),  # type: ignore[misc]
        )
    return made


def _best_of_shards(figures: Medians, way: str, latency: int) -> float | None:
    """The highest speed beside lumigo-cli's."""
    peer = figures.median(f"beside {latency} ms", "lumigo", "rate")
    speeds = [
        figures.median(f"beside {latency} ms, {number} shards", way, "rate") for number in SHARDS
    ]
    return _over(max((speed for speed in speeds if speed is not None), default=None), peer)


def _memory_growth(figures: Medians, way: str) -> float | None:
    most = figures.median("many", way, "peak_mb", max) or figures.median("ways", way, "peak_mb")
    fewest = figures.median("memory", way, "peak_mb")
    return most - fewest if most is not None and fewest is not None else None


def _linear(figures: Medians, way: str, number: int) -> float | None:
    ratio = figures.ratio("rate", (f"shards {number}", way), ("shards 1", way))
    return ratio / number if ratio is not None else None
