"""`dlq cause`: errors that suddenly fail most messages, and what to do with their letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.causes import (
    HELD,
    CauseChange,
    CauseList,
    CauseRow,
    CauseSwitch,
    list_causes,
)
from ..operations.session import Session
from ..operations.words import clock, duration
from . import asking
from .asking import Reason, Yes
from .command import OnePipeline, PipelineArguments, SomePipelines, command, group, some_pipelines
from .exit import Exit
from .output import Block, Reply, Styled, TextTable, line

typer_app = group("Sudden causes: one error that fails most messages, and its letters.")

Fingerprint = Annotated[
    str, typer.Argument(metavar="FINGERPRINT", help="The cause, as `cause list` names it.")
]


Check = Annotated[bool, typer.Option("--check", help="Exit with 1 if a cause is held.")]


@command(typer_app, "list", example=["dlq cause list", "dlq cause list orders"])
def list_(
    session: Session,
    pipelines: PipelineArguments = None,
    pipeline: SomePipelines = None,
    check: Check = False,
) -> Reply[CauseList]:
    """List the causes that suddenly dominate, and what people decided within the last day.

    A cause is held if within 5 minutes at least 20 letters failed for it, more than all else,
    and next to none in the hour before: then a deployment or a dependency has changed, not the
    messages. No letter is parked for it: its letters are tried again about every three minutes. The
    hold ends ten minutes after its last failure. With --check the exit status is 1 if a cause is
    held.
    """
    answer = list_causes(session, some_pipelines(pipelines, pipeline))
    is_held = any(cause.state == HELD for cause in answer.causes)
    return Reply(answer, _show_list, Exit.ATTENTION if check and is_held else Exit.DONE)


@command(
    typer_app,
    "park",
    example=['dlq cause park 0123456789abcdef --reason "a producer sent 400 empty orders"'],
)
def park(
    session: Session,
    fingerprint: Fingerprint,
    pipeline: OnePipeline = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[CauseChange]:
    """Let letters be parked for a cause as ever, for a day.

    For messages that are wrong indeed, and will not be processed.
    """
    switch = CauseSwitch(session, pipeline, fingerprint)
    why = _reason(session, switch, reason, "Park the letters of", yes)
    return Reply(switch.park(switch.caller, why), _show_changed)


@command(
    typer_app,
    "retry",
    example=['dlq cause retry 0123456789abcdef --reason "rolled back to 41" --yes'],
)
def retry(
    session: Session,
    fingerprint: Fingerprint,
    pipeline: OnePipeline = None,
    reason: Reason = None,
    yes: Yes = False,
) -> Reply[CauseChange]:
    """Take a decision to park back, and end the hold of a cause that is mended.

    The cause is counted anew. Its letters come back by themselves, whether or not this is said.
    """
    switch = CauseSwitch(session, pipeline, fingerprint)
    why = _reason(session, switch, reason, "Count anew", yes)
    return Reply(switch.retry(switch.caller, why), _show_changed)


def _reason(
    session: Session, switch: CauseSwitch, reason: str | None, what: str, confirmed: bool
) -> str:
    """Why the caller decides; asks for it, and for a confirmation, where they are not given."""
    why = asking.reason(reason, "A decision about a cause")
    if not confirmed:
        before = switch.before
        question = f"{what} cause {switch.fingerprint} of {switch.pipeline}."
        error = f", {before.error_type}" if before.error_type else ""
        asking.confirm(session, question, f"It is {before.state} now{error}.")
    return why


def _show_list(answer: CauseList) -> Iterator[Block]:
    if not answer.causes:
        yield line("No cause dominates, and none did within the last day.")
        return
    headings = ("PIPELINE", "CAUSE", "STATE", "ERROR", "SINCE", "UNTIL", "BY")
    rows = []
    for cause in answer.causes:
        since = duration((answer.at - cause.since).total_seconds()) if cause.since else ""
        until = clock(cause.until, answer.at) if cause.until else ""
        by = f"{cause.by}: {cause.reason}" if cause.by else ""
        state = _state(cause)
        rows.append((cause.pipeline, cause.fingerprint, state, cause.error_type, since, until, by))
    yield TextTable(headings, rows)


def _state(cause: CauseRow) -> Styled:
    return Styled(cause.state, "alarm" if cause.state == HELD else "good")


def _show_changed(change: CauseChange) -> Iterator[Block]:
    after = change.after
    yield line(
        Styled(f"Cause {after.fingerprint} of {after.pipeline}", "strong"),
        f" in account {change.account}, {change.region}: {change.before.state} → ",
        _state(after),
    )
    if after.until is not None and after.until > change.at:
        yield line(f"until {clock(after.until, change.at)}", indent=2)
    yield line(f"by {after.by}: {after.reason}", indent=2)
