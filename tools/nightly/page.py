"""The results in docs/proof.md: one row a part, and a sentence about all of them."""

from __future__ import annotations

import re
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
