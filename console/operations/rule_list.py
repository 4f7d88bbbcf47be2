"""The rules of each pipeline in the order they are tried, and what each does now."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.failure.ledger import RuleCounts
from deadletter.rules.namesakes import namesake_note
from deadletter.rules.rule import Rule, RuleMode, notes_of
from deadletter.rules.rulebook import RuleBook
from deadletter.rules.ties import tie_notes
from deadletter.settings.pipeline import Pipeline

from . import deployed, rule_table, rule_text
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .rule_table import StoredRule
from .session import Session
from .words import moment


@dataclass(frozen=True, slots=True)
class ListedRule:
    """A rule as it is in the table, and its effect."""

    rule_id: Annotated[str, "id of the rule"]
    pipeline: Annotated[str, "the key it is stored under: a pipeline, or `*` for all"]
    status: Annotated[str, "VALID, or INVALID: it can't be understood and matches nothing"]
    status_reason: Annotated[str | None, "why it is INVALID, or what to know of a VALID one"]
    effect: Annotated[
        str,
        "enforced, shadow, disabled, expired, used up or refused",
    ]
    action: Annotated[str | None, "what it does; null if it was refused"]
    about: Annotated[str | None, "which letters it is about, in words; null if it was refused"]
    pattern: Annotated[
        Mapping[str, Any] | None, "the same as an event pattern, shorthand columns included"
    ]
    priority: Annotated[int | None, "the lowest is tried first"]
    delay_seconds: Annotated[float | None, "delay of a DELAYED_REDRIVE"]
    queue: Annotated[str | None, "id of the dedicated DLQ of a DEDICATED_DLQ"]
    policy: Annotated[str | None, "the policy it puts in the place of the pipeline's own"]
    rate: Annotated[float | None, "letters per second that a THROTTLE lets go"]
    version: Annotated[str | None, "of what it does and to which letters; counts belong to it"]
    matches: Annotated[int, "letters of this pipeline that this version has acted on"]
    last_matched: Annotated[datetime | None, "when it last acted on one"]
    shadow_matches: Annotated[int, "letters that this version would have acted on as a shadow"]
    last_shadow: Annotated[datetime | None, "when it last would have"]
    max_matches: Annotated[int | None, "after so many it behaves as if it were disabled"]
    expires_at: Annotated[datetime | None, "when it ends; null if never"]
    reason: Annotated[str | None, "why it exists"]
    ticket: Annotated[str | None, "where that is discussed"]
    created_by: Annotated[str | None, "who wrote it"]


@dataclass(frozen=True, slots=True)
class PipelineRules:
    """The rules that apply to a pipeline."""

    name: Annotated[str, "name of the pipeline"]
    rules: Annotated[
        Sequence[ListedRule], "its rules and those of `*`: the refused, then in the order of trial"
    ]


@dataclass(frozen=True, slots=True)
class RuleList(Answer):
    """What `dlq rules list` answers."""

    at: Annotated[datetime, "when it was read"]
    pipelines: Annotated[Sequence[PipelineRules], "the pipelines, by name"]
    strays: Annotated[
        Sequence[str], "rules of pipelines that this app does not have, as `pipeline/rule_id`"
    ]


def list_rules(session: Session, pipelines: Sequence[str]) -> RuleList:
    """The rules of these pipelines, or of all, judged as the pipelines' routers judge them."""
    app = session.app()
    chosen = app.select(pipelines)
    stored = rule_table.table(session.aws, app.rules_table).read()
    return RuleList(
        **session.place,
        at=session.now,
        pipelines=tuple(
            PipelineRules(pipeline.name, tuple(_rules_of(session, app, pipeline, stored)))
            for pipeline in chosen
        ),
        strays=tuple(f"{rule.pipeline}/{rule.rule_id}" for rule in _strays(stored, app)),
    )


def _rules_of(
    session: Session, app: App, pipeline: DeployedPipeline, stored: Sequence[StoredRule]
) -> Sequence[ListedRule]:
    terms = deployed.terms(pipeline)
    book = rule_table.book([rule.columns for rule in stored], terms)
    counts = _counts(session, app.letters_table, pipeline.name)
    return listed(stored, terms, book, counts, session.clock())


def _counts(session: Session, table: str, pipeline: str) -> Mapping[str, RuleCounts]:
    from deadletter.aws.ledger import DynamoDBLedger

    ledger = DynamoDBLedger(session.aws.dynamodb, table, pipeline, session.clock, keep_seconds=0)
    with aws_errors():
        return ledger.all_counts()


def _strays(stored: Sequence[StoredRule], app: App) -> list[StoredRule]:
    """Rules of pipelines that the app does not have, for example mistyped names."""
    known = {EVERY_PIPELINE, *(pipeline.name for pipeline in app.pipelines)}
    return [rule for rule in stored if rule.pipeline not in known]


def listed(
    stored: Sequence[StoredRule],
    terms: Pipeline,
    book: RuleBook,
    counts: Mapping[str, RuleCounts],
    now: float,
) -> list[ListedRule]:
    """The rules of a pipeline and of `*`: first the refused, then in order of trial.

    `counts` are those of each version of a rule, by `rule_counts_key`.
    """
    reasons: dict[str, list[str]] = {}
    for refusal in book.refused:
        reasons.setdefault(refusal.rule_id, []).append(refusal.why)
    by_id: dict[str, dict[str, Mapping[str, Any]]] = {}
    for row in stored:
        by_id.setdefault(row.rule_id, {})[row.pipeline] = row.columns
    ties = tie_notes([*book.rules.values()])
    tried: list[tuple[tuple[int, bool, str], ListedRule]] = []
    refused: list[ListedRule] = []
    valid = {(rule.pipeline, rule.rule_id): rule for rule in book.switched_off}
    valid |= {(rule.pipeline, rule.rule_id): rule for rule in book.rules.values()}
    for row in stored:
        if row.pipeline not in (terms.name, EVERY_PIPELINE):
            continue
        rule = valid.get((row.pipeline, row.rule_id))
        if rule is not None:
            known = counts.get(rule.counts_key, RuleCounts())
            notes = [
                *_of_namesake(row, by_id[row.rule_id], terms),
                *notes_of(rule, row.columns, terms, now),
                *([ties[rule.rule_id]] if rule.rule_id in ties and rule.enabled else []),
            ]
            tried.append((rule.order, _valid(row, rule, known, now, notes)))
        else:
            refused.append(_refused(row, reasons[row.rule_id].pop(0)))
    return refused + [rule for _, rule in sorted(tried, key=lambda pair: pair[0])]


def _of_namesake(
    row: StoredRule, namesakes: Mapping[str, Mapping[str, Any]], terms: Pipeline
) -> Iterator[str]:
    """What to know of the other rule of this pipeline or of `*` that has its id, if any."""
    note = namesake_note(row.pipeline, row.columns, namesakes, {terms.name: terms})
    if note is not None:
        yield note


def _valid(
    stored: StoredRule, rule: Rule, counts: RuleCounts, now: float, notes: Sequence[str]
) -> ListedRule:
    return ListedRule(
        rule_id=rule.rule_id,
        pipeline=rule.pipeline,
        status="VALID",
        status_reason="; ".join(notes) or None,
        effect=_effect(rule, counts.matched, now),
        action=str(rule.action),
        about=rule_text.about(rule.pattern),
        pattern=rule.pattern,
        priority=rule.priority,
        delay_seconds=rule.delay_seconds,
        queue=rule.queue,
        policy=rule.policy,
        rate=rule.rate,
        version=rule.version,
        matches=counts.matched,
        last_matched=moment(counts.last_matched),
        shadow_matches=counts.shadow_matched,
        last_shadow=moment(counts.last_shadow),
        max_matches=rule.max_matches,
        expires_at=moment(rule.expires_at),
        **_notes(stored),
    )


def _effect(rule: Rule, matches: int, now: float) -> str:
    """What a rule does now."""
    idle = rule.idle(now)
    if idle is not None:
        return idle
    if rule.max_matches is not None and matches >= rule.max_matches:
        return "used up"
    return "shadow" if rule.mode is RuleMode.SHADOW else "enforced"


_OF_VALID_RULES = (
    *("action", "about", "pattern", "priority", "delay_seconds", "queue", "policy", "rate"),
    *("version", "last_matched", "last_shadow", "max_matches", "expires_at"),
)


def _refused(stored: StoredRule, why: str) -> ListedRule:
    unknown: dict[str, Any] = dict.fromkeys(_OF_VALID_RULES)
    return ListedRule(
        rule_id=stored.rule_id,
        pipeline=stored.pipeline,
        status="INVALID",
        status_reason=why,
        effect="refused",
        matches=0,
        shadow_matches=0,
        **unknown,
        **_notes(stored),
    )


def _notes(stored: StoredRule) -> dict[str, Any]:
    notes = {name: stored.columns.get(name) for name in rule_table.NOTES}
    return {name: None if value is None else str(value) for name, value in notes.items()}
