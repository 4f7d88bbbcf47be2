"""One letter's life: each try and what was decided, where it is now, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated

from deadletter.contract import DEFAULT_PARKING, Reason, parking_for
from deadletter.failure.failure import Failure

from . import deployed
from .answer import Answer
from .aws import side_by_side
from .life_decision import DecisionNow, decision_now
from .life_place import Place, Where, gone, places
from .life_record import LetterRecord, record_of
from .life_steps import Step, steps
from .problem import Problem
from .queue import QueueDepth, depth
from .session import Session
from .words import moment

if TYPE_CHECKING:
    from deadletter.failure.ledger import LedgerRow


@dataclass(frozen=True, slots=True)
class LetterTry:
    """One receive that failed, and the decision that had sent the letter into this life."""

    life: Annotated[int, "number of the life; 0 is the first"]
    receive: Annotated[int, "number of the receive in that life"]
    at: Annotated[datetime | None, "when it failed"]
    queue: Annotated[str, "name of the queue that it came from"]
    category: Annotated[str, "what kind of failure"]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    message: Annotated[str, "its text without data; empty if it is not kept"]
    place: Annotated[str, "file, line and function of your code; empty if it is not on record"]
    http_status: Annotated[int | None, "status of the answer; null without one"]
    fingerprint: Annotated[str, "equal for failures of the same kind at the same place"]
    blame: Annotated[str, "who was to blame: dependency, configuration or neither"]
    blameless: Annotated[
        bool, "whether it was no fault of its own: a circuit or an endpoint made it wait"
    ]
    request_id: Annotated[str, "id of the Lambda invocation; empty if it is not on record"]
    sent_at: Annotated[
        datetime | None, "when the letter was sent into this life; null for the first"
    ]
    sent_because: Annotated[str, "why it was sent; empty for the first life"]
    sent_rule: Annotated[str, "id of the rule that spoke; empty if none did"]
    waited: Annotated[
        int | None, "seconds from the last failure of the life before; null if it is not known"
    ]


@dataclass(frozen=True, slots=True)
class LetterLife(Answer):
    """What `dlq explain` answers."""

    at: Annotated[datetime, "when it was read"]
    pipeline: Annotated[str, "name of the pipeline"]
    id: Annotated[str, "the id that was asked for"]
    origin: Annotated[str, "MessageId of its first life: its id in the ledger"]
    trace: Annotated[
        str, "root of its X-Ray trace, the same in all its lives; empty if it has none"
    ]
    first_sent: Annotated[datetime | None, "when its producer sent it; null if it is not known"]
    first_failed: Annotated[datetime | None, "when it failed first; null if it is not known"]
    attempts: Annotated[int, "re-drives since a person last released it"]
    released_at: Annotated[datetime | None, "when a person last released it; null if never"]
    context: Annotated[Mapping[str, str], "values of the pipeline's `context`, as the ledger keeps"]
    endpoint: Annotated[str, "key of its own circuit, such as its endpoint; empty if none"]
    size: Annotated[int | None, "bytes of the body; null if it is not known"]
    tries: Annotated[Sequence[LetterTry], "its failures that are on record, oldest first"]
    places: Annotated[Sequence[Place], "where it is now, the surest place first"]
    now: Annotated[
        DecisionNow | None, "what would be decided now; null if automation decides nothing"
    ]
    steps: Annotated[Sequence[Step], "what a person can do"]
    notes: Annotated[Sequence[str], "what could not be read, or was not looked at"]


def explain(session: Session, id_: str, pipeline: str | None = None) -> LetterLife:
    """The life of the letter with this id: of its first life, or of any copy that we hold.

    Raises Problem if no pipeline knows the id.
    """
    app = session.app()
    record = record_of(session, app, id_, pipeline)
    row, notes = record.row, list(record.notes)
    here = tuple(places(record, _parking_queue(record)))
    if here[0].where == Where.QUEUE and _queues_are_empty(session, record, here[0], notes):
        here = (gone(here[0]),)
    now = None
    if here[0].is_judged:
        try:
            now = decision_now(session, app, record)
        except Problem as problem:
            notes.append(f"What would be decided now is not known: {problem.says}")
    if row is not None and row.unreadable:
        notes.append("Its ledger row is malformed: the letter is not judged until it is mended.")
    stamp = record.waiting[0].stamp if record.waiting else None
    stamp = stamp or (row.stamp if row else None)
    first_at = (row.first_at or next((each.at for each in row.failures), None)) if row else None
    return LetterLife(
        **session.place,
        at=session.now,
        pipeline=record.pipeline.name,
        id=id_,
        origin=record.origin,
        trace=trace_of(record),
        first_sent=moment(stamp.first_sent / 1000) if stamp and stamp.first_sent else None,
        first_failed=moment(first_at),
        attempts=max(stamp.attempt if stamp else 0, row.attempt if row else 0),
        released_at=moment(row.released_at) if row and row.released_at else None,
        context=row.context if row else {},
        endpoint=row.endpoint if row else "",
        size=row.size if row else None,
        tries=tuple(_tries(row)) if row else (),
        places=here,
        now=now,
        steps=tuple(steps(record, here)),
        notes=tuple(notes),
    )


_DEPTHS_LAG = 120.0
"""Seconds after which SQS counts a message for sure; its documentation says one minute."""


def _queues_are_empty(
    session: Session, record: LetterRecord, place: Place, notes: list[str]
) -> bool:
    """Whether no queue that the letter could be in holds a message, as SQS estimates."""
    since = place.since
    # With a note, it may be in a place that was not looked at.
    if record.notes or since is None or (session.now - since).total_seconds() < _DEPTHS_LAG:
        return False
    pipeline, sqs = record.pipeline, session.aws.sqs

    def lost(problem: Problem) -> None:
        notes.append(f"Whether its queues are empty is not known: {problem.says}")

    urls = (pipeline.main_url, pipeline.dlq_url, *pipeline.dedicated.values())
    with side_by_side() as start:
        reads = [start(partial(depth, sqs, url)) for url in urls]
        depths = [read.result(lost) for read in reads]
    return all(each == QueueDepth(0, 0, 0) for each in depths)


def _parking_queue(record: LetterRecord) -> str:
    """The id of the parking queue that the letter was sent to."""
    row = record.row
    reason = row.parked_as if row else None
    if reason is None or not record.pipeline.pipeline:
        return DEFAULT_PARKING
    last = row.last if row and reason != Reason.COLLISION else None
    queues = deployed.settings(record.pipeline).parking
    return parking_for(queues, reason, str(last.category) if last else None)


def trace_of(record: LetterRecord) -> str:
    """The root of the letter's X-Ray trace; "" if none is on record."""
    return record.row.about.trace if record.row else ""


def _tries(row: LedgerRow) -> Iterator[LetterTry]:
    """The failures on record; each says how long the letter had waited before its life."""
    ended: dict[int, float] = {}
    for failure in row.failures:
        ended[failure.attempt] = max(failure.at, ended.get(failure.attempt, 0.0))
    for failure in row.failures:
        yield _try(failure, ended.get(failure.attempt - 1))


def _try(failure: Failure, ended_before: float | None) -> LetterTry:
    waited = None
    if ended_before is not None and failure.sent_at is not None:
        waited = max(0, int(failure.at - ended_before))
    return LetterTry(
        life=failure.attempt,
        receive=failure.receive,
        at=moment(failure.at),
        queue=failure.queue,
        category=str(failure.category),
        error_type=failure.error_type,
        message=failure.message,
        place=failure.place,
        http_status=failure.http_status,
        fingerprint=failure.fingerprint,
        blame=str(failure.blame),
        blameless=failure.dependency_down,
        request_id=failure.request_id,
        sent_at=moment(failure.sent_at),
        sent_because=failure.sent_because,
        sent_rule=failure.sent_rule,
        waited=waited,
    )
