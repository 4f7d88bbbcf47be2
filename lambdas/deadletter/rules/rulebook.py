"""The rule book of a pipeline: finds the first rule that matches a letter."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.fields import Outline
from deadletter.rules.pattern import FieldFinding, Likeness, Pattern, compile_pattern
from deadletter.rules.refused_rule import RefusedRule
from deadletter.rules.rule import (
    STOPPING,
    Action,
    Rule,
    RuleMode,
    RuleRefused,
    is_disabled,
    read_rule,
)
from deadletter.settings.pipeline import Pipeline

MOST_RULES = 1_000
"""Rules of a pipeline that are on: each is tried on each letter, at up to 2 µs."""

_EDITION_DIGITS = 16


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
    """The rule that applies to a letter, if any, and the shadow rules that match before it.

    `costly` are the rules so far that are too costly to judge on this letter; `unjudged` says that
    the rule that applies is the last of them.
    """

    rule: Rule | None = None
    shadows: tuple[str, ...] = ()
    costly: tuple[str, ...] = ()
    unjudged: bool = False


NO_MATCH = Match()


class Rules(Protocol):
    """The store of rules; raises RulesUnavailable."""

    def items(self, pipeline: str) -> Sequence[Mapping[str, Any]]:
        """The stored rules of this pipeline and of `*`, as plain data."""


@dataclass(frozen=True, slots=True)
class RuleBook:
    """All rules of one pipeline, compiled once: the valid ones in order, and the refused ones.

    `switched_off` are disabled rules whose id another rule has too: `rules` has that one.
    """

    rules: Mapping[str, Rule]
    refused: tuple[RefusedRule, ...]
    switched_off: tuple[Rule, ...]
    _patterns: Mapping[str, Pattern] = field(repr=False)
    _outline: Outline = field(repr=False)
    _editions: dict[str, object] = field(default_factory=dict, repr=False, compare=False)

    def first(
        self,
        document: Mapping[str, Any],
        now: float,
        matches: Mapping[str, int],
        *,
        diverted: bool = False,
    ) -> Match:
        """The first enforced rule that matches, and the shadow rules that match before it.

        A rule is passed over if it is expired, or if it has matched `max_matches` times (`matches`
        says how often). For a letter in a dedicated DLQ (`diverted`) the DEDICATED_DLQ rules are
        passed over too. A rule that is too costly to judge applies if it would stop the letter,
        because no letter escapes such a rule by its size; any other does not match.
        """
        shadows: list[str] = []
        costly: list[str] = []
        leaves = self._outline.read(document)
        for rule_id, pattern in self._patterns.items():
            likeness = pattern.judge_leaves(leaves)
            if likeness is Likeness.DIFFERS:
                continue
            rule = self.rules[rule_id]
            if _barred(rule, now, matches, diverted) is not None:
                continue
            too_costly = likeness is Likeness.TOO_COSTLY
            if too_costly:
                costly.append(rule_id)
                if not _stops(rule):
                    continue
            elif rule.mode is RuleMode.SHADOW:
                shadows.append(rule_id)
                continue
            return Match(rule, tuple(shadows), tuple(costly), too_costly)
        return Match(None, tuple(shadows), tuple(costly)) if shadows or costly else NO_MATCH

    def possible(
        self,
        holds: Callable[[Rule], bool | None],
        now: float,
        matches: Mapping[str, int],
        *,
        diverted: bool = False,
    ) -> Sequence[Match]:
        """Every match that `first` may find for a letter of which not everything is known.

        `holds` says whether a rule's pattern matches the letter; None: that cannot be told.
        """
        possible: list[Match] = []
        for rule in self.rules.values():
            if rule.mode is RuleMode.SHADOW or _barred(rule, now, matches, diverted) is not None:
                continue
            answer = holds(rule)
            if answer is not False:
                possible.append(Match(rule))
            if answer is True:
                return possible
        return [*possible, NO_MATCH]

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
        trials += [Trial(rule.rule_id, "disabled") for rule in self.switched_off]
        for rule in self.rules.values():
            pattern = compile_pattern(rule.pattern)
            # A letter that matches the pattern may still miss a branch of `$or`.
            likeness = pattern.judge(document)
            findings = pattern.explain(document) if likeness is Likeness.DIFFERS else []
            missed = tuple(finding for finding in findings if not finding.matched)
            barred = _barred(rule, now, matches, diverted)
            trials.append(Trial(rule.rule_id, barred or _outcome(rule, winner, likeness), missed))
        return trials

    def holding(self, now: float, matches: Mapping[str, int]) -> tuple[str, ...]:
        """The rules in force at `now` that hold letters: HOLD and THROTTLE those that they match.

        Another stopping rule holds those on which it is too costly to judge, if there can be any.
        """
        return tuple(
            rule.rule_id
            for rule in self._in_force(now, matches)
            if rule.action in (Action.HOLD, Action.THROTTLE)
            or (rule.action in STOPPING and self._patterns[rule.rule_id].may_be_too_costly)
        )

    def rates(self, now: float, matches: Mapping[str, int]) -> Mapping[str, float]:
        """Letters per second that each THROTTLE rule in force at `now` lets go."""
        return {
            rule.rule_id: rule.rate
            for rule in self._in_force(now, matches)
            if rule.rate is not None
        }

    def edition(self, now: float, matches: Mapping[str, int]) -> str:
        """The name of the rules that are in force at `now`, and of what each of them does.

        It is another one whenever a letter that waits may have to be judged otherwise: a rule was
        edited, switched, added, removed or put in another order, has ended, or has used up its
        matches. Rules that only count are left out.
        """
        in_force = tuple(rule.rule_id for rule in self._in_force(now, matches))
        if self._editions.get("of") != in_force:
            digest = hashlib.sha256()
            for rule_id in in_force:
                rule = self.rules[rule_id]
                digest.update(repr((rule.order, rule.version)).encode())
            for rule_id in sorted({refused.rule_id for refused in self.refused}):
                digest.update(repr(rule_id).encode())
            self._editions.update({"of": in_force, "is": digest.hexdigest()[:_EDITION_DIGITS]})
        return str(self._editions["is"])

    def _in_force(self, now: float, matches: Mapping[str, int]) -> Iterator[Rule]:
        """The rules that act at `now`, in their order."""
        for rule in self.rules.values():
            if rule.mode is RuleMode.ENFORCE and _barred(rule, now, matches, False) is None:
                yield rule

    def at_limit(self, now: float, matches: Mapping[str, int]) -> tuple[str, ...]:
        """The rules that would be in force at `now`, but have used up their matches."""
        return tuple(
            rule.rule_id
            for rule in self.rules.values()
            if rule.max_matches is not None
            and matches.get(rule.rule_id, 0) >= rule.max_matches
            and rule.idle(now) is None
        )

    def of_all_pipelines(self, rule_ids: Iterable[str]) -> tuple[str, ...]:
        """Those of the rules that are rules of all pipelines."""
        return tuple(id_ for id_ in rule_ids if self.rules[id_].pipeline == EVERY_PIPELINE)

    @property
    def limited(self) -> Mapping[str, str]:
        """The rules with a limit of matches, with the keys of their counts."""
        return {
            rule.rule_id: rule.counts_key
            for rule in self.rules.values()
            if rule.max_matches is not None
        }


def _stops(rule: Rule) -> bool:
    return rule.action in STOPPING and rule.mode is RuleMode.ENFORCE


def _barred(rule: Rule, now: float, matches: Mapping[str, int], diverted: bool) -> str | None:
    """The reason why a rule is not tried, or None."""
    idle = rule.idle(now)
    if idle is not None:
        return idle
    if rule.max_matches is not None and matches.get(rule.rule_id, 0) >= rule.max_matches:
        return "has reached its max_matches"
    if diverted and rule.action is Action.DEDICATED_DLQ:
        return "does not apply in a dedicated DLQ"
    return None


def _outcome(rule: Rule, winner: Rule | None, likeness: Likeness) -> str:
    if likeness is Likeness.DIFFERS:
        return "does not match"
    if likeness is Likeness.TOO_COSTLY:
        effect = "holds the message" if rule is winner else "does not match"
        return f"is too costly to decide on this message, and {effect}"
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
                    gist=error.gist,
                )
            )
            continue
        rules.append(rule)
    by_id: dict[str, Rule] = {}
    switched_off: list[Rule] = []
    for rule in sorted(rules, key=lambda rule: rule.claim):
        # Metrics and stamps name a rule by its id alone, so the id has to be unique.
        if rule.rule_id not in by_id:
            by_id[rule.rule_id] = rule
        elif not rule.enabled:
            switched_off.append(rule)
        else:
            is_shared = by_id[rule.rule_id].pipeline == EVERY_PIPELINE
            whose = "all pipelines" if is_shared else "the pipeline"
            why = f"another rule with the same id comes first: that of {whose}"
            refused.append(RefusedRule(rule.rule_id, why, gist=why, is_namesake=True))
    by_id = {rule.rule_id: rule for rule in sorted(by_id.values(), key=lambda rule: rule.order)}
    enabled = [rule for rule in by_id.values() if rule.enabled]
    for rule in enabled[MOST_RULES:]:
        why = f"it comes after {MOST_RULES:,} rules that are on, and more are not tried"
        refused.append(RefusedRule(rule.rule_id, why, gist=why))
        del by_id[rule.rule_id]
    patterns = {rule.rule_id: compile_pattern(rule.pattern) for rule in enabled[:MOST_RULES]}
    outline = Outline({field.name for pattern in patterns.values() for field in pattern.fields})
    return RuleBook(by_id, tuple(refused), tuple(switched_off), patterns, outline)
