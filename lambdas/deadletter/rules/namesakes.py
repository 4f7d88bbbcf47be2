"""Rules with the same id, one of a pipeline and one of all pipelines: one of the two counts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.rule import RuleRefused, read_rule
from deadletter.settings.pipeline import Pipeline

_Item = Mapping[str, Any]


def namesake_note(
    key: str, item: _Item, namesakes: Mapping[str, _Item], pipelines: Mapping[str, Pipeline]
) -> str | None:
    """That a valid rule, stored under `key`, has namesakes, and which counts; None without any.

    `namesakes` are the rules with its id by the key that they are stored under. One that is not
    valid is none: it matches nothing in any case.
    """
    if key != EVERY_PIPELINE:
        shared, pipeline = namesakes.get(EVERY_PIPELINE), pipelines.get(key)
        if shared is None or pipeline is None:
            return None
        counting = _counting(item, shared, pipeline)
        if counting is None:
            return None
        which = "this one" if counting == key else "that one"
        return f"a rule of all pipelines has the same id, and {which} counts in {key}: {_REMEDY}"
    theirs: list[str] = []
    ours: list[str] = []
    for name in sorted(namesakes.keys() & pipelines.keys()):
        counting = _counting(namesakes[name], item, pipelines[name])
        if counting is not None:
            (theirs if counting == name else ours).append(name)
    parts = [
        f"{which} counts in {', '.join(names)}"
        for which, names in (("theirs", theirs), ("this one", ours))
        if names
    ]
    if not parts:
        return None
    return f"rules of pipelines have the same id, and {' and '.join(parts)}: {_REMEDY}"


_REMEDY = "give one of them another id"


def _counting(own: _Item, shared: _Item, pipeline: Pipeline) -> str | None:
    """The key of the one of two rules that counts in a pipeline; None if one is not valid there."""
    try:
        rules = (read_rule(own, pipeline), read_rule(shared, pipeline))
    except RuleRefused:
        return None
    return min(rules, key=lambda rule: rule.claim).pipeline
