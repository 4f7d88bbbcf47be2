"""The ledger of a pipeline, and how long its rows are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.clients import (
    Clients,
    ConsumerClients,
)
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import ROWS_KEPT
from deadletter.failure.ledger import LIVES
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.world import World


def ledger_for(
    pipeline: Pipeline, resources: Resources, clients: Clients | ConsumerClients, world: World
) -> DynamoDBLedger:
    return DynamoDBLedger(
        clients.dynamodb,
        resources.letters_table,
        pipeline.name,
        world.clock,
        ROWS_KEPT,
        lives=max(LIVES, pipeline.poison_lives),
    )
