"""`dlq rules add` and `disable`: one rule changed, by somebody, for a reason."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import typer

from deadletter.contract import EVERY_PIPELINE, MAIN_DLQ
from deadletter.rules.rule import Action, Rule, RuleMode
from deadletter.settings.pipeline import Pipeline as Terms

from ..operations import deployed, letters, rule_table
from ..operations.app import App, DeployedPipeline
from ..operations.aws import side_by_side
from ..operations.duration import seconds
from ..operations.problem import Exit, Problem
from ..operations.rule_table import RuleTableChange, Stored
from . import asking, rule_text, rule_trial
from .command import Session
from .output import Block, CommandResult, Reply, Styled, clock, count, duration, line
from .rule_words import Pattern, Tenant, Where, words

RuleId = Annotated[str, typer.Argument(metavar="RULE_ID", help="Its id, in metrics and stamps.")]
OnPipeline = Annotated[
    str | None,
    typer.Option(
        "--pipeline",
        metavar="NAME",
        help="The pipeline, or '*' for all; needed if the app has several.",
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
MaxMatches = Annotated[
    int | None,
    typer.Option("--max-matches", metavar="N", help="Stop acting after so many letters."),
]
Reason = Annotated[
    str | None, typer.Option("--reason", metavar="TEXT", help="Why; asked for if not given.")
]
Ticket = Annotated[
    str | None, typer.Option("--ticket", metavar="TEXT", help="Where that is discussed.")
]
Replace = Annotated[bool, typer.Option("--replace", help="In the place of the rule of that id.")]
Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Don't ask; needed where nobody can be asked.")
]


@dataclass(frozen=True, slots=True)
class Edited(CommandResult):
    """What `dlq rules add` and `dlq rules disable` answer."""

    pipeline: Annotated[str, "the key it is stored under: a pipeline, or `*` for all"]
    rule_id: Annotated[str, "id of the rule"]
    rule: Annotated[Mapping[str, Any], "its columns as they stand in the table now"]
    before: Annotated[Mapping[str, Any] | None, "its columns as they were; null if it is new"]


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
    policy: Policy = None,
    priority: Priority = None,
    mode: Mode = None,
    expires: Expires = None,
    max_matches: MaxMatches = None,
    reason: Reason = None,
    ticket: Ticket = None,
    replace: Replace = False,
    yes: Yes = False,
) -> Reply[Edited]:
    """Add a rule, in effect within a minute.

    A rule that would be INVALID, or make another one so, is not written. Before it is,
    you see in which account and region it would be, and how many letters sampled from
    the DLQ it would match, and are asked. What is not said on the command line and has
    to be (a reason, an end) is asked for too.

    Your caller identity is written down as `created_by`. With --yes, nothing is asked
    and no letter is looked at.
    """
    app = session.app()
    key, places = deployed.scope(app, pipeline)
    why = asking.reason(reason, "A rule")
    columns = {
        "pipeline": key,
        "rule_id": rule_id,
        "action": action.strip().upper(),
        **words(tenant, where, pattern),
        "delay_seconds": None if delay is None else seconds(delay),
        "queue": queue,
        "policy": policy,
        "priority": priority,
        "mode": mode,
        "expires_at": _end(expires, session.now),
        "max_matches": max_matches,
        "reason": why,
        "ticket": ticket,
        "created_by": session.aws.caller,
    }
    columns = {name: value for name, value in columns.items() if value is not None}
    table = rule_table.table(session.aws, app.rules_table)
    stored = table.read()
    before = _find(stored, key, rule_id)
    if before is not None and not replace:
        raise Problem(
            f"There is a rule {rule_id!r} for {_everywhere(key)} already: add --replace, "
            "or choose another id.",
            Exit.ATTENTION,
        )
    rule = _checked(stored, before, columns, [deployed.terms(one) for one in places])
    if not yes:
        session.agreed(
            f"{'Replace' if before else 'Add'} rule {rule_id} of {_everywhere(key)}: "
            f"{rule_text.sentence(rule)}, {_until(rule, session.now)}.",
            *(_differences(before, columns) if before else ()),
            *_foretold(session, app, places, columns),
        )
    try:
        table.put(columns, before)
    except RuleTableChange as error:
        raise _raced(rule_id) from error
    return Reply(_edited(session, key, rule_id, columns, before), _show_added)


def disable(
    session: Session,
    rule_id: RuleId,
    pipeline: OnPipeline = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[Edited]:
    """Switch a rule off, within a minute; it stays in the table.

    Letters that it holds come due. To switch it on again, set `enabled` to true in the
    table, or write it anew with add --replace.
    """
    app = session.app()
    key, _ = deployed.scope(app, pipeline)
    table = rule_table.table(session.aws, app.rules_table)
    stored = table.read()
    before = _find(stored, key, rule_id)
    if before is None:
        raise Problem(_no_such_rule(stored, key, rule_id), Exit.ABSENT)
    why = _off(asking.reason(reason, "A rule"), session.aws.caller, before.columns.get("reason"))
    if not yes:
        session.agreed(f"Disable rule {rule_id} of {_everywhere(key)}.")
    try:
        table.disable(before, why)
    except RuleTableChange as error:
        raise _raced(rule_id) from error
    after = {**before.columns, "enabled": False, "reason": why}
    return Reply(_edited(session, key, rule_id, after, before), _show_disabled)


def _find(stored: Sequence[Stored], key: str, rule_id: str) -> Stored | None:
    return next((one for one in stored if (one.pipeline, one.rule_id) == (key, rule_id)), None)


def _no_such_rule(stored: Sequence[Stored], key: str, rule_id: str) -> str:
    elsewhere = [one.pipeline for one in stored if one.rule_id == rule_id]
    if elsewhere:
        return (
            f"There is no rule {rule_id!r} of {_everywhere(key)}, but one of "
            f"{' and of '.join(map(_everywhere, elsewhere))}: add --pipeline '{elsewhere[0]}'."
        )
    return f"There is no rule {rule_id!r} of {_everywhere(key)}: see dlq rules list."


def _everywhere(key: str) -> str:
    return "every pipeline" if key == EVERY_PIPELINE else key


def _end(given: str | None, now: datetime) -> str | None:
    """When a rule ends, in ISO 8601; None for never."""
    at = asking.end_or_never(given, now, "the rule")
    return None if at is None else at.isoformat(timespec="seconds").replace("+00:00", "Z")


def _checked(
    stored: Sequence[Stored],
    before: Stored | None,
    columns: Mapping[str, Any],
    pipelines: Sequence[Terms],
) -> Rule:
    """The rule, valid in all these pipelines and a harm to no other; else Problem."""
    others = [one.columns for one in stored if one is not before]
    new = [*others, columns]
    if not pipelines:
        raise Problem("The app has no pipeline yet: deploy one.", Exit.ABSENT)
    for one in pipelines:
        for refused in rule_table.spoilt(others, new, one):
            raise Problem(
                f"Nothing was written: rule {refused.rule_id} would be INVALID in {one.name}: "
                f"{refused.why}.",
                Exit.ATTENTION,
            )
    return rule_table.book(new, pipelines[0]).rules[str(columns["rule_id"])]


def _until(rule: Rule, now: datetime) -> str:
    said = "only counting (shadow)" if rule.mode is RuleMode.SHADOW else "enforced"
    if rule.max_matches is not None:
        said += f", for at most {count(rule.max_matches, 'letter')}"
    if rule.expires_at is None:
        return f"{said}, without an end"
    end = datetime.fromtimestamp(rule.expires_at, UTC)
    return f"{said}, until {clock(end, now)} (in {duration((end - now).total_seconds())})"


def _differences(before: Stored, columns: Mapping[str, Any]) -> Iterator[str]:
    for one in rule_text.changes(rule_table.told(before.columns), rule_table.told(columns)):
        yield f"  {one}"


def _foretold(
    session: Session, app: App, pipelines: Sequence[DeployedPipeline], columns: Mapping[str, Any]
) -> Sequence[str]:
    """What the rule would match now, a line a pipeline. What can't be sampled stops nothing."""
    aws = session.aws
    _ = aws.sqs, aws.dynamodb, aws.lambda_  # made before there are threads

    def sample(one: DeployedPipeline) -> str:
        found = letters.sampled(aws.sqs, one, MAIN_DLQ, rule_trial.SAMPLE, session.clock)
        if not found.letters:
            return f"No letter in the DLQ of {one.name} to try it on."
        outcome = rule_trial.tried(session, app, one, columns, found)
        said = rule_trial.says(len(outcome.matching), len(found.letters), "the DLQ")
        return f"{said} of {one.name}."

    said: list[str] = []

    def lost(name: str, why: Problem) -> None:
        said.append(f"Can't sample the DLQ of {name}: {why.says}")

    with side_by_side() as start:
        begun = [(one.name, start(partial(sample, one))) for one in pipelines]
        for name, read in begun:
            found = read.result(partial(lost, name))
            if found is not None:
                said.append(found)
    return said


def _raced(rule_id: str) -> Problem:
    return Problem(
        f"Somebody else has just changed rule {rule_id}, so nothing was written: look again.",
        Exit.ATTENTION,
    )


def _off(why: str, who: str, before: object) -> str:
    """The new reason. The table has no other place for who switched a rule off, and why."""
    said = f"{why} (disabled by {who}; before: {before or 'no reason given'})"
    return said if len(said) <= asking.MAX_REASON else f"{said[: asking.MAX_REASON - 1]}…"


def _edited(
    session: Session,
    key: str,
    rule_id: str,
    after: Mapping[str, Any],
    before: Stored | None,
) -> Edited:
    return Edited(
        session.aws.account,
        session.aws.region,
        session.app_name,
        key,
        rule_id,
        rule_table.told(after),
        rule_table.told(before.columns) if before else None,
    )


def _show_added(found: Edited) -> Iterator[Block]:
    yield _headline(found, "replaced" if found.before else "added")
    yield line("In effect within a minute: see dlq rules list.")


def _show_disabled(found: Edited) -> Iterator[Block]:
    yield _headline(found, "disabled")
    yield line("Without effect within a minute: see dlq rules list.")


def _headline(found: Edited, what: str) -> Block:
    return line(
        Styled(f"Rule {found.rule_id} of {_everywhere(found.pipeline)} {what}", "strong"),
        f" in account {found.account}, {found.region}",
    )
