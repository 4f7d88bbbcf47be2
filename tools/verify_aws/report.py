"""What a run of the checks found, for a person and for a program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

HOLDS = "holds"
DIFFERS = "differs"
UNCLEAR = "unclear"

_COLOURS = {HOLDS: "green", DIFFERS: "bold red", UNCLEAR: "yellow"}


@dataclass(frozen=True)
class AwsAnswer:
    """The answer to one check."""

    check: str
    claims: tuple[str, ...]
    verdict: str
    seen: str
    seconds: float


@dataclass(frozen=True)
class VerifyReport:
    """All answers of a run, and what could not be removed."""

    region: str
    began: str
    findings: Sequence[AwsAnswer] = ()
    left: Sequence[str] = field(default_factory=list)

    @property
    def clean(self) -> bool:
        """True if every claim that was asked holds and nothing is left in the account."""
        return not self.left and all(finding.verdict == HOLDS for finding in self.findings)

    def to_json(self) -> dict[str, Any]:
        """The report as a program reads it."""
        counts = {
            verdict: sum(finding.verdict == verdict for finding in self.findings)
            for verdict in (HOLDS, DIFFERS, UNCLEAR)
        }
        return {
            "region": self.region,
            "began": self.began,
            "counts": counts,
            "findings": [asdict(finding) for finding in self.findings],
            "left": list(self.left),
        }

    def show(self, console: Console) -> None:
        """The report as a table, what differs first."""
        table = Table(title=f"AWS in {self.region}, {self.began}", show_lines=False)
        for column in ("check", "", "seen", "seconds"):
            table.add_column(column, justify="right" if column == "seconds" else "left")
        order = [DIFFERS, UNCLEAR, HOLDS]
        for finding in sorted(self.findings, key=lambda each: order.index(each.verdict)):
            colour = _COLOURS[finding.verdict]
            table.add_row(
                finding.check,
                f"[{colour}]{finding.verdict}[/]",
                # What AWS said is text, never markup.
                finding.seen.replace("[", r"\["),
                f"{finding.seconds:.0f}",
            )
        console.print(table)
        if self.left:
            console.print("Left in the account; remove it, or run --sweep:", style="bold red")
            for what in self.left:
                console.print(f"  {what}", markup=False)
