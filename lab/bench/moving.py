"""What moving letters costs beside other ways: `python -m lab.bench.moving [case ...]`.

Each way empties a fresh source queue of the stub (`lab.bench.stub`: 10 ms latency with jitter, in a
process of its own), in a process of its own (`lab.bench.drain`). The ways take turns, so that what
else the machine does falls on all of them; a figure is the median of the turns. The letters of a
way are audited: one that is lost, duplicated, changed or left by our own fails the bench. For the
others it stands in the table.

build/bench.json keeps the figures of each case until it is measured again, with the commit, and
`python -m lab.bench.page` writes them into docs/performance.md. LETTERS, MANY, TURNS and PACE of
the environment are other numbers of letters and turns, and another pace of the stub's clock: a
busy machine needs a slower one.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime

from lab.bench import cases
from lab.bench.figures import goals
from lab.bench.lumigo import is_installed
from lab.bench.record import Drained, Occasion, Record, read_record, write_record
from lab.bench.server import ROOT

RECORD = ROOT / "build" / "bench.json"

_HEAD = (
    f"{'case':<23} {'way':<8} {'letters':>7} {'letters/s':>9} {'CPU s/1000':>10} {'cores':>5}"
    f" {'peak MB':>7} {'SQS':>6} {'writes':>7} {'units':>6} {'lost':>5}"
    f" {'twice':>5} {'changed':>7} {'left':>5} {'runs':>4}  time"
)


def line(row: Drained) -> str:
    """A row of the table."""
    audit = row.audit
    return (
        f"{row.case:<23} {row.way:<8} {row.letters:>7} {row.rate:>9.0f} {row.cpu:>10.3f}"
        f" {row.cores:>5.2f} {row.peak_mb:>7.1f} {row.sqs_calls:>6.3f}"
        f" {row.write_requests:>7.4f} {row.write_units:>6.3f}"
        f" {audit.lost:>5} {audit.duplicated:>5} {audit.changed:>7} {audit.unfinished:>5}"
        f" {row.runs:>4}"
    )


def faults(rows: Sequence[Drained]) -> list[str]:
    """What is wrong with our own: anything but letters that arrived, once and unchanged."""
    return [
        f"{row.case}: {row.audit} {row.trouble}".rstrip()
        for row in rows
        if row.way == "ours" and (not _is_right(row) or row.trouble)
    ]


def _is_right(row: Drained) -> bool:
    # What one run leaves of entries that fail is a figure.
    return row.audit.is_safe if row.case == "failing" else row.audit.is_clean


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures; 1 if a letter of ours did not arrive as it was."""
    known = {**cases.SHORT, **cases.LONG}
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
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {machine()}, load {os.getloadavg()[0]:.1f}")
    if not is_installed():
        print("skipped: lumigo-cli is not installed (make bench-peers)")
    print(_HEAD, flush=True)
    began = time.monotonic()
    record, now = read_record(RECORD), Record()
    for name in options.cases or [*(known if options.long else cases.SHORT)]:
        occasion = Occasion(
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            commit=commit(),
            machine=machine(),
            load=round(os.getloadavg()[0], 1),
            turns=cases.TURNS,
        )
        found = []
        for row in known[name]():
            found.append(row)
            minutes, seconds = divmod(int(time.monotonic() - began), 60)
            print(f"{line(row)}  {minutes}:{seconds:02}", flush=True)
        record, now = (kept.with_case(name, occasion, found) for kept in (record, now))
        write_record(RECORD, record)
    print(f"\n{'figure to reach':<52} {'goal':<12}")
    for goal in goals(now.rows):
        if goal.measured is not None:
            print(goal)
    wrong = faults(now.rows)
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


def machine() -> str:
    return f"{os.cpu_count()} cores, Python {platform.python_version()}, {platform.machine()}"


def commit() -> str:
    """The commit that is measured, short; empty without git."""
    command = ["git", "-C", str(ROOT), "rev-parse", "--short=7", "HEAD"]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError:
        return ""
    return done.stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
