"""The ledger of a pipeline, and how long its rows are kept."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.clients import (
    Clients,
    ConsumerClients,
)
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.failure.ledger import LIVES
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.world import World

KEEP_SECONDS = 45 * 86_400.0
"""How long rows of letters and abandoned intents stay: longer than main queue, DLQ and
parking lot can keep a message one after the other (14 days each)."""


def ledger_for(
    pipeline: Pipeline, resources: Resources, clients: Clients | ConsumerClients, world: World
) -> DynamoDBLedger:
    return DynamoDBLedger(
        clients.dynamodb,
        resources.letters_table,
        pipeline.name,
        world.clock,
        KEEP_SECONDS,
        lives=max(LIVES, pipeline.poison_lives),
    )
