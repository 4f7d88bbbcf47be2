"""The limits of a run: its deadline, its pace, and the main queue's backlog."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.message.queue import Depth, QueueUnavailable
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.token_bucket import RateLimiter, TokenBucket
from deadletter.testing.clock import Clock


class Backlog:
    """A main queue with so many messages; None: it gives no answer."""

    def __init__(self, visible: int | None = 0) -> None:
        self.visible = visible

    def depth(self) -> Depth:
        if self.visible is None:
            raise QueueUnavailable("denied")
        return Depth(self.visible, 0, 0)


def limits(clock: Clock, main: Backlog, **changes: Any) -> RunLimits:
    bucket = TokenBucket(1.0, 10.0, 10.0, clock())
    queue: Any = main
    return RunLimits(
        owner="run",
        deadline=clock() + 55,
        clock=clock,
        wait=clock.advance,
        main=queue,
        rate_limiter=RateLimiter(bucket, clock),
        **{"backlog_limit": 5, **changes},
    )


def test_a_run_gets_what_its_bucket_holds_and_waits_for_more() -> None:
    clock = Clock()
    run = limits(clock, Backlog())
    began = clock()
    assert (run.permission(100), run.permission(100)) == (10, 1)
    assert clock() - began == pytest.approx(1.0)


def test_a_run_stops_before_a_full_main_queue() -> None:
    with pytest.raises(RunStopped, match="6 messages wait"):
        limits(Clock(), Backlog(6)).permission(1)


def test_a_run_that_sends_nothing_there_asks_neither_for_pace_nor_for_backlog() -> None:
    clock = Clock()
    run = limits(clock, Backlog(None), backlog_limit=None, paced=False)
    began = run.bucket
    for _ in range(30):
        assert run.permission(100) == 100
        run.give_back(100)
    assert run.bucket == began
    clock.advance(51)
    with pytest.raises(RunStopped, match="deadline"):
        run.permission(1)
