"""What the workers of one run know of the journal, and when they look again."""

from __future__ import annotations

from deadletter.message.confirmation import Confirmation
from deadletter.redrive.journal import OUT_OF_ROOM, ROOM, Intent, Plan, key_of
from deadletter.redrive.known_intents import MOMENT, KnownIntents
from deadletter.testing.clock import Clock
from tests.redrive.test_journal import MemoryJournal

NEW_ID = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"


class CountedJournal(MemoryJournal):
    reads = 0

    def read(self) -> list[Intent]:
        self.reads += 1
        return super().read()


def known(*intents: Intent) -> tuple[KnownIntents, CountedJournal, Clock]:
    journal, clock = CountedJournal(), Clock()
    journal.intents = {intent.slot: intent for intent in intents}
    return KnownIntents(journal, clock), journal, clock


def intent(*copies: str, slot: str = "run.0", target: str = "main", expires: float = 0) -> Intent:
    return Intent(slot, "run", 1, expires, [Plan(key_of(copy), target, 1) for copy in copies])


def test_a_reading_is_used_again_for_thirty_seconds() -> None:
    intents, journal, clock = known()
    for _ in range(3):
        intents.recent()
    clock.advance(29.999)
    intents.recent()
    assert journal.reads == 1
    clock.advance(0.001)
    intents.recent()
    assert journal.reads == 2


def test_a_reading_for_an_unknown_letter_is_a_few_seconds_old_at_most() -> None:
    intents, journal, clock = known()
    intents.recent()
    clock.advance(5)
    intents.recent()
    assert journal.reads == 1
    intents.recent(MOMENT)
    assert journal.reads == 2
    clock.advance(4.999)
    intents.recent(MOMENT)
    assert journal.reads == 2


def test_a_fresh_reading_is_always_read() -> None:
    intents, journal, _ = known()
    intents.recent()
    assert intents.fresh() is intents.last
    assert journal.reads == 2


def test_the_age_of_a_reading_counts_from_its_beginning() -> None:
    """What was written while it was read may not be in it."""
    intents, journal, clock = known()
    read = journal.read

    def slow_read() -> list[Intent]:
        found = read()
        clock.advance(20)
        return found

    journal.read = slow_read  # type: ignore[method-assign]
    intents.recent()
    clock.advance(10)
    intents.recent()
    assert journal.reads == 2


def test_a_reading_says_what_queues_and_what_the_room_say() -> None:
    now = Clock()()
    intents, _, _ = known(
        intent("sent", slot="a").marked(["sent"], {"sent": NEW_ID}),
        intent("gone", slot="room:due:1", target=OUT_OF_ROOM).marked(["gone"]),
        intent("busy", slot="b", expires=now),
        intent("claimed", slot="room:due:2", target=OUT_OF_ROOM, expires=now),
        intent("repeat", slot="c"),
        intent("inward", slot="d", target=ROOM),
        intent("outward", slot="room:due:3", target=OUT_OF_ROOM),
    )
    reading = intents.recent()
    names = ("sent", "gone", "busy", "claimed", "repeat", "inward", "outward", "other")
    records = {name: reading.of_queue(name) for name in names}
    assert records["sent"].mark == Confirmation("sent", "journal")
    assert records["gone"].mark == Confirmation("gone", "journal")
    assert [name for name in names if records[name].is_busy] == ["busy", "claimed"]
    assert [name for name in names if records[name].maybe_sent] == ["repeat", "outward"]
    assert [name for name in names if records[name].maybe_stored] == ["inward", "outward"]
    assert [name for name in names if not records[name].is_named] == ["other"]
    assert records["sent"].unrecorded == (NEW_ID, Plan(key_of("sent"), "main", 1))
    assert records["gone"].unrecorded is None
    # In the room, what moved a letter there is a reason to wait, and none to take it out.
    there = reading.of_lane("room:due:9", names)
    assert [name for name in names if there[name].mark] == ["gone"]
    assert [name for name in names if there[name].is_busy] == ["busy", "claimed"]
    assert [name for name in names if there[name].maybe_sent] == ["outward"]
    assert [name for name in names if there[name].maybe_stored] == ["inward"]


def test_the_claim_on_a_shard_is_no_reason_to_leave_its_letters() -> None:
    now = Clock()()
    intents, _, _ = known(
        intent("a", slot="room:due:1", target=OUT_OF_ROOM, expires=now),
        intent("b", slot="room:due:1~x.1", target=OUT_OF_ROOM, expires=now),
    )
    others = intents.recent().of_lane("room:due:1", "ab")
    assert not others["a"].is_busy
    assert others["b"].is_busy


def test_only_intents_whose_end_and_grace_are_over_have_ended() -> None:
    now = Clock()()
    over = intent("a", slot="a", expires=now - 15)
    intents, _, _ = known(over, intent("b", slot="b", expires=now - 14.999))
    assert intents.recent().ended() == [over]


def test_a_letter_in_hand_is_not_taken_twice() -> None:
    intents, _, _ = known()
    assert intents.take(["a", "b"]) == {"a", "b"}
    assert intents.take(["b", "c"]) == {"c"}
    intents.put_back({"a", "b"})
    assert intents.take(["a", "b", "c"]) == {"a", "b"}


def test_only_letters_on_record_are_noted_as_gone() -> None:
    """The memory of a run does not grow with the letters that it moves."""
    intents, _, _ = known(intent("a", slot="a"), intent("b", slot="room:due:1", target=OUT_OF_ROOM))
    intents.recent()
    intents.note_gone(["a", "b", "c"])
    assert intents.left_queue == {key_of("a")}
    intents.note_gone(["a", "b", "c"], from_room=True)
    assert intents.left_room == {key_of("b")}
