"""Several workers take turns at the queue and at the lanes of the waiting room."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from deadletter.aws.wiring.world import in_threads
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPaid
from deadletter.redrive.concurrency import WINDOW, ChunksInFlight
from deadletter.redrive.fair_shares import NO_SHARES, QUEUE
from deadletter.redrive.journal import MAX_PLANS
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.turns import Turns
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.decision import DUE
from deadletter.signals.figures import Count
from tests.simulation.stage import Stage

LETTERS = 10
MANY = 10 * MAX_PLANS


@dataclass
class Pile:
    """Letters in one place; each turn is noted in `turns`."""

    name: str
    letters: int
    turns: list[str]
    error: Exception | None = None
    taken: int = 0
    rests_until: float = 0.0
    in_hand: threading.Lock = field(default_factory=threading.Lock)

    @property
    def is_done(self) -> bool:
        return self.letters == 0

    def take_turn(self, letters: int) -> None:
        assert self.in_hand.acquire(blocking=False), "two threads use one worker"
        try:
            self.turns.append(self.name)
            if self.error is not None:
                raise self.error
            moved = min(letters, self.letters)
            self.letters -= moved
            self.taken += moved
        finally:
            self.in_hand.release()

    def close(self) -> None:
        return


def limits() -> RunLimits:
    redriver: Redriver = Stage().redriver()
    return redriver._limits(redriver._clock() + 55, RunPaid(Rate(50, 50), 0.0))


def turns_of(workers: Mapping[str, Sequence[Pile]], run: RunLimits, tally: Tally) -> Turns:
    return Turns(shares=NO_SHARES, letters=LETTERS, workers=workers, run=run, tally=tally)


def test_the_sources_take_turns_and_a_lane_uses_its_turn_in_all_its_shards() -> None:
    log: list[str] = []
    workers = {
        QUEUE: [Pile("queue", 20, log)],
        DUE: [Pile("due0", 6, log), Pile("due1", 14, log)],
    }
    turns = turns_of(workers, limits(), Tally())
    turns.work()
    assert log == ["due0", "due1", "queue", "due1", "queue"]
    assert turns.served == {QUEUE, DUE}


def test_no_two_threads_use_one_worker_and_every_letter_is_taken() -> None:
    log: list[str] = []
    lanes = {f"circuit:{n}": [Pile(f"{n}.{s}", 37, log) for s in range(8)] for n in range(20)}
    workers = {QUEUE: [Pile("queue", 500, log) for _ in range(4)], **lanes}
    turns = turns_of(workers, limits(), Tally())
    in_threads([turns.work] * 8)
    assert all(pile.is_done for piles in workers.values() for pile in piles)


def test_a_room_without_an_answer_ends_its_lanes_and_not_the_queue() -> None:
    log: list[str] = []
    run, tally = limits(), Tally()
    down = RoomUnavailable("ThrottlingException for dynamodb:Query on letters")
    workers = {
        QUEUE: [Pile("queue", 30, log)],
        DUE: [Pile("due", 30, log, error=down)],
        "circuit:a": [Pile("a", 30, log)],
    }
    turns_of(workers, run, tally).work()
    assert log == ["due", "queue", "queue", "queue"]
    assert run.stopped is None
    assert tally.count_of(Count.ROOM_UNAVAILABLE) == 1
    assert not tally.report("orders", "dlq", "x").ended_well


def test_a_room_that_the_queue_needs_ends_the_run() -> None:
    log: list[str] = []
    run = limits()
    workers = {QUEUE: [Pile("queue", 30, log, error=RoomUnavailable("down"))]}
    turns_of(workers, run, Tally()).work()
    assert run.stopped is not None
    assert log == ["queue"]


def test_the_end_of_a_run_is_the_end_of_all_turns_and_its_lane_keeps_its_claim() -> None:
    log: list[str] = []
    run = limits()
    workers = {"circuit:a": [Pile("a", 30, log, error=RunStopped("the deadline is near"))]}
    turns = turns_of({QUEUE: [], **workers}, run, Tally())
    turns.work()
    assert (run.stopped, log) == ("the deadline is near", ["a"])
    assert turns.shares.claims == {"circuit:a": LETTERS}


def test_what_a_worker_took_in_earlier_turns_does_not_shorten_this_one() -> None:
    log: list[str] = []
    busy = Pile("due0", 6, log, taken=50)
    workers = {QUEUE: [Pile("queue", 20, log)], DUE: [busy, Pile("due1", 14, log)]}
    turns_of(workers, limits(), Tally()).work()
    assert log == ["due0", "due1", "queue", "due1", "queue"]


class Crew:
    """A queue whose run has more chunks under way once they are worth it."""

    def __init__(self, letters: int, first: int = 1) -> None:
        self.log: list[str] = []
        self.run = limits()
        self.run.chunks = ChunksInFlight(first, 4 * first)
        self.run.expect(letters)
        self.workers = [Pile(f"w{at}", letters, self.log) for at in range(first)]
        self.started: list[int] = []
        self.turns_of_each: list[int] = []
        self.as_threads_start: Callable[[], None] = lambda: None
        self.turns = Turns(
            shares=NO_SHARES,
            letters=LETTERS,
            workers={QUEUE: self.workers},
            run=self.run,
            tally=Tally(),
            in_parallel=self.one_after_the_other,
            new_worker=self.new_worker,
        )

    def new_worker(self) -> Pile:
        self.workers.append(Pile(f"w{len(self.workers)}", 2 * LETTERS, self.log))
        return self.workers[-1]

    def one_after_the_other(self, calls: Sequence[Callable[[], None]]) -> list[None]:
        self.started.append(len(calls))
        self.as_threads_start()
        for call in calls:
            before = len(self.log)
            call()
            self.turns_of_each.append(len(self.log) - before)
        return []

    def grow(self) -> None:
        """Have the chunks of the run measured as worth twice as many."""
        for _ in range(WINDOW):
            self.run.chunks.note(1.0, of=self.run.chunks.chunks, may_grow=True)


def test_a_thread_starts_another_with_a_worker_of_its_own_when_more_chunks_are_worth_it() -> None:
    crew = Crew(MANY)
    crew.grow()
    crew.turns.work()
    assert crew.started == [2]
    assert len(crew.workers) == 2
    assert {"w0", "w1"} == set(crew.log)
    assert all(worker.is_done for worker in crew.workers)


def test_letters_that_fill_no_more_chunks_get_no_more_threads() -> None:
    crew = Crew(MAX_PLANS)
    crew.grow()
    crew.turns.work()
    assert (crew.started, len(crew.workers)) == ([], 1)


def test_a_thread_too_many_leaves_and_its_worker_stays_in_turn() -> None:
    crew = Crew(MANY)
    crew.grow()
    crew.as_threads_start = crew.run.chunks.fall_back
    crew.turns.work()
    assert crew.turns_of_each == [0, 101], "the first of the two left"
    assert all(worker.is_done for worker in crew.workers)


def test_no_thread_is_started_in_a_run_that_has_ended() -> None:
    crew = Crew(MANY)
    crew.grow()
    crew.workers[0].error = RunStopped("over")
    crew.turns.work()
    assert crew.started == []
