"""What moving letters costs beside other ways: `python -m lab.bench.moving [case ...]`.

Each way empties a fresh source queue of the stub (`lab.bench.stub`: 10 ms latency with jitter, in a
process of its own), in a process of its own (`lab.bench.drain`). The ways take turns, so that what
else the machine does falls on all of them; a figure is the median of the turns. The letters of a
way are audited: one that is lost, duplicated, changed or left by our own fails the bench. For the
others it stands in the table.

build/bench.json keeps the figures of each case until it is measured again, with the commit, and
`python -m lab.bench.page` writes them into docs/performance.md. LETTERS, MANY and TURNS of the
environment are other numbers of letters and turns.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime

from lab.bench import cases
from lab.bench.figures import goals
from lab.bench.letters import Audited
from lab.bench.lumigo import is_installed
from lab.bench.record import COLUMNS, Drained, cells, write_rows
from lab.bench.server import ROOT

RECORD = ROOT / "build" / "bench.json"

WIDTHS = (23, 8, 9, 11, 15, 7, 20, 32, 28, 11)


def line(row: Sequence[str]) -> str:
    return "".join(cell.ljust(width) for cell, width in zip(row, WIDTHS, strict=True)).rstrip()


def faults(rows: Sequence[Drained]) -> list[str]:
    """What is wrong with our own: anything but letters that arrived, once and unchanged."""
    wrong = []
    for row in rows:
        # What one run leaves of entries that fail is a figure.
        audit = replace(row.audit, unfinished=0) if row.case == "failing" else row.audit
        if row.way == "ours" and (audit != Audited() or row.trouble):
            wrong.append(f"{row.case}: {row.audit} {row.trouble}".rstrip())
    return wrong


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures; 1 if a letter of ours did not arrive as it was."""
    known = {case.__name__: case for case in (*cases.SHORT, *cases.LONG)}
    said = "\n".join(f"{name:<9} {case.__doc__}" for name, case in known.items())
    parser = argparse.ArgumentParser(
        description=f"{__doc__}\n{said}\n\nWithout cases: the first {len(cases.SHORT)}.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("cases", nargs="*", metavar="case")
    parser.add_argument("--long", action="store_true", help="all cases")
    options = parser.parse_args(arguments)
    if unknown := [name for name in options.cases if name not in known]:
        parser.error(f"unknown case {unknown[0]!r}; there are: {', '.join(known)}")
    if not is_installed():
        print("skipped: lumigo-cli is not installed (make bench-peers)")
    print(line(COLUMNS), flush=True)
    rows: list[Drained] = []
    wanted = [*known] if options.long else [*known][: len(cases.SHORT)]
    for name in options.cases or wanted:
        measured, found = occasion(), []
        for row in known[name]():
            print(line(cells([row])), flush=True)
            found.append(replace(row, measured=measured))
        write_rows(RECORD, found)
        rows += found
    print(f"\n{'figure to reach':<52} goal")
    for goal in goals(rows):
        if goal.measured is not None:
            print(goal)
    wrong = faults(rows)
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


def occasion() -> str:
    """Now, the commit, the machine, and what else it does."""
    git = ["git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"]
    commit = subprocess.run(git, capture_output=True, text=True, check=False).stdout.strip()
    machine = f"{os.cpu_count()} cores, Python {platform.python_version()}"
    return f"{datetime.now(UTC):%Y-%m-%d}, {commit}, {machine}, load {os.getloadavg()[0]:.1f}"


if __name__ == "__main__":
    sys.exit(main())
