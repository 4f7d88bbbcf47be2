"""What became of the messages of one batch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from deadletter.contract import RESPONSE, Blame, config_key
from deadletter.failure.fate import ACKNOWLEDGED, Evidence, Fate
from deadletter.processing.diagnosing import diagnose
from deadletter.signals.figures import Count, Figure

if TYPE_CHECKING:
    from deadletter.failure.classify import Diagnosis


class Trouble(StrEnum):
    """A problem beside a message's fate; the value is the metric's name."""

    LEDGER = Count.LEDGER_UNAVAILABLE
    CLAIMS = Count.IDEMPOTENCY_UNAVAILABLE
    CIRCUITS = Count.CIRCUITS_UNAVAILABLE
    COLLISION = Figure.IDEMPOTENCY_COLLISION
    NO_KEY = Count.IDEMPOTENCY_KEY_MISSING
    LEASE_LOST = Count.LEASE_LOST
    FORGED = Figure.FORGED_STAMP
    RENAMED = Count.ATTRIBUTE_RENAMED
    NOT_PARKED = Count.PARKING_UNAVAILABLE
    NOT_HIDDEN = Count.VISIBILITY_UNCHANGED
    BROKEN = Count.CONSUMER_LIBRARY_ERROR


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What one call showed about one circuit; `seconds` is how long the call took."""

    key: str
    evidence: Evidence
    seconds: float


def outcomes_of(
    key: str, blame: Blame | None, seconds: float, *, throttled: bool = False
) -> tuple[CallOutcome, ...]:
    """What a call shows about the circuit `key` and the one for configuration beside it.

    `blame` is None for a call that succeeded. A dependency that is down may have checked no
    credential, and one that refuses its caller may be well: each says nothing of the other.
    """
    success, failure = Evidence.SUCCESS, Evidence.FAILURE
    match blame:
        case None:
            return tuple(CallOutcome(each, success, seconds) for each in (key, config_key(key)))
        case Blame.DEPENDENCY:
            shown = Evidence.THROTTLED if throttled else failure
            return (CallOutcome(key, shown, seconds),)
        case Blame.CONFIGURATION:
            return (CallOutcome(config_key(key), failure, seconds),)
        case _:
            return ()


@dataclass(frozen=True, slots=True)
class MessageResult:
    """What became of one message of a batch.

    `wait` is seconds until its next receive, None to leave that to the queue; `error` is
    what its handler raised, for callers that show tracebacks; `circuit` is the key of the
    named dependency's circuit that its failure or its refusal is about, if it is about one;
    `outcomes` is what its calls show about the circuits. `origin` and `trace` say in a log which
    letter it was in all its lives: the id of its first life, and the root of its X-Ray trace.
    A duplicate of the `same_life` is the message that was processed, received once more.
    """

    message_id: str
    fate: Fate
    diagnosis: Diagnosis | None = None
    wait: float | None = None
    error: BaseException | None = field(default=None, repr=False, compare=False)
    circuit: str = ""
    outcomes: tuple[CallOutcome, ...] = field(default=(), repr=False, compare=False)
    origin: str = field(default="", repr=False, compare=False)
    trace: str = field(default="", repr=False, compare=False)
    same_life: bool = False

    @property
    def is_logged(self) -> bool:
        """Whether a line of the log is about it."""
        return self.fate not in _UNLOGGED

    @property
    def acknowledged(self) -> bool:
        """Whether the message leaves its queue."""
        return self.fate in ACKNOWLEDGED

    @property
    def outcome(self) -> str:
        """What a replay run is told that has delivered the message itself."""
        # A webhook endpoint in its pause was not called.
        if getattr(self.error, "untried", False) is True:
            return _UNTRIED
        return _RECOVERED if self.same_life else _OUTCOMES.get(self.fate, _UNTRIED)


@dataclass(frozen=True, slots=True)
class NoticedTrouble:
    """One trouble with one message; `why` is redacted."""

    message_id: str
    trouble: Trouble
    why: str = ""

    @property
    def is_counted_only(self) -> bool:
        """Whether it has no line of the log: its process has said why once."""
        return self.trouble is Trouble.NO_KEY and not self.why


class Troubles:
    """Collects the troubles of one batch; `started` (epoch seconds) is when it began."""

    def __init__(self, started: float) -> None:
        self._started = started
        self._noticed: list[NoticedTrouble] = []
        self._kinds: set[Trouble] = set()

    @property
    def noticed(self) -> tuple[NoticedTrouble, ...]:
        """The troubles so far, in their order."""
        return tuple(self._noticed)

    def has(self, trouble: Trouble) -> bool:
        """Whether this trouble has been noticed with any message."""
        return trouble in self._kinds

    def notice(self, message_id: str, trouble: Trouble, why: str = "") -> None:
        """Note a trouble; `why` must be redacted."""
        self._noticed.append(NoticedTrouble(message_id, trouble, why))
        self._kinds.add(trouble)

    def explain(self, message_id: str, trouble: Trouble, error: Exception) -> None:
        """Note a trouble with the error that caused it."""
        diagnosis = diagnose(error, None, now=self._started)
        # Only the library's own errors are known to quote no message.
        is_known = trouble is not Trouble.BROKEN
        unknown = f"{diagnosis.error_type} at {diagnosis.place}"
        self.notice(message_id, trouble, diagnosis.message if is_known else unknown)

    @contextmanager
    def noticing(
        self, expected: type[Exception], trouble: Trouble, message_id: str = ""
    ) -> Iterator[None]:
        """Suppress every error and note it: `expected` as `trouble`, any other as BROKEN."""
        try:
            yield
        except Exception as error:
            is_expected = isinstance(error, expected)
            self.explain(message_id, trouble if is_expected else Trouble.BROKEN, error)


@dataclass(frozen=True, slots=True)
class BatchResult:
    """What became of a batch, with one result for each record, in the records' order.

    `recovered` has one number for each message that had been in the DLQ and whose ledger row now
    says that it was processed: its re-drives since a person last released it. `canary` says that
    a probe sent the batch, and `run` which replay run.
    """

    results: tuple[MessageResult, ...] = ()
    troubles: tuple[NoticedTrouble, ...] = ()
    recovered: tuple[int, ...] = ()
    canary: bool = False
    run: str = ""

    @property
    def direct(self) -> bool:
        """Whether a probe or a replay run sent the batch, and reads the response itself."""
        return self.canary or bool(self.run)

    @property
    def failed(self) -> tuple[str, ...]:
        """The ids of the messages that stay in their queue."""
        return tuple(result.message_id for result in self.results if not result.acknowledged)

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts for CloudWatch, by the metric's name; zeros are left out."""
        counts = Counter(str(result.fate) for result in self.results)
        counts.update(str(noticed.trouble) for noticed in self.troubles)
        if self.recovered:
            counts[Figure.REDRIVE_SUCCESS] = len(self.recovered)
        failures = (result.diagnosis for result in self.results if result.fate is Fate.FAILED)
        misconfigured = [
            failure for failure in failures if failure and failure.blame is Blame.CONFIGURATION
        ]
        if misconfigured:
            counts[Count.CONFIGURATION_FAILURE] = len(misconfigured)
        return dict(counts)

    @property
    def samples(self) -> Mapping[str, Sequence[int]]:
        """The metrics with one value for each letter, by name; empty ones are left out."""
        attempts = str(Figure.ATTEMPTS_BEFORE_RECOVERY)
        return {attempts: self.recovered} if self.recovered else {}

    @property
    def failures_by_category(self) -> Mapping[str, int]:
        """How many messages failed, by the category of the failure; zeros are left out."""
        failed = (result for result in self.results if result.fate in _FAILURES)
        return Counter(str(result.diagnosis.category) for result in failed if result.diagnosis)

    @property
    def circuits(self) -> Mapping[str, str]:
        """What the batch says of each circuit that its calls speak of, by the circuit's key.

        Any failure outweighs successes. A call that was throttled shows a dependency that works.
        """
        verdicts: dict[str, str] = {}
        for outcome in (outcome for result in self.results for outcome in result.outcomes):
            if verdicts.get(outcome.key) != Evidence.FAILURE:
                throttled = outcome.evidence is Evidence.THROTTLED
                verdicts[outcome.key] = str(Evidence.SUCCESS if throttled else outcome.evidence)
        return verdicts

    def metric_lines(
        self, app: str, pipeline: str, at: float, more: Mapping[str, int] | None = None
    ) -> Iterator[str]:
        """The lines of embedded metrics for the batch (epoch seconds), and for `more` counts."""
        from deadletter.signals import emf

        counts = Counter(more or {}) + Counter(self.counts)
        figures = (counts, self.samples, self.failures_by_category)
        return emf.lines_of_batch(*figures, app=app, pipeline=pipeline, at=at)

    def to_response(self) -> dict[str, Any]:
        """The Lambda handler's response: SQS keeps the messages that it names.

        A message without an id is named by an empty id: Lambda then gives the whole batch
        back, which loses nothing.
        """
        response: dict[str, Any] = {
            "batchItemFailures": [{"itemIdentifier": message_id} for message_id in self.failed]
        }
        if self.canary:
            response[RESPONSE] = {"circuits": self.circuits}
        if self.run:
            response[RESPONSE] = {"run": self.run, **self._outcomes()}
        return response

    def _outcomes(self) -> Mapping[str, Any]:
        """What the replay run learns: each letter's outcome, and the pause that is asked for."""
        outcomes = {result.message_id: result.outcome for result in self.results}
        pauses = [
            result.diagnosis.retry_after
            for result in self.results
            if result.diagnosis is not None and result.diagnosis.retry_after is not None
        ]
        return {"outcomes": outcomes, **({"retry_after": max(pauses)} if pauses else {})}

    def log_lines(self) -> Sequence[Mapping[str, Any]]:
        """One line for each message that was not processed and each trouble, without bodies."""
        lines = [_result_line(result) for result in self.results if result.is_logged]
        said = [noticed for noticed in self.troubles if not noticed.is_counted_only]
        return [*lines, *map(_trouble_line, said)]


_UNTRIED = "untried"
"""The outcome of a letter of a replay run that did not reach the handler."""

_RECOVERED = "recovered"

_OUTCOMES: Mapping[Fate, str] = {
    Fate.PROCESSED: _RECOVERED,
    Fate.SKIPPED: _RECOVERED,
    Fate.DUPLICATE: "duplicate",
    Fate.SUPERSEDED: "superseded",
    Fate.PARKED: "parked",
    Fate.FAILED: "failed",
    Fate.UNFINISHED: "unknown",
}
"""What a replay run is told of each fate; of any other one _UNTRIED. The handler of an unfinished
letter still runs."""

_FAILURES = frozenset({Fate.FAILED, Fate.PARKED})
"""Fates of a message whose handler failed."""

_UNLOGGED = frozenset({Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE})


def _result_line(result: MessageResult) -> Mapping[str, Any]:
    line: dict[str, Any] = {
        "what": "parked" if result.fate is Fate.PARKED else "not processed",
        "message_id": result.message_id,
        "fate": str(result.fate),
    }
    for name in ("origin", "trace"):
        if value := getattr(result, name):
            line[name] = value
    diagnosis = result.diagnosis
    if diagnosis is not None:
        line |= {
            "category": str(diagnosis.category),
            "blame": str(diagnosis.blame),
            "error_type": diagnosis.error_type,
            "why": diagnosis.message,
            "fingerprint": diagnosis.fingerprint,
        }
        if diagnosis.place:
            line["place"] = diagnosis.place
        if diagnosis.traceback:
            line["traceback"] = diagnosis.traceback
        if diagnosis.http_status is not None:
            line["http_status"] = diagnosis.http_status
    if result.circuit:
        line["circuit"] = result.circuit
    if result.wait is not None:
        line["wait"] = round(result.wait, 1)
    return line


def _trouble_line(noticed: NoticedTrouble) -> Mapping[str, Any]:
    line = {
        "what": "trouble",
        "message_id": noticed.message_id,
        "trouble": str(noticed.trouble),
    }
    return {**line, "why": noticed.why} if noticed.why else line
