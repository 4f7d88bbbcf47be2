"""Who runs the tasks of a batch."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from deadletter.processing import crew as crews
from deadletter.processing.crew import Crew, InTurn, Threads, lanes
from deadletter.testing.clock import Clock

HANGS = 5.0


def crew_of(kind: str, clock: Clock) -> Crew:
    return InTurn(clock) if kind == "in turn" else Threads(clock)


@pytest.mark.parametrize("kind", ["in turn", "threads"])
def test_no_task_is_begun_when_the_time_is_over(kind: str) -> None:
    clock, done = Clock(), list[int]()
    until = clock() + 2.5

    def task(number: int) -> Any:
        def work() -> None:
            clock.advance(1)
            done.append(number)

        return work

    crew_of(kind, clock).work([task(n) for n in range(10)], at_once=1, until=lambda: until)
    assert done == [0, 1, 2]


@pytest.mark.parametrize("kind", ["in turn", "threads"])
def test_the_time_may_come_nearer_meanwhile(kind: str) -> None:
    clock, done = Clock(), list[int]()
    ends = [clock() + 100]

    def task() -> None:
        done.append(1)
        if len(done) == 2:
            ends[0] = clock()

    crew_of(kind, clock).work([task] * 10, at_once=1, until=lambda: ends[0])
    assert len(done) == 2


@pytest.mark.parametrize("kind", ["in turn", "threads"])
def test_an_error_of_a_task_is_raised_and_ends_the_work(kind: str) -> None:
    done: list[int] = []

    def broken() -> None:
        raise SystemExit(1)

    with pytest.raises(SystemExit):
        crew_of(kind, Clock()).work(
            [broken, lambda: done.append(1)], at_once=1, until=lambda: float("inf")
        )
    assert done == []


def test_threads_that_cannot_be_made_leave_the_work_to_the_caller(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    class NoThread:
        def __init__(self, **_: Any) -> None: ...

        def start(self) -> None:
            raise RuntimeError("can't start new thread")

    monkeypatch.setattr(crews, "Thread", NoThread)
    seen: list[int] = []
    Threads(Clock()).work(
        [lambda: seen.append(threading.get_ident())] * 3, at_once=3, until=lambda: float("inf")
    )
    assert seen == [threading.get_ident()] * 3


def test_a_clock_that_stands_still_ends_no_wait_for_ever() -> None:
    """The time that is really waited counts as well."""
    clock, release = Clock(), threading.Event()
    until = clock() + 0.2
    try:
        Threads(clock).work([lambda: release.wait(HANGS)], at_once=1, until=lambda: until)
        assert not release.is_set()
    finally:
        release.set()


def test_lanes_keep_their_order_and_messages_without_a_lane_stand_alone() -> None:
    assert lanes(["a", None, "b", "a", None], 2) == [[0, 3], [1], [2], [4]]
    assert lanes([None, 0, 1], 2) == [[0], [1], [2]]
    assert lanes(["a", None], 1) == [[0, 1]]
