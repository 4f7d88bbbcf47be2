"""What a worker writes to the journal, and what another worker may conclude from it."""

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
    plain = Intent("slot", "run", 1, expires, plans(*copies, target=target))
    return replace(plain, **more)  # type: ignore[arg-type]


# Keys and bits.


def test_the_key_of_a_uuid_is_its_bytes_and_of_any_other_id_a_digest() -> None:
    message_id = uuid.UUID("0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1")
    assert key_of(str(message_id)) == message_id.bytes
    assert len(key_of("not a uuid")) == len(key_of("")) == 16


@given(st.sets(st.uuids().map(str) | st.text(max_size=10), max_size=8))
def test_no_two_copies_share_a_key(copies: set[str]) -> None:
    assert len({key_of(copy) for copy in copies}) == len(copies)


_positions = st.sets(st.integers(0, 99))


@given(st.integers(0, 100), _positions, _positions)
def test_marks_name_exactly_the_confirmed_copies(
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
def test_the_slot_tells_whether_an_intent_empties_the_waiting_room(
    slot: str, of_room: bool
) -> None:
    assert intent(slot=slot).is_of_room is of_room


# What other workers conclude.


@pytest.mark.parametrize(
    ("now", "sent", "state"),
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
def test_a_letter_of_an_intent_is_sent_busy_or_unknown(now: float, sent: bool, state: str) -> None:
    written = intent("a", "b", target=ROOM)
    intents = open_intents([written.marked(["a"]) if sent else written], now)
    mark = Confirmation("a", "journal")
    assert intents.confirmation_of("a") == (mark if state == "sent" else None)
    assert intents.is_busy("a") is (state == "busy")
    assert intents.unknown_target("a") == (ROOM if state == "unknown" else None)
    # No intent names this letter.
    assert intents.confirmation_of("c") is None
    assert not intents.is_busy("c")
    assert intents.unknown_target("c") is None


def test_a_mark_in_any_intent_is_a_mark() -> None:
    intents = [intent("a").marked(["a"]), intent("a", owner="other", expires=NOW + 50)]
    for order in (intents, intents[::-1]):
        assert open_intents(order, NOW).confirmation_of("a") == Confirmation("a", "journal")


# A worker's slot.


class MemoryJournal:
    """A journal in memory. Of the next `lost` calls the answer is lost; they take effect."""

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
def memory() -> MemoryJournal:
    return MemoryJournal()


@pytest.fixture
def slot(memory: MemoryJournal) -> Slot:
    return Slot(memory, "run.0", "run")


def test_the_next_intent_overwrites_the_finished_one(memory: MemoryJournal, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    slot.mark(["a"])
    slot.intend(plans("b"), NOW)
    assert memory.read() == [Intent("run.0", "run", 2, NOW, plans("b"))]
    slot.close()
    assert memory.read() == []
    slot.close()
    slot.intend(plans("c"), NOW)
    assert len(memory.read()) == 1


def test_a_kept_intent_stays_and_the_next_one_goes_into_another_slot(
    memory: MemoryJournal, slot: Slot
) -> None:
    slot.intend(plans("a"), NOW)
    slot.keep(["a"])
    slot.intend(plans("b"), NOW)
    slot.close()
    assert memory.read() == [Intent("run.0", "run", 1, NOW, plans("a"))]


def test_a_kept_intent_can_still_be_marked(memory: MemoryJournal, slot: Slot) -> None:
    slot.intend(plans("a", "b"), NOW)
    slot.mark(["a"])
    slot.keep(["a"])
    slot.mark(["b"])
    slot.close()
    assert [kept.sent for kept in memory.read()] == [0b11]


def test_after_a_write_without_an_answer_the_next_intent_goes_into_another_slot(
    memory: MemoryJournal, slot: Slot
) -> None:
    slot.intend(plans("a"), NOW)
    memory.lost = 1
    with pytest.raises(JournalUnavailable):
        slot.intend(plans("b"), NOW)
    slot.intend(plans("c"), NOW)
    slot.close()
    assert [kept.plans for kept in memory.read()] == [plans("b")]


def test_a_mark_without_an_answer_does_not_stop_the_next_intent(
    memory: MemoryJournal, slot: Slot
) -> None:
    slot.intend(plans("a"), NOW)
    memory.lost = 1
    with pytest.raises(JournalUnavailable):
        slot.mark(["a"])
    slot.intend(plans("b"), NOW)
    assert [kept.plans for kept in memory.read()] == [plans("b")]


def test_a_slot_that_another_run_took_over_is_lost(memory: MemoryJournal, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    [current] = memory.read()
    heir = Slot(memory, "run.0", "heir", current)
    heir.intend(plans("b"), NOW)
    with pytest.raises(ClaimLost):
        slot.mark(["a"])
    with pytest.raises(ClaimLost):
        slot.intend(plans("c"), NOW)
    slot.close()
    assert memory.read() == [Intent("run.0", "heir", 2, NOW, plans("b"))]


def test_a_mark_without_an_intent_is_a_bug(slot: Slot) -> None:
    with pytest.raises(AssertionError):
        slot.mark(["a"])
