"""What leaves the journal, and what has to stay in it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import DAY, HOUR
from deadletter.redrive.journal import (
    GRACE,
    OUT_OF_ROOM,
    ROOM,
    Intent,
    OpenIntents,
    Plan,
    key_of,
)
from deadletter.redrive.journal_sweep import (
    LONG_AGO,
    Explained,
    SweepStep,
    carry_out,
    empty_shards,
    shard_slot,
    shards_to_look_at,
    sweeps,
)
from deadletter.redrive.known_intents import Reading
from deadletter.redrive.waiting_room import FOREVER, OpenShard
from tests.redrive.test_journal import MemoryJournal

NOW = 100.0 * DAY + 5 * HOUR
ENDED = NOW - GRACE
NEW_ID = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"
SHARD = "room:due:3"


def intent(
    *copies: str, slot: str = "run.0", target: str = "main", expires: float = ENDED, **more: Any
) -> Intent:
    plans = tuple(Plan(key_of(copy), target, 1) for copy in copies)
    return Intent(slot, "earlier", 7, expires, plans, **{"home": "dlq", **more})


def out(*copies: str, slot: str = SHARD, **more: Any) -> Intent:
    return intent(*copies, slot=slot, target=OUT_OF_ROOM, home="", **more)


def reading(*intents: Intent, began: float = NOW) -> Reading:
    return Reading(
        began,
        intents,
        OpenIntents([entry for entry in intents if not entry.is_of_room], began),
        OpenIntents([entry for entry in intents if entry.is_of_room], began),
    )


def swept(*intents: Intent, **known: Any) -> list[SweepStep]:
    return sweeps(reading(*intents), Explained(home="dlq", **known), "now", NOW)


def keys(*copies: str) -> set[bytes]:
    return set(map(key_of, copies))


def left(step: SweepStep) -> list[tuple[bytes, bool]]:
    """The letters that a step leaves on record, and whether they are marked."""
    into = step.into
    if into is None:
        return []
    return [(plan.key, into.is_sent(at)) for at, plan in enumerate(into.plans)]


# By sight.


def test_letters_that_were_deleted_leave_their_intents() -> None:
    standing = intent("a", "b", "c").marked(["a", "c"], {"c": NEW_ID})
    [step] = swept(standing, left_queue=keys("a", "b"))
    assert step.parts == [standing]
    assert left(step) == [(key_of("c"), True)]
    assert step.into is not None
    assert (step.into.home, step.into.expires, step.into.new_ids) == ("dlq", ENDED, {0: NEW_ID})


def test_an_intent_without_an_unexplained_letter_goes() -> None:
    [step] = swept(intent("a"), left_queue=keys("a"))
    assert step.into is None


def test_an_intent_that_may_still_be_sent_under_is_left_alone() -> None:
    busy = intent("a", expires=ENDED + 0.001)
    assert swept(busy, left_queue=keys("a"), emptied_before=NOW + DAY) == []


def test_a_letter_that_left_the_room_says_nothing_of_its_copy_in_the_queue() -> None:
    assert swept(intent("a", target=ROOM), left_room=keys("a")) == []
    assert swept(out("a"), left_queue=keys("a")) == []


def test_the_mark_of_a_letter_that_left_the_room_stays_while_its_copy_may_be_in_the_queue() -> None:
    """Only this mark says that the copy must not be moved again."""
    marked = out("a", "b").marked(["a", "b"])
    busy = intent("a", target=ROOM, slot="run.1", expires=NOW + 60)
    for inward in (intent("a", target=ROOM), intent("a", target=ROOM).marked(["a"]), busy):
        [step] = swept(marked, inward, left_room=keys("a", "b"))
        assert left(step) == [(key_of("a"), True)]
    [step] = swept(marked, left_room=keys("a", "b"))
    assert step.into is None


# By an emptied queue.


def test_an_emptied_queue_explains_intents_that_ended_before() -> None:
    before, after = intent("a"), intent("b", slot="run.1", expires=ENDED - 1)
    [step] = swept(before, after, emptied_before=ENDED)
    assert step == SweepStep([after], None)


@pytest.mark.parametrize("home", ["slow", ""])
def test_an_emptied_queue_says_nothing_of_letters_in_another_one(home: str) -> None:
    assert swept(intent("a", home=home), emptied_before=NOW) == []


def test_an_emptied_queue_says_nothing_of_letters_in_the_room() -> None:
    assert swept(out("a"), emptied_before=NOW) == []


# By an emptied shard.


def test_an_empty_shard_explains_intents_that_ended_before() -> None:
    others = [out("b", slot="room:due:4"), out("c", slot=f"{SHARD}~x.1", expires=ENDED)]
    [step] = swept(out("a", expires=ENDED - 1), *others, empty_shards={SHARD: ENDED})
    assert step.into is None
    assert [part.slot for part in step.parts] == [SHARD]


def test_a_letter_that_may_be_in_the_queue_too_stays_when_its_shard_is_empty() -> None:
    inward = intent("a", target=ROOM)
    [step] = swept(out("a", "b"), inward, empty_shards={SHARD: NOW})
    assert left(step) == [(key_of("a"), False)]


@pytest.mark.parametrize(
    "slot",
    [SHARD, f"{SHARD}.1", f"{SHARD}~run.0.4", f"{SHARD}~~000000000000005.run"],
)
def test_each_name_of_an_intent_of_the_room_gives_its_shard(slot: str) -> None:
    assert shard_slot(slot) == SHARD


def test_a_lane_with_odd_signs_gives_its_shard() -> None:
    assert shard_slot("room:rule:a~b:7:2~run.1") == "room:rule:a~b:7:2"
    assert shard_slot("run.0~run.3") == "run.0~run.3"


def test_only_shards_of_intents_that_ended_long_ago_are_looked_at() -> None:
    long_ago = NOW - LONG_AGO - 1
    known = reading(
        out("a", expires=long_ago),
        out("b", slot=f"{SHARD}~x.1", expires=long_ago - 5),
        out("c", slot="room:circuit:x:0", expires=long_ago),
        out("d", slot="room:due:1", expires=NOW - LONG_AGO),
        intent("e", expires=long_ago),
    )
    assert shards_to_look_at(known, NOW - LONG_AGO) == {
        SHARD: OpenShard("due", 3, long_ago),
        "room:circuit:x:0": OpenShard("circuit:x", 0, FOREVER),
    }


def test_a_shard_with_a_letter_of_that_time_is_not_empty() -> None:
    class Room:
        def due(self, lane: str, shard: int, until: float, most: int) -> Sequence[str]:
            return ["a message"] if lane == "due" else []

    room: Any = Room()
    long_ago = NOW - LONG_AGO - 1
    known = reading(out("a", expires=long_ago), out("b", slot="room:rule:x:1", expires=long_ago))
    assert empty_shards(room, known, NOW) == {"room:rule:x:1": NOW - LONG_AGO}


def test_a_shard_is_looked_at_an_hour_after_its_intents_have_ended() -> None:
    """The counts of SQS and the room's index are late by minutes at most."""
    asked: list[tuple[str, int, float, int]] = []

    class Room:
        def due(self, lane: str, shard: int, until: float, most: int) -> Sequence[str]:
            asked.append((lane, shard, until, most))
            return []

    room: Any = Room()
    hour = out("a", expires=NOW - 3600)
    assert empty_shards(room, reading(hour), NOW) == {}
    over = out("a", expires=NOW - 3601)
    assert empty_shards(room, reading(over), NOW) == {SHARD: NOW - 3600}
    # One letter is enough to know that the shard is not empty.
    assert asked == [("due", 3, NOW - 3601, 1)]


def test_a_run_looks_into_eight_shards_at_most() -> None:
    standing = [out("a", slot=f"room:due:{n}", expires=NOW - DAY) for n in range(12)]
    assert list(shards_to_look_at(reading(*standing), NOW)) == [f"room:due:{n}" for n in range(8)]


def test_a_shard_is_looked_at_up_to_the_last_end_of_its_intents() -> None:
    """An intent in between that ended too lately, or is of a queue, hides none behind it."""
    first, last = NOW - 2 * DAY, NOW - DAY
    known = reading(
        intent("q", expires=first),
        out("d", slot="room:due:1", expires=NOW - 20),
        out("a", expires=first),
        out("b", slot=f"{SHARD}~x.1", expires=last),
        out("c", slot=f"{SHARD}~x.2", expires=first),
    )
    assert shards_to_look_at(known, NOW - 3600) == {SHARD: OpenShard("due", 3, last)}


# Merging.


def many(count: int, day: int = 0, **more: Any) -> list[Intent]:
    """Intents of one day, with a letter each."""
    return [
        intent(f"{day}-{n}", slot=f"run{day}-{n}.0", expires=ENDED - day * DAY - n, **more)
        for n in range(count)
    ]


def test_a_few_intents_are_not_merged() -> None:
    assert swept(*many(16, day=1)) == []
    assert len(swept(*many(17, day=1))) == 1


def test_many_intents_of_one_day_become_one() -> None:
    parts = [entry.marked(["1-3"]) for entry in many(17, day=1)]
    [step] = swept(*parts)
    assert step.parts == parts
    assert left(step) == [(key_of(f"1-{n}"), n == 3) for n in range(len(parts))]
    assert step.into is not None
    assert step.into.expires == parts[0].expires


def test_intents_of_other_days_queues_and_shards_are_not_merged() -> None:
    """Merged with younger ones again and again, an intent would never end."""
    apart = [
        *many(10, day=1),
        *many(10, day=2),
        *many(10, day=3, home="slow"),
        *[out("x", slot=f"{SHARD}~x.{n}", expires=ENDED - 4 * DAY) for n in range(10)],
        *[out("x", slot=f"room:due:4~x.{n}", expires=ENDED - 4 * DAY) for n in range(10)],
    ]
    steps = sweeps(reading(*apart), Explained(), "now", NOW)
    assert len(steps) == 2
    for step in steps:
        assert len(step.parts) == 10
        assert len({shard_slot(p.slot) if p.is_of_room else p.home for p in step.parts}) == 1
        assert len({part.expires // DAY for part in step.parts}) == 1


def test_intents_of_today_are_merged_when_they_are_many() -> None:
    old = [intent("x", slot=f"{n}", expires=ENDED - n * DAY) for n in range(1, 20)]
    assert swept(*many(8), *old) == []
    [step] = swept(*many(9), *old)
    assert len(step.parts) == 9


def test_two_intents_of_a_day_that_is_over_are_merged_when_all_are_many() -> None:
    old = [intent("x", slot=f"{n}", expires=ENDED - n * DAY) for n in range(2, 20)]
    [step] = swept(*many(2, day=1), *old)
    assert len(step.parts) == 2


def test_the_day_with_most_intents_is_merged_first() -> None:
    steps = swept(*many(4, day=1), *many(9, day=2), *many(3, day=3), *many(7, day=4))
    assert [len(step.parts) for step in steps] == [9, 7]


def test_what_is_explained_goes_before_what_is_only_merged() -> None:
    gone, many_more = intent("a", expires=ENDED - 5 * DAY), many(20, day=1)
    steps = swept(*many_more, gone, left_queue=keys("a"))
    assert [step.parts for step in steps] == [[gone], many_more]


def test_intents_with_an_explained_letter_are_merged_with_others_of_a_crowded_day() -> None:
    """One step does both: the explained letter goes, the others stand in the new intent."""
    parts = many(17, day=1)
    [step] = swept(*parts, left_queue=keys("1-5"))
    assert (step.parts[0].slot, len(step.parts), len(left(step))) == ("run1-5.0", 17, 16)
    # Such steps are not among the few that only merge.
    days = [entry for day in range(1, 5) for entry in many(10, day=day)]
    assert len(swept(*days, left_queue=keys("1-1", "2-2", "3-3", "4-4"))) == 4


def test_a_step_fits_into_a_transaction_and_an_item() -> None:
    steps = swept(*many(250, day=1))
    assert [len(step.parts) for step in steps] == [99, 99]
    for pair, parts in (
        ((3_333, 3_333), [3, 3]),
        ((5_000, 5_000), [2, 2]),
        ((5_000, 5_001), []),
    ):
        large = [
            replace(
                entry, plans=tuple(Plan(bytes([n]) * 16, "main", 1) for _ in range(pair[n % 2]))
            )
            for n, entry in enumerate(many(20, day=1))
        ]
        steps = swept(*large)
        assert [len(step.parts) for step in steps] == parts
        # No intent is left out that would have fitted.
        assert [entry for step in steps for entry in step.parts] == large[: sum(parts)]


def test_a_run_takes_so_many_steps_and_no_more() -> None:
    intents = many(25 * 99, day=1)
    steps = swept(*intents, emptied_before=NOW)
    assert [len(step.parts) for step in steps] == [99] * 20


def test_a_merged_intent_belongs_to_the_run_that_merges() -> None:
    [step] = swept(*many(17, day=1))
    assert step.into is not None
    assert (step.into.owner, step.into.sequence) == ("now", 1)
    assert step.into.slot == f"~{int(NOW * 1000) + 1:015d}.now"
    ahead = replace(step.into, slot="~000999999999999.zz")
    [step] = swept(ahead, *many(16, day=1))
    assert step.into is not None
    assert step.into.slot == "~001000000000000.now"


def test_a_merged_intent_is_read_after_all_its_parts() -> None:
    """A reading in pages would else pass its place before it is written, and then its parts'."""
    parts = many(17, day=1)
    [step] = swept(*parts)
    assert step.into is not None
    assert step.into.slot > max(part.slot for part in parts)
    # A merge by a run whose clock is ahead is merged again.
    again = replace(step.into, slot="~999999999999998.zz")
    [step] = swept(again, *many(16, day=1))
    assert step.into is not None
    assert step.into.slot > again.slot
    rooms = [out("x", slot=f"{SHARD}~zz.{n}", expires=ENDED - DAY) for n in range(17)]
    [step] = swept(*rooms)
    assert step.into is not None
    assert step.into.slot > max(part.slot for part in rooms)
    assert step.into.is_of_room
    assert shard_slot(step.into.slot) == SHARD


def test_two_steps_of_a_run_have_two_names() -> None:
    names = [step.into.slot for step in swept(*many(250, day=1)) if step.into]
    assert len(set(names)) == len(names) == 2


# Carrying out.


def in_journal(*intents: Intent) -> MemoryJournal:
    journal = MemoryJournal()
    journal.intents = {entry.slot: entry for entry in intents}
    return journal


def test_a_step_is_written_all_at_once() -> None:
    parts = many(17, day=1)
    journal = in_journal(*parts)
    carry_out(swept(*parts), journal, lambda: True)
    [merged_one] = journal.read()
    assert {plan.key for plan in merged_one.plans} == keys(*(f"1-{n}" for n in range(17)))


def test_an_intent_that_was_marked_meanwhile_is_left_alone_and_the_next_step_goes_on() -> None:
    first, second = intent("a"), intent("b", slot="run.1", expires=ENDED - DAY)
    journal = in_journal(first.marked(["a"]), second)
    carry_out(swept(first, second, left_queue=keys("a", "b")), journal, lambda: True)
    assert journal.read() == [first.marked(["a"])]


def test_nothing_is_written_without_time() -> None:
    journal = in_journal(intent("a"))
    carry_out(swept(intent("a"), left_queue=keys("a")), journal, lambda: False)
    assert journal.read() == [intent("a")]


def test_time_is_asked_for_before_each_step() -> None:
    first, second = intent("a"), intent("b", slot="run.1", expires=ENDED - DAY)
    journal = in_journal(first, second)
    steps = swept(first, second, left_queue=keys("a", "b"))
    answers = iter([True, False])
    carry_out(steps, journal, lambda: next(answers))
    assert journal.read() == [part for step in steps[1:] for part in step.parts]
    assert len(steps) == 2
