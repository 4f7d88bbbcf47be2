"""The measured tables of docs/scenarios.md, and the files of all figures and goals beside it."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Iterator, Sequence
from io import StringIO
from pathlib import Path

from tests.scenario_bench.goals import judged
from tests.scenario_bench.summary import COLUMNS, NATIVE, NOTHING, PRODUCT, Row

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"
FIGURES = PAGE.with_suffix(".csv")
GOALS = PAGE.with_suffix(".goals.csv")
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

GOAL = ("goal of the product", "limit", "measured", "met")
MET = "yes"

IN_SHORT = {
    "goodput": "processed",
    "late": "late",
    "dead_requests": "requests in vain",
    "last_back": "last back",
    "letters": "into the DLQ",
}
"""What the first table says of each trouble, of plain SQS and of the product."""

OPENED = {"openings": "circuits opened", "not_closed": "for"}
"""What it says of the product besides."""


def write_page(rows: Sequence[Row], commit: str, date: str) -> None:
    """Write the tables of the page anew, and all figures and goals beside it."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{as_markdown(rows, commit, date)}{END}{after}")
    FIGURES.write_text(as_csv(in_full(rows)))
    GOALS.write_text(as_csv([GOAL, *judged(rows)]))


def as_markdown(rows: Sequence[Row], commit: str, date: str) -> str:
    """The tables of the page, with date and commit."""
    goals = list(judged(rows))
    missed = [cells for cells in goals if cells[-1] != MET]
    lines = [
        f"Measured on {date} at commit `{commit}`; medians over the seeds.",
        "",
        *_in_short(rows),
        "",
        f"{len(goals) - len(missed)} of {len(goals)} goals are met. The others:",
        "",
        f"| {' | '.join(GOAL)} |",
        "|---|--:|--:|---|",
        *(f"| {' | '.join(cells)} |" for cells in missed),
    ]
    return "\n".join(lines) + "\n"


def in_full(rows: Sequence[Row]) -> Iterator[Sequence[str]]:
    """Each row with all its columns, below their headings."""
    yield ("scenario (rate, seeds)", "system", *COLUMNS.values())
    for row in rows:
        seeds = f"{row.seeds} seed{'s' if row.seeds > 1 else ''}"
        name = f"{row.scenario.title} ({row.scenario.rate:g}/s, {seeds})"
        yield (name, row.system, *(row.cell(figure) for figure in COLUMNS))


def as_csv(lines: Iterable[Sequence[str]]) -> str:
    """A table as comma-separated values."""
    text = StringIO()
    csv.writer(text, lineterminator="\n").writerows(lines)
    return text.getvalue()


def _in_short(rows: Sequence[Row]) -> Iterator[str]:
    """The table of one page: each trouble in a line, plain SQS beside the product."""
    yield f"| trouble: native / Deadletter | {' | '.join((*IN_SHORT.values(), *OPENED.values()))} |"
    yield f"|---|{'--:|' * (len(IN_SHORT) + len(OPENED))}"
    native = {row.scenario.name: row for row in rows if row.system == NATIVE}
    for row in rows:
        if row.system != PRODUCT:
            continue
        plain = native.get(row.scenario.name)
        cells = [
            f"{NOTHING if plain is None else plain.cell(figure)} / {row.cell(figure)}"
            for figure in IN_SHORT
        ]
        cells += [row.cell(figure) for figure in OPENED]
        yield f"| {row.scenario.title} | {' | '.join(cells)} |"
