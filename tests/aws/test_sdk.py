"""The clients of our functions are those that boto3 would make, made with less."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import boto3
import pytest

from deadletter.aws.clients import _CONFIG, client_of, session

SERVICES = ("sqs", "dynamodb", "s3", "lambda", "stepfunctions")
NEVER_LOADED = ("boto3", "s3transfer", "multiprocessing", "jsonschema", "moto", "asyncio")
UNUSED_BY_ROUTE = (
    "deadletter.aws.waiting_room",
    "deadletter.redrive.redriver",
    "deadletter.circuit.transitions",
)
UNUSED_BY_MOST_RUNS = (
    "deadletter.aws.breaker",
    "deadletter.aws.executions",
    "deadletter.aws.observed",
    "deadletter.aws.outcomes",
    "deadletter.circuit.transitions",
    "deadletter.outage.executions",
    "deadletter.rules.rule",
)

SETTINGS = {
    "PIPELINE": json.dumps({"name": "orders"}),
    "MAIN_URL": "https://sqs/main",
    "LETTERS_TABLE": "letters",
}

COLD_START = """
import importlib, json, sys
from botocore.loaders import Loader
loaded, load = [], Loader.load_service_model
def load_service_model(self, name, *arguments, **more):
    loaded.append(name)
    return load(self, name, *arguments, **more)
Loader.load_service_model = load_service_model
importlib.import_module("handlers." + sys.argv[1])
print(json.dumps([sorted(sys.modules), sorted(set(loaded))]))
"""


def cold_start(handler: str, **environment: str) -> tuple[set[str], set[str]]:
    """What a fresh process has loaded after INIT: its modules, and the services of its clients."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", COLD_START, handler],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("AWS_")},
            "PYTHONPATH": str(root / "lambdas"),
            "AWS_DEFAULT_REGION": "eu-west-1",
            **environment,
        },
        capture_output=True,
        text=True,
        check=True,
    )
    modules, services = json.loads(done.stdout)
    return set(modules), set(services)


@pytest.mark.parametrize(
    ("handler", "services", "unused"),
    [
        ("redrive", {"sqs", "dynamodb", "lambda"}, UNUSED_BY_MOST_RUNS),
        ("route", {"dynamodb"}, UNUSED_BY_ROUTE),
    ],
)
def test_a_function_begins_with_the_modules_and_clients_that_it_uses(
    handler: str, services: set[str], unused: tuple[str, ...]
) -> None:
    modules, made = cold_start(handler, AWS_LAMBDA_INITIALIZATION_TYPE="on-demand", **SETTINGS)
    assert made == services
    assert not modules & {*unused, *NEVER_LOADED}


def test_outside_of_lambda_no_client_is_made_before_the_first_event() -> None:
    _, made = cold_start("redrive")
    assert not made


@pytest.mark.parametrize(
    ("region", "fips"), [("eu-west-1", "false"), ("us-gov-west-1", "true"), ("cn-north-1", "false")]
)
def test_clients_have_the_endpoints_and_the_calls_of_boto3s(
    region: str, fips: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_DEFAULT_REGION", region)
    monkeypatch.setenv("AWS_USE_FIPS_ENDPOINT", fips)
    session.cache_clear()
    their_session = boto3.Session()
    for service in SERVICES:
        ours = client_of(service, config=_CONFIG.config())
        make: Any = their_session.client
        theirs = make(service, config=_CONFIG.config())
        assert ours.meta.endpoint_url == theirs.meta.endpoint_url
        assert ours.meta.region_name == theirs.meta.region_name
        assert ours.meta.method_to_api_mapping == theirs.meta.method_to_api_mapping
    session.cache_clear()
