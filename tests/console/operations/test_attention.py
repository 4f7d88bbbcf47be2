"""Every sentence about a trouble names the next command, and the command exists."""

from __future__ import annotations

import re
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from console.operations.attention import URGENCY, attention
from console.operations.causes import CauseRow
from console.operations.circuits import CircuitRow
from console.operations.collisions import ManyCollisions
from console.operations.queue import QueueDepth
from console.operations.replay_runs import ReplayRow
from console.operations.status import AlarmState, CircuitStatus, PipelineStatus
from console.operations.watched import AlarmReason, RunEnding, SourceStatus, Stall
from deadletter.replay.run import RunState
from deadletter.signals.figures import Count
from deadletter.signals.pages import PIPELINE_ALARMS
from tests.console.command_lines import parse

NOW = datetime(2026, 11, 23, 2, 10, tzinfo=UTC)
AN_HOUR_AGO = NOW - timedelta(hours=1)

COMMAND = re.compile(r"dlq [a-z]+(?: [a-z]+)?(?: (?:--[a-z-]+|[A-Za-z0-9/#]+))*")

SAYS_NO_COMMAND = {"LOOKED", "UNREAD", "FOREIGN"}
"""One is to know, one is about AWS and names its own remedy, and `dlq` may delete no row."""


def run(state: str, *, lost: bool = False) -> ReplayRow:
    return ReplayRow(
        "orders", "r1", state, 1, 1, 0, {}, 0, 1.0, None, None, None, "x", "ann", "parked",
        empty=False, restarts=0, lost=lost,
    )  # fmt: skip


def troubled() -> PipelineStatus:
    """A pipeline that has every trouble at once."""
    held = CircuitRow(
        "orders", "hooks/acme", "OPEN", AN_HOUR_AGO, None, 30.0, 1, 3, "OPEN", "ann", "down",
        AN_HOUR_AGO, None, False,
    )  # fmt: skip
    source = SourceStatus(
        "dlq", 0, 90, 60, 1, {str(Count.UNDECIDED): AN_HOUR_AGO + timedelta(minutes=30)},
        RunEnding(AN_HOUR_AGO, False, "no answer", "AccessDeniedException"),
    )  # fmt: skip
    empty, one = QueueDepth(0, 0, 0), QueueDepth(1, 0, 0)
    alarms = [AlarmState(f"deadletter-orders-{name}", AN_HOUR_AGO) for name in PIPELINE_ALARMS[:-1]]
    reasons = [AlarmReason(str(name), AN_HOUR_AGO, "x") for name in PIPELINE_ALARMS]
    return PipelineStatus(
        name="orders", mode="enforce", fifo=False, main=empty, dlq=one, parking={"default": one},
        dedicated={}, oldest_letter_seconds=None, waiting=(), lanes_not_counted=0,
        circuit=CircuitStatus("OPEN", None), alarms=alarms, held=[held],
        last_run={"failed": 1, "counts": {str(Count.ATTRIBUTE_RENAMED): 1}},
        misconfigured=[replace(held, key="orders#config", forced=None)],
        causes=[CauseRow("orders", "f1", "HELD", "E", AN_HOUR_AGO, None, None, None)],
        collisions=ManyCollisions(400, 30, ("body.at",), None), watch_ran_at=AN_HOUR_AGO,
        stalled=Stall(AN_HOUR_AGO, "AccessDeniedException"), troubles=reasons, sources=[source],
        replays=[run(RunState.HELD), run(RunState.BROKEN), run(RunState.WAITING_APPROVAL),
                 run(RunState.RUNNING, lost=True)],
        foreign_rows=[{"pk": "other#done#x", "sk": "claim"}],
    )  # fmt: skip


def test_every_sentence_about_a_trouble_names_a_command_that_exists() -> None:
    seen = set()
    for item in attention([troubled()], NOW):
        seen.add(item.kind)
        commands = COMMAND.findall(item.says)
        assert commands or item.kind in SAYS_NO_COMMAND, item.says
        for command in commands:
            parse(command.removesuffix(" shows them"))
    assert seen == set(URGENCY) - {"UNREAD"}
