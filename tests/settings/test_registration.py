"""A consumer reads its pipeline's registration, or is told what to do."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.registration import read
from deadletter.settings.resources import Resources
from tests.each_row import each_row

SHARED = {"messages_table": "messages", "circuits_table": "circuits"}
OWN = {
    "pipeline": {"fifo": True},
    "main_url": "https://sqs/orders",
    "parking": {"default": "https://sqs/parking"},
    "trusted_senders": ["AROA1", "AROA2"],
    "circuit_machine": "arn:machine",
}


def registered(
    shared: dict[str, Any] | None = None, own: dict[str, Any] | None = None
) -> tuple[Pipeline, Resources]:
    """What a consumer of orders reads; a value of None takes the key away."""
    texts = [
        json.dumps({key: value for key, value in row.items() if value is not None})
        for row in ({**SHARED, **(shared or {})}, {**OWN, **(own or {})})
    ]
    return read("orders", *texts)


def test_a_registration_has_the_pipeline_and_the_resources() -> None:
    assert registered() == (
        Pipeline("orders", fifo=True),
        Resources(
            main_url="https://sqs/orders",
            parking={"default": "https://sqs/parking"},
            messages_table="messages",
            circuits_table="circuits",
            trusted_senders=("AROA1", "AROA2"),
            circuit_machine="arn:machine",
        ),
    )


@pytest.mark.parametrize("settings", [None, [], "orders"])
def test_a_registration_without_settings_is_refused(settings: Any) -> None:
    with pytest.raises(BadSettings, match="pipeline orders: its registration has no settings"):
        registered(own={"pipeline": settings})


@pytest.mark.parametrize(
    "own",
    [
        {"parking": None},
        {"parking": ["https://sqs/parking"]},
        {"trusted_senders": None},
        {"trusted_senders": "AROA1"},
    ],
)
def test_a_registration_without_parking_or_a_list_of_senders_is_refused(own: Any) -> None:
    """Read as a list, the text AROA1 would trust every sender called A."""
    with pytest.raises(BadSettings, match="pipeline orders: its registration has no parking or"):
        registered(own=own)


@each_row("value", [None, "", 5])
@each_row(
    ("row", "name"),
    [("own", "main_url"), ("shared", "messages_table"), ("shared", "circuits_table")],
)
def test_a_registration_without_a_queue_or_table_is_refused(
    row: str, name: str, value: Any
) -> None:
    with pytest.raises(BadSettings, match=f"the registration has no {name}"):
        registered(**{row: {name: value}})
