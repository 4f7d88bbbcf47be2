"""Our event patterns and EventBridge's TestEventPattern, as the emulator has it, agree.

Known differences, kept out of what is drawn here: names with dots in documents, other
spellings of an IPv6 address, `exists: false` on a name that sorts first within an array,
arrays nested deeper than 50 levels, and patterns that we refuse and AWS lets pass
(docs/rules.md).
"""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from deadletter.rules.accepted import PatternRefused
from deadletter.rules.pattern import compile_pattern
from tests.rules.event_patterns import pairs

ENVELOPE = {
    "id": "7bf73129-1428-4cd3-a780-95db273d1602",
    "account": "000000000000",
    "source": "test",
    "time": "2026-01-01T00:00:00Z",
    "region": "us-east-1",
    "resources": [],
    "detail-type": "letter",
}


@pytest.mark.slow_because("all patterns, each asked over the network")
@settings(
    max_examples=300,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(pairs())
def test_every_pattern_means_what_the_service_says(
    aws: Callable[[str], Any], pair: tuple[dict[str, Any], dict[str, Any]]
) -> None:
    pattern, document = pair
    wanted = {"detail": pattern}
    event = {**ENVELOPE, "detail": document}
    try:
        ours = compile_pattern(wanted).matches(event)
    except PatternRefused:
        return
    answer = aws("events").test_event_pattern(
        EventPattern=json.dumps(wanted, default=_plain), Event=json.dumps(event, default=_plain)
    )
    assert answer["Result"] is ours, (pattern, document)


def _plain(value: Decimal) -> int | float:
    return int(value) if value == value.to_integral_value() else float(value)
