"""The minutes before a watch has run are written for it, and the deployment waits for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pytest

from deadletter.watch.first_heartbeat import (
    BETWEEN_LOOKS,
    LONGEST_WAIT,
    NOT_SHOWN,
    REFUSED,
    SHOWN,
    Beat,
    HeartbeatRefused,
    first_heartbeat,
    minutes_around,
)

# 20 seconds into a minute.
NOW = 1_800_000_020.0
FULL_MINUTE = 1_800_000_000


@dataclass
class SlowHeartbeats:
    """Shows what was written after so many looks; some looks fail."""

    looks_until_shown: int = 0
    failing_looks: int = 0
    refuses: bool = False
    written: list[tuple[str, tuple[float, ...]]] = field(default_factory=list)
    looks: list[tuple[float, float]] = field(default_factory=list)

    def write(self, pipeline: str, times: Sequence[float]) -> None:
        if self.refuses:
            raise HeartbeatRefused("AccessDenied for cloudwatch:PutMetricData")
        self.written.append((pipeline, tuple(times)))

    def shown(self, pipeline: str, begin: float, end: float) -> bool:
        assert pipeline == self.written[0][0]
        self.looks.append((begin, end))
        if len(self.looks) <= self.failing_looks:
            raise HeartbeatRefused("Throttling for cloudwatch:GetMetricData")
        return len(self.looks) > self.looks_until_shown


class Time:
    """A clock that moves when somebody waits."""

    def __init__(self) -> None:
        self.now = NOW

    def clock(self) -> float:
        return self.now

    def wait(self, seconds: float) -> None:
        self.now += seconds


def beat(heartbeats: SlowHeartbeats, deadline: float = NOW + 900) -> tuple[Beat, float]:
    """What became of the heartbeat, and how long it took."""
    time = Time()
    said = first_heartbeat(
        "orders", heartbeats, deadline=deadline, clock=time.clock, wait=time.wait
    )
    return said, time.now - NOW


def test_five_minutes_before_and_fifteen_ahead_are_written_one_value_each() -> None:
    times = minutes_around(NOW)
    assert [(at - 59 - FULL_MINUTE) / 60 for at in times] == list(range(-5, 16))
    heartbeats = SlowHeartbeats()
    assert beat(heartbeats) == (Beat(SHOWN), 0)
    assert heartbeats.written == [("orders", tuple(times))]
    # The look covers the minutes that are over and the one that runs, not what lies ahead.
    assert heartbeats.looks == [(FULL_MINUTE - 300, NOW + 60)]


def test_it_waits_until_cloudwatch_shows_a_value() -> None:
    heartbeats = SlowHeartbeats(looks_until_shown=7)
    assert beat(heartbeats) == (Beat(SHOWN), 7 * BETWEEN_LOOKS)


def test_a_look_that_fails_is_followed_by_another() -> None:
    assert beat(SlowHeartbeats(failing_looks=3)) == (Beat(SHOWN), 3 * BETWEEN_LOOKS)


@pytest.mark.parametrize(("deadline", "most"), [(NOW + 900, LONGEST_WAIT), (NOW + 40, 40)])
def test_it_waits_three_minutes_at_most_and_never_beyond_its_deadline(
    deadline: float, most: float
) -> None:
    said, took = beat(SlowHeartbeats(looks_until_shown=10_000), deadline)
    assert said == Beat(NOT_SHOWN)
    assert most - 2 * BETWEEN_LOOKS <= took <= most


def test_what_was_refused_is_said_and_not_waited_for() -> None:
    heartbeats = SlowHeartbeats(refuses=True)
    assert beat(heartbeats) == (Beat(REFUSED, "AccessDenied for cloudwatch:PutMetricData"), 0)
    assert heartbeats.looks == []


def test_looks_that_all_fail_say_why() -> None:
    said, _ = beat(SlowHeartbeats(failing_looks=10_000))
    assert said == Beat(NOT_SHOWN, "Throttling for cloudwatch:GetMetricData")
