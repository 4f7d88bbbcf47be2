"""What is remembered of one queue, reading by reading."""

from __future__ import annotations

from deadletter.contract import MINUTE
from deadletter.message.queue import Depth, QueueState
from deadletter.watch.queues import empty_at, oldest_known, queue_points, with_state
from deadletter.watch.row import LaneRow, QueueRow
from tests.watch.minutes import BEGIN


def reading(row: QueueRow, letters: int, now: float) -> QueueRow:
    state = QueueState(depth=Depth(letters, 0, 0), created=0.0, retention=1e6)
    return with_state(row, state, now)


def test_letters_that_are_left_only_become_fewer() -> None:
    """Those that come later are not another pipeline's: a rescue has to receive them."""
    row = QueueRow(messages=5, left=5)
    assert [(row := reading(row, letters, BEGIN)).left for letters in (6, 2, 5)] == [5, 2, 2]
    assert reading(QueueRow(left=None), 3, BEGIN).left == 3


def test_after_five_minutes_of_zero_the_queue_was_empty_five_minutes_ago() -> None:
    """A letter that came since then may not be in the count yet."""
    row = reading(QueueRow(), 4, BEGIN)
    for minute in range(1, 6):
        row = reading(row, 0, BEGIN + minute * MINUTE)
        assert row.empty_at is None
    row = reading(row, 0, BEGIN + 6 * MINUTE)
    assert row.empty_at == empty_at(row) == BEGIN + MINUTE


def test_the_oldest_letter_is_the_one_seen_or_one_that_no_run_has_seen() -> None:
    assert oldest_known(QueueRow(filled_at=None, oldest_seen=7.0)) is None
    assert oldest_known(QueueRow(filled_at=10.0)) == 10.0
    assert oldest_known(QueueRow(filled_at=10.0, oldest_seen=7.0)) == 7.0
    assert oldest_known(QueueRow(filled_at=10.0, oldest_seen=12.0)) == 10.0
    assert oldest_known(QueueRow(filled_at=10.0, oldest_seen=7.0, oldest_gone=7.0)) == 10.0
    assert oldest_known(QueueRow(filled_at=10.0, drained_at=15.0)) == 15.0


def test_readings_up_to_three_minutes_apart_are_in_a_row() -> None:
    """A minute or two that the watch misses do not begin the proof of an empty queue anew."""
    row = reading(reading(QueueRow(), 0, BEGIN), 0, BEGIN + 180)
    assert row.zero_since == BEGIN
    assert reading(row, 0, BEGIN + 361).zero_since == BEGIN + 361


def test_no_age_and_no_time_to_expiry_is_below_zero() -> None:
    row = QueueRow(messages=1, filled_at=BEGIN + 30, oldest_seen=BEGIN + 30, retention=10.0)
    for now, age, left in ((BEGIN, 0, 40), (BEGIN + 30, 0, 10), (BEGIN + 41, 11, 0)):
        points = queue_points("dlq", row, LaneRow(), now)
        assert [point.value for point in points] == [1, age, left]


def test_a_row_before_its_first_reading_knows_nothing() -> None:
    row = QueueRow()
    assert (row.messages, row.left, row.read_at, row.created, row.retention) == (0, 0, 0, 0, 0)
