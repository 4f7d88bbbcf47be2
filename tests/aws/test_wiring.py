"""Each function loads what it needs: the modules of ours that are loaded until its first event.

A team's function pays for every module of the consumer library at each cold start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

# The most modules of ours that are loaded when a function has been put together as Lambda does it
# before the first event, without `__init__` and `contract`. A larger number needs its reason
# beside it.
MOST_MODULES = {
    # What a batch needs that succeeds: settings, letters, claims and their adapter. Circuits,
    # diagnoses, ledger, parking, causes and trips are loaded when they are first used.
    "deadletter.consumer": 39,
    # 1 puts it together before the first event. The language of patterns, windows, what a rule can
    # match at all, what was typed.
    "handlers.check_rules": 39,
    # 1 puts it together. The custom resource of a deployment: the answer, the figures, and their
    # clients.
    "handlers.first_heartbeat": 17,
    # The rules, the ledger, and what reads replay runs. Not what moves letters.
    "handlers.route": 64,
    # The consumer library with failures, ledger and causes, and the dispatcher.
    "handlers.dispatch": 90,
    "handlers.circuit": 27,
    # Which letters may be canaries, what moves them, and the health check. Not the redriver.
    "handlers.probe": 69,
    # What people ask of the function beside runs is loaded when it is asked.
    "handlers.redrive": 82,
    # The redriver's, and the steps of a replay run: snapshot, freeze, worker, judge, reconcile.
    "handlers.replay": 132,
    # The sweep's, lost executions of replay runs, news, and the look at what all share.
    "handlers.watch": 85,
}

QUEUES = "https://sqs.eu-west-1.amazonaws.com/111122223333"
MACHINES = "arn:aws:states:eu-west-1:111122223333:stateMachine"

STARTED = {
    "AWS_LAMBDA_INITIALIZATION_TYPE": "on-demand",
    "AWS_DEFAULT_REGION": "eu-west-1",
    "APP": "deadletter",
    "PIPELINE": json.dumps({"name": "orders"}),
    "WEBHOOK": json.dumps({"secret_prefix": "deadletter/"}),
    "MAIN_URL": f"{QUEUES}/orders",
    "PARKING": json.dumps({"default": f"{QUEUES}/parking"}),
    "LETTERS_TABLE": "letters",
    "CONSUMER_FUNCTION": "arn:aws:lambda:eu-west-1:111122223333:function:orders",
    "CIRCUIT_MACHINE": f"{MACHINES}:circuit",
    "REPLAY_MACHINE": f"{MACHINES}:replay",
}
"""The environment of a function that is put together before its first event."""

# What is for tests alone, and never in a function.
FOR_TESTS = ("deadletter.testing", "pytest")

# Names and words alone: each function needs them.
NAMES = ("deadletter.contract", "deadletter.signals.figures")

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
    """Every module that is loaded before the first event, packages left out."""
    done = subprocess.run(
        [sys.executable, "-c", LOADED, module],
        cwd=ROOT / "lambdas",
        env={**os.environ, **STARTED},
        capture_output=True,
        text=True,
        check=True,
    )
    return set(json.loads(done.stdout))


def ours(loaded: set[str]) -> list[str]:
    """Those of the modules that are ours and that count."""
    packages = ("deadletter.", "handlers.")
    return sorted(name for name in loaded if name.startswith(packages) and name not in NAMES)


@pytest.mark.parametrize(("module", "most"), MOST_MODULES.items())
def test_a_function_loads_few_modules(module: str, most: int) -> None:
    loaded = loaded_by(module)
    modules = ours(loaded)
    assert modules, "nothing of ours was counted"
    assert len(modules) <= most, "\n".join(modules)
    assert not [name for name in loaded if name.startswith(FOR_TESTS)]


LATER = (
    *("deadletter.failure.blame", "deadletter.failure.classify", "deadletter.failure.codes"),
    *("deadletter.failure.causes", "deadletter.message.envelope", "deadletter.processing.parking"),
    *("deadletter.aws.outcomes", "deadletter.circuit.outcomes", "deadletter.failure.ledger"),
    *("deadletter.aws.breaker", "deadletter.aws.ledger", "deadletter.aws.queue"),
    *("deadletter.circuit.transitions", "deadletter.outage.executions", "asyncio.events"),
    "deadletter.consumer.polling",
)
"""What a team's function does not load before its first batch ends, or a message fails."""


def test_a_teams_function_loads_nothing_that_its_first_message_does_not_need() -> None:
    loaded = loaded_by("deadletter.consumer")
    assert not loaded & set(LATER)


def test_every_function_is_counted() -> None:
    handlers = {path.stem for path in (ROOT / "lambdas" / "handlers").glob("*.py")}
    functions = handlers - {"__init__", "init", "metrics", "runtime"}
    assert {f"handlers.{name}" for name in functions} | {"deadletter.consumer"} == set(MOST_MODULES)
