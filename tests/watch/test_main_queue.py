"""SQS drops messages of the main queue too: CloudWatch is asked how old they are, and rarely."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from deadletter.contract import DAY, HOUR, MINUTE
from deadletter.signals.figures import Figure
from deadletter.watch.observation import OldestMessage
from deadletter.watch.queues import seconds_left, with_answer
from deadletter.watch.row import MainRow, QueueRow
from tests.watch.minutes import BEGIN, Minutes

EXPIRY = Figure.SECONDS_TO_EXPIRY


def test_a_main_queue_that_empties_is_never_asked_about() -> None:
    minutes = Minutes(letters={"main": 1})
    for _ in range(6):
        minutes.letters["main"] = 100
        minutes.pass_minutes(59)
        minutes.letters["main"] = 0
        minutes.pass_minutes(1)
    assert minutes.asked == []


def test_a_main_queue_that_is_never_empty_is_asked_about_every_ten_minutes() -> None:
    minutes = Minutes(letters={"main": 1})
    minutes.pass_minutes(3 * 60)
    assert minutes.asked[0] == BEGIN + 61 * MINUTE
    between = [late - early for early, late in pairwise(minutes.asked)]
    assert set(between) == {10 * MINUTE}


def test_the_oldest_message_of_the_main_queue_counts_for_the_expiry() -> None:
    minutes = Minutes(letters={"main": 1, "dlq": 1}, main_oldest=BEGIN - 3 * DAY)
    minutes.pass_minutes(61)
    assert minutes.value(EXPIRY) == 14 * DAY - HOUR
    minutes.pass_minutes(1)
    # It keeps messages for four days, and the answer grows older until the next.
    assert minutes.value(EXPIRY) == minutes.value(EXPIRY, "main") == DAY - 61 * MINUTE
    minutes.main_oldest = None
    minutes.pass_minutes(100)
    assert minutes.value(EXPIRY) == DAY - 161 * MINUTE
    minutes.main_oldest = minutes.now
    minutes.pass_minutes(10)
    assert minutes.value(EXPIRY, "main") is None
    assert minutes.value(EXPIRY) == 14 * DAY - (minutes.now - MINUTE - BEGIN)


def test_a_message_that_is_gone_is_forgotten_when_the_queue_was_empty() -> None:
    minutes = Minutes(letters={"main": 1}, main_oldest=BEGIN - 3 * DAY)
    minutes.pass_minutes(62)
    assert minutes.value(EXPIRY) is not None
    minutes.letters["main"] = 0
    minutes.pass_minutes(1)
    assert minutes.value(EXPIRY) is None
    minutes.letters["main"] = 1
    minutes.pass_minutes(30)
    assert minutes.value(EXPIRY) is None


def test_an_unreadable_main_queue_goes_on_from_memory() -> None:
    minutes = Minutes(letters={"main": 1}, main_oldest=BEGIN - 3 * DAY)
    minutes.pass_minutes(62)
    minutes.unreadable = {"main"}
    minutes.pass_minutes(5)
    assert minutes.value(EXPIRY) == DAY - 66 * MINUTE


@pytest.mark.parametrize(("age", "left"), [(1800, 1800), (1799, None), (7200, 0)])
def test_a_queue_that_keeps_messages_for_an_hour_is_near_its_end_in_the_second_half(
    age: float, left: float | None
) -> None:
    queue = QueueRow(retention=float(HOUR), filled_at=BEGIN)
    assert seconds_left(MainRow(oldest=BEGIN - age), queue, BEGIN) == left


def test_an_age_without_a_retention_says_nothing() -> None:
    assert seconds_left(MainRow(oldest=1.0), QueueRow(filled_at=BEGIN), BEGIN) is None


def test_the_time_of_the_last_question_is_kept_when_the_queue_is_empty() -> None:
    row = MainRow(asked_at=7.0, oldest=3.0)
    assert with_answer(row, QueueRow(), OldestMessage(5.0), 9.0) == MainRow(asked_at=7.0)
    full = replace(QueueRow(), filled_at=1.0)
    assert with_answer(row, full, None, 9.0) == row
    assert with_answer(row, full, OldestMessage(None), 9.0) == MainRow(asked_at=9.0, oldest=3.0)
