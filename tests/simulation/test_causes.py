"""The witness: what explains that a letter was delivered once more."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from deadletter.redrive.journal import GRACE, key_of
from tests.simulation.effects import Broken
from tests.simulation.scheduler import Process, Scheduler
from tests.simulation.shards_simulator import simulate_shards
from tests.simulation.witness import (
    BY_SQS,
    EXTRA,
    HELD_UP,
    KILLED,
    LOST_ANSWER,
    Chunk,
    Delivery,
    Witness,
)

COPY = "copy"
ENDS = 100.0
"""When each intent ends."""


class Book:
    """The deliveries of one copy, and the witness that explains each after the first."""

    def __init__(self, revived: int = 0) -> None:
        self.witness: Any = object.__new__(Witness)
        self.witness.counts = Counter()
        self.witness.revived = Counter({COPY: revived})
        self.witness._scheduler = Scheduler(1, 0.0, lambda *_: None)
        self.witness._payers = lambda process, *_: (process if process.published else None, None)
        self.deliveries: list[Delivery] = []

    def deliver(
        self,
        name: str,
        *,
        answered: bool,
        published: int = 0,
        pauses: int | None = None,
        in_doubt: bool = True,
    ) -> Process:
        """One more delivery, by a process that has counted so many possible duplicates.

        With `pauses` its answer comes, and its mark does not. It is `in_doubt` if an intent told
        it that the copy may have been sent.
        """
        process = Process(name, published=published, pauses=pauses or 0)
        keys = frozenset({key_of(COPY)})
        chunk = Chunk(process, keys, ENDS, of_room=False, is_sending=True)
        if not answered:
            chunk.unanswered.add(COPY)
        elif pauses is None:
            chunk.marked.add(key_of(COPY))
        if self.deliveries:
            held: Any = type("Held", (), {"copy": COPY})
            entry: Any = type("Entry", (), {"chunk": chunk, "is_in_doubt": in_doubt})
            self.witness._explain(process, "letter", held, entry, self.deliveries)
        self.deliveries.append(Delivery(process, chunk, name, published))
        return process


def test_a_lost_answer_explains_one_more_delivery_and_no_second() -> None:
    book = Book()
    book.deliver("first", answered=False)
    book.deliver("second", answered=True, published=1)
    assert book.witness.counts == {EXTRA: 1, f"  {LOST_ANSWER}": 1}
    with pytest.raises(Broken, match="marked as sent"):
        book.deliver("third", answered=True, published=1)


@pytest.mark.parametrize(
    ("pauses", "seconds", "explained"),
    [(1, ENDS + GRACE, True), (1, ENDS + GRACE - 1, False), (0, ENDS + GRACE, False)],
)
def test_a_process_that_slept_past_the_end_of_its_intent_explains_one_more_delivery(
    pauses: int, seconds: float, explained: bool
) -> None:
    book = Book()
    book.deliver("first", answered=True, pauses=pauses)
    book.witness._scheduler.now = seconds
    if explained:
        book.deliver("second", answered=True, published=1)
        assert book.witness.counts == {EXTRA: 1, f"  {HELD_UP}": 1}
    else:
        with pytest.raises(Broken, match="no fault explains it"):
            book.deliver("second", answered=True, published=1)


@pytest.mark.parametrize(
    ("published", "seconds", "explained"),
    [(1, ENDS + GRACE, True), (1, ENDS + GRACE - 1, False), (0, ENDS + GRACE, False)],
)
def test_a_sender_that_slept_comes_second_if_the_first_one_counted_it(
    published: int, seconds: float, explained: bool
) -> None:
    book = Book()
    book.deliver("took over", answered=True, published=published)
    book.witness._scheduler.now = seconds
    if explained:
        book.deliver("slept", answered=True, pauses=1)
        assert book.witness.counts == {EXTRA: 1, f"  {HELD_UP}": 1}
    else:
        with pytest.raises(Broken, match="marked as sent"):
            book.deliver("slept", answered=True, pauses=1)


def test_a_delivery_that_was_not_counted_before_is_not_explained() -> None:
    book = Book()
    book.deliver("first", answered=False)
    with pytest.raises(Broken, match="has not said so"):
        book.deliver("second", answered=True)


def test_a_cause_that_sqs_left_unspent_explains_a_later_delivery() -> None:
    """SQS gave the copy to two workers; both sent it, the first one without an answer."""
    book = Book(revived=1)
    book.deliver("first", answered=False)
    book.deliver("second", answered=True)
    assert book.witness.counts == {BY_SQS: 1}
    book.deliver("third", answered=True, published=1)
    assert book.witness.counts[EXTRA] == 1
    with pytest.raises(Broken, match="marked as sent"):
        book.deliver("fourth", answered=True, published=1)


@pytest.mark.parametrize(
    ("in_doubt", "causes", "used"),
    [(True, {EXTRA: 1, f"  {HELD_UP}": 1}, 1), (False, {BY_SQS: 1}, 0)],
)
def test_a_letter_that_sqs_brings_back_uses_up_no_count_of_another(
    in_doubt: bool, causes: dict[str, int], used: int
) -> None:
    """The first sender failed to mark it and deleted it; later it slept past the intent's end.

    What the second sender counted is of this letter only if it has read that intent.
    """
    book = Book(revived=1)
    book.deliver("first", answered=True, pauses=1)
    book.witness._scheduler.now = ENDS + GRACE
    second = book.deliver("second", answered=True, published=1, in_doubt=in_doubt)
    assert (book.witness.counts, second.used) == (causes, used)


def test_what_sqs_does_not_bring_back_is_not_explained_by_having_read_nothing() -> None:
    book = Book()
    book.deliver("first", answered=False)
    with pytest.raises(Broken, match="has not said so"):
        book.deliver("second", answered=True, in_doubt=False)


def test_sqs_brings_back_one_of_three_letters_and_two_are_counted() -> None:
    simulate_shards(34_728_359)


def test_a_count_of_the_sender_is_free_again_when_another_one_counted_the_same_letter() -> None:
    """Which of the two counted is known only when the second letter comes."""
    witness: Any = object.__new__(Witness)
    witness.counts = Counter()
    admitter, sender = Process("admitter", published=1), Process("sender", published=1)
    witness._spend(Chunk(sender, frozenset(), ENDS, of_room=False), COPY, KILLED, sender, admitter)
    assert (sender.used, admitter.used) == (1, 0)
    assert sender.can_pay(1)
    assert (sender.used, admitter.used) == (0, 1)
    witness._spend(Chunk(sender, frozenset(), ENDS, of_room=False), COPY, KILLED, sender, admitter)
    assert not sender.can_pay(1)
    assert not admitter.can_pay(1)
