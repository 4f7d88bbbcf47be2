"""Bugs of sudden causes: each parks what it must not, or never parks what it must."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from deadletter.failure import causes
from deadletter.failure.causes import Causes
from deadletter.processing import sudden_causes
from tests.simulation.planting import Bugs, replaced

BUGS = Bugs()
bug = BUGS.plant


@bug("a new cause parks at its first receive")
def _() -> Iterator[None]:
    with patch.object(Causes, "is_new", lambda self, cause, now: False):
        yield


@bug("every cause is new at a first receive")
def _() -> Iterator[None]:
    with patch.object(Causes, "is_new", lambda self, cause, now: True):
        yield


@bug("a failure renews no hold")
def _() -> Iterator[None]:
    with patch.object(Causes, "_renewed", lambda self, seconds, now: self):
        yield


@bug("any failure renews a hold, however rare its cause")
def _() -> Iterator[None]:
    with patch.object(Causes, "_is_common", lambda self, cause, at: True):
        yield


@bug("a hold lasts for an hour")
def _() -> Iterator[None]:
    with patch.object(causes, "HOLD", 3_600.0):
        yield


@bug("a failure that has ended its hold begins it again")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def hold_of(self: Any, cause: str, now: float) -> Any:
            return original(self, cause, now) or self.holds.get(cause)

        return hold_of

    with replaced(Causes, "hold_of", make):
        yield


@bug("a letter of a held cause waits until its hold has ended")
def _() -> Iterator[None]:
    with patch.object(sudden_causes, "again", lambda random: causes.HOLD):
        yield


@bug("a death while its cause was held parks the letter")
def _() -> Iterator[None]:
    with patch.object(Causes, "excuses", lambda self, failure, now: False):
        yield


@bug("a cause that can't be read is parked for")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def asked(self: Any, now: float) -> Any:
            known = original(self, now)
            return causes.NO_CAUSES if known is None else known

        return asked

    with replaced(sudden_causes.SuddenCauses, "_asked", make):
        yield
