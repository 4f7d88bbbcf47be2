"""The rules an on-call engineer writes: what they may say, and which one speaks first."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.rules.index import RuleIndex
from deadletter.rules.pattern import FieldFinding, compile_pattern
from deadletter.rules.rule import Action, Rule, RuleMode, RuleRefused, read_rule
from deadletter.settings.pipeline import Pipeline


class RulesUnavailable(Exception):
    """The rules could not be read: no letter is judged without them."""


@dataclass(frozen=True, slots=True)
class RefusedRule:
    """A rule that cannot be understood: it matches nothing, and says so."""

    rule_id: str
    why: str


@dataclass(frozen=True, slots=True)
class Trial:
    """One rule tried on one letter: what came of it, and what its pattern missed."""

    rule_id: str
    outcome: str
    missed: tuple[FieldFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The rule that speaks for a letter, if any, and the shadow rules that would have."""

    rule: Rule | None = None
    shadows: tuple[str, ...] = ()


NO_MATCH = Match()


class Rules(Protocol):
    """Where the rules are kept; raises RulesUnavailable when it cannot answer."""

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        """The stored rules of this pipeline and of `*`, as plain data."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules of one pipeline, compiled once: the valid ones in order, and the refused."""

    rules: Mapping[str, Rule]
    refused: tuple[RefusedRule, ...]
    _index: RuleIndex[str] = field(repr=False)

    def first(
        self,
        document: Mapping[str, Any],
        now: float,
        matches: Mapping[str, int],
        *,
        diverted: bool = False,
    ) -> Match:
        """The first enforced rule that matches, with the shadow rules tried before it.

        An expired rule, one with as many `matches` as its `max_matches` allows, and for
        a letter that is `diverted` already a DEDICATED_DLQ rule, behave as if they were
        disabled.
        """
        shadows: list[str] = []
        for rule_id in self._index.matching(document):
            rule = self.rules[rule_id]
            if _barred(rule, now, matches, diverted) is not None:
                continue
            if rule.mode is RuleMode.SHADOW:
                shadows.append(rule_id)
                continue
            return Match(rule, tuple(shadows))
        return Match(None, tuple(shadows)) if shadows else NO_MATCH

    def explain(
        self,
        document: Mapping[str, Any],
        now: float,
        matches: Mapping[str, int],
        *,
        diverted: bool = False,
    ) -> list[Trial]:
        """Every rule in the order of its trial, whether or not an earlier one has spoken."""
        spoke = self.first(document, now, matches, diverted=diverted).rule
        trials = [Trial(one.rule_id, f"INVALID: {one.why}") for one in self.refused]
        for rule in self.rules.values():
            pattern = compile_pattern(rule.pattern)
            # A branch of `$or` may be missed by a letter that the pattern matches.
            met = pattern.matches(document)
            missed = (
                () if met else tuple(one for one in pattern.explain(document) if not one.matched)
            )
            barred = _barred(rule, now, matches, diverted)
            trials.append(Trial(rule.rule_id, barred or _outcome(rule, spoke, met), missed))
        return trials

    def holding(self, now: float) -> tuple[str, ...]:
        """The HOLD rules that keep letters waiting at `now`."""
        return tuple(
            rule.rule_id
            for rule in self.rules.values()
            if rule.action is Action.HOLD
            and rule.enabled
            and rule.mode is RuleMode.ENFORCE
            and (rule.expires_at is None or rule.expires_at > now)
        )

    def at_limit(self, now: float, matches: Mapping[str, int]) -> tuple[str, ...]:
        """The rules that do nothing at `now` only because their matches are used up."""
        return tuple(
            rule.rule_id
            for rule in self.rules.values()
            if rule.enabled
            and (rule.expires_at is None or rule.expires_at > now)
            and rule.max_matches is not None
            and matches.get(rule.rule_id, 0) >= rule.max_matches
        )

    @property
    def limited(self) -> tuple[str, ...]:
        """The rules whose matches are counted against a limit."""
        return tuple(r.rule_id for r in self.rules.values() if r.max_matches is not None)


def _barred(rule: Rule, now: float, matches: Mapping[str, int], diverted: bool) -> str | None:
    """Why a rule is not tried at all."""
    if not rule.enabled:
        return "disabled"
    if rule.expires_at is not None and rule.expires_at <= now:
        return "expired"
    if rule.max_matches is not None and matches.get(rule.rule_id, 0) >= rule.max_matches:
        return "has reached its max_matches"
    if diverted and rule.action is Action.DEDICATED_DLQ:
        return "does not apply in a dedicated DLQ"
    return None


def _outcome(rule: Rule, spoke: Rule | None, met: bool) -> str:
    if not met:
        return "does not match"
    if rule is spoke:
        return "matches and speaks"
    if spoke is not None and spoke.order < rule.order:
        return "matches, but an earlier rule speaks"
    return "would match, and only counts (shadow)"


def read_rules(items: Iterable[Mapping[str, Any]], pipeline: Pipeline) -> RuleBook:
    """The rule book in the stored items: what can't be understood is refused, never guessed at."""
    rules: list[Rule] = []
    refused: list[RefusedRule] = []
    for item in items:
        try:
            rule = read_rule(item, pipeline)
        except RuleRefused as error:
            refused.append(RefusedRule(str(item.get("rule_id", "?")), str(error)))
            continue
        rules.append(rule)
    rules.sort(key=lambda rule: rule.order)
    by_id: dict[str, Rule] = {}
    for rule in rules:
        # The id alone names a rule in metrics and stamps, so it has to be one rule's.
        if rule.rule_id in by_id:
            refused.append(RefusedRule(rule.rule_id, "another rule with the same id comes first"))
        else:
            by_id[rule.rule_id] = rule
    live = [
        (rule.rule_id, compile_pattern(rule.pattern)) for rule in by_id.values() if rule.enabled
    ]
    return RuleBook(by_id, tuple(refused), RuleIndex(live))
