"""`dlq rules list`: the rules of a pipeline in the order they are tried, and what they do now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.rule import Rule, RuleMode
from deadletter.rules.rulebook import RuleBook

from ..operations import deployed, item, rule_table
from ..operations.app import App, DeployedPipeline
from ..operations.rule_table import Stored
from . import rule_text
from .command import Session, SomePipelines
from .output import (
    Block,
    CommandResult,
    Line,
    Part,
    Reply,
    Styled,
    clock,
    count,
    duration,
    line,
    moment,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


@dataclass(frozen=True, slots=True)
class ListedRule:
    """One rule as it stands in the table, and what comes of it."""

    rule_id: Annotated[str, "id of the rule"]
    pipeline: Annotated[str, "the key it is stored under: a pipeline, or `*` for all"]
    status: Annotated[str, "VALID or INVALID; an INVALID rule matches nothing"]
    status_reason: Annotated[str | None, "why it is INVALID"]
    effect: Annotated[str, "enforced, shadow, disabled, expired, used up or refused"]
    action: Annotated[str | None, "what it does; null if it was refused"]
    about: Annotated[str | None, "which letters it is about, in words; null if it was refused"]
    pattern: Annotated[
        Mapping[str, Any] | None, "the same as an event pattern, shorthand columns included"
    ]
    priority: Annotated[int | None, "the lowest is tried first"]
    delay_seconds: Annotated[float | None, "delay of a DELAYED_REDRIVE"]
    queue: Annotated[str | None, "id of the dedicated DLQ of a DEDICATED_DLQ"]
    policy: Annotated[str | None, "the policy it puts in the place of the pipeline's own"]
    matches: Annotated[int, "letters of this pipeline that it has acted on so far"]
    max_matches: Annotated[int | None, "after so many it behaves as if it were disabled"]
    expires_at: Annotated[datetime | None, "when it ends; null if never"]
    reason: Annotated[str | None, "why somebody wanted it"]
    ticket: Annotated[str | None, "where that is discussed"]
    created_by: Annotated[str | None, "who wrote it"]


@dataclass(frozen=True, slots=True)
class PipelineRules:
    """The rules that hold for one pipeline."""

    name: Annotated[str, "name of the pipeline"]
    rules: Annotated[
        Sequence[ListedRule], "its rules and those of `*`: the refused, then in the order of trial"
    ]


@dataclass(frozen=True, slots=True)
class RuleList(CommandResult):
    """What `dlq rules list` answers."""

    at: Annotated[datetime, "when it was read"]
    pipelines: Annotated[Sequence[PipelineRules], "the pipelines, by name"]
    strays: Annotated[
        Sequence[str], "rules of pipelines that this app does not have, as `pipeline/rule_id`"
    ]


def list_(session: Session, pipeline: SomePipelines = None) -> Reply[RuleList]:
    """The rules in the order they are tried, and what each does.

    Each rule is judged as the pipeline's router judges it. INVALID means that it matches
    nothing, and says why. Matches are those that the redriver has counted.
    """
    app = session.app()
    chosen = app.some(pipeline or ())
    stored = rule_table.table(session.aws, app.rules_table).read()
    found = RuleList(
        session.aws.account,
        session.aws.region,
        session.app_name,
        session.now,
        tuple(PipelineRules(one.name, tuple(_of(session, app, one, stored))) for one in chosen),
        tuple(f"{one.pipeline}/{one.rule_id}" for one in strays(stored, app)),
    )
    return Reply(found, show)


def _of(
    session: Session, app: App, pipeline: DeployedPipeline, stored: Sequence[Stored]
) -> Sequence[ListedRule]:
    book = rule_table.book([one.columns for one in stored], deployed.terms(pipeline))
    matches = _matches(session.aws.dynamodb, app.letters_table, pipeline.name)
    return listed(stored, pipeline.name, book, matches, session.clock())


def strays(stored: Sequence[Stored], app: App) -> list[Stored]:
    """Rules whose pipeline the app does not have: a typing mistake that nobody would see."""
    known = {EVERY_PIPELINE, *(one.name for one in app.pipelines)}
    return [one for one in stored if one.pipeline not in known]


def listed(
    stored: Sequence[Stored],
    pipeline: str,
    book: RuleBook,
    matches: Mapping[str, int],
    now: float,
) -> list[ListedRule]:
    """The rules of one pipeline and of `*`: first those it refuses, then in order of trial."""
    whys: dict[str, list[str]] = {}
    for each in book.refused:
        whys.setdefault(each.rule_id, []).append(each.why)
    tried: list[tuple[tuple[int, bool, str], ListedRule]] = []
    refused: list[ListedRule] = []
    for one in stored:
        if one.pipeline not in (pipeline, EVERY_PIPELINE):
            continue
        rule = book.rules.get(one.rule_id)
        number = matches.get(one.rule_id, 0)
        if rule is not None and rule.pipeline == one.pipeline:
            tried.append((rule.order, _valid(one, rule, number, now)))
        else:
            refused.append(_refused(one, whys[one.rule_id].pop(0), number))
    return refused + [one for _, one in sorted(tried, key=lambda pair: pair[0])]


def _valid(stored: Stored, rule: Rule, matches: int, now: float) -> ListedRule:
    effect, why = _effect(rule, matches, now)
    return ListedRule(
        rule_id=rule.rule_id,
        pipeline=rule.pipeline,
        status="VALID" if why is None else "INVALID",
        status_reason=why,
        effect=effect,
        action=str(rule.action),
        about=rule_text.about(rule.pattern),
        pattern=rule.pattern,
        priority=rule.priority,
        delay_seconds=rule.delay_seconds,
        queue=rule.queue,
        policy=rule.policy,
        matches=matches,
        max_matches=rule.max_matches,
        expires_at=moment(rule.expires_at),
        **_notes(stored),
    )


def _effect(rule: Rule, matches: int, now: float) -> tuple[str, str | None]:
    """What a rule does now, and why it is INVALID if it is."""
    if not rule.enabled:
        return "disabled", None
    if rule.expires_at is not None and rule.expires_at <= now:
        return "expired", f"expired {duration(now - rule.expires_at)} ago"
    if rule.max_matches is not None and matches >= rule.max_matches:
        return "used up", None
    return ("shadow" if rule.mode is RuleMode.SHADOW else "enforced"), None


def _refused(stored: Stored, why: str, matches: int) -> ListedRule:
    return ListedRule(
        rule_id=stored.rule_id,
        pipeline=stored.pipeline,
        status="INVALID",
        status_reason=why,
        effect="refused",
        action=None,
        about=None,
        pattern=None,
        priority=None,
        delay_seconds=None,
        queue=None,
        policy=None,
        matches=matches,
        max_matches=None,
        expires_at=None,
        **_notes(stored),
    )


def _notes(stored: Stored) -> dict[str, Any]:
    found = {name: stored.columns.get(name) for name in rule_table.NOTES}
    return {name: None if value is None else str(value) for name, value in found.items()}


def _matches(dynamodb: DynamoDBClient, table: str, pipeline: str) -> Mapping[str, int]:
    """How often each rule has matched letters of this pipeline."""
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :counted",
        ExpressionAttributeValues={":counted": {"S": f"{pipeline}#matches"}},
        ConsistentRead=True,
    )
    found = (item.plain(one) for page in pages for one in page["Items"])
    return {one["sk"]: int(one.get("matches", 0)) for one in found}


_STYLES = {"enforced": "good", "refused": "alarm", "expired": "faint", "disabled": "faint"}


def show(found: RuleList) -> Iterator[Block]:
    """The rules as a person reads them: what is broken first."""
    yield line(
        Styled(f"Rules of {found.app}", "strong"), f" in account {found.account}, {found.region}"
    )
    if found.strays:
        yield Line()
        yield line(
            Styled(
                "INVALID: of pipelines that this app does not have; delete them in the table",
                "alarm",
            )
        )
        for stray in found.strays:
            yield line(Styled(stray, "strong"), indent=2)
    for pipeline in found.pipelines:
        yield Line()
        yield from _pipeline(pipeline, found.at)


def _pipeline(found: PipelineRules, now: datetime) -> Iterator[Block]:
    refused = [one for one in found.rules if one.effect == "refused"]
    tried = [one for one in found.rules if one.effect != "refused"]
    said = f"{count(len(tried), 'rule')}, in the order they are tried" if tried else "no rule"
    yield line(Styled(found.name, "strong"), f": {said}")
    for one in refused:
        yield line(
            Styled(one.rule_id, "strong"), f"{_where(one)}  ",
            Styled(f"INVALID: {one.status_reason}", "alarm"), indent=2,
        )  # fmt: skip
        yield from _why(one)
    for one in tried:
        yield line(
            Styled(one.rule_id, "strong"), f"{_where(one)}  {_deed(one)}  {one.about}", indent=2,
        )  # fmt: skip
        yield line(*_state(one, now), indent=4)
        yield from _why(one)


def _where(one: ListedRule) -> str:
    return " (all pipelines)" if one.pipeline == EVERY_PIPELINE else ""


def _deed(one: ListedRule) -> str:
    return rule_text.deed(one.action, one.queue, one.delay_seconds, one.policy)


def _state(one: ListedRule, now: datetime) -> Iterator[Part]:
    invalid = one.status == "INVALID"
    yield Styled(f"INVALID: {one.status_reason}" if invalid else one.effect,
                 _STYLES.get(one.effect, "alarm" if one.effect == "used up" else ""))  # fmt: skip
    of = f" of at most {one.max_matches:,}" if one.max_matches is not None else ""
    yield f", matched {count(one.matches, 'letter')}{of}"
    yield f", priority {one.priority}"
    if one.expires_at is not None and not invalid:
        left = duration((one.expires_at - now).total_seconds())
        yield f", expires {clock(one.expires_at, now)}, in {left}"


def _why(one: ListedRule) -> Iterator[Block]:
    said = [
        one.reason or "no reason given",
        one.ticket or "",
        f"by {one.created_by}" if one.created_by else "",
    ]
    yield line(Styled(", ".join(part for part in said if part), "faint"), indent=4)
