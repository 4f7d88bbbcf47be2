"""What the settings of a pipeline say about its replay runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from deadletter.replay.plan import KeyPolicy
from deadletter.settings.pipeline import Pipeline


@dataclass(frozen=True, slots=True)
class ReplayTerms:
    """The settings `replay` and `ordering_key` of a pipeline; the defaults where it has none."""

    rate: float = 5.0
    error_rate: float = 0.4
    minimum: int = 10
    attempts: int = 3
    approve_above: int | None = None
    approve_causes: tuple[str, ...] = ()
    outcome_timeout: float | None = None
    on_failure: KeyPolicy = KeyPolicy.GO
    on_unknown: KeyPolicy = KeyPolicy.GO
    has_ordering_key: bool = False


def terms_of(settings: Pipeline) -> ReplayTerms:
    """The terms of a pipeline's replay runs."""
    group: Any = getattr(settings, "replay", None)
    values = {
        name: getattr(group, name)
        for name in ReplayTerms.__slots__
        if group is not None and hasattr(group, name)
    }
    has_key = getattr(settings, "ordering_key", None) is not None
    return ReplayTerms(**{**values, "has_ordering_key": has_key})
