"""A stored rule that is not valid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """An invalid rule: it matches nothing, and is reported with the reason.

    `everywhere` says that it is a rule of all pipelines.
    """

    rule_id: str
    why: str
    everywhere: bool = False
