"""The packages that are mutated, and the tests that have to notice."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent.parent
LIBRARY = ROOT / "lambdas" / "deadletter"


@dataclass(frozen=True, slots=True)
class Target:
    """A package of the library that decides. Its own tests run first, `also` after them."""

    package: str
    also: Sequence[str] = ()

    @property
    def modules(self) -> list[str]:
        """Its modules, as paths below lambdas/deadletter."""
        paths = sorted((LIBRARY / self.package).rglob("*.py"))
        return [str(path.relative_to(LIBRARY)) for path in paths if path.name != "__init__.py"]

    @property
    def tests(self) -> list[str]:
        """Folders and files of tests, below the repository's root."""
        return [f"tests/{self.package}", *self.also]


# The most dangerous ones first.
TARGETS = {
    target.package: target
    for target in (
        # Much of it only shows in whole runs: the short ones of the simulator.
        Target(
            "redrive",
            (
                "tests/simulation/test_regressions.py",
                "tests/simulation/test_gates.py",
                "tests/simulation/test_fair_runs.py",
                "tests/simulation/test_bounded_receives.py",
                "tests/simulation/test_interrupted_runs.py",
                "tests/simulation/test_simulation.py",
                "tests/simulation/test_looks.py",
                "tests/simulation/test_run_memory.py",
                "tests/simulation/test_standing_intents.py",
            ),
        ),
        Target("circuit"),
        Target("pace", ("tests/processing",)),
        Target("replay", ("tests/statemachines", "tests/simulation/test_replay_pace.py")),
        Target("message"),
        Target("failure", ("tests/processing",)),
        Target("routing"),
        Target("processing", ("tests/consumer/test_face.py",)),
        Target("watch", ("tests/aws/test_watch.py", "tests/aws/test_news.py")),
        Target("outage", ("tests/simulation/test_probe.py", "tests/simulation/test_post.py")),
        # Rules that are too costly to judge are tested where they hold a letter.
        Target("rules", ("tests/routing/test_router.py",)),
        Target("webhook"),
        Target("events", ("tests/watch/test_news.py",)),
        Target("settings"),
        Target("signals", ("tests/console/operations/test_attention.py",)),
    )
}

# Thousands of schedules, a deployed app: too long to run once for each mutant.
CHOSEN_TESTS = "not long and not sandbox and not nightly and not drill"


class UnknownTarget(ValueError):
    """The name of a package or module that is not mutated."""


def chosen(names: Sequence[str]) -> dict[Target, list[str]]:
    """The modules to mutate, by target; all of them without names.

    A name is a package ("redrive") or a module ("redrive/turns" or "redrive/turns.py").
    """
    if not names:
        return {target: target.modules for target in TARGETS.values()}
    wanted: dict[Target, list[str]] = {}
    for name in names:
        package, _, module = name.removesuffix(".py").partition("/")
        target = TARGETS.get(package)
        modules = target.modules if target else []
        if module:
            modules = [path for path in modules if path == f"{package}/{module}.py"]
        if target is None or not modules:
            raise UnknownTarget(
                f"{name!r} is not mutated; allowed: {', '.join(TARGETS)}, or a module of these such"
                " as redrive/turns"
            )
        wanted.setdefault(target, []).extend(modules)
    return wanted
