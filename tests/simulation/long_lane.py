"""A lane of very many letters, reviewed by the real code while a person edits rules.

Letters, room and router are cheap here; how a run goes through the lane is production's. A call
takes as long as one of AWS, and a letter as much of a processor as was measured.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any, TypeVar

from deadletter.contract import MAIN_DLQ, rule_lane
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.openings import open_shards
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import (
    NOT_REVIEWED,
    SHARDS,
    Lane,
    LaneReview,
    RoomContents,
    WaitingRoomEntry,
)
from deadletter.routing.decision import Hold, Redrive
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer
from deadletter.settings.pipeline import Pipeline
from tests.samples import verdict

T = TypeVar("T")

MINUTE = 60.0
RUN_SECONDS = 55.0
LANE = rule_lane("stop")
HELD_UNTIL = 1e9 + 86_400

CALL = 0.02
"""Seconds of a call to DynamoDB or to the router."""

LETTER = 0.11e-3 / (512 / 1_769)
"""Seconds of the redriver's processor for a letter: 0.11 ms were measured with the deployed code,
on the stub of `lab.bench.drain`, and 512 MB have so much of a processor."""


class Clock:
    """Simulated time in which calls at the same time take as long as the longest."""

    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now

    def in_parallel(self, calls: Sequence[Callable[[], T]], /) -> list[T]:
        began, ended, results = self.now, self.now, []
        for call in calls:
            self.now = began
            results.append(call())
            ended = max(ended, self.now)
        self.now = ended
        return results


@dataclass(frozen=True, slots=True)
class Book:
    """The rules from some moment on: their edition, and the letters that they let go."""

    at: float
    edition: str
    freed: Collection[int] = frozenset()


class LongLane:
    """Room and router of one lane, whose letters are numbers.

    `left_at` says when a letter left; `judged` counts how many were judged.

    A router that has not read the rules for `lag` seconds may judge by those of before.
    """

    def __init__(self, letters: int, *, lag: float = 0.0, seed: int = 1) -> None:
        self.clock = Clock()
        self.books = [Book(0.0, "first")]
        self.review: LaneReview = NOT_REVIEWED
        self.left_at: dict[int, float] = {}
        self.judged = 0
        self._lag = lag
        self._coin = Random(seed)
        self._due = dict.fromkeys(range(letters), HELD_UNTIL)
        self._shards = [
            [(HELD_UNTIL, number) for number in range(shard, letters, SHARDS)]
            for shard in range(SHARDS)
        ]

    def edit(self, edition: str, *, frees: Iterable[int] = (), at: float | None = None) -> None:
        freed = {*self.books[-1].freed, *frees}
        self.books.append(Book(self.clock() if at is None else at, edition, freed))

    def setup(self) -> RedriverSetup:
        """A redriver of this room and router, with nothing else that it could ask."""
        nothing: Any = None
        room: Any = self
        return RedriverSetup(
            pipeline=Pipeline("orders"),
            home=MAIN_DLQ,
            dlq=nothing,
            main=nothing,
            main_arn="",
            mover=nothing,
            router=room,
            journal=nothing,
            room=room,
            circuits=nothing,
            lease=nothing,
            tally=Tally(),
            owner="run",
            clock=self.clock,
            wait=nothing,
            in_parallel=self.clock.in_parallel,
        )

    def run(self) -> float:
        """What a run does before it moves letters; then all that is due leaves.

        Returns how many seconds the review took.
        """
        began = self.clock()
        open_shards(self.setup(), began + RUN_SECONDS)
        took = self.clock() - began
        for shard in self._shards:
            while shard and shard[0][0] <= self.clock():
                _, number = shard.pop(0)
                del self._due[number]
                self.left_at[number] = self.clock()
        return took

    # What the redriver asks of the room.

    def lanes(self) -> Sequence[Lane]:
        return [Lane(LANE, self.clock(), self.review)]

    def due(
        self,
        lane: str,
        shard: int,
        until: float,
        most: int,
        after: WaitingRoomEntry | None = None,
    ) -> Sequence[WaitingRoomEntry]:
        self.clock.now += CALL
        waiting = self._shards[shard]
        begin = 0 if after is None else bisect_right(waiting, (after.due, int(after.copy)))
        end = bisect_left(waiting, (until, float("inf")))
        return [
            WaitingRoomEntry(str(number), str(number), lane, shard, due)
            for due, number in waiting[begin : min(end, begin + most)]
        ]

    def read_in_parts(
        self, entries: Sequence[WaitingRoomEntry], locked_until: float, in_parallel: object
    ) -> Iterator[RoomContents]:
        # The passes of all shards share a processor.
        self.clock.now += CALL + len(entries) * LETTER * SHARDS
        yield RoomContents(
            [
                ReceivedLetter(Letter(entry.copy, "{}"), entry.place, locked_until, held_by="stop")
                for entry in entries
                if int(entry.copy) in self._due
            ],
            0,
        )

    def reschedule(self, received: ReceivedLetter, lane: str, due: float) -> None:
        self.clock.now += CALL
        number = int(received.letter.message_id)
        waiting = self._shards[number % SHARDS]
        del waiting[bisect_left(waiting, (self._due[number], number))]
        insort(waiting, (due, number))
        self._due[number] = due

    def note_review(self, lane: str, before: LaneReview, after: LaneReview) -> None:
        assert before == self.review
        self.review = after

    # What the redriver asks of the router.

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        self.clock.now += CALL
        return LaneAnswer((), edition=self._book().edition)

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self.clock.now += CALL
        self.judged += len(questions)
        freed, held = self._book().freed, Hold(LANE, HELD_UNTIL, "its rule holds it")
        copies = [question.letter.message_id for question in questions]
        return RouterAnswer(
            tuple(
                verdict(copy, Redrive(0, "no rule holds it") if int(copy) in freed else held)
                for copy in copies
            )
        )

    def _book(self) -> Book:
        now = self.clock()
        seen = now - self._lag if self._coin.random() < 0.5 else now
        return next(book for book in reversed(self.books) if book.at <= seen)
