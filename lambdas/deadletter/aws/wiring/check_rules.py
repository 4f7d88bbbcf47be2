"""Puts the function `check_rules` together: the checker of the rules table."""

from __future__ import annotations

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
from deadletter.rules.checker import RuleChecker
from deadletter.settings.resources import Resources

__all__ = ["check_clients", "edits", "response", "rule_checker_for"]


def rule_checker_for(resources: Resources, clients: CheckClients, world: World) -> RuleChecker:
    """The app's rule checker, on the tables and registrations of `resources`."""
    keep_seconds = resources.audit_days * 86_400.0
    return RuleChecker(
        terms=SsmPipelines(clients.ssm, resources.registrations, world.clock),
        verdicts=DynamoDBVerdicts(clients.dynamodb, resources.rules_table),
        history=DynamoDBHistory(clients.dynamodb, resources.audit_table, world.clock, keep_seconds),
        announcer=EventBridgeRuleEvents(EventBus(clients.events, resources.app, world.clock)),
        versions=DynamoDBBookVersions(clients.dynamodb, resources.letters_table),
        counts=DynamoDBVersionCounts(clients.dynamodb, resources.letters_table),
        namesakes=DynamoDBNamesakes(clients.dynamodb, resources.rules_table),
        clock=world.clock,
    )
