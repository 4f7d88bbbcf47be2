"""One worker of an open shard: whose letters it takes, and what it leaves to others."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import Depth, ReceivedLetter
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPace, RunPaid
from deadletter.redrive.draining import Draining
from deadletter.redrive.journal import GRACE, OUT_OF_ROOM, ROOM, Intent, Plan, key_of
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_source import LaneSource
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import VerdictSource
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import OpenShard, RoomContents, WaitingRoomEntry
from deadletter.routing.decision import Decision, Hold, Redrive
from deadletter.routing.router import Question, RouterAnswer, RouterUnavailable, Verdict
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count
from deadletter.testing.clock import START, Clock
from tests.redrive.test_journal import MemoryJournal
from tests.samples import letter, received, verdict

SHARD = OpenShard("due", 3, START)
SLOT = f"{ROOM}:due:3"


class SharedJournal(MemoryJournal):
    """A journal into which another run may write while this one works."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[Intent] = []
        self.next_claim_is_lost = False

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        if self.next_claim_is_lost:
            self.next_claim_is_lost = False
            self.intents[intent.slot] = replace(intent, owner="another")
        super().write(intent, replacing)
        self.written.append(intent)


@dataclass
class Bench:
    """A worker of shard 3 of lane `due`, and the room, the mover and the router it meets."""

    copies: list[str] = field(default_factory=list)
    groups: Mapping[str, str] = field(default_factory=dict)
    decisions: Mapping[str, Decision] = field(default_factory=dict)
    stays: set[str] = field(default_factory=set)
    undeletable: set[str] = field(default_factory=set)
    broken: int = 0
    lags: bool = False
    fifo: bool = False
    router_is_down: bool = False
    burst: float = 500.0
    intents: Sequence[Intent] = ()
    verdict_source: VerdictSource | None = None
    part: int = 100
    throttled: int = 0

    def __post_init__(self) -> None:
        self.clock = Clock()
        self.tally = Tally()
        self.listed: list[int] = []
        self.reads: list[int] = []
        self.in_parallel = object()
        self.orders: list[Order] = []
        self.deleted: list[str] = []
        self.journal = SharedJournal()
        self.journal.intents = {intent.slot: intent for intent in self.intents}
        self.known = KnownIntents(self.journal, self.clock)
        here: Any = self
        self.run = RunLimits(
            owner="me",
            deadline=START + 1_000,
            clock=self.clock,
            wait=self.clock.advance,
            main=here,
            backlog_limit=None,
            pace=RunPace(RunPaid(Rate(50.0, self.burst), 0.0), lambda: START),
        )
        setup: Any = SimpleNamespace(
            pipeline=Pipeline("orders", fifo=self.fifo),
            router=self,
            clock=self.clock,
            mover=self,
            tally=self.tally,
            room=self,
            journal=self.journal,
            in_parallel=self.in_parallel,
        )
        rate: Any = SimpleNamespace(
            take=partial(min, self.throttled), give_back=lambda _: None, rests_until=0.0
        )
        self.source = LaneSource(
            setup,
            self.run,
            SHARD,
            known=self.known,
            in_passing=self.verdict_source is not None,
            throttle=rate if self.throttled else None,
        )
        self.worker = Draining(setup, self.source, self.verdict_source)

    def depth(self) -> Depth:
        return Depth(0, 0, 0)

    # The room.

    def due(
        self,
        lane: str,
        shard: int,
        until: float,
        most: int,
        after: WaitingRoomEntry | None = None,
    ) -> list[WaitingRoomEntry]:
        assert (lane, shard, until) == ("due", 3, START)
        self.listed.append(most)
        # As an index in the order of the ids: what is behind a letter that has left, too.
        ahead = [copy for copy in self.copies if after is None or copy > after.copy]
        return [
            WaitingRoomEntry(copy, f"place of {copy}", lane, shard, START) for copy in ahead[:most]
        ]

    def read_in_parts(
        self, entries: Sequence[WaitingRoomEntry], locked_until: float, in_parallel: object
    ) -> Iterator[RoomContents]:
        assert locked_until == START + 1_060
        assert in_parallel is self.in_parallel
        self.reads.append(len(entries))
        letters = [
            received(letter("{}", entry.copy, None, **self._group_of(entry.copy)))
            for entry in entries
            if entry.copy not in self.deleted
        ]
        for start in range(0, len(letters), self.part):
            yield RoomContents(letters[start : start + self.part], self.broken)

    def _group_of(self, copy: str) -> dict[str, str]:
        return {"MessageGroupId": self.groups[copy]} if copy in self.groups else {}

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> list[ReceivedLetter]:
        for each, _ in letters:
            self._take_out(each.letter.message_id)
        return [each for each, _ in letters if each.letter.message_id in self.undeletable]

    def _take_out(self, copy: str) -> None:
        self.deleted.append(copy)
        # An index that lags shows it for a while.
        if not self.lags:
            self.copies.remove(copy)

    # The mover.

    def move(self, orders: Sequence[Order], _slot: object) -> Left:
        self.orders += orders
        for order in orders:
            if order.copy not in self.stays:
                self._take_out(order.copy)
        return Left([order.received for order in orders if order.copy in self.stays])

    # The router.

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        if self.router_is_down:
            raise RouterUnavailable("down")
        assert all(question.served for question in questions)
        copies = [question.letter.message_id for question in questions]
        return RouterAnswer(
            tuple(verdict(copy, self.decisions.get(copy, Redrive(0, "again"))) for copy in copies)
        )

    @property
    def moved(self) -> list[str]:
        return [order.copy for order in self.orders]

    @property
    def spent(self) -> float:
        """The letters of the pace that are gone."""
        return round(self.burst - self.run.paid.free(START), 3)


def many(number: int) -> list[str]:
    return [f"m{each}" for each in range(number)]


def earlier(*copies: str, expires: float = START - 1_000, slot: str = SLOT) -> Intent:
    """Another run's intent to take letters out of the shard."""
    plans = [Plan(key_of(copy), OUT_OF_ROOM, 0) for copy in copies]
    return Intent(slot, "another", 7, expires, plans)


def test_a_turn_takes_as_many_letters_as_it_is_given() -> None:
    bench = Bench(many(5))
    assert bench.worker.taken == 0
    bench.worker.take_turn(3)
    assert (bench.worker.taken, bench.moved) == (3, ["m0", "m1", "m2"])
    bench.worker.take_turn(1)
    assert (bench.worker.taken, bench.moved[3:]) == (4, ["m3"])
    assert not bench.worker.is_done


def test_an_empty_shard_leaves_nothing_in_the_journal() -> None:
    """A claim that stands keeps other runs out of the shard until it expires."""
    bench = Bench(many(2))
    bench.worker.take_turn(10)
    assert bench.worker.is_done
    assert not bench.journal.intents


def test_a_claim_that_cannot_be_removed_is_counted() -> None:
    bench = Bench(many(1))
    bench.worker.take_turn(1)
    bench.worker.close()
    assert bench.tally.count_of(Count.JOURNAL_UNAVAILABLE) == 0
    bench = Bench(many(1))
    bench.worker.take_turn(1)
    bench.journal.down = True
    bench.worker.close()
    assert bench.tally.count_of(Count.JOURNAL_UNAVAILABLE) == 1


def test_a_plan_out_of_the_room_names_no_attempt() -> None:
    """The attempt is in the stamp of the letter, which is read when it is sent."""
    bench = Bench(many(1))
    bench.worker.take_turn(1)
    [intent] = bench.journal.written
    assert intent.plans == (Plan(key_of("m0"), OUT_OF_ROOM, 0),)
    assert intent.slot == SLOT


@pytest.mark.parametrize(("seconds", "moves"), [(-0.5, False), (0, True), (0.5, True)])
def test_a_shard_is_taken_over_when_the_last_send_can_no_longer_be_marked(
    seconds: float, moves: bool
) -> None:
    bench = Bench(many(1), intents=[earlier("m0", expires=START - GRACE - seconds)])
    bench.worker.take_turn(1)
    assert bench.moved == (["m0"] if moves else [])
    assert (bench.worker.is_done, bench.reads) == (not moves, [1] if moves else [])


def test_a_shard_that_another_run_claims_first_is_left_to_it() -> None:
    bench = Bench(many(1))
    bench.journal.next_claim_is_lost = True
    bench.worker.take_turn(10)
    assert (bench.worker.is_done, bench.moved, bench.listed) == (True, [], [100])
    assert bench.journal.intents[SLOT].owner == "another"


def test_the_letters_of_a_turn_are_read_together() -> None:
    """One request reads a hundred items: ten of them would cost ten times the calls."""
    bench = Bench(many(121))
    bench.worker.take_turn(121)
    assert bench.reads == [100, 21]
    assert len(bench.moved) == 121


def test_parts_are_moved_one_after_the_other() -> None:
    bench = Bench(many(11), broken=2, part=10)
    bench.worker.take_turn(11)
    assert (bench.reads, bench.moved) == ([11], many(11))


class OneOfTwo:
    """Decides about every other letter, and needs no router."""

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        assert served
        copies = [each.letter.message_id for each in letters][::2]
        return {copy: verdict(copy, Hold("run:r", 0, "run r")) for copy in copies}


def test_a_letter_stays_without_a_verdict_of_another_source_than_the_router() -> None:
    bench = Bench(many(4), router_is_down=True, verdict_source=OneOfTwo())
    bench.worker.take_turn(100)
    assert bench.moved == ["m0", "m2"]
    assert bench.copies == ["m1", "m3"]
    assert bench.worker.is_done


def test_a_shard_is_gone_through_once_with_verdicts_of_another_source() -> None:
    """Letters that stay would be listed for ever."""
    bench = Bench([f"m{n:03}" for n in range(250)], verdict_source=OneOfTwo())
    bench.worker.take_turn(1_000)
    assert len(bench.moved) == len(bench.copies) == 125
    assert (bench.worker.is_done, bench.listed) == (True, [100, 100, 100])
    assert not bench.source.is_elsewhere


def test_a_worker_says_that_another_run_has_its_shard() -> None:
    bench = Bench(many(1), intents=[earlier("m0", expires=START + 1_000)])
    bench.worker.take_turn(1)
    assert bench.source.is_elsewhere


def test_a_router_that_does_not_answer_leaves_the_shard_free() -> None:
    bench = Bench(many(2), router_is_down=True)
    with pytest.raises(RouterUnavailable):
        bench.worker.take_turn(10)
    assert not bench.journal.intents


def test_the_end_of_a_run_leaves_the_shard_free() -> None:
    bench = Bench(many(1))
    bench.run.stop("another worker has ended the run")
    with pytest.raises(RunStopped):
        bench.worker.take_turn(10)
    assert not bench.journal.intents


def test_an_entry_is_not_looked_at_again_for_a_minute() -> None:
    """The index still shows it; a letter that stays has its next try then."""
    bench = Bench(many(1), lags=True)
    bench.worker.take_turn(10)
    assert (bench.moved, bench.worker.is_done, bench.listed) == (["m0"], True, [100, 100])


@pytest.mark.parametrize(("seconds", "is_read"), [(59.5, False), (60.0, False), (60.5, True)])
def test_an_entry_is_looked_at_again_after_a_minute(seconds: float, is_read: bool) -> None:
    bench = Bench(many(1), stays={"m0"})
    bench.worker.take_turn(1)
    bench.clock.advance(seconds)
    bench.worker.take_turn(1)
    assert bench.moved == (["m0"] * 2 if is_read else ["m0"])
    assert bench.worker.is_done is not is_read


def test_the_pace_is_spent_on_letters_that_go_back_alone() -> None:
    bench = Bench(many(4), decisions={"m1": Hold("due", START + 60, "wait")}, stays={"m2"})
    bench.worker.take_turn(4)
    # The answer to the send of m2 may be lost: it counts.
    assert (len(bench.moved), bench.spent) == (4, 3)


def sent_before(*copies: str) -> Intent:
    """The record of an earlier worker of the shard that sent these letters."""
    return earlier(*copies, slot=f"{SLOT}~another.7").marked(copies)


def test_letters_that_were_sent_before_are_deleted_and_counted_as_tried() -> None:
    bench = Bench(many(2), intents=[sent_before("m0", "m1")])
    bench.worker.take_turn(2)
    assert (bench.moved, sorted(bench.deleted)) == ([], ["m0", "m1"])
    assert bench.tally.count_of(Count.ALREADY_SENT) == 2
    assert bench.tally.count_of(Count.UNDELETED) == 0
    assert (bench.tally.fruitless, bench.tally.futile) == (False, 0)


def test_letters_that_were_sent_before_and_stay_were_tried_for_nothing() -> None:
    bench = Bench(many(2), undeletable={"m0", "m1"}, intents=[sent_before("m0", "m1")])
    bench.worker.take_turn(2)
    assert bench.tally.count_of(Count.UNDELETED) == 2
    assert (bench.tally.fruitless, bench.tally.futile) == (True, 2)
    assert not bench.known.left_room


def test_of_letters_that_were_sent_before_those_deleted_are_gone() -> None:
    bench = Bench(many(2), undeletable={"m0"}, intents=[sent_before("m0", "m1")])
    bench.worker.take_turn(2)
    assert (bench.tally.fruitless, bench.tally.futile) == (False, 1)
    assert set(bench.known.left_room) == {key_of("m1")}


@pytest.mark.parametrize("fifo", [True, False])
def test_a_letter_of_a_group_that_has_to_wait_takes_the_next_ones_along_on_fifo(
    fifo: bool,
) -> None:
    bench = Bench(
        many(2),
        groups={"m0": "g", "m1": "g"},
        decisions={"m0": Hold("circuit:orders", START + 60, "open")},
        fifo=fifo,
    )
    bench.worker.take_turn(2)
    held = [order.copy for order in bench.orders if isinstance(order.decision, Hold)]
    assert held == (["m0", "m1"] if fifo else ["m0"])


@pytest.mark.parametrize(("fifo", "moved"), [(True, ["m0"]), (False, ["m0", "m1"])])
def test_a_letter_that_stays_stops_its_group_in_later_parts_too(
    fifo: bool, moved: list[str]
) -> None:
    bench = Bench(many(2), groups={"m0": "g", "m1": "g"}, stays={"m0"}, fifo=fifo, part=1)
    bench.worker.take_turn(2)
    assert bench.moved == moved


def test_a_shard_with_letters_that_stay_is_listed_page_by_page() -> None:
    """A list that began anew with each page would grow with the square of the shard."""
    copies = [f"m{n:03}" for n in range(450)]
    bench = Bench(copies, stays=set(copies))
    bench.worker.take_turn(1_000)
    assert bench.moved == copies
    # Two passes: the second one finds nothing that the first has not seen.
    assert (bench.worker.is_done, bench.listed) == (True, [100] * 10)


def test_letters_that_come_in_during_the_run_are_found_in_it() -> None:
    bench = Bench(["m1", "m2"])
    bench.worker.take_turn(2)
    bench.copies.append("m0")
    bench.worker.take_turn(2)
    assert bench.moved == ["m1", "m2", "m0"]


def test_entries_beyond_a_grant_are_taken_in_the_next_turn() -> None:
    bench = Bench(many(5), throttled=2)
    bench.worker.take_turn(100)
    bench.worker.take_turn(100)
    bench.worker.take_turn(100)
    assert bench.moved == many(5)
    assert (bench.listed, bench.worker.is_done) == ([100], False)
