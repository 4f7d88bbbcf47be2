"""A worker and the sum of a run hold a few bytes for each letter, however many there are."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import Depth, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.mover import Left
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import SHARDS, RoomContents, WaitingRoomEntry
from deadletter.replay.limiter import Bid, BidAnswer, granted
from deadletter.replay.manifest import ManifestIndex, PartStatus
from deadletter.replay.names import PART, Name
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.reconcile import ReconcileSetup, reconcile
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.standing import ReplayWorkerSetup
from deadletter.replay.worker import ReplayWorker
from deadletter.routing.decision import Redrive
from deadletter.routing.router import Question, RouterAnswer, Verdict
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import Clock
from tests.redrive.test_journal import MemoryJournal
from tests.simulation.stage import in_turn

MOST_BYTES = 50
"""Bytes of a function's memory for each further letter."""


class Stores:
    """Everything around a run of `letters` letters, remembering one status row for each part."""

    def __init__(self, letters: int) -> None:
        self.clock = Clock()
        self.index = ManifestIndex((letters // SHARDS,) * SHARDS, "hash")
        self.rows: dict[tuple[int, int], PartStatus] = {}
        self.run = ReplayRun(
            id="0" * 16, pipeline="orders", state=RunState.RUNNING, rate=1e6, burst=10_000_000
        )
        self.moved = 0

    def part(self, shard: int, part: int) -> Sequence[Name]:
        first = part * PART
        last = min(first + PART, self.index.shards[shard])
        return tuple(
            Name(
                copy=f"{shard}-{number:030}",
                origin=f"{shard}-{number:030}",
                place=(f"orders#message#{number}", "message"),
                key=f"{shard:02}{number:014x}",
                cause=f"cause {number % 50}",
            )
            for number in range(first, last)
        )

    # The stores.

    def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer:
        return BidAnswer(True, granted(run, bid), 0.0)

    def read(self, asked: Any, *_: Any) -> Any:
        if isinstance(asked, int):
            return {part: row for (shard, part), row in self.rows.items() if shard == asked}
        if isinstance(asked, str):
            return self.run
        if asked and isinstance(asked[0], WaitingRoomEntry):
            return RoomContents([self._received(entry) for entry in asked], 0)
        return {}

    def _received(self, entry: WaitingRoomEntry) -> ReceivedLetter:
        stamp = Stamp(entry.copy, run=self.run.id)
        return ReceivedLetter(Letter(entry.copy, "{}"), entry.place, 1e12, stamp=stamp)

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        self.rows |= {(shard, part): row for part, row in parts.items()}

    def put(self, *_: Any) -> None:
        pass

    def delete(self, letters: Sequence[Any]) -> Sequence[ReceivedLetter]:
        self.moved += len(letters)
        return []

    def depth(self) -> Depth:
        return Depth(0, 0, 0)

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        decision = Redrive(0, "run")
        return RouterAnswer(
            tuple(
                Verdict(each.letter.message_id, decision, replace(each.stamp, attempt=1))
                for each in questions
                if each.stamp is not None
            )
        )


class StubMover:
    """Moves whatever it is given."""

    def move(self, orders: Sequence[Any], slot: Any, *, lane: Any) -> Left:
        slot.mark([order.copy for order in orders])
        lane.delete([(order.received, Confirmation(order.copy, "queue")) for order in orders])
        return Left()

    def confirmation_of(self, _copy: str) -> None:
        return None


def work(letters: int) -> None:
    stores: Any = Stores(letters)
    circuits: Any = type("Closed", (), {"read": lambda *_: {}})()
    mover: Any = StubMover()
    setup = ReplayWorkerSetup(
        pipeline=Pipeline("orders"),
        plan=ReplayPlan(pipeline="orders", destination="slow"),
        run=stores.run,
        shards=dict(enumerate(stores.index.shards)),
        manifest=stores,
        runs=stores,
        bids=stores,
        tickets=stores,
        statuses=stores,
        ledger=stores,
        room=stores,
        mover=mover,
        router=stores,
        journal=MemoryJournal(),
        circuits=circuits,
        main=stores,
        tally=Tally(),
        owner="me",
        clock=stores.clock,
        wait=stores.clock.advance,
        new_token=lambda: f"token {stores.moved}",
        in_parallel=in_turn,
    )
    report = ReplayWorker(setup).run(stores.clock() + 1e6)
    assert report.done, report
    assert stores.moved == letters


def add_up(letters: int) -> None:
    stores: Any = Stores(letters)
    for shard, length in enumerate(stores.index.shards):
        for part in range(-(-length // PART)):
            size = min(PART, length - part * PART)
            stores.write(shard, {part: PartStatus("r" * size, "0" * size)})
    setup = ReconcileSetup(
        plan=ReplayPlan(pipeline="orders"),
        run=replace(stores.run, messages=letters),
        index=stores.index,
        manifest=stores,
        statuses=stores,
        tickets=stores,
        all_tickets=lambda: iter(()),
        ledger=stores,
        room=stores,
        objects=stores,
        clock=stores.clock,
    )
    assert reconcile(setup, stores.clock() + 1e6).unaccounted == 0


def peak(call: Callable[[int], None], letters: int) -> int:
    tracemalloc.start()
    try:
        call(letters)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.nightly
@pytest.mark.parametrize("call", [work, add_up])
def test_memory_grows_by_a_few_bytes_for_each_letter(call: Callable[[int], None]) -> None:
    # Fewer would only fill the parts of the manifest that each shard keeps in memory.
    few, many = 20_000, 40_000
    slope = (peak(call, many) - peak(call, few)) / (many - few)
    assert slope <= MOST_BYTES, slope
