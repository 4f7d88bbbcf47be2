"""The alarms of a pipeline: which of them ring, why, and what to type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from deadletter.contract import Mode
from deadletter.signals.pages import Alarm

from .cards import Attention
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


def ringing(pipeline: PipelineStatus, now: datetime) -> Iterator[Attention]:
    """What rings, and what the watch sees that rings or is about to, or is muted."""
    name = pipeline.name
    for alarm in pipeline.alarms:
        page = known(alarm)
        ago = duration((now - alarm.since).total_seconds())
        says = f"{alarm.name} is in ALARM since {clock(alarm.since, now)}, {ago} ago"
        command = None if page is None else step(page, name, pipeline.mode)
        yield Attention(name, "ALARM", says, command, page)
    rings = {known(alarm) for alarm in pipeline.alarms}
    for trouble in pipeline.seen:
        kind = "STALLED" if trouble.page == Alarm.REDRIVE_STALLED else "TROUBLE"
        known_since = trouble.since and trouble.page not in rings
        since = f" since {clock(trouble.since, now)}" if trouble.since and known_since else ""
        yield Attention(name, kind, f"{trouble.says}{since}", trouble.type, trouble.page)


def known(alarm: AlarmState) -> Alarm | None:
    """Which of the nine an alarm is; None for another one, such as one of your own."""
    kind = alarm.name.rpartition("-")[2]
    return next((name for name in _STEPS if name == kind), None)
