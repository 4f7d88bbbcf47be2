"""Bugs of sick kinds: each calls too often, holds what is well, or blinds the breaker."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.circuit import transitions
from deadletter.pace import kinds
from deadletter.pace.kinds import SickKinds
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant


@bug("a try is not held against its turn")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def write(self: Any, known: Any, after: Any, *, heals: bool) -> None:
            stored = self.breaker.find(known.key)
            original(self, replace(known, sick=stored.sick), after, heals=heals)

        return write

    with replaced(DynamoDBOutcomes, "_write_sick", make):
        yield


@bug("a sick kind is never tried")
def _() -> Iterator[None]:
    with patch.object(SickKinds, "tried", lambda self, kinds, now: None):
        yield


@bug("no success heals")
def _() -> Iterator[None]:
    with patch.object(SickKinds, "showed", lambda self, kinds, *, is_good: None):
        yield


@bug("nothing explains what fails")
def _() -> Iterator[None]:
    with patch.object(transitions, "_is_explained", lambda circuit, policy, now: False):
        yield


@bug("a minority explains any number of failures in a row")
def _() -> Iterator[None]:
    with patch.object(kinds, "MOST_IN_A_ROW", 1_000_000):
        yield


@bug("a kind may be sick by chance")
def _() -> Iterator[None]:
    with patch.object(kinds, "CHANCE", 1.0):
        yield
