"""Which letter is the canary, how long it is locked, and what becomes of those passed over."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import END_OF_TIME
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.outage.canaries import (
    Canary,
    CanaryResult,
    DlqCanaries,
    LaneCanaries,
    NotInLaneYet,
    RefilledLane,
)
from deadletter.redrive.journal import (
    ClaimLost,
    Intent,
    JournalUnavailable,
    OpenIntents,
    Plan,
    Slot,
    key_of,
)
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import (
    SHARDS,
    Lane,
    RoomContents,
    RoomUnavailable,
    Wait,
    WaitingRoomEntry,
)
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import Verdict
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.outage.test_canary_sources import MemoryJournal, canary_setup
from tests.samples import NOW, letter, received, verdict

KEY = "orders"
LANE = "circuit:orders"


@dataclass
class LetterQueue:
    """A queue that gives its letters one by one, and keeps what it was told."""

    letters: list[Letter] = field(default_factory=list)
    receives: list[tuple[int, int, int]] = field(default_factory=list)
    waits: list[tuple[str, int]] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    deletes: bool = True

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> list[ReceivedLetter]:
        self.receives.append((most, lock_seconds, wait_seconds))
        batch, self.letters = self.letters[:most], self.letters[most:]
        return [received(message) for message in batch]

    def make_visible(self, handles: Sequence[str]) -> None:
        self.waits += [(handle, 0) for handle in handles]

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        self.waits += waits
        return 0

    def delete(self, letters: Any) -> list[ReceivedLetter]:
        if not self.deletes:
            return [taken for taken, _ in letters]
        self.deleted += [taken.letter.message_id for taken, _ in letters]
        return []


def letters(*names: str) -> list[Letter]:
    return [letter(message_id=name) for name in names]


def handles(*names: str) -> list[tuple[str, int]]:
    """Those letters visible at once."""
    return [(f"handle of {name}", 0) for name in names]


@dataclass
class Chosen:
    """Accepts only the letters with these names."""

    names: set[str]
    asked: list[tuple[str, str]] = field(default_factory=list)

    def __call__(self, received: ReceivedLetter, key: str) -> Verdict | None:
        copy = received.letter.message_id
        self.asked.append((copy, key))
        return verdict(copy, Hold(LANE, NOW, "open")) if copy in self.names else None


@dataclass
class SharedJournal(MemoryJournal):
    """A journal that other runs write too; `rival` has claimed the slot that is written next."""

    rival: bool = False
    meanwhile: Callable[[], None] = lambda: None
    written: list[Intent] = field(default_factory=list)

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        if self.rival:
            raise ClaimLost(intent.slot)
        super().write(intent, replacing)
        self.written.append(intent)
        self.meanwhile()


def others_intent(slot: str, copy: str = "other", *, expires: float = NOW + 60) -> Intent:
    return Intent(slot, "another", 1, expires, [Plan(key_of(copy), "main", 0)])


@dataclass
class Room:
    """Letters in lanes; every one of them lies in the shard named for it."""

    held: dict[tuple[str, int], list[Letter]] = field(default_factory=dict)
    groups: dict[str, Wait] = field(default_factory=dict)
    asked: list[tuple[str, int, float, int]] = field(default_factory=list)
    groups_asked: list[tuple[list[str], str]] = field(default_factory=list)
    locks: list[float] = field(default_factory=list)
    deleted: list[str] = field(default_factory=list)
    down: bool = False
    gone: bool = False

    def lanes(self) -> list[Lane]:
        return [Lane(name, 0.0) for name in {lane for lane, _ in self.held}]

    def due(self, lane: str, shard: int, until: float, most: int) -> list[WaitingRoomEntry]:
        self.asked.append((lane, shard, until, most))
        return [
            WaitingRoomEntry(message.message_id, message.message_id, lane, shard, 0.0)
            for message in self.held.get((lane, shard), [])
        ][:most]

    def read(self, entries: Sequence[WaitingRoomEntry], locked_until: float) -> RoomContents:
        if self.down:
            raise RoomUnavailable("down")
        self.locks.append(locked_until)
        if self.gone:
            return RoomContents([], 0)
        return RoomContents(
            [ReceivedLetter(letter(message_id=entry.copy), "", locked_until) for entry in entries],
            broken=0,
        )

    def waits(self, groups: Sequence[str], home: str) -> dict[str, Wait]:
        self.groups_asked.append((list(groups), home))
        return {group: self.groups[group] for group in groups if group in self.groups}

    def delete(self, letters: Any) -> list[ReceivedLetter]:
        self.deleted += [taken.letter.message_id for taken, _ in letters]
        return []


class LastChoice:
    """Turns every order round, and chooses the last."""

    def sample(self, things: Sequence[int], number: int) -> list[int]:
        return list(things)[::-1][:number]

    def choice(self, things: Sequence[Any]) -> Any:
        return things[-1]


# The DLQ.


@dataclass
class DlqScene:
    """A DLQ whose canaries are chosen by name."""

    queue: LetterQueue
    choice: Chosen
    journal: SharedJournal = field(default_factory=SharedJournal)
    room: Room = field(default_factory=Room)
    fifo: bool = False
    main_arn: str = "arn:main"
    left: Left = field(default_factory=Left)
    orders: list[Order] = field(default_factory=list)

    def source(self) -> DlqCanaries:
        queue: Any = self.queue
        setup = canary_setup(
            self.journal,
            pipeline=Pipeline("orders", fifo=self.fifo),
            main_arn=self.main_arn,
            room=self.room,
            mover_for=lambda _: self,
        )
        return DlqCanaries(setup, queue, self.choice)

    def take(self, lock_seconds: float = 80) -> str | None:
        canary = self.source().take(KEY, lock_seconds)
        return canary.copy if canary else None

    def taken(self) -> Canary:
        """The letter m1, as the canary."""
        self.queue.letters, self.choice.names = letters("m1"), {"m1"}
        canary = self.source().take(KEY, 80)
        assert canary is not None
        return canary

    def move(self, orders: Sequence[Order], slot: Slot, *, queue: object = None) -> Left:
        """As a mover whose letters stay or may be gone."""
        assert queue is self.queue
        slot.intend([Plan(key_of(order.copy), "main", 1) for order in orders], NOW + 60)
        self.orders += orders
        return self.left


def test_a_probe_looks_at_five_dead_letters_at_most_and_releases_them() -> None:
    """Each receive counts for its letter."""
    scene = DlqScene(LetterQueue(letters(*"abcdef")), Chosen({"f"}))
    assert scene.take(79.2) is None
    assert scene.queue.receives == [(1, 80, 2)] * 5
    assert scene.queue.waits == handles(*"abcde")


def test_the_fifth_dead_letter_may_be_the_canary_and_stays_locked() -> None:
    scene = DlqScene(LetterQueue(letters(*"abcde")), Chosen({"e"}))
    assert scene.take() == "e"
    assert scene.queue.waits == handles(*"abcd")
    assert scene.choice.asked == [(name, KEY) for name in "abcde"]


def test_an_empty_dlq_is_asked_once() -> None:
    scene = DlqScene(LetterQueue(letters("a")), Chosen(set()))
    assert scene.take() is None
    assert len(scene.queue.receives) == 2
    assert scene.queue.waits == handles("a")


@pytest.mark.parametrize(
    ("source", "main_arn", "canary"),
    [
        ("arn:main", "arn:main", "a"),
        ("arn:other", "arn:main", None),
        # SQS does not say where it died, or the pipeline has no ARN to compare.
        (None, "arn:main", "a"),
        ("arn:other", "", "a"),
    ],
)
def test_only_a_letter_known_to_be_of_another_queue_is_foreign(
    source: str | None, main_arn: str, canary: str | None
) -> None:
    system = {} if source is None else {"DeadLetterQueueSourceArn": source}
    message = letter(message_id="a", **system)
    scene = DlqScene(LetterQueue([message]), Chosen({"a"}), main_arn=main_arn)
    assert scene.take() == canary


@pytest.mark.parametrize("expires", [NOW + 60, NOW - 3_600])
def test_a_letter_that_any_intent_names_is_left_to_the_next_run(expires: float) -> None:
    scene = DlqScene(LetterQueue(letters("a", "b")), Chosen({"a", "b"}))
    scene.journal.held["slot"] = others_intent("slot", "a", expires=expires)
    assert scene.take() == "b"


@pytest.mark.parametrize(
    ("fifo", "waiting", "canary"),
    [(True, "g", None), (True, "another", "a"), (False, "g", "a")],
)
def test_a_canary_overtakes_no_letter_of_its_fifo_group_that_waits(
    fifo: bool, waiting: str, canary: str | None
) -> None:
    """On a standard queue the group is the tenant of a fair queue, and has no order."""
    scene = DlqScene(
        LetterQueue([letter(message_id="a", MessageGroupId="g")]), Chosen({"a"}), fifo=fifo
    )
    scene.room.groups[waiting] = Wait("due", NOW)
    assert scene.take() == canary
    assert scene.room.groups_asked == ([(["g"], "dlq")] if fifo else [])


def test_a_letter_without_a_group_overtakes_none() -> None:
    scene = DlqScene(LetterQueue(letters("a")), Chosen({"a"}), fifo=True)
    assert scene.take() == "a"
    assert scene.room.groups_asked == []


def test_the_intent_of_a_dead_canary_is_the_first_of_its_slot() -> None:
    scene = DlqScene(LetterQueue(), Chosen(set()))
    assert scene.taken().record()
    [intent] = scene.journal.written
    assert (intent.slot, intent.owner, intent.home) == ("canary.me", "me", "dlq")
    assert intent.plans == [Plan(key_of("m1"), "main", 0)]


def test_a_slot_that_another_run_has_taken_stops_the_canary() -> None:
    scene = DlqScene(LetterQueue(), Chosen(set()), SharedJournal(rival=True))
    with pytest.raises(JournalUnavailable, match="the slot of a canary is taken"):
        scene.taken().record()


def test_a_letter_that_was_never_on_record_is_released_without_the_journal() -> None:
    scene = DlqScene(LetterQueue(), Chosen(set()), SharedJournal(down={"erase", "mark"}))
    scene.taken().give_back()
    assert scene.queue.waits == handles("m1")


def test_a_letter_whose_intent_may_stand_is_released_only_when_it_does_not() -> None:
    """The write of the intent had no answer."""
    scene = DlqScene(LetterQueue(), Chosen(set()), SharedJournal(down={"write"}))
    canary = scene.taken()
    with pytest.raises(JournalUnavailable):
        canary.record()
    canary.give_back()
    assert scene.queue.waits == []
    scene.journal.down = set()
    canary.give_back()
    assert (scene.queue.waits, scene.journal.read()) == (handles("m1"), [])


MESSAGE = received(letter())


@pytest.mark.parametrize(
    ("left", "may_be_gone"),
    [(Left(), True), (Left(stayed=[MESSAGE]), False), (Left(unknown=[MESSAGE]), True)],
)
def test_a_dead_letter_moves_under_an_intent_of_its_queue(left: Left, may_be_gone: bool) -> None:
    scene = DlqScene(LetterQueue(), Chosen(set()), left=left)
    canary = scene.taken()
    assert canary.move(order_of(canary.received)) is may_be_gone
    [intent] = scene.journal.written
    assert (intent.slot, intent.owner, intent.home) == ("canary.me", "me", "dlq")
    # Who moves it releases it, if it stayed.
    assert (scene.queue.waits, scene.journal.read()) == ([], [])


def order_of(message: ReceivedLetter) -> Order:
    return Order(message, Redrive(0, "tries circuit orders"), Stamp("m1", 1))


def test_a_letter_that_certainly_did_not_move_into_the_lane_is_released() -> None:
    queue = LetterQueue(letters("m1", "m2"))
    scene = DlqScene(queue, Chosen({"m1", "m2"}), left=Left(stayed=[MESSAGE]))
    lane = LaneCanaries(canary_setup(scene.journal, room=scene.room), scene.choice)
    assert RefilledLane(lane, scene.source()).take(KEY, 80) is None
    assert [order.copy for order in scene.orders] == ["m1"]
    assert queue.waits == handles("m1")


def test_a_letter_that_may_be_in_the_lane_keeps_its_lock_and_is_looked_for_there() -> None:
    scene = DlqScene(LetterQueue(letters("m1")), Chosen({"m1"}), left=Left(unknown=[MESSAGE]))
    lane = LaneCanaries(canary_setup(scene.journal, room=scene.room), scene.choice)
    with pytest.raises(NotInLaneYet):
        RefilledLane(lane, scene.source()).take(KEY, 80)
    assert scene.queue.waits == []


def test_a_journal_that_cannot_close_a_move_does_not_undo_it() -> None:
    scene = DlqScene(LetterQueue(), Chosen(set()), SharedJournal(down={"erase"}))
    canary = scene.taken()
    assert canary.move(order_of(canary.received))
    assert list(scene.journal.held) == ["canary.me"]


# The circuit's lane.


@dataclass
class LaneScene:
    """A waiting room; of several shards or letters the last comes first."""

    room: Room
    choice: Chosen = field(default_factory=lambda: Chosen(set("abcdefgh")))
    journal: SharedJournal = field(default_factory=SharedJournal)
    fifo: bool = False
    ordered: bool = False
    random: Any = field(default_factory=LastChoice)
    left: Left = field(default_factory=Left)
    orders: list[Order] = field(default_factory=list)

    def source(self) -> LaneCanaries:
        setup = canary_setup(
            self.journal,
            pipeline=Pipeline(
                "orders", fifo=self.fifo, ordering_key="body.key" if self.ordered else None
            ),
            room=self.room,
            random=self.random,
            mover_for=lambda _: self,
        )
        return LaneCanaries(setup, self.choice)

    def take(self) -> str | None:
        canary = self.source().take(KEY, 80)
        return canary.copy if canary else None

    def taken(self) -> Canary:
        canary = self.source().take(KEY, 80)
        assert canary is not None
        return canary

    def move(self, orders: Sequence[Order], slot: Slot, *, queue: object = None) -> Left:
        """As a mover whose letters stay or may be gone."""
        assert queue is None
        self.orders += orders
        return self.left


def test_the_circuits_own_lane_comes_before_the_letters_that_are_due() -> None:
    scene = LaneScene(Room({("due", 0): letters("a"), (LANE, 0): letters("b")}))
    assert scene.take() == "b"
    assert scene.room.asked[-1] == (LANE, 0, END_OF_TIME, 25)


def test_a_letter_that_is_due_now_may_be_the_canary() -> None:
    scene = LaneScene(Room({("due", 3): letters("a")}))
    assert scene.take() == "a"
    assert scene.room.asked[-1] == ("due", 3, NOW, 25)


def test_lanes_of_other_circuits_are_not_asked() -> None:
    scene = LaneScene(Room({("circuit:endpoint-7", 0): letters("a"), ("parked", 0): letters("b")}))
    assert scene.take() is None
    assert scene.room.asked == []


def test_all_shards_are_asked_in_an_order_by_chance() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    assert scene.take() == "a"
    assert [shard for _, shard, _, _ in scene.room.asked] == [7, 6, 5, 4, 3, 2, 1, 0]
    assert SHARDS == 8


@pytest.mark.parametrize(("fifo", "canary"), [(False, "c"), (True, "a")])
def test_on_fifo_the_earliest_letter_of_a_shard_is_tried_and_else_any(
    fifo: bool, canary: str
) -> None:
    assert LaneScene(Room({(LANE, 0): letters(*"abc")}), fifo=fifo).take() == canary


def test_where_messages_have_an_order_the_earliest_is_tried_half_of_the_time() -> None:
    """Only the first of a key is handled; but it may be one that shows nothing."""
    names = "abcdefghij"
    scene = LaneScene(Room({(LANE, 0): letters(*names)}), Chosen(set(names)), ordered=True)
    scene.random = Random(3)
    tried = Counter[str]()
    for _ in range(200):
        canary = scene.taken()
        tried[canary.copy] += 1
        canary.give_back()
    assert 80 < tried["a"] < 140
    assert len(tried) == 10


def test_a_canary_is_claimed_like_a_run_claims_its_shard_until_its_lock_ends() -> None:
    scene = LaneScene(Room({(LANE, 2): letters("a")}))
    assert scene.take() == "a"
    [intent] = scene.journal.read()
    assert (intent.slot, intent.owner, intent.expires) == ("room:circuit:orders:2", "me", NOW + 80)
    assert intent.plans == [Plan(key_of("a"), "", 0)]
    assert scene.room.locks == [NOW + 80]


@each_row(
    ("slot", "canary"),
    [
        ("room:circuit:orders:0", None),
        # Another letter of the shard that was kept on record.
        ("room:circuit:orders:0~owner.1", "a"),
        ("room:circuit:orders:1", "a"),
        ("room:circuit:orders:01", "a"),
        ("worker", "a"),
    ],
)
def test_a_shard_that_a_run_works_in_is_left_to_it(slot: str, canary: str | None) -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    scene.journal.held[slot] = others_intent(slot)
    assert scene.take() == canary


def test_what_a_run_that_died_in_a_shard_has_left_stays_on_record() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    slot = "room:circuit:orders:0"
    scene.journal.held[slot] = others_intent(slot, expires=NOW - 3_600)
    scene.taken().give_back()
    [intent] = scene.journal.read()
    assert intent.slot == "room:circuit:orders:0~another.1"
    assert OpenIntents([intent], NOW).record_of("other").maybe_sent


def test_a_letter_in_an_intent_of_another_slot_is_not_claimed() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a"), (LANE, 1): letters("b")}))
    scene.journal.held["worker"] = others_intent("worker", "b")
    assert scene.take() == "a"
    assert [intent.slot for intent in scene.journal.written] == ["room:circuit:orders:0"]


def test_a_shard_that_another_run_claims_first_is_passed_over() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}), journal=SharedJournal(rival=True))
    assert scene.take() is None
    assert scene.room.locks == []


def test_a_letter_that_another_run_claimed_meanwhile_is_released() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    meanwhile = others_intent("worker", "a")
    scene.journal.meanwhile = lambda: scene.journal.held.update(worker=meanwhile)
    assert scene.take() is None
    assert scene.journal.read() == [meanwhile]
    assert scene.room.locks == []


def test_a_letter_that_is_refused_leaves_its_shard_free_and_the_next_is_tried() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a"), (LANE, 1): letters("b")}), Chosen({"a"}))
    assert scene.take() == "a"
    assert scene.choice.asked == [("b", KEY), ("a", KEY)]
    assert [intent.slot for intent in scene.journal.read()] == ["room:circuit:orders:0"]


def test_a_letter_that_has_left_its_lane_is_no_canary() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}, gone=True))
    assert scene.take() is None
    assert (scene.choice.asked, scene.journal.read()) == ([], [])


def test_a_room_without_an_answer_frees_the_shard() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}, down=True))
    with pytest.raises(RoomUnavailable):
        scene.take()
    assert scene.journal.read() == []


def test_a_processed_letter_of_the_lane_is_deleted_and_its_shard_free() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    canary = scene.taken()
    assert canary.record()
    proof = Confirmation("a", "consumer")
    assert canary.settle(CanaryResult(CanaryVerdict.SUCCESS, proof))
    assert (scene.room.deleted, scene.journal.read()) == (["a"], [])


def test_a_letter_without_an_answer_stays_on_record_and_its_shard_is_free() -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    assert not scene.taken().settle(CanaryResult(CanaryVerdict.NO_ANSWER))
    [intent] = scene.journal.read()
    assert intent.slot == "room:circuit:orders:0~me.1"
    assert OpenIntents([intent], NOW).record_of("a").is_busy
    assert scene.take() is None
    scene.room.held[LANE, 0] = letters("b")
    assert scene.take() == "b"


@pytest.mark.parametrize("down", [set(), {"erase"}])
def test_a_letter_of_the_lane_is_given_back_by_closing_its_intent(down: set[str]) -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}))
    canary = scene.taken()
    scene.journal.down = down
    canary.give_back()
    assert len(scene.journal.read()) == len(down)
    assert scene.room.deleted == []


@pytest.mark.parametrize(
    ("left", "may_be_gone"),
    [(Left(), True), (Left(stayed=[MESSAGE]), False), (Left(unknown=[MESSAGE]), True)],
)
def test_a_letter_of_the_lane_moves_under_the_intent_that_claimed_it(
    left: Left, may_be_gone: bool
) -> None:
    scene = LaneScene(Room({(LANE, 0): letters("a")}), left=left)
    canary = scene.taken()
    assert canary.move(order_of(canary.received)) is may_be_gone
    assert [order.copy for order in scene.orders] == ["a"]
    assert scene.journal.read() == []


def test_dead_letters_name_the_dlq_to_the_consumer() -> None:
    assert DlqScene(LetterQueue(), Chosen(set())).taken().arn == "arn:dlq"
    assert LaneScene(Room({(LANE, 0): letters("a")})).taken().arn == "arn:dlq"
