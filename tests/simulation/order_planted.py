"""Bugs planted in how the messages of an ordering key wait for each other."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws.lines import DynamoDBLines
from deadletter.processing.key_order import KeyOrder, Turn
from deadletter.redrive.mover import Mover
from deadletter.routing import line as lines
from deadletter.routing.line import Handling, KeyLine
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant


@bug("no message waits for an earlier one")
def _() -> Iterator[None]:
    with replaced(KeyLine, "ahead_of", lambda _: lambda self, place, going=(): None):
        yield


@bug("two messages of a key are handled at the same time")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def take(self: Any, place: Any, token: str, line: KeyLine) -> bool:
            original(self, place, token, line)
            return True

        return take

    def free(original: Any) -> Any:
        return lambda self, places, **how: {
            name: replace(line, is_busy=False)
            for name, line in original(self, places, **how).items()
        }

    with replaced(DynamoDBLines, "take", make), replaced(DynamoDBLines, "read", free):
        yield


@bug("an older message is handled after a later one")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def turn(self: Any, place: Any, claim: Any, *, passes: bool, until: float) -> Turn:
            found = original(self, place, claim, passes=passes, until=until)
            return Turn.NOW if found is Turn.SUPERSEDED else found

        return turn

    with replaced(KeyOrder, "turn", make):
        yield


@bug("the highest place that was processed is forgotten with the next message")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, place, token, line: original(self, place, token, replace(line, done={}))

    with replaced(DynamoDBLines, "take", make):
        yield


@bug("a process that has died has had no effect")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def state_of(handling: Handling, *about: Any, is_holder: bool) -> Any:
            told = Handling.NONE if handling is Handling.ABANDONED else handling
            return original(told, *about, is_holder=is_holder)

        return state_of

    from deadletter.aws import lines as adapter

    with patch.object(adapter, "state_of", make(lines.state_of)):
        yield


@bug("a message that was given back is not listed")
def _() -> Iterator[None]:
    with replaced(KeyOrder, "wait", lambda _: lambda self, place: None):
        yield


@bug("one that failed is forgotten when an earlier one is handled")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, place, token, line: original(
            self, place, token, replace(line, is_held=False)
        )

    with replaced(DynamoDBLines, "take", make):
        yield


@bug("a parked message is told of after it is parked, or not at all")
def _() -> Iterator[None]:
    with replaced(Mover, "_told", lambda _: lambda self, orders: list(orders)):
        yield


@bug("a message is skipped for one that has failed")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def done(line: KeyLine) -> KeyLine:
            at = line.holder
            if at is None:
                return line
            highest = max(line.done.get(at.kind, ""), at.number)
            return replace(line, done={**line.done, at.kind: highest})

        return lambda self, places, **how: {
            name: done(line) for name, line in original(self, places, **how).items()
        }

    with replaced(DynamoDBLines, "read", make):
        yield
