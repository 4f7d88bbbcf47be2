"""What each part of `make nightly` runs.

A part takes at most an hour on two cores, and a command of it some minutes: where a run is broken
off, only the command that ran then is lost.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path, PurePath

ROOT = Path(__file__).resolve().parents[2]


@dataclass(frozen=True)
class Command:
    """One command of a part.

    words        the command itself; `python` is the one that runs this
    environment  what it finds there besides what every command finds
    of           what its schedules are of, for the row of its part
    tests        folders and files of which it runs each test that is marked nightly
    progress     the file from which it goes on by itself, below the repository's root
    """

    words: Sequence[str]
    environment: Mapping[str, str] = field(default_factory=dict)
    of: str = ""
    tests: Sequence[str] = ()
    progress: str = ""

    def __str__(self) -> str:
        """The command as it can be typed."""
        return " ".join([*(f"{key}={value}" for key, value in self.environment.items()),
                         shlex.join(self.words)])  # fmt: skip


Parts = Mapping[str, Sequence[Command]]


def nightly_tests(
    *paths: str, marked: str = "nightly", also: Sequence[str] = (), **environment: str
) -> Command:
    """Runs the tests in these folders and files that have this mark, or all if it is empty."""
    marks = ("-m", marked) if marked else ()
    words = ("python", "-m", "pytest", "-q", *also, *marks, *paths)
    return Command(words, environment, tests=paths)


SIMULATION = ("python", "-m", "tests.simulation")

BENCH = ("python", "-m", "tests.scenario_bench", "--systems")

# Scenarios with a goal that depends on what native redrive measures.
BESIDE_NATIVE = (
    *(
        "rate-limit",
        "rate-limit-fifo",
        "half-fix",
        "minority-3",
        "minority-4",
        "minority-9",
        "big-messages",
    ),
    *("one-of-two-unnamed", "tenant-burst", "bad-replies"),
)

SCHEDULES = {
    "redriver": 10_000,
    "shards": 2_000,
    "long-queue": 800,
    "breaker": 5_000,
    "replay": 5_000,
    "replay-run": 1_000,
    "order": 1_500,
}
"""The schedules of a night, of each simulator: some minutes each."""


def schedules(of: str, first: int) -> Command:
    """The schedules of one simulator, from this seed on."""
    runs = str(SCHEDULES[of])
    return Command((*SIMULATION, "--of", of, "--runs", runs, "--from", str(first)), of=of)


# The other commands run those that are not.
QUICK = "not sandbox and not long and not nightly"


def parts(first: int) -> Parts:
    """All parts, whose random schedules begin at this seed."""
    return {
        "sim": [
            Command(
                ("python", "-m", "tests.simulation.caught", "--fresh", str(first)),
                progress=f"build/caught-{first}.json",
            ),
            *(schedules(of, first) for of in SCHEDULES),
            nightly_tests(
                "tests/simulation",
                marked="long or nightly",
                also=("-n", "2"),
                SIM_SCHEDULES="1000",
            ),
            nightly_tests(
                *(f"tests/{name}" for name in ("consumer", "failure", "message", "processing")),
                *(f"tests/{name}" for name in ("redrive", "replay", "rules")),
                marked="long or nightly",
                HYPOTHESIS_PROFILE="nightly",
            ),
            # Each property, with thousands of examples.
            Command(
                (
                    "python",
                    "-m",
                    "pytest",
                    "-q",
                    "-n",
                    "2",
                    "-m",
                    f"hypothesis and {QUICK}",
                    "tests",
                ),
                {"HYPOTHESIS_PROFILE": "nightly"},
            ),
        ],
        "e2e": [
            nightly_tests("tests/operate"),
            nightly_tests("tests/console/web", CHROMIUM="required"),
            # Those of the day, too: only a whole session has used all that roles are granted.
            # Where Chromium is missing, the tests of pages fail instead of being skipped.
            nightly_tests("tests/e2e", marked="sandbox", CHROMIUM="required"),
        ],
        # By day each test of a port meets two of its backends: here all.
        "contract": [
            nightly_tests("tests/aws", marked=""),
            nightly_tests("tests/statemachines", marked=""),
            # The oldest boto3, what is installed from a clone, and the site: needs the network.
            nightly_tests(
                *("tests/test_install.py", "tests/test_packaging.py", "tests/docs/test_site.py"),
                marked="long or nightly",
            ),
        ],
        "policies": [
            # By day only if something that they read has changed.
            Command(("make", "scan"), tests=("tests/tools/scan",)),
            nightly_tests("tests/rows"),
            nightly_tests("tests/infra", "tests/examples", "tests/docs/test_hundred_pipelines.py"),
        ],
        "drill": [
            Command(("make", "demo")),
            nightly_tests("tests/drill", marked="drill", also=("-s",)),
        ],
        "scenarios": [
            nightly_tests("tests/scenarios", marked="long or nightly"),
            nightly_tests("tests/scenario_bench"),
            Command((*BENCH, "native", "--", *BESIDE_NATIVE)),
            Command((*BENCH, "deadletter", "--add")),
        ],
        "mutation": [
            Command(("make", "mutation", "SAMPLE=60", f"SEED={first}")),
            nightly_tests("lab/tests/mutation", marked=""),
        ],
        "bench": [
            nightly_tests("lab/tests/bench", marked=""),
            nightly_tests("tests/costs"),
            Command(("make", "bench")),
            Command(("make", "bench-parts")),
        ],
    }


@cache
def parts_of(path: Path) -> Sequence[str]:
    """The parts that run the nightly tests of this file."""
    found = PurePath(path).relative_to(ROOT)
    return [
        name
        for name, commands in parts(0).items()
        if any(found.is_relative_to(folder) for one in commands for folder in one.tests)
    ]
