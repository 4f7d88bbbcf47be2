"""Bugs of a run's workers, planted on purpose: a proof that does not catch them proves nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.redrive import lane_claim, sending
from deadletter.redrive.journal import GRACE, Slot
from deadletter.replay import carriers, leaving, limiter, run_lane, run_source, standing
from deadletter.replay.ticket import OUTSIDE
from tests.simulation.planting import Bugs, replaced
from tests.simulation.replay_planted import PACE_BUGS, RUN_BUGS
from tests.simulation.worker_stores import MemoryManifest, MemoryRoom

OF_RUNS = (
    "an abort parks what was sent and has no ticket yet",
    "an abort lets the schedule send",
    "each worker claims a shard in a slot of its own",
    "the next letter of a key does not wait for the outcome",
    "a letter is deleted before its ticket stands",
    "what was sent counts as recovered",
    "a grant ends with its intent",
)
OF_THE_PACE = ("canaries are not counted off", "each worker has the whole rate")

WORKER_BUGS = Bugs(
    {
        **{name: RUN_BUGS[name] for name in OF_RUNS},
        **{name: PACE_BUGS[name] for name in OF_THE_PACE},
    }
)
"""Bugs of the worker, of leaving and of the limiter, which `worker_simulator` catches."""

worker_bug = WORKER_BUGS.plant


@worker_bug("an item stays in the lane after its send")
def _() -> Iterator[None]:
    with patch.object(MemoryRoom, "delete", lambda self, letters: []):
        yield


@worker_bug("the work list is in the order of the lane's index")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def part(self: Any, shard: int, part: int) -> Any:
            return sorted(original(self, shard, part), key=lambda name: name.copy[-6:])

        return part

    with replaced(MemoryManifest, "part", make):
        yield


@worker_bug("what a killed worker intended is forgotten")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def claim(self: Any, intents: Any) -> Any:
            mine = next((intent for intent in intents if intent.slot == self._name), None)
            if mine is None or self._clock() < mine.expires + GRACE:
                return original(self, intents)
            return Slot(self._journal, self._name, self._owner(), mine)

        return claim

    with replaced(lane_claim.LaneClaim, "_claim", make):
        yield


@worker_bug("a shard is taken over as soon as its intent ends")
def _() -> Iterator[None]:
    with patch.object(lane_claim, "GRACE", -GRACE):
        yield


@worker_bug("a grant is used late")
def _() -> Iterator[None]:
    with (
        patch.object(limiter, "GRANT_SECONDS", 60.0),
        patch.object(run_source, "GRANT_SECONDS", 60.0),
    ):
        yield


@worker_bug("the locks of a grant end with its intent")
def _() -> Iterator[None]:
    with patch.object(run_source, "_locked_until", lambda order, end: order):
        yield


@worker_bug("a delivery does not look at the clock")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def carry(self: Any, orders: Any, slot: Any, room: Any, until: float) -> Any:
            return original(self, orders, slot, room, float("inf"))

        return carry

    with replaced(carriers.Delivering, "carry", make):
        yield


@worker_bug("a discard does not look at the clock")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def carry(self: Any, orders: Any, slot: Any, room: Any, until: float) -> Any:
            return original(self, orders, slot, room, float("inf"))

        return carry

    with replaced(carriers.Discarding, "carry", make):
        yield


@worker_bug("a send does not look at the clock")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def send(self: Any, queue: Any, batch: Any, until: float, moves: Any) -> None:
            original(self, queue, batch, float("inf"), moves)

        return send

    with replaced(sending.Sender, "_send_batch", make):
        yield


@worker_bug("the attempts have no end")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def within(decision: Any, stamp: Any, plan: Any, **options: Any) -> Any:
            return original(decision, stamp, replace(plan, attempts=99), **options)

        return within

    with replaced(run_source, "within", make):
        yield


@worker_bug("a key goes on behind a letter that stops it")
def _() -> Iterator[None]:
    with patch.object(standing.Standings, "_stops_key", lambda self, outcome, ticket: False):
        yield


@worker_bug("a direct delivery that fails uses no try")
def _() -> Iterator[None]:
    with patch.object(carriers.Delivering, "_note_try", lambda self, order, room: True):
        yield


@worker_bug("a letter is discarded without its export")
def _() -> Iterator[None]:
    with patch.object(carriers.Discarding, "_export", lambda self, order: True):
        yield


@worker_bug("an abort moves on what has reached the parking queue")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def was_sent(self: Any, record: Any, ticket: Any) -> bool:
            lets_go = ticket is not None and ticket.fate in OUTSIDE
            return not lets_go and bool(original(self, record, ticket))

        return was_sent

    with replaced(leaving.LeavingSource, "_was_sent", make):
        yield


@worker_bug("a paused worker discards what an abort has parked")
def _() -> Iterator[None]:
    with patch.object(run_lane.TicketedLane, "_left_before", lambda self, letters: set()):
        yield
