"""What the product is to reach at its defaults, and what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.scenario_bench.summary import AGAINST_NATIVE, NATIVE, NEVER, PRODUCT, Row, duration

YES, NO, STILL = "yes", "no", "still missed"


@dataclass(frozen=True)
class Goal:
    """A limit for one figure of one scenario: at most, or at least if `least`.

    Without a `limit` it is what plain SQS with its native redrive reaches. With `p95` it is the
    95th percentile of the seeds that counts, else the median. A goal whose `reached` is False is
    known to be missed; any other that is missed is a step back.
    """

    title: str
    scenario: str
    figure: str
    limit: float | None
    unit: str = ""
    least: bool = False
    p95: bool = False
    reached: bool = True

    def judged(self, row: Row, native: Row | None) -> tuple[str, str, str, str] | None:
        """Title, limit, measured, and whether met; None if there is nothing to compare."""
        limit = self.limit
        if limit is None and native is not None:
            limit = native.middle(self.figure)
        if limit is None or not row.values(self.figure):
            return None
        value = row.p95(self.figure) if self.p95 else row.middle(self.figure)
        is_met = value >= limit if self.least else value <= limit
        sign = ">=" if self.least else "<="
        met = YES if is_met else NO if self.reached else STILL
        return self.title, f"{sign} {self.text(limit)}", self.text(value), met

    def text(self, value: float) -> str:
        if math.isinf(value):
            return NEVER
        match self.unit:
            case "s":
                return duration(value)
            case "%":
                return f"{math.floor(value * 1_000) / 10:g} %"
        return f"{value:,.4g}{self.unit}"


def _others(title: str, scenario: str) -> tuple[Goal, Goal]:
    """A sick minority: the others notice nothing, and it is not asked more than by plain SQS."""
    return (
        Goal(f"{title}: others on time", scenario, "bystanders", 0.99, "%", True),
        Goal(f"{title}: requests of the sick, of native's", scenario, AGAINST_NATIVE, 1.05),
    )


def _no_worse(
    title: str, scenario: str, *, openings: float, late: float, moves: float
) -> tuple[Goal, Goal, Goal]:
    """Limits that are what the product reached when they were set, rounded up."""
    return (
        Goal(f"{title}: openings", scenario, "openings", openings),
        Goal(f"{title}: late", scenario, "late", late),
        Goal(f"{title}: moves a message", scenario, "moves", moves),
    )


GOALS = (
    Goal("5 % poison, 2 h: healthy messages processed", "poison-5", "goodput", 0.999, "%", True),
    Goal("5 % poison, 2 h: openings", "poison-5", "openings", 0),
    Goal("5 % poison, 2 h: poison not parked after 30 min", "poison-5", "poison_left", 0),
    Goal("5 % poison, 2 h: first failure to main queue", "poison-5", "way_back", 110, "s"),
    Goal("200 with an empty body: parked wrongly", "bad-replies", "parked_wrongly", 0),
    Goal("200 with an empty body: processed", "bad-replies", "goodput", 1.0, "%", True),
    Goal("outage 3 min: requests to the dead dependency", "outage-3m", "dead_requests", 20),
    Goal("the same with 100 in hand", "outage-3m-full-hands", "dead_requests", 40),
    Goal("outage 30 min: to CLOSED", "outage-30m", "closed_after", 30, "s"),
    Goal("outage 30 min: to CLOSED, p95", "outage-30m", "closed_after", 60, "s", p95=True),
    Goal("outage 30 min: 90 % rate after CLOSED", "outage-30m", "after_closed", 120, "s"),
    Goal("flapping: to CLOSED after it is well", "flapping", "closed_after", 60, "s"),
    Goal("outage 30 min: surge", "outage-30m", "surge", 4, " x"),
    Goal("outage 30 min: last back", "outage-30m", "last_back", 720, "s"),
    Goal("outage 6 h: processed", "outage-6h", "goodput", 1.0, "%", True),
    Goal("outage 6 h, not ours: processed", "outage-6h-theirs", "goodput", 1.0, "%", True),
    Goal("outage 6 h, not ours: moves a message", "outage-6h-theirs", "moves", 3),
    Goal("outage 6 h: live messages probed to death", "outage-6h", "probed_to_death", 0),
    Goal("row deleted while paused: consumer back", "row-deleted", "back_after", 120, "s"),
    Goal("expired API key, 60 h: parked wrongly", "expired-key", "parked_wrongly", 0),
    Goal("bad deployment, 20 min: parked wrongly", "bad-deployment", "parked_wrongly", 0),
    Goal("bad deployment: processed", "bad-deployment", "goodput", 1.0, "%", True),
    Goal("bad deployment: late, at most native's", "bad-deployment", "late", None),
    Goal("bad deployment: last back", "bad-deployment", "last_back", 300, "s"),
    Goal("one tenant's burst fails: openings", "tenant-burst", "openings", 0),
    Goal("FIFO: letters that we moved out of order", "fifo-theirs", "disordered", 0),
    Goal("one key dead: the others on time", "one-key", "bystanders", 0.99, "%", True),
    Goal("one of two dead: the other's on time", "two-dependencies", "bystanders", 0.99, "%", True),
    Goal("outage, then a limit: processed", "limited", "goodput", 0.999, "%", True),
    Goal("outage, then a limit: late", "limited", "late", 300),
    Goal("outage, then a limit: opened again", "limited", "reopenings", 0),
    Goal("outage, then a limit: surge", "limited", "surge", 2, " x", reached=False),
    Goal("429: of what it admits", "rate-limit", "used", 0.95, "%", True),
    Goal("429: openings", "rate-limit", "openings", 0),
    Goal("429: late, at most native's", "rate-limit", "late", None),
    Goal("429 on FIFO: processed", "rate-limit-fifo", "goodput", 0.999, "%", True),
    Goal("429 on FIFO: late, at most native's", "rate-limit-fifo", "late", None),
    *_others("3 of 20 tenants dead", "minority-3"),
    *_others("4 of 20 tenants dead", "minority-4"),
    *_others("9 of 20 tenants dead", "minority-9"),
    *_others("10 % big messages fail", "big-messages"),
    *_others("one of two dead, not named", "one-of-two-unnamed"),
    Goal(
        "one tenant's burst fails: requests of the sick, of native's",
        "tenant-burst",
        AGAINST_NATIVE,
        1.05,
    ),
    Goal(
        "200 with an empty body: requests, of native's",
        "bad-replies",
        AGAINST_NATIVE,
        1.05,
        reached=False,
    ),
    Goal("half-mended deployment: parked wrongly", "half-fix", "parked_wrongly", 0),
    Goal("half-mended deployment: late, at most native's", "half-fix", "late", None),
    Goal("half-mended deployment: last back", "half-fix", "last_back", 300, "s"),
    Goal("FIFO, outage 3 min, not ours: processed", "fifo-theirs", "goodput", 1.0, "%", True),
    Goal("FIFO, outage 3 min, not ours: late", "fifo-theirs", "late", 0),
    Goal("FIFO, 22 poison in a row: longest", "fifo-poison-burst", "longest", 600, "s"),
    Goal("FIFO, 22 poison in a row: not parked", "fifo-poison-burst", "poison_left", 0),
    Goal("FIFO, 22 poison in a row: out of order", "fifo-poison-burst", "disordered", 0),
    *_no_worse("flapping", "flapping", openings=5, late=0, moves=0.3),
    *_no_worse("slow recovery", "slow-recovery", openings=3, late=0, moves=0.3),
    *_no_worse("lying health page", "health-url-lies", openings=1, late=740, moves=0),
    *_no_worse("brown-out 60 %", "brown-out-60", openings=8, late=6_300, moves=1.0),
    *_no_worse("5 % poison, 2 h", "poison-5", openings=0, late=0, moves=0.32)[1:],
    Goal("outage 30 min: writes of circuits", "outage-30m", "circuit_writes", 0.7, " /s"),
    Goal("429: writes of circuits", "rate-limit", "circuit_writes", 0.7, " /s"),
    Goal(
        "one tenant's burst fails: writes of circuits", "tenant-burst", "circuit_writes", 0.7, " /s"
    ),
)


def judged(rows: Iterable[Row]) -> list[tuple[str, str, str, str]]:
    """Each goal whose scenario the product was run in: title, limit, measured, whether met."""
    row_of = {(row.scenario.name, row.system): row for row in rows}
    verdicts = (
        goal.judged(row_of[goal.scenario, PRODUCT], row_of.get((goal.scenario, NATIVE)))
        for goal in GOALS
        if (goal.scenario, PRODUCT) in row_of
    )
    return [verdict for verdict in verdicts if verdict is not None]


def met(rows: Sequence[Row]) -> tuple[int, int]:
    """How many goals are met, of how many that were measured."""
    verdicts = [verdict for *_, verdict in judged(rows)]
    return verdicts.count(YES), len(verdicts)
