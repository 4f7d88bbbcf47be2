"""A stored rule that is not valid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """An invalid rule: it matches nothing, and is reported with the reason."""

    rule_id: str
    why: str
