"""Routing rules: listed with their effect, added, switched off, removed, and changes taken back."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import partial
from shlex import quote
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.failure.ledger import RuleCounts
from deadletter.rules.pattern import compile_pattern
from deadletter.rules.rule import COLUMNS, VERDICT, Action, Rule, RuleMode, notes_of, read_rule
from deadletter.rules.ties import namesake_note, tie_note, tie_notes, tied

from . import rule_table
from .app import App, DeployedPipeline
from .audit_trail import AuditLine, history
from .errors import Cause, Problem, aws_errors
from .rule_on_ledger import RuleMatches, matches_in
from .rule_table import RulePlan, RuleRevision, StoredRule, canonical, column_changes, everywhere
from .selection import (
    CONTEXT,
    Choice,
    NamedPipelines,
    Operator,
    RuleTerms,
    Term,
    compiled,
    for_rules,
    path_of,
)
from .selection import Pipeline as OfPipeline
from .session import Answer, Here, Session
from .verbs import Asked, Verb
from .words import clock, count, duration, ending, moment, seconds, typed_time

RuleId = Annotated[str, Asked("Its id, in metrics and with parked messages.", metavar="RULE_ID")]

# The list.


@dataclass(frozen=True, slots=True, kw_only=True)
class ListedRule:
    """A rule as it is in the table, and its effect."""

    rule_id: Annotated[str, "id of the rule"]
    pipeline: Annotated[str, "its pipeline, or `*` for all"]
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
    return RuleList(
        **session.place,
        pipelines=tuple(
            PipelineRules(each.name, tuple(_rules_of(session, app, each, stored)))
            for each in chosen
        ),
        # Mistyped names, for example.
        strays=tuple(
            f"{row.pipeline}/{row.rule_id}" for row in stored if row.pipeline not in known
        ),
        file=tuple(
            row.image for row in stored if not names or row.pipeline in (EVERY_PIPELINE, *names)
        )
        if request.yaml
        else None,
    )


def _rules_of(
    session: Session, app: App, pipeline: DeployedPipeline, stored: Sequence[StoredRule]
) -> Sequence[ListedRule]:
    """The rules of a pipeline and of `*`: first the refused, then in order of trial."""
    terms, now = pipeline.rule_terms(), session.clock()
    book = rule_table.book([row.columns for row in stored], terms)
    with aws_errors():
        counts = Here(session, app, pipeline).ledger.all_counts()
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
        rule = valid.get(row.key)
        if rule is None:
            why = reasons[row.rule_id].pop(0)
            refused.append(_row(row, status="INVALID", status_reason=why, effect="refused"))
            continue
        notes = [
            namesake_note(row.pipeline, row.columns, by_id[row.rule_id], {terms.name: terms}),
            *notes_of(rule, row.columns, terms, now),
            ties.get(rule.rule_id) if rule.enabled else None,
        ]
        known = counts.get(rule.counts_key, RuleCounts())
        listed = _row(
            row,
            **{name: getattr(rule, name) for name in _OF_RULE}
            | {"expires_at": moment(rule.expires_at)},
            status="VALID",
            status_reason="; ".join(filter(None, notes)) or None,
            effect=_effect(rule, known.matched, now),
            about=about(rule.pattern),
            matches=known.matched,
            last_matched=moment(known.last_matched),
            shadow_matches=known.shadow_matched,
            last_shadow=moment(known.last_shadow),
        )
        tried.append((rule.order, listed))
    return refused + [rule for _, rule in sorted(tried, key=lambda pair: pair[0])]


# What a list says of a rule as its router reads it.
_OF_RULE = {field.name for field in fields(Rule)} & {field.name for field in fields(ListedRule)}


def _row(stored: StoredRule, **known: Any) -> ListedRule:
    """A rule of the table, with what is known of it."""
    columns = stored.columns
    notes = {name: str(columns[name]) for name in rule_table.NOTES if columns.get(name) is not None}
    return ListedRule(**{"rule_id": stored.rule_id, "pipeline": stored.pipeline, **notes, **known})


def _effect(rule: Rule, matches: int, now: float) -> str:
    """What a rule does now."""
    if (idle := rule.idle(now)) is not None:
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


# One rule, and where it is.


class RuleScope:
    """The rules with an id, and the columns of the one that is meant: None if it is missing.

    Without a pipeline it is the only one with the id. `had` are the keys under which there was
    one: one of those may be meant too. With `wider`, the rule of all pipelines is meant where the
    pipeline has none: a command that is printed does not know which it is.
    """

    def __init__(
        self, session: Session, request: RuleRequest, had: Sequence[str] = (), wider: bool = True
    ) -> None:
        self.app, self._id, pipeline = session.app(), request.rule, request.pipeline
        known = [EVERY_PIPELINE, *(each.name for each in self.app.pipelines)]
        if pipeline not in (None, EVERY_PIPELINE):
            known = [EVERY_PIPELINE, self.app.pipeline(pipeline).name]
        self.stored = rule_table.table(session.aws, self.app.rules_table).of_id(self._id, known)
        self.key, self.says = pipeline or self._only({*had} & {*known}), list[str]()
        keys = {*had, *(row.pipeline for row in self.stored)}
        if wider and self.key not in keys and EVERY_PIPELINE in keys:
            self.says.append(f"{self.key} has no rule {self._id} of its own: this is about all.")
            self.key = EVERY_PIPELINE
        self.now = next((row.image for row in self.stored if row.pipeline == self.key), None)

    def _only(self, had: set[str]) -> str:
        """The key of the only rule with the id."""
        have = {row.pipeline for row in self.stored}
        keys = sorted(have | had)
        if len(keys) > 1:
            also = "" if len(have) == len(keys) else ", or had it"
            options = " or ".join(f"-p '{key}'" for key in keys)
            raise Problem(
                f"Rules of {' and of '.join(map(everywhere, keys))} have the id {self._id!r}"
                f"{also}: add {options}.",
                Cause.INPUT,
            )
        if not keys and len(self.app.pipelines) > 1:
            raise Problem(f"There is no rule {self._id!r}: see\ndlq rules list", Cause.ABSENT)
        return keys[0] if keys else self.app.pipeline(None).name

    @property
    def name(self) -> str:
        """The rule, in words."""
        return f"rule {self._id} of {everywhere(self.key)}"

    def find(self) -> Mapping[str, Any]:
        """The rule's columns; Problem if it is missing, which names the pipeline that has one."""
        if self.now is not None:
            return self.now
        look = ": see\ndlq rules list"
        if elsewhere := [row.pipeline for row in self.stored]:
            there = " and of ".join(map(everywhere, elsewhere))
            look = f", but there is a rule of {there}: add -p '{elsewhere[0]}'."
        raise Problem(f"There is no {self.name}{look}", Cause.ABSENT)

    def plan(self, command: str, after: Mapping[str, Any] | None, **more: Any) -> RulePlan:
        """The change of the rule to these columns; None removes it."""
        change = RuleRevision(self.key, self._id, self.now, after)
        return RulePlan(command=command, app=self.app, changes=[change], stored=self.stored, **more)


@dataclass(frozen=True)
class ChangedRule(RuleRevision, Answer):
    """What `dlq rules disable`, `undo` and `remove` answer."""


def _revise(session: Session, plan: RulePlan, reason: str) -> ChangedRule:
    """Makes the one change of a plan; Problem if the rule has changed meanwhile."""
    return ChangedRule(**_revised(session, plan, reason))


def _revised(session: Session, plan: RulePlan, reason: str) -> Mapping[str, Any]:
    for change in plan.make(session, reason):
        known = {field.name: getattr(change, field.name) for field in fields(change)}
        return {**session.place, **known}
    raise Problem(
        f"Rule {plan.changes[0].rule_id} has just been changed by another person: nothing was "
        "written. Look again.",
        Cause.FAILED,
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


@dataclass(frozen=True)
class AddedRule(ChangedRule):
    """What `dlq rules add` answers."""

    matches: Annotated[
        Sequence[RuleMatches], "what it matches by the failure records, for each pipeline"
    ]
    notes: Annotated[Sequence[str], "what to know of it, as its row says too"]


@dataclass(frozen=True, slots=True, kw_only=True)
class AddPlan(RulePlan):
    """A valid rule that is not written yet.

    `notes` are what to know of it, a sentence each, and `is_dated` says whether a person has said
    when it ends, if only that it never does.
    """

    rule: Rule
    notes: Sequence[str]
    matches: Sequence[RuleMatches]
    now: datetime
    is_dated: bool

    def ending(self, at: datetime | None) -> AddPlan:
        """The same rule with an end, or None for never."""
        if at is None:
            return replace(self, is_dated=True)
        text = at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        rule = replace(self.rule, expires_at=datetime.fromisoformat(text).timestamp())
        [change] = self.changes
        after = canonical({**(change.after or {}), "expires_at": text})
        return replace(self, changes=[replace(change, after=after)], rule=rule, is_dated=True)


def _planned(session: Session, request: RuleAddRequest) -> AddPlan:
    app = session.app()
    key, pipelines = app.scope(request.pipeline)
    given = {
        "pipeline": key,
        "rule_id": request.rule,
        **_action(request.action),
        **_matching(request, key, session.now),
        "policy": request.policy,
        "priority": request.priority,
        "mode": str(RuleMode.SHADOW) if request.shadow else None,
        "max_matches": request.max_matches,
        "breadth": "all" if request.everything else None,
        "created_by": session.aws.caller,
    }
    columns = canonical({name: value for name, value in given.items() if value is not None})
    stored = rule_table.table(session.aws, app.rules_table).read()
    before = next((row for row in stored if row.key == (key, request.rule)), None)
    if before is not None and not request.replace:
        raise Problem(
            f"There is a rule {request.rule!r} for {everywhere(key)} already: add --replace, "
            "or choose another id.",
            Cause.FAILED,
        )
    change = RuleRevision(key, request.rule, None if before is None else before.image, columns)
    rule_table.check(app, stored, [change])
    terms = pipelines[0].rule_terms()
    rule = read_rule(columns, terms)
    others = rule_table.book([row.columns for row in stored if row is not before], terms)
    tie = tie_note(rule, tied(rule, others.rules.values()))
    plan = AddPlan(
        command="add",
        app=app,
        changes=[change],
        stored=stored,
        noted="",
        rule=rule,
        notes=[*notes_of(rule, columns, terms, session.clock()), *([tie] if tie else [])],
        matches=matches_in(session, app, pipelines, rule.pattern),
        now=session.now,
        is_dated=False,
    )
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


def _add_question(plan: AddPlan) -> Iterator[str]:
    [change] = plan.changes
    verb = "Replace" if change.before else "Add"
    what = f"{action_of(plan.rule)} for messages with {about(plan.rule.pattern)}"
    yield f"{verb} {change.name}: {what}, {_until(plan.rule, plan.now)}."
    # The new reason is not known yet.
    known = replace(change, before=change.before and {**change.before, "reason": None})
    yield from (f"  {each}" for each in known.differs)
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
    return f"{text}, until {clock(end, now)} (in {duration(end - now)})"


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


def _add(session: Session, plan: AddPlan, reason: str) -> AddedRule:
    known = _revised(session, plan, reason)
    return AddedRule(**known, matches=tuple(plan.matches), notes=tuple(plan.notes))


# A rule is switched off, goes, or is as it was.


@dataclass(frozen=True, kw_only=True)
class RuleRequest:
    """Which rule is meant."""

    rule: RuleId
    pipeline: OfPipeline = None


@dataclass(frozen=True, kw_only=True)
class UndoRequest(RuleRequest):
    """Which rule is meant, and as of when."""

    to: Annotated[
        str | None,
        Asked("As it was then: 2h or 1d ago, or at an ISO 8601 time.", ("--to",), "WHEN"),
    ] = None


def _disabled(session: Session, request: RuleRequest) -> RulePlan:
    scope = RuleScope(session, request)
    now = scope.find()
    if now.get("enabled") in (False, "false"):
        raise Problem(
            f"Rule {request.rule} is disabled already: nothing to do. To take that back:\n"
            f"dlq rules undo {quote(request.rule)} -p {quote(scope.key)}",
            Cause.FAILED,
        )
    # The table has no other column for who switched a rule off, and why.
    before = now.get("reason") or "no reason given"
    noted = f" (disabled by {session.aws.caller}; before: {before})"
    after = {**now, "enabled": False}
    return scope.plan("disable", after, noted=noted, says=[*scope.says, f"Disable {scope.name}."])


def _removed(session: Session, request: RuleRequest) -> RulePlan:
    scope = RuleScope(session, request, wider=False)
    scope.find()
    return scope.plan("remove", None, says=[f"Remove {scope.name}."])


def _undoable(session: Session, request: UndoRequest) -> RulePlan:
    """The rule as it was before its last change, or at a time.

    Raises Problem if there is no such change on record, if the record does not lead to the rule as
    it is, or if the rule would be INVALID again.
    """
    every = history(session, rule_table.target(request.rule))
    done = [line for line in every if line.outcome != "failed"]
    scope = RuleScope(session, request, [line.pipeline for line in done])
    changes = [line for line in done if line.pipeline == scope.key]
    if not changes:
        raise Problem(f"No change of {scope.name} is on record: see\ndlq audit", Cause.ABSENT)
    last = changes[0]
    if last.after != scope.now:
        raise Problem(
            f"Rule {request.rule} is not as its last change on record has left it: changes made "
            "by other means are on record seconds later. Look again:\n"
            f"dlq show {quote(f'rule:{request.rule}')}",
            Cause.FAILED,
        )
    says = scope.says
    if request.to is None:
        then = last.before
        who = "outside dlq" if last.who is None else f"by {last.who.rpartition(':')[2]}"
        why = f": {last.why}" if last.why else ""
        says.append(f"Take back {last.command} of {clock(last.at, session.now)}, {who}{why}.")
    else:
        at = typed_time(request.to, session.now, -1)
        then = _at(changes, at, session)
    if then == scope.now:
        raise Problem(f"Rule {request.rule} is as it was then: nothing to do.", Cause.FAILED)
    plan = scope.plan("undo", then, says=says)
    rule_table.check(plan.app, plan.stored, plan.changes, is_back=True)
    if then is None:
        says.append(f"Remove {scope.name}, which was not there before.")
    elif scope.now is None:
        says.append(f"Bring {scope.name} back.")
    else:
        says.append(f"Change {scope.name} back:")
        says += (f"  {change}" for change in column_changes(scope.now, then))
    return plan


def _at(changes: Sequence[AuditLine], to: datetime, session: Session) -> Mapping[str, Any] | None:
    """The rule at a time, from its changes, the newest first."""
    # A person types whole seconds.
    earlier = [change for change in changes if change.at.replace(microsecond=0) <= to]
    if earlier:
        return earlier[0].after
    if changes[-1].before is None:
        return None
    raise Problem(
        f"Changes before {clock(changes[-1].at, session.now)} are not on record.", Cause.ABSENT
    )


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

    With --yaml it prints the rules of these pipelines and of '*' as a file, in a fixed order.
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

_CHANGES_ONE = partial(
    Verb, change="A rule", question=lambda plan: iter(plan.says), commit=_revise, plans=False
)

DISABLE = _CHANGES_ONE(
    name="disable",
    says="""Disable a rule, within a minute; it stays in the table.

    Messages that it holds come due. dlq rules undo takes it back.
    """,
    request=RuleRequest,
    examples=('dlq rules disable stop-acme --reason "acme has mended it"',),
    prepare=_disabled,
)

REMOVE = _CHANGES_ONE(
    name="remove",
    says="""Remove a rule; dlq rules undo brings it back.

    Messages that it holds or delays are decided anew by the next run. dlq rules disable keeps it in
    the list.
    """,
    request=RuleRequest,
    examples=('dlq rules remove stop-acme --reason "acme has mended it"',),
    prepare=_removed,
)

UNDO = _CHANGES_ONE(
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
    prepare=_undoable,
)
