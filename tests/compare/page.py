"""The tables of docs/compare.md: `python -m tests.compare` writes them anew."""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Iterator
from pathlib import Path

from tests.compare.cases import CASES
from tests.scenario_bench.page import FIGURES

DOCS = Path(__file__).parents[2] / "docs"
PAGE = DOCS / "compare.md"

# Of the outages, measured: the rows and columns that are copied.
SCENARIOS = (
    "total outage, 3 min",
    "total outage, 30 min",
    "total outage, 6 h",
    "brown-out 30 %, 30 min",
    "brown-out 60 %, 30 min",
    "flapping 20/20 s, 10 min",
)
SYSTEMS = ("powertools", "deadletter")
COLUMNS = ("good- put", "dead requests", "open after", "90 % after", "surge", "letters")


def cases() -> Iterator[str]:
    """The table of the cases, each played now."""
    yield "| case | Powertools | Deadletter | |"
    yield "|---|---|---|---|"
    for case in CASES:
        powertools, deadletter = case.play(case.powertools()), case.play(case.deadletter())
        yield f"| {case.title} | {_short(powertools)} | {_short(deadletter)} | {case.remark} |"


def _short(outcome: str) -> str:
    """An outcome without its end, if that is the one which the page takes for granted."""
    return re.sub(r"[,;] all acknowledged", "", outcome)


def outages() -> Iterator[str]:
    """Rows of the bench of outages, as its file has them."""
    with FIGURES.open() as file:
        head, *rows = csv.reader(file)
    picked = [head.index(column) for column in COLUMNS]
    yield f"| outage | system | {' | '.join(COLUMNS)} |"
    yield f"|---|---|{'--:|' * len(COLUMNS)}"
    for row in rows:
        scenario = re.sub(r" \([^()]*\)$", "", row[0])
        if scenario in SCENARIOS and row[1] in SYSTEMS:
            yield f"| {scenario} | {row[1]} | {' | '.join(row[index] for index in picked)} |"


TABLES: dict[str, Callable[[], Iterator[str]]] = {"cases": cases, "outages": outages}


def rendered(page: str) -> str:
    """The page with its tables made anew."""
    for name, table in TABLES.items():
        begin, end = f"<!-- {name}: begin -->\n", f"<!-- {name}: end -->"
        before, rest = page.split(begin)
        page = before + begin + "\n".join(table()) + "\n" + end + rest.split(end)[1]
    return page
