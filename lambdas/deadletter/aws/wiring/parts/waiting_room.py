"""The waiting room of a pipeline."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.clients import (
    Clients,
)
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.world import World


def waiting_room_for(
    pipeline: Pipeline, resources: Resources, clients: Clients, world: World
) -> DynamoDBWaitingRoom:
    return DynamoDBWaitingRoom(
        dynamodb=clients.dynamodb,
        table=resources.letters_table,
        s3=clients.s3,
        bucket=resources.letters_bucket,
        pipeline=pipeline.name,
        fifo=pipeline.fifo,
        clock=world.clock,
    )
