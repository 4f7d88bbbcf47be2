"""The tests reach no other machine, whatever credentials the environment has."""

from __future__ import annotations

import socket
from contextlib import suppress
from typing import Any

import boto3
import pytest
from botocore.config import Config

from tests.each_row import each_row
from tests.loopback_only import LeftMachine, is_loopback, loopback_only


@each_row(
    "host", ["127.0.0.1", "127.9.9.9", "::1", "localhost", "orders.localhost", "", None, b"::1"]
)
def test_this_machine_may_be_asked(host: Any) -> None:
    assert is_loopback(host)


@each_row(
    "host", ["10.0.0.1", "169.254.169.254", "sqs.eu-west-1.amazonaws.com", "fd00:ec2::254", b"x.y"]
)
def test_other_machines_are_refused(host: Any) -> None:
    assert not is_loopback(host)


def test_a_client_with_real_credentials_reaches_no_account() -> None:
    """Its error may be swallowed, so the host is kept as well."""
    asked: list[str] = []
    client = boto3.client(
        "cloudwatch",
        region_name="eu-west-1",
        aws_access_key_id="AKIA",
        aws_secret_access_key="secret",
        config=Config(retries={"total_max_attempts": 1}),
    )
    with loopback_only(asked.append), suppress(Exception):
        client.list_metrics()
    assert asked == ["monitoring.eu-west-1.amazonaws.com"]


@pytest.mark.parametrize("method", ["connect", "connect_ex"])
def test_an_address_is_refused_without_a_name(method: str) -> None:
    asked: list[str] = []
    with (
        loopback_only(asked.append),
        socket.socket() as plain,
        pytest.raises(LeftMachine, match=r"203\.0\.113\.1"),
    ):
        getattr(plain, method)(("203.0.113.1", 443))
    assert asked == ["203.0.113.1"]
