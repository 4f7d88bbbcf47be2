"""Reads end at their deadline, whatever the network does."""

from __future__ import annotations

from threading import Event

import pytest

from console.operations.deadline import Asking, Deadline, DeadlineMissed, side_by_side, within
from console.operations.errors import Problem
from deadletter.redrive.waiting_room import RoomUnavailable


def test_a_read_that_does_not_end_is_left_behind_and_named() -> None:
    never = Event()
    with pytest.raises(Problem, match=r"^The queue: no answer within 0 s; check the network"):
        within(Deadline(0), "The queue", never.wait)
    never.set()


def test_others_are_read_beside_one_that_does_not_end() -> None:
    never, lost = Event(), []
    seconds = iter([0.0, 0.0, 9.0])
    with side_by_side(Deadline(9, lambda: next(seconds))) as start:
        silent, quick = start(never.wait), start(lambda: 42)
        assert quick.result(lost.append) == 42
        assert silent.result(lost.append) is None
    assert isinstance(lost[0], DeadlineMissed)
    never.set()


def test_an_error_of_a_read_is_raised_as_it_was() -> None:
    def times_out() -> None:
        raise TimeoutError("of the read itself")

    with pytest.raises(TimeoutError, match="of the read itself"):
        within(Deadline(), "The queue", times_out)


def test_more_reads_than_threads_are_all_done() -> None:
    with side_by_side(Deadline()) as start:
        reads = [start(lambda number=number: number) for number in range(50)]  # type: ignore[misc]
        assert [read.answer("") for read in reads] == list(range(50))


def test_what_is_lost_is_named_beside_what_is_answered() -> None:
    def refused() -> int:
        raise RoomUnavailable("the table is throttling")

    with side_by_side(Deadline()) as start:
        ask = Asking(start)
        lost, known = ask("what waits", refused), ask("the DLQ", lambda number: number + 1, 41)
        assert (lost(), known()) == (None, 42)
    assert [(what, why.says) for what, why in ask.lost] == [
        ("what waits", "Try again: the table is throttling.")
    ]
