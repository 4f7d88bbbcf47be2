"""The heartbeat of a watch that has not run yet: written ahead by the deployment.

The alarm RedriveStalled takes a minute without data for a minute without a watch. A pipeline
that has just been deployed has no data at all, so its first minutes are written for it. If the
watch never starts, they end, and the alarm rings.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from deadletter.contract import MINUTE

MINUTES_BEFORE = 5
"""Minutes before now that are written: the alarm looks back so far."""

MINUTES_AHEAD = 15
"""Minutes ahead that are written: the watch starts within them, or its alarm rings."""

LONGEST_WAIT = 180.0
"""Seconds to wait at most until CloudWatch shows what it has taken."""

BETWEEN_LOOKS = 5.0
"""Seconds between two looks at what CloudWatch shows."""

SHOWN = "shown"
NOT_SHOWN = "written, and not shown in time"
REFUSED = "not written"


class HeartbeatRefused(Exception):
    """CloudWatch took no figures, or showed none; the message names the action and its error."""


class Heartbeats(Protocol):
    """The figure RedriveStalled of any pipeline."""

    def write(self, pipeline: str, times: Sequence[float]) -> None:
        """Write a 0 at each of these times (epoch seconds); raises HeartbeatRefused."""

    def shown(self, pipeline: str, begin: float, end: float) -> bool:
        """True if there is a value between these times; raises HeartbeatRefused."""


@dataclass(frozen=True, slots=True)
class Beat:
    """What became of a first heartbeat: SHOWN, NOT_SHOWN or REFUSED, and why if it is known."""

    outcome: str
    why: str = ""


LATE_IN_ITS_MINUTE = 59.0
"""The second of its minute that a value is written for. A watch that runs and finds a stall has
written its 1 before: else the page of the stall would end and come again each minute."""


def minutes_around(now: float) -> list[float]:
    """A time in each minute that a first heartbeat is written for."""
    this_minute = now // MINUTE * MINUTE
    return [
        this_minute + minutes * MINUTE + LATE_IN_ITS_MINUTE
        for minutes in range(-MINUTES_BEFORE, MINUTES_AHEAD + 1)
    ]


def first_heartbeat(
    pipeline: str,
    heartbeats: Heartbeats,
    *,
    deadline: float,
    clock: Callable[[], float],
    wait: Callable[[float], None],
) -> Beat:
    """Write a pipeline's first heartbeat, and wait until CloudWatch shows it.

    Waits until `deadline` (epoch seconds), and LONGEST_WAIT at most. A look that fails is
    followed by another one.
    """
    begun = clock()
    times = minutes_around(begun)
    try:
        heartbeats.write(pipeline, times)
    except HeartbeatRefused as error:
        return Beat(REFUSED, str(error))
    last_look = min(deadline, begun + LONGEST_WAIT) - BETWEEN_LOOKS
    why = ""
    while True:
        try:
            if heartbeats.shown(pipeline, times[0] - LATE_IN_ITS_MINUTE, begun + MINUTE):
                return Beat(SHOWN)
        except HeartbeatRefused as error:
            why = str(error)
        if clock() > last_look:
            return Beat(NOT_SHOWN, why)
        wait(BETWEEN_LOOKS)
