"""What the watch needs to know of its pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.contract import (
    DEFAULT_PARKING,
    MAIN_DLQ,
    MINUTE,
    WATCH,
    Mode,
    Variable,
    WatchDefaults,
    parking_source,
)
from deadletter.settings.json_fields import BadSettings, json_object, texts

LEAST_STALL = 5.0 * MINUTE
RUNS_THAT_STALL = 3
"""A redriver has stalled when no run has ended well for LEAST_STALL, or for so many runs."""

ALARM_DELAY = 2.0 * MINUTE
"""What the alarm RedriveStalled itself takes to ring at least: it asks for three looks in a row,
and two failed runs in a row leave no more than two."""

LEAST_TROUBLE = 15.0 * MINUTE
"""The shortest time for which trouble with letters is shown after it was last met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """One pipeline, for the watch.

    `every` is seconds between two runs of the redriver, `alarms` when levels call a person, and
    `botocore` the version that the functions run with.
    """

    pipeline: str
    mode: Mode = Mode.ENFORCE
    fifo: bool = False
    every: float = float(MINUTE)
    message_ttl: float
    dedicated: tuple[str, ...] = ()
    parking: tuple[str, ...] = (DEFAULT_PARKING,)
    alarms: WatchDefaults = WATCH
    botocore: str = ""

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of all queues of ours that letters lie in."""
        return (MAIN_DLQ, *self.dedicated, *map(parking_source, self.parking))

    @property
    def drained(self) -> tuple[str, ...]:
        """The ids of the queues that a schedule drains."""
        return (MAIN_DLQ, *(id_ for id_ in self.dedicated if id_ in self.alarms.scheduled))

    @property
    def stalls_after(self) -> float:
        """Seconds without a run that ended well, after which runs have stalled."""
        return max(LEAST_STALL, RUNS_THAT_STALL * self.every) - ALARM_DELAY

    @property
    def trouble_lasts(self) -> float:
        """Seconds for which trouble is shown after a run last met it."""
        return max(LEAST_TROUBLE, RUNS_THAT_STALL * self.every)


def alarms_from_json(text: str) -> WatchDefaults:
    """When levels call a person: what differs from the defaults, as the deployment wrote it.

    Raises BadSettings.
    """
    where = Variable.WATCH
    values = json_object(where, text) if text else {}
    unknown = sorted(values.keys() - WATCH._asdict().keys())
    if unknown:
        raise BadSettings(f"{where}: unknown key {unknown[0]!r}")
    for name, value in values.items():
        if name == "scheduled":
            values[name] = texts(f"{where}: {name}", value)
        elif isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise BadSettings(f"{where}: {name} must be a whole number above 0")
    return WATCH._replace(**values)
