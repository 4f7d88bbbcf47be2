"""CloudWatch in memory: metrics, and alarms as a template describes them, judged each minute."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Any

from sandbox.alarms import Point, evaluation_range, judge

Key = tuple[str, str, frozenset[tuple[str, str]]]

STATISTICS: Mapping[str, Callable[[Iterable[float]], float]] = {
    "Maximum": max,
    "Minimum": min,
    "Sum": sum,
    "Average": fmean,
    "SampleCount": lambda values: float(len(list(values))),
}

# Seconds that a datapoint is kept: no alarm of ours looks further back.
KEPT = 86_400.0


class Series:
    """The datapoints of one metric under one set of dimensions, in the order of their times."""

    def __init__(self) -> None:
        self.times: list[float] = []
        self.points: list[Point] = []

    def add(self, at: float, value: float) -> None:
        place = bisect_right(self.times, at)
        self.times.insert(place, at)
        self.points.insert(place, {"Timestamp": at, "Value": value})
        if len(self.times) > 4_000:
            old = bisect_left(self.times, self.times[-1] - KEPT)
            del self.times[:old], self.points[:old]

    def since(self, after: float, until: float) -> Sequence[Point]:
        """The points after one time and not after the other."""
        return self.points[bisect_right(self.times, after) : bisect_right(self.times, until)]


@dataclass(frozen=True, slots=True)
class Change:
    """An alarm that changed its state at `at`, epoch seconds."""

    at: float
    alarm: str
    before: str
    after: str


class CloudWatch:
    """Metrics, the alarms on them, and every change of an alarm's state."""

    def __init__(self) -> None:
        self._series: dict[Key, Series] = {}
        self._alarms: dict[str, tuple[Mapping[str, Any], Key]] = {}
        self.states: dict[str, str] = {}
        self.changes: list[Change] = []

    def add_alarm(self, alarm: Mapping[str, Any]) -> None:
        """Create an alarm from the arguments of PutMetricAlarm."""
        dimensions = {pair["Name"]: pair["Value"] for pair in alarm.get("Dimensions", ())}
        key = _key(alarm["Namespace"], alarm["MetricName"], dimensions)
        self._alarms[alarm["AlarmName"]] = (alarm, key)
        self.states[alarm["AlarmName"]] = "INSUFFICIENT_DATA"

    def put(
        self, namespace: str, name: str, dimensions: Mapping[str, str], value: float, at: float
    ) -> None:
        """Store one datapoint."""
        key = _key(namespace, name, dimensions)
        series = self._series.get(key)
        if series is None:
            series = self._series[key] = Series()
        series.add(at, value)

    def values(self, namespace: str, name: str, **dimensions: str) -> list[float]:
        """All values of a metric that are kept, in the order of their times."""
        series = self._series.get(_key(namespace, name, dimensions))
        return [] if series is None else [point["Value"] for point in series.points]

    def points(
        self, namespace: str, name: str, dimensions: Mapping[str, str], begin: float, end: float
    ) -> Sequence[Point]:
        """The datapoints of a metric between two times, in their order."""
        series = self._series.get(_key(namespace, name, dimensions))
        return () if series is None else series.since(begin, end)

    def judge(self, end: float, *, after_a_leap: bool = False) -> None:
        """Judge every alarm by the periods that end at `end`, a full minute.

        After a leap in time the minutes before are empty because nothing was simulated: alarms
        that take silence for trouble are left as they are.
        """
        now = end - 0.001
        for name, (alarm, key) in self._alarms.items():
            if after_a_leap and alarm["TreatMissingData"] == "breaching":
                continue
            series = self._series.get(key)
            # A period more, because the range begins with a full one.
            begin = now - evaluation_range(alarm) - alarm["Period"]
            points = () if series is None else series.since(begin, now)
            state = judge(alarm, points, statistic=_statistic(alarm["Statistic"]), now=now)
            before = self.states[name]
            if state is not None and state != before:
                self.changes.append(Change(end, name, before, state))
                self.states[name] = state

    @property
    def pages(self) -> list[Change]:
        """The changes that call a person."""
        return [change for change in self.changes if change.after == "ALARM"]

    @property
    def alarming(self) -> list[str]:
        """The names of the alarms that are in state ALARM."""
        return [name for name, state in self.states.items() if state == "ALARM"]


def _key(namespace: str, name: str, dimensions: Mapping[str, str]) -> Key:
    return (namespace, name, frozenset(dimensions.items()))


def _statistic(name: str) -> Callable[[Sequence[Point]], float | None]:
    reduce = STATISTICS[name]
    return lambda points: reduce(point["Value"] for point in points) if points else None
