"""Several workers take turns at the queue and at the lanes of the waiting room."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from deadletter.aws.wiring.world import in_threads
from deadletter.pace.rate import Rate
from deadletter.pace.run import RunPaid
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.report import Tally
from deadletter.redrive.round_robin import NO_TURN, QUEUE, LastTurn
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.turns import Turns
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.decision import DUE
from deadletter.signals.figures import Count
from tests.simulation.stage import Stage

LETTERS = 10


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


def turns_of(workers: Mapping[str, Sequence[Any]], run: RunLimits, tally: Tally) -> Turns:
    return Turns(last=NO_TURN, letters=LETTERS, workers=workers, run=run, tally=tally)


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
    down = RoomUnavailable("ThrottlingException for dynamodb:Query on messages")
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


def test_the_end_of_a_run_is_the_end_of_all_turns() -> None:
    log: list[str] = []
    run = limits()
    workers = {"circuit:a": [Pile("a", 30, log, error=RunStopped("the deadline is near"))]}
    turns = turns_of({QUEUE: [], **workers}, run, Tally())
    turns.work()
    assert (run.stopped, log) == ("the deadline is near", ["a"])
    assert turns.last == LastTurn("lanes", "circuit:a")


def test_what_a_worker_took_in_earlier_turns_does_not_shorten_this_one() -> None:
    log: list[str] = []
    busy = Pile("due0", 6, log, taken=50)
    workers = {QUEUE: [Pile("queue", 20, log)], DUE: [busy, Pile("due1", 14, log)]}
    turns_of(workers, limits(), Tally()).work()
    assert log == ["due0", "due1", "queue", "due1", "queue"]


def test_lanes_with_few_letters_have_a_turn_together() -> None:
    """Else a thousand circuits with a letter each would wait for a thousand turns of the queue."""
    log: list[str] = []
    lanes = {f"circuit:{name}": [Pile(name, 3, log)] for name in "abcdef"}
    turns = turns_of({QUEUE: [Pile("queue", 20, log)], **lanes}, limits(), Tally())
    turns.work()
    assert log == [*"abcd", "queue", *"efd", "queue"]
    assert turns.served == {QUEUE, *lanes}


def test_a_turn_of_the_queue_or_of_delays_goes_on_in_no_lane() -> None:
    log: list[str] = []
    workers = {
        QUEUE: [Pile("queue", 3, log)],
        DUE: [Pile("due", 3, log)],
        "circuit:a": [Pile("a", 30, log)],
    }
    turns_of(workers, limits(), Tally()).work()
    assert log == ["due", "a", "queue", "a", "a"]


def test_a_lane_that_rests_takes_part_in_no_turn() -> None:
    log: list[str] = []
    run = limits()
    resting = Pile("b", 3, log, rests_until=run.clock() + 1)
    turns_of({"circuit:a": [Pile("a", 3, log)], "rule:b": [resting]}, run, Tally()).work()
    assert log == ["a", "b"]
    assert run.clock() >= resting.rests_until
