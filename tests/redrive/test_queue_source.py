"""One worker of a queue: what it asks for, what it leaves, and what it says of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.contract import Reason
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import Depth, ReceivedLetter, TooManyInFlight
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.draining import Draining
from deadletter.redrive.journal import ROOM, Intent, Plan, key_of
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.mover import Left
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.queue_source import QueueSource
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import Wait
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.router import Verdict
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock
from tests.redrive.test_journal import MemoryJournal
from tests.samples import letter, verdict
from tests.samples import received as in_queue
from tests.simulation.stage import in_turn

BACK = Redrive(0, "again")
BUSY_UNTIL, LONG_AGO = START + 1_000.0, START - 1_000.0


def received(copy: str, **system: str) -> ReceivedLetter:
    return replace(in_queue(letter("{}", copy, None, **system)), locked_until=START + 115)


class ReadJournal(MemoryJournal):
    """A journal that answers its readings with these intents, the last ones for ever."""

    def __init__(self, *readings: Sequence[Intent]) -> None:
        super().__init__()
        self.readings = list(readings)
        self.reads = 0

    def read(self) -> list[Intent]:
        self.reads += 1
        if not self.readings:
            return super().read()
        return list(self.readings.pop(0) if len(self.readings) > 1 else self.readings[0])


@dataclass
class Bench:
    """A worker, and the queue, the mover, the room and the router that it meets."""

    polls: list[list[ReceivedLetter] | TooManyInFlight] = field(default_factory=list)
    decisions: dict[str, Decision] = field(default_factory=dict)
    undecided: set[str] = field(default_factory=set)
    stays: set[str] = field(default_factory=set)
    unanswered: set[str] = field(default_factory=set)
    unknown: set[str] = field(default_factory=set)
    sent_by_run: set[str] = field(default_factory=set)
    undeletable: set[str] = field(default_factory=set)
    in_room: set[str] = field(default_factory=set)
    fifo: bool = False
    journal: ReadJournal = field(default_factory=ReadJournal)
    in_hand: list[ReceivedLetter] = field(default_factory=list)
    tokens: float = 500.0

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.tally = Tally()
        self.asked: list[tuple[int, int, int]] = []
        self.orders: list[Order] = []
        self.deleted: list[str] = []
        self.waits_asked: list[tuple[list[str], str]] = []
        self.known = KnownIntents(self.journal, self.clock)
        here: Any = self
        self.run = RunLimits(
            owner="me",
            deadline=START + 55,
            clock=self.clock,
            wait=self.clock.advance,
            main=here,
            backlog_limit=None,
            pace=RunPace(RunPaid(Rate(50.0, 500.0), START - self.tokens / 50), lambda: START),
        )
        setup: Any = SimpleNamespace(
            dlq=self,
            clock=self.clock,
            in_parallel=in_turn,
            main_arn="arn:main",
            pipeline=Pipeline("orders", fifo=self.fifo),
            router=None,
            mover=self,
            tally=self.tally,
            room=self,
            journal=self.journal,
            home="dlq",
        )
        self.source = QueueSource(setup, self.run, 0, self.in_hand, known=self.known)
        self.worker = Draining(setup, self.source, here)

    # The queue.

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> list[ReceivedLetter]:
        self.asked.append((most, lock_seconds, wait_seconds))
        poll = self.polls.pop(0) if self.polls else []
        if isinstance(poll, TooManyInFlight):
            raise poll
        assert len(poll) <= most
        return poll

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> list[ReceivedLetter]:
        self.deleted += [each.letter.message_id for each, _ in letters]
        return [each for each, _ in letters if each.letter.message_id in self.undeletable]

    def depth(self) -> Depth:
        return Depth(0, 0, 0)

    # The mover.

    def move(self, orders: Sequence[Order], _slot: object, *, queue: object) -> Left:
        self.orders += orders
        return Left(
            [order.received for order in orders if order.copy in self.stays],
            [order.received for order in orders if order.copy in self.unanswered],
        )

    def target_of(self, decision: Decision) -> str:
        return f"dedicated:{decision.queue}" if isinstance(decision, Divert) else MAIN

    def confirmation_of(self, copy: str) -> Confirmation | None:
        return Confirmation(copy, "this run") if copy in self.sent_by_run else None

    def is_unknown(self, copy: str) -> bool:
        return copy in self.unknown

    # The waiting room.

    def find(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Confirmation]:
        copies = {each.letter.message_id for each in letters} & self.in_room
        return {copy: Confirmation(copy, "room") for copy in copies}

    def waits(self, groups: Collection[str], home: str) -> Mapping[str, Wait]:
        self.waits_asked.append((list(groups), home))
        return {}

    # The router.

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        assert not served
        return {
            copy: verdict(copy, self.decisions.get(copy, BACK))
            for each in letters
            if (copy := each.letter.message_id) not in self.undecided
        }

    @property
    def spent(self) -> float:
        """The letters of the pace that are gone."""
        return round(self.tokens - self.run.paid.free(START), 3)

    @property
    def moved(self) -> list[str]:
        return [order.copy for order in self.orders]

    @property
    def left(self) -> list[str]:
        """The letters that are made visible when the run ends."""
        return [handle.removeprefix("handle of ") for handle in self.run.left]


def many(number: int) -> list[ReceivedLetter]:
    return [received(f"m{each}") for each in range(number)]


def planned(copy: str, target: str = "main", *, until: float = LONG_AGO) -> Intent:
    """An earlier run's intent to move a letter to a place."""
    slot = "other.0"
    return Intent(slot, "other", 1, until, [Plan(key_of(copy), target, 1)], home="dlq")


def test_a_turn_takes_as_many_letters_as_it_is_given() -> None:
    bench = Bench(polls=[many(3), [received("x"), received("y")]])
    assert bench.worker.taken == 0
    bench.worker.take_turn(3)
    assert (bench.worker.taken, bench.moved) == (3, ["m0", "m1", "m2"])
    bench.worker.take_turn(2)
    assert (bench.worker.taken, bench.moved[3:]) == (5, ["x", "y"])
    assert [most for most, _, _ in bench.asked] == [3, 2]


def test_a_queue_is_empty_after_two_empty_polls_in_a_row() -> None:
    bench = Bench(polls=[[], [received("x")], [], [], [], [received("y")]])
    bench.run.expect(10)
    bench.worker.take_turn(100)
    assert bench.worker.is_done
    # The poll that fills up the chunk of x is no poll for a chunk.
    assert (bench.moved, len(bench.asked)) == (["x"], 5)


def test_an_empty_queue_is_polled_twice() -> None:
    """SQS may answer a poll with nothing although letters are there."""
    bench = Bench()
    bench.worker.take_turn(100)
    assert (bench.worker.is_done, len(bench.asked)) == (True, 2)


def test_one_empty_poll_does_not_end_a_worker() -> None:
    bench = Bench(polls=[[], many(1)])
    bench.worker.take_turn(1)
    assert (bench.moved, bench.worker.is_done) == (["m0"], False)


def test_a_run_that_has_left_twenty_thousand_letters_ends() -> None:
    """Their handles are in memory, and making them visible takes time."""
    bench = Bench(polls=[many(1)])
    bench.run.left += ["handle"] * 19_999
    bench.worker.take_turn(1)
    assert bench.moved == ["m0"]
    bench.run.left += ["handle"]
    with pytest.raises(RunStopped, match="20000 messages had to be left in place"):
        bench.worker.take_turn(1)


def test_the_pace_is_spent_on_letters_that_go_back_alone() -> None:
    bench = Bench(
        polls=[many(5)],
        decisions={"m1": Hold("due", START + 60, "wait"), "m2": Park(Reason.EXPIRED, "old")},
        stays={"m3"},
    )
    bench.worker.take_turn(20)
    assert bench.moved == ["m0", "m1", "m2", "m3", "m4"]
    assert bench.spent == 2
    empty = Bench()
    empty.worker.take_turn(20)
    assert empty.spent == 0


def test_letters_in_hand_are_given_back_once() -> None:
    bench = Bench(in_hand=many(2))
    bench.source.release()
    bench.source.release()
    assert bench.left == ["m0", "m1"]
    assert bench.tally.oldest_left is not None


def test_a_journal_that_does_not_answer_at_the_end_is_counted() -> None:
    bench = Bench(polls=[many(1)])
    bench.worker.take_turn(1)
    bench.worker.close()
    assert bench.tally.count_of(Count.JOURNAL_UNAVAILABLE) == 0
    refused = Bench()
    slot: Any = refused.source
    slot._slot.intend([Plan(key_of("a"), "main", 1)], START + 100)
    refused.journal.down = True
    refused.worker.close()
    assert refused.tally.count_of(Count.JOURNAL_UNAVAILABLE) == 1


def test_a_chunk_is_filled_up_without_waiting_for_more() -> None:
    first, second = many(12)[:10], many(12)[10:]
    bench = Bench(polls=[first, second])
    bench.worker.take_turn(12)
    assert [(most, wait) for most, _, wait in bench.asked] == [(10, 1), (10, 0)]
    assert {lock for _, lock, _ in bench.asked} == {55 + 60}


def test_a_queue_with_too_many_letters_in_flight_gives_what_is_in_hand() -> None:
    bench = Bench(polls=[TooManyInFlight("full"), many(1)], in_hand=[received("x")])
    bench.worker.take_turn(1)
    assert bench.moved == ["x"]


def test_a_queue_with_too_many_letters_in_flight_and_none_in_hand_ends_the_run() -> None:
    bench = Bench(polls=[TooManyInFlight("full"), many(1)])
    with pytest.raises(TooManyInFlight):
        bench.worker.take_turn(10)
    assert len(bench.asked) == 1


def test_a_letter_that_may_have_been_sent_keeps_its_lock() -> None:
    """Visible again, it would be received and sent once more before anything is known of it."""
    bench = Bench(polls=[many(3)], stays={"m1"}, unanswered={"m2"})
    bench.worker.take_turn(3)
    assert bench.left == ["m1"]
    assert bench.tally.count_of(Count.LEFT_IN_PLACE) == 2


def test_a_letter_that_has_left_the_room_is_looked_for_in_the_journal_again() -> None:
    """It went in, another run sent it from there, and its mark is younger than the reading."""
    outward = planned("m0", "out", until=LONG_AGO).marked(["m0"])
    gone = replace(outward, slot=f"{ROOM}:due:1")
    bench = Bench(polls=[many(1)], journal=ReadJournal([planned("m0", ROOM)], [gone]))
    bench.worker.take_turn(1)
    assert (bench.moved, bench.deleted, bench.journal.reads) == ([], ["m0"], 2)


def test_a_letter_that_is_found_in_the_room_needs_no_second_reading() -> None:
    bench = Bench(polls=[many(1)], in_room={"m0"}, journal=ReadJournal([planned("m0", ROOM)], []))
    bench.worker.take_turn(1)
    assert (bench.moved, bench.deleted, bench.journal.reads) == ([], ["m0"], 1)


@pytest.mark.parametrize(
    "readings",
    [
        pytest.param([[planned("m0", until=BUSY_UNTIL)]], id="another worker sends it"),
        pytest.param(
            [[planned("m0", ROOM)], [planned("m0", until=BUSY_UNTIL)]],
            id="another worker sends it since the room was asked",
        ),
        pytest.param(
            [[planned("m0", ROOM), planned("m1", ROOM)], [planned("m0", ROOM)]],
            id="nothing new of it",
        ),
    ],
)
def test_a_letter_in_another_workers_hand_keeps_its_lock(readings: list[list[Intent]]) -> None:
    is_free = len(readings[0]) == 2
    bench = Bench(polls=[many(1)], journal=ReadJournal(*readings))
    bench.worker.take_turn(1)
    assert bench.moved == (["m0"] if is_free else [])
    assert (bench.deleted, bench.left) == ([], [])


def test_a_letter_that_went_into_the_room_since_the_journal_was_read_keeps_its_lock() -> None:
    """The reading named m1 only; when the room was asked for m1, m0's hold had been written."""
    first = [planned("m1", ROOM)]
    second = [planned("m1", ROOM), replace(planned("m0", ROOM), slot="other.1")]
    bench = Bench(polls=[many(2)], journal=ReadJournal(first, second))
    bench.worker.take_turn(2)
    assert (bench.moved, bench.deleted) == (["m1"], [])
    assert bench.tally.count_of(Count.LEFT_IN_PLACE) == 1


def test_a_letter_whose_answer_this_run_has_lost_keeps_its_lock() -> None:
    bench = Bench(polls=[many(1)], unknown={"m0"})
    bench.worker.take_turn(1)
    assert (bench.moved, bench.deleted, bench.left) == ([], [], [])


@pytest.mark.parametrize("known_at", [0, 1])
def test_a_letter_that_either_reading_calls_unknown_may_have_been_sent(known_at: int) -> None:
    asked_for = planned("m1", ROOM)
    readings = [[asked_for], [asked_for]]
    readings[known_at] = [asked_for, replace(planned("m0"), slot="other.1")]
    bench = Bench(polls=[many(2)], journal=ReadJournal(*readings))
    bench.worker.take_turn(2)
    assert {order.copy: order.maybe_sent for order in bench.orders} == {"m0": True, "m1": False}


def test_letters_that_were_sent_before_are_tried_too() -> None:
    """One that cannot be deleted moves nothing: the next runs wait longer and longer."""
    bench = Bench(
        polls=[many(2)],
        journal=ReadJournal([planned("m0").marked(["m0"])]),
        undeletable={"m0"},
        stays={"m1"},
    )
    bench.worker.take_turn(2)
    assert bench.tally.fruitless is True
    assert bench.tally.count_of(Count.ALREADY_SENT) == 1
    assert bench.tally.count_of(Count.UNDELETED) == 1


def test_deleting_what_was_sent_before_is_work_done() -> None:
    bench = Bench(polls=[many(1)], journal=ReadJournal([planned("m0").marked(["m0"])]))
    bench.worker.take_turn(1)
    assert bench.tally.fruitless is False
    assert bench.tally.count_of(Count.UNDELETED) == 0


@pytest.mark.parametrize(("lock", "is_gone"), [(5.0, False), (5.5, True), (-4.0, False)])
def test_a_delete_near_the_end_of_a_lock_explains_nothing(lock: float, is_gone: bool) -> None:
    """Another receiver may hold the letter then: SQS accepts the old handle, and keeps it."""
    sent = replace(received("m0"), locked_until=START + lock)
    bench = Bench(polls=[[sent]], journal=ReadJournal([planned("m0").marked(["m0"])]))
    bench.worker.take_turn(1)
    assert bench.deleted == ["m0"]
    assert (key_of("m0") in bench.known.left_queue) is is_gone


def test_the_waits_of_groups_are_asked_for_on_fifo_alone() -> None:
    letters = [received("m0", MessageGroupId="b"), received("m1", MessageGroupId="a")]
    for fifo, asked in ((True, [(["a", "b"], "dlq")]), (False, [])):
        bench = Bench(polls=[[*letters, received("m2")]], fifo=fifo)
        bench.worker.take_turn(3)
        assert bench.waits_asked == asked
        assert bench.moved == ["m0", "m1", "m2"]


def test_a_chunk_without_a_letter_to_judge_asks_for_no_waits() -> None:
    bench = Bench(polls=[many(1)], fifo=True, unknown={"m0"})
    bench.worker.take_turn(1)
    assert bench.waits_asked == []


def test_the_size_of_a_chunk_is_known_to_the_other_workers() -> None:
    bench = Bench(polls=[[in_queue(letter("x" * 1_000, f"m{at}")) for at in range(10)]])
    bench.worker.take_turn(10)
    assert 10_000 < bench.run._chunk_bytes < 15_000
    assert bench.run._under_way == 0


def test_a_chunk_is_under_way_until_its_letters_have_moved() -> None:
    bench = Bench(polls=[many(1)])
    with bench.source.take(1):
        assert bench.run._under_way == 1
    assert bench.run._under_way == 0
