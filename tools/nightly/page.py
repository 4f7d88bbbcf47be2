"""The results in docs/proof.md: one row a part with its figures, and a sentence about all."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import astuple, dataclass

BEGIN, END = "<!-- nightly -->", "<!-- end -->"

BLOCK = re.compile(f"{BEGIN}\n.*?{END}\n", re.DOTALL)

GREEN, RED = "green", "**red**"

HEAD = (
    "| part | result | commit | ended | Python | minutes | figures |",
    "|---|---|---|---|---|--:|---|",
)


@dataclass(frozen=True)
class ResultRow:
    """The newest run of a part, as its cells."""

    part: str
    result: str
    commit: str
    ended: str
    python: str
    minutes: str
    figures: str

    def __str__(self) -> str:
        return f"| {' | '.join(astuple(self))} |"


def rows(page: str) -> Sequence[ResultRow]:
    """The rows that stand in the page."""
    block = BLOCK.search(page)
    lines = block[0].splitlines() if block else []
    cells = [line.strip("| ").split(" | ") for line in lines if line.startswith("| ")]
    return [ResultRow(*row) for row in cells if f"| {' | '.join(row)} |" not in HEAD]


def sentence(results: Sequence[ResultRow], names: Sequence[str]) -> str:
    """Whether all parts are green, and at which commits."""

    def of(result: str) -> str:
        return ", ".join(f"{row.part} at {row.commit}" for row in results if row.result == result)

    red, green = of(RED), of(GREEN)
    missing = ", ".join(name for name in names if name not in {row.part for row in results})
    if not red and not missing:
        return f"All parts of the nightly run are green: {green}."
    said = (f"red: {red}" * bool(red), f"still to run: {missing}" * bool(missing),
            f"green: {green}" * bool(green))  # fmt: skip
    return f"Not all parts of the nightly run are green: {'; '.join(filter(None, said))}."


def with_row(page: str, row: ResultRow, names: Sequence[str]) -> str:
    """The page with this row instead of the part's last one. Parts that there are not go."""
    known = {old.part: old for old in rows(page)} | {row.part: row}
    results = [known[name] for name in names if name in known]
    return _filled(page, [sentence(results, names), "", *HEAD, *map(str, results), ""])


def without_rows(page: str) -> str:
    """The page but for its results: what of it a commit has to have."""
    return _filled(page, [])


def _filled(page: str, lines: Sequence[str]) -> str:
    block = "".join(f"{line}\n" for line in (BEGIN, *lines, END))
    if not BLOCK.search(page):
        raise ValueError(f"the page has no lines {BEGIN} and {END}")
    return BLOCK.sub(lambda _: block, page, count=1)


# What a command has printed, in figures.

# The last line of pytest.
_TESTS = r"(?m)^(?=.* in [\d.]+s).*?\b(\d+) {}\b"

PATTERNS = {
    "schedules of {of}": r"(?m)^schedules +(\d+)",
    "promises broken": r"(?m)^promises broken +(\d+)",
    "planted bugs caught": r"(?m): caught by \d+$",
    "planted bugs not caught": r"(?m): NOT caught by \d+$",
    "mutants": r": (\d+) mutants, \d+ killed",
    "mutants killed": r" mutants, (\d+) killed",
    "mutants without an end": r" killed, (\d+) timed out",
    "mutants survived": r" timed out, (\d+) survived, score",
    "goals": r"Goals of the product: \d+ of (\d+) reached",
    "goals reached": r"Goals of the product: (\d+) of",
    "figures reached": r"(?m)^.* [≤≥] .*\d yes\b",
    "figures missed": r"(?m)^.* [≤≥] .*\d NO\b",
    "tests passed": _TESTS.format("passed"),
    "tests failed": _TESTS.format("failed"),
    "errors": _TESTS.format("errors?"),
    "skipped": _TESTS.format("skipped"),
}
"""Each figure, and where it stands: the sum of the numbers, or how often if there is no number."""


def figures(output: str, of: str = "") -> Counter[str]:
    """The figures in the output of a command whose schedules are of this simulator."""
    found: Counter[str] = Counter()
    for name, pattern in PATTERNS.items():
        for match in re.finditer(pattern, output):
            found[name.format(of=of)] += int(match[1]) if match.lastindex else 1
    return found
