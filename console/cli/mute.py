"""`dlq mute`: a pipeline's alarms page nobody for a while, and it ends by itself."""

from __future__ import annotations

from collections.abc import Iterator
from shlex import quote

from ..operations.mutes import VERB, AlarmMute, PipelineMute
from ..operations.words import clock, count, duration
from .output import Block, Styled, line, typed
from .verb import VerbView


def _show(answer: PipelineMute) -> Iterator[Block]:
    name = Styled(answer.pipeline, "strong")
    where = f" in account {answer.account}, {answer.region}"
    if answer.mute is None and answer.before is not None:
        yield line(name, where, ": the mute is over; what is in ALARM pages now.")
        return
    if answer.mute is None:
        yield line(name, where, ": its alarms are not muted.")
        return
    yield line(name, where, ": ", Styled(_stands(answer, answer.mute), "alarm"))
    yield line(f"Why: {answer.mute.description}", indent=2)
    yield line(f"Muted: {', '.join(answer.mute.alarms)}", indent=2)
    if answer.mute.status != "EXPIRED":
        yield line("To end it now:", indent=2)
        yield from typed(f"dlq mute {quote(answer.pipeline)} --end", 4)


def _stands(answer: PipelineMute, mute: AlarmMute) -> str:
    alarms = count(len(mute.alarms), "alarm")
    until = "without a known end" if mute.until is None else f"until {clock(mute.until, answer.at)}"
    match mute.status:
        case "EXPIRED":
            return f"the mute of {alarms} is over."
        case "SCHEDULED" if mute.begins is not None:
            return f"{alarms} muted from {clock(mute.begins, answer.at)} {until}."
        case _:
            left = "" if mute.until is None else f", for another {duration(mute.until - answer.at)}"
            return f"{alarms} muted {until}{left}."


VIEWS = (VerbView(VERB, _show),)
