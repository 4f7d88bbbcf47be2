"""Rules in words, for a line on a screen."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from deadletter.rules.pattern import compile_pattern
from deadletter.rules.rule import Rule

from .words import duration

# Alternatives of a `$or` that are spelled out.
_MAX_ALTERNATIVES = 3

# Characters of one value in a list of changes.
_MAX_VALUE = 120


def about(pattern: Mapping[str, Any]) -> str:
    """Which messages a valid pattern is about: `tenantId "acme" and body.amount > 100`."""
    alternatives = compile_pattern(pattern).alternatives
    texts = [
        " and ".join(
            f"{field.name.removeprefix('context.')} {field.comparison.words}" for field in fields
        )
        for fields in alternatives[:_MAX_ALTERNATIVES]
    ]
    if (more := len(alternatives) - _MAX_ALTERNATIVES) > 0:
        texts.append(f"{more} more combinations" if more > 1 else "1 more combination")
    return ", or ".join(texts)


def effect(action: str | None, queue: str | None, delay: float | None, policy: str | None) -> str:
    """What a rule does: `DEDICATED_DLQ to bulk`, `DELAYED_REDRIVE by 2 h 00 min`."""
    parts = [
        action or "",
        f"to {queue}" if queue is not None else "",
        f"by {duration(delay)}" if delay is not None else "",
        f"with policy {policy}" if policy is not None else "",
    ]
    return " ".join(part for part in parts if part)


def at_rate(rate: float) -> str:
    """The rate of a THROTTLE."""
    return f"to {rate:g} messages a second"


def sentence(rule: Rule) -> str:
    """What a valid rule does, and with which messages."""
    what = effect(rule.action, rule.queue, rule.delay_seconds, rule.policy)
    if rule.rate is not None:
        what += f" {at_rate(rule.rate)}"
    return f"{what} for messages with {about(rule.pattern)}"


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[str]:
    """Each column that differs, in words; both sides are in canonical form."""
    for column in [*before, *(name for name in after if name not in before)]:
        old, new = before.get(column), after.get(column)
        if old != new:
            yield f"{column}: {_value(old)} -> {_value(new)}"


def _value(value: Any) -> str:
    if value is None:
        return "none"
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=True)
    return text if len(text) <= _MAX_VALUE else f"{text[: _MAX_VALUE - 3]}..."
