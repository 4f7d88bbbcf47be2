"""Each function loads what it needs: the modules of ours that are loaded until its first event.

A team's function pays for every module of the consumer library at each cold start.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import NamedTuple

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
    "handlers.circuit": 28,
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
    "MESSAGES_TABLE": "messages",
    "CONSUMER_FUNCTION": "arn:aws:lambda:eu-west-1:111122223333:function:orders",
    "CIRCUIT_MACHINE": f"{MACHINES}:circuit",
    "REPLAY_MACHINE": f"{MACHINES}:replay",
}
"""The environment of a function that is put together before its first event."""

# What is for tests alone, and never in a function.
FOR_TESTS = ("deadletter.testing", "pytest")

# Names and words alone: each function needs them.
NAMES = ("deadletter.contract", "deadletter.signals.figures")

COLD_START = """
import importlib, json, sys
from botocore.loaders import Loader
services, load = [], Loader.load_service_model
def load_service_model(self, name, *arguments, **more):
    services.append(name)
    return load(self, name, *arguments, **more)
Loader.load_service_model = load_service_model
importlib.import_module(sys.argv[1])
modules = {name: getattr(module, "__file__", None) for name, module in sys.modules.items()}
print(json.dumps([modules, services]))
"""


class Started(NamedTuple):
    """What a fresh process has before its first event: modules, and services of its clients."""

    modules: set[str]
    packages: set[str]
    services: set[str]


@cache
def cold_start(module: str, without: str) -> Started:
    """A process that has loaded a module as Lambda does it, without one of the variables."""
    ours = {name: value for name, value in STARTED.items() if name != without}
    others = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", COLD_START, module],
        cwd=ROOT / "lambdas",
        env={**others, **ours},
        capture_output=True,
        text=True,
        check=True,
    )
    files, services = json.loads(done.stdout)
    packages = {name for name, file in files.items() if (file or "").endswith("__init__.py")}
    return Started(files.keys() - packages, packages, set(services))


def ours(loaded: set[str]) -> list[str]:
    """Those of the modules that are ours and that count."""
    packages = ("deadletter.", "handlers.")
    return sorted(name for name in loaded if name.startswith(packages) and name not in NAMES)


@pytest.mark.parametrize(("module", "most"), MOST_MODULES.items())
def test_a_function_loads_few_modules(module: str, most: int) -> None:
    loaded = cold_start(module, "").modules
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
    assert not cold_start("deadletter.consumer", "").modules & set(LATER)


NEVER_LOADED = {"boto3", "s3transfer", "multiprocessing", "jsonschema", "moto", "asyncio"}
UNUSED_BY_ROUTE = {
    "deadletter.aws.waiting_room",
    "deadletter.redrive.redriver",
    "deadletter.circuit.transitions",
}
UNUSED_BY_MOST_RUNS = {
    "deadletter.aws.breaker",
    "deadletter.aws.executions",
    "deadletter.aws.observed",
    "deadletter.aws.outcomes",
    "deadletter.circuit.transitions",
    "deadletter.outage.executions",
    "deadletter.rules.rule",
}


@pytest.mark.parametrize(
    ("handler", "without", "services", "unused"),
    [
        ("redrive", "CIRCUIT_MACHINE", {"sqs", "dynamodb", "lambda"}, UNUSED_BY_MOST_RUNS),
        ("route", "", {"dynamodb"}, UNUSED_BY_ROUTE),
    ],
)
def test_a_function_begins_with_the_modules_and_clients_that_it_uses(
    handler: str, without: str, services: set[str], unused: set[str]
) -> None:
    started = cold_start(f"handlers.{handler}", without)
    assert started.services == services
    assert not (started.modules | started.packages) & (unused | NEVER_LOADED)


def test_outside_of_lambda_no_client_is_made_before_the_first_event() -> None:
    started = cold_start("handlers.redrive", "AWS_LAMBDA_INITIALIZATION_TYPE")
    assert not started.services


def test_every_function_is_counted() -> None:
    handlers = {path.stem for path in (ROOT / "lambdas" / "handlers").glob("*.py")}
    functions = handlers - {"__init__", "init", "metrics", "runtime"}
    assert {f"handlers.{name}" for name in functions} | {"deadletter.consumer"} == set(MOST_MODULES)
