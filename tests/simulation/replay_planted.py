"""Bugs of replay runs, planted on purpose: a proof that does not catch them proves nothing."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws import (
    objects,
    replay_runs,
    replay_tickets,
    run_letters,
)
from deadletter.aws import waiting_room as room_adapter
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import Partition
from deadletter.outage import health
from deadletter.redrive.lane_claim import LaneClaim
from deadletter.replay import (
    bringing_back,
    freeze,
    leaving,
    limiter,
    lineup,
    run_lane,
    snapshot,
    standing,
)
from deadletter.replay import objects as run_objects
from deadletter.replay.manifest import Manifest
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing import direct_router, judgement
from tests.simulation.planting import Bugs, on_record, replaced

PACE_BUGS = Bugs()
"""Bugs of the limiter and of the kill switch, which the schedules of `replay_pace` catch."""

pace_bug = PACE_BUGS.plant


@pace_bug("a grant is used late")
def _() -> Iterator[None]:
    with patch.object(limiter, "GRANT_SECONDS", 60.0):
        yield


@pace_bug("a grant begins when its answer arrives")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take(self: Any, letters: int, until: float, **options: Any) -> Any:
            grant = original(self, letters, until, **options)
            if grant is None:
                return None
            return replace(grant, until=self._clock() + limiter.GRANT_SECONDS)

        return take

    with replaced(limiter.RunLimiter, "take", make):
        yield


def without_conditions(*paths: str) -> Any:
    """The bug in which a grant is written without the conditions on some attributes."""

    def make(original: Any) -> Any:
        def every(conditions: Any) -> Any:
            return original([each for each in conditions if getattr(each, "path", "") not in paths])

        return every

    return replaced(replay_runs, "every", make)


@pace_bug("a grant does not look at the state of the run")
def _() -> Iterator[None]:
    with without_conditions("generation", "state"):
        yield


@pace_bug("two grants are paid for once")
def _() -> Iterator[None]:
    with without_conditions("paid"):
        yield


@pace_bug("canaries are not counted off")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def bid_for(run: Any, letters: int, now: float, token: str) -> Any:
            return replace(original(run, letters, now, token), allowance=0)

        return bid_for

    with replaced(limiter, "bid_for", make):
        yield


@pace_bug("each worker has the whole rate")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def bid_for(run: Any, letters: int, now: float, token: str) -> Any:
            bid = original(run, letters, now, token)
            return replace(bid, cost=bid.cost / 5, latest=bid.latest + bid.cost)

        return bid_for

    with replaced(limiter, "bid_for", make):
        yield


RUN_BUGS = Bugs()
"""Bugs of whole runs, which the schedules of `replay_simulator` catch."""

run_bug = RUN_BUGS.plant


@run_bug("a grant ends with its intent")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take(self: Any, letters: int, until: float, **options: Any) -> Any:
            grant = original(self, letters, until, **options)
            return None if grant is None else replace(grant, until=until)

        return take

    with replaced(limiter.RunLimiter, "take", make):
        yield


@run_bug("later letters of a FIFO group join the run")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def joins(self: Any, pick: Any) -> bool:
            self._counted = None
            return bool(original(self, pick))

        return joins

    with replaced(snapshot.Snapshot, "_joins", make):
        yield


@run_bug("an item stays in the lane after its send")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def delete(self: Any, letters: Any) -> Any:
            if not letters or letters[0][0].stamp is None:
                return original(self, letters)
            return []

        return delete

    with replaced(DynamoDBWaitingRoom, "delete", make):
        yield


@run_bug("the work list is in the order of the lane's index")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def part(self: Any, shard: int, number: int) -> Any:
            return sorted(original(self, shard, number), key=lambda name: name.copy)

        return part

    with replaced(Manifest, "part", make):
        yield


@run_bug("an abort parks what was sent and has no ticket yet")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def was_sent(self: Any, record: Any, ticket: Any) -> bool:
            return ticket is not None and bool(original(self, record, ticket))

        return was_sent

    with replaced(leaving.LeavingSource, "_was_sent", make):
        yield


@run_bug("an abort lets the schedule send")
def _() -> Iterator[None]:
    with patch.object(leaving, "TO_SCHEDULE", "parked"):
        yield


@run_bug("each worker claims a shard in a slot of its own")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def init(self: Any, **options: Any) -> None:
            original(self, **options)
            self._name += f"@{options['owner']()}"

        return init

    with (
        replaced(LaneClaim, "__init__", make),
        on_record(is_busy=False),
    ):
        yield


@run_bug("a run does not ask whether its dependency is well")
def _() -> Iterator[None]:
    with patch.object(health, "believed", lambda _health, _clock: lambda: ""):
        yield


@run_bug("a run sends letters that have expired")
def _() -> Iterator[None]:
    rest = [each for each in judgement.REPLAY_JUDGEMENTS if each is not judgement.expired_by_itself]
    with patch.object(judgement, "REPLAY_JUDGEMENTS", tuple(rest)):
        yield


@run_bug("a ticket lies among the letters of a group")
def _() -> Iterator[None]:
    def ticket_key(pipeline: str, run: str, origin: str, copy: str) -> tuple[str, str]:
        return (Partition.GROUP.of(pipeline, "dlq", run), f"{origin}#{copy}")

    with (
        patch.object(replay_tickets, "ticket_key", ticket_key),
        patch.object(replay_tickets, "ticket_key", ticket_key),
        patch.object(run_letters, "ticket_key", ticket_key),
    ):
        yield


@run_bug("a letter comes back without its ticket")
def _() -> Iterator[None]:
    with patch.object(room_adapter, "_is_return", lambda order: False):
        yield


@run_bug("an item is stored before its page")
def _() -> Iterator[None]:
    with patch.object(snapshot.Snapshot, "_store_page", lambda self, names: None):
        yield


@run_bug("a second run takes what a live one waits for")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def of_runs(self: Any, questions: Any, readings: Any, *, may_return: bool) -> Any:
            return (
                [
                    reading if question.replay else direct_router._of_no_run(reading)
                    for question, reading in zip(questions, readings, strict=True)
                ],
                frozenset(),
                frozenset(),
            )

        return of_runs

    with replaced(direct_router.DirectRouter, "_of_runs", make):
        yield


@run_bug("the attempts count anew when a letter comes back")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def item(self: Any, order: Any) -> Any:
            if order.hold.lane.startswith("run:") and order.stamp.ticket:
                order = replace(order, stamp=replace(order.stamp, base=order.stamp.attempt))
            return original(self, order)

        return item

    with replaced(DynamoDBWaitingRoom, "_item", make):
        yield


@run_bug("the next letter of a key does not wait for the outcome")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def await_outcome(self: Any, letter: Any, ticket: Any) -> None:
            original(self, letter, ticket)
            if letter.name.key in self.lineup._open:
                self.lineup._follow(letter.name.key)

        return await_outcome

    with replaced(standing.Standings, "await_outcome", make):
        yield


@run_bug("a letter is deleted before its ticket stands")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def delete(self: Any, letters: Any) -> Any:
            self._room.delete(letters)
            return original(self, letters)

        return delete

    with replaced(run_lane.TicketedLane, "delete", make):
        yield


@run_bug("what was sent counts as recovered")
def _() -> Iterator[None]:
    with patch.object(lineup, "_by_ledger", lambda row, ticket: ReplayOutcome.RECOVERED):
        yield


@run_bug("what comes back from an ended run goes to the schedule")
def _() -> Iterator[None]:
    rest = tuple(judge for judge in judgement.JUDGEMENTS if judge is not judgement.of_ended_run)
    with patch.object(judgement, "JUDGEMENTS", rest):
        yield


@run_bug("names are stored before their letters are kept")
def _() -> Iterator[None]:
    late: list[Any] = []

    def flush(original: Any) -> Any:
        def later(self: Any) -> None:
            late.append((original, self))

        return later

    def put(original: Any) -> Any:
        def first(self: Any, name: str, data: bytes) -> None:
            original(self, name, data)
            while name.startswith(freeze.SORTED) and late:
                make, batch = late.pop(0)
                make(batch)

        return first

    with (
        replaced(run_objects.OriginalsOfBatch, "flush", flush),
        replaced(objects.S3RunObjects, "put", put),
    ):
        yield


@run_bug("a letter that is made has another id each time")
def _() -> Iterator[None]:
    numbers = itertools.count()
    with patch.object(
        bringing_back, "restored_copy", lambda run, copy: f"{copy[:30]}{next(numbers)}"
    ):
        yield


@run_bug("a letter that is made begins its lives anew")
def _() -> Iterator[None]:
    with patch.object(bringing_back, "_last", lambda row: 0):
        yield


@run_bug("letters are made before their page")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def make_letters(self: Any, page: str, part: Any) -> None:
            original(replace(self, objects=Nowhere()), page, part)
            original(self, page, part)

        return make_letters

    with replaced(bringing_back.Repeating, "_make", make):
        yield


class Nowhere:
    """Objects that are not stored."""

    def put(self, name: str, data: bytes) -> None:
        pass


@run_bug("a run takes letters after its end")
def _() -> Iterator[None]:
    with patch.object(run_letters.DynamoDBPlacedLetters, "close", lambda self: None):
        yield
