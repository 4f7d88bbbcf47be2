"""Whether so many messages collide that none of them is parked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

from deadletter.contract import DAY

from .adapter_errors import aws_errors
from .app import App, DeployedPipeline
from .session import Session
from .words import moment


@dataclass(frozen=True, slots=True)
class ManyCollisions:
    """Many messages have the idempotency key of a processed message and differ from it."""

    messages: Annotated[int, "messages of the last ten minutes"]
    collided: Annotated[int, "those of them that collided"]
    paths: Annotated[Sequence[str], "the paths in which they differ, the commonest first"]
    until: Annotated[datetime | None, "when parking begins again, unless as many collide"]


def many_collisions(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    note_bad_row: Callable[[str], None] | None = None,
) -> ManyCollisions | None:
    """The collisions of a pipeline for which parking has stopped; None while it has not.

    `note_bad_row` is told the claim that a consumer could not read within the last day.
    """
    from deadletter.aws.collisions import DynamoDBCollisions

    store = DynamoDBCollisions(session.aws.dynamodb, app.circuits_table, pipeline.name)
    with aws_errors():
        known = store.read()
    now = session.now.timestamp()
    is_recent = known is not None and now - known.bad_claim_at <= DAY
    if known is not None and note_bad_row is not None and known.bad_claim and is_recent:
        note_bad_row(known.bad_claim)
    if known is None or not known.is_stopped(now):
        return None
    messages, collided = known.in_window(now)
    return ManyCollisions(messages, collided, known.paths, moment(known.stopped_until))
