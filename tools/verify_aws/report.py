"""What a run found, for a person and for a program: by check, by step, and by claim."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from rich.console import Console
from rich.table import Table

from tools.verify_aws.claims import AwsClaim, claims

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


@dataclass(frozen=True, slots=True)
class ProofStep:
    """A step of the product's run; `fault` is empty if it did what the product promises."""

    name: str
    seconds: float
    seen: str
    fault: str = ""

    def __str__(self) -> str:
        verdict = f"FAILED: {self.fault}" if self.fault else self.seen
        return f"{self.name:<8} {self.seconds:4.0f} s  {verdict}"


DECIDED = "decided"
WRONG = "wrong"
UNDECIDED = "undecided"

NOT_ASKED = "not asked"


@dataclass(frozen=True, slots=True)
class ClaimVerdict:
    """What a run says of a claim: DECIDED, WRONG or UNDECIDED, and why."""

    claim: str
    verdict: str
    because: str


def verdicts(
    known: Collection[AwsClaim], findings: Sequence[AwsAnswer], steps: Sequence[ProofStep]
) -> Iterator[ClaimVerdict]:
    """The verdict on each claim; one doubt of several answers leaves it undecided."""
    for claim in known:
        answers = [(each.verdict, each.seen) for each in findings if claim.id in each.claims]
        # A step that fails may have another cause than the claim.
        answers += [
            (UNCLEAR, each.fault) if each.fault else (HOLDS, each.seen)
            for each in steps
            if each.name == claim.step
        ]
        yield ClaimVerdict(claim.id, *_worst(answers))


def _worst(answers: Sequence[tuple[str, str]]) -> tuple[str, str]:
    for verdict, says in ((DIFFERS, WRONG), (UNCLEAR, UNDECIDED), (HOLDS, DECIDED)):
        if seen := "; ".join(seen for found, seen in answers if found == verdict):
            return says, seen
    return UNDECIDED, NOT_ASKED


@dataclass(frozen=True)
class VerifyReport:
    """All answers of a run, the steps of the product, and what could not be removed."""

    region: str
    began: str
    findings: Sequence[AwsAnswer] = ()
    left: Sequence[str] = field(default_factory=list)
    steps: Sequence[ProofStep] = ()

    @property
    def clean(self) -> bool:
        """True if all that was asked holds, the product too, and nothing is left there."""
        holds = all(finding.verdict == HOLDS for finding in self.findings)
        return holds and not self.left and not any(step.fault for step in self.steps)

    @property
    def claims(self) -> Sequence[ClaimVerdict]:
        """The verdict on each claim of docs/aws-differences.md, in its order."""
        return list(verdicts(claims().values(), self.findings, self.steps))

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
            "steps": [asdict(step) for step in self.steps],
            "claims": [asdict(claim) for claim in self.claims],
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
        if self.findings:
            console.print(table)
        for verdict in (UNDECIDED, WRONG):
            for each in self.claims:
                if each.verdict == verdict and each.because != NOT_ASKED:
                    line = f"{verdict}: {each.claim}: {each.because}"
                    console.print(line, markup=False, soft_wrap=True)
        counts = Counter(each.verdict for each in self.claims)
        says = ", ".join(f"{counts[verdict]} {verdict}" for verdict in (DECIDED, UNDECIDED, WRONG))
        unasked = sum(each.because == NOT_ASKED for each in self.claims)
        line = f"Claims of docs/aws-differences.md: {says}; {unasked} were not asked."
        console.print(line, soft_wrap=True)
        if self.left:
            console.print("Left in the account; remove it, or run --sweep:", style="bold red")
            for what in self.left:
                console.print(f"  {what}", markup=False)
