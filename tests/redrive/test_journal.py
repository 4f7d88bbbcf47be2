"""What a worker writes to the journal, and what another worker may conclude from it."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.message.confirmation import Confirmation
from deadletter.redrive.journal import (
    GRACE,
    MAX_PLANS,
    NOT_ON_RECORD,
    OUT_OF_ROOM,
    ROOM,
    ClaimLost,
    Intent,
    JournalUnavailable,
    OpenIntents,
    PackedPlans,
    Plan,
    Slot,
    key_of,
    merged,
)
from tests.each_row import each_row

NOW = 1_000.0
NEW_ID = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"


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


@pytest.mark.parametrize(
    "form",
    [str.upper, lambda text: text.replace("-", ""), "{{{}}}".format, "urn:uuid:{}".format],
)
def test_a_uuid_in_another_form_has_the_same_key(form: Callable[[str], str]) -> None:
    message_id = uuid.UUID("0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1")
    assert key_of(form(str(message_id))) == message_id.bytes


@given(st.sets(st.uuids().map(str) | st.text(max_size=10), max_size=8))
def test_no_two_copies_share_a_key(copies: set[str]) -> None:
    assert len({key_of(copy) for copy in copies}) == len(copies)


@st.composite
def _intents(draw: st.DrawFn) -> list[Intent]:
    """Intents of different letters, each with its own places, marks and new ids."""
    intents = []
    for number in range(draw(st.integers(1, 4))):
        targets = draw(st.lists(st.sampled_from(["main", ROOM, "parking:x"]), max_size=5))
        planned = [
            Plan(key_of(f"{number}.{at}"), target, draw(st.integers(0, 3)))
            for at, target in enumerate(targets)
        ]
        sent = draw(st.integers(0, 2 ** len(planned) - 1))
        marked = [at for at in range(len(planned)) if sent >> at & 1]
        new_ids = {at: f"{NEW_ID[:-4]}{number:02d}{at:02d}" for at in marked if draw(st.booleans())}
        expires = draw(st.floats(0, 100))
        made = Intent(f"slot{number}", "run", 1, expires, planned, sent, new_ids)
        intents.append(made.without_answers() if draw(st.booleans()) else made)
    return intents


def _said(intents: Sequence[Intent]) -> list[tuple[Plan, bool, bool, str | None]]:
    """What intents say of each of their letters."""
    return [
        (plan, each.is_sent(at), bool(each.unanswered >> at & 1), each.new_ids.get(at))
        for each in intents
        for at, plan in enumerate(each.plans)
    ]


@given(_intents(), st.sets(st.sampled_from([f"{n}.{at}" for n in range(4) for at in range(5)])))
def test_merged_intents_say_of_each_letter_what_the_single_ones_said(
    intents: list[Intent], without: set[str]
) -> None:
    whole, gone = merged(intents), set(map(key_of, without))
    assert _said([whole]) == _said(intents)
    assert (whole.slot, whole.expires) == ("slot0", max(each.expires for each in intents))
    assert _said([merged(intents, gone)]) == [
        told for told in _said(intents) if told[0].key not in gone
    ]


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
    slot = Slot(MemoryJournal(), "run.0", "run")
    with pytest.raises(ValueError, match="at most 100"):
        slot.intend(plans(*map(str, range(101))), NOW)


@pytest.mark.parametrize(
    ("slot", "of_room"),
    [("run1.0", False), ("run1.0.2", False), ("room:due:3", True), ("room:rule:x:3.1", True)],
)
def test_the_slot_tells_whether_an_intent_empties_the_waiting_room(
    slot: str, of_room: bool
) -> None:
    assert intent(slot=slot).is_of_room is of_room


# Plans as they are stored.


def test_plans_are_read_like_any_sequence() -> None:
    three = PackedPlans.of(plans("a", "b") + plans("c", target="parking:x"))
    assert list(three) == [*plans("a", "b"), *plans("c", target="parking:x")]
    assert len(three) == 3
    assert three[-1] == plans("c", target="parking:x")[0]
    for outside in (3, -4):
        with pytest.raises(IndexError):
            three[outside]
    assert three == PackedPlans.of(list(three))
    assert three != PackedPlans.of(plans("a", "b", "c"))
    assert three != 3


def test_an_attempt_above_255_is_stored_as_255() -> None:
    attempts = [0, 254, 255, 256, 70_000]
    packed = PackedPlans.of(Plan(key_of("a"), "main", attempt) for attempt in attempts)
    assert [plan.attempt for plan in packed] == [0, 254, 255, 255, 255]


def test_stored_plans_that_are_damaged_are_refused() -> None:
    whole = PackedPlans.of(plans("a", "b") + plans("c", target="parking:x"))
    assert len(whole.packed) == 54
    assert PackedPlans(b"", ()) == ()
    for cut in (1, 17):
        with pytest.raises(ValueError, match="cut off"):
            PackedPlans(whole.packed[:-cut], whole.targets)
    with pytest.raises(ValueError, match="missing"):
        PackedPlans(whole.packed, whole.targets[:1])


def test_an_intent_that_was_merged_holds_ten_thousand_letters_and_no_more() -> None:
    key = key_of("a")
    many = PackedPlans((key + bytes(2)) * 10_001, ("main",))
    assert len(Intent("slot", "run", 1, NOW, PackedPlans(many.packed[18:], ("main",))).plans)
    with pytest.raises(ValueError, match="10000"):
        Intent("slot", "run", 1, NOW, many)


# What other workers conclude.


@each_row(
    ("now", "sent", "state"),
    [
        (NOW - 1, True, "sent"),
        (NOW + 10_000, True, "sent"),
        (NOW - 1, False, "busy"),
        (NOW, False, "busy"),
        (NOW + 14.999, False, "busy"),
        (NOW + 15, False, "unknown"),
        (NOW + 10_000, False, "unknown"),
    ],
)
def test_a_letter_of_an_intent_is_sent_busy_or_unknown(now: float, sent: bool, state: str) -> None:
    written = intent("a", "b", target=ROOM)
    intents = OpenIntents([written.marked(["a"]) if sent else written], now)
    mark = Confirmation("a", "journal")
    record = intents.record_of("a")
    assert record.mark == (mark if state == "sent" else None)
    assert record.is_busy is (state == "busy")
    assert record.maybe_stored is (state == "unknown")
    assert not record.maybe_sent
    assert record.is_named
    # No intent names this letter.
    assert intents.record_of("c") == NOT_ON_RECORD


@pytest.mark.parametrize("target", ["main", "parking:default", OUT_OF_ROOM])
def test_a_letter_may_have_been_sent_whatever_another_intent_says_of_it(target: str) -> None:
    """One intent may have sent it, and another one put it into the waiting room."""
    intents = OpenIntents([intent("a", target=ROOM), intent("a", target=target)], NOW + GRACE)
    record = intents.record_of("a")
    assert record.maybe_sent
    assert record.maybe_stored


def test_letters_with_the_same_first_bytes_are_told_apart() -> None:
    first, second = (str(uuid.UUID(int=(7 << 64) + n)) for n in range(2))
    intents = OpenIntents([intent(first)], NOW)
    assert intents.record_of(first).is_busy
    assert intents.record_of(second) == NOT_ON_RECORD


def test_each_letter_of_an_intent_is_known_by_its_own_target_and_mark() -> None:
    mixed = Intent(
        "slot",
        "run",
        1,
        NOW,
        [Plan(key_of(str(n)), ("main", ROOM, "parking:x")[n % 3], n) for n in range(100)],
    ).marked([str(n) for n in range(0, 100, 7)], {"7": NEW_ID, "8": NEW_ID, "14": "no UUID"})
    intents = OpenIntents([mixed], NOW + GRACE)
    for n in range(100):
        record = intents.record_of(str(n))
        assert (record.mark is not None) is (n % 7 == 0)
        assert record.maybe_stored is (n % 7 != 0 and n % 3 == 1)
        assert record.maybe_sent is (n % 7 != 0 and n % 3 != 1)
        without_stamp = (NEW_ID, Plan(key_of("7"), ROOM, 7))
        assert record.unrecorded == (without_stamp if n == 7 else None)


def test_a_lost_answer_is_told_from_a_killed_run() -> None:
    """A killed process had no time to explain what it left in its slot."""
    left = intent("a", "b", slot="killed").marked(["a"])
    kept = intent("c", "d", slot="kept").marked(["c"]).without_answers()
    standing = merged([left, kept, intent("e", slot="other")], {key_of("e")})
    for intents in ([left, kept], [standing], [standing.only({key_of("b"), key_of("d")}, "part")]):
        records = [OpenIntents(intents, NOW + GRACE).record_of(copy) for copy in "abcde"]
        assert [record.maybe_sent for record in records] == [False, True, False, True, False]
        assert [record.had_no_answer for record in records] == [False] * 3 + [True, False]


def test_a_mark_in_any_intent_is_a_mark() -> None:
    intents = [intent("a").marked(["a"]), intent("a", owner="other", expires=NOW + 50)]
    for order in (intents, intents[::-1]):
        assert OpenIntents(order, NOW).record_of("a").mark == Confirmation("a", "journal")


# A worker's slot.


class MemoryJournal:
    """A journal in memory. Of the next `lost` calls the answer is lost; they take effect."""

    def __init__(self) -> None:
        self.intents: dict[str, Intent] = {}
        self.lost = 0
        self.down = False
        self._watched: tuple[bytes, list[bool]] = (b"", [])

    def watch(self, key: bytes) -> list[bool]:
        """Whether a letter is on record after each write from now on."""
        self._watched = (key, [])
        return self._watched[1]

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        self._receive()
        if self.intents.get(intent.slot) != intent:
            if self._identity(intent.slot) != self._identity_of(replacing):
                raise ClaimLost(intent.slot)
            self.intents[intent.slot] = intent
        self._answer()

    def mark(self, intent: Intent) -> None:
        self._receive()
        if self._identity(intent.slot) != self._identity_of(intent):
            raise ClaimLost(intent.slot)
        self.intents[intent.slot] = intent
        self._answer()

    def erase(self, intent: Intent) -> None:
        self._receive()
        if self._identity(intent.slot) == self._identity_of(intent):
            del self.intents[intent.slot]
        self._answer()

    def merge(self, parts: Sequence[Intent], into: Intent | None) -> None:
        if any(self.intents.get(part.slot) != part for part in parts):
            raise ClaimLost(parts[0].slot)
        for part in parts:
            del self.intents[part.slot]
        if into is not None:
            self.intents[into.slot] = into
        self._answer()

    def read(self) -> list[Intent]:
        return list(self.intents.values())

    def _receive(self) -> None:
        if self.down:
            raise JournalUnavailable

    def _answer(self) -> None:
        key, on_record = self._watched
        on_record.append(any(plan.key == key for intent in self.read() for plan in intent.plans))
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
    return Slot(memory, "run.0", "run", home="dlq")


def test_the_next_intent_overwrites_the_finished_one(memory: MemoryJournal, slot: Slot) -> None:
    slot.intend(plans("a"), NOW)
    slot.mark(["a"])
    slot.intend(plans("b"), NOW)
    assert memory.read() == [Intent("run.0", "run", 2, NOW, plans("b"), home="dlq")]
    slot.close()
    assert memory.read() == []
    slot.close()
    slot.intend(plans("c"), NOW)
    # A late mark of the first intent would fit a third one that began again with 1.
    assert [written.sequence for written in memory.read()] == [3]


def test_only_the_kept_letters_of_an_intent_stand_in_an_item_of_their_own(
    memory: MemoryJournal, slot: Slot
) -> None:
    slot.intend(plans("a", "b", "c"), NOW)
    slot.mark(["b", "c"], {"c": NEW_ID})
    slot.keep(["a"])
    slot.keep(["c"])
    slot.intend(plans("d"), NOW + 5)
    slot.close()
    standing = Intent(
        "run.0~run.1", "run", 1, NOW, plans("a", "c"), 0b10, {1: NEW_ID}, "dlq", unanswered=0b01
    )
    assert memory.read() == [standing]
    assert [copy for copy in "abcd" if slot.keeps(copy)] == ["a", "c"]


def test_the_slot_is_overwritten_only_when_the_kept_letters_stand(
    memory: MemoryJournal, slot: Slot
) -> None:
    """The process may die between any two writes: the kept letters are always on record."""
    slot.intend(plans("a"), NOW)
    slot.keep(["a"])
    seen = memory.watch(key_of("a"))
    slot.intend(plans("b"), NOW)
    slot.close()
    assert len(seen) == 3
    assert all(seen)


@pytest.mark.parametrize("end", [lambda slot: slot.intend(plans("b"), NOW), Slot.close])
def test_the_slot_stays_as_it_is_while_the_kept_letters_cannot_be_written(
    memory: MemoryJournal, slot: Slot, end: Callable[[Slot], None]
) -> None:
    slot.intend(plans("a"), NOW)
    slot.keep(["a"])
    memory.down = True
    with pytest.raises(JournalUnavailable):
        end(slot)
    memory.down = False
    assert [kept.slot for kept in memory.read()] == ["run.0"]
    end(slot)
    slot.close()
    assert [kept.plans for kept in memory.read()] == [plans("a")]


def test_a_kept_letter_can_still_be_marked(memory: MemoryJournal, slot: Slot) -> None:
    slot.intend(plans("a", "b"), NOW)
    slot.mark(["a"])
    slot.keep(["b"])
    slot.mark(["b"])
    slot.close()
    assert [kept.sent for kept in memory.read()] == [0b1]


def test_a_mark_that_could_not_be_written_is_in_the_kept_letters(
    memory: MemoryJournal, slot: Slot
) -> None:
    slot.intend(plans("a"), NOW)
    memory.down = True
    with pytest.raises(JournalUnavailable):
        slot.mark(["a"])
    memory.down = False
    slot.keep(["a"])
    slot.close()
    assert [kept.sent for kept in memory.read()] == [0b1]


@pytest.mark.parametrize("took_effect", [True, False])
def test_after_a_write_without_an_answer_the_slot_is_written_again(
    memory: MemoryJournal, slot: Slot, took_effect: bool
) -> None:
    slot.intend(plans("a"), NOW)
    memory.lost, memory.down = int(took_effect), not took_effect
    with pytest.raises(JournalUnavailable):
        slot.intend(plans("b"), NOW)
    memory.down = False
    slot.intend(plans("c"), NOW)
    assert [kept.plans for kept in memory.read()] == [plans("c")]
    slot.close()
    assert memory.read() == []


@pytest.mark.parametrize("took_effect", [True, False])
def test_a_first_write_without_an_answer_leaves_nothing_behind(
    memory: MemoryJournal, slot: Slot, took_effect: bool
) -> None:
    memory.lost, memory.down = int(took_effect), not took_effect
    with pytest.raises(JournalUnavailable):
        slot.intend(plans("a"), NOW)
    memory.down = False
    slot.close()
    assert memory.read() == []


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
