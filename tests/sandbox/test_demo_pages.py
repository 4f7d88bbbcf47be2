"""The demo names each alarm that was in ALARM at any time, and says how many were watching."""

import json

from sandbox.demo.report import Pages, pages

STALLED, DEPTH = "deadletter-orders-RedriveStalled", "deadletter-orders-DlqDepth"


class CloudWatch:
    """Answers in pages, as CloudWatch does."""

    def __init__(self, states: dict[str, str], history: list[tuple[str, str]]) -> None:
        self._answers: dict[str, list[dict[str, object]]] = {
            "describe_alarms": [
                {"MetricAlarms": [{"AlarmName": name, "StateValue": state}]}
                for name, state in states.items()
            ],
            "describe_alarm_history": [
                {
                    "AlarmHistoryItems": [
                        {
                            "AlarmName": name,
                            "HistoryData": json.dumps({"newState": {"stateValue": state}}),
                        }
                    ]
                }
                for name, state in history
            ],
        }

    def get_paginator(self, operation: str) -> "Paginator":
        return Paginator(self._answers[operation])


class Paginator:
    def __init__(self, answers: list[dict[str, object]]) -> None:
        self._answers = answers

    def paginate(self, **_: str) -> list[dict[str, object]]:
        return self._answers


def test_no_alarm_that_rang_is_the_demo_that_passes() -> None:
    called = pages(CloudWatch({STALLED: "OK", DEPTH: "INSUFFICIENT_DATA"}, [(STALLED, "OK")]))
    assert called == Pages(2, ())
    assert called.says == "alarms that rang: 0 (of 2 that watched)"


def test_an_alarm_that_is_over_has_rung_all_the_same() -> None:
    called = pages(CloudWatch({STALLED: "OK"}, [(STALLED, "ALARM"), (STALLED, "OK")]))
    assert called.rang == (STALLED,)
    assert STALLED in called.says


def test_an_alarm_that_was_made_ringing_rings() -> None:
    assert pages(CloudWatch({DEPTH: "ALARM"}, [])).rang == (DEPTH,)
