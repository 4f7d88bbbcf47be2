"""Why a function has left no record: which of four causes, by CloudWatch's figures."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from console.operations.status import Silence, because

NOW = datetime.now(UTC).replace(second=0, microsecond=0)

SILENCE = Silence(
    "orders", "deadletter-orders-redrive", "deadletter-orders-dlq", NOW - timedelta(minutes=7)
)

ROWS = [
    # The start that left the last record says nothing of the silence.
    (
        {"Invocations": (1, 7)},
        "it is not started; its schedule deadletter-orders-dlq is disabled or deleted, or may not "
        "start it",
    ),
    ({"Throttles": (5, 2)}, "Lambda throttles it (5 times); its reserved concurrency is 0"),
    *(
        (
            {"Invocations": (5, 2), "Errors": (5, 2), throttled: (40, 2)},
            "it runs, and DynamoDB throttles messages (ThrottlingException, 40 requests)",
        )
        for throttled in ("ReadThrottleEvents", "WriteThrottleEvents")
    ),
    ({"Invocations": (5, 2), "Errors": (4, 2)}, "it fails (4 of 5 starts); its log says why"),
    (
        {"Invocations": (5, 2)},
        "it runs without an error, and its record is not in messages; its log says why",
    ),
]
"""Figures with the minutes since them, and the cause."""


@pytest.mark.parametrize(("figures", "why"), ROWS)
def test_a_silent_function_has_the_cause_that_its_figures_show(
    cloud: Any, figures: dict[str, tuple[float, float]], why: str
) -> None:
    for name, (value, minutes_ago) in figures.items():
        at = NOW - timedelta(minutes=minutes_ago)
        table = {"namespace": "AWS/DynamoDB", "TableName": "messages"}
        lambda_ = {"namespace": "AWS/Lambda", "FunctionName": SILENCE.function}
        cloud.figure(name, value, at, **(table if "Events" in name else lambda_))
    head, _, says = because(cloud.cloudwatch, SILENCE, "messages", NOW).says().partition(": ")
    assert head == "deadletter-orders-redrive has left no record for 7 min"
    assert says.startswith(why)
