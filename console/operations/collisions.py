"""Whether so many messages collide that none of them is parked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated

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
    session: Session, app: App, pipeline: DeployedPipeline
) -> ManyCollisions | None:
    """The collisions of a pipeline for which parking has stopped; None while it has not."""
    from deadletter.aws.collisions import DynamoDBCollisions

    store = DynamoDBCollisions(session.aws.dynamodb, app.circuits_table, pipeline.name)
    with aws_errors():
        known = store.read()
    now = session.now.timestamp()
    if known is None or not known.is_stopped(now):
        return None
    messages, collided = known.in_window(now)
    return ManyCollisions(messages, collided, known.paths, moment(known.stopped_until))
