"""What tests cost, in seconds of CPU: `make times` shows it, and no test of the day may cost much.

`run` starts a program and notes what it took with all its children; the plugin notes each test.
On a busy machine seconds on the wall say how busy it is, so the limit is on CPU, of the test and
of the programs that it started and ended.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass
from operator import itemgetter
from pathlib import Path
from resource import RUSAGE_CHILDREN, RUSAGE_SELF, getrusage
from time import monotonic, process_time
from typing import Any

import pytest

FOLDER = Path(__file__).parent.parent / "build" / "times"

# Seconds of CPU of a test of the day; more needs the mark `slow_because`.
LIMIT = 3.0

# Two threads on one core take up to twice the CPU: what is between fails on no busy machine, and
# `make times` names it.
BUSY = 2.0

# What `a_loop` takes on the machine that the limit is for, in seconds of CPU.
A_LOOP = 0.02

# Tests that the table names one by one.
COSTLIEST = 20

# Marks that say when a test runs.
WHEN = ("sandbox", "nightly", "long", "drill")


def spent() -> float:
    """Seconds of CPU of this process, and of its children that have ended."""
    mine, theirs = getrusage(RUSAGE_SELF), getrusage(RUSAGE_CHILDREN)
    return mine.ru_utime + mine.ru_stime + theirs.ru_utime + theirs.ru_stime


def a_loop() -> float:
    """The seconds of CPU of some work that is always the same."""
    began = process_time()
    for number in range(1_000_000):
        number % 7
    return process_time() - began


def too_much(cpu: float, loop: Callable[[], float]) -> bool:
    """Whether a test of the day costs too much, also in the seconds of the limit's own machine.

    `cpu` is what the test took here, `loop` measures `a_loop` here. On a slower machine, or on a
    core that another program shares, both take longer.
    """
    most = BUSY * LIMIT
    return cpu > most and cpu * A_LOOP / loop() > most


class Times:
    """The plugin that `--times FILE` turns on: a line for each test, and the limit.

    What several tests share is set up by the first of them and ended by the last. It is in what
    these took, but not in what they took for themselves, which the limit looks at: another order
    would blame another test.
    """

    def __init__(self, file: Path) -> None:
        self._file = file
        self._began = self._shared = self._own = 0.0
        self._sharing = False

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Generator[None, Any, Any]:
        self._shared = self._own = 0.0
        wall, self._began = monotonic(), spent()
        answer = yield
        line = {
            "test": item.nodeid,
            "when": [name for name in WHEN if item.get_closest_marker(name)],
            "cpu": round(spent() - self._began, 4),
            "own": round(self._own, 4),
            "wall": round(monotonic() - wall, 4),
        }
        with self._file.open("a") as file:
            file.write(json.dumps(line) + "\n")
        return answer

    @pytest.hookimpl(wrapper=True)
    def pytest_fixture_setup(self, fixturedef: pytest.FixtureDef[Any]) -> Generator[None, Any, Any]:
        if fixturedef.scope == "function" or self._sharing:
            return (yield)
        self._sharing, began = True, spent()
        try:
            return (yield)
        finally:
            self._sharing = False
            self._shared += spent() - began

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        report = yield
        if call.when != "call":
            return report
        self._own = cpu = spent() - self._began - self._shared
        if not report.passed or item.get_closest_marker("slow_because"):
            return report
        # Tests of the sandbox share its processes: what they took counts where one of them ends.
        if item.get_closest_marker("sandbox"):
            return report
        if too_much(cpu, a_loop):
            report.outcome = "failed"
            report.longrepr = (
                f"{item.nodeid} took {cpu:.1f} seconds of CPU, {LIMIT:g} are allowed by day:"
                " make it cheaper, mark it nightly, or say why with slow_because"
            )
        return report


def run(name: str, command: list[str]) -> int:
    """Run a part of the day, and note what it took; its status.

    Ctrl-C reaches the program too, which ends what it has started; SIGTERM is handed on.
    """
    FOLDER.mkdir(parents=True, exist_ok=True)
    file = FOLDER / f"{name}.jsonl"
    file.write_text("")
    began = monotonic()
    early: list[int] = []
    # Functions, for what is ignored would be ignored by the program as well.
    signal.signal(signal.SIGINT, lambda number, _: None)
    signal.signal(signal.SIGTERM, lambda number, _: early.append(number))
    program = subprocess.Popen(command)
    signal.signal(signal.SIGTERM, lambda number, _: program.send_signal(number))
    for number in early:
        program.send_signal(number)
    status = program.wait()
    line = {
        "part": name,
        "cases": len(file.read_text().splitlines()),
        "cpu": round(spent(), 1),
        "wall": round(monotonic() - began, 1),
    }
    with file.open("a") as lines:
        lines.write(json.dumps(line) + "\n")
    return status if status >= 0 else 128 - status


@dataclass
class Sum:
    """What the tests of a group took together."""

    cases: int = 0
    cpu: float = 0.0
    wall: float = 0.0

    def add(self, line: dict[str, Any]) -> None:
        self.cases += 1
        self.cpu += line["cpu"]
        self.wall += line["wall"]


def group(line: dict[str, Any]) -> str:
    """Where a test lies, and when it runs: the folder below tests/, and its marks."""
    _, *folders, _ = line["test"].partition("::")[0].split("/")
    return " ".join([folders[0] if folders else "tests", *line["when"]])


def table(lines: list[dict[str, Any]]) -> Iterator[str]:
    """The groups of tests, the costliest tests, and the parts of the day."""
    tests = [line for line in lines if "test" in line]
    groups: dict[str, Sum] = defaultdict(Sum)
    for line in tests:
        groups[group(line)].add(line)
    yield f"{'tests':30} {'cases':>7} {'CPU s':>8} {'wall s':>8}"
    for name, each in sorted(groups.items(), key=lambda row: -row[1].cpu):
        yield f"{name:30} {each.cases:7} {each.cpu:8.1f} {each.wall:8.1f}"
    yield f"\n{'CPU s, without what tests share':30}"
    for line in sorted(tests, key=itemgetter("own"), reverse=True)[:COSTLIEST]:
        yield f"{line['own']:8.1f} {line['test']}"
    yield f"\n{'parts':30} {'cases':>7} {'CPU s':>8} {'wall s':>8}"
    parts = [line for line in lines if "part" in line]
    for line in parts:
        yield f"{line['part']:30} {line['cases']:7} {line['cpu']:8.1f} {line['wall']:8.1f}"
    cases, cpu = (sum(line[name] for line in parts) for name in ("cases", "cpu"))
    yield f"{'the day':30} {cases:7} {cpu:8.1f}"


def main(words: list[str]) -> int:
    """`run NAME COMMAND ...`, or show what the parts took that ran last."""
    if words[:1] == ["run"]:
        return run(words[1], words[2:])
    files = sorted(FOLDER.glob("*.jsonl"))
    if not files:
        print("Nothing has been measured yet: make test", file=sys.stderr)
        return 1
    lines = [json.loads(text) for file in files for text in file.read_text().splitlines()]
    print("\n".join(table(lines)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
