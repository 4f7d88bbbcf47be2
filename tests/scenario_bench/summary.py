"""Several runs of one scenario with one system, as one row of texts."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from tests.scenario_bench.measure import Figures
from tests.scenario_bench.scenario import Scenario

COLUMNS = {
    "goodput": "good- put",
    "late": "late",
    "dead_requests": "dead requests",
    "against_native": "of native's",
    "opened_after": "open after",
    "openings": "times opened",
    "not_closed": "not closed for",
    "closed_after": "CLOSED after",
    "full_rate_after": "90 % after",
    "last_back": "last back",
    "bystanders": "others on time",
    "surge": "surge",
    "letters": "letters",
    "moves": "moves a message",
    "parked_rightly": "parked rightly",
    "parked_wrongly": "parked wrongly",
    "duplicates": "dupli- cates",
    "probed_to_death": "probed to death",
}
"""The figures of the table, and their headings."""

_SECONDS = frozenset({"opened_after", "not_closed", "closed_after", "full_rate_after", "last_back"})

AGAINST_NATIVE = "against_native"
"""The dead requests, of those that plain SQS with its native redrive makes of the same messages."""

NATIVE, PRODUCT = "native", "deadletter"
NOTHING = "-"
NEVER = "never"


@dataclass(frozen=True)
class Row:
    """All runs of one scenario with one system; `native` are those of that one, by seed."""

    scenario: Scenario
    system: str
    runs: Sequence[Figures]
    native: Mapping[int, Figures] = field(default_factory=dict)

    @property
    def seeds(self) -> int:
        return len(self.runs)

    def values(self, figure: str) -> list[float]:
        """One value for each run; what never happened is infinite."""
        if figure == AGAINST_NATIVE:
            return [
                _share(run.dead_requests, self.native[run.seed].dead_requests)
                for run in self.runs
                if run.seed in self.native
            ]
        found = [getattr(run, figure) for run in self.runs]
        return [math.inf if value is None else float(value) for value in found]

    def middle(self, figure: str) -> float:
        """The median over the seeds."""
        return float(median(self.values(figure)))

    def p95(self, figure: str) -> float:
        """The 95th percentile over the seeds (the nearest run above)."""
        values = sorted(self.values(figure))
        return values[min(len(values) - 1, math.ceil(0.95 * len(values)) - 1)]

    def cell(self, figure: str) -> str:
        """The median as a text."""
        if not self.has(figure):
            return NOTHING
        value = self.middle(figure)
        if math.isinf(value):
            return NEVER
        if figure in ("goodput", "bystanders"):
            return f"{100 * math.floor(value * 1_000) / 1_000:.1f} %"
        if figure in _SECONDS:
            return duration(value)
        if figure == "surge":
            return f"{value:.1f} x"
        if figure in ("moves", AGAINST_NATIVE):
            return f"{value:.2f}"
        return f"{value:,.0f}"

    def has(self, figure: str) -> bool:
        """Whether the figure has a meaning in this row."""
        tripped = any(run.openings for run in self.runs)
        if figure in ("opened_after", "openings", "not_closed"):
            return tripped
        if figure == "closed_after":
            return tripped and self.scenario.recovers is not None
        if figure in ("full_rate_after", "last_back", "surge"):
            return self.scenario.recovers is not None
        if figure in ("dead_requests", AGAINST_NATIVE) and not self.scenario.spells:
            return False
        if figure == AGAINST_NATIVE:
            return any(
                self.native[r.seed].dead_requests for r in self.runs if r.seed in self.native
            )
        if figure == "bystanders":
            return any(run.bystanders is not None for run in self.runs)
        return True


def _share(count: int, of: int) -> float:
    return count / of if of else math.inf if count else 1.0


def duration(seconds: float) -> str:
    """Seconds as a person reads them."""
    if seconds < 600:
        return f"{seconds:.0f} s"
    if seconds < 2 * 3_600:
        return f"{seconds / 60:.0f} min"
    return f"{seconds / 3_600:.1f} h"


def rows_of(scenarios: Sequence[Scenario], runs: Sequence[Figures]) -> list[Row]:
    """One row for each scenario and system that was run, in the scenarios' order."""
    rows = []
    for scenario in scenarios:
        mine = [run for run in runs if run.scenario == scenario.name]
        native = {run.seed: run for run in mine if run.system == NATIVE}
        for system in dict.fromkeys(run.system for run in mine):
            runs_of_it = [run for run in mine if run.system == system]
            rows.append(Row(scenario, system, runs_of_it, native))
    return rows
