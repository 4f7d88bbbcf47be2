"""`dlq rules`: routing rules, as a person lists, tries and changes them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from shlex import quote

from deadletter.contract import EVERY_PIPELINE

from ..operations import rules
from ..operations.rule_file import APPLY, AppliedRules, RuleFiles, as_yaml
from ..operations.rule_trial import TEST, RuleTrial, Tested
from ..operations.rules import (
    AddedRule,
    ListedRule,
    PipelineRules,
    PlannedRule,
    RuleList,
    RuleRevision,
    about,
    action_of,
    everywhere,
)
from ..operations.session import Session
from ..operations.words import clock, count, duration
from . import asking
from .command import group
from .exit import Exit
from .list import not_searched
from .output import Block, Line, Part, Styled, TextTable, line, said, typed
from .verb import add

typer_app = group("Routing rules: which messages to stop, slow down or set apart.")


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
    return "" if last is None else f", last {duration((now - last).total_seconds())} ago"


# Changes.


def _ending(session: Session, plan: PlannedRule) -> PlannedRule:
    """The rule with the end that a person gives it, if none was typed."""
    if plan.has_end:
        return plan
    return plan.ending(asking.end_or_never(None, session.now, "the rule"))


def _added(change: AddedRule) -> Iterator[Block]:
    return _changed(change, "replaced" if change.before else "added")


def _switched_off(change: RuleRevision) -> Iterator[Block]:
    return _changed(change, "disabled")


def _removed(change: RuleRevision) -> Iterator[Block]:
    return _changed(change, "removed")


def _undone(change: RuleRevision) -> Iterator[Block]:
    return _changed(change, "as before" if change.rule else "removed")


def _changed(change: RuleRevision, what: str) -> Iterator[Block]:
    """That a rule was changed, what was done to it, and what takes that back."""
    yield line(
        Styled(f"Rule {change.rule_id} of {everywhere(change.pipeline)} {what}", "strong"),
        f" in account {change.account}, {change.region}",
    )
    yield line("In effect within a minute, for messages that wait too. It is undone by")
    yield from typed(f"dlq rules undo {quote(change.rule_id)}")


def _applied(answer: AppliedRules) -> Iterator[Block]:
    yield line(Styled("Rules applied", "strong"), f" in account {answer.account}, {answer.region}")
    yield from (line(change.says(), indent=2) for change in answer.rules)
    yield line(f"{count(answer.unchanged, 'rule')} unchanged.", indent=2)
    if answer.kept:
        yield line(f"Not in the file, and kept: {', '.join(answer.kept)}.", indent=2)
    if answer.raced:
        says = "Changed by another person meanwhile, so left alone: "
        yield line(Styled(says, "alarm"), f"{', '.join(answer.raced)}; look again.")


def _was_raced(answer: AppliedRules) -> Exit:
    return Exit.ATTENTION if answer.raced else Exit.DONE


# Trials.

_MAX_MISSED = 10  # rows of the table of missed fields


def _tested(answer: Tested) -> Iterator[Block]:
    if answer.files is not None:
        yield from _files(answer.files)
    if answer.trial is not None:
        yield from _trial(answer.trial)


def _trial(trial: RuleTrial) -> Iterator[Block]:
    yield line(
        Styled(f"About: {about(trial.pattern)}", "strong"),
        f" in pipeline {trial.pipeline}, account {trial.account}, {trial.region}",
    )
    if trial.on_record is not None:
        for text in rules.matches_of([trial.on_record], trial.at):
            yield from said(text)
    for place in trial.tried:
        of = count(place.messages, "message")
        yield line(f"Would match {place.matched:,} of {of} of {place.place}.")
    if trial.takes_seconds is not None:
        late = (
            f"; {count(trial.expire, 'message')} would be too old by then" if trial.expire else ""
        )
        yield line(f"At its rate they take {duration(trial.takes_seconds)}{late}.")
    if trial.missed:
        yield Line()
        headings = (">MESSAGES", "FIELD OF THE PATTERN", "EXPECTED", "FOUND")
        rows = [(f"{each.messages:,}", each.path, each.expected, each.found)
                for each in trial.missed[:_MAX_MISSED]]  # fmt: skip
        yield TextTable(headings, rows)
        if (more := len(trial.missed) - _MAX_MISSED) > 0:
            yield line(f"and {count(more, 'more field')}: see --json")
    for note in trial.notes:
        yield line(Styled("Note: ", "alarm"), note)
    yield from not_searched(trial.not_searched, is_found=bool(trial.matching))


def _files(answer: RuleFiles) -> Iterator[Block]:
    """The mistakes in files, each on a line."""
    for mistake in answer.mistakes:
        rule = f": {mistake.rule_id}" if mistake.rule_id is not None else ""
        yield line(Styled(f"{mistake.file}{rule}", "strong"), f": {mistake.why}")
    summary = f"{count(answer.rules, 'rule')}, {count(len(answer.mistakes), 'mistake')}."
    yield line(Styled(summary, "alarm" if answer.mistakes else "good"))
    if answer.unchecked:
        yield line(f"Not checked without a cdk.json: {'; '.join(answer.unchecked)}.")


def _has_mistakes(answer: Tested) -> Exit:
    wrong = answer.files is not None and answer.files.mistakes
    return Exit.ATTENTION if wrong else Exit.DONE


add(typer_app, rules.LIST, _list)
add(typer_app, rules.ADD, _added, ask=_ending, says_plan=True)
add(typer_app, rules.DISABLE, _switched_off)
add(typer_app, rules.REMOVE, _removed)
add(typer_app, rules.UNDO, _undone)
add(typer_app, TEST, _tested, status=_has_mistakes)
add(typer_app, APPLY, _applied, status=_was_raced)
