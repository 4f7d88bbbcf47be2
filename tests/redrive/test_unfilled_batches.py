"""Letters that fill no batch wait for more to the same place, not long, and never in vain."""

from __future__ import annotations

from collections.abc import Sequence

from deadletter.redrive.journal import MAX_PLANS
from deadletter.redrive.order import Order
from deadletter.redrive.sending import MOST_WAIT, UnfilledBatches
from deadletter.routing.decision import Decision, Divert, Hold, Redrive
from deadletter.testing.clock import START, Clock
from tests.redrive.test_one_move import order

BACK = Redrive(0, "again")
AWAY = Divert("slow", "tenant")


class Worker:
    """A worker's letters that wait; `past` are letters that may not."""

    def __init__(self) -> None:
        self.clock = Clock(START)
        self.unfilled = UnfilledBatches(self.clock, self.target_of)
        self.letters_come = True
        self.past: set[str] = set()
        self._numbers = iter(range(10_000))

    def target_of(self, decision: Decision) -> str:
        return "slow" if isinstance(decision, Divert) else "main"

    def judged(self, number: int, decision: Decision = BACK) -> list[Order]:
        return [order(f"{next(self._numbers)}", decision) for _ in range(number)]

    def moves(self, orders: Sequence[Order] = ()) -> list[str]:
        moved = self.unfilled.take(orders, self.may_wait, MAX_PLANS)
        assert len([each for each in moved if not isinstance(each.decision, Hold)]) <= MAX_PLANS
        return [each.copy for each in moved]

    def may_wait(self, order: Order) -> bool:
        return self.letters_come and order.copy not in self.past

    @property
    def waiting(self) -> list[str]:
        return [each.copy for each in self.unfilled.orders]


def test_the_newest_letters_that_fill_no_batch_wait_for_the_next_chunk() -> None:
    worker = Worker()
    assert len(worker.moves([*worker.judged(12), *worker.judged(7, AWAY)])) == 10
    assert worker.waiting == ["10", "11", *map(str, range(12, 19))]
    moved = worker.moves([*worker.judged(8), *worker.judged(4, AWAY)])
    assert moved == [str(at) for at in range(10, 30)]
    assert worker.waiting == ["30"]


def test_full_batches_wait_for_nothing() -> None:
    worker = Worker()
    assert len(worker.moves(worker.judged(100))) == 100
    assert worker.waiting == []


def test_nothing_waits_when_no_more_letters_come() -> None:
    worker = Worker()
    worker.moves(worker.judged(7))
    assert len(worker.waiting) == 7
    worker.letters_come = False
    assert len(worker.moves(worker.judged(5, AWAY))) == 12
    assert worker.waiting == []


def test_no_letter_waits_longer_than_two_seconds_and_then_its_batch_goes_as_it_is() -> None:
    worker = Worker()
    worker.moves([*worker.judged(3), *worker.judged(2, AWAY)])
    worker.clock.advance(MOST_WAIT / 2)
    assert worker.moves(worker.judged(1, AWAY)) == []
    worker.clock.advance(MOST_WAIT / 2)
    assert len(worker.moves(worker.judged(1))) == 7
    assert worker.waiting == []


def test_a_letter_with_a_past_does_not_wait() -> None:
    worker = Worker()
    worker.past = {"1"}
    assert worker.moves(worker.judged(3)) == ["0", "1", "2"]


def test_one_move_never_has_more_letters_than_an_intent() -> None:
    worker = Worker()
    worker.moves([*worker.judged(19), *worker.judged(9, AWAY)])
    worker.letters_come = False
    assert len(worker.moves(worker.judged(100))) == MAX_PLANS
    assert len(worker.waiting) == 18
    assert len(worker.moves()) == 18
    assert worker.waiting == []


def test_what_goes_into_the_waiting_room_does_not_wait_here() -> None:
    worker = Worker()
    assert len(worker.moves(worker.judged(3, Hold("due", START + 100, "later")))) == 3


def test_a_letter_moves_once() -> None:
    worker = Worker()
    moved: list[str] = []
    for number in (13, 44, 9, 71, 100, 100, 3):
        moved += worker.moves([*worker.judged(number // 2), *worker.judged(number // 2, AWAY)])
    worker.letters_come = False
    while worker.waiting:
        moved += worker.moves()
    assert sorted(moved, key=int) == [str(at) for at in range(len(moved))]
    assert len(moved) == sum(2 * (n // 2) for n in (13, 44, 9, 71, 100, 100, 3))
