"""The rule checker's function."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.clients import (
    CheckClients,
)
from deadletter.aws.events import EventBridgeRuleEvents
from deadletter.aws.registrations import SsmPipelines
from deadletter.aws.rule_edits import DynamoDBHistory, DynamoDBVerdicts
from deadletter.rules.checker import RuleChecker
from deadletter.settings.pipeline import Resources

if TYPE_CHECKING:
    pass
from deadletter.aws.wiring.world import World


def rule_checker_for(wiring: Resources, clients: CheckClients, world: World) -> RuleChecker:
    """The app's rule checker."""
    keep_seconds = wiring.audit_days * 86_400.0
    return RuleChecker(
        terms=SsmPipelines(clients.ssm, wiring.registrations, world.clock),
        verdicts=DynamoDBVerdicts(clients.dynamodb, wiring.rules_table),
        history=DynamoDBHistory(clients.dynamodb, wiring.audit_table, world.clock, keep_seconds),
        announcer=EventBridgeRuleEvents(clients.events),
        clock=world.clock,
    )
