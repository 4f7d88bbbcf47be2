"""CLOSED, OPEN or HALF_OPEN for one downstream dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol


class State(StrEnum):
    """Whether a dependency is believed to work (CLOSED), not to (OPEN) or is being tried."""

    CLOSED = "CLOSED"
    OPEN = "OPEN"
    HALF_OPEN = "HALF_OPEN"


class CircuitsUnavailable(Exception):
    """The circuits could not be read. Re-driving is never urgent: hold."""


@dataclass(frozen=True, slots=True)
class Circuit:
    """One dependency's state; `key` is the pipeline's name or a value found in the message."""

    key: str
    state: State = State.CLOSED

    @property
    def lets_through(self) -> bool:
        return self.state is State.CLOSED


class Circuits(Protocol):
    """Where the circuits are kept; raises CircuitsUnavailable when it cannot answer."""

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        """Each key's circuit; one that was never seen is CLOSED."""
