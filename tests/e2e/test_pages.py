"""What calls a person: the watch looks each minute, and an alarm rings for what it finds.

A minute of the watch and of alarms lasts six seconds here (see sandbox.alarms). Runs stop by
themselves in no test, so that time since the last one that ended well passes by ageing it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from deadletter.signals.pages import Alarm
from sandbox.progress import until
from tests.drill.pager import ALARM, OK, Pager
from tests.e2e.conftest import PIPELINES
from tests.e2e.deployed import Deployed, event

ROUTER = "deadletter-orders-route"
WATCH = "deadletter-orders-watch"
HEARTBEATS = "/aws/lambda/deadletter-first-heartbeat"

# Seconds since a run ended well: longer than any setting of RedriveStalled.
LONG_AGO = 900


@pytest.fixture
def throttled_router(orders: Deployed) -> Iterator[Any]:
    """The router with a concurrency of 0, as long as the test does not give it back."""
    functions = orders.aws("lambda")
    functions.put_function_concurrency(FunctionName=ROUTER, ReservedConcurrentExecutions=0)
    yield lambda: functions.delete_function_concurrency(FunctionName=ROUTER)
    functions.delete_function_concurrency(FunctionName=ROUTER)


def test_the_watch_runs_and_finds_nothing_wrong(orders: Deployed) -> None:
    orders.settle()
    orders.redrive_until(lambda report: report["ended_well"], "a run ends well")
    answer = orders.aws("lambda").invoke(FunctionName=WATCH, Payload=b"{}")
    assert "FunctionError" not in answer, answer["Payload"].read()
    orders.until(lambda: orders.alarm(Alarm.REDRIVE_STALLED) == "OK", "nothing is stalled")


def test_the_deployment_waited_for_the_first_heartbeat(orders: Deployed) -> None:
    """The role may write and see it, and CloudFormation got its answer."""
    events = orders.aws("logs").filter_log_events(logGroupName=HEARTBEATS)["events"]
    said = [
        event["message"] for event in events if '"message":"first heartbeat"' in event["message"]
    ]
    assert len(said) >= len(PIPELINES)
    assert [line for line in said if '"outcome":"shown"' not in line] == []
    assert [event for event in events if "cfn-response" in event["message"]] == []


def test_a_watch_that_is_not_started_any_more_pages_and_the_page_clears(orders: Deployed) -> None:
    """No data is the page: RedriveStalled is the heartbeat of the watch."""
    schedules = orders.aws("scheduler")
    schedule = schedules.get_schedule(Name=WATCH)
    kept = ("Name", "ScheduleExpression", "FlexibleTimeWindow", "Target")
    same = {key: schedule[key] for key in kept}
    schedules.update_schedule(**same, State="DISABLED")
    try:
        # The first heartbeat goes on for a while where the session has just begun.
        orders.until(
            lambda: orders.alarm(Alarm.REDRIVE_STALLED) == "ALARM",
            "the alarm rings",
            standstill=300.0,
        )
    finally:
        schedules.update_schedule(**same, State="ENABLED")

    def cleared() -> bool:
        # The schedule of the runs is off here, and without one the pipeline stands still, too.
        orders.redrive()
        return orders.alarm(Alarm.REDRIVE_STALLED) == "OK"

    orders.until(cleared, "the alarm clears")


def test_a_router_throttled_to_0_pages_and_the_page_clears(
    orders: Deployed, throttled_router: Any, tenant: str
) -> None:
    orders.send(event(tenant), "Dlq")
    report = orders.redrive()
    assert (report["ended_well"], report["decisions"]) == (False, {})
    [letter] = orders.held("Dlq")
    # No letter is received again while the router gives no answer.
    orders.redrive()
    orders.redrive(asked=False)
    assert orders.held("Dlq")[0]["ReceiveCount"] == letter["ReceiveCount"] <= 1

    orders.age_the_last_run(LONG_AGO)
    orders.until(lambda: orders.alarm(Alarm.REDRIVE_STALLED) == "ALARM", "the alarm rings")

    throttled_router()
    orders.redrive_until(lambda report: report["ended_well"], "a run ends well")
    orders.until(lambda: orders.alarm(Alarm.REDRIVE_STALLED) == "OK", "the alarm clears")


def test_each_alarm_that_rings_reaches_the_subscribers_of_the_topic(
    orders: Deployed, aws: Callable[[str], Any]
) -> None:
    """Each alarm of the app, told to ring: what would make it ring is played in other tests."""
    cloudwatch = aws("cloudwatch")
    pages = cloudwatch.get_paginator("describe_alarms").paginate(AlarmNamePrefix="deadletter-")
    alarms = {alarm["AlarmName"] for page in pages for alarm in page["MetricAlarms"]}
    pager = Pager(aws, orders.app["alarm_topic"], orders.sandbox.time, "each-alarm")

    def silent() -> set[str]:
        return alarms - {page.alarm for page in pager.all() if page.state == ALARM}

    for alarm in alarms:
        # A page is a change: it may ring already, and is judged anew each minute.
        for state in (OK, ALARM):
            cloudwatch.set_alarm_state(AlarmName=alarm, StateValue=state, StateReason="a test")
    pager.start()
    try:
        until(lambda: not silent(), "each alarm rings", marks=silent)
    finally:
        pager.stop()
        assert silent() == set()
