"""The synthesized apps of the scenarios, and functions that find their clients here."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from deadletter.aws import clients as aws_clients
from deadletter.aws.wiring import world
from tests.infra.conftest import Synthesize, synthesize
from tests.infra.templates import Synthesis
from tests.scenarios.account import Account, Client
from tests.scenarios.figures import FIGURES, Figures
from tests.scenarios.stage import Stage

__all__ = ["synthesize"]

EVERY = ("1m", "5m", "10m", "1h", "1d")
EACH_EVERY = ["1m", *(pytest.param(every, marks=pytest.mark.nightly) for every in EVERY[1:])]

MakeStage = Callable[..., Stage]

# A consumer that the customer brings, which canaries are given to.
THEIRS = {
    "function_arn": "arn:aws:lambda:eu-west-1:111122223333:function:their-consumer",
    "mapping_id": "1a2b3c4d-0000-4000-8000-1a2b3c4d5e6f",
}


def brought(name: str) -> dict[str, Any]:
    """Queues of the customer's own: SQS keeps messages for four days unless told otherwise."""
    return {
        "main_queue": {"arn": Account.queue_arn(f"{name}-main")},
        "dlq": {"arn": Account.queue_arn(f"{name}-dlq")},
    }


def _pipelines() -> list[dict[str, Any]]:
    plain = {"consumer": "none", "context": {"tenantId": "body.tenantId"}}
    runs = [{"name": every, "redrive": {"every": every}} for every in EVERY]
    return [
        *({**plain, **run, "name": f"enforce-{run['name']}", "consumer": THEIRS} for run in runs),
        *({**plain, **run, "name": f"observe-{run['name']}", "mode": "observe"} for run in runs),
        {
            **plain,
            "name": "isolated",
            "dedicated": {"vip": False},
            "parking": {"POISON": "poison"},
        },
        {**plain, "name": "ordered", "fifo": True, "dedicated": {"vip": False}},
        {**plain, **brought("brought"), "name": "brought", "mode": "enforce"},
        {**plain, **brought("watched"), "name": "watched", "mode": "observe"},
        {**plain, "name": "steady-rate", "consumer": THEIRS, "rate": 50},
        {**plain, "name": "library", "consumer": THEIRS, "consumer_library": True},
    ]


@pytest.fixture(scope="session")
def everything(synthesize: Synthesize) -> Synthesis:
    """An app with all pipelines of the scenarios."""
    return synthesize({"pipelines": _pipelines()})


@pytest.fixture
def deployed(everything: Synthesis) -> MakeStage:
    """A function that deploys one pipeline into an account of its own."""

    def deploy(name: str, *, phase: int = 0) -> Stage:
        account = Account(pipelines=[name], phase=phase)
        if name in ("brought", "watched"):
            account.bring_queue(f"{name}-dlq")
            policy = redrive_policy(Account.queue_arn(f"{name}-dlq"), 3)
            account.bring_queue(f"{name}-main", RedrivePolicy=policy)
        account.deploy(everything)
        return Stage(account, name)

    return deploy


@pytest.fixture
def figures() -> Figures:
    """Where a scenario writes what it has measured."""
    return FIGURES


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Print the figures under the tests' results."""
    if FIGURES.rows:
        terminalreporter.write_sep("-", "measured")
        for line in FIGURES.table():
            terminalreporter.write_line(line)


def redrive_policy(arn: str, receives: int) -> str:
    return f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": {receives}}}'


@pytest.fixture(autouse=True)
def in_memory(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Every function of a scenario finds its clients in the account."""
    with clients_in_memory(monkeypatch):
        yield


@contextmanager
def clients_in_memory(patch: pytest.MonkeyPatch) -> Iterator[None]:
    """The clients of boto3 are those of the account in memory, and no call is parallel."""

    def client(service: str, **_options: object) -> Client:
        return Client(service)

    patch.setattr(aws_clients, "client_of", client)
    patch.setattr(boto3, "client", client)
    patch.setattr(world.CallingThreads, "__call__", _in_turn)
    _forget_clients()
    yield
    _forget_clients()


def _in_turn(_threads: object, calls: Sequence[Callable[[], Any]], /) -> list[Any]:
    return [call() for call in calls]


def _forget_clients() -> None:
    for attribute in vars(aws_clients).values():
        clear: Any = getattr(attribute, "cache_clear", None)
        if clear is not None:
            clear()
