"""How CloudWatch judges an alarm, as its documentation describes it.

The emulator's own judgement mixes the metrics of all queues and takes no notice
of missing data; this one is put in its place (see emulator).

Simpler than the real thing in two ways: short minutes are counted back from now
instead of from the full minute, and of a range with gaps only the evaluated
periods are looked at, not a few older ones.
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

# What a period without data counts as; None: as nothing.
WHEN_MISSING: Mapping[str, bool | None] = {"breaching": True, "notBreaching": False}


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
    missing = alarm.get("TreatMissingData") or "missing"
    period = alarm["Period"] * minute / MINUTE
    # Real periods begin on the full minute; short ones are counted back from now.
    last_end = math.ceil(now / MINUTE) * MINUTE if minute == MINUTE else now
    verdicts: list[bool | None] = []
    for periods_ago in range(alarm["EvaluationPeriods"]):
        end = last_end - periods_ago * period
        start = end - period
        until = min(end, now)
        value = statistic([point for point in points if start < point["Timestamp"] <= until])
        verdicts.append(
            WHEN_MISSING.get(missing) if value is None else breaches(value, alarm["Threshold"])
        )
    if all(verdict is None for verdict in verdicts):
        return None if missing == "ignore" else "INSUFFICIENT_DATA"
    needed = alarm.get("DatapointsToAlarm") or alarm["EvaluationPeriods"]
    if verdicts.count(True) >= needed:
        return "ALARM"
    could_breach = verdicts.count(True) + verdicts.count(None) >= needed
    return None if missing == "ignore" and could_breach else "OK"


def short(at: float, *, now: float, minute: float = SHORT_MINUTE) -> float:
    """The time of a point in short minutes: one that lies five minutes ahead lies 30 s ahead."""
    return now + (at - now) * minute / MINUTE
