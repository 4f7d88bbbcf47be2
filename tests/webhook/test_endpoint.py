"""A row of the endpoint registry, as a person typed it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from deadletter.webhook.endpoint import (
    BadEndpoint,
    Endpoint,
    SecretUnusable,
    read_row,
    refuse_secret_name,
)
from tests.each_row import each_row

ROW = {"tenant": "acme", "endpoint": "default", "url": "https://hooks.example.com"}


def test_a_row_of_a_url_alone_is_an_endpoint() -> None:
    assert read_row(ROW) == Endpoint("acme", "default", "https://hooks.example.com")


def test_a_row_with_everything() -> None:
    endpoint = read_row(
        {
            **ROW,
            "enabled": False,
            "secrets": ["app/webhooks/b", "app/webhooks/a"],
            "disabled_because": "it answered 410",
            "throttled_until": Decimal(1_800_000_000),
            "throttled_by": Decimal(429),
            "a column of the team": "x",
        }
    )
    assert endpoint == Endpoint(
        "acme", "default", "https://hooks.example.com", False,
        ("app/webhooks/b", "app/webhooks/a"), "it answered 410", 1_800_000_000.0, 429,
    )  # fmt: skip
    assert read_row({**ROW, "secrets": {"b", "a"}}).secrets == ("a", "b")
    assert read_row({**ROW, "secrets": list("abcd")}).secrets == ("a", "b", "c", "d")


@each_row("value", [False, None, "true", "yes", 1, Decimal(1)])
def test_only_true_is_enabled(value: Any) -> None:
    assert not read_row({**ROW, "enabled": value}).enabled


@each_row(
    ("column", "value", "why"),
    [
        ("url", None, "url must be text"),
        ("url", 5, "url must be text"),
        ("secrets", "app/webhooks/a", "secrets must be a list"),
        ("secrets", [5], "secrets must be a list"),
        ("secrets", None, "secrets must be a list"),
        ("secrets", list("abcde"), "secrets may name 4 at most"),
    ],
)
def test_the_error_for_an_invalid_row_names_the_column(column: str, value: Any, why: str) -> None:
    with pytest.raises(BadEndpoint, match=why):
        read_row({**ROW, column: value})


@each_row(
    "value", ["soon", None, Decimal("NaN"), Decimal("Infinity"), [], Decimal("1e999"), 10**400]
)
def test_a_pause_that_is_no_number_does_not_block_deliveries(value: Any) -> None:
    assert read_row({**ROW, "throttled_until": value}).throttled_until == 0


@pytest.mark.parametrize("name", ["app/webhooks/acme", "app/webhooks/acme/2026-11_a+b=c.d@e"])
def test_the_secrets_of_endpoints_may_be_read(name: str) -> None:
    refuse_secret_name(name, "app/webhooks/")


@each_row(
    "name",
    [
        "",
        "acme",
        "app/webhooks/",
        "app/database",
        "other/webhooks/acme",
        "App/webhooks/acme",
        "app/webhooks/acme *",
        "app/webhooks/acme\n",
        "app/webhooks/" + "a" * 257,
        "arn:aws:secretsmanager:eu-west-1:123456789012:secret:app/webhooks/acme",
    ],
)
def test_the_name_of_any_other_secret_is_refused(name: str) -> None:
    with pytest.raises(SecretUnusable, match="must be app/webhooks/ and"):
        refuse_secret_name(name, "app/webhooks/")
    with pytest.raises(SecretUnusable):
        refuse_secret_name(name, "")
