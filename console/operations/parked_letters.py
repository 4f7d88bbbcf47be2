"""One parked letter in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import parking_source
from deadletter.failure.failure import Failure
from deadletter.message.letter import Letter

from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .letter_walk import FoundLetter, look_at_parked
from .problem import Cause, Problem
from .session import Session
from .words import count, moment


@dataclass(frozen=True, slots=True)
class RecordedFailure:
    """A failure of a letter, as its consumer recorded it."""

    at: Annotated[datetime | None, "when"]
    life: Annotated[int, "number of the life; 0 is the first"]
    receive: Annotated[int, "number of the receive in that life"]
    category: Annotated[str, "what kind of failure"]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    message: Annotated[str, "its text without data; empty if it is not kept"]
    place: Annotated[str, "file, line and function of your code; empty if it is not on record"]
    http_status: Annotated[int | None, "status of the answer; null without one"]
    fingerprint: Annotated[str, "equal for failures of the same kind at the same place"]


@dataclass(frozen=True, slots=True)
class ParkedDetails(Answer):
    """What `dlq parked show` answers."""

    at: Annotated[datetime, "when it was read"]
    pipeline: Annotated[str, "name of the pipeline"]
    message_id: Annotated[str, "MessageId of this copy"]
    origin: Annotated[str, "MessageId of its first life"]
    queue: Annotated[str, "id of the parking queue"]
    rescued: Annotated[bool, "whether it is in lane `parked` of the waiting room now"]
    reason: Annotated[str | None, "why; null if the letter carries no `Redrive` attribute"]
    because: Annotated[str | None, "the same in a sentence"]
    attempts: Annotated[int | None, "re-drives before it was parked"]
    rule: Annotated[str | None, "id of the rule that parked it"]
    run: Annotated[str | None, "the replay run that sent its last life"]
    parked_at: Annotated[datetime | None, "when it was parked"]
    first_sent: Annotated[datetime | None, "when its producer sent it"]
    group: Annotated[str | None, "its FIFO group"]
    size: Annotated[int, "bytes of body and attributes"]
    recovered_at: Annotated[datetime | None, "when the ledger says that it was processed"]
    failures: Annotated[Sequence[RecordedFailure], "what the ledger has of it, oldest first"]
    body: Annotated[str | None, "the body; null without --show-body"]
    attributes: Annotated[
        Mapping[str, Any] | None, "its message attributes; null without --show-body"
    ]


def details(session: Session, pipeline: str | None, id_: str, *, body: bool) -> ParkedDetails:
    """The parked letter with this MessageId or origin id; Problem if it is not found."""
    app = session.app()
    chosen = app.pipeline(pipeline)
    found = _find(session, app, chosen, id_)
    stamp, letter = found.stamp, found.letter
    origin = stamp.origin if stamp else letter.message_id
    row = _ledger_row(session, app, chosen, origin)
    sent = stamp.first_sent if stamp else letter.sent_ms
    return ParkedDetails(
        **session.place,
        at=session.now,
        pipeline=chosen.name,
        message_id=letter.message_id,
        origin=origin,
        queue=queue_id(found),
        rescued=found.lane is not None,
        reason=stamp.reason if stamp else None,
        because=stamp.because if stamp else None,
        attempts=stamp.attempt if stamp else None,
        rule=stamp.rule if stamp else None,
        run=stamp.run if stamp else None,
        parked_at=moment(stamp.at) if stamp else None,
        first_sent=moment(sent / 1000) if sent else None,
        group=letter.group,
        size=letter.size,
        recovered_at=moment(row.recovered_at),
        failures=tuple(map(_failure, row.failures)),
        body=letter.body if body else None,
        attributes=_attributes(letter) if body else None,
    )


def queue_id(found: FoundLetter) -> str:
    """The id of the parking queue that a parked letter is in, or was rescued from."""
    return found.home.removeprefix(parking_source(""))


def _find(session: Session, app: App, pipeline: DeployedPipeline, id_: str) -> FoundLetter:
    matches: list[FoundLetter] = []

    def see(found: FoundLetter) -> None:
        if id_ in found.ids:
            matches.append(found)

    walk = look_at_parked(session, app, pipeline, see, wanted=lambda: not matches)
    if not matches:
        raise Problem(
            f"{id_} is not among the parked letters of {pipeline.name} "
            f"({count(walk.looked_at, 'letter')} looked at in its queues): "
            f"dlq list --in parked --look --pipeline {pipeline.name} shows what is there.",
            Cause.ABSENT,
        )
    return matches[0]


def _ledger_row(session: Session, app: App, pipeline: DeployedPipeline, origin: str) -> Any:
    from deadletter.aws.ledger import DynamoDBLedger
    from deadletter.failure.ledger import NO_ROW

    ledger = DynamoDBLedger(
        session.aws.dynamodb, app.letters_table, pipeline.name, session.clock, keep_seconds=0
    )
    with aws_errors():
        return ledger.rows([origin]).get(origin, NO_ROW)


def _failure(failure: Failure) -> RecordedFailure:
    return RecordedFailure(
        moment(failure.at),
        failure.attempt,
        failure.receive,
        str(failure.category),
        failure.error_type,
        failure.message,
        failure.place,
        failure.http_status,
        failure.fingerprint,
    )


def _attributes(letter: Letter) -> Mapping[str, Any]:
    return {
        name: "binary" if isinstance(attribute.value, bytes) else attribute.value
        for name, attribute in letter.attributes.items()
    }
