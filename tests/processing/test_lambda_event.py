"""What is read of one Lambda invocation."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.processing.lambda_event import permit_of, records_of, run_of, seconds_left
from tests.each_row import each_row


def test_the_time_left_is_lambdas_milliseconds_in_seconds() -> None:
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 2500)
    assert seconds_left(context) == 2.5
    context = SimpleNamespace(get_remaining_time_in_millis=lambda: 0)
    assert seconds_left(context) == 0.0


def test_without_a_context_the_time_left_is_the_longest_of_lambda() -> None:
    assert seconds_left(None) == 900.0


@each_row(
    "custom",
    [
        *(None, {}, "p", {"permit": "p"}),
        *({"deadletter_permit": permit} for permit in ("", 7, True, None, ["p"])),
    ],
)
def test_an_invocation_without_a_permit_is_no_probe(custom: Any) -> None:
    """As a probe, its failures would be neither reported, hidden nor parked."""
    assert permit_of(SimpleNamespace(client_context=SimpleNamespace(custom=custom))) is None


@pytest.mark.parametrize("context", [None, SimpleNamespace(client_context=None)])
def test_an_invocation_without_a_client_context_is_no_probe(context: Any) -> None:
    assert permit_of(context) is None


def test_the_permit_of_a_probe_is_read_from_the_client_context() -> None:
    custom = {"deadletter_permit": "p", "other": "x"}
    assert permit_of(SimpleNamespace(client_context=SimpleNamespace(custom=custom))) == "p"


@each_row(
    ("custom", "run"),
    [
        (None, None),
        ({"deadletter_permit": "p"}, None),
        ({"replay": ""}, None),
        ({"replay": 7}, None),
        ({"replay": "r9"}, "r9"),
    ],
)
def test_the_replay_run_is_read_from_the_client_context(custom: Any, run: str | None) -> None:
    assert run_of(SimpleNamespace(client_context=SimpleNamespace(custom=custom))) == run


def test_the_records_of_an_event_are_read_in_their_order() -> None:
    records = [{"messageId": "m1"}, {"messageId": "m2"}]
    assert records_of({"Records": records}) == records


@each_row("event", [{}, {"Records": None}, {"Records": {}}, [], None, "Records"])
def test_an_event_without_a_list_of_records_is_refused(event: Any) -> None:
    with pytest.raises(ValueError, match="allowed: the event of an SQS queue"):
        records_of(event)
