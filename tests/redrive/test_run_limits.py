"""The limits of a run: its deadline, its pace, and the main queue's backlog."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.message.queue import Depth, QueueUnavailable
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.run_limits import MOST_BYTES, WIND_DOWN, RunLimits, RunStopped
from deadletter.testing.clock import Clock
from tests.each_row import each_row


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
    paid = RunPaid(Rate(rate, burst), clock() - tokens / rate)
    queue: Any = main
    return RunLimits(
        owner="run",
        clock=clock,
        wait=clock.advance,
        main=queue,
        pace=RunPace(paid, clock),
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


@each_row(
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
    assert run.paid.free(run.clock()) == pytest.approx(7)


def test_every_chunk_of_a_run_is_full_and_the_pace_is_kept() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=50.0, burst=500.0, tokens=500.0)
    began = clock()
    assert {run.permission(100) for _ in range(20)} == {100}
    assert clock() - began == pytest.approx((20 * 100 - 500) / 50, abs=1)


def test_a_run_stops_before_a_full_main_queue() -> None:
    with pytest.raises(RunStopped, match="6 messages wait"):
        limits(Clock(), Backlog(6)).permission(1)


@pytest.mark.parametrize(("again", "looks"), [(2.0, [0, 2, 4, 6, 8]), (5.0, [0, 5])])
def test_the_main_queue_is_looked_at_as_often_as_the_pace_asks_for(
    again: float, looks: list[float]
) -> None:
    clock = Clock()
    began, seen = clock(), []

    def look(_main: Depth, _pace: RunPace) -> float:
        seen.append(clock() - began)
        return again

    run = limits(clock, Backlog(), rate=100.0, burst=500.0, tokens=500.0, look=look)
    for _ in range(10):
        run.permission(1)
        clock.advance(1)
    assert seen == looks


def test_a_run_that_sends_nothing_there_asks_neither_for_pace_nor_for_backlog() -> None:
    clock = Clock()
    run = limits(clock, Backlog(None), backlog_limit=None, paced=False)
    began = run.paid
    for _ in range(30):
        assert run.permission(100) == 100
        run.give_back(100)
    assert run.paid == began
    clock.advance(51)
    with pytest.raises(RunStopped, match="deadline"):
        run.permission(1)


def test_letters_stay_locked_for_a_minute_after_the_deadline() -> None:
    clock = Clock(1_000.0)
    run = limits(clock, Backlog(), deadline=1_055.0)
    assert (run.lock_seconds, run.locked_until) == (115, 1_115.0)
    clock.advance(0.5)
    # Never longer than until then: a later run begins there.
    assert (run.lock_seconds, run.locked_until) == (114, 1_115.0)
    clock.advance(60)
    assert run.lock_seconds == 60


def test_no_chunk_is_begun_in_the_last_ten_seconds() -> None:
    clock = Clock(1_000.0)
    run = limits(clock, Backlog(), deadline=1_055.0)
    clock.now = 1_044.9
    assert run.permission(1) == 1
    clock.now = 1_045.0
    with pytest.raises(RunStopped, match="the deadline is near"):
        run.permission(1)


def test_a_run_that_one_worker_ended_ends_for_the_others_with_the_first_reason() -> None:
    run = limits(Clock(), Backlog(None))
    run.stop("the router gave no answer")
    run.stop("later")
    with pytest.raises(RunStopped, match=r"^the router gave no answer$"):
        run.permission(1)
    assert run.stopped == "the router gave no answer"


def test_a_main_queue_at_its_limit_is_not_full_yet() -> None:
    assert limits(Clock(), Backlog(5)).permission(1) == 1


def test_the_backlog_is_read_every_five_seconds() -> None:
    clock, main = Clock(1_000.0), Backlog(0)
    run = limits(clock, main)
    assert run.permission(1) == 1
    main.visible = 6
    clock.advance(4.9)
    assert run.permission(1) == 1
    clock.advance(0.1)
    with pytest.raises(RunStopped, match="6 messages wait in the main queue already"):
        run.permission(1)


def test_the_backlog_is_read_again_only_five_seconds_after_the_last_time() -> None:
    clock, main = Clock(1_000.0), Backlog(0)
    run = limits(clock, main)
    run.permission(1)
    clock.advance(5)
    run.permission(1)
    main.visible = 6
    clock.advance(4.9)
    assert run.permission(1) == 1


def test_only_what_was_granted_and_not_sent_goes_back_to_the_pace() -> None:
    run = limits(Clock(), Backlog(), tokens=4.0)
    run.give_back(0)
    assert run.paid.free(run.clock()) == pytest.approx(4.0)
    run.give_back(1)
    assert run.paid.free(run.clock()) == pytest.approx(5.0)
    run.give_back(-1)
    assert run.paid.free(run.clock()) == pytest.approx(5.0)


@pytest.mark.parametrize(("left", "most", "granted"), [(2, 100, 2), (2, 1, 1), (1, 100, 1)])
def test_no_more_letters_are_granted_than_may_be_tried(left: int, most: int, granted: int) -> None:
    run = limits(Clock(), Backlog(), paced=False, backlog_limit=None, trial=lambda: left)
    assert run.permission(most) == granted


@pytest.mark.parametrize("left", [0, -1])
def test_a_run_ends_when_no_letter_is_left_to_try(left: int) -> None:
    run = limits(Clock(), Backlog(), trial=lambda: left)
    with pytest.raises(RunStopped, match="no message could be moved: the rest is left alone"):
        run.permission(100)


def test_a_run_waits_for_its_pace_no_longer_than_until_ten_seconds_before_the_deadline() -> None:
    clock = Clock(1_000.0)
    run = limits(clock, Backlog(), rate=0.1, burst=1, tokens=0.0, deadline=1_020.0)
    with pytest.raises(RunStopped, match="the pace allows no more"):
        run.permission(1)
    assert clock.now == 1_000.0
    run = limits(clock, Backlog(), rate=0.1, burst=1, tokens=0.0, deadline=1_020.1)
    assert run.permission(1) == 1
    assert clock.now == 1_010.0


def test_a_wait_for_the_pace_is_never_shorter_than_the_clock_can_tell() -> None:
    """A bucket that lacks a billionth of a token would otherwise be asked thousands of times."""
    waits: list[float] = []
    clock = Clock(1_000.0)

    def wait(seconds: float) -> None:
        waits.append(seconds)
        clock.advance(seconds)

    run = limits(clock, Backlog(), rate=50.0, burst=10, tokens=9.999)
    run._wait = wait
    assert run.permission(10) == 10
    assert waits == [0.05]


def test_of_eleven_letters_a_whole_batch_of_ten_is_granted() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=5.5, burst=500.0, tokens=11.0)
    assert granted_after(run, clock) == (10, 0)
    assert run.paid.free(run.clock()) == pytest.approx(1.0)


def test_a_slow_pace_still_allows_one_letter_at_a_time() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), rate=0.4, burst=10.0, tokens=1.0)
    assert granted_after(run, clock) == (1, 0)


def test_a_queue_is_empty_after_two_chunks_in_a_row_without_letters() -> None:
    run = limits(Clock(), Backlog())
    seen = []
    for letters in (0, 3, 0, 0):
        run.note_chunk(letters)
        seen.append(run.queue_is_empty)
    assert seen == [False, False, False, True]


def test_an_empty_poll_and_one_under_way_are_enough() -> None:
    """Workers whose polls end together end together."""
    run = limits(Clock(), Backlog())
    with run.long_poll():
        assert not run.queue_is_empty
        with run.long_poll():
            assert not run.queue_is_empty
        run.note_chunk(0)
        assert run.queue_is_empty
        run.note_chunk(5)
        assert not run.queue_is_empty
        run.note_chunk(0)
    assert not run.queue_is_empty


def test_the_letters_that_are_expected_say_what_is_worth_doing_at_once() -> None:
    run = limits(Clock(), Backlog(), workers=4)
    assert (run.receives_worth, run.chunks_worth) == (5, 4), "not known is enough"
    run.expect(250)
    assert (run.receives_worth, run.chunks_worth) == (5, 3)
    run.note_asked(230)
    assert (run.receives_worth, run.chunks_worth) == (2, 1)
    run.note_not_received(15)
    assert run.receives_worth == 4
    run.note_in_vain()
    assert (run.receives_worth, run.chunks_worth) == (1, 1)
    run.note_asked(100)
    assert (run.receives_worth, run.chunks_worth) == (1, 0)


def test_large_chunks_wait_for_memory_before_they_are_received() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), workers=8)
    with run.chunk(), run.chunk(), run.chunk():
        # So many began before the size of one was known.
        run.note_chunk_bytes(MOST_BYTES // 2)
        with pytest.raises(RunStopped, match="the deadline is near"), run.chunk():
            pytest.fail("there is no memory for it")
    clock.advance(-60)
    with run.chunk(), run.chunk():
        assert not run._begins_chunk()


def test_eight_chunks_begin_before_the_size_of_one_is_known() -> None:
    run = limits(Clock(), Backlog(), workers=16)
    assert [run._begins_chunk() for _ in range(9)] == [True] * 8 + [False]
    run.note_chunk_bytes(MOST_BYTES // 10)
    run.note_chunk_bytes(1_000)
    # The largest counts.
    assert [run._begins_chunk() for _ in range(3)] == [True, True, False]


def test_a_chunk_that_fails_leaves_its_memory_to_others() -> None:
    run = limits(Clock(), Backlog())
    with pytest.raises(QueueUnavailable), run.chunk():
        raise QueueUnavailable("denied")
    assert run._under_way == 0


def test_a_chunk_begins_as_soon_as_another_one_is_done() -> None:
    clock = Clock()
    run = limits(clock, Backlog(), workers=8)
    run.note_chunk_bytes(MOST_BYTES)
    first = run.chunk()
    first.__enter__()

    def wait(seconds: float) -> None:
        clock.advance(seconds)
        first.__exit__(None, None, None)

    run._wait = wait
    began = clock()
    with run.chunk():
        assert clock() - began == pytest.approx(0.05)


def test_one_chunk_may_begin_however_large_they_are() -> None:
    run = limits(Clock(), Backlog())
    run.note_chunk_bytes(MOST_BYTES + 1)
    with run.chunk():
        assert not run._begins_chunk()
    with run.chunk():
        pass
