"""What moving letters costs beside other ways: `python -m lab.bench.moving [case ...]`.

Each way empties a fresh source queue of the stub (`lab.bench.lean_stub`: 10 ms latency with
jitter, in a process of its own), in a process of its own (`lab.bench.drain`). The ways take
turns, so that what else the machine does falls on all of them; a figure is the median of the
turns. The letters of a way are audited: one that is lost, duplicated, changed or left by our own
fails the bench. For the others it stands in the table.

case       what
ways       message by message, batches, threads, lumigo-cli (if installed), ours
pace       ours at 50/s on the stub's own clock, which runs faster: counts, no waiting
uneven     receives of 1 to 10 letters, to 4 destinations
rules      three rules, one of which matches each letter
failing    2 % of all entries of batches fail; ours, lumigo-cli and threads, one run each
memory     1,000 letters, for the memory of the others to grow from
start      what redrive and route take until their first event
auto       `rate: auto` and a consumer that takes all at once, on a clock of half that pace
many       10,000 letters and 100,000 (MANY=1000000 takes a million)
standing   4,000 letters on record as intents of runs that were killed, and none
room       all letters are in the waiting room; counted is what it takes to bring them back
groups     a FIFO queue with 200 groups; each letter waits in the waiting room once
large      1,000 letters of 200 KB
parking    all letters have used up their attempts
latency    letters a second at 2, 10 and 40 ms
share      ours with 0.29 of a core for each function, at 10 and at 40 ms
shards     1, 2 and 4 shards at 100 ms, so that latency is the limit and not this machine
beside     lumigo-cli and ours in 1, 2 and 4 shards at 10 and at 100 ms; one core for the stub, one
           for the way
peers      other tools that `make bench-peers` has installed, by their names

Without cases: the first seven. `--long`: all. build/bench.json keeps the figures of each case until
it is measured again, with the commit, and `python -m lab.bench.page` writes them into
docs/performance.md. LETTERS, MANY, TURNS and PACE of the environment are other
numbers of letters and turns, and another pace of the stub's clock: a busy machine needs a slower
one.
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
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2] / "lambdas"))

from lab.bench import cases
from lab.bench.figures import Drained, Started, goals, transports
from lab.bench.record import Occasion, Record, read_record

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build"

_HEAD = (
    f"{'case':<23} {'way':<17} {'letters':>7} {'letters/s':>9} {'CPU s/1000':>10} {'cores':>5}"
    f" {'peak MB':>7} {'SQS':>6} {'writes':>7} {'units':>6} {'lost':>5}"
    f" {'twice':>5} {'changed':>7} {'left':>5} {'runs':>4}  time"
)


def line(row: Drained | Started) -> str:
    """A row of the table."""
    if isinstance(row, Started):
        return f"{'start':<23} {row.function} {row.transport}: {row.cpu_ms:.0f} ms of CPU"
    audit = row.audit
    return (
        f"{row.case:<23} {row.way:<17} {row.letters:>7} {row.rate:>9.0f} {row.cpu:>10.3f}"
        f" {row.cores:>5.2f} {row.peak_mb:>7.1f} {row.sqs_calls:>6.3f}"
        f" {row.write_requests:>7.4f} {row.write_units:>6.3f}"
        f" {audit.lost:>5} {audit.duplicated:>5} {audit.changed:>7} {audit.unfinished:>5}"
        f" {row.runs:>4}"
    )


def faults(rows: Sequence[Drained]) -> list[str]:
    """What is wrong with our own: anything but letters that arrived, once and unchanged."""
    return [
        f"{row.case}, {row.way}: {row.audit} {row.trouble}".rstrip()
        for row in rows
        if row.way.startswith("deadletter") and (not _is_right(row) or row.trouble)
    ]


def _is_right(row: Drained) -> bool:
    # What one run leaves of entries that fail is a figure.
    return row.audit.is_safe if row.case == "failing" else row.audit.is_clean


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure, print, and write the figures; 1 if a letter of ours did not arrive as it was."""
    parser = argparse.ArgumentParser(description="what moving letters costs beside other ways")
    parser.add_argument("cases", nargs="*", metavar="case", help=", ".join(cases.CASES))
    parser.add_argument("--long", action="store_true", help="all cases")
    options = parser.parse_args(arguments)
    unknown = sorted(set(options.cases) - cases.CASES.keys())
    if unknown:
        parser.error(f"unknown case {unknown[0]!r}; there are: {', '.join(cases.CASES)}")
    names = options.cases or [*(cases.CASES if options.long else cases.SHORT)]
    print(f"{datetime.now(UTC):%Y-%m-%d %H:%M}, {machine()}, load {os.getloadavg()[0]:.1f}")
    if "lumigo" not in cases.installed():
        print("skipped: lumigo-cli is not installed (make bench-peers)")
    print(_HEAD, flush=True)
    began = time.monotonic()
    path = BUILD / "bench.json"
    record, now = read_record(path), Record()
    BUILD.mkdir(exist_ok=True)
    for name in names:
        found, of_case = measured(name, began)
        record, now = (kept.with_case(name, of_case, found) for kept in (record, now))
        path.write_text(record.to_json())
    print(
        f"\n{'figure to reach':<52} {'goal':<12} " + " ".join(f"{t:>9}    " for t in transports())
    )
    for goal in goals(now.rows, now.starts):
        if goal.measured:
            print(goal)
    wrong = faults(now.rows)
    for fault in wrong:
        print(fault, file=sys.stderr)
    return 1 if wrong else 0


def measured(name: str, began: float) -> tuple[list[Drained | Started], Occasion]:
    """What a case found, each row printed with the time since the bench began."""
    started, load, case_began = datetime.now(UTC), os.getloadavg()[0], time.monotonic()
    found = []
    for row in cases.CASES[name]():
        found.append(row)
        minutes, seconds = divmod(int(time.monotonic() - began), 60)
        print(f"{line(row)}  {minutes}:{seconds:02}", flush=True)
    stamp = Occasion(
        started=started.isoformat(timespec="seconds"),
        commit=commit(),
        machine=machine(),
        load=round(load, 1),
        seconds=round(time.monotonic() - case_began, 1),
        turns=cases.TURNS,
    )
    return found, stamp


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
