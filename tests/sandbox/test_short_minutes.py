"""The sandbox runs the watch as often as its alarms judge."""

from __future__ import annotations

import json
from collections.abc import Callable
from types import SimpleNamespace

import pytest
from ministack.core import iam_actions
from ministack.services import cloudwatch, eventbridge, lambda_svc, scheduler

from sandbox import emulator

BEGIN = 1000.0


def starts(
    monkeypatch: pytest.MonkeyPatch,
    busy: range = range(0),
    correct: Callable[[], None] = emulator.run_the_watch_each_short_minute,
) -> list[tuple[str, float]]:
    """The starts of two schedules within 125 seconds: the target, and the second.

    In the seconds `busy` a run of the watch is under way. `correct` is what is changed in
    MiniStack.
    """
    now, started = SimpleNamespace(at=BEGIN), []
    schedules = {
        ("000000000000", "us-east-1", f"default/shop-orders-{role}"): {
            "State": "ENABLED",
            "ScheduleExpression": "rate(1 minute)",
            "CreationDate": BEGIN,
            "Target": {"Arn": f"arn:aws:lambda:us-east-1:000000000000:function:shop-orders-{role}"},
        }
        for role in ("watch", "redrive")
    }
    for module in (emulator, scheduler):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=lambda: now.at))
    # MiniStack's own functions and figures come back after the test.
    monkeypatch.setattr(scheduler, "_tick_schedules", scheduler._tick_schedules)
    monkeypatch.setattr(scheduler, "_SCHEDULE_TICK_INTERVAL", 10)
    monkeypatch.setattr(scheduler, "_schedule_last_fired", {})
    monkeypatch.setattr(scheduler, "_schedules", SimpleNamespace(_data=schedules))
    monkeypatch.setattr(
        eventbridge,
        "_invoke_target",
        lambda target, *_: started.append((target["Arn"].rpartition("-")[2], now.at - BEGIN)),
    )
    monkeypatch.setattr(
        lambda_svc,
        "executions_in_flight",
        lambda: (1, {"0:us-east-1:shop-orders-watch": 1} if now.at - BEGIN in busy else {}),
    )
    correct()
    for _ in range(125):
        now.at += scheduler._SCHEDULE_TICK_INTERVAL
        scheduler._tick_schedules()
    return started


def test_the_watch_runs_each_six_seconds_and_the_redriver_each_real_minute(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = starts(monkeypatch)
    assert [at for role, at in started if role == "redrive"] == [60, 120]
    watch = [at for role, at in started if role == "watch"]
    assert watch == [6.0 * number for number in range(1, 21)]


def test_a_run_of_the_watch_that_takes_long_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    started = starts(monkeypatch, busy=range(7, 100))
    assert [at for role, at in started if role == "watch"] == [6, 100, 106, 112, 118, 124]
    assert [at for role, at in started if role == "redrive"] == [60, 120]


def test_figures_written_ahead_lie_in_short_minutes_and_those_of_queues_where_they_are(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stored: list[tuple[str, float]] = []
    monkeypatch.setattr(
        cloudwatch, "_store_datum", lambda namespace, *rest: stored.append((namespace, rest[2]))
    )
    monkeypatch.setattr(emulator, "time", SimpleNamespace(time=lambda: BEGIN))
    emulator.put_metrics_in_short_minutes(6.0)
    for namespace in ("Deadletter", "AWS/SQS"):
        cloudwatch._store_datum(namespace, "name", {}, BEGIN + 300, "Count", 0.0)
    assert stored == [("Deadletter", BEGIN + 30), ("AWS/SQS", BEGIN + 300)]


def test_put_metric_data_names_its_namespace_to_iam(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(iam_actions, "request_tag_context", iam_actions.request_tag_context)
    emulator.name_the_namespace()
    context, put = iam_actions.request_tag_context, "cloudwatch:PutMetricData"
    named = {"cloudwatch:namespace": "Deadletter"}
    body = json.dumps({"Namespace": "Deadletter", "MetricData": []}).encode()
    assert context("monitoring", put, body, {}) == named
    assert context("monitoring", put, b"no JSON", {}) == {}
    assert context("monitoring", "cloudwatch:GetMetricData", body, {}) == {}


def test_by_a_clock_of_its_own_no_run_begins_while_the_one_before_is_under_way(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    started = starts(monkeypatch, range(61, 100), emulator.wait_for_runs_under_way)
    assert sorted(started) == [("redrive", 60), ("redrive", 120), ("watch", 60), ("watch", 120)]
    late = starts(monkeypatch, range(61, 126), emulator.wait_for_runs_under_way)
    assert [at for role, at in late if role == "watch"] == [60]
