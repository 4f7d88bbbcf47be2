"""Each variant of the app is synthesized once a session: starting Node is what takes time."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from infra import context
from infra.settings import PipelineDeployment
from tests.infra.templates import Synthesis, read

ROOT = Path(__file__).parents[2]

ARN = "arn:aws:{}:eu-west-1:111122223333:{}"

TOPIC = ARN.format("sns", "pager")

# One pipeline of each sort.
ORDERS = {
    "name": "orders",
    "context": {"tenantId": "body.tenantId"},
    "dedicated": {"vip": False, "slow": True},
    "parking": {"QUARANTINED": "quarantine"},
    "trusted_senders": ["AROAOTHER"],
    "circuit_key": "context.tenantId",
}
EVENTS: dict[str, Any] = {
    "name": "order-events",
    "fifo": True,
    "consumer": "none",
    "dedicated": {"vip": False},
}
THEIRS = {
    "name": "theirs",
    "mode": "enforce",
    "main_queue": {"arn": ARN.format("sqs", "their-main")},
    "dlq": {"arn": ARN.format("sqs", "their-dlq")},
    "consumer": {
        "function_arn": ARN.format("lambda", "function:their-consumer"),
        "mapping_id": "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
    },
    "consumer_library": True,
    "circuit": {"health_url": "https://api.example/health"},
    "ordering_key": "body.customer",
}
HASTY = {
    "name": "hasty",
    "consumer": "none",
    "consumer_library": True,
    "circuit_key": "body.shop",
    "alarms": {"age": 20, "depth": 7},
    "tuning": {
        "alarms.age_period": 120,
        "alarms.age_looks": 1,
        "alarms.letter_expiry": 259_200,
        "alarms.depth_looks": 3,
        "alarms.room_late": 1200,
        "alarms.circuit_open_after": 420,
        "alarms.flapping_times": 5,
        "alarms.flapping_within": 7200,
        "alarms.open_circuits": 3,
        "alarms.open_circuits_for": 420,
        "alarms.parked_after": 172_800,
    },
    "owner": "the hasty team",
}
# Queues under keys of their own: only for an app under a customer's key.
KEYED = {
    **EVENTS,
    "mode": "enforce",
    "main_queue": {
        "arn": ARN.format("sqs", "keyed.fifo"),
        "kms_key_arn": ARN.format("kms", "key/their-main"),
    },
    "dlq": {
        "arn": ARN.format("sqs", "keyed-dlq.fifo"),
        "kms_key_arn": ARN.format("kms", "key/their-dlq"),
    },
    "consumer": {
        "function_arn": ARN.format("lambda", "function:keyed-consumer"),
        "mapping_id": "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
    },
}
WATCHED = {"name": "watched", "mode": "observe", "consumer": "none"}
EACH_SORT = {"pipelines": [ORDERS, EVENTS, THEIRS, WATCHED]}
# Such pipelines under a customer's key, in an app that may be thrown away.
SANDBOXED = {
    "app": "mail",
    "ephemeral": "true",
    "kms_key_arn": ARN.format("kms", "key/1234abcd"),
    "log_retention_days": "7",
    "reserve_watch": "true",
    "architecture": "x86_64",
    "environment": {"HTTPS_PROXY": "http://proxy:3128", "AWS_USE_FIPS_ENDPOINT": "true"},
    "pipelines": json.dumps([ORDERS, KEYED, HASTY]),
}


Synthesize = Callable[..., Synthesis]


def typed(name: str = "orders", **settings: Any) -> PipelineDeployment:
    """A pipeline as it is deployed when a person types these settings."""
    return context.pipeline(1, {"name": name, **settings})


def synthesized(said: dict[str, Any], folder: Path, *, scanned: bool = False) -> Synthesis:
    """The app of this context, synthesized into a folder, without bundling its asset."""
    import aws_cdk as cdk
    from cdk_nag import AwsSolutionsChecks, ServerlessChecks

    from infra.stacks import build

    flags = {
        key: value
        for key, value in json.loads((ROOT / "cdk.json").read_text())["context"].items()
        if key.startswith("@")
    }
    app = cdk.App(
        outdir=str(folder),
        context={**flags, "aws:cdk:bundling-stacks": []},
        builtin_cloud_formation_validation=scanned,
    )
    if scanned:
        cdk.Validations.of(app).add_plugins(AwsSolutionsChecks(app), ServerlessChecks(app))
    build(app, context.read(said))
    try:
        app.synth()
    except RuntimeError as error:
        if "ValidationFailed" not in str(error):
            raise
    report = folder / "validation-report.json"
    return Synthesis(read(folder), json.loads(report.read_text()) if scanned else {})


@pytest.fixture(scope="session")
def synthesize(tmp_path_factory: pytest.TempPathFactory) -> Synthesize:
    """A function that synthesizes an app from context, without bundling its asset."""

    def run(context: dict[str, Any], *, scanned: bool = False) -> Synthesis:
        return synthesized(context, tmp_path_factory.mktemp("cdk"), scanned=scanned)

    return run


@pytest.fixture(scope="session")
def app(synthesize: Synthesize) -> Synthesis:
    """An app with a pipeline of each sort, as it is deployed for good."""
    return synthesize(EACH_SORT, scanned=True)


@pytest.fixture(scope="session")
def sandboxed(synthesize: Synthesize) -> Synthesis:
    """The app of SANDBOXED."""
    return synthesize(SANDBOXED)


@pytest.fixture(scope="session")
def thirty(synthesize: Synthesize) -> Synthesis:
    """An app as large as is promised, which pages through a topic that is already there."""
    pipelines = [{**ORDERS, "name": f"p{number}"} for number in range(30)]
    return synthesize({"alarm_topic_arn": TOPIC, "pipelines": pipelines})
