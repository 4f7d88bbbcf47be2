"""Rules as they are stored, and the book of some of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadletter.rules.rulebook import Match, RuleBook, read_rules
from deadletter.settings.pipeline import Pipeline, RetryPolicy

PIPELINE = Pipeline(
    "orders",
    context={"tenantId": "body.tenantId", "messageType": "body.type"},
    dedicated=("slow", "bulk"),
    policies={"gold": RetryPolicy()},
)
GONE: Any = object()
ACTIONS = "QUARANTINE, DELAYED_REDRIVE, DEDICATED_DLQ, HOLD, THROTTLE, DEFAULT"


def item(rule_id: Any = "r", **columns: Any) -> dict[str, Any]:
    """A rule as it is stored: HOLD tenant a by default; a column that is GONE is left out."""
    columns = {"pipeline": "orders", "action": "HOLD", "tenantId": "a", **columns}
    stored = {"rule_id": rule_id, **columns}
    return {name: value for name, value in stored.items() if value is not GONE}


def document(tenant: str = "a", **more: Any) -> Mapping[str, Any]:
    return {"pipeline": "orders", "context": {"tenantId": tenant}, **more}


def book(*items: Mapping[str, Any]) -> RuleBook:
    return read_rules(items, PIPELINE)


def rule_of(match: Match) -> str | None:
    return match.rule.rule_id if match.rule else None
