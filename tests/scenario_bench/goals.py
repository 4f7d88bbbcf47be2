"""What the product is to reach at its defaults, and what was measured."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tests.scenario_bench.summary import NEVER, Row, duration


@dataclass(frozen=True)
class Goal:
    """A limit for one figure of one scenario: at most, or at least if `least`.

    With `late` it is the 95th percentile of the seeds that counts, else the median.
    """

    title: str
    scenario: str
    figure: str
    limit: float
    unit: str = ""
    least: bool = False
    late: bool = False

    def measured(self, row: Row) -> float:
        return row.late(self.figure) if self.late else row.middle(self.figure)

    def is_met(self, row: Row) -> bool:
        value = self.measured(row)
        return value >= self.limit if self.least else value <= self.limit

    def text(self, value: float) -> str:
        if math.isinf(value):
            return NEVER
        match self.unit:
            case "s":
                return duration(value)
            case "%":
                return f"{math.floor(value * 1_000) / 10:g} %"
        return f"{value:,.4g}{self.unit}"


GOALS = (
    Goal("5 % poison, 2 h: healthy messages processed", "poison-5", "goodput", 0.999, "%", True),
    Goal("5 % poison, 2 h: openings", "poison-5", "openings", 0),
    Goal("5 % poison, 2 h: poison not parked after 30 min", "poison-5", "poison_left", 0),
    Goal("200 with an empty body: parked wrongly", "bad-replies", "parked_wrongly", 0),
    Goal("200 with an empty body: processed", "bad-replies", "goodput", 1.0, "%", True),
    Goal("outage 3 min: requests to the dead dependency", "outage-3m", "dead_requests", 20),
    Goal("the same with 100 in hand", "outage-3m-full-hands", "dead_requests", 40),
    Goal("outage 30 min: to CLOSED", "outage-30m", "closed_after", 30, "s"),
    Goal("outage 30 min: to CLOSED, p95", "outage-30m", "closed_after", 60, "s", late=True),
    Goal("outage 30 min: 90 % rate after CLOSED", "outage-30m", "after_closed", 120, "s"),
    Goal("flapping: to CLOSED after it is well", "flapping", "closed_after", 60, "s"),
    Goal("outage 30 min: surge", "outage-30m", "surge", 4, " x"),
    Goal("outage 6 h: live messages probed to death", "outage-6h", "probed_to_death", 0),
    Goal("row deleted while paused: consumer back", "row-deleted", "back_after", 120, "s"),
    Goal("expired API key, 60 h: parked wrongly", "expired-key", "parked_wrongly", 0),
    Goal("bad deployment, 20 min: parked wrongly", "bad-deployment", "parked_wrongly", 29),
    Goal("bad deployment: processed", "bad-deployment", "goodput", 0.99, "%", True),
    Goal("one tenant's burst fails: openings", "tenant-burst", "openings", 0),
    Goal("FIFO: letters that we moved out of order", "fifo-theirs", "disordered", 0),
    Goal("one key dead: the others on time", "one-key", "bystanders", 0.99, "%", True),
    Goal("one of two dead: the other's on time", "two-dependencies", "bystanders", 0.99, "%", True),
)


def judged(rows: Iterable[Row]) -> list[tuple[str, str, str, str]]:
    """Each goal whose scenario the product was run in: title, goal, measured, whether met."""
    mine = {row.scenario.name: row for row in rows if row.system == "deadletter"}
    return [
        (
            goal.title,
            f"{'>=' if goal.least else '<='} {goal.text(goal.limit)}",
            goal.text(goal.measured(mine[goal.scenario])),
            "yes" if goal.is_met(mine[goal.scenario]) else "no",
        )
        for goal in GOALS
        if goal.scenario in mine
    ]


def met(rows: Sequence[Row]) -> tuple[int, int]:
    """How many goals are met, of how many that were measured."""
    verdicts = [verdict for *_, verdict in judged(rows)]
    return verdicts.count("yes"), len(verdicts)
