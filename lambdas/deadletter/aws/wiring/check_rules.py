"""Puts the function `check_rules` together: the checker of the rules table, and the history of
the endpoints table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.clients import CheckClients, check_clients
from deadletter.aws.events import EventBus
from deadletter.aws.registrations import SsmPipelines
from deadletter.aws.rule_edits import (
    DynamoDBBookVersions,
    DynamoDBHistory,
    DynamoDBNamesakes,
    DynamoDBVerdicts,
    DynamoDBVersionCounts,
    edits,
    response,
)
from deadletter.aws.rule_events import EventBridgeRuleEvents
from deadletter.aws.wiring.world import World
from deadletter.contract import ENDPOINTS
from deadletter.rules.checker import CheckedBatch, RuleChecker
from deadletter.settings.resources import Resources

if TYPE_CHECKING:
    from deadletter.aws.endpoint_edits import DynamoDBEndpointHistory

__all__ = ["check_clients", "edits_handler_for", "response"]


def edits_handler_for(
    resources: Resources, clients: CheckClients, world: World
) -> Callable[[Sequence[Mapping[str, Any]]], CheckedBatch]:
    """What is done with an event of a stream: rules are checked, and endpoints' edits kept."""
    checker = rule_checker_for(resources, clients, world)

    def handle(records: Sequence[Mapping[str, Any]]) -> CheckedBatch:
        if is_of_endpoints(records):
            return endpoint_history_for(resources, clients, world).keep(records)
        return checker.check(edits(records))

    return handle


def is_of_endpoints(records: Sequence[Mapping[str, Any]]) -> bool:
    """Whether an event is of the endpoints table, and not of the rules table."""
    return any(ENDPOINTS.partition in record["dynamodb"]["Keys"] for record in records)


def rule_checker_for(resources: Resources, clients: CheckClients, world: World) -> RuleChecker:
    """The app's rule checker, on the tables and registrations of `resources`."""
    return RuleChecker(
        terms=SsmPipelines(clients.ssm, resources.registrations, world.clock),
        verdicts=DynamoDBVerdicts(clients.dynamodb, resources.rules_table),
        history=DynamoDBHistory(
            clients.dynamodb, resources.audit_table, world.clock, _keep_seconds(resources)
        ),
        announcer=EventBridgeRuleEvents(EventBus(clients.events, resources.app, world.clock)),
        versions=DynamoDBBookVersions(clients.dynamodb, resources.letters_table),
        counts=DynamoDBVersionCounts(clients.dynamodb, resources.letters_table),
        namesakes=DynamoDBNamesakes(clients.dynamodb, resources.rules_table),
        clock=world.clock,
    )


def endpoint_history_for(
    resources: Resources, clients: CheckClients, world: World
) -> DynamoDBEndpointHistory:
    """The history of the app's endpoints, in the audit table of `resources`."""
    # Edits of endpoints are rare: a cold start for a rule does without.
    from deadletter.aws.endpoint_edits import DynamoDBEndpointHistory

    return DynamoDBEndpointHistory(
        clients.dynamodb,
        resources.audit_table,
        world.clock,
        _keep_seconds(resources),
        secrets=f"{resources.app}/webhooks/",
    )


def _keep_seconds(resources: Resources) -> float:
    return resources.audit_days * 86_400.0
