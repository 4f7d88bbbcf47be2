"""How long a call of each client may last, and how often it is tried."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from deadletter.aws import clients as made
from deadletter.aws.wiring.world import MOST_HELPERS
from deadletter.redrive.run_limits import SEND_AND_MARK
from infra.router import TIMEOUT as ROUTER_TIMEOUT
from infra.watch import TIMEOUT as WATCH_TIMEOUT
from tests.each_row import each_row

FACTORIES = (
    made.clients,
    made.consumer_clients,
    made.outage_clients,
    made.watch_clients,
    made.consumer_call,
    made.secretsmanager,
    made.ssm,
)


@pytest.fixture(autouse=True)
def _region(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-west-1")
    for factory in FACTORIES:
        factory.cache_clear()
    yield
    for factory in FACTORIES:
        factory.cache_clear()


def tries(client: Any) -> int:
    return int(client.meta.config.retries["total_max_attempts"])


def longest(client: Any) -> float:
    """Seconds that a call of at most two tries may last; botocore pauses for up to a second."""
    config = client.meta.config
    assert tries(client) <= 2
    pauses = tries(client) - 1
    return float(tries(client) * (config.connect_timeout + config.read_timeout) + pauses)


def test_what_may_not_happen_twice_has_one_try() -> None:
    """After a lost answer a second try would send, or deliver, a second time uncounted."""
    for client in (
        made.clients().sending,
        made.consumer_clients().sending,
        made.consumer_call(20),
        made.clients().functions,
        made.watch_clients().functions,
    ):
        assert tries(client) == 1


def test_a_send_and_its_mark_end_within_the_time_that_is_kept_for_them() -> None:
    assert longest(made.clients().sending) + longest(made.clients().journal) <= SEND_AND_MARK


@each_row("name", ["sqs", "sending", "dynamodb", "journal", "functions"])
def test_each_thread_of_a_run_keeps_its_connection(name: str) -> None:
    config = getattr(made.clients(), name).meta.config
    assert config.max_pool_connections > MOST_HELPERS


def test_a_canary_is_waited_for_as_long_as_its_consumer_may_take() -> None:
    assert made.consumer_call(25).meta.config.read_timeout == 25
    assert made.consumer_call(900).meta.config.read_timeout == 900


def test_the_router_is_waited_for_until_its_function_ends() -> None:
    assert made.clients().functions.meta.config.read_timeout > ROUTER_TIMEOUT


def test_an_empty_receive_is_no_time_out() -> None:
    """SQS answers a long poll after at most 20 s; ours last at most two."""
    assert made.clients().sqs.meta.config.read_timeout >= 10


@pytest.mark.parametrize("service", ["sqs", "dynamodb"])
def test_a_service_that_hangs_costs_a_teams_function_ten_seconds_at_most(service: str) -> None:
    assert longest(getattr(made.consumer_clients(), service)) <= 10
    assert longest(made.secretsmanager()) <= 10
    assert longest(made.ssm()) <= 10


def test_one_call_of_the_watch_leaves_time_for_the_others() -> None:
    clients = made.watch_clients()
    for client in (clients.sqs, clients.dynamodb, clients.functions):
        assert longest(client) <= WATCH_TIMEOUT / 2
