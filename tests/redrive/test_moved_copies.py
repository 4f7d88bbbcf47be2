"""A run remembers the last copies that it moved, and no more."""

from __future__ import annotations

from deadletter.message.confirmation import Confirmation
from deadletter.redrive.mover import MovedCopies


def confirmations(first: int, number: int) -> list[Confirmation]:
    return [Confirmation(f"copy{at}", "elsewhere") for at in range(first, first + number)]


def test_the_last_copies_are_remembered_and_no_more() -> None:
    moved = MovedCopies(most=10)
    moved.add(confirmations(0, 8))
    moved.add(confirmations(8, 7))
    assert moved.confirmation_of("copy4") is None
    assert moved.confirmation_of("copy5") == Confirmation("copy5", "elsewhere")
    assert moved.confirmation_of("copy14") == Confirmation("copy14", "elsewhere")
