"""Puts the ledger of a pipeline together."""

from __future__ import annotations

from deadletter.aws.clients import Clients, ConsumerClients, RouterClients
from deadletter.aws.errors import NoteRow, ignore
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.wiring.world import World
from deadletter.contract import ROWS_KEPT
from deadletter.failure.ledger import LIVES
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources


def ledger_for(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients | ConsumerClients | RouterClients,
    world: World,
    note_bad_row: NoteRow = ignore,
) -> DynamoDBLedger:
    """The ledger of a pipeline, which keeps at least as many lives as make a letter poison."""
    return DynamoDBLedger(
        clients.dynamodb,
        resources.letters_table,
        pipeline.name,
        world.clock,
        ROWS_KEPT,
        lives=max(LIVES, pipeline.poison_lives),
        note_bad_row=note_bad_row,
    )
