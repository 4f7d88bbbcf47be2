"""`dlq rules`: routing rules, as a person lists, tries and changes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote
from typing import Any

from deadletter.contract import EVERY_PIPELINE

from ..operations import rules
from ..operations.rule_file import APPLY, AppliedRules, as_yaml
from ..operations.rule_table import everywhere
from ..operations.rules import (
    AddPlan,
    ChangedRule,
    ListedRule,
    PipelineRules,
    RuleList,
    action_of,
)
from ..operations.session import Session
from ..operations.words import clock, count, duration
from . import asking
from .output import Block, Line, Part, Styled, line, typed
from .verb import VerbView

# The list.

_STYLES = {"enforced": "good", "refused": "alarm", "expired": "faint", "disabled": "faint"}


def _list(answer: RuleList) -> Iterator[Block]:
    """The rules for a person: invalid rules come first."""
    if answer.file is not None:
        yield from map(line, as_yaml(answer.file))
        return
    yield line(
        Styled(f"Rules of {answer.app}", "strong"), f" in account {answer.account}, {answer.region}"
    )
    if answer.strays:
        yield Line()
        says = "INVALID: of pipelines that this app does not have; delete them in the table"
        yield line(Styled(says, "alarm"))
        for stray in answer.strays:
            yield line(Styled(stray, "strong"), indent=2)
    for pipeline in answer.pipelines:
        yield Line()
        yield from show_rules(pipeline, answer.at)


def show_rules(pipeline: PipelineRules, now: datetime) -> Iterator[Block]:
    """The rules of one pipeline for a person."""
    yield line(Styled(pipeline.name, "strong"), f": {_number(pipeline.rules)}")
    for rule in pipeline.rules:
        name = Styled(rule.rule_id, "strong")
        where = " (all pipelines)" if rule.pipeline == EVERY_PIPELINE else ""
        if rule.effect == "refused":
            why = Styled(f"INVALID: {rule.status_reason}", "alarm")
            yield line(name, f"{where}  ", why, indent=2)
        else:
            yield line(name, f"{where}  {action_of(rule)}  {rule.about}", indent=2)
            yield line(*_state(rule, now), indent=4)
            if rule.status_reason:
                yield line(Styled(f"Note: {rule.status_reason}", "alarm"), indent=4)
        by = f"by {rule.created_by}" if rule.created_by else ""
        notes = (rule.reason or "no reason given", rule.ticket or "", by)
        yield line(Styled(", ".join(filter(None, notes)), "faint"), indent=4)


def _number(listed: Sequence[ListedRule]) -> str:
    """How many rules are listed, and of which effect."""
    if not listed:
        return "no rule"
    effects = Counter("INVALID" if rule.effect == "refused" else rule.effect for rule in listed)
    parts = ", ".join(f"{number} {effect}" for effect, number in sorted(effects.items()))
    return f"{count(len(listed), 'rule')} ({parts}), in the order they are tried"


def _state(rule: ListedRule, now: datetime) -> Iterator[Part]:
    yield Styled(rule.effect, _STYLES.get(rule.effect, "alarm" if rule.effect == "used up" else ""))
    of = f" of at most {rule.max_matches:,}" if rule.max_matches is not None else ""
    yield f", matched {count(rule.matches, 'message')}{of}{_ago(rule.last_matched, now)}"
    if rule.effect == "shadow" or rule.shadow_matches:
        counted = count(rule.shadow_matches, "message")
        yield f", would have matched {counted}{_ago(rule.last_shadow, now)}"
    yield f", priority {rule.priority}"
    if rule.expires_at is not None:
        left = (rule.expires_at - now).total_seconds()
        when = f"expires {clock(rule.expires_at, now)}, in {duration(left)}"
        yield f", {when if left > 0 else f'expired {duration(-left)} ago'}"


def _ago(last: datetime | None, now: datetime) -> str:
    return "" if last is None else f", last {duration(now - last)} ago"


# Changes.


def _ask(session: Session, plan: AddPlan) -> Any:
    return asking.dated(plan, session.now, "the rule")


def _changed(change: ChangedRule) -> Iterator[Block]:
    """That a rule was changed, what was done to it, and what takes that back."""
    yield line(
        Styled(f"Rule {change.rule_id} of {everywhere(change.pipeline)} {change.did}", "strong"),
        f" in account {change.account}, {change.region}",
    )
    yield line("In effect within a minute, for messages that wait too. It is undone by")
    yield from typed(f"dlq rules undo {quote(change.rule_id)} -p {quote(change.pipeline)}")


def _applied(answer: AppliedRules) -> Iterator[Block]:
    yield line(Styled("Rules applied", "strong"), f" in account {answer.account}, {answer.region}")
    yield from (line(change.line, indent=2) for change in answer.rules)
    yield line(f"{count(answer.unchanged, 'rule')} unchanged.", indent=2)
    if answer.kept:
        yield line(f"Not in the file, and kept: {', '.join(answer.kept)}.", indent=2)
    if answer.raced:
        says = "Changed by another person meanwhile, so left alone: "
        yield line(Styled(says, "alarm"), f"{', '.join(answer.raced)}; look again.")


VIEWS = (
    VerbView(rules.LIST, _list),
    VerbView(rules.ADD, _changed, ask=_ask, says_plan=True),
    *(VerbView(verb, _changed) for verb in (rules.DISABLE, rules.REMOVE, rules.UNDO)),
    VerbView(APPLY, _applied, attention=lambda answer: answer.raced),
)
