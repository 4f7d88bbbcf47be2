"""`dlq status`: one screen that says what needs a person, then how full each queue is."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Annotated, Any

import typer

from deadletter.circuit.state import State
from deadletter.contract import MAIN_DLQ, parking_source

from ..operations import status as operation
from ..operations.attention import Attention, counter
from ..operations.queue import QueueDepth
from ..operations.session import Session
from ..operations.status import AppStatus, CircuitStatus, PipelineStatus
from ..operations.watched import SourceStatus
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

    Reads only. Depths are SQS's own estimates, written visible/in flight/delayed; letters
    that were moved into the waiting room before SQS could delete them count as visible.
    With one pipeline, its queues and the lanes of its waiting room are listed one by one.

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
                _depth_cell(pipeline.parking.values(), _rescued(pipeline, _parking(pipeline))),
                *([_dedicated_cell(pipeline)] if dedicated else []),
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
    yield line("Oldest letter in the DLQ: ", _oldest(pipeline), _oldest_by(pipeline))
    yield Line()
    queues = [
        ("main queue", pipeline.main, None),
        ("DLQ", pipeline.dlq, pipeline.source(MAIN_DLQ)),
        *(
            (f"parking queue {id_}", held, pipeline.source(parking_source(id_)))
            for id_, held in pipeline.parking.items()
        ),
        *(
            (f"dedicated DLQ {id_}", held, pipeline.source(id_))
            for id_, held in pipeline.dedicated.items()
        ),
    ]
    yield TextTable(
        ("QUEUE", ">VISIBLE", ">IN FLIGHT", ">DELAYED", ">RESCUED", ">OLDEST", ">EXPIRES IN"),
        [(name, *_depth_cells(held), *_source_cells(source)) for name, held, source in queues],
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


def _depth_cells(queue: QueueDepth | None) -> Iterator[Part]:
    numbers = (None,) * 3 if queue is None else (queue.visible, queue.in_flight, queue.delayed)
    yield from ("?" if number is None else f"{number:,}" for number in numbers)


def _source_cells(source: SourceStatus | None) -> Iterator[Part]:
    """Rescued letters, age of the oldest, and time to expiry of one queue."""
    if source is None:
        yield from ("", "", "")
        return
    yield "?" if source.rescued is None else f"{source.rescued:,}" if source.rescued else ""
    for seconds in (source.oldest_seconds, source.seconds_to_expiry):
        yield "" if seconds is None else duration(seconds)


def _parking(pipeline: PipelineStatus) -> list[str]:
    """The sources that are the pipeline's parking queues."""
    return [parking_source(id_) for id_ in pipeline.parking]


def _rescued(pipeline: PipelineStatus, sources: Iterable[str]) -> int:
    """The rescued letters of these sources, as far as they are known."""
    known = (pipeline.source(source) for source in sources)
    return sum(source.rescued or 0 for source in known if source is not None)


def _dedicated_cell(pipeline: PipelineStatus) -> Part:
    return _depth_cell(pipeline.dedicated.values(), _rescued(pipeline, pipeline.dedicated))


def _depth_cell(depths: Iterable[QueueDepth | None], rescued: int = 0) -> Part:
    """Depths in sum; rescued letters count as visible ones."""
    sums = [rescued, 0, 0]
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
    ages = [age for age in _ages(pipeline) if age is not None]
    return duration(max(ages)) if ages else Styled("unknown", "faint")


def _ages(pipeline: PipelineStatus) -> tuple[int | None, int | None]:
    """The age of the DLQ's oldest letter by SQS, and by what runs and the watch remember."""
    source = pipeline.source(MAIN_DLQ)
    return pipeline.oldest_letter_seconds, None if source is None else source.oldest_seconds


def _oldest_by(pipeline: PipelineStatus) -> str:
    """Both ages, if they are known."""
    native, own = _ages(pipeline)
    if native is None or own is None or pipeline.dlq == QueueDepth(0, 0, 0):
        return ""
    return f" (SQS says {duration(native)}, the watch {duration(own)})"


def _waiting_cell(pipeline: PipelineStatus) -> Part:
    if any(lane.letters is None for lane in pipeline.waiting):
        return "?"
    rescued = _rescued(pipeline, [*_parking(pipeline), *pipeline.dedicated])
    total = sum(lane.letters or 0 for lane in pipeline.waiting) - rescued
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
