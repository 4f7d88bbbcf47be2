"""`dlq circuit`: which dependencies are considered down, and what a person says about one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from deadletter.circuit.state import State

from ..operations.circuits import (
    HOLDS,
    LIST,
    RELEASE,
    CircuitChange,
    CircuitList,
    CircuitPlan,
    CircuitRow,
    details,
    until_when,
)
from ..operations.session import Session
from ..operations.words import duration
from . import asking
from .output import Block, Part, Styled, TextTable, line, said
from .verb import VerbView

# Long enough to call for help, and over before it is forgotten: a circuit held open holds
# every message of its dependency.
SUGGESTED = "2h"


def _ask(_: Session, plan: CircuitPlan) -> Any:
    never = plan.state is State.OPEN
    return asking.dated(plan, plan.now, "the override", suggested=SUGGESTED, never=never)


def _is_troubled(answer: CircuitList) -> bool:
    return any(circuit.state != State.CLOSED for circuit in answer.circuits)


def _show_list(answer: CircuitList) -> Iterator[Block]:
    headings = ("PIPELINE", "CIRCUIT", "STATE", "SINCE", ">OPENED", "CONSUMER", "OVERRIDE BY")
    yield TextTable(headings, [_row(circuit, answer.at) for circuit in answer.circuits])


def _row(circuit: CircuitRow, now: datetime) -> Sequence[Part]:
    end = until_when(circuit.forced_until, now)
    return (
        circuit.pipeline,
        circuit.key,
        _state(circuit),
        duration(now - circuit.since) if circuit.since else "",
        str(circuit.times_opened),
        "paused" if circuit.consumer_paused else "",
        f"{circuit.forced_by}, {end}" if circuit.forced else "",
    )


def _state(circuit: CircuitRow) -> Styled:
    return Styled(circuit.state, "good" if circuit.state == State.CLOSED else "alarm")


def show_circuit(circuit: CircuitRow, now: datetime) -> Iterator[Block]:
    """All details of a circuit, for a person."""
    name = f"Circuit {circuit.key} of {circuit.pipeline}"
    yield line(Styled(name, "strong"), ": ", _state(circuit))
    for text in details(circuit, now):
        yield from said(text, indent=2)


def _show_changed(change: CircuitChange) -> Iterator[Block]:
    after = change.after
    yield line(
        Styled(f"Circuit {after.key} of {after.pipeline}", "strong"),
        f" in account {change.account}, {change.region}: {change.before.state} → ",
        _state(after),
    )
    for text in details(after, change.at):
        yield from said(text, indent=2)


VIEWS = (
    VerbView(LIST, _show_list, check=_is_troubled),
    *(VerbView(verb, _show_changed, ask=_ask) for verb in HOLDS),
    VerbView(RELEASE, _show_changed),
)
