"""Writes what the benchmark measured into docs/performance.md: `python -m lab.bench.page`.

The tables between `<!-- bench: name -->` and `<!-- end -->` are those of build/bench.json; what
stands around them is written by hand. All cases stand in docs/performance.csv. A case that was
never measured has no row.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Iterable, Sequence

from lab.bench.figures import FigureGoal, goals
from lab.bench.moving import RECORD
from lab.bench.record import COLUMNS, Drained, cells, medians, read_rows
from lab.bench.server import ROOT

PAGE = ROOT / "docs" / "performance.md"
CASES = PAGE.with_suffix(".csv")

# The cases that tell what AWS bills for a letter of ours, and their names on the page.
USED = {"ways": "full pace", "pace": "default pace", "trickle": "23 a minute"}
USED |= {"groups": "FIFO", "large": "200 KB"}

_PLACE = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Row = Sequence[str]


def tables(rows: Sequence[Drained]) -> dict[str, str]:
    """Each table of the page as Markdown, by its name."""
    used = ("a letter", "SQS requests", "read units", "write units", "invocations", "GB-seconds")
    ways = together([row for row in rows if row.case == "ways"])
    ours = together([row for row in rows if row.way == "ours" and row.case in USED])
    return {
        "ways": _table(COLUMNS[1:-1], (cells(turns)[1:-1] for turns in ways)),
        "figures": _table(("figure", "goal", "measured", "reached"), map(_figure, goals(rows))),
        "used": _table(used, map(_used, ours)),
    }


def cases(rows: Sequence[Drained]) -> list[Row]:
    """All cases with all columns, below their headings."""
    measured = ([*cells(turns), turns[0].measured] for turns in together(rows))
    return [(*COLUMNS, "measured"), *measured]


def written(page: str, rows: Sequence[Drained]) -> str:
    """The page with the tables of what was measured. Raises KeyError for a table without name."""
    made = tables(rows)
    return _PLACE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", page)


def together(rows: Sequence[Drained]) -> Iterable[Sequence[Drained]]:
    """The rows of one case, way and number of letters, in the order in which they came first."""
    turns: dict[tuple[str, str, int], list[Drained]] = {}
    for row in rows:
        turns.setdefault((row.case, row.way, row.letters), []).append(row)
    return turns.values()


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(line)} |\n" for line in lines) + "\n"


def _figure(goal: FigureGoal) -> Row:
    verdict = {None: "not measured", True: "reached", False: "**not reached**"}[goal.is_reached]
    return goal.what, goal.wanted, "" if goal.measured is None else f"{goal.measured:.4g}", verdict


def _used(turns: Sequence[Drained]) -> Row:
    figures = medians(turns, "billed", "read_units", "write_units", "invocations", "gb_seconds")
    return USED[turns[0].case], *(f"{figure:.4g}" for figure in figures)


def main() -> int:
    """Write the page anew; 1 if nothing was measured."""
    rows = read_rows(RECORD)
    if not rows:
        print("build/bench.json has no figures: run make bench", file=sys.stderr)
        return 1
    PAGE.write_text(written(PAGE.read_text(), rows))
    with CASES.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(cases(rows))
    print(f"wrote {PAGE.relative_to(ROOT)} and {CASES.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
