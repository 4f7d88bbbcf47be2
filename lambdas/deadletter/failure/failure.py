"""Why a letter failed, as its consumer saw it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

# Answers by which a dependency says "not now": waiting helps, the letter is not to blame.
_BUSY_STATUS = frozenset({408, 429})

TIMEOUT = "Timeout"
CONNECTION_REFUSED = "ConnectionRefused"
"""What a call that never got an answer is recorded as, whatever its client calls it."""

_NO_ANSWER = frozenset({TIMEOUT, CONNECTION_REFUSED})


class Category(StrEnum):
    """Who has to act: time, the producer, the business, or the one who runs the dependency."""

    TRANSIENT = "transient"
    SCHEMA = "schema"
    BUSINESS = "business"
    INTEGRATION = "integration"


PERMANENT = frozenset({Category.SCHEMA, Category.BUSINESS})
"""Categories that no number of attempts can cure."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt at processing a letter.

    `attempt` is the number of the life it happened in (0 is the first) and `receive`
    which receive of that life it was (1 is the first), from the queue named `queue`;
    `at` is epoch seconds; `fingerprint` is equal for failures of the same kind at the
    same place; `dependency_down` says that the circuit was not closed at that moment.
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
        """Whether the dependency, not the letter, is the likely cause."""
        said_so = self.http_status is not None and is_dependency_status(self.http_status)
        no_answer = self.error_type in _NO_ANSWER
        return self.dependency_down or said_so or no_answer

    def to_data(self) -> dict[str, Any]:
        """The failure as plain data for the ledger."""
        data: dict[str, Any] = {
            "at": self.at,
            "attempt": self.attempt,
            "receive": self.receive,
            "category": str(self.category),
        }
        for name in ("error_type", "message", "fingerprint", "queue"):
            if said := getattr(self, name):
                data[name] = said
        if self.http_status is not None:
            data["http_status"] = self.http_status
        if self.dependency_down:
            data["dependency_down"] = True
        return data


@dataclass(frozen=True, slots=True)
class FailureKind:
    """How many letters last failed in one way."""

    fingerprint: str
    error_type: str
    letters: int


def is_dependency_status(status: int) -> bool:
    """Whether an HTTP status is the dependency's trouble and not the request's."""
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
