"""The figures that scenarios measure, printed as a table at the end of the session."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field


@dataclass
class Figures:
    """Rows of (scenario, case, value, unit); of several values of one case, one."""

    rows: dict[tuple[str, str], tuple[float, str]] = field(default_factory=dict)

    def worst(self, scenario: str, case: str, value: float, unit: str) -> None:
        """Keep the value if it is the largest of its case."""
        known, _ = self.rows.get((scenario, case), (value, unit))
        self.rows[scenario, case] = (max(known, value), unit)

    def least(self, scenario: str, case: str, value: float, unit: str) -> None:
        """Keep the value if it is the smallest of its case."""
        known, _ = self.rows.get((scenario, case), (value, unit))
        self.rows[scenario, case] = (min(known, value), unit)

    def table(self) -> Iterator[str]:
        """The rows in Markdown."""
        yield "| scenario | case | figure |"
        yield "|---|---|---|"
        for (scenario, case), (value, unit) in self.rows.items():
            yield f"| {scenario} | {case} | {value:.3g} {unit} |"


FIGURES = Figures()
