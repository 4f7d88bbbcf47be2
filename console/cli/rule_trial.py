"""`dlq rules test`: a rule tried on letters, by the router itself and without effect."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from deadletter.contract import MAIN_DLQ

from ..operations import rule_text
from ..operations.peek import MOST
from ..operations.problem import Cause, Problem
from ..operations.rule_backtest import Against
from ..operations.rule_trial import SAMPLE, RuleTrial, try_rule
from ..operations.session import Session
from ..operations.words import count, duration
from . import completion
from .command import OnePipeline
from .letters import Attributes, Body, Source, letters_in_file, not_given_back
from .output import Block, Line, Reply, Styled, TextTable, line
from .rule_options import Pattern, Tenant, Where, matching_columns

# Rows of the table of missed fields.
_MAX_MISSED = 10

RuleId = Annotated[
    str | None,
    typer.Argument(
        metavar="RULE_ID",
        help="A rule that is in the table.",
        autocompletion=completion.rules,
    ),
]
Limit = Annotated[
    int, typer.Option("--limit", metavar="N", min=1, max=MOST, help="Letters to sample.")
]

Tried = Annotated[
    Against,
    typer.Option(
        "--against",
        help="Letters of a queue (see --source), parked ones, those that wait in lanes, or what "
        "the ledger keeps of those that failed in the last 7 days.",
    ),
]


def try_(
    session: Session,
    rule_id: RuleId = None,
    pipeline: OnePipeline = None,
    tenant: Tenant = None,
    where: Where = None,
    pattern: Pattern = None,
    source: Source = MAIN_DLQ,
    limit: Limit = SAMPLE,
    body: Body = None,
    attribute: Attributes = None,
    against: Tried = Against.SAMPLE,
) -> Reply[RuleTrial]:
    """How many letters a rule would match, and what the others lack.

    Name a rule of the table, or give its conditions as options. It is tried without other
    rules, also if it is disabled or expired, on a sample of the DLQ or on letters of
    --body, or on up to --limit parked or waiting letters. Nothing is moved; sampled letters
    are given back at once.

    Values of messages are never shown, only their kind.
    """
    columns = matching_columns(tenant, where, pattern)
    if (rule_id is None) == (not columns):
        raise Problem(
            "Name a rule, or say what it is about: --tenant, --where, --pattern.", Cause.INPUT
        )
    if against is not Against.SAMPLE and (body is not None or source != MAIN_DLQ):
        raise Problem(
            f"--against {against} chooses the letters itself: leave out --body and --source.",
            Cause.INPUT,
        )
    trial = try_rule(
        session,
        pipeline,
        columns if rule_id is None else rule_id,
        source=source,
        limit=limit,
        pasted=None if body is None else letters_in_file(session, body, attribute or ()),
        against=against,
    )
    return Reply(trial, show)


def show(trial: RuleTrial) -> Iterator[Block]:
    """The outcome for a person."""
    yield line(
        Styled(summary(trial.matched, trial.looked_at, trial.source), "strong"),
        f" in account {trial.account}, {trial.region}",
    )
    yield line(f"About: {rule_text.about(trial.pattern)}", indent=2)
    if trial.takes_seconds is not None:
        late = f"; {count(trial.expire, 'letter')} would be too old by then" if trial.expire else ""
        yield line(f"At its rate they take {duration(trial.takes_seconds)}{late}.", indent=2)
    if trial.tenants is not None:
        yield line(f"They are of {count(trial.tenants, 'tenant')}.", indent=2)
    if trial.untold:
        why = "; ".join(trial.why_untold)
        yield line(f"Can't be told for {count(trial.untold, 'letter')}: {why}.", indent=2)
    if trial.is_at_least:
        yield line("Not all letters of the ledger were read: there may be more.", indent=2)
    if trial.not_given_back:
        yield line(not_given_back(trial.not_given_back))
    if trial.missed:
        yield Line()
        yield TextTable(
            (">LETTERS", "FIELD OF THE PATTERN", "EXPECTED", "FOUND"),
            [
                (f"{field.letters:,}", field.path, field.expected, field.found)
                for field in trial.missed[:_MAX_MISSED]
            ],
        )
        if (more := len(trial.missed) - _MAX_MISSED) > 0:
            yield line(f"and {count(more, 'more field')}: see --json")


def summary(matched: int, looked_at: int, source: str) -> str:
    """The outcome in a sentence: "Would match 37 of 120 letters sampled from dlq"."""
    return f"Would match {matched:,} of {count(looked_at, 'letter')} from {source}"
