"""`dlq replay plan` and `start`: what a run would do, and its start once a person has seen it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from deadletter.contract import MAIN_DLQ, Reason
from deadletter.replay.plan import DELIVER, LANE, MAIN_QUEUE

from ..operations import replay_draft_file
from ..operations.duration import seconds
from ..operations.private_file import must_be_new
from ..operations.problem import Cause, Problem
from ..operations.replay_draft_file import FiledPlan
from ..operations.replay_pace import canary_steps
from ..operations.replay_plan import (
    CauseCount,
    NameCount,
    PlanRequest,
    ReplayForecast,
    draft,
)
from ..operations.replay_start import Drift, ReplayStarted, drift, start, started_before
from ..operations.session import Session
from ..operations.words import clock, count, duration
from . import asking, replay_options
from .asking import OptionalWhy, Yes
from .command import OnePipeline
from .output import Block, Line, Reply, Styled, TextTable, line
from .replay_options import (
    AcceptCollision,
    Causes,
    Ids,
    Include,
    Pattern,
    Rate,
    Reasons,
    Since,
    Tenants,
    Until,
    Where,
    Why,
)
from .text_file import read_text

Source = Annotated[
    str,
    typer.Option(
        "--source",
        metavar="ID",
        help="dlq, a dedicated DLQ's id, parked or parking:<id> (also what was moved from there "
        "into the waiting room), or lane:<name> of the waiting room.",
    ),
]
To = Annotated[
    str,
    typer.Option(
        "--to",
        metavar="ID",
        help=f"{MAIN_QUEUE}; {DELIVER} (to the consumer function); or a dedicated DLQ's id.",
    ),
]
Look = Annotated[
    bool,
    typer.Option("--look", help="Receive the letters of a DLQ to count them; gives them back."),
]
Canary = Annotated[
    str | None,
    typer.Option("--canary", metavar="N,N,…", help="Letters of the first steps; 1,2,5,20."),
]
StopOnFailure = Annotated[
    bool,
    typer.Option(
        "--stop-on-failure", help="An ordering key stops at a failed letter, in order behind it."
    ),
]
Approve = Annotated[
    bool, typer.Option("--approve", help="A person has to approve the snapshot before it sends.")
]
Expires = Annotated[
    str | None,
    typer.Option("--expires", metavar="TIME", help="Abort an unfinished run after 4h, 2d; 7d."),
]
Out = Annotated[
    str | None,
    typer.Option("--out", metavar="FILE", help="A new file, for dlq replay start --plan."),
]
PlanFile = Annotated[
    str, typer.Option("--plan", metavar="FILE", help="What dlq replay plan --out wrote.")
]
OnlyCounted = Annotated[
    bool,
    typer.Option(
        "--only-counted", help="Start although letters came or went: with those counted, if there."
    ),
]


def plan(
    session: Session,
    pipeline: OnePipeline = None,
    source: Source = MAIN_DLQ,
    id_: Ids = None,
    cause: Causes = None,
    reason: Reasons = None,
    tenant: Tenants = None,
    since: Since = None,
    until: Until = None,
    pattern: Pattern = None,
    jmespath: Where = None,
    include: Include = None,
    to: To = MAIN_QUEUE,
    look: Look = False,
    rate: Rate = None,
    canary: Canary = None,
    stop_on_failure: StopOnFailure = False,
    approve: Approve = False,
    accept_collision: AcceptCollision = False,
    expires: Expires = None,
    why: Why = None,
    out: Out = None,
) -> Reply[ReplayForecast]:
    """Count what a replay run would take, and say what to think about. Nothing is moved.

    A DLQ is counted from the ledger, which knows causes and attempts; --look receives its
    letters once, and then tenants, ordering keys and filters over the body are known too.
    A FIFO DLQ needs --look.

    The rate is 15 % of what the main queue usually has deleted. With --out the plan is
    written into a file, and needs a reason: dlq replay start --plan starts it.
    """
    if out is not None:
        # Before minutes of counting.
        must_be_new(Path(out))
        why = asking.reason(why, "A plan", option="--why")
    request = PlanRequest(
        pipeline=pipeline,
        source=source,
        selection=replay_options.selection(
            session,
            ids=id_,
            causes=cause,
            reasons=reason,
            tenants=tenant,
            since=since,
            until=until,
            pattern=pattern,
            where=jmespath,
            include=include,
        ),
        destination=to,
        look=look,
        rate=rate,
        canary=None if canary is None else _canary(canary),
        stop_on_failure=stop_on_failure,
        approve=approve,
        accept_collision=accept_collision,
        expires=None if expires is None else seconds(expires),
        why=why or "",
    )
    made = draft(session, request, replay_options.progress)
    replay_options.end_progress()
    forecast = made.forecast
    if out is not None and forecast.letters:
        replay_draft_file.write(out, replay_draft_file.filed(made, look=look))
        forecast = replace(forecast, file=out)
    return Reply(forecast, show_forecast)


def _canary(text: str) -> tuple[int, ...]:
    try:
        return canary_steps(text, ())
    except ValueError as error:
        raise Problem(
            f"--canary takes numbers of letters, such as 1,2,5,20, not {text!r}.", Cause.INPUT
        ) from error


def start_(
    session: Session,
    plan: PlanFile,
    only_counted: OnlyCounted = False,
    why: OptionalWhy = None,
    yes: Yes = False,
) -> Reply[ReplayStarted]:
    """Start the replay run that dlq replay plan --out has written down.

    The letters are counted again, as they were for the plan. If letters came or went, or
    the consumer or the circuit has changed, nothing is started: plan again, or add
    --only-counted. Only letters that were counted for the plan ever join the run.

    Starting one plan twice finds the first run. The exit status is 1 if nothing was started.
    """
    because = asking.why(why)
    filed = replay_draft_file.read(read_text(plan))
    if started_before(session, filed):
        return Reply(start(session, filed.plan, filed.origins, why=because), _show_started)
    changes = drift(session, filed, replay_options.progress)
    replay_options.end_progress()
    if changes.sentences and not only_counted:
        raise Problem(_drifted(filed, changes, plan), Cause.FAILED)
    if not yes:
        asking.confirm(session, *_question(filed, changes, session.now))
    return Reply(start(session, filed.plan, filed.origins, why=because), _show_started)


def _drifted(filed: FiledPlan, changes: Drift, path: str) -> str:
    plan = filed.plan
    again = (
        f"Nothing was started, because this is not what the plan has counted. "
        f"{' '.join(changes.sentences)} Plan again: dlq replay plan --pipeline {plan.pipeline} "
        f"--source {plan.source} … --out FILE."
    )
    if not changes.there:
        return f"{again} See where letters are: dlq status --pipeline {plan.pipeline}."
    there = count(changes.there, changes.noun)
    return (
        f"{again} Or start with the {there} that were counted and are still there: "
        f"dlq replay start --plan {path} --only-counted."
    )


def _question(filed: FiledPlan, changes: Drift, now: datetime) -> Iterator[str]:
    plan = filed.plan
    yield (
        f"Start replay run {plan.run_id} of {plan.pipeline}: "
        f"{count(changes.there, changes.noun)} from {plan.source} to {plan.destination}."
    )
    canaries = ", ".join(map(str, plan.canary)) or "no canary"
    yield f"First {canaries}; then up to {plan.rate:g} letters/s. Planned by {plan.who}: {plan.why}"
    for says in changes.sentences:
        yield f"Note: {says}"


def _show_started(answer: ReplayStarted) -> Iterator[Block]:
    run = answer.run
    what = "had been started before; it is" if answer.again else "is started:"
    yield line(
        Styled(f"Replay run {run.run} of {run.pipeline}", "strong"),
        f" in account {answer.account}, {answer.region} {what} {run.state}",
    )
    yield line(f"Follow it: dlq show {run.run} --watch")
    yield line(f"Stop it:   dlq run hold {run.run}")


def show_forecast(forecast: ReplayForecast) -> Iterator[Block]:
    """A plan for a person: what, what is left out, how fast, and what to think about."""
    now = forecast.at
    yield line(
        Styled(f"Replay plan for {forecast.pipeline}", "strong"),
        f" in account {forecast.account}, {forecast.region}: {forecast.source} to "
        f"{forecast.destination}",
    )
    yield line(_letters(forecast))
    if forecast.left_out:
        more = "; --include takes them" if _includable(forecast) else ""
        yield line(f"Left out: {_numbers(forecast.left_out)}{more}.")
    if not forecast.letters:
        yield line("There is nothing to replay, and no plan is written.")
        yield from _without_letters(forecast)
        return
    yield Line()
    yield TextTable(
        (">LETTERS", "CAUSE", "CATEGORY", "ERROR", "LAST FAILED"),
        [_cause(cause, now) for cause in forecast.causes],
    )
    yield Line()
    if forecast.by_ledger:
        yield line("Tenants and ordering keys are not in the ledger: --look counts them too.")
    else:
        yield TextTable((">LETTERS", "TENANT"), [_name(row) for row in forecast.tenants])
    if forecast.keys:
        yield Line()
        yield line(f"{count(forecast.ordering_keys, 'ordering key')}; the longest:")
        yield TextTable((">LETTERS", "ORDERING KEY"), [_name(row) for row in forecast.keys[:5]])
    yield Line()
    yield from _facts(forecast, now)
    for warning in forecast.warnings:
        yield line(Styled("! ", "alarm"), warning)
    yield Line()
    if forecast.file is None:
        yield line('To start it: add --out plan.json --why "…"; then dlq replay start --plan …')
    else:
        yield line(f"Start it: dlq replay start --plan {forecast.file}")


def _includable(forecast: ReplayForecast) -> bool:
    """Whether a person may have the run take letters that are left out.

    A body that the pipeline's JSON Schema refuses is not sent at all, nor is an expired letter.
    """
    return bool(set(forecast.left_out) - {"SCHEMA", Reason.EXPIRED})


def _without_letters(forecast: ReplayForecast) -> Iterator[Block]:
    """Where to look when nothing is chosen."""
    about = f"--pipeline {forecast.pipeline}"
    if _includable(forecast):
        yield line("To take those that are left out: --include REASON, as listed above.")
    elif forecast.others:
        yield line(f"See what is there: dlq replay plan {about} --source {forecast.source}")
    if forecast.by_ledger and forecast.in_queue:
        yield line(
            f"SQS estimates {count(forecast.in_queue, 'letter')} in the queue: --look counts "
            "those that died without a record."
        )
    yield line(f"See where letters are: dlq status {about}")


def _letters(forecast: ReplayForecast) -> str:
    others = f"; not chosen: {forecast.others:,}" if forecast.others else ""
    groups = f" in {count(forecast.groups, 'FIFO group')}" if forecast.groups is not None else ""
    return f"{count(forecast.letters, 'letter')}{groups}{others}."


def _numbers(letters: Mapping[str, int]) -> str:
    return ", ".join(f"{number:,} {name}" for name, number in letters.items())


def _cause(cause: CauseCount, now: datetime) -> tuple[str, ...]:
    return (
        f"{cause.letters:,}",
        cause.cause or "none on record",
        cause.category,
        cause.error_type,
        clock(cause.last_failed, now) if cause.last_failed else "",
    )


def _name(row: NameCount) -> tuple[str, str]:
    return f"{row.letters:,}", row.name or "none"


def _expiry(forecast: ReplayForecast, now: datetime) -> str:
    """When SQS deletes the first letter, and which."""
    oldest = f"letter {forecast.oldest}" if forecast.oldest else "the oldest letter"
    if forecast.first_expiry is not None:
        left = duration((forecast.first_expiry - now).total_seconds())
        return f"{oldest}, at {clock(forecast.first_expiry, now)}, in {left}"
    if forecast.source.startswith(LANE):
        return "nothing: the waiting room keeps letters"
    return f"{oldest}; when is unknown until the watch has looked"


def _facts(forecast: ReplayForecast, now: datetime) -> Iterator[Block]:
    canaries = ", ".join(map(str, forecast.canary)) or "none"
    changed = forecast.consumer_changed
    facts = {
        "attempts so far": ", ".join(
            f"{count(number, 'letter')} with {attempts}"
            for attempts, number in forecast.attempts.items()
        ),
        "parked for": _numbers(forecast.reasons),
        "rate": f"{forecast.rate:g} letters/s: {forecast.rate_because}",
        "canaries": canaries,
        "takes about": f"{duration(forecast.seconds)}, {count(forecast.workers, 'worker')}",
        "approval": "a person has to approve it" if forecast.approval else "",
        "expires first": _expiry(forecast, now),
        "failed in": _numbers(forecast.failed_in),
        "consumer": forecast.consumer_version,
        "consumer changed": f"{clock(changed, now)}; {forecast.failed_since:,} failed after it"
        if changed
        else "",
    }
    yield TextTable((), [(f"  {name}", fact) for name, fact in facts.items() if fact])
