"""Each function loads what it needs: the modules of ours that its import brings along.

A team's function pays for every module of the consumer library at each cold start.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The most modules of ours that a function may load, without `__init__` and `contract`.
# A larger number needs its reason beside it.
MOST_MODULES = {
    # 44, and 4 that say who is to blame for a failure: the judgement, the codes of the libraries
    # that it reads, how a foreign exception is read, and whether the message itself was refused.
    # 1 for what a batch knows of its circuits, 1 for the dependencies that a handler names.
    # 3 for causes that suddenly dominate: the judgement, its table, and what a process counts.
    # 2 for what a circuit admits while it comes back: the formula and its counter.
    # 2 for the guard and the parking of a batch, which are apart from its loop.
    # 3 for groups of failures: the fingerprint, a text's template, and the words of error texts.
    "deadletter.consumer": 60,
    "handlers.check_rules": 30,
    # 35, and 2 because the router's port and a refused rule are apart from the router itself:
    # probe and redriver ask the router, and so load neither the rules nor the judgement.
    # 1 says which failures were tried at all, and 2 which causes suddenly dominate.
    "handlers.route": 40,
    # 48, and 4 because settings have a module for each noun, the consumer's outcomes are
    # collected in a pure module apart from their table, and metrics have a module of their own.
    # 4 say who is to blame for a failure, 1 what a batch knows of its circuits, and 1 counts the
    # calls of named dependencies, because the dispatcher runs in the consumer library.
    # 3 for causes that suddenly dominate.
    # 2 for the guard and the parking of a batch, which are apart from its loop.
    # 2 for what a circuit admits while it comes back, 3 for groups of failures.
    "handlers.dispatch": 68,
    "handlers.circuit": 60,
    # 60, and 3 for which letters may be canaries: the ledger's word on them, the moves into the
    # circuit's lane, and the main queue's messages.
    "handlers.probe": 63,
    "handlers.redrive": 70,
    # 11 of the watch itself, the sweep's, and the ports of queues, leases, lanes and the router.
    "handlers.watch": 70,
}

# What is for tests alone, and never in a function.
FOR_TESTS = ("deadletter.testing", "pytest")

LOADED = """
import importlib, json, sys
importlib.import_module(sys.argv[1])
print(json.dumps([
    name
    for name, module in sys.modules.items()
    if not (getattr(module, "__file__", None) or "").endswith("__init__.py")
]))
"""


def loaded_by(module: str) -> set[str]:
    """Every module that is loaded once `module` has been imported, packages left out."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module],
        cwd=ROOT / "lambdas",
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def ours(loaded: set[str]) -> list[str]:
    """Those of the modules that are ours and that count."""
    packages = ("deadletter.", "handlers.")
    return sorted(
        name for name in loaded if name.startswith(packages) and name != "deadletter.contract"
    )


@pytest.mark.parametrize(("module", "most"), MOST_MODULES.items())
def test_a_function_loads_few_modules(module: str, most: int) -> None:
    loaded = loaded_by(module)
    modules = ours(loaded)
    assert modules, "nothing of ours was counted"
    assert len(modules) <= most, "\n".join(modules)
    assert not [name for name in loaded if name.startswith(FOR_TESTS)]


def test_every_function_is_counted() -> None:
    handlers = {path.stem for path in (ROOT / "lambdas" / "handlers").glob("*.py")}
    functions = handlers - {"__init__", "metrics", "runtime"}
    assert {f"handlers.{name}" for name in functions} | {"deadletter.consumer"} == set(MOST_MODULES)
