"""The limits of a run: its deadline, its pace, and the main queue's backlog."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.message.queue import Depth, QueueUnavailable
from deadletter.redrive.run_limits import WIND_DOWN, RunLimits, RunStopped
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


def limits(
    clock: Clock,
    main: Backlog,
    *,
    rate: float = 1.0,
    burst: float = 10.0,
    tokens: float = 10.0,
    **changes: Any,
) -> RunLimits:
    bucket = TokenBucket(rate, burst, tokens, clock())
    queue: Any = main
    return RunLimits(
        owner="run",
        clock=clock,
        wait=clock.advance,
        main=queue,
        rate_limiter=RateLimiter(bucket, clock),
        **{"backlog_limit": 5, "deadline": clock() + 55, **changes},
    )


def granted_after(run: RunLimits, clock: Clock, most: int = 100) -> tuple[int, Any]:
    """The letters of one permission, and the seconds that it was waited for."""
    began = clock()
    letters = run.permission(most)
    return letters, pytest.approx(clock() - began, abs=0.06)


def test_a_run_gets_what_its_bucket_holds_and_waits_for_a_chunks_worth() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=50.0, burst=500.0, tokens=100.0)
    assert granted_after(run, clock) == (100, 0)
    assert granted_after(run, clock) == (100, 2)


@pytest.mark.parametrize(
    ("rate", "burst", "most", "letters", "seconds"),
    [
        (50, 500, 100, 100, 2),  # two seconds' worth fill an intent
        (400, 500, 100, 100, 0.25),  # the intent is full sooner
        (50, 500, 20, 20, 0.4),  # no more is asked for
        (50, 40, 100, 40, 0.8),  # the burst never holds more
        (33, 500, 100, 60, 60 / 33),  # whole batches of ten
        (4, 500, 100, 8, 2),  # less than one batch
        (0.1, 500, 100, 1, 10),  # at least one letter, however long it takes
        (0.1, 1, 100, 1, 10),
    ],
)
def test_permission_is_worth_a_chunk_at_every_pace(
    rate: float, burst: float, most: int, letters: int, seconds: float
) -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=rate, burst=burst, tokens=0.0)
    assert granted_after(run, clock, most) == (letters, seconds)


def test_whole_batches_are_granted_of_what_has_gathered() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=10.0, burst=500.0, tokens=57.0)
    assert granted_after(run, clock) == (50, 0)
    assert granted_after(run, clock) == (20, 1.3)


def test_near_the_deadline_a_run_takes_what_there_is_and_then_ends() -> None:
    clock = Clock()
    deadline = clock() + WIND_DOWN + 1.0
    run = limits(clock, Backlog(), rate=50.0, burst=500.0, tokens=37.0, deadline=deadline)
    assert granted_after(run, clock) == (30, 0)
    with pytest.raises(RunStopped, match="the pace allows no more"):
        run.permission(100)
    assert run.bucket.tokens == pytest.approx(7)


def test_every_chunk_of_a_run_is_full_and_the_pace_is_kept() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=50.0, burst=500.0, tokens=500.0)
    began = clock()
    assert {run.permission(100) for _ in range(20)} == {100}
    assert clock() - began == pytest.approx((20 * 100 - 500) / 50, abs=1)


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
