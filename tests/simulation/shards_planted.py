"""Bugs of drains in shards, planted on purpose: the simulator must catch each of them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from deadletter.aws.lease import DynamoDBLease
from deadletter.message.confirmation import Confirmation
from deadletter.pace.rate import Rate
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.queue_source import QueueSource
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.shards import DrainOwner
from deadletter.redrive.source_memory import Drain
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant


class _OwnPart:
    """A journal that shows nothing of what others have written."""

    def __init__(self, journal: Any) -> None:
        self._journal = journal

    def read(self) -> list[Any]:
        return []

    def __getattr__(self, name: str) -> Any:
        return getattr(self._journal, name)


@bug("two shards send one letter: each reads its own part of the journal alone")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take_part(self: Any, deadline: float, drain: Any) -> Any:
            self._known = KnownIntents(_OwnPart(self._setup.journal), self._setup.clock)
            return original(self, deadline, drain)

        return take_part

    with replaced(Redriver, "_drain_part", make):
        yield


@bug("a shard's lease outlives it")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def acquire(self: Any, owner: str, now: float, until: float) -> Any:
            is_shard = "~" in self._key[1]
            return original(self, owner, now, until + 1e6 if is_shard else until)

        return acquire

    def forgetting(original: Any) -> Any:
        def give_back(self: Any, *rest: Any) -> None:
            if "~" not in self._key[1]:
                original(self, *rest)

        return give_back

    with (
        replaced(DynamoDBLease, "acquire", make),
        replaced(DynamoDBLease, "give_back", forgetting),
    ):
        yield


@bug("each shard has the whole rate")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def paid(self: Any, now: float) -> Any:
            return replace(original(self, now), rate=Rate(self.rate * self.of, self.burst))

        return paid

    with replaced(Drain, "paid", make):
        yield


@bug("the owner goes on at the whole rate")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def part(self: Any, left: Any, rate: Any, *rest: Any, **named: Any) -> Any:
            original(self, left, rate, *rest, **named)
            return left.at(rate, self._setup.clock())

        return part

    with replaced(DrainOwner, "part", make):
        yield


@bug("each shard begins with a burst of its own")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def paid(self: Any, now: float) -> Any:
            return replace(original(self, now), paid=0.0)

        return paid

    with replaced(Drain, "paid", make):
        yield


@bug("a shard works on when its drain has ended")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take_part(self: Any, deadline: float, drain: Any) -> Any:
            return original(self, deadline + 600, replace(drain, until=drain.until + 600))

        return take_part

    with replaced(Redriver, "_drain_part", make):
        yield


@bug("a shard deletes what another one has in hand")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def parts(self: Any) -> Any:
            busy = [
                received
                for received in self._unjudged
                if self._known.recent().of_queue(received.letter.message_id).is_busy
            ]
            self.store.delete([(r, Confirmation(r.letter.message_id, "hope")) for r in busy])
            return original(self)

        return parts

    with replaced(QueueSource, "parts", make):
        yield
