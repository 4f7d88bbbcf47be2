"""`dlq cause`: errors that suddenly fail most messages, and what to do with their letters."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.causes import (
    HELD,
    CauseChange,
    CauseRow,
    CauseSwitch,
)
from ..operations.session import Session
from ..operations.words import clock
from . import asking
from .asking import Reason, Yes
from .command import OnePipeline, command, group
from .output import Block, Reply, Styled, line

typer_app = group("Sudden causes: one error that fails most messages, and its letters.")

Fingerprint = Annotated[
    str, typer.Argument(metavar="FINGERPRINT", help="The cause, as `groups` names it.")
]


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
