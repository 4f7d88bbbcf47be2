"""`dlq rules show` and `history`: a rule as it is, and how it came to be so."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations import rule_history as operation
from ..operations.rule_history import FIRST, RuleChanges, ShownRule
from ..operations.session import Session
from ..operations.words import count
from . import completion
from .audit import Since, Until, past, show_change
from .output import Block, Line, Reply, Styled, line
from .rule_edit import OnPipeline, RuleId, matches_of
from .rule_list import show_rules

SomeRule = Annotated[
    str | None,
    typer.Argument(
        metavar="[RULE_ID]", help="Only changes of this rule.", autocompletion=completion.rules
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=200, help="At most so many changes.")
]


def show(session: Session, rule_id: RuleId, pipeline: OnPipeline = None) -> Reply[ShownRule]:
    """One rule: what it does and to which messages, what it matches, and its last changes.

    What it matches now is told by the failure records: nothing is received. Rules with this id
    of a pipeline and of '*' are shown side by side.
    """
    return Reply(operation.show(session, pipeline, rule_id), _show)


def history(
    session: Session,
    rule_id: SomeRule = None,
    pipeline: OnPipeline = None,
    since: Since = "400d",
    until: Until = None,
    limit: Limit = 20,
) -> Reply[RuleChanges]:
    """The changes of rules, the newest first: who, when, why, and each column that changed.

    Changes that were made elsewhere, as in the DynamoDB console, are on record seconds
    later. `dlq rules undo` takes the last change of a rule back.
    """
    answer = operation.history(
        session,
        pipeline,
        rule_id,
        since=max(FIRST, past(since, session.now)),
        until=None if until is None else past(until, session.now),
        limit=limit,
    )
    return Reply(answer, _show_history)


def _show(answer: ShownRule) -> Iterator[Block]:
    yield line(
        Styled(f"Rules of {answer.app}", "strong"), f" in account {answer.account}, {answer.region}"
    )
    for pipeline in answer.pipelines:
        yield Line()
        yield from show_rules(pipeline, answer.at)
    if answer.matches:
        yield Line()
        yield from map(line, matches_of(answer.matches, answer.at))
    yield Line()
    if answer.changes:
        yield line("Its last changes:")
    for change in answer.changes:
        yield from show_change(change, answer.at)


def _show_history(answer: RuleChanges) -> Iterator[Block]:
    for change in answer.changes:
        yield from show_change(change, answer.at)
    number = count(len(answer.changes), "change") if answer.changes else "No change"
    yield line(f"{number} on record in account {answer.account}, {answer.region}.")
    if answer.more is not None:
        yield line(f"For older ones add --until {answer.more.isoformat()}")
