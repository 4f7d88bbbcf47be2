"""Bugs that only a queue with many letters can hit, planted on purpose."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from deadletter.message.confirmation import Confirmation
from deadletter.redrive.journal import Slot
from deadletter.redrive.mover import Mover
from deadletter.redrive.queue_source import QueueSource
from deadletter.redrive.receiving import LettersInHand
from deadletter.redrive.sending import Sender
from deadletter.redrive.turns import Turns
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant

BATCH = 10


@bug("the intent of a chunk names the letters of its first batch alone")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, plans, expires: original(self, plans[:BATCH], expires)

    with replaced(Slot, "intend", make):
        yield


@bug("the mark of a chunk names the letters of its first batch alone")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, copies, *rest: original(self, list(copies)[:BATCH], *rest)

    with replaced(Slot, "mark", make):
        yield


@bug("all workers of a run write their intents into one slot")
def _() -> Iterator[None]:
    slots: dict[Any, Any] = {}

    def make(original: Any) -> Any:
        def init(
            self: Any, setup: Any, run: Any, number: int, *rest: Any, known: Any, **options: Any
        ) -> None:
            original(self, setup, run, number, *rest, known=known, **options)
            self._slot = slots.setdefault(run, self._slot)

        return init

    with replaced(QueueSource, "__init__", make):
        yield


@bug("a batch without an answer is deleted with the others of its chunk")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def send_batch(self: Any, queue: Any, batch: Any, until: float, moves: Any) -> None:
            original(self, queue, batch, until, moves)
            copies = [envelope.copy for envelope in batch]
            moves.confirmed.update((copy, Confirmation(copy, "hope")) for copy in copies)
            moves.unknown.difference_update(copies)

        return send_batch

    with replaced(Sender, "_send_batch", make):
        yield


@bug("letters in hand are moved again with the next chunk")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take(self: Any, most: int) -> Any:
            chunk = original(self, most)
            self.add(chunk[-1:])
            return chunk

        return take

    def forgetting(original: Any) -> Any:
        return lambda self, copy: None

    with (
        replaced(LettersInHand, "take", make),
        replaced(Mover, "confirmation_of", forgetting),
    ):
        yield


@bug("two threads of a run use one worker")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def worker_of(self: Any, source: str) -> Any:
            worker = original(self, source)
            if worker is not None and not worker.is_done:
                self._idle[source].append(worker)
            return worker

        return worker_of

    with replaced(Turns, "_worker_of", make):
        yield
