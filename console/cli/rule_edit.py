"""`dlq rules add` and `disable`: a rule is changed, by a named person and for a reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Annotated

import typer

from deadletter.rules.rule import Action, Rule, RuleMode

from ..operations import rule_table, rule_text
from ..operations.duration import seconds
from ..operations.rule_edit import AddedRule, PlannedRule, RuleEditor, RuleRevision, everywhere
from ..operations.rule_on_ledger import RuleMatches
from ..operations.session import Session
from ..operations.words import clock, count, duration
from . import asking, completion
from .asking import Reason, Yes
from .output import Block, Reply, Styled, line
from .rule_options import Pattern, Tenant, Where, matching_columns
from .rule_trial import on_record

RuleId = Annotated[
    str,
    typer.Argument(
        metavar="RULE_ID",
        help="Its id, in metrics and stamps.",
        autocompletion=completion.rules,
    ),
]
OnPipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="The pipeline, or '*' for all; needed if the app has several.",
        autocompletion=completion.pipelines,
    ),
]
WhosePipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="The pipeline, or '*' for all; needed if several rules have the id.",
        autocompletion=completion.pipelines,
    ),
]
WhatToDo = Annotated[
    str, typer.Option("--action", metavar="ACTION", help=f"{', '.join(Action)}; in any case.")
]
Delay = Annotated[
    str | None,
    typer.Option("--delay", metavar="TIME", help="For DELAYED_REDRIVE: 90s, 15m, 2h, 4d."),
]
Queue = Annotated[
    str | None,
    typer.Option("--queue", metavar="ID", help="For DEDICATED_DLQ: the dedicated DLQ's id."),
]
Policy = Annotated[
    str | None,
    typer.Option("--policy", metavar="NAME", help="Attempts and backoff by this policy instead."),
]
Priority = Annotated[
    int | None,
    typer.Option("--priority", metavar="N", help="The lowest is tried first; 100 if not given."),
]
Mode = Annotated[
    str | None,
    typer.Option("--mode", metavar="MODE", help="shadow: only count what it would have done."),
]
Expires = Annotated[
    str | None,
    typer.Option(
        "--expires", metavar="WHEN", help="After 24h, 7d …; at an ISO 8601 time; or never."
    ),
]
Rate = Annotated[
    float | None,
    typer.Option("--rate", metavar="N", help="For THROTTLE: messages a second, such as 5 or 0.1."),
]
MaxMatches = Annotated[
    int | None,
    typer.Option(
        "--max-matches", metavar="N", help="Stop acting after so many messages, or up to 99 more."
    ),
]
Breadth = Annotated[
    str | None,
    typer.Option("--breadth", metavar="all", help="Say that it is meant to stop every message."),
]
Ticket = Annotated[
    str | None, typer.Option("--ticket", metavar="TEXT", help="Where the rule is discussed.")
]
Replace = Annotated[bool, typer.Option("--replace", help="Replace the rule with this id.")]


def add(
    session: Session,
    rule_id: RuleId,
    action: WhatToDo,
    pipeline: OnPipeline = None,
    tenant: Tenant = None,
    where: Where = None,
    pattern: Pattern = None,
    delay: Delay = None,
    queue: Queue = None,
    rate: Rate = None,
    policy: Policy = None,
    priority: Priority = None,
    mode: Mode = None,
    expires: Expires = None,
    max_matches: MaxMatches = None,
    breadth: Breadth = None,
    reason: Reason = None,
    ticket: Ticket = None,
    replace: Replace = False,
    yes: Yes = False,
) -> Reply[AddedRule]:
    """Add a rule, in effect within a minute.

    A rule that would be INVALID, or make another rule INVALID, is not written. Before a
    rule is written, dlq shows account and region and what the rule matches by the failure
    records, and asks. Nothing is received. A reason and an end that are not given are asked
    for too.

    Your caller identity is written down as `created_by`. With --yes, nothing is asked.
    """
    editor = RuleEditor(session, pipeline)
    why = asking.reason(reason, "A rule")
    columns = {
        "action": action.strip().upper(),
        **matching_columns(tenant, where, pattern),
        "delay_seconds": None if delay is None else seconds(delay),
        "queue": queue,
        "rate": _number(rate),
        "policy": policy,
        "priority": priority,
        "mode": mode,
        "expires_at": _end(expires, session.now),
        "max_matches": max_matches,
        "breadth": breadth,
        "reason": why,
        "ticket": ticket,
    }
    plan = editor.plan(rule_id, columns, replace=replace)
    matches = editor.forecast(plan)
    if not yes:
        asking.confirm(
            session,
            f"{'Replace' if plan.before else 'Add'} rule {rule_id} of {everywhere(editor.key)}: "
            f"{rule_text.sentence(plan.rule)}, {_until(plan.rule, session.now)}.",
            *_differences(plan),
            *map(_note, plan.notes),
            *matches_of(matches, session.now),
        )
    # Without a question nothing was said of what it matches.
    show = partial(_show_added, now=session.now if yes else None)
    return Reply(editor.write(plan, matches), show)


def disable(
    session: Session,
    rule_id: RuleId,
    pipeline: WhosePipeline = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[RuleRevision]:
    """Disable a rule, within a minute; it stays in the table.

    Messages that it holds come due. dlq rules enable undoes it.
    """
    editor = RuleEditor(session, pipeline, rule_id)
    rule = editor.find(rule_id)
    why = asking.reason(reason, "A rule")
    if not yes:
        asking.confirm(session, f"Disable rule {rule_id} of {everywhere(editor.key)}.")
    return Reply(editor.disable(rule, why), partial(show_change, what="disabled"))


def enable(
    session: Session,
    rule_id: RuleId,
    pipeline: WhosePipeline = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[RuleRevision]:
    """Enable a disabled rule, within a minute.

    A rule that would be INVALID, or make another rule INVALID, stays disabled.
    """
    editor = RuleEditor(session, pipeline, rule_id)
    rule = editor.find(rule_id)
    editor.check_enabled(rule)
    why = asking.reason(reason, "A rule")
    if not yes:
        asking.confirm(session, f"Enable rule {rule_id} of {everywhere(editor.key)}.")
    return Reply(editor.enable(rule, why), partial(show_change, what="enabled"))


def _end(given: str | None, now: datetime) -> str | None:
    """When a rule ends, in ISO 8601; None for never."""
    at = asking.end_or_never(given, now, "the rule")
    return None if at is None else _iso(at)


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _number(given: float | None) -> str | int | None:
    """The number as a table and an audit record keep it: a fraction is text."""
    if given is None or given.is_integer():
        return None if given is None else int(given)
    return f"{given:.15g}"


def _until(rule: Rule, now: datetime) -> str:
    text = "only counting (shadow)" if rule.mode is RuleMode.SHADOW else "enforced"
    if rule.max_matches is not None:
        # A chunk of up to 100 is counted in one step while the count is below the limit.
        text += f", for {count(rule.max_matches, 'message')} (up to 99 more if runs overlap)"
    if rule.expires_at is None:
        return f"{text}, without an end"
    end = datetime.fromtimestamp(rule.expires_at, UTC)
    return f"{text}, until {clock(end, now)} (in {duration((end - now).total_seconds())})"


def _differences(plan: PlannedRule) -> Iterator[str]:
    if plan.before is not None:
        before, after = map(rule_table.canonical, (plan.before.columns, plan.columns))
        for change in rule_text.changes(before, after):
            yield f"  {change}"


def _note(note: str) -> str:
    return f"Note: {note}"


# Pipelines of which each is told; of more, only those with something to say are.
_MOST_PIPELINES = 5


def matches_of(matches: Sequence[RuleMatches], now: datetime) -> Iterator[str]:
    """What a rule matches in each pipeline, by the failure records."""
    yield from _in_each(matches, now)
    if any(each.problem is None and (each.untold or not each.here) for each in matches):
        yield "dlq rules test tries it on messages of the DLQ; SQS counts it as a receive of each."


def _in_each(matches: Sequence[RuleMatches], now: datetime) -> Iterator[str]:
    if len(matches) == 1:
        yield from on_record(matches[0], now)
        return
    told = [each for each in matches if each.matched or each.problem][:_MOST_PIPELINES]
    for each in told:
        yield from on_record(each, now, f"in {each.pipeline}")
    rest = [each for each in matches if each not in told]
    of = f"{sum(each.matched for each in rest):,} of {sum(each.here for each in rest):,}"
    yield f"In {count(len(rest), 'other pipeline')}: {of}. --json has each."


def _show_added(change: AddedRule, now: datetime | None) -> Iterator[Block]:
    """The new rule, with what it matches `now`."""
    yield from show_change(change, "replaced" if change.before else "added")
    if now is not None:
        yield from (line(Styled(_note(note), "alarm")) for note in change.notes)
        yield from map(line, matches_of(change.matches, now))


def show_change(change: RuleRevision, what: str) -> Iterator[Block]:
    """That a rule was changed, and what was done to it."""
    yield line(
        Styled(f"Rule {change.rule_id} of {everywhere(change.pipeline)} {what}", "strong"),
        f" in account {change.account}, {change.region}",
    )
    yield line("In effect within a minute, for messages that wait too: see dlq rules list.")
