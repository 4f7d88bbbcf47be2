"""The measured table in docs/scenarios.md."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.scenario_bench.goals import judged
from tests.scenario_bench.summary import COLUMNS, NATIVE, NOTHING, PRODUCT, Row

PAGE = Path(__file__).parents[2] / "docs" / "scenarios.md"
BEGIN, END = "<!-- table: begin -->", "<!-- table: end -->"

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
    """Write the table of the page anew."""
    text = PAGE.read_text()
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    PAGE.write_text(f"{before}{BEGIN}\n{as_markdown(rows, commit, date)}{END}{after}")


def as_markdown(rows: Sequence[Row], commit: str, date: str) -> str:
    """The table, its date and its commit."""
    headings = ("scenario (rate, seeds)", "system", *COLUMNS.values())
    lines = [
        f"Measured on {date} at commit `{commit}`; medians over the seeds.",
        "",
        *_in_short(rows),
        "",
        f"| {' | '.join(headings)} |",
        f"|{'---|' * 2}{'--:|' * len(COLUMNS)}",
    ]
    last = ""
    for row in rows:
        seeds = f"{row.seeds} seed{'s' if row.seeds > 1 else ''}"
        name = f"{row.scenario.title} ({row.scenario.rate:g}/s, {seeds})"
        cells = [row.cell(figure) for figure in COLUMNS]
        lines.append(f"| {name if name != last else ''} | {row.system} | {' | '.join(cells)} |")
        last = name
    lines += ["", "| goal of the product | limit | measured | met |", "|---|--:|--:|---|"]
    lines += [f"| {' | '.join(cells)} |" for cells in judged(rows)]
    return "\n".join(lines) + "\n"


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
