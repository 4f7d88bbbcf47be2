"""Writes what the benchmark measured into docs/performance.md: `python -m lab.bench.page`.

The tables between `<!-- bench: name -->` and `<!-- end -->` are those of build/bench.json; what
stands around them is written by hand. All cases stand in docs/performance.csv. A case that was
never measured has no row.
"""

from __future__ import annotations

import csv
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import median

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from lab.bench.figures import Drained, FigureGoal, goals, transports
from lab.bench.record import Record, case_of, read_record

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "performance.md"
CASES = PAGE.with_suffix(".csv")

_PLACE = re.compile(r"(<!-- bench: (\w+) -->\n).*?(<!-- end -->)", re.DOTALL)
_VERDICTS = {True: "reached", False: "**not reached**", None: ""}


def tables(record: Record) -> dict[str, str]:
    """Each table of the page as Markdown, by its name."""
    ways = [row for row in record.rows if row.case == "ways"]
    return {
        "runs": _table(("cases", "measured", "commit", "machine", "load", "turns"), _runs(record)),
        "ways": _table(_WAYS, (_way(row) for row in _medians(ways))),
        "figures": _table(
            ("figure", "goal", *transports(), "reached"),
            (_figure(goal) for goal in goals(record.rows, record.starts)),
        ),
        "used": _table(
            ("a letter", "SQS requests", "read units", "write units", "invocations", "GB-seconds"),
            _used(record.rows),
        ),
    }


def cases(record: Record) -> list[Sequence[str]]:
    """All cases with all columns, below their headings."""
    return [("case", *_WAYS, "memory MB"), *map(_case, _medians(record.rows))]


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


def _table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n" + "".join(f"| {' | '.join(cells)} |\n" for cells in lines) + "\n"


def _runs(record: Record) -> Iterable[Sequence[str]]:
    """Cases that were measured on one day at one commit and machine stand together."""
    together: dict[tuple[str, str, str], list[str]] = {}
    for name, stamp in record.cases.items():
        day = stamp.started[:10]
        together.setdefault((day, stamp.commit, stamp.machine), []).append(name)
    for (day, commit, machine), names in together.items():
        stamps = [record.cases[name] for name in names]
        loads = sorted(stamp.load for stamp in stamps)
        load = f"{loads[0]:g}" if loads[0] == loads[-1] else f"{loads[0]:g} to {loads[-1]:g}"
        turns = ", ".join(sorted({str(stamp.turns) for stamp in stamps}))
        yield ", ".join(names), day, f"`{commit}`", machine, load, turns


def _medians(rows: Sequence[Drained]) -> Iterable[Sequence[Drained]]:
    """The rows of one case, way and number of letters, in the order in which they came first."""
    together: dict[tuple[str, str, int], list[Drained]] = {}
    for row in rows:
        together.setdefault((row.case, row.way, row.letters), []).append(row)
    return together.values()


def _way(rows: Sequence[Drained]) -> Sequence[str]:
    def of(figure: Callable[[Drained], float]) -> float:
        return median(map(figure, rows))

    first = rows[0]
    ours = first.way.startswith("deadletter")
    writes = f"{of(lambda row: row.write_requests):.3f}, {of(lambda row: row.write_units):.3f}"
    return (
        first.way.replace("deadletter", "ours,"),
        f"{first.letters:,}",
        f"{of(lambda row: row.rate):,.0f}",
        f"{of(lambda row: row.cpu):.2f}",
        f"{of(lambda row: row.cores):.2f}",
        f"{of(lambda row: row.sqs_calls):.3f}",
        writes if ours else "",
        _wrong(rows),
    )


def _wrong(rows: Sequence[Drained]) -> str:
    """What went wrong in all turns together; 0 if nothing did."""
    counts = [
        sum(numbers)
        for numbers in zip(
            *(
                (row.audit.lost, row.audit.duplicated, row.audit.changed, row.audit.unfinished)
                for row in rows
            ),
            strict=True,
        )
    ]
    return ", ".join(map(str, counts)) if any(counts) else "0"


def _case(rows: Sequence[Drained]) -> Sequence[str]:
    peak = max(row.peak_mb for row in rows)
    return rows[0].case, *_way(rows), f"{peak:.0f}" if peak else ""


def _figure(goal: FigureGoal) -> Sequence[str]:
    cells = [f"{goal.measured[name]:.4g}" if name in goal.measured else "" for name in transports()]
    verdicts = {name: goal.is_reached(name) for name in goal.measured}
    verdicts = {name: reached for name, reached in verdicts.items() if reached is not None}
    if not goal.measured:
        text = "not measured"
    elif len(set(verdicts.values())) < 2:
        text = _VERDICTS[next(iter(verdicts.values()), None)]
    else:
        text = ", ".join(f"{name} {_VERDICTS[reached]}" for name, reached in verdicts.items())
    return goal.what, goal.wanted, *cells, text


def _used(rows: Sequence[Drained]) -> Iterable[Sequence[str]]:
    """What AWS bills for a letter of ours, of the cases that are there for it."""
    names = {"ways": "full pace", "pace": "default pace", "trickle": "23 a minute"}
    names |= {"groups": "FIFO", "large": "200 KB"}
    for same in _medians([row for row in rows if case_of(row) in names]):
        first = same[0]
        if not first.way.startswith("deadletter"):
            continue
        counts = (
            median(row.billed for row in same),
            median(row.read_units for row in same),
            median(row.write_units for row in same),
            median(row.invocations + row.runs / row.letters for row in same),
            median(row.gb_seconds for row in same),
        )
        what = f"{names[first.case]}, {first.way.removeprefix('deadletter ')}"
        yield what, *(f"{count:.4g}" for count in counts)


def main() -> int:
    """Write the page anew; 1 if nothing was measured."""
    record = read_record(ROOT / "build" / "bench.json")
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
