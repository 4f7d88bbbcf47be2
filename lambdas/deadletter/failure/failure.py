"""One failure of a letter, as its consumer recorded it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Statuses that mean "not now": waiting helps, and the letter is not at fault.
_BUSY_STATUS = frozenset({408, 429})

TIMEOUT = "Timeout"
CONNECTION_REFUSED = "ConnectionRefused"
"""The error types of a call without an answer, independent of the client's own names."""

_NO_ANSWER = frozenset({TIMEOUT, CONNECTION_REFUSED})


class Category(StrEnum):
    """Who can cure a failure: time, the producer, the business, or the dependency's owner."""

    TRANSIENT = "transient"
    SCHEMA = "schema"
    BUSINESS = "business"
    INTEGRATION = "integration"


PERMANENT = frozenset({Category.SCHEMA, Category.BUSINESS})
"""Categories that further attempts cannot cure."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt at processing a letter.

    `attempt` is the number of the life (0 is the first) and `receive` the number of the
    receive in that life (1 is the first), from the queue named `queue`;
    `at` is epoch seconds; `fingerprint` is equal for failures of the same kind at the
    same place; `dependency_down` is True if the circuit was not closed at that moment.
    """

    at: float
    attempt: int
    category: Category
    error_type: str = ""
    message: str = ""
    http_status: int | None = None
    fingerprint: str = ""
    dependency_down: bool = False
    receive: int = 1
    queue: str = ""

    @property
    def explained_by_dependency(self) -> bool:
        """True if the dependency, not the letter, is the likely cause."""
        not_now = self.http_status is not None and is_dependency_status(self.http_status)
        no_answer = self.error_type in _NO_ANSWER
        return self.dependency_down or not_now or no_answer

    def to_data(self) -> dict[str, Any]:
        """The failure as plain data for the ledger."""
        data: dict[str, Any] = {
            "at": self.at,
            "attempt": self.attempt,
            "receive": self.receive,
            "category": str(self.category),
        }
        for name in ("error_type", "message", "fingerprint", "queue"):
            if text := getattr(self, name):
                data[name] = text
        if self.http_status is not None:
            data["http_status"] = self.http_status
        if self.dependency_down:
            data["dependency_down"] = True
        return data


@dataclass(frozen=True, slots=True)
class FailureKind:
    """The number of letters whose last failure is of one kind."""

    fingerprint: str
    error_type: str
    letters: int


def is_dependency_status(status: int) -> bool:
    """True for an HTTP status that blames the dependency, not the request."""
    return status in _BUSY_STATUS or 500 <= status <= 599


def from_data(data: Mapping[str, Any]) -> Failure:
    """The failure that `to_data` wrote; numbers may come back as Decimal.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    status = data.get("http_status")
    return Failure(
        at=float(data["at"]),
        attempt=int(data["attempt"]),
        category=Category(data["category"]),
        error_type=str(data.get("error_type", "")),
        message=str(data.get("message", "")),
        http_status=None if status is None else int(status),
        fingerprint=str(data.get("fingerprint", "")),
        dependency_down=data.get("dependency_down") is True,
        receive=int(data.get("receive", 1)),
        queue=str(data.get("queue", "")),
    )
