"""Puts the function `route` together: the router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.clients import Clients, RouterClients
from deadletter.aws.clients import router_clients as clients
from deadletter.aws.errors import BadRows
from deadletter.aws.rules import DynamoDBRules
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.routing.direct_router import DirectRouter
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from deadletter.rules.json_schema import JsonSchema

__all__ = ["clients", "router_for"]


def router_for(
    pipeline: Pipeline, resources: Resources, clients: Clients | RouterClients, world: World
) -> DirectRouter:
    """The router of a pipeline, on the tables of `resources`."""
    # Read when the first letter of a run comes.
    from deadletter.aws.live_runs import DynamoDBLiveRuns

    bad_rows = BadRows()
    stores = Stores(pipeline, resources, clients, world, note_bad_row=bad_rows.note)
    return DirectRouter(
        pipeline=pipeline,
        rules=DynamoDBRules(
            clients.dynamodb, resources.rules_table, resources.letters_table, world.clock
        ),
        ledger=stores.ledger,
        circuits=stores.circuits,
        trusted_senders=frozenset(resources.trusted_senders),
        clock=world.clock,
        random=world.random,
        causes=stores.causes,
        live_runs=DynamoDBLiveRuns(*stores.letters_table, bad_rows.note),
        schema=_schema(resources) if resources.replay_schema else None,
        bad_rows=bad_rows.take,
    )


def _schema(resources: Resources) -> JsonSchema:
    from deadletter.rules.json_schema import unpacked

    return unpacked(resources.replay_schema)
