"""The resources in a function's environment."""

from __future__ import annotations

from dataclasses import fields

import pytest

from deadletter.settings.json_fields import BadSettings
from deadletter.settings.resources import Resources, resources_from_environment
from tests.each_row import each_row


def test_each_resource_has_a_variable() -> None:
    environment = {
        "MAIN_URL": "https://sqs/orders",
        "PARKING": '{"default": "https://sqs/parking"}',
        "TRUSTED_SENDERS": '["AROA1", "AROA2"]',
        "AUDIT_DAYS": "400",
        "PATH": "/usr/bin",
    }
    assert resources_from_environment(environment) == Resources(
        main_url="https://sqs/orders",
        parking={"default": "https://sqs/parking"},
        trusted_senders=("AROA1", "AROA2"),
        audit_days=400,
    )
    assert resources_from_environment({}) == Resources()


@each_row(
    ("variable", "text", "why"),
    [
        ("PARKING", "https://sqs/parking", "PARKING is not JSON"),
        ("DEDICATED", "[]", "DEDICATED must be a JSON object"),
        ("TRUSTED_SENDERS", "AROA1", "TRUSTED_SENDERS is not JSON"),
        # Read as a list of characters, it would trust every sender called A.
        ("TRUSTED_SENDERS", '"AROA1"', "TRUSTED_SENDERS must be a JSON list of texts"),
        ("AUDIT_DAYS", "-1", "AUDIT_DAYS must be a whole number"),
        ("CONSUMER_TIMEOUT", "1.5", "CONSUMER_TIMEOUT must be a whole number"),
        ("TRUSTED_SENDERS", "[null]", "TRUSTED_SENDERS must be a JSON list of texts"),
    ],
)
def test_an_invalid_variable_is_named_in_the_error(variable: str, text: str, why: str) -> None:
    with pytest.raises(BadSettings, match=why):
        resources_from_environment({variable: text})


def test_what_a_function_does_not_need_is_empty() -> None:
    resources = resources_from_environment({})
    assert [item.name for item in fields(resources) if getattr(resources, item.name)] == []
