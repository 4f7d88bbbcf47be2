"""The score of a mutation run, the survivors that are judged, and what is still open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lab.mutation.mutant import Ending, Mutant, Result
from tools.reasons import read_reasoned

# Of all mutants of a package; a judged survivor counts as not killed.
LEAST_SCORE = 0.9


@dataclass(frozen=True, slots=True)
class Judgement:
    """A survivor that no test has to notice, and why.

    It is named by its module, its function or class, and the changed line before and after, so it
    stays valid when lines move and ends when the line is written anew.
    """

    module: str
    scope: str
    was: str
    becomes: str
    reason: str

    def covers(self, mutant: Mutant) -> bool:
        return (self.module, self.scope, self.was, self.becomes) == (
            mutant.module,
            mutant.scope,
            mutant.was,
            mutant.becomes,
        )


@dataclass(frozen=True, slots=True)
class PackageScore:
    """How the mutants of one package ended."""

    package: str
    mutants: int
    killed: int
    timeouts: int
    judged: int
    open: int
    seconds: float

    @property
    def score(self) -> float:
        """The part of all mutants that the tests notice, by failing or by never ending."""
        return (self.killed + self.timeouts) / self.mutants if self.mutants else 1.0

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "score": round(self.score, 4)}


@dataclass(frozen=True, slots=True)
class MutationVerdict:
    """The score of each package, the open and the judged survivors, and unused judgements."""

    scores: Sequence[PackageScore]
    open: Sequence[Mutant]
    judged: Sequence[tuple[Mutant, Judgement]]
    unused: Sequence[Judgement]

    @property
    def passes(self) -> bool:
        """True if each package reaches the score, and survivors and judgements match."""
        enough = all(score.score >= LEAST_SCORE for score in self.scores)
        return enough and not self.open and not self.unused


def read_judgements(path: Path) -> list[Judgement]:
    """The judgements in a TOML file; raises BadEntry."""
    return read_reasoned(path, "survivor", Judgement)


def judge(
    results: Mapping[str, Sequence[Result]],
    judgements: Iterable[Judgement],
    *,
    complete: Iterable[str],
) -> MutationVerdict:
    """The verdict on the results of each package.

    `complete` are the modules of which every mutant was tried: only there an unused judgement
    shows itself.
    """
    judgements = list(judgements)
    scores, still_open, judged = [], [], []
    used: set[Judgement] = set()
    for package, tried in results.items():
        survivors = [result.mutant for result in tried if result.ending is Ending.SURVIVED]
        reasons = 0
        for mutant in survivors:
            judgement = next((entry for entry in judgements if entry.covers(mutant)), None)
            if judgement is None:
                still_open.append(mutant)
            else:
                reasons += 1
                used.add(judgement)
                judged.append((mutant, judgement))
        endings = [result.ending for result in tried]
        scores.append(
            PackageScore(
                package=package,
                mutants=len(tried),
                killed=endings.count(Ending.KILLED),
                timeouts=endings.count(Ending.TIMEOUT),
                judged=reasons,
                open=len(survivors) - reasons,
                seconds=round(sum(result.seconds for result in tried), 1),
            )
        )
    whole = set(complete)
    unused = [
        judgement for judgement in judgements if judgement not in used and judgement.module in whole
    ]
    return MutationVerdict(scores, still_open, judged, unused)


def table(scores: Iterable[PackageScore]) -> list[str]:
    """The scores as a Markdown table, for docs/proof.md."""
    rows = [
        "| package | mutants | killed | timed out | survived, judged | open | score | seconds |",
        "|---|---|---|---|---|---|---|---|",
    ]
    scores = list(scores)
    total = PackageScore(
        package="all",
        mutants=sum(score.mutants for score in scores),
        killed=sum(score.killed for score in scores),
        timeouts=sum(score.timeouts for score in scores),
        judged=sum(score.judged for score in scores),
        open=sum(score.open for score in scores),
        seconds=sum(score.seconds for score in scores),
    )
    for score in [*scores, total]:
        rows.append(
            f"| {score.package} | {score.mutants} | {score.killed} | {score.timeouts} |"
            f" {score.judged} | {score.open} | {score.score:.1%} | {score.seconds:.0f} |"
        )
    return rows
