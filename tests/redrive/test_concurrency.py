"""How many calls are made at the same time."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from deadletter.redrive.concurrency import SETTLED_FOR, WINDOW, ChunksInFlight, Concurrency
from tests.each_row import each_row


def after(*notes: tuple[float, float], most: int = 8) -> int:
    """The calls after these seconds and shares of what was asked for."""
    concurrency = Concurrency(most)
    for seconds, worth in notes:
        concurrency.note(seconds, worth=worth)
    return concurrency.calls


@each_row(("times", "calls"), [(0, 1), (1, 2), (2, 4), (3, 8), (9, 8)])
def test_quick_calls_are_doubled_up_to_the_most(times: int, calls: int) -> None:
    assert after(*[(0.01, 1.0)] * times) == calls


@pytest.mark.parametrize(("share", "calls"), [(0.49, 1), (0.5, 2)])
def test_calls_that_bring_little_are_not_doubled(share: float, calls: int) -> None:
    assert after((0.01, share)) == calls


@pytest.mark.parametrize(("seconds", "calls"), [(0.03, 8), (0.031, 2)])
def test_calls_three_times_as_slow_as_the_quickest_are_halved(seconds: float, calls: int) -> None:
    assert after((0.02, 1.0), (0.01, 1.0), (seconds, 1.0)) == calls


def test_slow_calls_leave_one() -> None:
    assert after((0.01, 1.0), *[(9.0, 1.0)] * 5) == 1


def test_after_a_call_in_vain_there_is_one_at_a_time() -> None:
    assert after(*[(0.01, 1.0)] * 3, (0.01, 0.0)) == 1


def test_a_call_in_vain_may_be_the_quickest() -> None:
    assert after((0.1, 1.0), (0.01, 0.0), (0.05, 1.0)) == 1


class Run:
    """Chunks of a run: each takes what `seconds` says for so many under way."""

    def __init__(self, seconds: Callable[[int], float], first: int = 4, most: int = 16) -> None:
        self.chunks = ChunksInFlight(first, most)
        self.seconds = seconds
        self.may_grow = True
        self.levels = [first]

    def windows(self, number: int) -> list[int]:
        """How many were under way, each time that it changed, after so many more windows."""
        for _ in range(number * WINDOW):
            of = self.chunks.chunks
            self.chunks.note(self.seconds(of), of=of, may_grow=self.may_grow)
            if self.chunks.chunks != self.levels[-1]:
                self.levels.append(self.chunks.chunks)
        return self.levels


def waits(of: int) -> float:
    """Chunks that wait for calls do not slow one another."""
    return 1.0


def computes(of: int) -> float:
    """Chunks that wait for the processor take as much longer as there are more of them."""
    return of / 4


def test_while_chunks_wait_for_calls_there_are_twice_as_many_up_to_the_most() -> None:
    assert Run(waits).windows(10) == [4, 8, 16]


def test_chunks_that_wait_for_one_another_go_back_and_are_tried_again_much_later() -> None:
    run = Run(computes)
    assert run.windows(2) == [4, 8, 4]
    assert run.windows(SETTLED_FOR) == [4, 8, 4]
    assert run.windows(1) == [4, 8, 4, 8]


def test_a_queue_pace_or_memory_that_is_too_short_keeps_them_as_many() -> None:
    run = Run(waits)
    run.may_grow = False
    assert run.windows(9) == [4]


def test_chunks_that_become_slow_are_halved_and_never_fewer_than_at_first() -> None:
    run = Run(waits)
    run.windows(4)
    run.may_grow, run.seconds = False, lambda of: 3.0
    assert run.windows(1) == [4, 8, 16, 8]
    run.windows(1)
    run.seconds = lambda of: 9.0
    assert run.windows(8) == [4, 8, 16, 8, 4]


def test_a_chunk_that_began_among_fewer_says_nothing() -> None:
    chunks = ChunksInFlight(4, 16)
    for _ in range(9 * WINDOW):
        chunks.note(1.0, of=3, may_grow=True)
    assert chunks.chunks == 4


def test_without_memory_there_are_as_many_as_at_first() -> None:
    run = Run(waits)
    run.windows(4)
    run.chunks.fall_back()
    assert run.chunks.chunks == 4
