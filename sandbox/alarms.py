"""How CloudWatch judges an alarm, as its documentation describes it.

The emulator's own judgement mixes the metrics of all queues and takes no notice
of missing data; this one is put in its place (see emulator).

CloudWatch looks at more periods than it evaluates, the *evaluation range*. Where
that range has gaps, real datapoints are evaluated first, older ones too, and only
as many gaps are filled as are needed. (Amazon CloudWatch User Guide, "Configuring how
CloudWatch alarms treat missing data", whose two tables are in the tests.)

Simpler than the real thing in one way: short minutes are counted back from now
instead of from the full minute.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]

MINUTE = 60.0

# What a minute of a template lasts in the sandbox, in seconds. CloudWatch judges minutes, and a
# test that waits for three of them is a test that nobody runs. The queue feeder looks every five
# seconds, so each short minute has a datapoint.
SHORT_MINUTE = 6.0

# One datapoint as the emulator stores it: "Timestamp" in epoch seconds, and a value.
Point = Mapping[str, Any]

BREACHES: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanOrEqualToThreshold": lambda value, threshold: value >= threshold,
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
    "LessThanOrEqualToThreshold": lambda value, threshold: value <= threshold,
}

# Periods of the evaluation range beyond the evaluated ones. The guide says that their number
# depends on the alarm, and shows two in all its examples.
OLDER_PERIODS = 2


def judge(
    alarm: Mapping[str, Any],
    points: Sequence[Point],
    *,
    statistic: Callable[[Sequence[Point]], float | None],
    now: float,
    minute: float = MINUTE,
) -> State | None:
    """Return the state that *alarm* should be in, or None to leave it as it is.

    *alarm* has the keys of PutMetricAlarm, *points* are those of its own metric
    and dimensions, *statistic* reduces the points of one period to its value.
    *minute* is how many seconds a minute of the alarm's period lasts.
    """
    breaches = BREACHES[alarm["ComparisonOperator"]]
    period = alarm["Period"] * minute / MINUTE
    # Real periods begin on the full minute; short ones are counted back from now.
    last_end = math.ceil(now / MINUTE) * MINUTE if minute == MINUTE else now
    # Newest first; None where there is no data.
    verdicts: list[bool | None] = []
    for periods_ago in range(alarm["EvaluationPeriods"] + OLDER_PERIODS):
        end = last_end - periods_ago * period
        start = end - period
        until = min(end, now)
        value = statistic([point for point in points if start < point["Timestamp"] <= until])
        verdicts.append(None if value is None else breaches(value, alarm["Threshold"]))
    return _state(
        verdicts,
        periods=alarm["EvaluationPeriods"],
        needed=alarm.get("DatapointsToAlarm") or alarm["EvaluationPeriods"],
        missing=alarm.get("TreatMissingData") or "missing",
    )


def evaluation_range(alarm: Mapping[str, Any]) -> float:
    """How far an alarm looks back, in seconds of real minutes."""
    return float((alarm["EvaluationPeriods"] + OLDER_PERIODS) * alarm["Period"])


def _state(
    verdicts: Sequence[bool | None], *, periods: int, needed: int, missing: str
) -> State | None:
    """The state for the periods of a whole range, the newest first."""
    real = [verdict for verdict in verdicts if verdict is not None][:periods]
    gaps = periods - len(real)
    breaching = real.count(True)
    if not gaps or missing in ("breaching", "notBreaching"):
        filled = gaps if missing == "breaching" else 0
        return "ALARM" if breaching + filled >= needed else "OK"
    if not real:
        return None if missing == "ignore" else "INSUFFICIENT_DATA"
    if breaching >= needed:
        return "ALARM"
    if not all(real):
        return "OK"
    # All that is there breaches, and it is too little to decide.
    if missing == "ignore":
        return None
    oldest = max(ago for ago, verdict in enumerate(verdicts, 1) if verdict)
    return "ALARM" if oldest >= needed else "OK"


def short(at: float, *, now: float, minute: float = SHORT_MINUTE) -> float:
    """The time of a point in short minutes: one that lies five minutes ahead lies 30 s ahead."""
    return now + (at - now) * minute / MINUTE
