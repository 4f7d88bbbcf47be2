"""One move by itself: what it counts, what it leaves, and how long it waits."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.contract import PARKED_LANE, Reason
from deadletter.failure.ledger import NO_COUNTS, RecordsConflict, RecordsUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import QueueUnavailable, ReceivedLetter, SendResult
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import ClaimLost, Intent, JournalUnavailable, Plan, Slot, key_of
from deadletter.redrive.mover import Left, Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.sending import LAST_SEND
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock
from tests.redrive.test_journal import MemoryJournal
from tests.simulation.stage import in_turn

LAST_MOMENT = START + 30
"""The locks of the letters end 100 s after START: nothing is sent in their last 70 s."""

HOLD = Hold("due", START + 500, "later")
TEN = {f"a{number}": Attribute("String", "x") for number in range(10)}


class Target:
    """A queue that takes what it is sent, but for copies in `result`."""

    def __init__(self, name: str, **traits: Any) -> None:
        self.name = name
        self.sent: list[Envelope] = []
        self.undeleted: set[str] = set()
        self.deleted: list[str] = []
        self.is_down = False
        self.before_send: Callable[[], None] = lambda: None
        self.result: Callable[[Sequence[Envelope]], SendResult] = self.take
        self._traits = QueueTraits(**traits)

    @property
    def traits(self) -> QueueTraits:
        if self.is_down:
            raise QueueUnavailable(f"{self.name} is down")
        return self._traits

    def take(self, batch: Sequence[Envelope]) -> SendResult:
        return SendResult(
            {envelope.copy: Confirmation(envelope.copy, self.name, "new") for envelope in batch}
        )

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        self.sent += batch
        return self.result(batch)

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        self.deleted += [received.letter.message_id for received, _ in letters]
        return [pair[0] for pair in letters if pair[0].letter.message_id in self.undeleted]

    @property
    def copies(self) -> list[str]:
        return [envelope.copy for envelope in self.sent]


class Room(Target):
    """A waiting room; it stores no body of a copy in `refused` and confirms none in `lost`."""

    def __init__(self) -> None:
        super().__init__("room")
        self.refused: set[str] = set()
        self.lost: set[str] = set()
        self.admitted: list[str] = []
        self.postponed: list[str] = []

    def store_bodies(
        self, orders: Sequence[Order], until: float, in_parallel: Any
    ) -> Collection[str]:
        assert until == LAST_MOMENT
        return {order.copy for order in orders} - self.refused

    def admit(self, orders: Sequence[Order]) -> Mapping[str, Confirmation]:
        if self.is_down:
            raise RoomUnavailable("the room is down")
        self.admitted += [order.copy for order in orders]
        return {
            order.copy: Confirmation(order.copy, "room")
            for order in orders
            if order.copy not in self.lost
        }

    def postpone(self, order: Order) -> None:
        if self.is_down:
            raise RoomUnavailable("the room is down")
        self.postponed.append(order.copy)


class Facts:
    """A ledger: `error` is raised by requests of more than `most` stamps, and by matches."""

    def __init__(self) -> None:
        self.stamps: dict[str, Stamp] = {}
        self.matches: dict[str, int] = {}
        self.claimed: Counter[str] = Counter()
        self.shadow_matches: dict[str, int] = {}
        self.parked: dict[str, tuple[float, str, str]] = {}
        self.error: Exception | None = None
        self.most = 0
        self.requests = 0

    def store_stamps(self, stamps: Mapping[str, Stamp]) -> None:
        self.requests += 1
        if self.error is not None and len(stamps) > self.most:
            raise self.error
        self.stamps.update(stamps)

    def count_matches(
        self, matched: Mapping[str, int], shadow_matched: Mapping[str, int] = NO_COUNTS
    ) -> None:
        if self.error is not None:
            raise self.error
        self.matches.update({key: n for key, n in matched.items() if key not in self.claimed})
        self.claimed.update({key: n for key, n in matched.items() if key in self.claimed})
        self.shadow_matches.update(shadow_matched)

    def claim_matches(self, key: str, letters: int, limit: int) -> bool:
        if self.error is not None:
            raise self.error
        if self.claimed[key] >= limit:
            return False
        self.claimed[key] += letters
        return True

    def note_parked(self, origin: str, at: float, reason: str, rule: str) -> None:
        if self.error is not None:
            raise self.error
        self.parked[origin] = (at, reason, rule)

    def note_discarded(self, origin: str, at: float) -> None:
        return

    def leave_index(self, origin: str) -> None:
        raise AssertionError("a move leaves that to what it parks")


class Lot:
    """A random number generator that draws one end of each range."""

    def __init__(self, end: int) -> None:
        self._end = end

    def uniform(self, *ends: float) -> float:
        return ends[self._end]


class Move:
    """A mover between a DLQ, the main queue, a parking queue and the waiting room."""

    def __init__(self, *, fifo: bool = False, lot: int = 1, **traits: Any) -> None:
        self.clock, self.journal, self.records = Clock(START), MemoryJournal(), Facts()
        self.published: list[tuple[str, int]] = []
        self.tally = Tally(lambda metric, number: self.published.append((metric, number)))
        self.dlq, self.room = Target("dlq"), Room()
        self.main = Target("main", fifo=fifo, **traits)
        self.parking, self.slow = Target("parking:default"), Target("dedicated:slow")
        self.waits: list[float] = []
        self.slot = Slot(self.journal, "run.0", "run", home="dlq")
        room: Any = self.room
        random: Any = Lot(lot)
        self.mover = Mover(
            fifo=fifo,
            targets={target.name: target for target in (self.main, self.parking, self.slow)},  # type: ignore[misc]
            parking_queues={Reason.POISON: "poison", "schema": "schema"},
            room=room,
            records=self.records,
            clock=self.clock,
            wait=self.wait,
            random=random,
            in_parallel=in_turn,
            tally=self.tally,
        )

    def wait(self, seconds: float) -> None:
        self.waits.append(seconds)
        self.clock.advance(seconds)

    def out_of_queue(self, *orders: Order) -> Left:
        return self.mover.move(orders, self.slot, queue=self.dlq)  # type: ignore[arg-type]

    def out_of_room(self, *orders: Order) -> Left:
        plans = [Plan(key_of(order.copy), "", 0) for order in orders]
        self.slot.intend(plans, START + 100)
        return self.mover.move(orders, self.slot)

    @property
    def counts(self) -> dict[str, int]:
        return dict(self.tally.report("orders", "dlq", "").counts)

    @property
    def trouble(self) -> str:
        return self.tally.report("orders", "dlq", "").trouble

    @property
    def kept(self) -> set[str]:
        """The copies that stay on record."""
        return {copy for copy in "abcdefgh" if self.slot.keeps(copy)}


def order(
    copy: str, decision: Decision | None = None, *, group: str | None = None, **more: Any
) -> Order:
    attributes = more.pop("attributes", {})
    body = more.pop("body", "{}")
    system = {} if group is None else {"MessageGroupId": group}
    letter = Letter(copy, body, attributes, system)
    received = ReceivedLetter(letter, f"handle of {copy}", START + 100)
    return Order(received, decision or Redrive(0, "again"), Stamp(copy, 1, 1), **more)


def ids(letters: Sequence[ReceivedLetter]) -> list[str]:
    return [received.letter.message_id for received in letters]


# Where letters go, and what is counted of them.


def test_each_way_of_a_letter_has_its_own_metric() -> None:
    move = Move()
    left = move.out_of_queue(
        order("a"),
        order("b", Park(Reason.EXPIRED, "old")),
        order("c", Divert("slow", "slow")),
        order("d", HOLD),
        order("e", HOLD),
    )
    assert left == Left([], [])
    assert move.counts == {"Redriven": 1, "MessageMovedToParkingLot": 1, "Diverted": 1, "Held": 2}
    assert [move.main.copies, move.parking.copies, move.slow.copies] == [["a"], ["b"], ["c"]]
    assert move.room.admitted == ["d", "e"]
    assert sorted(move.dlq.deleted) == ["a", "b", "c", "d", "e"]
    move.tally.count_tried(5)
    assert move.tally.fruitless is False
    assert (move.tally.futile, move.kept) == (0, set())


def test_a_reason_with_a_parking_queue_of_its_own_goes_there() -> None:
    mover = Move().mover
    assert mover.target_of(Park(Reason.POISON, "x")) == "parking:poison"
    assert mover.target_of(Park(Reason.EXPIRED, "x")) == "parking:default"


def test_a_category_with_a_parking_queue_of_its_own_goes_there() -> None:
    mover = Move().mover
    park = {kind: Park(Reason.PERMANENT, "x", category=kind) for kind in ("schema", "business")}
    assert mover.target_of(park["schema"]) == "parking:schema"
    assert mover.target_of(park["business"]) == "parking:default"
    assert mover.target_of(Park(Reason.PERMANENT, "x")) == "parking:default"


def test_a_queue_that_is_missing_or_down_keeps_only_its_own_letters_back() -> None:
    """The letters of other queues go on, and those that stay are counted as failures."""
    move = Move()
    move.slow.is_down = True
    left = move.out_of_queue(
        order("a"),
        order("b", Park(Reason.POISON, "no such queue here")),
        order("c", Divert("slow", "slow")),
        order("d", Divert("slow", "slow")),
    )
    assert ids(left.stayed) == ["b", "c", "d"]
    assert move.counts == {"Redriven": 1, "RedriveFailure": 3, "QueueUnavailable": 1}
    assert move.trouble == "dedicated:slow is down"
    assert move.tally.futile == 3


def test_on_fifo_a_letter_without_its_queue_keeps_back_those_of_its_group_behind_it() -> None:
    move = Move(fifo=True)
    move.slow.is_down = True
    divert = Divert("slow", "slow")
    left = move.out_of_queue(
        order("a", group="g"),
        order("b", divert, group="g"),
        order("c", group="g"),
        order("d", group="h"),
    )
    assert ids(left.stayed) == ["b", "c"]
    assert move.main.copies == ["a", "d"]


@pytest.mark.parametrize("decision", [Redrive(0, "again"), HOLD])
def test_nothing_is_begun_in_the_last_seventy_seconds_of_the_locks(
    decision: Decision,
) -> None:
    move = Move()
    move.clock.now = LAST_MOMENT
    left = move.out_of_queue(order("a", decision), order("b", decision))
    assert ids(left.stayed) == ["a", "b"]
    assert (move.main.sent, move.room.admitted, move.journal.read()) == ([], [], [])
    assert move.counts == {"TooLateToSend": 2}
    assert move.tally.futile == 2
    in_time = Move()
    in_time.clock.now = LAST_MOMENT - 0.001
    assert in_time.out_of_queue(order("a", decision)) == Left([], [])


def test_a_send_that_is_late_only_after_its_intent_is_left_out() -> None:
    move = Move()
    write = move.journal.write

    def slow_write(intent: Intent, replacing: Intent | None) -> None:
        write(intent, replacing)
        move.clock.now = LAST_MOMENT

    move.journal.write = slow_write  # type: ignore[method-assign]
    left = move.out_of_queue(order("a"), order("b"))
    assert ids(left.stayed) == ["a", "b"]
    assert move.main.sent == []
    assert move.counts == {"TooLateToSend": 2, "RedriveFailure": 2}


# The journal.


@pytest.mark.parametrize(
    ("error", "trouble"), [(JournalUnavailable("no answer"), "no answer"), (ClaimLost("x"), "")]
)
def test_without_an_intent_nothing_is_sent_or_held(error: Exception, trouble: str) -> None:
    move = Move()

    def refuse(intent: Intent, replacing: Intent | None) -> None:
        raise error

    move.journal.write = refuse  # type: ignore[method-assign]
    left = move.out_of_queue(order("a"), order("b"), order("c", HOLD))
    assert ids(left.stayed) == ["a", "b", "c"]
    assert (move.main.sent, move.room.admitted) == ([], [])
    assert move.counts == {"JournalUnavailable": 1}
    assert move.tally.futile == 3
    move.tally.count_tried(3)
    assert move.trouble == (trouble or "none of 2 messages could be moved to main")


@pytest.mark.parametrize("error", [JournalUnavailable("no answer"), ClaimLost("x")])
def test_letters_that_are_elsewhere_are_deleted_though_their_mark_is_refused(
    error: Exception,
) -> None:
    move = Move()

    def refuse(intent: Intent) -> None:
        raise error

    move.journal.mark = refuse  # type: ignore[method-assign]
    left = move.out_of_queue(order("a"), order("b"))
    assert left == Left([], [])
    assert move.dlq.deleted == ["a", "b"]
    assert move.counts == {"Redriven": 2, "JournalUnavailable": 1}


def test_the_intent_ends_with_the_first_lock_and_has_each_letters_target_and_attempt() -> None:
    move = Move()
    later = order("b", Park(Reason.EXPIRED, "old"))
    later = replace(later, received=replace(later.received, locked_until=START + 101))
    move.out_of_queue(order("a"), later)
    [intent] = move.journal.read()
    assert intent.expires == START + 100
    assert list(intent.plans) == [
        Plan(key_of("a"), "main", 1),
        Plan(key_of("b"), "parking:default", 1),
    ]


# Sends that fail.


def fails(*copies: str, times: int = 99) -> Callable[[Sequence[Envelope]], SendResult]:
    """Confirms all but these copies, which fail so many times."""
    left = dict.fromkeys(copies, times)

    def result(batch: Sequence[Envelope]) -> SendResult:
        failed = {e.copy: "InternalError" for e in batch if left.get(e.copy, 0) > 0}
        for copy in failed:
            left[copy] -= 1
        taken = {e.copy: Confirmation(e.copy, "main", "n") for e in batch if e.copy not in failed}
        return SendResult(taken, failed=failed)

    return result


@pytest.mark.parametrize(("lot", "waits"), [(0, [0.2, 0.4, 0.8]), (1, [0.4, 0.8, 1.6])])
def test_a_failed_letter_is_sent_four_times_with_longer_pauses(
    lot: int, waits: list[float]
) -> None:
    move = Move(lot=lot)
    move.main.result = fails("b")
    left = move.out_of_queue(order("a"), order("b"))
    assert ids(left.stayed) == ["b"]
    assert move.main.copies == ["a", "b", "b", "b", "b"]
    assert move.waits == pytest.approx(waits)
    assert move.counts == {"Redriven": 1, "RedriveFailure": 1}
    assert (move.tally.futile, move.kept) == (1, set())


@pytest.mark.parametrize(("spare", "sends"), [(0.25, 1), (0.375, 2)])
def test_a_second_send_needs_time_after_its_pause(spare: float, sends: int) -> None:
    move = Move(lot=0)
    # A pause of a quarter of a second: times with the clock are exact then.
    move.mover._random = SimpleNamespace(uniform=lambda *_: 0.625)  # type: ignore[assignment]
    move.main.result = fails("a", times=1)
    move.clock.now = LAST_MOMENT - spare
    move.out_of_queue(order("a"))
    assert len(move.main.sent) == sends


def test_a_letter_that_may_have_been_sent_is_counted_once_however_often_it_is_sent() -> None:
    move = Move()
    move.main.result = fails("a", "b")
    move.out_of_queue(order("a", maybe_sent=True), order("b"), order("c", maybe_sent=True))
    assert move.published == [("PossibleDuplicate", 2)]


def test_a_letter_without_an_answer_stays_locked_and_on_record() -> None:
    move = Move()
    move.main.result = lambda batch: SendResult(
        {"a": Confirmation("a", "main", "n")}, {"b": "refused"}, unknown=frozenset({"c"})
    )
    left = move.out_of_queue(order("a"), order("b"), order("c"))
    assert (ids(left.stayed), ids(left.unknown)) == (["b"], ["c"])
    assert move.kept == {"c"}
    assert [move.mover.is_unknown(copy) for copy in "abc"] == [False, False, True]
    assert move.mover.confirmation_of("a") == Confirmation("a", "main", "n")
    assert move.mover.confirmation_of("c") is None
    assert move.main.copies == ["a", "b", "c"]
    assert move.counts == {"Redriven": 1, "RedriveFailure": 2}


def test_a_letter_that_no_queue_takes_is_unsendable_and_no_futile_try() -> None:
    """It would keep others from ever being tried. One that just fits is sent."""
    move = Move(max_bytes=1000)
    left = move.out_of_queue(order("a", body="x" * 1001), order("b", body="x" * 1000))
    assert ids(left.stayed) == ["a"]
    assert move.main.copies == ["b"]
    assert move.counts["Unsendable"] == 1
    assert move.counts["RedriveFailure"] == 1
    assert move.tally.futile == 0


def test_a_letter_is_never_sent_without_the_new_key_that_its_stamp_has() -> None:
    """The consumer would skip it. It is parked without it all the same: nothing reads it there."""
    move = Move()
    full = {str(number): Attribute("String", "x") for number in range(10)}
    stamp = Stamp("first", accept="again:4f0c")
    given = (
        order("a", attributes=full),
        order("b"),
        order("c", Park(Reason.EXPIRED, "old"), attributes=full),
    )
    left = move.out_of_queue(*(replace(each, stamp=stamp) for each in given))
    assert ids(left.stayed) == ["a"]
    assert (move.main.copies, move.counts["Unsendable"]) == (["b"], 1)


def test_on_fifo_a_letter_waits_for_the_earlier_one_of_its_group() -> None:
    move = Move(fifo=True)
    move.main.result = fails("a", times=1)
    left = move.out_of_queue(
        order("a", group="g"), order("b", group="h"), order("c", group="g"), order("d", group="h")
    )
    assert left == Left([], [])
    assert move.main.copies == ["a", "b", "d", "a", "c"]
    refusing = Move(fifo=True)
    refusing.main.result = lambda batch: SendResult(
        {e.copy: Confirmation(e.copy, "main", "n") for e in batch if e.copy != "a"}, {"a": "no"}
    )
    left = refusing.out_of_queue(
        order("a", group="g"), order("b", group="h"), order("c", group="g")
    )
    assert ids(left.stayed) == ["a", "c"]
    assert refusing.main.copies == ["a", "b"]


# Deleting.


def test_a_letter_that_is_not_deleted_stays_on_record_and_has_not_left() -> None:
    move = Move()
    move.dlq.undeleted = {"a"}
    assert move.out_of_queue(order("a")) == Left([], [])
    assert move.counts == {"Redriven": 1, "Undeleted": 1}
    assert move.kept == {"a"}
    move.tally.count_tried(1)
    assert move.tally.fruitless
    assert move.tally.futile == 1


def test_what_is_parked_is_noted_with_its_reason_and_its_rule() -> None:
    move = Move()
    move.out_of_queue(
        order("a", Park(Reason.QUARANTINED, "stop", "stop-t-1")),
        order("b", Park(Reason.EXPIRED, "old")),
        order("c"),
    )
    noted = {origin: fact[1:] for origin, fact in move.records.parked.items()}
    assert noted == {"a": ("QUARANTINED", "stop-t-1"), "b": ("EXPIRED", "")}


def test_a_note_of_a_parked_letter_that_cannot_be_written_changes_nothing_for_the_letter() -> None:
    move = Move()
    move.records.error = RecordsUnavailable("no answer")
    left = move.out_of_queue(order("a", Park(Reason.EXPIRED, "old")))
    assert (left.stayed, left.unknown) == ([], [])
    assert move.counts == {"MessageMovedToParkingLot": 1, "LedgerUnavailable": 1}
    assert move.trouble == "no answer"
    assert not move.tally.fruitless


def test_a_letter_that_goes_into_the_lane_of_parked_letters_is_noted_with_its_stamps_reason() -> (
    None
):
    move = Move()
    left_over = order("a", Hold(PARKED_LANE, START, "the run ended"))
    stamp = replace(left_over.stamp, decision="PARK", reason="RUN_ABORTED")
    move.out_of_queue(replace(left_over, stamp=stamp), order("b", Hold("due", START, "later")))
    noted = {origin: fact[1:] for origin, fact in move.records.parked.items()}
    assert noted == {left_over.stamp.origin: ("RUN_ABORTED", "")}


def test_no_note_is_written_when_the_locks_of_the_letters_are_about_to_end() -> None:
    move = Move()
    delete = move.dlq.delete

    def slow_delete(letters: Any) -> Any:
        move.clock.now = START + 100 - LAST_SEND
        return delete(letters)

    move.dlq.delete = slow_delete  # type: ignore[method-assign]
    move.out_of_queue(order("a", Park(Reason.EXPIRED, "old")))
    assert move.records.parked == {}
    assert move.counts == {"MessageMovedToParkingLot": 1, "LedgerUnavailable": 1}


def test_parked_letters_that_are_not_deleted_have_not_left() -> None:
    move = Move()
    move.dlq.undeleted = {"a", "b"}
    move.out_of_queue(*(order(copy, Park(Reason.EXPIRED, "old")) for copy in "ab"))
    move.tally.count_tried(2)
    assert move.tally.fruitless


@pytest.mark.parametrize(("before_the_end", "kept"), [(5.0, {"a"}), (5.001, set())])
def test_a_delete_in_the_last_five_seconds_of_a_lock_is_not_believed(
    before_the_end: float, kept: set[str]
) -> None:
    """Another receiver may hold the copy then: SQS answers, and leaves it where it is."""
    move = Move()
    delete = move.dlq.delete

    def slow_delete(letters: Any) -> Any:
        move.clock.now = START + 100 - before_the_end
        return delete(letters)

    move.dlq.delete = slow_delete  # type: ignore[method-assign]
    move.out_of_queue(order("a"))
    assert move.kept == kept


# The waiting room.


def test_a_body_that_cannot_be_stored_keeps_only_its_own_letter_out_of_the_room() -> None:
    move = Move()
    move.room.refused = {"a"}
    left = move.out_of_queue(order("a", HOLD), order("b", HOLD))
    assert (ids(left.stayed), ids(left.unknown)) == (["a"], [])
    assert move.room.admitted == ["b"]
    assert move.counts == {"Held": 1, "RoomUnavailable": 1, "RedriveFailure": 1}
    assert move.tally.futile == 1
    assert [intent.packed.keys() for intent in move.journal.read()] == [[key_of("b")]]


def test_on_fifo_no_letter_enters_the_room_before_an_earlier_one_of_its_group() -> None:
    move = Move(fifo=True)
    move.room.refused = {"a"}
    left = move.out_of_queue(
        order("a", HOLD, group="g"), order("b", HOLD, group="g"), order("c", HOLD, group="h")
    )
    assert ids(left.stayed) == ["a", "b"]
    assert move.room.admitted == ["c"]
    assert move.tally.futile == 2


def test_a_room_that_is_down_keeps_no_letter_and_leaves_none_in_doubt() -> None:
    move = Move()
    move.room.is_down = True
    left = move.out_of_queue(order("a", HOLD), order("b", HOLD))
    assert (ids(left.stayed), ids(left.unknown)) == (["a", "b"], [])
    assert move.counts == {"RoomUnavailable": 1, "RedriveFailure": 2}
    assert (move.trouble, move.tally.futile, move.kept) == ("the room is down", 2, set())


def test_a_letter_whose_place_in_the_room_is_in_doubt_stays_on_record() -> None:
    move = Move()
    move.room.lost = {"b"}
    left = move.out_of_queue(order("a", HOLD, maybe_sent=True), order("b", HOLD))
    assert (ids(left.stayed), ids(left.unknown)) == ([], ["b"])
    assert move.kept == {"b"}
    assert move.mover.is_unknown("b")
    assert move.dlq.deleted == ["a"]
    assert move.published == [("PossibleDuplicate", 1)]


def test_a_letter_in_the_room_that_waits_on_is_held_and_not_moved() -> None:
    move = Move()
    move.out_of_room(order("a"), order("b", HOLD, maybe_sent=True))
    assert (move.main.copies, move.room.deleted, move.room.postponed) == (["a"], ["a"], ["b"])
    assert move.counts == {"Redriven": 1, "Held": 1, "PossibleDuplicate": 1}
    assert move.published == [("PossibleDuplicate", 1)]
    assert move.dlq.deleted == []


def test_a_letter_that_waits_on_has_found_its_place() -> None:
    move = Move()
    move.out_of_room(order("a", HOLD))
    move.tally.count_tried(1)
    assert (move.tally.fruitless, move.tally.futile, move.trouble) == (False, 0, "")


def test_a_letter_that_cannot_wait_on_is_counted() -> None:
    move = Move()
    move.room.is_down = True
    left = move.out_of_room(order("a", HOLD), order("b", HOLD))
    assert ids(left.stayed) == ["a", "b"]
    assert move.counts == {"RoomUnavailable": 2}
    assert (move.trouble, move.tally.futile) == ("the room is down", 2)
    move.tally.count_tried(2)
    assert move.tally.fruitless


def test_a_run_in_which_some_letters_can_wait_on_has_done_its_work() -> None:
    move = Move()
    postpone = move.room.postpone

    def second_fails(order: Order) -> None:
        move.room.is_down = order.copy == "b"
        postpone(order)

    move.room.postpone = second_fails  # type: ignore[method-assign]
    move.out_of_room(order("a", HOLD), order("b", HOLD))
    report = move.tally.report("orders", "dlq", "")
    assert (report.counts, report.ended_well) == ({"Held": 1, "RoomUnavailable": 1}, True)


def test_a_hold_that_is_late_is_not_postponed() -> None:
    move = Move()
    send = move.main.send

    def slow_send(batch: Sequence[Envelope]) -> SendResult:
        move.clock.now = LAST_MOMENT
        return send(batch)

    move.main.send = slow_send  # type: ignore[method-assign]
    move.out_of_room(order("a"), order("b", HOLD))
    assert move.room.postponed == []
    assert move.counts == {"Redriven": 1, "TooLateToSend": 1}
    assert move.tally.futile == 1


# Facts in the ledger.


def test_a_letter_without_room_for_its_stamp_has_it_in_the_ledger() -> None:
    move = Move()
    unstamped = order("a", attributes=TEN)
    move.out_of_queue(unstamped, order("b"))
    assert move.records.stamps == {"new": unstamped.stamp}
    assert move.counts == {"Redriven": 2, "RedriveUnmarked": 1}
    # Its consumer may not see it before the ledger has it; people in a parking queue may.
    assert [envelope.delay for envelope in move.main.sent] == [5, 0]
    move.out_of_queue(order("c", Park(Reason.EXPIRED, "old"), attributes=TEN))
    assert [envelope.delay for envelope in move.parking.sent] == [0]


def test_a_redriven_letter_has_the_delay_of_its_decision() -> None:
    move = Move()
    move.out_of_queue(order("a", Redrive(77, "slowly")))
    assert [envelope.delay for envelope in move.main.sent] == [77]


def test_facts_that_clash_are_written_one_by_one() -> None:
    move = Move()
    move.records.error, move.records.most = RecordsConflict("clash"), 1
    stamps = {"x": Stamp("x"), "y": Stamp("y")}
    assert move.mover.record(stamps)
    assert (move.records.stamps, move.records.requests) == (stamps, 3)


def test_facts_that_cannot_be_written_are_counted_each() -> None:
    move = Move()
    move.records.error = RecordsUnavailable("no ledger")
    assert not move.mover.record({"x": Stamp("x")})
    assert move.trouble == "no ledger"
    move.out_of_queue(order("a", attributes=TEN))
    assert move.counts == {"Redriven": 1, "RedriveUnmarked": 1, "RedriveUnrecorded": 1}
    assert move.mover.record({})


def test_matches_are_counted_for_each_rule_of_the_letters_that_moved() -> None:
    move = Move()
    move.main.result = fails("c")
    orders = [replace(order(copy), matched="r1#v", shadow_matched=("dry#v",)) for copy in "abc"]
    move.out_of_queue(*orders, order("d", Redrive(0, "again", "r2")))
    assert move.records.matches == {"r1#v": 2}
    assert move.records.shadow_matches == {"dry#v": 2}


def move_and_fail(move: Move, *copies: str) -> None:
    with move.mover.counts_gathered():
        for copy in copies:
            move.out_of_queue(replace(order(copy), matched="r1#v"))
        assert move.records.matches == {}
        raise QueueUnavailable("no queue")


def test_gathered_matches_are_written_at_the_end_even_after_an_error() -> None:
    move = Move()
    with pytest.raises(QueueUnavailable):
        move_and_fail(move, "a", "b", "c")
    assert move.records.matches == {"r1#v": 3}


def test_gathered_matches_that_cannot_be_written_hide_no_other_error() -> None:
    move = Move()
    move.records.error = RecordsUnavailable("no ledger")
    with pytest.raises(QueueUnavailable):
        move_and_fail(move, "a")
    assert move.counts == {"Redriven": 1, "RedriveUnrecorded": 1}


def test_matches_that_cannot_be_counted_are_one_trouble() -> None:
    move = Move()
    move.records.error = RecordsUnavailable("no ledger")
    move.out_of_queue(replace(order("a"), matched="r1#v"))
    assert move.counts == {"Redriven": 1, "RedriveUnrecorded": 1}
    assert move.trouble == "no ledger"
    unmatched = Move()
    unmatched.records.error = RecordsUnavailable("no ledger")
    unmatched.out_of_queue(order("a"))
    assert unmatched.counts == {"Redriven": 1}


def test_an_attribute_of_the_producer_that_is_renamed_is_counted() -> None:
    move = Move()
    theirs = {"Redrive": Attribute("String", "mine")}
    move.out_of_queue(order("a", attributes=theirs), order("b"))
    assert move.counts == {"Redriven": 2, str(Count.ATTRIBUTE_RENAMED): 1}


# Rules with `max_matches`.


def limited(copy: str, decision: Decision | None = None, **more: Any) -> Order:
    return order(copy, decision, matched="r1#v", limit=5, **more)


def test_a_rule_acts_on_one_chunk_more_than_its_limit_at_most() -> None:
    """Each chunk was judged when nothing was counted yet, as by workers side by side."""
    move = Move()
    left = [move.out_of_queue(*map(limited, copies)) for copies in ("abc", "def", "gh")]
    assert [ids(each.stayed) for each in left] == [[], [], ["g", "h"]]
    assert move.main.copies == [*"abcdef"]
    assert move.records.claimed == {"r1#v": 6}
    assert move.records.matches == {}
    assert move.counts == {"Redriven": 6}


def test_a_claimed_letter_that_stays_is_given_back() -> None:
    move = Move()
    move.slow.is_down = True
    left = move.out_of_queue(limited("a"), limited("b", Divert("slow", "x")), limited("c", HOLD))
    assert ids(left.stayed) == ["b"]
    assert move.records.claimed == {"r1#v": 2}


def test_a_letter_that_may_have_been_sent_counts_for_its_rule() -> None:
    move = Move()
    move.main.result = lambda batch: SendResult(unknown=frozenset(each.copy for each in batch))
    left = move.out_of_queue(limited("a"))
    assert ids(left.unknown) == ["a"]
    assert move.records.claimed == {"r1#v": 1}


def test_without_a_claim_no_letter_of_the_rule_is_moved() -> None:
    move = Move()
    move.records.error = RecordsUnavailable("no answer")
    left = move.out_of_queue(limited("a"), order("b"))
    assert ids(left.stayed) == ["a"]
    assert move.main.copies == ["b"]
    assert move.trouble == "no answer"


def test_on_fifo_a_letter_without_a_claim_keeps_back_those_behind_it() -> None:
    move = Move(fifo=True)
    move.records.claimed["r1#v"] = 5
    left = move.out_of_queue(
        order("a", group="g"), limited("b", group="g"), order("c", group="g"), order("d", group="h")
    )
    assert ids(left.stayed) == ["b", "c"]
    assert move.main.copies == ["a", "d"]


def test_letters_of_the_room_are_claimed_too() -> None:
    move = Move()
    move.records.claimed["r1#v"] = 5
    assert ids(move.out_of_room(limited("a"), order("b")).stayed) == ["a"]
    assert move.main.copies == ["b"]
