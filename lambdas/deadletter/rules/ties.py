"""Rules that get in each other's way: of one priority, or with the same id.

Of rules of one priority that can match the same message their ids settle which goes first. Of a
rule of a pipeline and one of all pipelines with the same id, one counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.pattern import Alternative, Pattern, compile_pattern
from deadletter.rules.rule import Rule, RuleMode, RuleRefused, read_rule
from deadletter.settings.pipeline import Pipeline

# Rules that a note names.
_MOST_NAMED = 3

# Pairs of alternatives that are compared: beyond, two rules are taken to meet.
_MOST_PAIRS = 10_000


def tied(rule: Rule, others: Iterable[Rule]) -> list[Rule]:
    """The other rules of which only the id says whether they go before this one."""
    pattern: Pattern | None = None
    found = []
    for other in others:
        if _may_be_tied(rule, other):
            pattern = pattern or compile_pattern(rule.pattern)
            if _can_meet(pattern, compile_pattern(other.pattern)):
                found.append(other)
    return found


def tie_notes(rules: Sequence[Rule]) -> Mapping[str, str]:
    """What to know of each rule of a pipeline that is tied with others, by its id."""
    patterns = {rule.rule_id: compile_pattern(rule.pattern) for rule in rules}
    notes = {}
    for rule in rules:
        pattern = patterns[rule.rule_id]
        found = [
            other
            for other in rules
            if _may_be_tied(rule, other) and _can_meet(pattern, patterns[other.rule_id])
        ]
        if note := tie_note(rule, found):
            notes[rule.rule_id] = note
    return notes


def tie_note(rule: Rule, others: Sequence[Rule]) -> str | None:
    """What to know of a rule that is tied with others; None without any."""
    before = [other for other in others if other.order < rule.order]
    after = [other for other in others if other.order > rule.order]
    parts = [
        f"{_named(some)} {'goes' if len(some) == 1 else 'go'} {when} it"
        for when, some in (("before", before), ("after", after))
        if some
    ]
    if not parts:
        return None
    by_alphabet = any(_is_shared(other) == _is_shared(rule) for other in others)
    why = "by the alphabet" if by_alphabet else "for rules of a pipeline go before those of *"
    return (
        f"other rules of priority {rule.priority} can match the same messages: "
        f"{' and '.join(parts)}, {why}"
    )


def _may_be_tied(rule: Rule, other: Rule) -> bool:
    return (
        rule.priority == other.priority
        and rule.order != other.order
        and _effect(rule) != _effect(other)
        and _acts(rule)
        and _acts(other)
    )


def _acts(rule: Rule) -> bool:
    return rule.enabled and rule.mode is RuleMode.ENFORCE


def _effect(rule: Rule) -> tuple[object, ...]:
    return (rule.action, rule.delay_seconds, rule.queue, rule.policy, rule.rate)


def _is_shared(rule: Rule) -> bool:
    return rule.pipeline == EVERY_PIPELINE


def _can_meet(one: Pattern, other: Pattern) -> bool:
    """Whether some message may match both patterns, as far as their exact values tell."""
    if len(one.alternatives) * len(other.alternatives) > _MOST_PAIRS:
        return True
    return any(
        not _exclude(fields, others) for fields in one.alternatives for others in other.alternatives
    )


def _exclude(fields: Alternative, others: Alternative) -> bool:
    """Whether a field that has one value has to have different ones."""
    known = {field.name: field.comparison for field in others}
    for field in fields:
        # A name in the body may stand for an array, which has several values.
        if field.name not in known or field.name.partition(".")[0] == "body":
            continue
        mine, theirs = field.comparison, known[field.name]
        if mine.keys is not None and not any(map(theirs.test, mine.keys)):
            return True
        if theirs.keys is not None and not any(map(mine.test, theirs.keys)):
            return True
    return False


def _named(rules: Sequence[Rule]) -> str:
    ordered = sorted(rules, key=lambda rule: rule.order)[:_MOST_NAMED]
    names = [f"{rule.rule_id} of *" if _is_shared(rule) else rule.rule_id for rule in ordered]
    more = len(rules) - len(names)
    return ", ".join([*names, *([f"{more} more"] if more else [])])


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
