"""What an order says about one letter."""

from __future__ import annotations

import pytest

from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.order import Order
from deadletter.routing.decision import Decision, Hold, Redrive


def order(decision: Decision, attempt: int = 1) -> Order:
    letter = Letter("a", "")
    return Order(ReceivedLetter(letter, "handle", 0), decision, Stamp("a", attempt))


def test_a_first_backoff_is_shortened() -> None:
    first = order(Redrive(42, "attempt 1, backoff of 42 s"))
    assert first.shortened(1 / 3) == Redrive(14, "attempt 1, backoff of 42 s")
    assert first.shortened(1.0) == first.decision


@pytest.mark.parametrize(
    ("decision", "attempt"),
    [
        (Redrive(42, "delay of 42 s by rule later", rule="later"), 1),
        (Redrive(42, "attempt 2, backoff of 42 s"), 2),
        (Hold("due", 1_000.0, "attempt 1, backoff of 2000 s"), 1),
    ],
)
def test_a_delay_of_a_rule_or_of_a_later_attempt_stays(decision: Decision, attempt: int) -> None:
    assert order(decision, attempt).shortened(0.1) == decision
