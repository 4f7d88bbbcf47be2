"""`dlq rules test`: a rule tried on letters, by the router itself and without effect."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Annotated

import typer

from deadletter.contract import MAIN_DLQ

from ..operations import rule_text
from ..operations.peek import MOST
from ..operations.problem import Cause, Problem
from ..operations.rule_backtest import Against
from ..operations.rule_on_ledger import DAYS, RuleMatches
from ..operations.rule_trial import RECORDS, SAMPLE, RuleTrial, try_rule
from ..operations.session import Session
from ..operations.words import clock, count, duration
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
        help="Messages of a queue (see --source), parked ones, those that wait in lanes, or the "
        "failure records alone, which receives nothing.",
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
    """How many messages a rule would match, and what the others lack.

    Name a rule of the table, or give its conditions as options. It is tried without other
    rules, also if it is disabled or expired: on the failure records, and on a sample of the
    DLQ or on messages of --body, or on up to --limit parked or waiting messages. Nothing is
    moved; sampled messages are given back at once, and SQS counts each as received once.

    Of bodies no value is shown, only its kind.
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
    if trial.source == RECORDS and trial.on_record is not None:
        yield line(f"In account {trial.account}, {trial.region}, without receiving a message:")
        yield line(f"About: {rule_text.about(trial.pattern)}", indent=2)
        yield from map(line, on_record(trial.on_record, trial.at))
        return
    yield line(
        Styled(summary(trial.matched, trial.looked_at, trial.source), "strong"),
        f" in account {trial.account}, {trial.region}",
    )
    yield line(f"About: {rule_text.about(trial.pattern)}", indent=2)
    if trial.takes_seconds is not None:
        late = (
            f"; {count(trial.expire, 'message')} would be too old by then" if trial.expire else ""
        )
        yield line(f"At its rate they take {duration(trial.takes_seconds)}{late}.", indent=2)
    if trial.on_record is not None:
        yield from (line(text, indent=2) for text in on_record(trial.on_record, trial.at))
    if trial.not_given_back:
        yield line(not_given_back(trial.not_given_back))
    if trial.missed:
        yield Line()
        yield TextTable(
            (">MESSAGES", "FIELD OF THE PATTERN", "EXPECTED", "FOUND"),
            [
                (f"{field.letters:,}", field.path, field.expected, field.found)
                for field in trial.missed[:_MAX_MISSED]
            ],
        )
        if (more := len(trial.missed) - _MAX_MISSED) > 0:
            yield line(f"and {count(more, 'more field')}: see --json")


def summary(matched: int, looked_at: int, source: str) -> str:
    """The outcome in a sentence: "Would match 37 of 120 messages from dlq"."""
    return f"Would match {matched:,} of {count(looked_at, 'message')} from {source}"


def on_record(matches: RuleMatches, now: datetime, where: str = "here") -> Iterator[str]:
    """What a rule matches by the failure records, line by line; `where` names the pipeline."""
    if matches.problem is not None:
        yield f"What it matches {where} can't be told: {matches.problem}"
        return
    least = "at least " if matches.is_at_least else ""
    parts = [f"Matches {matches.matched:,} of {least}{count(matches.here, 'message')} {where} now"]
    if matches.failed_since is not None:
        since = clock(matches.failed_since, now)
        parts.append(
            f"{matches.failed_matched:,} of {matches.failed:,} in {DAYS} days, since {since}"
        )
    if matches.matched and matches.tenants is not None:
        parts.append(count(matches.tenants, "tenant"))
    yield f"{'; '.join(parts)}."
    yield from matches.hints
    if matches.untold:
        why = "; ".join(matches.why_untold) or "a value may be a text or a number"
        yield f"Can't be told for {count(matches.untold, 'message')}: {why}."
    yield f"Not searched: {', '.join(matches.not_searched)}."
