"""`dlq rules list`: the rules of a pipeline in the order they are tried, and what they do now."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime

from deadletter.contract import EVERY_PIPELINE

from ..operations import rule_text
from ..operations.rule_list import ListedRule, PipelineRules, RuleList, list_rules
from ..operations.session import Session
from ..operations.words import clock, count, duration
from .command import PipelineArguments, SomePipelines, some_pipelines
from .output import Block, Line, Part, Reply, Styled, line


def list_(
    session: Session, pipelines: PipelineArguments = None, pipeline: SomePipelines = None
) -> Reply[RuleList]:
    """The rules in the order they are tried, and what each does.

    Each rule is judged as the pipeline's router judges it. An INVALID rule matches nothing;
    the reason is shown. Matches are counted by the redriver.
    """
    return Reply(list_rules(session, some_pipelines(pipelines, pipeline)), show)


_STYLES = {"enforced": "good", "refused": "alarm", "expired": "faint", "disabled": "faint"}


def show(answer: RuleList) -> Iterator[Block]:
    """The rules for a person: invalid rules come first."""
    yield line(
        Styled(f"Rules of {answer.app}", "strong"), f" in account {answer.account}, {answer.region}"
    )
    if answer.strays:
        yield Line()
        yield line(
            Styled(
                "INVALID: of pipelines that this app does not have; delete them in the table",
                "alarm",
            )
        )
        for stray in answer.strays:
            yield line(Styled(stray, "strong"), indent=2)
    for pipeline in answer.pipelines:
        yield Line()
        yield from show_rules(pipeline, answer.at)


def show_rules(pipeline: PipelineRules, now: datetime) -> Iterator[Block]:
    """The rules of one pipeline for a person."""
    refused = [rule for rule in pipeline.rules if rule.effect == "refused"]
    tried = [rule for rule in pipeline.rules if rule.effect != "refused"]
    yield line(Styled(pipeline.name, "strong"), f": {_number(pipeline.rules)}")
    for rule in refused:
        yield line(
            Styled(rule.rule_id, "strong"), f"{_where(rule)}  ",
            Styled(f"INVALID: {rule.status_reason}", "alarm"), indent=2,
        )  # fmt: skip
        yield from _why(rule)
    for rule in tried:
        yield line(
            Styled(rule.rule_id, "strong"),
            f"{_where(rule)}  {_effect(rule)}  {rule.about}",
            indent=2,
        )  # fmt: skip
        yield line(*_state(rule, now), indent=4)
        if rule.status_reason:
            yield line(Styled(f"Note: {rule.status_reason}", "alarm"), indent=4)
        yield from _why(rule)


def _number(rules: Sequence[ListedRule]) -> str:
    """How many rules are listed, and of which effect."""
    if not rules:
        return "no rule"
    effects = Counter("INVALID" if rule.effect == "refused" else rule.effect for rule in rules)
    parts = ", ".join(f"{number} {effect}" for effect, number in sorted(effects.items()))
    return f"{count(len(rules), 'rule')} ({parts}), in the order they are tried"


def _where(rule: ListedRule) -> str:
    return " (all pipelines)" if rule.pipeline == EVERY_PIPELINE else ""


def _effect(rule: ListedRule) -> str:
    what = rule_text.effect(rule.action, rule.queue, rule.delay_seconds, rule.policy)
    return what if rule.rate is None else f"{what} {rule_text.at_rate(rule.rate)}"


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


def _why(rule: ListedRule) -> Iterator[Block]:
    notes = [
        rule.reason or "no reason given",
        rule.ticket or "",
        f"by {rule.created_by}" if rule.created_by else "",
    ]
    yield line(Styled(", ".join(note for note in notes if note), "faint"), indent=4)
