"""Rules of a test: the table that holds them, and `dlq rules` typed about them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from console.cli.exit import Exit
from console.operations.rule_table import RuleTable

HOLD: Mapping[str, Any] = {"action": "HOLD", "tenantId": "a"}
"""The columns of a rule."""


def typed(dlq: Any, line: str, *more: str, ends: Exit = Exit.DONE, **expected: Any) -> Any:
    """What `dlq rules LINE` says; it ends as expected."""
    return dlq(f"rules {line}", *more, ends=ends, **expected)


def lacks(text: str, *expected: str) -> list[str]:
    """Which of these are not in the text, wherever it breaks its lines."""
    joined = " ".join(text.split())
    return [each for each in expected if each not in joined]


def hold(cloud: Any, **rules: Mapping[str, Any]) -> None:
    """Has the table hold these rules and no other: of `orders`, unless `pipeline` is a column."""
    for row in cloud.dynamodb.scan(TableName="rules")["Items"]:
        key = {name: row[name] for name in ("pipeline", "rule_id")}
        cloud.dynamodb.delete_item(TableName="rules", Key=key)
    for rule_id, columns in rules.items():
        cloud.rule(rule_id, **columns)


def meanwhile(patch: pytest.MonkeyPatch, change: Callable[[], None]) -> None:
    """Another person changes something between the plan of a change and its writing."""
    real = RuleTable.write

    def write(*arguments: Any, **options: Any) -> bool:
        change()
        return real(*arguments, **options)

    patch.setattr(RuleTable, "write", write)
