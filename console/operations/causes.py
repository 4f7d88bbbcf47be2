"""The causes of failure that suddenly dominate, and what people decide about them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import TYPE_CHECKING, Annotated
from uuid import uuid4

from deadletter.failure.causes import PARKED_FOR, Causes, ParkedCause

from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .aws import Aws
from .problem import Cause, Problem
from .session import Session
from .words import moment

if TYPE_CHECKING:
    from deadletter.aws.causes import DynamoDBCauses

HELD, PARKED, MENDED = "HELD", "PARKED", "MENDED"


@dataclass(frozen=True, slots=True)
class CauseRow:
    """A cause that dominates, or did within the last day."""

    pipeline: Annotated[str, "name of the pipeline"]
    fingerprint: Annotated[str, "the failure's fingerprint, as logs and `failure.fingerprint` say"]
    state: Annotated[
        str,
        "HELD (no message is parked for it), PARKED (a person has them parked) or MENDED (a person"
        " has it counted anew)",
    ]
    error_type: Annotated[str, "the error; empty if it is not on record"]
    since: Annotated[datetime | None, "when its hold began; null if it is not on record"]
    until: Annotated[datetime | None, "when the state ends, or ended; a failure renews a hold"]
    by: Annotated[str | None, "who decided; null without a decision"]
    reason: Annotated[str | None, "why"]


@dataclass(frozen=True, slots=True)
class CauseChange(Answer):
    """What `dlq cause park` answers."""

    at: Annotated[datetime, "when it was changed"]
    before: Annotated[CauseRow, "the cause as it was"]
    after: Annotated[CauseRow, "the cause as it is now"]


class CauseSwitch:
    """A cause that a person is about to decide about. Problem if it is unknown."""

    def __init__(self, session: Session, pipeline: str | None, fingerprint: str) -> None:
        self._session = session
        self._app = session.app()
        chosen = self._app.pipeline(pipeline)
        self.pipeline = chosen.name
        self.fingerprint = fingerprint
        self._store = _store(session.aws, self._app, chosen)

    @property
    def caller(self) -> str:
        """The ARN of the identity that a decision names."""
        return self._session.aws.caller

    @cached_property
    def before(self) -> CauseRow:
        with aws_errors():
            causes = self._store.read()
        return self._row_in(causes)

    def park(self, by: str, reason: str) -> CauseChange:
        """Let letters be parked for the cause, for a day."""
        word = ParkedCause(self._session.now.timestamp() + PARKED_FOR, by, reason)
        return self._change(
            "cause park", reason, PARKED, lambda causes: causes.parking(self.fingerprint, word)
        )

    def retry(self, by: str, reason: str) -> CauseChange:
        """Try the letters of the cause once more, and count it anew."""
        now = self._session.now.timestamp()
        return self._change(
            "retry",
            reason,
            MENDED,
            lambda causes: causes.mending(self.fingerprint, by, reason, now),
        )

    def _change(
        self, command: str, why: str, state: str, change: Callable[[Causes], Causes]
    ) -> CauseChange:
        before, now = self.before, self._session.now
        intended = IntendedChange(
            command,
            self.pipeline,
            f"cause {self.fingerprint}",
            why,
            {"state": before.state},
            {"state": state},
        )
        with recorded(self._session, self._app, intended), aws_errors():
            after = self._row_in(self._store.change(change, now.timestamp()))
        return CauseChange(**self._session.place, at=now, before=before, after=after)

    def _row_in(self, causes: Causes) -> CauseRow:
        rows = {row.fingerprint: row for row in rows_of(self.pipeline, causes, self._session.now)}
        if self.fingerprint in rows:
            return rows[self.fingerprint]
        known = ", ".join(rows) or "none"
        raise Problem(
            f"No cause {self.fingerprint!r} has dominated in pipeline {self.pipeline} within the "
            f"last day: the known ones are {known}. dlq groups shows them.",
            Cause.ABSENT,
        )


def rows_of(pipeline: str, causes: Causes, now: datetime) -> Iterator[CauseRow]:
    """The causes as answers show them, those that are held first."""
    at = now.timestamp()
    held = causes.held(at)
    for cause, hold in held.items():
        since, until = moment(hold.since), moment(hold.until)
        yield CauseRow(pipeline, cause, HELD, hold.error_type, since, until, None, None)
    for cause, word in causes.parked.items():
        if causes.is_parked(cause, at):
            known = causes.holds.get(cause)
            since = moment(known.since) if known else None
            decided = (moment(word.until), word.by, word.reason)
            yield CauseRow(
                pipeline, cause, PARKED, known.error_type if known else "", since, *decided
            )
    for cause, hold in causes.holds.items():
        if hold.mended_by and cause not in held and not causes.is_parked(cause, at):
            since, until = moment(hold.since), moment(hold.until)
            by, why = hold.mended_by, hold.reason
            yield CauseRow(pipeline, cause, MENDED, hold.error_type, since, until, by, why)


def read_causes(session: Session, app: App, pipeline: DeployedPipeline) -> Sequence[CauseRow]:
    """The causes of a pipeline that dominate, or did within the last day: the held ones first."""
    return [*rows_of(pipeline.name, _read(session, app, pipeline), session.now)]


def unmended(session: Session, app: App, pipeline: DeployedPipeline) -> Sequence[str]:
    """The causes of a pipeline that are held now, or that a person has parked for."""
    rows = rows_of(pipeline.name, _read(session, app, pipeline), session.now)
    return [row.fingerprint for row in rows if row.state != MENDED]


def _read(session: Session, app: App, pipeline: DeployedPipeline) -> Causes:
    with aws_errors():
        return _store(session.aws, app, pipeline).read()


def _store(aws: Aws, app: App, pipeline: DeployedPipeline) -> DynamoDBCauses:
    from deadletter.aws.causes import DynamoDBCauses

    return DynamoDBCauses(aws.dynamodb, app.circuits_table, pipeline.name, lambda: uuid4().hex)
