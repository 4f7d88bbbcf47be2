"""`dlq status`: one screen that says what needs a person, then how full each queue is."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from shlex import quote
from typing import Any

from deadletter.circuit.state import State
from deadletter.contract import EVERY_PIPELINE, MAIN, MAIN_DLQ, parking_source
from deadletter.signals.troubles import TroubleKind

from ..operations.attention import Attention, counter, source_name
from ..operations.circuits import NOT_ON_RECORD, CircuitRow, pace_of
from ..operations.errors import Cause, Problem
from ..operations.pipeline_status import Flow, FlowNode, Outlook, PipelineStatus
from ..operations.queue import QueueDepth
from ..operations.status import VERB, AppStatus
from ..operations.words import clock, count, duration, moment
from .output import Block, Line, Part, Styled, TextTable, end_progress, line, live, typed
from .verb import VerbView

# Seconds between two pictures.
_EVERY = 5.0


def _is_unread(answer: AppStatus) -> object:
    unread = any(item.kind == TroubleKind.UNREAD for item in answer.attention)
    return unread or (answer.flow and answer.flow.unread)


def _watch(read: Callable[[], AppStatus]) -> AppStatus:
    """Paints the status again and again until Ctrl-C; returns the last answer."""
    if not sys.stdout.isatty():
        raise Problem(
            "--watch needs a terminal: leave it out, and call dlq status --json in turns.",
            Cause.INPUT,
        )
    answer = None
    with live() as paint:
        try:
            while True:
                stale: list[Block] = []
                try:
                    answer = read()
                except Problem as problem:
                    if answer is None:
                        raise
                    stale = [line(Styled(f"Not read again: {problem.says}", "alarm"))]
                end_progress()
                paint([*stale, *show(answer)])
                time.sleep(_EVERY)
        except KeyboardInterrupt:
            if answer is None:
                raise
            return answer


def show(status: AppStatus) -> Iterator[Block]:
    """The status for a person: what needs attention comes first."""
    yield _verdict(status)
    yield line(
        Styled(status.app, "strong"),
        f" in account {status.account}, {status.region}, at {status.at:%H:%M:%S} UTC",
    )
    yield Line()
    if status.attention:
        yield line(Styled("Needs attention", "alarm" if status.needs_person else "strong"))
        for names, says, command in _merged(status.attention):
            yield line(Styled(names, "strong"), f"  {says}", indent=2)
            if command is not None:
                yield from typed(command, 4)
        yield Line()
    match status.pipelines:
        case ():
            yield line("No pipeline is deployed yet.")
        case (only,):
            yield from _pipeline(only, status.at)
        case several:
            yield _overview(several, status.at)
            yield line(Styled("Depths are visible/in flight/delayed.", "faint"))
    if status.flow is not None:
        yield from _flow(status.flow)


def _flow(flow: Flow) -> Iterator[Block]:
    for text in flow.unread:
        yield line(Styled(text, "alarm"))
    yield Line()
    yield TextTable(
        ("NODE", "KIND", ">MESSAGES", ">OLDEST", "STATE", ""), [_node(node) for node in flow.nodes]
    )
    yield Line()
    yield TextTable(
        ("FROM", "DOES", "TO", "NOT NOW, BECAUSE"),
        [(edge.start, edge.does, edge.end, edge.because or "") for edge in flow.edges],
    )


def _node(node: FlowNode) -> Sequence[Part]:
    holds = node.kind in ("queue", "waiting")
    letters = _number(node.messages) if holds or node.messages is not None else ""
    return (node.id, node.kind, letters, _span(node.oldest_seconds), node.state, node.says)


def _verdict(status: AppStatus) -> Block:
    """Whether anything needs a person, in one line."""
    persons = sum(item.needs_person for item in status.attention)
    others = len(status.attention) - persons
    also = f"; {count(others, 'thing')} to know" if others else ""
    if not persons:
        return line(Styled(f"Nothing needs a person{also}.", "good"))
    verb = "needs" if persons == 1 else "need"
    return line(Styled(f"{count(persons, 'thing')} {verb} a person{also}.", "alarm"))


def _merged(items: Iterable[Attention]) -> Iterator[tuple[str, str, str | None]]:
    """Each card once, with the names of all its pipelines, its sentence and its command."""
    pipelines: dict[tuple[str, str | None], list[str]] = {}
    for item in items:
        pipelines.setdefault((item.says, item.type), []).append(item.pipeline)
    for (says, command), names in pipelines.items():
        yield ", ".join(names).replace(EVERY_PIPELINE, "all pipelines"), says, command


def _overview(pipelines: Sequence[PipelineStatus], now: datetime) -> TextTable:
    columns: dict[str, Callable[[PipelineStatus], Part]] = {
        "PIPELINE": _name_cell,
        "CIRCUIT": lambda each: _circuit_cell(each.circuit),
        ">MAIN": lambda each: _depth_cell([each.main]),
        ">DLQ": lambda each: _depth_cell([each.dlq]),
        "TREND": lambda each: _direction(each.direction or ""),
        ">OLDEST": _oldest,
        ">WAITING": _waiting_cell,
        ">PARKED": lambda each: _depth_cell(each.parking.values(), *_saved(each, _parking(each))),
        ">DEDICATED": lambda each: _depth_cell(
            each.dedicated.values(), *_saved(each, each.dedicated)
        ),
        "LAST BUSY": lambda each: _last_run_at(each.last_run, now),
    }
    if not any(pipeline.dedicated for pipeline in pipelines):
        del columns[">DEDICATED"]
    return TextTable(
        list(columns), [[cell(each) for cell in columns.values()] for each in pipelines]
    )


def _pipeline(pipeline: PipelineStatus, now: datetime) -> Iterator[Block]:
    observe = " (decides and reports, moves nothing)" if pipeline.mode == "observe" else ""
    yield line(Styled(pipeline.name, "strong"), f": mode {pipeline.mode}{observe}, circuit ",
               _circuit_cell(pipeline.circuit), _circuit_why(pipeline.circuit, now))  # fmt: skip
    if pipeline.circuit is not None:
        yield from map(line, pace_of(pipeline.circuit, now))
    # A run without work leaves no record: this is not a heartbeat.
    run = pipeline.last_run
    yield line("Last run: ", _last_ending(pipeline, now))
    yield line("Last busy run: ", _last_run_at(run, now), _last_run_did(run))
    yield line("Oldest message in the DLQ: ", _oldest(pipeline), _oldest_by(pipeline))
    if pipeline.direction is not None:
        yield line("Messages over the last ten looks: ", _direction(pipeline.direction))
    if pipeline.outlook is not None:
        yield from _outlook(pipeline.outlook, now)
        if pipeline.outlook.messages:
            yield line("Why they fail:")
            yield from typed(f"dlq groups {quote(pipeline.name)}")
    yield Line()
    yield TextTable(
        ("QUEUE", ">VISIBLE", ">IN FLIGHT", ">DELAYED", ">SAVED", ">OLDEST", ">EXPIRES IN"),
        [_queue_row(pipeline, id_, held) for id_, held in pipeline.depths.items()],
    )
    yield Line()
    if not pipeline.waiting:
        yield line(
            "What waits could not be read." if pipeline.waiting is None else "Nothing waits."
        )
        return
    yield TextTable(
        ("WAITS FOR", ">MESSAGES", ">OLDEST", "FIRST DUE"),
        [
            (
                lane.waiting_for,
                _number(lane.messages, lane.is_at_least),
                _span(lane.oldest_seconds),
                "" if lane.first_due is None else clock(lane.first_due, now),
            )
            for lane in pipeline.waiting
        ],
    )
    if pipeline.places_not_counted:
        yield line(f"and {count(pipeline.places_not_counted, 'more thing')}, not counted")


def _queue_row(pipeline: PipelineStatus, id_: str, held: QueueDepth | None) -> Sequence[Part]:
    """A queue: its depths, what was saved from it, the oldest, and the time to expiry."""
    name, source = source_name(id_).removeprefix("the "), pipeline.source(id_)
    depths = (None,) * 3 if held is None else (held.visible, held.in_flight, held.delayed)
    if source is None:
        return (name, *map(_number, depths), "?", "?", "?")
    saved = "" if source.saved == 0 else _number(source.saved, source.saved_is_at_least)
    age = pipeline.main_oldest_seconds if id_ == MAIN else source.oldest_seconds
    return (name, *map(_number, depths), saved, _span(age), _span(source.seconds_to_expiry))


def _number(number: int | None, is_at_least: bool = False) -> str:
    return "?" if number is None else f"{'≥ ' if is_at_least else ''}{number:,}"


def _span(seconds: int | None) -> str:
    return "" if seconds is None else duration(seconds)


def _circuit_why(circuit: CircuitRow | None, now: datetime) -> str:
    """Who holds the circuit, or why it opened, and since when; empty while it is just closed."""
    if circuit is None:
        return ""
    since = "" if circuit.since is None else f" since {clock(circuit.since, now)}"
    if circuit.forced is not None:
        until = "" if circuit.forced_until is None else f" until {clock(circuit.forced_until, now)}"
        return f"{since}, held by {circuit.forced_by}{until}: {circuit.forced_reason}"
    is_open = circuit.state in (State.OPEN, State.HALF_OPEN)
    return f"{since}: {circuit.because or NOT_ON_RECORD}" if is_open else ""


def _last_ending(pipeline: PipelineStatus, now: datetime) -> Part:
    """When the last run of the DLQ ended, and why."""
    source = pipeline.source(MAIN_DLQ)
    ending = None if source is None else source.last_ending
    if ending is None:
        return Styled("none known", "faint")
    ago = "" if ending.at is None else f"{duration(now - ending.at)} ago; "
    why = f" because {ending.stopped}" if ending.stopped else "; why is not on record"
    text = f"{ago}ended{why}"
    trouble = ending.trouble or "what kept it from its work is not on record"
    return text if ending.ended_well else Styled(f"{text} ({trouble})", "alarm")


def _outlook(outlook: Outlook, now: datetime) -> Iterator[Block]:
    limit = "unknown" if outlook.rate_limit is None else f"{outlook.rate_limit:.3g} a second"
    if outlook.rate_because is not None:
        limit += f", {outlook.rate_because}"
    went = f"{outlook.rate_measured:.2g} a second" if outlook.rate_measured else "none"
    measured = f"{went} went back in {_span(outlook.measured_seconds)}"
    if outlook.measured_seconds is None:
        measured = "no run is known in 15 min"
    if outlook.rate_measured is None:
        measured = "how many went back could not be read"
    yield line(f"Rate: at most {limit}; {measured}")
    empty_at, because = outlook.dlq_empty_at, outlook.dlq_empty_because
    is_measured = outlook.fewer_a_second is not None
    if empty_at is None:
        yield line("DLQ empty: ", Styled(because, "alarm" if is_measured else "faint"))
    elif is_measured:
        left = duration(empty_at - now)
        yield line(f"DLQ empty: at {clock(empty_at, now)}, in {left} ({because})")
    if outlook.seconds_to_expiry is not None and outlook.expires_in is not None:
        first = duration(outlook.seconds_to_expiry)
        yield line(f"First message expires in: {first}, in {source_name(outlook.expires_in)}")
    yield line(f"Next: {'; '.join(outlook.next) or 'nothing is to be done'}.")


def _name_cell(pipeline: PipelineStatus) -> Part:
    mode = "" if pipeline.mode == "enforce" else f" ({pipeline.mode})"
    return Styled(f"{pipeline.name}{mode}", "strong")


def _circuit_cell(circuit: CircuitRow | None) -> Part:
    if circuit is None:
        return "?"
    return Styled(circuit.state, "good" if circuit.state == State.CLOSED else "alarm")


def _direction(direction: str) -> Part:
    return Styled(direction, "alarm" if direction == "rising" else "faint")


def _parking(pipeline: PipelineStatus) -> list[str]:
    """The sources that are the pipeline's parking queues."""
    return [parking_source(id_) for id_ in pipeline.parking]


def _saved(pipeline: PipelineStatus, sources: Iterable[str]) -> tuple[int | None, bool]:
    """Saved messages of these sources, None if one was not read, and whether there are more."""
    known = [pipeline.source(source) for source in sources]
    numbers = [each.saved for each in known if each is not None and each.saved is not None]
    is_cut = any(each is not None and each.saved_is_at_least for each in known)
    return sum(numbers) if len(numbers) == len(known) else None, is_cut


def _depth_cell(
    depths: Iterable[QueueDepth | None], saved: int | None = 0, is_cut: bool = False
) -> Part:
    """Depths in sum; saved messages count as visible ones."""
    sums, more = [saved or 0, 0, 0], "≥ " if is_cut else ""
    for queue in depths:
        if queue is None or saved is None:
            return "?"
        sums = [sums[0] + queue.visible, sums[1] + queue.in_flight, sums[2] + queue.delayed]
    text = more + "/".join(f"{number:,}" for number in sums)
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
    return pipeline.oldest_message_seconds, None if source is None else source.oldest_seconds


def _oldest_by(pipeline: PipelineStatus) -> str:
    """Both ages, if they are known."""
    native, own = _ages(pipeline)
    if native is None or own is None or pipeline.dlq == QueueDepth(0, 0, 0):
        return ""
    return f" (SQS says {duration(native)}, the monitor {duration(own)})"


def _waiting_cell(pipeline: PipelineStatus) -> Part:
    lanes = pipeline.waiting
    saved, _ = _saved(pipeline, [*_parking(pipeline), *pipeline.dedicated])
    if lanes is None or saved is None or any(lane.messages is None for lane in lanes):
        return "?"
    total = sum(lane.messages or 0 for lane in lanes) - saved
    is_cut = any(lane.is_at_least for lane in lanes)
    more = "+" if pipeline.places_not_counted or is_cut else ""
    return f"{total:,}{more}" if total else Styled(f"0{more}", "faint")


def _last_run_at(run: Mapping[str, Any] | None, now: datetime) -> Part:
    if run is None:
        return Styled("none known", "faint")
    at = moment(run.get("at"))
    when = f"{duration(now - at)} ago" if at else "unknown"
    return Styled(when, "alarm") if counter(run, "failed") else when


def _last_run_did(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return ""
    moved, failed = (counter(run, name) for name in ("moved", "failed"))
    stopped = run.get("stopped")
    why = f"; ended because {stopped}" if isinstance(stopped, str) else ""
    return f", {moved:,} moved, {failed:,} failed{why}"


VIEWS = (VerbView(VERB, show, _is_unread, check=lambda answer: answer.needs_person, watch=_watch),)
