"""Puts the waiting room of a pipeline together."""

from __future__ import annotations

from collections.abc import Callable

from deadletter.aws.clients import Clients
from deadletter.aws.errors import NoteRow, ignore
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.aws.wiring.world import World
from deadletter.redrive.report import nothing
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Count


def waiting_room_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients,
    world: World,
    *,
    note_refusal: Callable[[str], None] = ignore,
    note_bad_row: NoteRow = ignore,
    count_metric: Callable[[str, int], None] = nothing,
) -> DynamoDBWaitingRoom:
    """The waiting room of a pipeline, in the table and bucket of `resources`.

    Each foreign row that it meets is counted once.
    """
    return DynamoDBWaitingRoom(
        dynamodb=clients.dynamodb,
        table=resources.letters_table,
        s3=clients.s3,
        bucket=resources.letters_bucket,
        pipeline=pipeline.name,
        fifo=pipeline.fifo,
        clock=world.clock,
        note_refusal=note_refusal,
        note_bad_row=note_bad_row,
        note_foreign=lambda key: count_metric(Count.FOREIGN_ROW, 1),
    )
