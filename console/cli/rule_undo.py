"""`dlq rules undo` and `remove`: a change is taken back, or a rule goes."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

from ..operations import rule_table, rule_text
from ..operations.rule_edit import RuleEditor, RuleRevision, everywhere
from ..operations.rule_undo import PlannedUndo, RuleUndoing
from ..operations.selection import past
from ..operations.session import Session
from . import asking
from .asking import Reason, Yes
from .output import Reply
from .rule_edit import RuleId, WhosePipeline, show_change

To = Annotated[
    str | None,
    typer.Option("--to", metavar="WHEN", help="As it was then (2h ago, ISO 8601): 2h, 1d, a time."),
]


def undo(
    session: Session,
    rule_id: RuleId,
    pipeline: WhosePipeline = None,
    to: To = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[RuleRevision]:
    """Take the last change of a rule back, or all changes since a time with --to.

    A rule that was edited is as before; one that was added goes; one that was removed comes
    back. It shows what would change, and asks. Messages that wait for the rule are judged
    anew by the next run. An undo is a change too: a second one takes the first one back.
    """
    undoing = RuleUndoing(session, pipeline, rule_id)
    plan = undoing.plan_undo(
        rule_id, None if to is None else datetime.fromtimestamp(past(to, session.now), UTC)
    )
    why = asking.reason(reason, "A rule")
    if not yes:
        asking.confirm(session, *_question(plan, undoing.key))
    what = "removed" if plan.then is None else "as before"
    return Reply(undoing.undo(plan, why), partial(show_change, what=what))


def remove(
    session: Session,
    rule_id: RuleId,
    pipeline: WhosePipeline = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[RuleRevision]:
    """Remove a rule. Messages that it holds or delays are judged anew by the next run.

    `dlq rules undo` brings it back; `dlq rules disable` keeps it in the list.
    """
    editor = RuleEditor(session, pipeline, rule_id)
    rule = editor.find(rule_id)
    why = asking.reason(reason, "A rule")
    if not yes:
        asking.confirm(session, f"Remove rule {rule_id} of {everywhere(editor.key)}.")
    return Reply(editor.remove(rule, why), partial(show_change, what="removed"))


def _question(plan: PlannedUndo, key: str) -> Iterator[str]:
    name = f"rule {plan.rule_id} of {everywhere(key)}"
    if plan.then is None:
        yield f"Remove {name}, which was not there before."
        return
    if plan.now is None:
        yield f"Bring {name} back."
        return
    yield f"Change {name} back:"
    for change in rule_text.changes(rule_table.canonical(plan.now.columns), plan.then):
        yield f"  {change}"
