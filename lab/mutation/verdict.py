"""The score of a mutation run, and the mutants that no test noticed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from lab.mutation.mutant import Ending, Mutant, Result

# Of all mutants that were tried, and of those of one package.
LEAST_SCORE = 0.9
LEAST_OF_PACKAGE = 0.8


@dataclass(frozen=True, slots=True)
class PackageScore:
    """How the mutants of one package ended, or those of all."""

    package: str
    mutants: int
    killed: int
    timeouts: int
    seconds: float

    @property
    def survived(self) -> int:
        """How many no test notices."""
        return self.mutants - self.killed - self.timeouts

    @property
    def score(self) -> float:
        """The part of all mutants that the tests notice, by failing or by never ending."""
        return (self.killed + self.timeouts) / self.mutants if self.mutants else 1.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "score": round(self.score, 4)}


@dataclass(frozen=True, slots=True)
class MutationVerdict:
    """The score of each package, and what survived."""

    scores: Sequence[PackageScore]
    survivors: Sequence[Mutant]

    @property
    def total(self) -> PackageScore:
        """The score of all packages together."""
        return PackageScore(
            package="all",
            mutants=sum(score.mutants for score in self.scores),
            killed=sum(score.killed for score in self.scores),
            timeouts=sum(score.timeouts for score in self.scores),
            seconds=sum(score.seconds for score in self.scores),
        )

    @property
    def passes(self) -> bool:
        """True if all mutants together reach the score, and no package is far below it."""
        enough = all(score.score >= LEAST_OF_PACKAGE for score in self.scores)
        return enough and self.total.score >= LEAST_SCORE


def judge(results: Mapping[str, Sequence[Result]]) -> MutationVerdict:
    """The verdict on the results of each package."""
    scores = []
    for package, tried in results.items():
        endings = [result.ending for result in tried]
        scores.append(
            PackageScore(
                package=package,
                mutants=len(tried),
                killed=endings.count(Ending.KILLED),
                timeouts=endings.count(Ending.TIMEOUT),
                seconds=round(sum(result.seconds for result in tried), 1),
            )
        )
    survivors = [
        result.mutant
        for tried in results.values()
        for result in tried
        if result.ending is Ending.SURVIVED
    ]
    return MutationVerdict(scores, survivors)


def table(verdict: MutationVerdict) -> list[str]:
    """The scores as a Markdown table."""
    rows = [
        "| package | mutants | killed | timed out | survived | score | seconds |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for score in [*verdict.scores, verdict.total]:
        rows.append(
            f"| {score.package} | {score.mutants:,} | {score.killed:,} | {score.timeouts} |"
            f" {score.survived} | {score.score:.1%} | {score.seconds:.0f} |"
        )
    return rows
