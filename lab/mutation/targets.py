"""The packages that are mutated, and the tests that have to notice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
LIBRARY = ROOT / "lambdas" / "deadletter"

# Much of it only shows in whole runs: the short ones of the simulator.
WHOLE_RUNS = (
    *("regressions", "gates", "fair_runs", "bounded_receives", "interrupted_runs"),
    *("simulation", "looks", "run_memory", "standing_intents"),
)

# The packages that decide, the most dangerous ones first, and tests beside their own.
TARGETS: Mapping[str, Sequence[str]] = {
    "redrive": [f"tests/simulation/test_{name}.py" for name in WHOLE_RUNS],
    "circuit": [],
    "pace": ["tests/processing"],
    "replay": ["tests/statemachines", "tests/simulation/test_replay_pace.py"],
    "message": [],
    "failure": ["tests/processing"],
    "routing": [],
    "processing": ["tests/consumer/test_face.py"],
    "watch": ["tests/aws/test_watch.py", "tests/aws/test_news.py"],
    "outage": ["tests/simulation/test_probe.py", "tests/simulation/test_post.py"],
    # Rules that are too costly to judge are tested where they hold a letter.
    "rules": ["tests/routing/test_router.py"],
    "webhook": [],
    "events": ["tests/watch/test_news.py"],
    "settings": [],
    "signals": ["tests/console/operations/test_attention.py"],
}

# Thousands of schedules, a deployed app: too long to run once for each mutant.
CHOSEN_TESTS = "not long and not sandbox and not nightly and not drill"


class UnknownTarget(ValueError):
    """The name of a package or module that is not mutated."""


def suites_of(package: str) -> list[str]:
    """Folders and files of tests, below the repository's root; the package's own are first."""
    return [f"tests/{package}", *TARGETS[package]]


def modules_of(package: str) -> list[str]:
    """The modules of a package, as paths below lambdas/deadletter."""
    paths = sorted((LIBRARY / package).rglob("*.py"))
    return [str(path.relative_to(LIBRARY)) for path in paths if path.name != "__init__.py"]


def chosen(names: Sequence[str]) -> dict[str, list[str]]:
    """The modules to mutate, by package; all of them without names.

    A name is a package ("redrive") or a module ("redrive/turns" or "redrive/turns.py").
    """
    wanted: dict[str, list[str]] = {}
    for name in names or TARGETS:
        package, _, module = name.removesuffix(".py").partition("/")
        modules = modules_of(package) if package in TARGETS else []
        found = [path for path in modules if not module or path == f"{package}/{module}.py"]
        if not found:
            raise UnknownTarget(
                f"{name!r} is not mutated; allowed: {', '.join(TARGETS)}, or a module of these such"
                " as redrive/turns"
            )
        wanted.setdefault(package, []).extend(found)
    return wanted
