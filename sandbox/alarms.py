"""How CloudWatch judges an alarm, as its documentation describes it.

The emulator's own judgement mixes the metrics of all queues and takes no notice
of missing data; this one is put in its place (see emulator).

Simpler than the real thing in two ways: periods are counted back from now
instead of from the full minute, and of a range with gaps only the evaluated
periods are looked at, not a few older ones.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

State = Literal["OK", "ALARM", "INSUFFICIENT_DATA"]

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
) -> State | None:
    """Return the state that *alarm* should be in, or None to leave it as it is.

    *alarm* has the keys of PutMetricAlarm, *points* are those of its own metric
    and dimensions, *statistic* reduces the points of one period to its value.
    """
    breaches = BREACHES[alarm["ComparisonOperator"]]
    missing = alarm.get("TreatMissingData") or "missing"
    verdicts: list[bool | None] = []
    for periods_ago in range(alarm["EvaluationPeriods"]):
        end = now - periods_ago * alarm["Period"]
        start = end - alarm["Period"]
        value = statistic([point for point in points if start < point["Timestamp"] <= end])
        verdicts.append(
            WHEN_MISSING.get(missing) if value is None else breaches(value, alarm["Threshold"])
        )
    if all(verdict is None for verdict in verdicts):
        return None if missing == "ignore" else "INSUFFICIENT_DATA"
    needed = alarm.get("DatapointsToAlarm") or alarm["EvaluationPeriods"]
    return "ALARM" if verdicts.count(True) >= needed else "OK"
