"""Calls that run at the same time, in threads that are kept."""

from __future__ import annotations

import threading

import pytest

from deadletter.aws.wiring.world import CallingThreads

SECONDS = 10.0
"""After which a meeting of threads that never takes place fails its test."""


def test_results_come_in_the_order_of_the_calls() -> None:
    assert CallingThreads(3)([lambda number=number: number for number in range(20)]) == [*range(20)]


def test_no_calls_have_no_results() -> None:
    assert CallingThreads(1)([]) == []


def test_calls_run_at_the_same_time() -> None:
    meeting = threading.Barrier(4)
    CallingThreads(3)([lambda: meeting.wait(SECONDS)] * 4)


def test_calls_of_calls_end_however_few_threads_there_are() -> None:
    in_parallel = CallingThreads(1)

    def outer() -> int:
        return sum(in_parallel([lambda: sum(in_parallel([lambda: 1] * 4))] * 4))

    assert in_parallel([outer] * 4) == [16] * 4


def test_an_error_is_raised_when_all_calls_have_ended() -> None:
    may_end, ended = threading.Event(), []

    def fail() -> None:
        may_end.set()
        raise ValueError("the first call")

    def end_later() -> None:
        may_end.wait(SECONDS)
        ended.append("the second call")

    with pytest.raises(ValueError, match="the first call"):
        CallingThreads(1)([fail, end_later])
    assert ended == ["the second call"]


def test_the_same_threads_help_again() -> None:
    in_parallel = CallingThreads(3)
    seen: set[int] = set()
    for _ in range(10):
        meeting = threading.Barrier(4)

        def meet(meeting: threading.Barrier = meeting) -> None:
            meeting.wait(SECONDS)
            seen.add(threading.get_ident())

        in_parallel([meet] * 4)
    assert len(seen) == 4
