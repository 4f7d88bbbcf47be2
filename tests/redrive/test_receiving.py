"""Receives at the same time: how many, of which size, and what happens when one fails."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from deadletter.message.queue import QueueUnavailable, ReceivedLetter, TooManyInFlight
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.receiving import ChunkReceiver, LettersInHand
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import MOST_RECEIVES, RunLimits
from deadletter.signals.figures import Figure
from deadletter.testing.clock import START, Clock
from tests.samples import letter
from tests.samples import received as in_queue

MANY = 1_000


class Shelf:
    """A queue with so many letters; each call at it takes `seconds` and may fail."""

    def __init__(self, letters: int, *, body: str = "{}", seconds: float = 0.01) -> None:
        self.clock = Clock()
        self.letters = [in_queue(letter(body, f"m{at}")) for at in range(letters)]
        self.seconds = seconds
        self.asked: list[tuple[int, int]] = []
        self.waves: list[int] = []
        self.errors: dict[int, Exception] = {}
        self.most_brought = 10
        self.hand = LettersInHand()
        self.tally = Tally()
        here: Any = self
        self.run = RunLimits(
            owner="me",
            deadline=START + 1e6,
            clock=self.clock,
            wait=self.clock.advance,
            main=here,
            backlog_limit=None,
            pace=RunPace(RunPaid(Rate(50.0, 50.0), 0.0), self.clock),
        )

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> list[ReceivedLetter]:
        self.asked.append((most, wait_seconds))
        self.clock.advance(self.seconds)
        if error := self.errors.get(len(self.asked)):
            raise error
        most = min(most, self.most_brought)
        brought, self.letters = self.letters[:most], self.letters[most:]
        return brought

    def at_once(self, calls: Sequence[Callable[[], Any]]) -> list[Any]:
        """All calls are made, whatever one of them raises."""
        self.waves.append(len(calls))
        errors = []
        for call in calls:
            try:
                call()
            except QueueUnavailable as error:
                errors.append(error)
        for error in errors:
            raise error
        return []

    def receiver(self, *, fifo: bool = False) -> ChunkReceiver:
        queue: Any = self
        return ChunkReceiver(queue, self.run, self.tally, self.at_once, fifo=fifo)

    def fill(self, most: int, *, whole_receives: bool = False) -> LettersInHand:
        """What a worker has in hand that gave away what it had."""
        self.hand.take(len(self.hand))
        self.receiver().fill(self.hand, most, whole_receives=whole_receives)
        return self.hand


def test_a_full_queue_gets_five_calls_at_once_and_none_waits_for_letters() -> None:
    """The first call says how large the letters are."""
    shelf = Shelf(MANY)
    assert len(shelf.fill(200)) == 200
    assert shelf.waves == [1, *[MOST_RECEIVES] * 3, 4]
    assert [wait for _, wait in shelf.asked] == [1] + [0] * 19
    assert shelf.tally.count_of(Figure.RECEIVED) == 200


def test_no_more_calls_are_made_at_once_than_letters_are_expected_for() -> None:
    shelf = Shelf(100)
    shelf.run.expect(100)
    assert len(shelf.fill(100)) == 100
    assert shelf.waves == [1, MOST_RECEIVES, 4]
    shelf.fill(10)
    assert shelf.waves[3:] == [1], "beyond what was expected it is one call that does not wait"
    assert shelf.asked[-1] == (10, 0)
    assert shelf.run.queue_is_empty is False
    shelf.run.note_chunk(0)
    assert shelf.run.queue_is_empty


def test_a_queue_that_has_given_less_than_was_expected_is_polled_twice_and_waited_for() -> None:
    shelf = Shelf(20)
    shelf.run.expect(23)
    shelf.fill(100)
    shelf.fill(10)
    assert shelf.asked[-1] == (10, 1)
    shelf.run.note_chunk(0)
    assert not shelf.run.queue_is_empty
    shelf.run.note_chunk(0)
    assert shelf.run.queue_is_empty


def test_letters_that_did_not_come_are_expected_still() -> None:
    shelf = Shelf(20)
    shelf.run.expect(20)
    shelf.most_brought = 5
    shelf.fill(20)
    assert shelf.waves == [1, 2, 1]
    assert shelf.letters == []


def test_a_hand_with_the_rest_of_what_was_expected_is_not_filled_any_more() -> None:
    shelf = Shelf(23)
    shelf.run.expect(23)
    assert len(shelf.fill(100)) == 23
    assert shelf.asked == [(10, 1), (10, 0), (10, 0)]


def test_a_queue_that_gives_more_than_was_expected_is_received_from_while_calls_are_full() -> None:
    shelf = Shelf(MANY)
    shelf.run.expect(10)
    assert len(shelf.fill(50)) == 50


def test_a_queue_that_runs_empty_gets_one_call_at_a_time() -> None:
    """Several calls in vain do not wait for letters, and so prove nothing; for all workers."""
    shelf = Shelf(70)
    assert len(shelf.fill(200)) == 70
    shelf.waves.clear()
    shelf.fill(200)
    assert (shelf.waves, shelf.asked[-1]) == ([MOST_RECEIVES, 1], (10, 1))
    shelf.fill(200)
    assert shelf.waves[2:] == [1]


def test_a_fifo_queue_gets_one_call_at_a_time() -> None:
    """A later letter of a group may not come into the hand before an earlier one."""
    shelf = Shelf(MANY)
    hand = LettersInHand()
    shelf.receiver(fifo=True).fill(hand, 100, whole_receives=False)
    assert shelf.waves == [1] * 10
    assert [each.letter.message_id for each in hand] == [f"m{at}" for at in range(100)]


def test_no_more_letters_are_asked_for_than_wanted() -> None:
    shelf = Shelf(MANY)
    assert len(shelf.fill(27)) == 27
    assert [size for size, _ in shelf.asked] == [10, 10, 7]


def test_whole_receives_may_bring_nine_letters_more() -> None:
    shelf = Shelf(MANY)
    assert len(shelf.fill(21, whole_receives=True)) == 30
    assert [size for size, _ in shelf.asked] == [10, 10, 10]


def test_large_letters_are_received_by_few_calls() -> None:
    """The letters of all calls are in memory at once: a request's worth and one receive more."""
    shelf = Shelf(MANY, body="x" * 200_000)
    hand = shelf.fill(100)
    assert len(hand) == 30
    assert shelf.waves == [1, 1, 1]


def test_what_other_calls_brought_is_in_hand_when_one_fails() -> None:
    shelf = Shelf(MANY)
    shelf.errors[3] = QueueUnavailable("denied")
    with pytest.raises(QueueUnavailable):
        shelf.fill(100)
    assert len(shelf.hand) == 50
    assert shelf.tally.count_of(Figure.RECEIVED) == 50


def test_a_call_at_a_queue_with_too_many_letters_in_flight_leaves_what_others_brought() -> None:
    shelf = Shelf(MANY)
    shelf.errors[2] = TooManyInFlight("full")
    assert len(shelf.fill(100)) == 50


def test_too_many_letters_in_flight_and_none_in_hand_is_an_error() -> None:
    shelf = Shelf(MANY)
    shelf.errors[1] = TooManyInFlight("full")
    with pytest.raises(TooManyInFlight):
        shelf.fill(100)
