"""Refused rules as events on EventBridge."""

from __future__ import annotations

from deadletter.aws.events import EventBus
from deadletter.contract import EventType
from deadletter.rules.checker import CheckUnavailable, RuleRefusal


class EventBridgeRuleEvents:
    """Announces refused rules on EventBridge, with the reason."""

    def __init__(self, bus: EventBus) -> None:
        self._bus = bus

    def announce(self, refusal: RuleRefusal) -> None:
        detail = {"rule_id": refusal.rule_id, "reason": refusal.reason}
        error = self._bus.put(EventType.RULE_REFUSED, refusal.pipeline, detail)
        if error is not None:
            raise CheckUnavailable(f"the event bus: {error}")
