"""A change of a rule is taken back, or a rule is removed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from deadletter.contract import EVERY_PIPELINE

from . import deployed, rule_table
from .app import DeployedPipeline
from .audit import IntendedChange, recorded
from .audit_lines import AuditLine
from .problem import Cause, Problem
from .rule_edit import RuleRevision, checked, everywhere, raced, scope_of_rule
from .rule_history import changes_of, keys_of
from .rule_table import RuleTableChange, StoredRule
from .session import Session
from .words import clock


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """A rule as it is, and as it shall be again; None where there is no such rule."""

    rule_id: str
    now: StoredRule | None
    then: Mapping[str, Any] | None
    of: AuditLine | None = None


class RuleUndoing:
    """Takes back changes of the rules of a pipeline, or of `*`. Reads no rule but the one."""

    def __init__(self, session: Session, pipeline: str | None) -> None:
        self._session = session
        self._app = session.app()
        self._pipeline = pipeline
        self._table = rule_table.table(session.aws, self._app.rules_table)
        self.key = ""
        """The key of the rule, once it is found."""
        self._pipelines: Sequence[DeployedPipeline] = ()

    def plan(self, rule_id: str, to: datetime | None = None) -> PlannedUndo:
        """The rule as it was before its last change, or at a time.

        Raises Problem if there is no such change on record, if the record does not lead to the
        rule as it is, or if the rule would be INVALID again.
        """
        had = [] if self._pipeline else keys_of(self._session, rule_id)
        same_id = self._same_id(rule_id, had)
        now = next((rule for rule in same_id if rule.pipeline == self.key), None)
        changes = changes_of(self._session, self.key, rule_id)
        if not changes:
            raise Problem(
                f"No change of rule {rule_id!r} of {everywhere(self.key)} is on record: see dlq "
                "rules history.",
                Cause.ABSENT,
            )
        is_now = None if now is None else rule_table.canonical(now.columns)
        if _image(changes[0].after) != is_now:
            raise Problem(
                f"Rule {rule_id} is not as its last change on record has left it: changes made "
                "by other means are on record seconds later. Look again: dlq rules history "
                f"{rule_id}.",
                Cause.FAILED,
            )
        then = _image(changes[0].before) if to is None else _at(changes, to, self._session)
        if then == is_now:
            raise Problem(f"Rule {rule_id} is as it was then: nothing to do.", Cause.FAILED)
        if then is not None:
            others = [rule for rule in same_id if rule is not now]
            terms = [deployed.terms(pipeline) for pipeline in self._pipelines]
            checked([*others, *([now] if now else [])], now, then, terms, is_back=True)
        return PlannedUndo(rule_id, now, then, changes[0])

    def find(self, rule_id: str) -> StoredRule:
        """The rule of this key; Problem if it is missing."""
        same_id = self._same_id(rule_id)
        for rule in same_id:
            if rule.pipeline == self.key:
                return rule
        also = "".join(
            f" There is one of {everywhere(rule.pipeline)}: add --pipeline '{rule.pipeline}'."
            for rule in same_id
        )
        raise Problem(
            f"There is no rule {rule_id!r} of {everywhere(self.key)}.{also}", Cause.ABSENT
        )

    def undo(self, plan: PlannedUndo, why: str) -> RuleRevision:
        """Makes the rule what it was; Problem if it has changed since it was planned."""
        return self._change("rules undo", plan, why)

    def remove(self, rule: StoredRule, why: str) -> RuleRevision:
        """Removes a rule; letters that it holds are judged anew by the next run."""
        return self._change("rules remove", PlannedUndo(rule.rule_id, rule, None), why)

    def _same_id(self, rule_id: str, had: Sequence[str] = ()) -> Sequence[StoredRule]:
        self.key, self._pipelines = scope_of_rule(
            self._app, self._table, rule_id, self._pipeline, had
        )
        names = [pipeline.name for pipeline in self._pipelines]
        return self._table.of_id(rule_id, [self.key, EVERY_PIPELINE, *names])

    def _change(self, command: str, plan: PlannedUndo, why: str) -> RuleRevision:
        before = None if plan.now is None else rule_table.canonical(plan.now.columns)
        change = IntendedChange(
            command, self.key, rule_table.target(plan.rule_id), why, before, plan.then
        )
        with recorded(self._session, self._app, change):
            try:
                if plan.then is not None:
                    self._table.put(plan.then, plan.now)
                elif plan.now is not None:
                    self._table.remove(plan.now)
            except RuleTableChange as error:
                raise raced(plan.rule_id) from error
        return RuleRevision(
            **self._session.place,
            pipeline=self.key,
            rule_id=plan.rule_id,
            rule=plan.then or {},
            before=before,
        )


def _image(columns: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
    return None if columns is None else rule_table.canonical(columns)


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
