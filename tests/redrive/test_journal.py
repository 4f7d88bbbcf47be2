"""What one worker writes down, and what another may conclude from it."""

from __future__ import annotations

import uuid
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.confirmation import Confirmation
from deadletter.redrive.journal import (
    GRACE,
    MAX_PLANS,
    ROOM,
    ClaimLost,
    Intent,
    JournalUnavailable,
    Plan,
    Slot,
    key_of,
    open_intents,
)

NOW = 1_000.0


def plans(*copies: str, target: str = "main") -> tuple[Plan, ...]:
    return tuple(Plan(key_of(copy), target, 1) for copy in copies)


def intent(*copies: str, target: str = "main", expires: float = NOW, **more: object) -> Intent:
    made = Intent("slot", "run", 1, expires, plans(*copies, target=target))
    return replace(made, **more)  # type: ignore[arg-type]


# Keys and bits.


def test_an_id_of_sqs_is_packed_as_it_is_and_any_other_as_its_digest() -> None:
    one = uuid.UUID("0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1")
    assert key_of(str(one)) == one.bytes
    assert len(key_of("not a uuid")) == len(key_of("")) == 16


@given(st.sets(st.uuids().map(str) | st.text(max_size=10), max_size=8))
def test_no_two_copies_share_a_key(copies: set[str]) -> None:
    assert len({key_of(copy) for copy in copies}) == len(copies)


_positions = st.sets(st.integers(0, 99))


@given(st.integers(0, 100), _positions, _positions)
def test_marks_name_the_very_copies_that_were_confirmed(
    length: int, first: set[int], second: set[int]
) -> None:
    copies = [str(number) for number in range(length)]
    marked = intent(*copies).marked([*map(str, first)]).marked([*map(str, second), "another's"])
    for position in range(length):
        assert marked.is_sent(position) is (position in first | second)
    assert marked.sent < 1 << length


def test_an_intent_holds_a_hundred_letters_and_no_more() -> None:
    assert len(intent(*map(str, range(100))).plans) == MAX_PLANS
    with pytest.raises(ValueError, match="at most 100"):
        intent(*map(str, range(101)))


@pytest.mark.parametrize(
    ("slot", "of_room"),
    [("run1.0", False), ("run1.0.2", False), ("room:due:3", True), ("room:rule:x:3.1", True)],
)
def test_an_intent_knows_whether_it_empties_the_waiting_room(slot: str, of_room: bool) -> None:
    assert intent(slot=slot).is_of_room is of_room


# What others conclude.


@pytest.mark.parametrize(
    ("now", "sent", "says"),
    [
        (NOW - 1, True, "sent"),
        (NOW + 10_000, True, "sent"),
        (NOW - 1, False, "busy"),
        (NOW, False, "busy"),
        (NOW + GRACE - 0.001, False, "busy"),
        (NOW + GRACE, False, "unknown"),
        (NOW + 10_000, False, "unknown"),
    ],
)
def test_what_an_intent_says_of_its_letters(now: float, sent: bool, says: str) -> None:
    one = intent("a", "b", target=ROOM)
    opens = open_intents([one.marked(["a"]) if sent else one], now)
    assert opens.confirmation_of("a") == (Confirmation("a", "journal") if says == "sent" else None)
    assert opens.is_busy("a") is (says == "busy")
    assert opens.unknown_target("a") == (ROOM if says == "unknown" else None)
    # Of a letter that no intent names nothing is known.
    assert opens.confirmation_of("c") is None
    assert not opens.is_busy("c")
    assert opens.unknown_target("c") is None


def test_a_mark_in_any_intent_is_a_mark() -> None:
    intents = [intent("a").marked(["a"]), intent("a", owner="other", expires=NOW + 50)]
    for order in (intents, intents[::-1]):
        assert open_intents(order, NOW).confirmation_of("a") == Confirmation("a", "journal")


# A worker's slot.


class Shelf:
    """A journal in memory; `lost` answers do not arrive although the call took effect."""

    def __init__(self) -> None:
        self.intents: dict[str, Intent] = {}
        self.lost = 0

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        if self._identity(intent.slot) != self._identity_of(replacing):
            raise ClaimLost(intent.slot)
        self.intents[intent.slot] = intent
        self._answer()

    def mark(self, intent: Intent) -> None:
        if self._identity(intent.slot) != self._identity_of(intent):
            raise ClaimLost(intent.slot)
        self.intents[intent.slot] = intent
        self._answer()

    def erase(self, intent: Intent) -> None:
        if self._identity(intent.slot) == self._identity_of(intent):
            del self.intents[intent.slot]

    def read(self) -> list[Intent]:
        return list(self.intents.values())

    def _answer(self) -> None:
        if self.lost:
            self.lost -= 1
            raise JournalUnavailable

    def _identity(self, slot: str) -> tuple[str, int] | None:
        return self._identity_of(self.intents.get(slot))

    def _identity_of(self, intent: Intent | None) -> tuple[str, int] | None:
        return (intent.owner, intent.sequence) if intent else None


@pytest.fixture
def shelf() -> Shelf:
    return Shelf()


@pytest.fixture
def slot(shelf: Shelf) -> Slot:
    return Slot(shelf, "run.0", "run")


def test_the_next_intent_overwrites_the_finished_one(shelf: Shelf, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    slot.mark(["a"])
    slot.intend(plans("b"), NOW)
    assert shelf.read() == [Intent("run.0", "run", 2, NOW, plans("b"))]
    slot.close()
    assert shelf.read() == []
    slot.close()
    slot.intend(plans("c"), NOW)
    assert len(shelf.read()) == 1


def test_a_kept_intent_stands_and_the_next_one_goes_elsewhere(shelf: Shelf, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    slot.keep()
    slot.intend(plans("b"), NOW)
    slot.close()
    assert shelf.read() == [Intent("run.0", "run", 1, NOW, plans("a"))]


def test_a_kept_intent_can_still_be_marked(shelf: Shelf, slot: Slot) -> None:
    slot.intend(plans("a", "b"), NOW)
    slot.mark(["a"])
    slot.keep()
    slot.mark(["b"])
    slot.close()
    assert [one.sent for one in shelf.read()] == [0b11]


def test_after_a_write_without_an_answer_the_next_one_goes_elsewhere(
    shelf: Shelf, slot: Slot
) -> None:
    slot.intend(plans("a"), NOW)
    shelf.lost = 1
    with pytest.raises(JournalUnavailable):
        slot.intend(plans("b"), NOW)
    slot.intend(plans("c"), NOW)
    slot.close()
    assert [one.plans for one in shelf.read()] == [plans("b")]


def test_a_mark_without_an_answer_does_not_stop_the_next_intent(shelf: Shelf, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    shelf.lost = 1
    with pytest.raises(JournalUnavailable):
        slot.mark(["a"])
    slot.intend(plans("b"), NOW)
    assert [one.plans for one in shelf.read()] == [plans("b")]


def test_a_slot_that_somebody_took_over_is_lost(shelf: Shelf, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    found = shelf.read()[0]
    heir = Slot(shelf, "run.0", "heir", found)
    heir.intend(plans("b"), NOW)
    with pytest.raises(ClaimLost):
        slot.mark(["a"])
    with pytest.raises(ClaimLost):
        slot.intend(plans("c"), NOW)
    slot.close()
    assert shelf.read() == [Intent("run.0", "heir", 2, NOW, plans("b"))]


def test_a_mark_without_an_intent_is_a_fault_of_ours(slot: Slot) -> None:
    with pytest.raises(AssertionError):
        slot.mark(["a"])
