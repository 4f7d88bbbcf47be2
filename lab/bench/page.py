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
from statistics import median

from lab.bench.figures import FigureGoal, goals
from lab.bench.moving import RECORD
from lab.bench.record import Drained, Record, case_of, read_record
from lab.bench.server import ROOT

PAGE = ROOT / "docs" / "performance.md"
CASES = PAGE.with_suffix(".csv")

_PLACE = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)

Row = Sequence[str]


def tables(record: Record) -> dict[str, str]:
    """Each table of the page as Markdown, by its name."""
    runs = ("cases", "measured", "commit", "machine", "load", "turns")
    used = ("a letter", "SQS requests", "read units", "write units", "invocations", "GB-seconds")
    ways = [row for row in record.rows if row.case == "ways"]
    return {
        "runs": _table(runs, _runs(record)),
        "ways": _table(_WAYS, map(_way, _together(ways))),
        "figures": _table(
            ("figure", "goal", "measured", "reached"), map(_figure, goals(record.rows))
        ),
        "used": _table(used, _used(record.rows)),
    }


def cases(record: Record) -> list[Row]:
    """All cases with all columns, below their headings."""
    return [("case", *_WAYS, "memory MB"), *map(_case, _together(record.rows))]


def written(page: str, record: Record) -> str:
    """The page with the tables of what was measured. Raises KeyError for a table without name."""
    made = tables(record)
    return _PLACE.sub(lambda found: f"{found[1]}{made[found[2]]}{found[3]}", page)


_WAYS = (
    "way",
    "letters",
    "letters/s",
    "CPU s a 1,000",
    "cores",
    "SQS calls a letter",
    "write requests, units a letter",
    "lost, twice, changed, left",
)


def _table(head: Row, rows: Iterable[Row]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "\n"


def _runs(record: Record) -> Iterable[Row]:
    """Cases that were measured on one day at one commit and machine stand together."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for name, occasion in record.cases.items():
        place = (occasion.started[:10], occasion.commit, occasion.machine)
        together.setdefault(place, []).append(name)
    for (day, commit, machine), names in together.items():
        occasions = [record.cases[name] for name in names]
        loads = sorted(occasion.load for occasion in occasions)
        load = f"{loads[0]:g}" if loads[0] == loads[-1] else f"{loads[0]:g} to {loads[-1]:g}"
        turns = ", ".join(sorted({str(occasion.turns) for occasion in occasions}))
        yield ", ".join(names), day, f"`{commit}`", machine, load, turns


def _together(rows: Sequence[Drained]) -> Iterable[Sequence[Drained]]:
    """The rows of one case, way and number of letters, in the order in which they came first."""
    together: dict[tuple[str, str, int], list[Drained]] = {}
    for row in rows:
        together.setdefault((row.case, row.way, row.letters), []).append(row)
    return together.values()


def _medians(rows: Sequence[Drained], *figures: str) -> list[float]:
    return [median(float(getattr(row, figure)) for row in rows) for figure in figures]


def _way(rows: Sequence[Drained]) -> Row:
    first = rows[0]
    rate, cpu, cores, calls = _medians(rows, "rate", "cpu", "cores", "sqs_calls")
    requests, units = _medians(rows, "write_requests", "write_units")
    # What went wrong in all turns together.
    audits = [row.audit for row in rows]
    counts = [
        sum(getattr(audit, name) for audit in audits)
        for name in ("lost", "duplicated", "changed", "unfinished")
    ]
    return (
        first.way,
        f"{first.letters:,}",
        f"{rate:,.0f}",
        f"{cpu:.2f}",
        f"{cores:.2f}",
        f"{calls:.3f}",
        f"{requests:.3f}, {units:.3f}" if first.way == "ours" else "",
        ", ".join(map(str, counts)) if any(counts) else "0",
    )


def _case(rows: Sequence[Drained]) -> Row:
    peak = max(row.peak_mb for row in rows)
    return rows[0].case, *_way(rows), f"{peak:.0f}" if peak else ""


def _figure(goal: FigureGoal) -> Row:
    verdict = {None: "not measured", True: "reached", False: "**not reached**"}[goal.is_reached]
    return goal.what, goal.wanted, "" if goal.measured is None else f"{goal.measured:.4g}", verdict


def _used(rows: Sequence[Drained]) -> Iterable[Row]:
    """What AWS bills for a letter of ours, of the cases that are there for it."""
    names = {"ways": "full pace", "pace": "default pace", "trickle": "23 a minute"}
    names |= {"groups": "FIFO", "large": "200 KB"}
    ours = [row for row in rows if row.way == "ours" and case_of(row) in names]
    for same in _together(ours):
        figures = ("billed", "read_units", "write_units", "invocations", "gb_seconds")
        yield names[same[0].case], *(f"{count:.4g}" for count in _medians(same, *figures))


def main() -> int:
    """Write the page anew; 1 if nothing was measured."""
    record = read_record(RECORD)
    if not record.cases:
        print("build/bench.json has no figures: run make bench", file=sys.stderr)
        return 1
    PAGE.write_text(written(PAGE.read_text(), record))
    with CASES.open("w", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows(cases(record))
    print(f"wrote {PAGE.relative_to(ROOT)} and {CASES.relative_to(ROOT)}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
