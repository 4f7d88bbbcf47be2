"""Add, replace and disable a routing rule."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import partial
from typing import Annotated, Any

from deadletter.contract import EVERY_PIPELINE
from deadletter.rules.rule import Rule, notes_of, read_rule
from deadletter.rules.ties import tie_note, tied
from deadletter.settings.pipeline import Pipeline as Terms

from . import deployed, rule_table
from .answer import Answer
from .app import App, DeployedPipeline
from .audit import IntendedChange, recorded
from .problem import Cause, Problem
from .reason import MAX_REASON
from .rule_on_ledger import RuleMatches
from .rule_table import RuleTable, RuleTableChange, StoredRule
from .rule_trial import matches_in
from .session import Session


@dataclass(frozen=True, slots=True)
class RuleRevision(Answer):
    """What `dlq rules disable`, `enable`, `undo` and `remove` answer."""

    pipeline: Annotated[str, "the key it is stored under: a pipeline, or `*` for all"]
    rule_id: Annotated[str, "id of the rule"]
    rule: Annotated[Mapping[str, Any], "its columns as they stand in the table now"]
    before: Annotated[Mapping[str, Any] | None, "its columns as they were; null if it is new"]


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

    `notes` are what to know of it, a sentence each.
    """

    columns: Mapping[str, Any]
    rule: Rule
    before: StoredRule | None
    notes: Sequence[str] = ()


class RuleEditor:
    """Changes of rules of a pipeline, or of `*` for every pipeline.

    Of a rule that is there already, the id says which pipeline it is of, if it is unique.
    """

    def __init__(
        self,
        session: Session,
        pipeline: str | None,
        rule_id: str | None = None,
        had: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._app = session.app()
        self._table = rule_table.table(session.aws, self._app.rules_table)
        self.key, self._pipelines = (
            deployed.scope(self._app, pipeline)
            if rule_id is None
            else scope_of_rule(self._app, self._table, rule_id, pipeline, had)
        )

    def plan(self, rule_id: str, columns: Mapping[str, Any], *, replace: bool) -> PlannedRule:
        """The rule with these columns; None stands for a column that is not given.

        Raises Problem if the id is taken and `replace` is false, or if the rule would be
        INVALID or make another rule INVALID.
        """
        everything = {
            "pipeline": self.key,
            "rule_id": rule_id,
            **columns,
            "created_by": self._session.aws.caller,
        }
        given = {name: value for name, value in everything.items() if value is not None}
        stored = self._table.read()
        before = _find(stored, self.key, rule_id)
        if before is not None and not replace:
            raise Problem(
                f"There is a rule {rule_id!r} for {everywhere(self.key)} already: add --replace, "
                "or choose another id.",
                Cause.FAILED,
            )
        terms = [deployed.terms(pipeline) for pipeline in self._pipelines]
        checked(stored, before, given, terms)
        rule = read_rule(given, terms[0])
        notes = notes_of(rule, given, terms[0], self._session.clock())
        others = [each.columns for each in stored if each is not before]
        tie = tie_note(rule, tied(rule, rule_table.book(others, terms[0]).rules.values()))
        return PlannedRule(given, rule, before, (*notes, *([tie] if tie else [])))

    def forecast(self, plan: PlannedRule) -> Sequence[RuleMatches]:
        """What the rule matches in each pipeline by the failure records: nothing is received."""
        return matches_in(self._session, self._app, self._pipelines, plan.rule.pattern)

    def write(self, plan: PlannedRule, matches: Sequence[RuleMatches]) -> AddedRule:
        """Writes the rule; Problem if it has changed since the plan was made."""

        def put() -> None:
            self._table.put(plan.columns, plan.before)

        why = str(plan.columns.get("reason", ""))
        revision = self._change("rules add", put, why, plan.columns, plan.before)
        known = {field.name: getattr(revision, field.name) for field in fields(revision)}
        return AddedRule(**known, matches=tuple(matches), notes=tuple(plan.notes))

    def find(self, rule_id: str) -> StoredRule:
        """The rule with this id; Problem if it is missing."""
        same_id = self.of_id(rule_id)
        rule = _find(same_id, self.key, rule_id)
        if rule is None:
            raise Problem(_no_such_rule(same_id, self.key, rule_id), Cause.ABSENT)
        return rule

    def of_id(self, rule_id: str) -> Sequence[StoredRule]:
        """The rules with this id that are tried in one of the pipelines. Reads no other rule."""
        names = [pipeline.name for pipeline in self._pipelines]
        return self._table.of_id(rule_id, [self.key, EVERY_PIPELINE, *names])

    def disable(self, rule: StoredRule, reason: str) -> RuleRevision:
        """Disables the rule; the caller's identity and the old reason are added to the reason."""
        return self._switch(rule, reason, "disable", self._table.disable)

    def check_enabled(self, rule: StoredRule) -> None:
        """Raises Problem if the rule is enabled already, or would be INVALID."""
        if rule.columns.get("enabled") not in (False, "false"):
            raise Problem(
                f"Rule {rule.rule_id} of {everywhere(self.key)} is not disabled: "
                "dlq rules list says what it does.",
                Cause.FAILED,
            )
        stored = self._table.read()
        before = _find(stored, self.key, rule.rule_id)
        terms = [deployed.terms(pipeline) for pipeline in self._pipelines]
        checked(stored, before, {**rule.columns, "enabled": True}, terms, is_back=True)

    def enable(self, rule: StoredRule, reason: str) -> RuleRevision:
        """Enables the rule; the caller's identity and the old reason are added to the reason."""
        return self._switch(rule, reason, "enable", self._table.enable)

    def remove(self, rule: StoredRule, why: str) -> RuleRevision:
        """Removes a rule; messages that it holds are judged anew by the next run."""
        return self._change("rules remove", partial(self._table.remove, rule), why, None, rule)

    def _switch(
        self, rule: StoredRule, reason: str, verb: str, write: Callable[[StoredRule, str], None]
    ) -> RuleRevision:
        before = rule.columns.get("reason")
        why = _switched_reason(reason, f"{verb}d", self._session.aws.caller, before)
        after = {**rule.columns, "enabled": verb == "enable", "reason": why}
        return self._change(f"rules {verb}", partial(write, rule, why), reason, after, rule)

    def _change(
        self,
        command: str,
        write: Callable[[], None],
        why: str,
        after: Mapping[str, Any] | None,
        before: StoredRule | None,
    ) -> RuleRevision:
        """Makes a change, recorded; Problem if the rule has changed meanwhile."""
        was, becomes = (
            rule_table.canonical(columns) if columns else None
            for columns in (before.columns if before else None, after)
        )
        rule_id = str((was or becomes or {})["rule_id"])
        change = IntendedChange(command, self.key, rule_table.target(rule_id), why, was, becomes)
        with recorded(self._session, self._app, change):
            try:
                write()
            except RuleTableChange as error:
                raise Problem(
                    f"Rule {rule_id} has just been changed by another person: nothing was "
                    "written. Look again.",
                    Cause.FAILED,
                ) from error
        return RuleRevision(
            **self._session.place,
            pipeline=self.key,
            rule_id=rule_id,
            rule=becomes or {},
            before=was,
        )


def scope_of_rule(
    app: App, table: RuleTable, rule_id: str, pipeline: str | None, had: Iterable[str] = ()
) -> tuple[str, tuple[DeployedPipeline, ...]]:
    """The key of the rule with this id, and the pipelines in which it is judged.

    Without a `pipeline`, one rule alone has to have the id; `had` are keys under which it stood.
    """
    if pipeline is not None:
        return deployed.scope(app, pipeline)
    known = [EVERY_PIPELINE, *(each.name for each in app.pipelines)]
    have = {rule.pipeline for rule in table.of_id(rule_id, known)}
    keys = sorted(have | ({*had} & {*known}))
    if len(keys) > 1:
        also = "" if len(have) == len(keys) else ", or had it"
        options = " or ".join(f"--pipeline '{key}'" for key in keys)
        raise Problem(
            f"Rules of {' and of '.join(map(everywhere, keys))} have the id {rule_id!r}{also}: add "
            f"{options}.",
            Cause.INPUT,
        )
    if not keys and len(app.pipelines) > 1:
        raise Problem(f"There is no rule {rule_id!r}: see dlq rules list.", Cause.ABSENT)
    return deployed.scope(app, keys[0] if keys else None)


def _find(stored: Sequence[StoredRule], key: str, rule_id: str) -> StoredRule | None:
    return next((rule for rule in stored if (rule.pipeline, rule.rule_id) == (key, rule_id)), None)


def _no_such_rule(stored: Sequence[StoredRule], key: str, rule_id: str) -> str:
    elsewhere = [rule.pipeline for rule in stored if rule.rule_id == rule_id]
    if elsewhere:
        return (
            f"There is no rule {rule_id!r} of {everywhere(key)}, but there is a rule of "
            f"{' and of '.join(map(everywhere, elsewhere))}: add --pipeline '{elsewhere[0]}'."
        )
    return f"There is no rule {rule_id!r} of {everywhere(key)}: see dlq rules list."


def everywhere(key: str) -> str:
    """The pipelines of a rule with this key, in words."""
    return "every pipeline" if key == EVERY_PIPELINE else key


def checked(
    stored: Sequence[StoredRule],
    before: StoredRule | None,
    columns: Mapping[str, Any],
    pipelines: Sequence[Terms],
    *,
    is_back: bool = False,
) -> None:
    """Problem if the rule, or another rule with it, is INVALID in any of the pipelines.

    One that comes back as it was (`is_back`) may end the other rule of its id, as it did.
    """
    others = [rule.columns for rule in stored if rule is not before]
    new = [*others, columns]
    if not pipelines:
        raise Problem("The app has no pipeline yet: deploy one.", Cause.ABSENT)
    for pipeline in pipelines:
        for refused in rule_table.newly_refused(others, new, pipeline):
            if is_back and refused.is_namesake:
                continue
            raise Problem(
                f"Nothing was written: rule {refused.rule_id} would be INVALID in "
                f"{pipeline.name}: {refused.why}.",
                Cause.FAILED,
            )


def _switched_reason(why: str, switched: str, who: str, before: object) -> str:
    """The new reason. The table has no other column for who switched a rule, and why."""
    text = f"{why} ({switched} by {who}; before: {before or 'no reason given'})"
    return text if len(text) <= MAX_REASON else f"{text[: MAX_REASON - 1]}…"
