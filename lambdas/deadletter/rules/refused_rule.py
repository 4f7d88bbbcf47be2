"""A stored rule that is not valid."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """An invalid rule: it matches nothing, and is reported with the reason.

    `everywhere` says that it is a rule of all pipelines, `disabled` that a person has switched it
    off: then it is meant to match nothing, and no person is called for it.
    """

    rule_id: str
    why: str
    everywhere: bool = False
    disabled: bool = False
