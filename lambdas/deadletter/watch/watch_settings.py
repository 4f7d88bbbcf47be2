"""What the watch needs to know of its pipeline."""

from __future__ import annotations

from dataclasses import dataclass

from deadletter.contract import DEFAULT_PARKING, MAIN_DLQ, MINUTE, Mode, parking_source

LEAST_STALL = 5.0 * MINUTE
RUNS_THAT_STALL = 3
"""A redriver has stalled when no run has ended well for LEAST_STALL, or for so many runs."""

ALARM_DELAY = 2.5 * MINUTE
"""What the alarm RedriveStalled itself takes to go off: two periods of a minute, and the rest
of the minute in which the trouble began. Two failed runs in a row do not reach the alarm."""

LEAST_TROUBLE = 15.0 * MINUTE
"""The shortest time for which trouble with letters is shown after it was last met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class WatchSettings:
    """One pipeline, for the watch. `every` is seconds between two runs of the redriver."""

    pipeline: str
    mode: Mode = Mode.ENFORCE
    fifo: bool = False
    every: float = float(MINUTE)
    message_ttl: float
    dedicated: tuple[str, ...] = ()
    parking: tuple[str, ...] = (DEFAULT_PARKING,)

    @property
    def sources(self) -> tuple[str, ...]:
        """The ids of all queues of ours that letters lie in."""
        return (MAIN_DLQ, *self.dedicated, *map(parking_source, self.parking))

    @property
    def stalls_after(self) -> float:
        """Seconds without a run that ended well, after which runs have stalled."""
        return max(LEAST_STALL, RUNS_THAT_STALL * self.every) - ALARM_DELAY

    @property
    def trouble_lasts(self) -> float:
        """Seconds for which trouble is shown after a run last met it."""
        return max(LEAST_TROUBLE, RUNS_THAT_STALL * self.every)
