"""The app as deployed: one sandbox for the whole session, and clients for it."""

import json
import uuid
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from sandbox.deploy import deploy
from sandbox.processor import Unhurried
from sandbox.queue_metrics import QueueMetrics
from sandbox.server import ROOT, Sandbox
from tests.e2e.covers import is_by_day
from tests.e2e.deployed import SPEED, Deployed
from tests.e2e.receiver import Receiver
from tests.e2e.replay_pipeline import BY_GROUP, BY_KEY
from tests.e2e.stranger import Shop

HERE = Path(__file__).parent

# Seconds that a function and a POST may take: no wait of any test, so a busy machine may
# need them all.
PATIENT = {"timeout": 60, "request_timeout": 10}

# What fails once is a letter a second later; the endpoint is on this machine.
QUICK = {
    "consumer.batch_size": 2,
    "consumer.allow_loopback": True,
    "retry.base": 1,
    "retry.cap": 1,
    "retry.floor": 0,
    "policy.backoff.floor": 0,
}

# No circuit opens here by itself: the tests share this pipeline, and their failures are not an
# outage.
PIPELINES: list[dict[str, Any]] = [
    {
        "name": "orders",
        "consumer": {
            "kind": "webhook",
            **PATIENT,
        },
        "main_queue": {"max_receive_count": 1},
        "context": {"tenantId": "body.tenantId"},
        "idempotency_key": "body.orderId",
        "circuit": {"failure_rate": 1.0, "minimum": 100_000, "consecutive": 0},
        "policy": {"backoff": {"base": 1, "cap": 1}, "max_attempts": 2},
        "alarms": {"age": 5},
        "tuning": {**QUICK, "circuit.ramp": 0, "alarms.age_looks": 1},
    },
    # The one whose circuit opens, for all endpoints at once: so its consumer is paused.
    {
        "name": "payments",
        "consumer": {
            "kind": "webhook",
            **PATIENT,
        },
        "main_queue": {"max_receive_count": 3},
        "context": {"tenantId": "body.tenantId"},
        "circuit_key": "pipeline",
        "circuit": {"minimum": 4, "consecutive": 4, "cooldown": 10},
        "policy": {"backoff": {"base": 1, "cap": 1}, "max_attempts": 20},
        "tuning": {
            **QUICK,
            "circuit.window": 100,
            "circuit.cooldown_factor": 1.5,
            "circuit.cooldown_cap": 20,
            "circuit.lease": 150,
            "circuit.ramp": 10,
        },
    },
    # Those of the replay, whose script is a test here.
    dict(BY_KEY),
    dict(BY_GROUP),
]


# Every case of this folder that was collected, whatever is chosen of them then.
COLLECTED = pytest.StashKey[frozenset[str]]()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Every test in this folder needs the sandbox, and runs at night if it is not in the table.

    The tests that look back run last.
    """
    ours = [item for item in items if item.path.is_relative_to(HERE)]
    for item in ours:
        item.add_marker(pytest.mark.sandbox)
        if not is_by_day(item.path.stem, item.name):
            item.add_marker(pytest.mark.nightly)
    config.stash[COLLECTED] = frozenset(item.nodeid for item in ours)
    items.sort(key=lambda item: item.path == HERE / "test_afterwards.py")


@dataclass(frozen=True)
class Deployment:
    """The app in the sandbox, its outputs, and the stack of a team beside it."""

    sandbox: Sandbox
    outputs: Mapping[str, str]
    stranger: Shop
    stranger_role: str
    unhurried: Unhurried


@pytest.fixture(scope="session")
def deployment(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    """Start the emulator with a team's own stack in it, deploy the app, feed queue metrics."""
    with Sandbox(ROOT / "build" / "e2e", own_clock=True) as sandbox:
        stranger = Shop(sandbox, tmp_path_factory.mktemp("shop"))
        role_id = stranger.create()
        pipelines = [*PIPELINES, stranger.settings(role_id)]
        stacks = deploy(sandbox, context={"pipelines": json.dumps(pipelines)}, show=print)
        outputs = {name: value for stack in stacks.values() for name, value in stack.items()}
        for pipeline in pipelines:
            # A run beside those that a test starts would take its letters away.
            name = str(pipeline["name"])
            Deployed(sandbox, cache(sandbox.client), outputs, name).reschedule(State="DISABLED")
        with (
            Unhurried(sandbox.processor_time, sandbox.hurry, SPEED) as unhurried,
            QueueMetrics(
                sandbox.queues, sandbox.client("cloudwatch"), interval=1.0, clock=sandbox.time
            ),
        ):
            yield Deployment(sandbox, outputs, stranger, role_id, unhurried)


@pytest.fixture(scope="session")
def sandbox(deployment: Deployment) -> Sandbox:
    """The running sandbox, with the app in it."""
    return deployment.sandbox


@pytest.fixture
def real_time(deployment: Deployment) -> Iterator[None]:
    """The machine's pace: what moves many megabytes needs as long whatever the clock says."""
    deployment.unhurried.limit(1.0)
    yield
    deployment.unhurried.limit(SPEED)


@pytest.fixture(scope="session")
def outputs(deployment: Deployment) -> Mapping[str, str]:
    """The outputs of all stacks by name, such as OrdersDlqUrl."""
    return deployment.outputs


@pytest.fixture(scope="session")
def stranger(deployment: Deployment) -> Shop:
    """The stack of a team with a consumer of its own."""
    return deployment.stranger


@pytest.fixture(scope="session")
def stranger_role(deployment: Deployment) -> str:
    """The unique id of that team's role."""
    return deployment.stranger_role


@pytest.fixture(scope="session")
def aws(sandbox: Sandbox) -> Callable[[str], Any]:
    """Make a client of the named service, root's; the same one each time."""
    return cache(sandbox.client)


@pytest.fixture(scope="session")
def receiver() -> Iterator[Receiver]:
    """The endpoint of all tenants."""
    with Receiver() as receiver:
        yield receiver


@pytest.fixture
def orders(sandbox: Sandbox, aws: Callable[[str], Any], outputs: Mapping[str, str]) -> Deployed:
    """The pipeline that most tests share."""
    return Deployed(sandbox, aws, outputs)


@pytest.fixture
def payments(sandbox: Sandbox, aws: Callable[[str], Any], outputs: Mapping[str, str]) -> Deployed:
    """The pipeline whose circuit may open, and whose queue gives three receives."""
    return Deployed(sandbox, aws, outputs, "payments")


@pytest.fixture
def tenant(orders: Deployed, receiver: Receiver) -> str:
    """A tenant of this test alone, with a working endpoint."""
    name = f"t-{uuid.uuid4().hex[:8]}"
    orders.register(name, receiver.url(name))
    return name
