"""Puts the function `route` together: the router."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.circuits import DynamoDBCircuits
from deadletter.aws.clients import Clients, RouterClients
from deadletter.aws.clients import router_clients as clients
from deadletter.aws.errors import BadRows, NoteRow
from deadletter.aws.rules import DynamoDBRules
from deadletter.aws.wiring.parts.ledger import ledger_for
from deadletter.aws.wiring.world import World
from deadletter.routing.direct_router import DirectRouter
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from deadletter.aws.live_runs import DynamoDBLiveRuns
    from deadletter.rules.json_schema import JsonSchema

__all__ = ["clients", "router_for"]


def router_for(
    pipeline: Pipeline, resources: Resources, clients: Clients | RouterClients, world: World
) -> DirectRouter:
    """The router of a pipeline, on the tables of `resources`."""
    bad_rows = BadRows()
    return DirectRouter(
        pipeline=pipeline,
        rules=DynamoDBRules(
            clients.dynamodb, resources.rules_table, resources.letters_table, world.clock
        ),
        ledger=ledger_for(pipeline, resources, clients, world, bad_rows.note),
        circuits=DynamoDBCircuits(
            clients.dynamodb, resources.circuits_table, pipeline.name, bad_rows.note
        ),
        trusted_senders=frozenset(resources.trusted_senders),
        clock=world.clock,
        random=world.random,
        causes=DynamoDBCauses(
            clients.dynamodb, resources.circuits_table, pipeline.name, world.new_id
        ),
        live_runs=_live_runs(pipeline, resources, clients, bad_rows.note),
        schema=_schema(resources) if resources.replay_schema else None,
        bad_rows=bad_rows.take,
    )


def _schema(resources: Resources) -> JsonSchema:
    from deadletter.rules.json_schema import unpacked

    return unpacked(resources.replay_schema)


def _live_runs(
    pipeline: Pipeline,
    resources: Resources,
    clients: Clients | RouterClients,
    note_bad_row: NoteRow,
) -> DynamoDBLiveRuns:
    from deadletter.aws.live_runs import DynamoDBLiveRuns

    return DynamoDBLiveRuns(clients.dynamodb, resources.letters_table, pipeline.name, note_bad_row)
