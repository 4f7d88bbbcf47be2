"""One trouble, one page, that clears: the synthesized alarms, judged minute by minute."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import pytest

from deadletter.contract import NAMESPACE
from deadletter.signals.figures import Figure
from deadletter.watch.first_heartbeat import minutes_around
from sandbox.alarms import Point, judge
from tests.infra.templates import Synthesis, filled

MINUTE = 60

# Seconds between two looks at an alarm: a page may not depend on where in a minute they fall.
STEP = 10

# Seconds that an alarm looks back at most.
LONGEST_LOOK = 3600

# What a metric is when nothing is wrong, if that is not 0.
HEALTHY = {"SecondsToExpiry": 10 * 86400}

# The one alarm for which silence is trouble.
STALLED = "orders-RedriveStalled"

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


def first_heartbeat() -> Data:
    """What the deployment writes for the minutes before the watch has run."""
    return [(at, 0, 0) for at in minutes_around(0)]


def heartbeat(runs: Iterable[float], value: Callable[[float], float] = lambda _: 0) -> Data:
    """What the deployment writes, and each run of the watch at these seconds."""
    return [*first_heartbeat(), *((at, value(at), at) for at in runs)]


LEVELS = ["DlqDepth", "CircuitTrouble", "ParkedUnattended", "RuleTrouble", "ReplayBroken"]


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


@pytest.mark.parametrize("name", LEVELS)
def test_a_level_that_is_no_longer_published_clears(alarms: dict[str, Alarm], name: str) -> None:
    alarm = alarms[f"orders-{name}"]
    changes = states(alarm, each_minute(range(5), lambda _: 1), minutes=20)
    assert [state for _, state in changes if state != "INSUFFICIENT_DATA"][-2:] == ["ALARM", "OK"]


def test_a_first_deployment_and_a_quiet_hour_page_nobody(alarms: dict[str, Alarm]) -> None:
    """The watch first runs after ten minutes; then all is well."""
    assert len(alarms) == 9 + 2
    for name, alarm in alarms.items():
        if alarm["MetricName"] == Figure.REDRIVE_STALLED:
            data = heartbeat(minute * MINUTE for minute in range(10, 60))
        else:
            data = healthy(alarm, range(10, 60))
        assert pages(states(alarm, data, minutes=60)) == [], name


def test_what_publishes_nothing_pages_nobody_except_the_watch(alarms: dict[str, Alarm]) -> None:
    quiet = {name: alarm for name, alarm in alarms.items() if name != STALLED}
    assert len(quiet) == len(alarms) - 1
    for name, alarm in quiet.items():
        assert pages(states(alarm, [], minutes=30)) == [], name
        assert pages(states(alarm, healthy(alarm, range(5)), minutes=30)) == [], name


def test_without_a_first_heartbeat_a_deployment_would_page_at_once(
    alarms: dict[str, Alarm],
) -> None:
    assert pages(states(alarms[STALLED], [], minutes=30)) == [0]


def test_a_watch_that_never_starts_rings_once_twenty_minutes_after_the_deployment(
    alarms: dict[str, Alarm],
) -> None:
    changes = states(alarms[STALLED], first_heartbeat(), minutes=180)
    [rung] = pages(changes)
    # The last minute that is written ahead, and the range that has to be empty.
    assert 15 < rung <= 21
    assert changes[-1] == (rung, "ALARM")


@pytest.mark.parametrize("late", [0, 20, 59])
def test_a_watch_that_dies_rings_within_six_minutes_and_once(
    alarms: dict[str, Alarm], late: int
) -> None:
    runs = [minute * MINUTE + late for minute in range(30)]
    changes = states(alarms[STALLED], heartbeat(runs), minutes=180)
    [rung] = pages(changes)
    assert 0 < rung - runs[-1] / MINUTE <= 6
    # It is still dead: the page stays.
    assert changes[-1] == (rung, "ALARM")


def test_a_watch_that_comes_back_clears_its_page(alarms: dict[str, Alarm]) -> None:
    runs = [minute * MINUTE for minute in [*range(30), *range(50, 80)]]
    changes = states(alarms[STALLED], heartbeat(runs), minutes=80)
    [rung] = pages(changes)
    assert 30 < rung <= 36
    assert [state for _, state in changes[-2:]] == ["ALARM", "OK"]
    assert 50 <= changes[-1][0] <= 52


@pytest.mark.parametrize("seed", range(5))
def test_a_watch_that_is_late_or_misses_a_minute_rings_nothing(
    alarms: dict[str, Alarm], seed: int
) -> None:
    """Nor does one that misses three minutes in a row: older datapoints count first."""
    missed = {7 + seed, 20 + 2 * seed, *range(40, 43)}
    runs = [
        minute * MINUTE + (minute * (seed + 7)) % 45 for minute in range(60) if minute not in missed
    ]
    assert pages(states(alarms[STALLED], heartbeat(runs), minutes=59)) == []


@pytest.mark.parametrize(("minutes", "rings"), [(1, False), (2, False), (3, True), (10, True)])
def test_three_minutes_in_which_nothing_moves_ring_and_two_do_not(
    alarms: dict[str, Alarm], minutes: int, rings: bool
) -> None:
    runs = [minute * MINUTE for minute in range(60)]
    stalled = range(20, 20 + minutes)
    data = heartbeat(runs, lambda at: at // MINUTE in stalled)
    changes = states(alarms[STALLED], data, minutes=60)
    assert bool(pages(changes)) is rings
    if rings:
        [rung] = pages(changes)
        assert 22 <= rung <= 23
    assert changes[-1][1] == "OK"


@pytest.mark.parametrize("second", [1, 20, 55])
def test_a_stall_rings_once_although_the_first_heartbeat_says_that_all_is_well(
    alarms: dict[str, Alarm], second: int
) -> None:
    """The statistic is the maximum, and the 0 of a minute is late in it: it hides no 1."""
    runs = [minute * MINUTE + second for minute in range(30)]
    changes = states(alarms[STALLED], heartbeat(runs, lambda _: 1), minutes=30)
    [rung] = pages(changes)
    assert rung <= 4


def test_letters_that_sqs_no_longer_counts_still_ring(alarms: dict[str, Alarm]) -> None:
    """SQS's age falls to 0 once each letter was received three times; our own goes on."""
    own = each_minute(range(60), lambda minute: 1200 + 60 * minute)
    native = each_minute(range(60), lambda minute: 1200 + 60 * minute if minute < 5 else 0)
    assert pages(states(alarms["orders-DlqAge"], native, minutes=60)) == []
    [rung] = pages(states(alarms["orders-MessageAge"], own, minutes=60))
    # The letter is half an hour old in minute 10.
    assert 10 <= rung <= 15


def test_the_age_of_a_queue_that_is_no_longer_polled_stays_red(alarms: dict[str, Alarm]) -> None:
    data = each_minute(range(10), lambda _: 5000)
    changes = states(alarms["orders-DlqAge"], data, minutes=60)
    assert [state for _, state in changes] == ["ALARM"]


def test_each_alarm_is_on_a_metric_of_the_contract_or_of_sqs(alarms: dict[str, Alarm]) -> None:
    """And on one of a whole pipeline: which source has the trouble, `dlq status` says."""
    ours = set(map(str, Figure))
    for name, alarm in alarms.items():
        dimensions = {dimension["Name"] for dimension in alarm["Dimensions"]}
        if alarm["Namespace"] == NAMESPACE:
            assert alarm["MetricName"] in ours, name
            assert dimensions == {"app", "pipeline"}, name
        else:
            assert (alarm["Namespace"], dimensions) == ("AWS/SQS", {"QueueName"}), name
