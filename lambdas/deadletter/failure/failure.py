"""One failure of a letter, as its consumer recorded it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from deadletter.contract import VERSION_VARIABLE, Blame, Category

# Statuses that mean "not now": waiting helps, and the letter is not at fault.
_BUSY_STATUS = frozenset({408, 425, 429, 449})

# Statuses that refuse the caller, whatever the request: no access, or another address.
_REFUSES_THE_CALLER = frozenset({301, 302, 303, 307, 308, 401, 403, 407})

TIMEOUT = "Timeout"
CONNECTION_REFUSED = "ConnectionRefused"
"""The error types of a call without an answer, independent of the client's own names."""

_TEXTS = (
    *("error_type", "message", "place", "fingerprint", "queue", "circuit"),
    *("request_id", "sent_because", "sent_rule", "version"),
)
"""The fields that are left out of the ledger where they are empty."""

MOST_VERSION = 40
"""Characters of a consumer's version that a failure keeps: those of a commit."""

MOST_BECAUSE = 80
"""Characters of a decision's reason that a failure keeps."""


@dataclass(frozen=True, slots=True)
class Failure:
    """One failed attempt at processing a letter.

    `attempt` is the number of the life (0 is the first) and `receive` the number of the
    receive in that life (1 is the first), from the queue named `queue`;
    `at` is epoch seconds; `fingerprint` is equal for failures of the same kind at the
    same place; `dependency_down` is True if the circuit was not closed at that moment, or the
    letter was not tried; `blame` is who was to blame; `circuit` is the key of the named
    dependency's circuit that the failure counts for, empty for the letter's own.
    `request_id` is the id of the Lambda invocation that received it, empty in a container.
    `version` is that of the consumer, as its team or Lambda names it, empty if neither does.
    `place` is file, line and function where the team's own code failed, empty if none did.
    `sent_at` (epoch seconds), `sent_because` and `sent_rule` are the decision that began this
    life, as the letter's stamp said; the first life has none.
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
    blame: Blame = Blame.NEITHER
    circuit: str = ""
    request_id: str = ""
    sent_at: int | None = None
    sent_because: str = ""
    sent_rule: str = ""
    place: str = ""
    version: str = ""

    @property
    def explained_by_dependency(self) -> bool:
        """True if the dependency or its configuration, not the letter, is the likely cause."""
        return self.dependency_down or self.blame is not Blame.NEITHER

    def to_data(self) -> dict[str, Any]:
        """The failure as plain data for the ledger."""
        data: dict[str, Any] = {
            "at": self.at,
            "attempt": self.attempt,
            "receive": self.receive,
            "category": str(self.category),
            "blame": str(self.blame),
        }
        for name in _TEXTS:
            if text := getattr(self, name):
                data[name] = text
        for name in ("http_status", "sent_at"):
            if (number := getattr(self, name)) is not None:
                data[name] = number
        if self.dependency_down:
            data["dependency_down"] = True
        return data


@dataclass(frozen=True, slots=True)
class FailureKind:
    """The number of letters whose last failure is of one kind."""

    fingerprint: str
    error_type: str
    messages: int


WEIGHT = (Blame.DEPENDENCY, Blame.CONFIGURATION, Blame.NEITHER)
"""Of several blames for one failure the first of these counts."""


def blame_of_status(status: int) -> Blame:
    """Who is to blame for an HTTP status that is not a success.

    Every 4xx that refuses this one request shows a dependency that works, and has read it.
    """
    if status in _BUSY_STATUS or 500 <= status <= 599:
        return Blame.DEPENDENCY
    return Blame.CONFIGURATION if status in _REFUSES_THE_CALLER else Blame.NEITHER


def from_data(data: Mapping[str, Any]) -> Failure:
    """The failure that `to_data` wrote; numbers may come back as Decimal.

    Raises KeyError, TypeError or ValueError for anything else.
    """
    status, sent_at = data.get("http_status"), data.get("sent_at")
    texts = {name: str(data.get(name, "")) for name in _TEXTS}
    return Failure(
        at=float(data["at"]),
        attempt=int(data["attempt"]),
        category=Category(data["category"]),
        http_status=None if status is None else int(status),
        dependency_down=data.get("dependency_down") is True,
        receive=int(data.get("receive", 1)),
        blame=Blame(data["blame"]),
        sent_at=None if sent_at is None else int(sent_at),
        version=texts.pop("version")[:MOST_VERSION],
        **texts,
    )


def version_in(environment: Mapping[str, str]) -> str:
    """The version as the team names it, else as Lambda does; empty if neither does.

    $LATEST names no code.
    """
    said = environment.get(VERSION_VARIABLE) or environment.get("AWS_LAMBDA_FUNCTION_VERSION", "")
    return "" if said == "$LATEST" else said[:MOST_VERSION]
