"""Refused rules as events on EventBridge."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.events import put_event
from deadletter.contract import EventType
from deadletter.rules.checker import CheckUnavailable, RuleRefusal

if TYPE_CHECKING:
    from mypy_boto3_events import EventBridgeClient


class EventBridgeRuleEvents:
    """Announces refused rules on EventBridge, with the reason."""

    def __init__(self, client: EventBridgeClient) -> None:
        self._client = client

    def announce(self, refusal: RuleRefusal) -> None:
        detail = {
            "pipeline": refusal.pipeline,
            "rule_id": refusal.rule_id,
            "reason": refusal.reason,
        }
        error = put_event(self._client, EventType.RULE_REFUSED, detail)
        if error is not None:
            raise CheckUnavailable(f"the event bus: {error}")
