"""A change of a rule is taken back."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from . import deployed, rule_table
from .audit_lines import AuditLine
from .problem import Cause, Problem
from .rule_edit import RuleEditor, RuleRevision, checked, everywhere
from .rule_history import changes_of, keys_of
from .rule_table import StoredRule
from .session import Session
from .words import clock


@dataclass(frozen=True, slots=True)
class PlannedUndo:
    """A rule as it is, and as it shall be again; None where there is no such rule."""

    rule_id: str
    now: StoredRule | None
    then: Mapping[str, Any] | None


class RuleUndoing(RuleEditor):
    """Takes back changes of a rule of a pipeline, or of `*`. Reads no rule of another id."""

    def __init__(self, session: Session, pipeline: str | None, rule_id: str) -> None:
        super().__init__(session, pipeline, rule_id, [] if pipeline else keys_of(session, rule_id))

    def plan_undo(self, rule_id: str, to: datetime | None = None) -> PlannedUndo:
        """The rule as it was before its last change, or at a time.

        Raises Problem if there is no such change on record, if the record does not lead to the
        rule as it is, or if the rule would be INVALID again.
        """
        same_id = self.of_id(rule_id)
        now = next((rule for rule in same_id if rule.pipeline == self.key), None)
        changes = changes_of(self._session, self.key, rule_id)
        if not changes:
            raise Problem(
                f"No change of rule {rule_id!r} of {everywhere(self.key)} is on record: see dlq "
                "audit.",
                Cause.ABSENT,
            )
        is_now = None if now is None else rule_table.canonical(now.columns)
        if _image(changes[0].after) != is_now:
            raise Problem(
                f"Rule {rule_id} is not as its last change on record has left it: changes made "
                "by other means are on record seconds later. Look again: dlq show "
                f"rule:{rule_id}.",
                Cause.FAILED,
            )
        then = _image(changes[0].before) if to is None else _at(changes, to, self._session)
        if then == is_now:
            raise Problem(f"Rule {rule_id} is as it was then: nothing to do.", Cause.FAILED)
        if then is not None:
            terms = [deployed.terms(pipeline) for pipeline in self._pipelines]
            checked(same_id, now, then, terms, is_back=True)
        return PlannedUndo(rule_id, now, then)

    def undo(self, plan: PlannedUndo, why: str) -> RuleRevision:
        """Makes the rule what it was; Problem if it has changed since it was planned."""

        def write() -> None:
            if plan.then is not None:
                self._table.put(plan.then, plan.now)
            elif plan.now is not None:
                self._table.remove(plan.now)

        return self._change("rules undo", write, why, plan.then, plan.now)


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
