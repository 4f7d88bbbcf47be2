"""The alarms of a pipeline: which of them ring, why, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from deadletter.contract import Mode
from deadletter.signals.pages import Alarm

from .words import clock, duration

if TYPE_CHECKING:
    from .status import AlarmState, PipelineStatus

_STEPS: Mapping[Alarm, str] = {
    Alarm.DLQ_AGE: "dlq groups {}",
    Alarm.MESSAGE_AGE: "dlq groups {}",
    Alarm.MESSAGE_EXPIRY: "dlq redrive now --pipeline {}",
    Alarm.DLQ_DEPTH: "dlq groups {}",
    Alarm.REDRIVE_STALLED: "dlq redrive now --pipeline {}",
    Alarm.CIRCUIT_TROUBLE: "dlq circuit list --pipeline {}",
    Alarm.PARKED_UNATTENDED: "dlq parked list {}",
    Alarm.RULE_TROUBLE: "dlq rules list {}",
    Alarm.REPLAY_BROKEN: "dlq replay list {}",
}
"""What to type after `dlq status`."""


def step(alarm: Alarm, pipeline: str, mode: str = Mode.ENFORCE) -> str:
    """The next command for one of the nine alarms of a pipeline."""
    if alarm is Alarm.MESSAGE_EXPIRY and mode == Mode.OBSERVE:
        # A run would move nothing; what helps is a longer retention.
        return f"dlq show {pipeline}"
    return _STEPS[alarm].format(pipeline)


def ringing(pipeline: PipelineStatus, now: datetime) -> Iterator[tuple[str, str]]:
    """What rings, each with why and since when; then what is about to ring, or is muted.

    A sentence has the kind ALARM or TROUBLE.
    """
    why = {Alarm(trouble.alarm): trouble for trouble in pipeline.troubles}
    rings: set[Alarm | None] = set()
    for alarm in pipeline.alarms:
        name = known(alarm)
        rings.add(name)
        ago = duration((now - alarm.since).total_seconds())
        text = f"{alarm.name} is in ALARM since {clock(alarm.since, now)}, {ago} ago"
        if name is not None and name in why:
            text = f"{text}: {why[name].why}"
        yield (
            "ALARM",
            text if name is None else f"{text}; type {step(name, pipeline.name, pipeline.mode)}",
        )
    for name, trouble in why.items():
        if name not in rings:
            since = f" since {clock(trouble.since, now)}" if trouble.since else ""
            then = step(name, pipeline.name)
            yield "TROUBLE", f"{name} has a reason to ring{since}: {trouble.why}; type {then}"


def known(alarm: AlarmState) -> Alarm | None:
    """Which of the nine an alarm is; None for another one, such as one of your own."""
    kind = alarm.name.rpartition("-")[2]
    return next((name for name in _STEPS if name == kind), None)
