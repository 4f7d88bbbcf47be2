"""The rule book of a pipeline: finds the first rule that matches a letter."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.index import RuleIndex
from deadletter.rules.pattern import FieldFinding, compile_pattern
from deadletter.rules.refused_rule import RefusedRule
from deadletter.rules.rule import Action, Rule, RuleMode, RuleRefused, is_disabled, read_rule
from deadletter.settings.pipeline import Pipeline


class RulesUnavailable(Exception):
    """The rules could not be read. No letter is judged without them."""


@dataclass(frozen=True, slots=True)
class Trial:
    """The result of one rule on one letter, with the fields that did not match."""

    rule_id: str
    outcome: str
    missed: tuple[FieldFinding, ...] = ()


@dataclass(frozen=True, slots=True)
class Match:
    """The rule that applies to a letter, if any, and the shadow rules that match before it."""

    rule: Rule | None = None
    shadows: tuple[str, ...] = ()


NO_MATCH = Match()


class Rules(Protocol):
    """The store of rules; raises RulesUnavailable."""

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        """The stored rules of this pipeline and of `*`, as plain data."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules of one pipeline, compiled once: the valid ones in order, and the refused ones."""

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
        """The first enforced rule that matches, and the shadow rules that match before it.

        A rule is passed over if it is expired, or if it has matched `max_matches` times
        (`matches` says how often). For a letter in a dedicated DLQ (`diverted`) the
        DEDICATED_DLQ rules are passed over too.
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
        diverted: bool,
    ) -> list[Trial]:
        """The result of every rule on a document, in their order, after the refused rules."""
        winner = self.first(document, now, matches, diverted=diverted).rule
        trials = [Trial(refused.rule_id, f"INVALID: {refused.why}") for refused in self.refused]
        for rule in self.rules.values():
            pattern = compile_pattern(rule.pattern)
            # A letter that matches the pattern may still miss a branch of `$or`.
            matched = pattern.matches(document)
            findings = [] if matched else pattern.explain(document)
            missed = tuple(finding for finding in findings if not finding.matched)
            barred = _barred(rule, now, matches, diverted)
            trials.append(Trial(rule.rule_id, barred or _outcome(rule, winner, matched), missed))
        return trials

    def holding(self, now: float) -> tuple[str, ...]:
        """The HOLD rules in force at `now`."""
        return tuple(
            rule.rule_id
            for rule in self.rules.values()
            if rule.action is Action.HOLD
            and rule.enabled
            and rule.mode is RuleMode.ENFORCE
            and (rule.expires_at is None or rule.expires_at > now)
        )

    def at_limit(self, now: float, matches: Mapping[str, int]) -> tuple[str, ...]:
        """The rules that would be in force at `now`, but have used up their matches."""
        return tuple(
            rule.rule_id
            for rule in self.rules.values()
            if rule.enabled
            and (rule.expires_at is None or rule.expires_at > now)
            and rule.max_matches is not None
            and matches.get(rule.rule_id, 0) >= rule.max_matches
        )

    def of_all_pipelines(self, rule_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the rules that are rules of all pipelines."""
        return tuple(id_ for id_ in rule_ids if self.rules[id_].pipeline == EVERY_PIPELINE)

    @property
    def limited(self) -> tuple[str, ...]:
        """The rules with a limit of matches."""
        return tuple(rule.rule_id for rule in self.rules.values() if rule.max_matches is not None)


def _barred(rule: Rule, now: float, matches: Mapping[str, int], diverted: bool) -> str | None:
    """The reason why a rule is not tried, or None."""
    if not rule.enabled:
        return "disabled"
    if rule.expires_at is not None and rule.expires_at <= now:
        return "expired"
    if rule.max_matches is not None and matches.get(rule.rule_id, 0) >= rule.max_matches:
        return "has reached its max_matches"
    if diverted and rule.action is Action.DEDICATED_DLQ:
        return "does not apply in a dedicated DLQ"
    return None


def _outcome(rule: Rule, winner: Rule | None, matched: bool) -> str:
    if not matched:
        return "does not match"
    if rule is winner:
        return "matches and speaks"
    if winner is not None and winner.order < rule.order:
        return "matches, but an earlier rule speaks"
    return "would match, and only counts (shadow)"


def read_rules(items: Iterable[Mapping[str, Any]], pipeline: Pipeline) -> RuleBook:
    """The rule book of the stored items; an item that is not a valid rule is refused."""
    rules: list[Rule] = []
    refused: list[RefusedRule] = []
    for item in items:
        try:
            rule = read_rule(item, pipeline)
        except RuleRefused as error:
            refused.append(
                RefusedRule(
                    str(item.get("rule_id", "?")),
                    str(error),
                    everywhere=item.get("pipeline") == EVERY_PIPELINE,
                    disabled=is_disabled(item),
                )
            )
            continue
        rules.append(rule)
    rules.sort(key=lambda rule: rule.order)
    by_id: dict[str, Rule] = {}
    for rule in rules:
        # Metrics and stamps name a rule by its id alone, so the id has to be unique.
        if rule.rule_id in by_id:
            refused.append(RefusedRule(rule.rule_id, "another rule with the same id comes first"))
        else:
            by_id[rule.rule_id] = rule
    enabled = [
        (rule.rule_id, compile_pattern(rule.pattern)) for rule in by_id.values() if rule.enabled
    ]
    return RuleBook(by_id, tuple(refused), RuleIndex(enabled))
