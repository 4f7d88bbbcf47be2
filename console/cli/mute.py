"""`dlq mute`: a pipeline's alarms page nobody for a while, and it ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

import typer

from ..operations.mutes import AlarmMute, Mutes, PipelineMute, length_of
from ..operations.problem import Cause, Problem
from ..operations.session import Session
from ..operations.words import clock, count, duration
from . import asking
from .asking import Reason
from .command import OnePipeline, PipelineArgument, command, one_pipeline, plain_typer
from .output import Block, Reply, Styled, line

typer_app = plain_typer()

Length = Annotated[
    str | None,
    typer.Option("--for", metavar="LENGTH", help="How long: 30m, 2h, 3d; 1m to 15d."),
]
End = Annotated[
    bool, typer.Option("--end", help="End the mute now; what is in ALARM pages at once.")
]


@command(
    typer_app,
    "mute",
    example=[
        'dlq mute orders --for 2h --reason "the bank moves its data centre"',
        "dlq mute orders",
        "dlq mute orders --end",
    ],
)
def mute(
    session: Session,
    argument: PipelineArgument = None,
    pipeline: OnePipeline = None,
    length: Length = None,
    reason: Reason = None,
    end: End = False,
) -> Reply[PipelineMute]:
    """Mute a pipeline's alarms for a while; it ends by itself.

    The alarms go on watching and change their states, but page nobody. It begins at the next
    full minute; an alarm that is in ALARM when it ends pages. A second mute replaces the first.
    Without options, it says whether the alarms are muted, why and by whom.

    It is a mute rule of CloudWatch. Where CloudWatch does not know them (an old region, an
    emulator), dlq refuses with exit status 1, and changes nothing.
    """
    if end and (length is not None or reason is not None):
        raise Problem("--end takes neither --for nor --reason.", Cause.INPUT)
    if length is None and reason is not None:
        raise Problem("Say how long: add --for 2h.", Cause.INPUT)
    mutes = Mutes(session, one_pipeline(argument, pipeline))
    if end:
        return Reply(mutes.end(), _show_ended)
    if length is None:
        return Reply(mutes.show(), _show)
    length_of(length)
    return Reply(mutes.begin(length, asking.reason(reason, "A mute")), _show)


def _show(answer: PipelineMute) -> Iterator[Block]:
    name = Styled(answer.pipeline, "strong")
    where = f" in account {answer.account}, {answer.region}"
    if answer.mute is None:
        yield line(name, where, ": its alarms are not muted.")
        return
    yield line(name, where, ": ", Styled(_stands(answer, answer.mute), "alarm"))
    yield line(f"Why: {answer.mute.description}", indent=2)
    yield line(f"Muted: {', '.join(answer.mute.alarms)}", indent=2)
    if answer.mute.status != "EXPIRED":
        yield line(f"To end it now: dlq mute {answer.pipeline} --end", indent=2)


def _stands(answer: PipelineMute, mute: AlarmMute) -> str:
    alarms = count(len(mute.alarms), "alarm")
    until = "without a known end" if mute.until is None else f"until {clock(mute.until, answer.at)}"
    match mute.status:
        case "EXPIRED":
            return f"the mute of {alarms} is over."
        case "SCHEDULED" if mute.begins is not None:
            return f"{alarms} muted from {clock(mute.begins, answer.at)} {until}."
        case _:
            left = (
                ""
                if mute.until is None
                else f", for another {duration((mute.until - answer.at).total_seconds())}"
            )
            return f"{alarms} muted {until}{left}."


def _show_ended(answer: PipelineMute) -> Iterator[Block]:
    name = Styled(answer.pipeline, "strong")
    where = f" in account {answer.account}, {answer.region}"
    if answer.before is None:
        yield line(name, where, ": its alarms were not muted.")
    else:
        yield line(name, where, ": the mute is over; what is in ALARM pages now.")
