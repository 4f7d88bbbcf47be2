"""What became of the messages of one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from deadletter.contract import RESPONSE, Metric
from deadletter.failure.classify import Diagnosis
from deadletter.failure.fate import ACKNOWLEDGED, Evidence, Fate, evidence_of


class Trouble(StrEnum):
    """What went wrong, or was noticed, beside a message's fate; the value is the metric's name."""

    LEDGER = Metric.LEDGER_UNAVAILABLE
    CLAIMS = Metric.IDEMPOTENCY_UNAVAILABLE
    CIRCUITS = Metric.CIRCUITS_UNAVAILABLE
    COLLISION = Metric.IDEMPOTENCY_COLLISION
    LEASE_LOST = Metric.LEASE_LOST
    FORGED = Metric.FORGED_STAMP
    NOT_PARKED = Metric.PARKING_UNAVAILABLE
    NOT_HIDDEN = Metric.VISIBILITY_UNCHANGED
    BROKEN = Metric.CONSUMER_LIBRARY_ERROR


RECOVERED = Metric.REDRIVE_SUCCESS
"""The metric that counts letters that had been dead and were processed."""


@dataclass(frozen=True, slots=True)
class MessageResult:
    """One message of a batch.

    `wait` is seconds until its next receive, None to leave that to the queue; `error` is
    what its handler raised, for those who show tracebacks.
    """

    message_id: str
    fate: Fate
    diagnosis: Diagnosis | None = None
    wait: float | None = None
    error: BaseException | None = field(default=None, repr=False, compare=False)

    @property
    def acknowledged(self) -> bool:
        return self.fate in ACKNOWLEDGED

    @property
    def evidence(self) -> Evidence:
        """What it says of the dependency: business, schema and duplicates say nothing, nor
        does a status by which it refuses one message, or an error whose `untried` is true."""
        if self.fate is Fate.PROCESSED:
            return Evidence.SUCCESS
        if self.fate is not Fate.FAILED or self.diagnosis is None:
            return Evidence.NEUTRAL
        # A registry without the endpoint, say: the dependency was not even asked.
        untried = getattr(self.error, "untried", False) is True
        found = self.diagnosis
        return Evidence.NEUTRAL if untried else evidence_of(found.category, found.http_status)


@dataclass(frozen=True, slots=True)
class NoticedTrouble:
    """One trouble with one message; `why` is redacted."""

    message_id: str
    trouble: Trouble
    why: str = ""


@dataclass(frozen=True, slots=True)
class BatchResult:
    """One batch, a handling for each record in the records' order.

    `recovered` counts letters that had been dead and whose ledger row now says that they
    were processed; `canary` says that the batch was a probe's.
    """

    handlings: tuple[MessageResult, ...] = ()
    noticed: tuple[NoticedTrouble, ...] = ()
    recovered: int = 0
    canary: bool = False

    @property
    def failed(self) -> tuple[str, ...]:
        """The ids of the messages that stay in their queue."""
        return tuple(one.message_id for one in self.handlings if not one.acknowledged)

    @property
    def counts(self) -> Mapping[str, int]:
        """What goes to CloudWatch, by the metric's name; nothing that did not happen."""
        counts = Counter(str(one.fate) for one in self.handlings)
        counts.update(str(one.trouble) for one in self.noticed)
        if self.recovered:
            counts[RECOVERED] = self.recovered
        return dict(counts)

    @property
    def verdict(self) -> Evidence:
        """What the batch says of the dependency, taken together."""
        said = {one.evidence for one in self.handlings}
        return next(
            (one for one in (Evidence.FAILURE, Evidence.SUCCESS) if one in said), Evidence.NEUTRAL
        )

    def to_response(self) -> dict[str, Any]:
        """What the Lambda handler returns, so that SQS keeps what was not acknowledged.

        A message without an id is named by an empty one: Lambda then gives the whole batch
        back, which loses nothing.
        """
        response: dict[str, Any] = {
            "batchItemFailures": [{"itemIdentifier": one} for one in self.failed]
        }
        if self.canary:
            response[RESPONSE] = {"verdict": str(self.verdict)}
        return response

    def log_lines(self) -> Sequence[Mapping[str, Any]]:
        """One line for each message that was not processed and each trouble: no body in them."""
        lines: list[Mapping[str, Any]] = [
            _line(one) for one in self.handlings if one.fate not in _UNEVENTFUL
        ]
        lines += [
            {
                "what": "trouble",
                "message_id": one.message_id,
                "trouble": str(one.trouble),
                **({"why": one.why} if one.why else {}),
            }
            for one in self.noticed
        ]
        return lines


_UNEVENTFUL = frozenset({Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE})


def _line(one: MessageResult) -> Mapping[str, Any]:
    said: dict[str, Any] = {
        "what": "parked" if one.fate is Fate.PARKED else "not processed",
        "message_id": one.message_id,
        "fate": str(one.fate),
    }
    found = one.diagnosis
    if found is not None:
        said |= {
            "category": str(found.category),
            "error_type": found.error_type,
            "why": found.message,
            "fingerprint": found.fingerprint,
        }
        if found.http_status is not None:
            said["http_status"] = found.http_status
    if one.wait is not None:
        said["wait"] = round(one.wait, 1)
    return said
