"""An alarm is judged the way CloudWatch documents it."""

from collections.abc import Sequence
from typing import Any

import pytest

from sandbox.alarms import SHORT_MINUTE, Point, State, judge, short
from tests.each_row import each_row

NOW = 1_000_000.0

ALARM = {
    "Period": 60,
    "EvaluationPeriods": 1,
    "Threshold": 10.0,
    "ComparisonOperator": "GreaterThanThreshold",
    "TreatMissingData": "missing",
}


def maximum(points: Sequence[Point]) -> float | None:
    return max((point["Value"] for point in points), default=None)


def verdict(points: dict[float, float], *, minute: float = 60, **settings: Any) -> State | None:
    """Judge points given as {seconds ago: value}."""
    measured = [{"Timestamp": NOW - ago, "Value": value} for ago, value in points.items()]
    return judge({**ALARM, **settings}, measured, statistic=maximum, now=NOW, minute=minute)


def test_a_value_beyond_the_threshold_is_an_alarm():
    assert verdict({5: 11}) == "ALARM"


def test_a_value_on_the_threshold_is_not_beyond_it():
    assert verdict({5: 10}) == "OK"


def test_what_lies_before_the_evaluated_periods_does_not_count():
    assert verdict({61: 11, 5: 1}) == "OK"


@pytest.mark.parametrize(
    ("treatment", "expected"),
    [
        ("breaching", "ALARM"),
        ("notBreaching", "OK"),
        ("missing", "INSUFFICIENT_DATA"),
        ("ignore", None),
    ],
)
def test_silence_means_what_the_alarm_says_it_means(treatment: str, expected: State | None):
    assert verdict({}, TreatMissingData=treatment) == expected


def test_every_period_must_breach_unless_the_alarm_asks_for_fewer():
    spike = {5: 1, 65: 11, 125: 11}
    assert verdict(spike, EvaluationPeriods=3) == "OK"
    assert verdict(spike, EvaluationPeriods=3, DatapointsToAlarm=2) == "ALARM"


def test_an_alarm_that_ignores_gaps_changes_only_when_what_is_there_decides():
    settings = {"EvaluationPeriods": 3, "TreatMissingData": "ignore"}
    assert verdict({5: 11, 65: 11}, **settings) is None
    assert verdict({5: 1, 65: 11}, **settings) == "OK"
    assert verdict({5: 11, 65: 11}, **settings, DatapointsToAlarm=2) == "ALARM"
    assert verdict({5: 11}, **settings, DatapointsToAlarm=2) is None


TREATMENTS = ("missing", "ignore", "breaching", "notBreaching")

KEPT, NO_DATA = None, "INSUFFICIENT_DATA"


@each_row(
    ("range_", "periods", "datapoints", "states"),
    [
        # The two tables of the guide: five periods, the newest last; X breaches, 0 does not.
        ("0-X-X", 3, 3, ("OK", "OK", "OK", "OK")),
        ("0----", 3, 3, ("OK", "OK", "OK", "OK")),
        ("-----", 3, 3, (NO_DATA, KEPT, "ALARM", "OK")),
        ("0XX-X", 3, 3, ("ALARM", "ALARM", "ALARM", "ALARM")),
        ("--X--", 3, 3, ("ALARM", KEPT, "ALARM", "OK")),
        ("0-X-X", 3, 2, ("ALARM", "ALARM", "ALARM", "ALARM")),
        ("00X0X", 3, 2, ("ALARM", "ALARM", "ALARM", "ALARM")),
        ("0-X--", 3, 2, ("OK", "OK", "ALARM", "OK")),
        ("----0", 3, 2, ("OK", "OK", "ALARM", "OK")),
        ("---X-", 3, 2, ("ALARM", KEPT, "ALARM", "OK")),
    ],
)
def test_a_range_with_gaps_is_judged_as_the_guide_says(
    range_: str, periods: int, datapoints: int, states: tuple[State | None, ...]
) -> None:
    points = {
        5 + 60 * ago: {"X": 11.0, "0": 1.0}[sign]
        for ago, sign in enumerate(reversed(range_))
        if sign != "-"
    }
    settings = {"EvaluationPeriods": periods, "DatapointsToAlarm": datapoints}
    # In the emulator's units of six seconds as in real minutes, whose periods begin on the minute.
    short_points = {ago / 10: value for ago, value in points.items()}
    for treatment, state in zip(TREATMENTS, states, strict=True):
        given = {**settings, "TreatMissingData": treatment}
        assert verdict(points, **given) == state, treatment
        assert verdict(short_points, minute=SHORT_MINUTE, **given) == state, treatment


def test_a_heartbeat_rings_when_its_whole_range_is_empty() -> None:
    heartbeat = {"EvaluationPeriods": 3, "TreatMissingData": "breaching", "minute": SHORT_MINUTE}
    # A run of the watch may take four short minutes and ring nothing.
    assert verdict({29: 0}, **heartbeat) == "OK"
    assert verdict({31: 0}, **heartbeat) == "ALARM"


def test_the_sandbox_judges_minutes_of_six_seconds():
    assert SHORT_MINUTE == 6
    three = {"EvaluationPeriods": 3, "minute": SHORT_MINUTE}
    assert verdict({5: 11, 11: 11, 17: 11}, **three) == "ALARM"
    # The third is the newest of the older periods: a run that is late rings nothing.
    assert verdict({5: 11, 11: 11, 19: 11}, **three) == "ALARM"
    assert verdict({5: 11, 11: 11, 31: 11}, **three) == "OK"
    assert verdict({5: 11, 11: 11, 19: 11}, **three, DatapointsToAlarm=2) == "ALARM"
    assert verdict({29: 11}, Period=300, minute=SHORT_MINUTE) == "ALARM"


def test_a_point_of_another_minute_lies_as_many_short_minutes_away():
    assert short(NOW, now=NOW) == NOW
    assert short(NOW + 300, now=NOW) == NOW + 30
    assert short(NOW - 60, now=NOW) == NOW - 6


def test_a_point_of_a_time_to_come_does_not_count_yet():
    assert verdict({-5: 11, 5: 1}) == "OK"


def test_real_periods_begin_on_the_full_minute():
    into_the_minute = NOW % 60
    assert verdict({into_the_minute - 1: 11}) == "ALARM"
    # Of the minutes before, the newest with data is evaluated.
    assert verdict({into_the_minute + 1: 1, into_the_minute + 61: 11}) == "OK"
    assert verdict({into_the_minute + 121: 11}) == "INSUFFICIENT_DATA"
    two = {"EvaluationPeriods": 2, "DatapointsToAlarm": 2, "TreatMissingData": "notBreaching"}
    assert verdict({into_the_minute + 1: 11, into_the_minute + 2: 11}, **two) == "OK"
