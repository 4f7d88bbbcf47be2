"""One trouble, one page, that clears: the synthesized alarms, judged minute by minute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from deadletter.routing.decision import DUE
from deadletter.watch.lane_figures import ROOM
from sandbox.alarms import Point, judge
from tests.infra.templates import Synthesis, filled

MINUTE = 60

# Seconds between two looks at an alarm: a page may not depend on where in a minute they fall.
STEP = 10

# Seconds that an alarm looks back at most.
LONGEST_LOOK = 3600

# What a metric is when nothing is wrong, if that is not 0.
HEALTHY = {"SecondsToExpiry": 10 * 86400, "Duration": 300}

STATISTICS: Mapping[str, Callable[[Iterable[float]], float]] = {
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
}

Alarm = Mapping[str, Any]

# Datapoints: the time, the value, and when it is written, which may be earlier or later.
Data = Sequence[tuple[float, float, float]]


@pytest.fixture(scope="module")
def alarms(app: Synthesis) -> dict[str, Alarm]:
    """Every alarm of the pipeline orders and of the app, by the last part of its name."""
    return {
        filled(alarm["Properties"]["AlarmName"]).removeprefix("deadletter-"): alarm["Properties"]
        for stack in ("Deadletter-Orders", "Deadletter-Shared")
        for alarm in app[stack].of("AWS::CloudWatch::Alarm").values()
    }


def states(alarm: Alarm, data: Data, *, minutes: float) -> list[tuple[float, str]]:
    """Each change of the alarm's state, with the minute of it, from the moment it is deployed."""

    def statistic(points: Sequence[Point]) -> float | None:
        if not points:
            return None
        return STATISTICS[alarm["Statistic"]](point["Value"] for point in points)

    state, changes = "INSUFFICIENT_DATA", []
    for now in range(0, round(minutes * MINUTE), STEP):
        points = [
            {"Timestamp": at, "Value": value}
            for at, value, written in data
            if written <= now and at > now - LONGEST_LOOK
        ]
        new = judge(alarm, points, statistic=statistic, now=now)
        if new is not None and new != state:
            state = new
            changes.append((now / MINUTE, new))
    return changes


def pages(changes: Sequence[tuple[float, str]]) -> list[float]:
    """The minutes in which a person was called."""
    return [minute for minute, state in changes if state == "ALARM"]


def each_minute(minutes: Iterable[int], value: Callable[[int], float]) -> Data:
    """A value in each of the minutes, a few seconds earlier or later."""
    times = [(minute, minute * MINUTE + 3.0 * (minute % 4)) for minute in minutes]
    return [(at, value(minute), at) for minute, at in times]


def healthy(alarm: Alarm, minutes: Iterable[int]) -> Data:
    """A healthy value in each of the minutes."""
    return each_minute(minutes, lambda _: HEALTHY.get(alarm["MetricName"], 0))


def heartbeat(runs: Iterable[float]) -> Data:
    """What each run of the watch, at these seconds, writes: 0 around it and 1 ahead."""
    return [
        point
        for at in runs
        for point in (
            *((at + offset, 0, at) for offset in (-MINUTE, 0, MINUTE)),
            *((at + offset * MINUTE, 1, at) for offset in range(2, 8)),
        )
    ]


LEVELS = [
    "ParkingLotNotEmpty",
    "RedriveStalled",
    "LetterTrouble",
    "RuleInvalid",
    "RuleLimitReached",
    "DominantFailure",
    "CircuitHeld",
    "SuddenlyPermanent",
    "ConfigurationHeld",
]


@pytest.mark.parametrize("name", LEVELS)
@pytest.mark.parametrize("missed", [(), (14,), (13, 17)], ids=str)
def test_a_trouble_of_minutes_is_one_page_that_clears(
    alarms: dict[str, Alarm], name: str, missed: tuple[int, ...]
) -> None:
    """A minute in which the watch did not run ends no page."""
    alarm = alarms[f"orders-{name}"]
    minutes = [minute for minute in range(40) if minute not in missed]
    data = each_minute(minutes, lambda minute: 10 <= minute < 20)
    changes = states(alarm, data, minutes=40)
    [rung] = pages(changes)
    assert 10 <= rung <= 12
    [cleared] = [minute for minute, state in changes if state == "OK" and minute > rung]
    assert 20 <= cleared <= 25


@pytest.mark.parametrize("role", ["circuit", "probe"])
def test_throttles_that_come_in_bursts_are_one_page(alarms: dict[str, Alarm], role: str) -> None:
    """A state machine calls a function again after seconds, then after minutes."""
    burst = each_minute([10, 11, 12, 18, 19, 20, 26, 27, 28], lambda _: 1)
    changes = states(alarms[f"orders-FunctionThrottled_{role}"], burst, minutes=60)
    [rung] = pages(changes)
    assert rung <= 13
    assert changes[-1][1] == "OK"


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_that_is_no_longer_published_clears(alarms: dict[str, Alarm], name: str) -> None:
    alarm = alarms[f"orders-{name}"]
    changes = states(alarm, each_minute(range(5), lambda _: 1), minutes=20)
    assert [state for _, state in changes if state != "INSUFFICIENT_DATA"][-2:] == ["ALARM", "OK"]


def test_a_first_deployment_and_a_quiet_hour_page_nobody(alarms: dict[str, Alarm]) -> None:
    """Nothing is published for ten minutes; then all is well."""
    assert len(alarms) > 30
    for name, alarm in alarms.items():
        if alarm["MetricName"] == "WatchOverdue":
            data = heartbeat(minute * MINUTE for minute in range(10, 60))
        else:
            data = healthy(alarm, range(10, 60))
        assert pages(states(alarm, data, minutes=60)) == [], name


def test_a_queue_or_function_that_publishes_nothing_pages_nobody(
    alarms: dict[str, Alarm],
) -> None:
    for name, alarm in alarms.items():
        assert pages(states(alarm, [], minutes=30)) == [], name
        assert pages(states(alarm, healthy(alarm, range(5)), minutes=30)) == [], name


@pytest.mark.parametrize("late", [0, 20, 59])
def test_a_watch_that_dies_rings_within_five_minutes_and_once(
    alarms: dict[str, Alarm], late: int
) -> None:
    alarm = alarms["orders-WatchHeartbeat"]
    runs = [minute * MINUTE + late for minute in range(30)]
    changes = states(alarm, heartbeat(runs), minutes=180)
    [rung] = pages(changes)
    assert 0 < rung - runs[-1] / MINUTE <= 5
    # It is still dead: the page stays.
    assert changes[-1] == (rung, "ALARM")


def test_a_watch_that_comes_back_clears_its_page(alarms: dict[str, Alarm]) -> None:
    alarm = alarms["orders-WatchHeartbeat"]
    runs = [minute * MINUTE for minute in [*range(30), *range(50, 80)]]
    changes = states(alarm, heartbeat(runs), minutes=80)
    [rung] = pages(changes)
    assert 30 < rung <= 34
    assert [state for _, state in changes[-2:]] == ["ALARM", "OK"]
    assert 50 <= changes[-1][0] <= 52


@pytest.mark.parametrize("seed", range(5))
def test_a_watch_that_is_late_or_misses_a_minute_rings_nothing(
    alarms: dict[str, Alarm], seed: int
) -> None:
    alarm = alarms["orders-WatchHeartbeat"]
    missed = {7 + seed, 20 + 2 * seed}
    runs = [
        minute * MINUTE + (minute * (seed + 7)) % 45 for minute in range(60) if minute not in missed
    ]
    assert pages(states(alarm, heartbeat(runs), minutes=59)) == []


def test_letters_that_sqs_no_longer_counts_still_ring(alarms: dict[str, Alarm]) -> None:
    """SQS's age falls to 0 once each letter was received three times; our own goes on."""
    own = each_minute(range(60), lambda minute: 3000 + 60 * minute)
    native = each_minute(range(60), lambda minute: 3000 + 60 * minute if minute < 5 else 0)
    assert pages(states(alarms["orders-DlqAge"], native, minutes=60)) == []
    [rung] = pages(states(alarms["orders-LetterAge"], own, minutes=60))
    # The letter is an hour old in minute 10.
    assert 10 <= rung <= 15


def test_the_age_of_a_queue_that_is_no_longer_polled_stays_red(alarms: dict[str, Alarm]) -> None:
    for name, value in (("orders-DlqAge", 5000), ("orders-MainQueueAge", 300_000)):
        changes = states(alarms[name], each_minute(range(10), lambda _, age=value: age), minutes=60)
        assert [state for _, state in changes] == ["ALARM"], name


def test_an_alarm_on_one_source_names_a_source_that_the_watch_publishes(
    alarms: dict[str, Alarm],
) -> None:
    queues = ["dlq", "vip", "slow", "parking:default", "parking:quarantine"]
    published = {*queues, ROOM, f"{ROOM}:{DUE}"}
    watched = {
        dimension["Value"]
        for alarm in alarms.values()
        for dimension in alarm["Dimensions"]
        if dimension["Name"] == "source"
    }
    assert watched == published
