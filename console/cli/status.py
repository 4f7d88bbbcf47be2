"""`dlq status`: one screen that says what needs a person, then how full each queue is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from deadletter.circuit.state import State

from ..operations import status as operation
from ..operations.queue import QueueDepth
from ..operations.session import Session
from ..operations.status import AppStatus, Attention, CircuitStatus, PipelineStatus, counter
from ..operations.words import count, duration, moment
from .command import SomePipelines, command, plain_typer
from .exit import Exit
from .output import Block, Line, Part, Reply, Styled, TextTable, line

typer_app = plain_typer()

Check = Annotated[bool, typer.Option("--check", help="Exit with 1 if something needs attention.")]


@command(
    typer_app,
    "status",
    example=[
        "dlq status",
        "dlq status --pipeline orders",
        "dlq status --check --json --query attention",
    ],
)
def status(
    session: Session, pipeline: SomePipelines = None, check: Check = False
) -> Reply[AppStatus]:
    """What needs attention, and how full each queue is.

    Reads only. Depths are SQS's own estimates, written visible/in flight/delayed. With
    one pipeline, its queues and the lanes of its waiting room are listed one by one.

    The exit status is 1 if something could not be read; with --check also if something
    needs a person.
    """
    answer = operation.read(session, pipeline or ())
    unread = any(item.kind == "UNREAD" for item in answer.attention)
    needed = unread or (check and answer.attention)
    return Reply(answer, show, Exit.ATTENTION if needed else Exit.DONE)


def show(status: AppStatus) -> Iterator[Block]:
    """The status for a person: what needs attention comes first."""
    yield line(
        Styled(status.app, "strong"),
        f" in account {status.account}, {status.region}, at {status.at:%H:%M:%S} UTC",
    )
    yield Line()
    if status.attention:
        yield line(Styled("Needs attention", "alarm"))
        yield TextTable((), [(f"  {names}", says) for names, says in _merged(status.attention)])
    else:
        yield line(Styled("Nothing needs attention.", "good"))
    yield Line()
    match status.pipelines:
        case ():
            yield line("No pipeline is deployed yet.")
        case (only,):
            yield from _pipeline(only, status.at)
        case several:
            yield _overview(several, status.at)
            yield line(Styled("Depths are visible/in flight/delayed.", "faint"))


def _merged(items: Iterable[Attention]) -> Iterator[tuple[str, str]]:
    """Each sentence once, with the names of all its pipelines."""
    pipelines: dict[str, list[str]] = {}
    for item in items:
        pipelines.setdefault(item.says, []).append(item.pipeline)
    for says, names in pipelines.items():
        yield ", ".join(names), says


def _overview(pipelines: Sequence[PipelineStatus], now: datetime) -> TextTable:
    dedicated = any(pipeline.dedicated for pipeline in pipelines)
    headings = ["PIPELINE", "CIRCUIT", ">MAIN", ">DLQ", ">OLDEST", ">WAITING", ">PARKED"]
    if dedicated:
        headings.append(">DEDICATED")
    return TextTable(
        [*headings, "LAST BUSY"],
        [
            [
                _name_cell(pipeline),
                _circuit_cell(pipeline.circuit),
                _depth_cell([pipeline.main]),
                _depth_cell([pipeline.dlq]),
                _oldest(pipeline),
                _waiting_cell(pipeline),
                _depth_cell(pipeline.parking.values()),
                *([_depth_cell(pipeline.dedicated.values())] if dedicated else []),
                _last_run_at(pipeline.last_run, now),
            ]
            for pipeline in pipelines
        ],
    )


def _pipeline(pipeline: PipelineStatus, now: datetime) -> Iterator[Block]:
    observe = " (decides and reports, moves nothing)" if pipeline.mode == "observe" else ""
    yield line(Styled(pipeline.name, "strong"), f": mode {pipeline.mode}{observe}, circuit ",
               _circuit_cell(pipeline.circuit))  # fmt: skip
    # A run without work leaves no record: this is not a heartbeat.
    run = pipeline.last_run
    yield line("Last busy run: ", _last_run_at(run, now), _last_run_did(run))
    yield line("Oldest letter in the DLQ: ", _oldest(pipeline))
    yield Line()
    queues = [
        ("main queue", pipeline.main),
        ("DLQ", pipeline.dlq),
        *((f"parking queue {key}", held) for key, held in pipeline.parking.items()),
        *((f"dedicated DLQ {key}", held) for key, held in pipeline.dedicated.items()),
    ]
    yield TextTable(
        ("QUEUE", ">VISIBLE", ">IN FLIGHT", ">DELAYED"),
        [
            (name, *(f"{n:,}" for n in (held.visible, held.in_flight, held.delayed)))
            if held is not None
            else (name, "?", "?", "?")
            for name, held in queues
        ],
    )
    yield Line()
    if not pipeline.waiting:
        yield line("The waiting room is empty.")
        return
    yield TextTable(
        ("LANE OF THE WAITING ROOM", ">LETTERS"),
        [
            (lane.lane, "?" if lane.letters is None else f"{lane.letters:,}")
            for lane in pipeline.waiting
        ],
    )
    if pipeline.lanes_not_counted:
        yield line(f"and {count(pipeline.lanes_not_counted, 'more lane')}, not counted")


def _name_cell(pipeline: PipelineStatus) -> Part:
    mode = "" if pipeline.mode == "enforce" else f" ({pipeline.mode})"
    return Styled(f"{pipeline.name}{mode}", "strong")


def _circuit_cell(circuit: CircuitStatus | None) -> Part:
    if circuit is None:
        return "?"
    return Styled(circuit.state, "good" if circuit.state == State.CLOSED else "alarm")


def _depth_cell(depths: Iterable[QueueDepth | None]) -> Part:
    sums = [0, 0, 0]
    for queue in depths:
        if queue is None:
            return "?"
        sums = [sums[0] + queue.visible, sums[1] + queue.in_flight, sums[2] + queue.delayed]
    text = "/".join(f"{number:,}" for number in sums)
    return text if any(sums) else Styled(text, "faint")


def _oldest(pipeline: PipelineStatus) -> Part:
    # The figure lags by minutes: it can describe a queue that is empty now.
    if pipeline.dlq == QueueDepth(0, 0, 0):
        return Styled("none", "faint")
    if pipeline.oldest_letter_seconds is None:
        return Styled("unknown", "faint")
    return duration(pipeline.oldest_letter_seconds)


def _waiting_cell(pipeline: PipelineStatus) -> Part:
    if any(lane.letters is None for lane in pipeline.waiting):
        return "?"
    total = sum(lane.letters or 0 for lane in pipeline.waiting)
    more = "+" if pipeline.lanes_not_counted else ""
    return f"{total:,}{more}" if total else Styled(f"0{more}", "faint")


def _last_run_at(run: Mapping[str, Any] | None, now: datetime) -> Part:
    if run is None:
        return Styled("none known", "faint")
    at = moment(run.get("at"))
    when = f"{duration((now - at).total_seconds())} ago" if at else "unknown"
    return Styled(when, "alarm") if counter(run, "failed") else when


def _last_run_did(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return ""
    moved, failed = (counter(run, name) for name in ("moved", "failed"))
    stopped = run.get("stopped")
    why = f"; ended because {stopped}" if isinstance(stopped, str) else ""
    return f", {moved:,} moved, {failed:,} failed{why}"
