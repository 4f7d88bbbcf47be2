"""Routing rules: listed with their effect, added, switched off, removed, and changes taken back."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.failure.ledger import RuleCounts
from deadletter.rules.namesakes import namesake_note
from deadletter.rules.pattern import compile_pattern
from deadletter.rules.rule import COLUMNS, VERDICT, Action, Rule, RuleMode, notes_of, read_rule
from deadletter.rules.rulebook import RuleBook
from deadletter.rules.ties import tie_note, tie_notes, tied
from deadletter.settings.pipeline import Pipeline as Settings

from . import deployed, rule_table
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .audit_lines import AuditLine
from .audit_trail import history
from .duration import ending, seconds
from .problem import Cause, Problem
from .reason import MAX_REASON
from .rule_on_ledger import RuleMatches, matches_in
from .rule_table import RuleTableChange, StoredRule, canonical, column_changes
from .selection import (
    CONTEXT,
    Choice,
    NamedPipelines,
    Operator,
    RuleTerms,
    Term,
    compiled,
    for_rules,
    past,
    path_of,
)
from .selection import Pipeline as OfPipeline
from .session import Session
from .verbs import Asked, Verb
from .words import clock, count, duration, moment

RuleId = Annotated[str, Asked("Its id, in metrics and with parked messages.", metavar="RULE_ID")]

# The list.


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRule:
    """A rule as it is in the table, and its effect."""

    rule_id: Annotated[str, "id of the rule"]
    pipeline: Annotated[str, "the key it is stored under: a pipeline, or `*` for all"]
    status: Annotated[str, "VALID, or INVALID: it can't be understood and matches nothing"]
    status_reason: Annotated[str | None, "why it is INVALID, or what to know of a VALID one"]
    effect: Annotated[str, "enforced, shadow, disabled, expired, used up or refused"]
    action: Annotated[str | None, "what it does; null if it was refused"] = None
    about: Annotated[str | None, "which messages, in words; null if it was refused"] = None
    pattern: Annotated[
        Mapping[str, Any] | None, "the same as an event pattern, shorthand columns included"
    ] = None
    priority: Annotated[int | None, "the lowest is tried first"] = None
    delay_seconds: Annotated[float | None, "delay of a DELAYED_REDRIVE"] = None
    queue: Annotated[str | None, "id of the dedicated DLQ of a DEDICATED_DLQ"] = None
    policy: Annotated[str | None, "the policy it puts in the place of the pipeline's own"] = None
    rate: Annotated[float | None, "messages per second that a THROTTLE lets go"] = None
    version: Annotated[str | None, "of what it does to which messages; counts belong to it"] = None
    matches: Annotated[int, "messages of this pipeline that this version has acted on"] = 0
    last_matched: Annotated[datetime | None, "when it last acted on one"] = None
    shadow_matches: Annotated[int, "messages that this version would have acted on as a shadow"] = 0
    last_shadow: Annotated[datetime | None, "when it last would have"] = None
    max_matches: Annotated[int | None, "after so many it behaves as if it were disabled"] = None
    expires_at: Annotated[datetime | None, "when it ends; null if never"] = None
    reason: Annotated[str | None, "why it exists"] = None
    ticket: Annotated[str | None, "where that is discussed"] = None
    created_by: Annotated[str | None, "who wrote it"] = None


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
    file: Annotated[
        Sequence[Mapping[str, Any]] | None,
        "with --yaml: their columns, by pipeline and id, as `apply` takes them; else null",
    ] = None


@dataclass(frozen=True, kw_only=True)
class RulesRequest:
    """Whose rules to list, and how."""

    pipelines: NamedPipelines = ()
    yaml: Annotated[
        bool, Asked("As a file for version control, which rules apply takes.", ("--yaml",))
    ] = False


def list_rules(session: Session, request: RulesRequest) -> RuleList:
    """The rules of these pipelines, or of all, as the pipelines' routers read them."""
    app = session.app()
    names = request.pipelines
    chosen = app.select(names)
    stored = rule_table.table(session.aws, app.rules_table).read()
    known = {EVERY_PIPELINE, *(pipeline.name for pipeline in app.pipelines)}
    asked = {EVERY_PIPELINE, *names} if names else {row.pipeline for row in stored}
    return RuleList(
        **session.place,
        at=session.now,
        pipelines=tuple(
            PipelineRules(each.name, tuple(_rules_of(session, app, each, stored)))
            for each in chosen
        ),
        # Mistyped names, for example.
        strays=tuple(
            f"{row.pipeline}/{row.rule_id}" for row in stored if row.pipeline not in known
        ),
        file=tuple(canonical(row.columns) for row in stored if row.pipeline in asked)
        if request.yaml
        else None,
    )


def _rules_of(
    session: Session, app: App, pipeline: DeployedPipeline, stored: Sequence[StoredRule]
) -> Sequence[ListedRule]:
    from deadletter.aws.ledger import DynamoDBLedger

    terms = deployed.terms(pipeline)
    book = rule_table.book([row.columns for row in stored], terms)
    client, table = session.aws.dynamodb, app.letters_table
    ledger = DynamoDBLedger(client, table, pipeline.name, session.clock, keep_seconds=0)
    with aws_errors():
        counts = ledger.all_counts()
    return _listed(stored, terms, book, counts, session.clock())


def _listed(
    stored: Sequence[StoredRule],
    terms: Settings,
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
    valid = {
        (rule.pipeline, rule.rule_id): rule for rule in (*book.switched_off, *book.rules.values())
    }
    tried: list[tuple[tuple[int, bool, str], ListedRule]] = []
    refused: list[ListedRule] = []
    for row in stored:
        if row.pipeline not in (terms.name, EVERY_PIPELINE):
            continue
        rule = valid.get((row.pipeline, row.rule_id))
        if rule is not None:
            known = counts.get(rule.counts_key, RuleCounts())
            namesakes, of_pipeline = by_id[row.rule_id], {terms.name: terms}
            notes = [
                namesake_note(row.pipeline, row.columns, namesakes, of_pipeline),
                *notes_of(rule, row.columns, terms, now),
                ties.get(rule.rule_id) if rule.enabled else None,
            ]
            tried.append((rule.order, _valid(row, rule, known, now, [*filter(None, notes)])))
        else:
            why = reasons[row.rule_id].pop(0)
            refused.append(_row(row, status="INVALID", status_reason=why, effect="refused"))
    return refused + [rule for _, rule in sorted(tried, key=lambda pair: pair[0])]


_OF_RULE = (
    *("pattern", "priority", "delay_seconds", "queue", "policy", "rate", "version"),
    "max_matches",
)


def _row(stored: StoredRule, **known: Any) -> ListedRule:
    """A rule of the table, with what is known of it."""
    notes = {name: stored.columns.get(name) for name in rule_table.NOTES}
    known |= {name: str(value) for name, value in notes.items() if value is not None}
    return ListedRule(rule_id=stored.rule_id, pipeline=stored.pipeline, **known)


def _valid(
    stored: StoredRule, rule: Rule, counts: RuleCounts, now: float, notes: Sequence[str]
) -> ListedRule:
    return _row(
        stored,
        status="VALID",
        status_reason="; ".join(notes) or None,
        effect=_effect(rule, counts.matched, now),
        action=str(rule.action),
        about=about(rule.pattern),
        matches=counts.matched,
        last_matched=moment(counts.last_matched),
        shadow_matches=counts.shadow_matched,
        last_shadow=moment(counts.last_shadow),
        expires_at=moment(rule.expires_at),
        **{name: getattr(rule, name) for name in _OF_RULE},
    )


def _effect(rule: Rule, matches: int, now: float) -> str:
    """What a rule does now."""
    idle = rule.idle(now)
    if idle is not None:
        return idle
    if rule.max_matches is not None and matches >= rule.max_matches:
        return "used up"
    return "shadow" if rule.mode is RuleMode.SHADOW else "enforced"


# In words.

_MAX_ALTERNATIVES = 3  # of a `$or` that are spelled out


def about(pattern: Mapping[str, Any]) -> str:
    """Which messages a valid pattern is about: `tenantId "acme" and body.amount > 100`."""
    alternatives = compile_pattern(pattern).alternatives
    texts = [
        " and ".join(
            f"{field.name.removeprefix('context.')} {field.comparison.words}" for field in each
        )
        for each in alternatives[:_MAX_ALTERNATIVES]
    ]
    if (more := len(alternatives) - _MAX_ALTERNATIVES) > 0:
        texts.append(f"{more} more combinations" if more > 1 else "1 more combination")
    return ", or ".join(texts)


def action_of(rule: ListedRule | Rule) -> str:
    """What a rule does: `DEDICATED_DLQ to bulk`, `THROTTLE to 5 messages a second`."""
    parts = [
        rule.action or "",
        f"to {rule.queue}" if rule.queue is not None else "",
        f"by {duration(rule.delay_seconds)}" if rule.delay_seconds is not None else "",
        f"with policy {rule.policy}" if rule.policy is not None else "",
        f"to {rule.rate:g} messages a second" if rule.rate is not None else "",
    ]
    return " ".join(filter(None, parts))


def everywhere(key: str) -> str:
    """The pipelines of a rule with this key, in words."""
    return "every pipeline" if key == EVERY_PIPELINE else key


# One rule, and where it is.


@dataclass(frozen=True, slots=True)
class RuleRevision(Answer):
    """What `dlq rules disable`, `undo` and `remove` answer."""

    at: Annotated[datetime, "when it was written"]
    pipeline: Annotated[str, "the key it is stored under: a pipeline, or `*` for all"]
    rule_id: Annotated[str, "id of the rule"]
    rule: Annotated[Mapping[str, Any], "its columns as they are now; empty if it is gone"]
    before: Annotated[Mapping[str, Any] | None, "its columns as they were; null if it is new"]


class RuleScope:
    """A rule id, the key that it is stored under, and the pipelines in which it counts.

    Of a rule that is there, or was (`had` are the keys under which), its id says the key if one
    alone has it.
    """

    def __init__(
        self, session: Session, pipeline: str | None, rule_id: str, had: Sequence[str] | None
    ) -> None:
        self.session, self.rule_id = session, rule_id
        self.app = session.app()
        self.table = rule_table.table(session.aws, self.app.rules_table)
        if pipeline is None and had is not None:
            pipeline = self._key(had)
        self.key, self.pipelines = deployed.scope(self.app, pipeline)

    def _key(self, had: Sequence[str]) -> str | None:
        known = [EVERY_PIPELINE, *(each.name for each in self.app.pipelines)]
        have = {rule.pipeline for rule in self.table.of_id(self.rule_id, known)}
        keys = sorted(have | ({*had} & {*known}))
        if len(keys) > 1:
            also = "" if len(have) == len(keys) else ", or had it"
            options = " or ".join(f"-p '{key}'" for key in keys)
            raise Problem(
                f"Rules of {' and of '.join(map(everywhere, keys))} have the id {self.rule_id!r}"
                f"{also}: add {options}.",
                Cause.INPUT,
            )
        if not keys and len(self.app.pipelines) > 1:
            raise Problem(f"There is no rule {self.rule_id!r}: see\ndlq rules list", Cause.ABSENT)
        return keys[0] if keys else None

    @property
    def name(self) -> str:
        """The rule, in words."""
        return f"rule {self.rule_id} of {everywhere(self.key)}"

    @property
    def terms(self) -> Sequence[Settings]:
        """What each of the pipelines allows in a rule."""
        return [deployed.terms(pipeline) for pipeline in self.pipelines]

    def of_id(self) -> Sequence[StoredRule]:
        """The rules with this id that count in one of the pipelines. Reads no other rule."""
        names = [pipeline.name for pipeline in self.pipelines]
        return self.table.of_id(self.rule_id, [self.key, EVERY_PIPELINE, *names])

    def among(self, stored: Sequence[StoredRule]) -> StoredRule | None:
        """The rule itself, if it is there."""
        name = (self.key, self.rule_id)
        return next((row for row in stored if (row.pipeline, row.rule_id) == name), None)

    def find(self) -> StoredRule:
        """The rule; Problem if it is missing, which names the pipeline that has one."""
        stored = self.of_id()
        if (rule := self.among(stored)) is not None:
            return rule
        elsewhere = [row.pipeline for row in stored]
        if elsewhere:
            raise Problem(
                f"There is no {self.name}, but there is a rule of "
                f"{' and of '.join(map(everywhere, elsewhere))}: add -p '{elsewhere[0]}'.",
                Cause.ABSENT,
            )
        raise Problem(f"There is no {self.name}: see\ndlq rules list", Cause.ABSENT)

    def check(
        self, stored: Sequence[StoredRule], columns: Mapping[str, Any], *, is_back: bool = False
    ) -> None:
        """Problem if the rule with these columns, or another with it, is INVALID in a pipeline.

        One that comes back as it was (`is_back`) may end the other rule of its id, as it did.
        """
        before = self.among(stored)
        others = [row.columns for row in stored if row is not before]
        if not self.pipelines:
            raise Problem("The app has no pipeline yet: deploy one.", Cause.ABSENT)
        for terms in self.terms:
            for refused in rule_table.newly_refused(others, [*others, columns], terms):
                if not (is_back and refused.is_namesake):
                    raise Problem(
                        f"Nothing was written: rule {refused.rule_id} would be INVALID in "
                        f"{terms.name}: {refused.why}.",
                        Cause.FAILED,
                    )

    def change(
        self,
        command: str,
        why: str,
        before: StoredRule | None,
        after: Mapping[str, Any] | None,
        write: Callable[[], None],
    ) -> RuleRevision:
        """Makes a change, recorded; Problem if the rule has changed meanwhile."""
        was, becomes = (
            canonical(columns) if columns else None
            for columns in (before.columns if before else None, after)
        )
        target = rule_table.target(self.rule_id)
        change = IntendedChange(f"rules {command}", self.key, target, why, was, becomes)
        with recorded(self.session, self.app, change):
            try:
                write()
            except RuleTableChange as error:
                raise Problem(
                    f"Rule {self.rule_id} has just been changed by another person: nothing was "
                    "written. Look again.",
                    Cause.FAILED,
                ) from error
        return RuleRevision(
            **self.session.place,
            at=self.session.now,
            pipeline=self.key,
            rule_id=self.rule_id,
            rule=becomes or {},
            before=was,
        )


# A rule is added.


@dataclass(frozen=True, kw_only=True)
class RuleAddRequest:
    """A rule: what it does, and to which messages."""

    rule: RuleId
    pipeline: OfPipeline = None
    action: Annotated[
        str,
        Asked("QUARANTINE, HOLD, DELAYED_REDRIVE=2h, THROTTLE=5 (messages a second),"
              " DEDICATED_DLQ=ID or DEFAULT; in any case.",
              ("--action",), "ACTION"),
    ]  # fmt: skip
    terms: RuleTerms = ()
    everything: Annotated[
        bool, Asked("It is meant for every message, or for nearly every one.", ("--all",))
    ] = False
    policy: Annotated[
        str | None, Asked("Attempts and backoff by this policy instead.", ("--policy",), "NAME")
    ] = None
    priority: Annotated[
        int | None, Asked("The lowest is tried first; 100 if not given.", ("--priority",), "N")
    ] = None
    shadow: Annotated[bool, Asked("Only count what it would have done.", ("--shadow",))] = False
    expires: Annotated[
        str | None,
        Asked("After 24h or 7d; at an ISO 8601 time; or never. Asked for if not given.",
              ("--expires",), "WHEN"),
    ] = None  # fmt: skip
    max_matches: Annotated[
        int | None,
        Asked("Stop acting after so many messages, or up to 99 more.", ("--max-matches",), "N"),
    ] = None
    replace: Annotated[bool, Asked("Replace the rule with this id.", ("--replace",))] = False


@dataclass(frozen=True, slots=True)
class AddedRule(RuleRevision):
    """What `dlq rules add` answers."""

    matches: Annotated[
        Sequence[RuleMatches], "what it matches by the failure records, for each pipeline"
    ]
    notes: Annotated[Sequence[str], "what to know of it, as its row says too"]


@dataclass(frozen=True, slots=True)
class PlannedRule:
    """A valid rule that is not written yet, and the rule that it replaces, if any.

    `notes` are what to know of it, a sentence each, and `has_end` says whether a person has said
    when it ends, if only that it never does.
    """

    scope: RuleScope
    columns: Mapping[str, Any]
    rule: Rule
    before: StoredRule | None
    notes: Sequence[str]
    matches: Sequence[RuleMatches]
    now: datetime
    has_end: bool

    def ending(self, at: datetime | None) -> PlannedRule:
        """The same rule with an end, or None for never."""
        if at is None:
            return replace(self, has_end=True)
        text = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        rule = replace(self.rule, expires_at=datetime.fromisoformat(text).timestamp())
        return replace(self, columns={**self.columns, "expires_at": text}, rule=rule, has_end=True)


def _planned(session: Session, request: RuleAddRequest) -> PlannedRule:
    scope = RuleScope(session, request.pipeline, request.rule, None)
    given = {
        "pipeline": scope.key,
        "rule_id": request.rule,
        **_action(request.action),
        **_matching(request, scope.key, session.now),
        "policy": request.policy,
        "priority": request.priority,
        "mode": str(RuleMode.SHADOW) if request.shadow else None,
        "max_matches": request.max_matches,
        "breadth": "all" if request.everything else None,
        "created_by": session.aws.caller,
    }
    columns = {name: value for name, value in given.items() if value is not None}
    stored = scope.table.read()
    before = scope.among(stored)
    if before is not None and not request.replace:
        raise Problem(
            f"There is a rule {request.rule!r} for {everywhere(scope.key)} already: add --replace, "
            "or choose another id.",
            Cause.FAILED,
        )
    scope.check(stored, columns)
    terms = scope.terms[0]
    rule = read_rule(columns, terms)
    others = rule_table.book([row.columns for row in stored if row is not before], terms)
    tie = tie_note(rule, tied(rule, others.rules.values()))
    notes = [*notes_of(rule, columns, terms, session.clock()), *([tie] if tie else [])]
    matches = matches_in(session, scope.app, scope.pipelines, rule.pattern)
    plan = PlannedRule(scope, columns, rule, before, notes, matches, session.now, has_end=False)
    if request.expires is None:
        return plan
    return plan.ending(ending(request.expires.strip(), session.now, "the rule", never=True))


_TAKES = {
    Action.DELAYED_REDRIVE: ("delay_seconds", "2h"),
    Action.THROTTLE: ("rate", "5"),
    Action.DEDICATED_DLQ: ("queue", "ID"),
}
"""The column of what an action takes, and how it is typed."""


def _action(typed: str) -> Mapping[str, Any]:
    """The columns of an action, as in `THROTTLE=5`. One that is unknown is the rules' to refuse."""
    name, _, value = (part.strip() for part in typed.partition("="))
    action = name.upper()
    if action not in set(Action):
        return {"action": action}
    takes = _TAKES.get(Action(action))
    if takes is None:
        if value:
            raise Problem(f"{action} takes no value: write --action {action}.", Cause.INPUT)
        return {"action": action}
    column, example = takes
    if not value:
        raise Problem(f"{action} needs a value: --action {action}={example}", Cause.INPUT)
    if column == "delay_seconds":
        return {"action": action, column: seconds(value)}
    return {"action": action, column: int(value) if value.isdecimal() else value}


def _matching(request: RuleAddRequest, key: str, now: datetime) -> Mapping[str, Any]:
    """The columns that say which messages the rule matches, as columns_of."""
    if request.everything and not request.terms:
        only = [{"exists": True}] if key == EVERY_PIPELINE else [key]
        return {"pattern": json.dumps({"pipeline": only})}
    if not request.terms:
        raise Problem("Say which messages it matches: -f KEY=VALUE, or --all.", Cause.INPUT)
    return columns_of(request.terms, now)


def columns_of(typed: Sequence[str], now: datetime) -> dict[str, Any]:
    """The columns of a rule that say which messages it matches.

    One value of a field is shorthand, as a person types it into the table; the rest is a pattern.
    """
    terms = for_rules(typed)
    # Two conditions that exclude each other are refused, whichever columns they become.
    compiled(Choice(terms=terms), now)
    short = {path_of(term)[1]: term.values[0] for term in terms if _is_shorthand(term)}
    rest = tuple(term for term in terms if not _is_shorthand(term))
    selection, _ = compiled(Choice(terms=rest), now)
    pattern = {"pattern": json.dumps(selection.pattern, ensure_ascii=False)} if rest else {}
    return {**short, **pattern}


def _is_shorthand(term: Term) -> bool:
    """Whether a column with the name of the field says the same."""
    path = path_of(term)
    plain = term.operator is Operator.EQUAL and len(term.values) == 1
    # In a column these are texts, and in a term they are literals of JSON too.
    literal = term.values[0] in ("true", "false", "null")
    is_field = len(path) == 2 and path[0] == CONTEXT and path[1] not in COLUMNS | VERDICT
    return plain and is_field and not literal


def _add_question(plan: PlannedRule) -> Iterator[str]:
    verb = "Replace" if plan.before else "Add"
    what = f"{action_of(plan.rule)} for messages with {about(plan.rule.pattern)}"
    yield f"{verb} {plan.scope.name}: {what}, {_until(plan.rule, plan.now)}."
    if plan.before is not None:
        # The new reason is not known yet.
        old = {**plan.before.columns, "reason": ""}
        for change in column_changes(canonical(old), canonical({**plan.columns, "reason": ""})):
            yield f"  {change}"
    yield from (f"Note: {note}" for note in plan.notes)
    yield from matches_of(plan.matches, plan.now)


def _until(rule: Rule, now: datetime) -> str:
    text = "only counting (shadow)" if rule.mode is RuleMode.SHADOW else "enforced"
    if rule.max_matches is not None:
        # A chunk of up to 100 is counted in one step while the count is below the limit.
        text += f", for {count(rule.max_matches, 'message')} (up to 99 more if runs overlap)"
    if rule.expires_at is None:
        return f"{text}, without an end"
    end = datetime.fromtimestamp(rule.expires_at, UTC)
    return f"{text}, until {clock(end, now)} (in {duration((end - now).total_seconds())})"


# Pipelines of which each is told; of more, only those with something to say are.
_MOST_PIPELINES = 5


def matches_of(matches: Sequence[RuleMatches], now: datetime) -> Iterator[str]:
    """What a rule matches in each pipeline, by the failure records."""
    if len(matches) == 1:
        yield from matches[0].says(now)
    else:
        told = [each for each in matches if each.matched or each.problem][:_MOST_PIPELINES]
        for each in told:
            yield from each.says(now, f"in {each.pipeline}")
        rest = [each for each in matches if each not in told]
        of = f"{sum(each.matched for each in rest):,} of {sum(each.here for each in rest):,}"
        yield f"In {count(len(rest), 'other pipeline')}: {of}. --json has each."
    if any(each.problem is None and (each.untold or not each.here) for each in matches):
        yield "This tries it on messages too, and SQS counts a receive of each:"
        yield "dlq rules test RULE_ID --look"


def _add(_: Session, plan: PlannedRule, reason: str) -> AddedRule:
    columns = {**plan.columns, "reason": reason}
    put = partial(plan.scope.table.put, columns, plan.before)
    revision = plan.scope.change("add", reason, plan.before, columns, put)
    known = {field.name: getattr(revision, field.name) for field in fields(revision)}
    return AddedRule(**known, matches=tuple(plan.matches), notes=tuple(plan.notes))


# A rule is switched off, goes, or is as it was.


@dataclass(frozen=True, kw_only=True)
class RuleRequest:
    """Which rule is meant."""

    rule: RuleId
    pipeline: OfPipeline = None


@dataclass(frozen=True, kw_only=True)
class UndoRequest:
    """Which rule is meant, and as of when."""

    rule: RuleId
    pipeline: OfPipeline = None
    to: Annotated[
        str | None,
        Asked("As it was then: 2h or 1d ago, or at an ISO 8601 time.", ("--to",), "WHEN"),
    ] = None


@dataclass(frozen=True, slots=True)
class PlannedChange:
    """A rule that is about to change, as it is, and as it shall be; None if it does not exist.

    `undone` is the change that is taken back.
    """

    scope: RuleScope
    now: StoredRule | None
    then: Mapping[str, Any] | None = None
    undone: AuditLine | None = None


def _found(session: Session, request: RuleRequest) -> PlannedChange:
    scope = RuleScope(session, request.pipeline, request.rule, ())
    return PlannedChange(scope, scope.find())


def _enabled(session: Session, request: RuleRequest) -> PlannedChange:
    plan = _found(session, request)
    if plan.now is not None and plan.now.columns.get("enabled") in (False, "false"):
        raise Problem(
            f"Rule {request.rule} is disabled already: nothing to do. dlq rules undo takes that "
            "back.",
            Cause.FAILED,
        )
    return plan


def _disable_question(plan: PlannedChange) -> Iterator[str]:
    yield f"Disable {plan.scope.name}."


def _disable(session: Session, plan: PlannedChange, reason: str) -> RuleRevision:
    assert plan.now is not None
    before = plan.now.columns.get("reason") or "no reason given"
    # The table has no other column for who switched a rule off, and why.
    why = f"{reason} (disabled by {session.aws.caller}; before: {before})"
    why = why if len(why) <= MAX_REASON else f"{why[: MAX_REASON - 1]}…"
    after = {**plan.now.columns, "enabled": False, "reason": why}
    write = partial(plan.scope.table.disable, plan.now, why)
    return plan.scope.change("disable", reason, plan.now, after, write)


def _remove_question(plan: PlannedChange) -> Iterator[str]:
    yield f"Remove {plan.scope.name}."


def _remove(_: Session, plan: PlannedChange, reason: str) -> RuleRevision:
    assert plan.now is not None
    write = partial(plan.scope.table.remove, plan.now)
    return plan.scope.change("remove", reason, plan.now, None, write)


def _undoable(session: Session, request: UndoRequest) -> PlannedChange:
    """The rule as it was before its last change, or at a time.

    Raises Problem if there is no such change on record, if the record does not lead to the rule as
    it is, or if the rule would be INVALID again.
    """
    every = history(session, rule_table.target(request.rule))
    done = [line for line in every if line.outcome != "failed"]
    scope = RuleScope(session, request.pipeline, request.rule, [line.pipeline for line in done])
    same_id = scope.of_id()
    now = scope.among(same_id)
    changes = [line for line in done if line.pipeline == scope.key]
    if not changes:
        raise Problem(f"No change of {scope.name} is on record: see\ndlq audit", Cause.ABSENT)
    is_now = None if now is None else canonical(now.columns)
    if _image(changes[0].after) != is_now:
        raise Problem(
            f"Rule {request.rule} is not as its last change on record has left it: changes made "
            f"by other means are on record seconds later. Look again:\n"
            f"dlq show rule:{request.rule}",
            Cause.FAILED,
        )
    if request.to is None:
        then, undone = _image(changes[0].before), changes[0]
    else:
        at = datetime.fromtimestamp(past(request.to, session.now), UTC)
        then, undone = _at(changes, at, session), None
    if then == is_now:
        raise Problem(f"Rule {request.rule} is as it was then: nothing to do.", Cause.FAILED)
    if then is not None:
        scope.check(same_id, then, is_back=True)
    return PlannedChange(scope, now, then, undone)


def _image(columns: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if columns is None else canonical(columns)


def _at(changes: Sequence[AuditLine], to: datetime, session: Session) -> Mapping[str, Any] | None:
    """The rule at a time, from its changes, the newest first."""
    # A person types whole seconds.
    earlier = [change for change in changes if change.at.replace(microsecond=0) <= to]
    if earlier:
        return _image(earlier[0].after)
    if changes[-1].before is None:
        return None
    raise Problem(
        f"Changes before {clock(changes[-1].at, session.now)} are not on record.", Cause.ABSENT
    )


def _undo_question(plan: PlannedChange) -> Iterator[str]:
    if (undone := plan.undone) is not None:
        who = "outside dlq" if undone.who is None else f"by {undone.who.rpartition(':')[2]}"
        why = f": {undone.why}" if undone.why else ""
        at = clock(undone.at, plan.scope.session.now)
        yield f"Take back {undone.command} of {at}, {who}{why}."
    if plan.then is None:
        yield f"Remove {plan.scope.name}, which was not there before."
    elif plan.now is None:
        yield f"Bring {plan.scope.name} back."
    else:
        yield f"Change {plan.scope.name} back:"
        for change in column_changes(canonical(plan.now.columns), plan.then):
            yield f"  {change}"


def _undo(_: Session, plan: PlannedChange, reason: str) -> RuleRevision:
    def write() -> None:
        if plan.then is not None:
            plan.scope.table.put(plan.then, plan.now)
        elif plan.now is not None:
            plan.scope.table.remove(plan.now)

    return plan.scope.change("undo", reason, plan.now, plan.then, write)


# A rule is shown.


@dataclass(frozen=True, slots=True)
class ShownRule:
    """A rule, and how it came to be so."""

    pipelines: Annotated[
        Sequence[PipelineRules], "the rules with this id, as each pipeline takes them"
    ]
    changes: Annotated[Sequence[AuditLine], "the last changes, the newest first"]
    matches: Annotated[
        Sequence[RuleMatches],
        "what it matches by the failure records, for each pipeline where it counts",
    ]


_MOST_CHANGES = 20  # of a rule that are shown beside it


def show(session: Session, pipeline: str | None, rule_id: str) -> ShownRule:
    """The rules with this id, what they do, what they have matched, and who changed them."""
    names = () if pipeline in (None, EVERY_PIPELINE) else (str(pipeline),)
    found = [
        PipelineRules(each.name, tuple(rule for rule in each.rules if rule.rule_id == rule_id))
        for each in list_rules(session, RulesRequest(pipelines=names)).pipelines
    ]
    if not any(each.rules for each in found):
        raise Problem(f"There is no rule {rule_id!r}: see\ndlq rules list", Cause.ABSENT)
    app = session.app()
    # A rule of * and one of a pipeline may have the id, and other patterns.
    counting: dict[str, list[DeployedPipeline]] = {}
    for each in found:
        for rule in each.rules:
            if rule.effect not in ("refused", "disabled"):
                counting.setdefault(json.dumps(rule.pattern), []).append(app.pipeline(each.name))
    return ShownRule(
        pipelines=tuple(each for each in found if each.rules),
        changes=history(session, rule_table.target(rule_id), names, _MOST_CHANGES),
        matches=tuple(
            matches
            for pattern, where in counting.items()
            for matches in matches_in(session, app, where, json.loads(pattern))
        ),
    )


LIST = Verb(
    name="list",
    says="""The rules in the order they are tried, and what each does.

    Each rule is read as the pipeline's router reads it. An INVALID rule matches nothing; the reason
    is shown. Matches are counted by the automatic retry.

    With --yaml it prints the rules of these pipelines and of '*' as a file, in a fixed order, so
    that each difference is a change.
    """,
    request=RulesRequest,
    examples=(
        "dlq rules list",
        "dlq rules list orders --query \"pipelines[].rules[?status=='INVALID'][]\"",
        "dlq rules list --yaml > rules.yaml",
    ),
    read=list_rules,
)

ADD = Verb(
    name="add",
    says="""Add a rule, in effect within a minute.

    -f says which messages it matches, as everywhere; -f match=@FILE is an event pattern. A rule
    that would be INVALID, or make another rule INVALID, is not written. Before a rule is written,
    dlq shows what it matches by the failure records, and asks. Nothing is received.
    """,
    request=RuleAddRequest,
    examples=(
        'dlq rules add stop-acme --action QUARANTINE -f tenant=acme --reason "half a body"',
        'dlq rules add lost --action QUARANTINE -f cause=9c1f08e2 --reason "the producer is wrong"',
        "dlq rules add slow-imports --action DELAYED_REDRIVE=2h -f field.messageType=import",
        "dlq rules add try-it --action HOLD -f match=@pattern.json --shadow --expires 7d",
    ),
    change="A rule",
    prepare=_planned,
    question=_add_question,
    commit=_add,
)

DISABLE = Verb(
    name="disable",
    says="""Disable a rule, within a minute; it stays in the table.

    Messages that it holds come due. dlq rules undo takes it back.
    """,
    request=RuleRequest,
    examples=('dlq rules disable stop-acme --reason "acme has mended it"',),
    change="A rule",
    prepare=_enabled,
    question=_disable_question,
    commit=_disable,
    plans=False,
)

REMOVE = Verb(
    name="remove",
    says="""Remove a rule. Messages that it holds or delays are decided anew by the next run.

    dlq rules undo brings it back; dlq rules disable keeps it in the list.
    """,
    request=RuleRequest,
    examples=('dlq rules remove stop-acme --reason "acme has mended it"',),
    change="A rule",
    prepare=_found,
    question=_remove_question,
    commit=_remove,
    plans=False,
)

UNDO = Verb(
    name="undo",
    says="""Take the last change of a rule back.

    A rule that was edited or disabled is as before; one that was added goes; one that was removed
    comes back. --to takes all changes since a time back. It says which change that is and what
    would come of it, and asks. Messages that wait for the rule are decided anew by the next run. An
    undo is a change too: a second one takes the first one back.
    """,
    request=UndoRequest,
    examples=(
        'dlq rules undo slow-imports --reason "20h was a slip for 2h"',
        'dlq rules undo stop-acme --to 2h --reason "as it was before the release"',
    ),
    change="A rule",
    prepare=_undoable,
    question=_undo_question,
    commit=_undo,
    plans=False,
)
