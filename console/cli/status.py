"""`dlq status`: one screen that says what needs a person, then how full each queue is.

`read` asks AWS, `attention` judges what it found, `show` lays it out.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from deadletter.circuit.state import State
from deadletter.contract import MAIN_DLQ
from deadletter.redrive.waiting_room import SHARDS

from ..operations.app import App, DeployedPipeline
from ..operations.aws import Aws, Read, Start, side_by_side
from ..operations.item import plain
from ..operations.problem import Exit, Problem
from ..operations.queue import QueueDepth, depth
from .command import Session, SomePipelines, command, plain_typer
from .output import (
    Block,
    CommandResult,
    Line,
    Part,
    Reply,
    Styled,
    TextTable,
    clock,
    count,
    duration,
    line,
    moment,
)

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient

_LANES_INDEX = "lanes"
_LANES_KEY = "lane"

# Each lane is a query for each shard, and a circuit for every webhook endpoint can make
# thousands of lanes: beyond this the screen would not hold them either.
_MAX_LANES = 40

# SQS publishes once a minute and a few minutes late; older figures describe the past.
_AGE_WINDOW = timedelta(minutes=15)

UNREADABLE = "UNREADABLE"
"""A circuit's record that nobody understands: the router holds its letters."""


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """One queue in the waiting room."""

    lane: Annotated[str, "`due`, `circuit:<key>`, `rule:<id>` or `run:<id>`"]
    letters: Annotated[int | None, "letters in it; null if it could not be read"]


@dataclass(frozen=True, slots=True)
class CircuitStatus:
    """What stands between the letters and the downstream."""

    state: Annotated[str, "CLOSED, OPEN, HALF_OPEN, or UNREADABLE (letters are held)"]
    open_until: Annotated[datetime | None, "when an open circuit is tried again"]


@dataclass(frozen=True, slots=True)
class AlarmState:
    """A CloudWatch alarm in state ALARM."""

    name: Annotated[str, "name of the alarm"]
    since: Annotated[datetime, "when it went into ALARM"]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """One pipeline as it is now."""

    name: Annotated[str, "name of the pipeline"]
    mode: Annotated[str, "`enforce`, or `observe` (decides and reports, moves nothing)"]
    fifo: Annotated[bool, "whether its queues are FIFO queues"]
    main: Annotated[QueueDepth | None, "the main queue; null if it could not be read"]
    dlq: Annotated[QueueDepth | None, "the DLQ"]
    parking: Annotated[Mapping[str, QueueDepth | None], "parking queues by id"]
    dedicated: Annotated[Mapping[str, QueueDepth | None], "dedicated DLQs by id"]
    oldest_letter_seconds: Annotated[
        int | None, "age of the DLQ's oldest letter by CloudWatch; null if it says nothing"
    ]
    waiting: Annotated[Sequence[LaneStatus], "the waiting room, lane by lane"]
    lanes_not_counted: Annotated[int, f"lanes beyond the first {_MAX_LANES}"]
    circuit: Annotated[
        CircuitStatus | None, "the pipeline's own circuit; null if it could not be read"
    ]
    last_run: Annotated[
        Mapping[str, Any] | None,
        "the last run of the DLQ that found something to do: `at` (epoch seconds) and its "
        "report, as in `dlq redrive now`; null if none is on record",
    ]
    alarms: Annotated[Sequence[AlarmState], "its alarms that are in ALARM"]


@dataclass(frozen=True, slots=True)
class Attention:
    """Something that a person should look at."""

    pipeline: Annotated[str, "name of the pipeline"]
    kind: Annotated[str, "ALARM, CIRCUIT, LAST_RUN, UNREAD or PARKED, in this order"]
    says: Annotated[str, "a sentence for people"]


@dataclass(frozen=True, slots=True)
class AppStatus(CommandResult):
    """What `dlq status` answers."""

    at: Annotated[datetime, "when it was read"]
    attention: Annotated[Sequence[Attention], "what needs a person, most urgent first"]
    pipelines: Annotated[Sequence[PipelineStatus], "the pipelines, by name"]


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

    The exit status is 0 if everything could be read, whatever it says; --check makes it
    1 if something needs a person.
    """
    app = session.app()
    found = read(session.aws, app, app.some(pipeline or ()), session.now)
    unread = any(one.kind == "UNREAD" for one in found.attention)
    needed = unread or (check and found.attention)
    return Reply(found, show, Exit.ATTENTION if needed else Exit.DONE)


def read(aws: Aws, app: App, chosen: Sequence[DeployedPipeline], now: datetime) -> AppStatus:
    """The status of these pipelines, read side by side. What can't be read is named, not fatal."""
    account = aws.account
    with side_by_side() as start:
        ages = start(partial(_ages, aws.cloudwatch, chosen, now))
        alarms = start(partial(_alarms, aws.cloudwatch, app))
        begun = [_Begun(start, aws, app, one) for one in chosen]
        for one in begun:
            one.count_lanes(start)
        pipelines = tuple(one.finished(ages, alarms) for one in begun)
    unread = [lost for one in begun for lost in one.unread]
    urgent = sorted([*attention(pipelines, now), *unread], key=lambda one: _URGENCY.index(one.kind))
    return AppStatus(account, aws.region, app.name, now, tuple(urgent), pipelines)


_URGENCY = ("ALARM", "CIRCUIT", "LAST_RUN", "UNREAD", "PARKED")


class _Begun:
    """The reads under way for one pipeline."""

    def __init__(self, start: Start, aws: Aws, app: App, pipeline: DeployedPipeline) -> None:
        self.pipeline = pipeline
        self.unread: list[Attention] = []
        self._count = partial(_letters_in, aws.dynamodb, app.letters_table, pipeline.name)
        self._main, self._dlq = (
            start(partial(depth, aws.sqs, url)) for url in (pipeline.main_url, pipeline.dlq_url)
        )
        self._parking, self._dedicated = (
            {key: start(partial(depth, aws.sqs, url)) for key, url in queues.items()}
            for queues in (pipeline.parking, pipeline.dedicated)
        )
        self._registry = start(partial(_lanes, aws.dynamodb, app.letters_table, pipeline.name))
        self._circuit = start(partial(_circuit, aws.dynamodb, app.circuits_table, pipeline.name))
        self._last_run = start(partial(_last_run, aws.dynamodb, app.letters_table, pipeline.name))
        self._lanes: Sequence[str] = ()
        self._letters: dict[str, Read[int]] = {}

    def count_lanes(self, start: Start) -> None:
        self._lanes = self._registry.result(partial(self._lost, "the waiting room")) or ()
        self._letters = {
            lane: start(partial(self._count, lane)) for lane in self._lanes[:_MAX_LANES]
        }

    def finished(
        self, ages: Read[Mapping[str, int]], alarms: Read[Mapping[str, Sequence[AlarmState]]]
    ) -> PipelineStatus:
        name, lost = self.pipeline.name, self._lost
        oldest = ages.result(partial(lost, "the DLQ's age")) or {}
        ringing = alarms.result(partial(lost, "the alarms")) or {}
        waiting = (
            LaneStatus(lane, letters.result(partial(lost, f"lane {lane}")))
            for lane, letters in self._letters.items()
        )
        return PipelineStatus(
            name=name,
            mode=self.pipeline.mode,
            fifo=self.pipeline.fifo,
            main=self._main.result(partial(lost, "the main queue")),
            dlq=self._dlq.result(partial(lost, "the DLQ")),
            parking={
                key: found.result(partial(lost, f"parking queue {key}"))
                for key, found in self._parking.items()
            },
            dedicated={
                key: found.result(partial(lost, f"dedicated DLQ {key}"))
                for key, found in self._dedicated.items()
            },
            oldest_letter_seconds=oldest.get(name),
            waiting=tuple(waiting),
            lanes_not_counted=max(0, len(self._lanes) - _MAX_LANES),
            circuit=self._circuit.result(partial(lost, "the circuit")),
            last_run=self._last_run.result(partial(lost, "the last run")),
            alarms=ringing.get(name, ()),
        )

    def _lost(self, what: str, why: Problem) -> None:
        says = f"{what} could not be read: {why.says}"
        self.unread.append(Attention(self.pipeline.name, "UNREAD", says))


def _lanes(dynamodb: DynamoDBClient, table: str, pipeline: str) -> Sequence[str]:
    pages = dynamodb.get_paginator("query").paginate(
        TableName=table,
        KeyConditionExpression="pk = :registry",
        ExpressionAttributeValues={":registry": {"S": f"{pipeline}#lanes"}},
        ProjectionExpression="sk",
    )
    return tuple(item["sk"]["S"] for page in pages for item in page["Items"])


def _letters_in(dynamodb: DynamoDBClient, table: str, pipeline: str, lane: str) -> int:
    total = 0
    for shard in range(SHARDS):
        pages = dynamodb.get_paginator("query").paginate(
            TableName=table,
            IndexName=_LANES_INDEX,
            Select="COUNT",
            KeyConditionExpression="#lane = :lane",
            ExpressionAttributeNames={"#lane": _LANES_KEY},
            ExpressionAttributeValues={":lane": {"S": f"{pipeline}|{lane}|{shard}"}},
        )
        total += sum(page["Count"] for page in pages)
    return total


def _circuit(dynamodb: DynamoDBClient, table: str, pipeline: str) -> CircuitStatus:
    item = dynamodb.get_item(
        TableName=table,
        Key={"pipeline": {"S": pipeline}, "circuit_key": {"S": pipeline}},
        ConsistentRead=True,
    ).get("Item")
    if item is None:
        return CircuitStatus(State.CLOSED.value, None)
    known = plain(item)
    state = str(known.get("state"))
    understood = state in State.__members__
    return CircuitStatus(state if understood else UNREADABLE, moment(known.get("open_until")))


def _last_run(dynamodb: DynamoDBClient, table: str, pipeline: str) -> Mapping[str, Any] | None:
    item = dynamodb.get_item(
        TableName=table,
        Key={"pk": {"S": f"{pipeline}#lease"}, "sk": {"S": MAIN_DLQ}},
        ConsistentRead=True,
    ).get("Item", {})
    run = plain(item).get("last_run")
    return run if isinstance(run, dict) else None


def _ages(
    cloudwatch: CloudWatchClient, pipelines: Sequence[DeployedPipeline], now: datetime
) -> Mapping[str, int]:
    """The age in seconds of each DLQ's oldest letter, where CloudWatch has a figure."""
    if not pipelines:
        return {}
    # One call takes 500 queries: more than there are pipelines in an app.
    pages = cloudwatch.get_paginator("get_metric_data").paginate(
        MetricDataQueries=[
            {
                "Id": f"p{number}",
                "MetricStat": {
                    "Metric": {
                        "Namespace": "AWS/SQS",
                        "MetricName": "ApproximateAgeOfOldestMessage",
                        "Dimensions": [
                            {"Name": "QueueName", "Value": one.dlq_url.rpartition("/")[2]}
                        ],
                    },
                    "Period": 60,
                    "Stat": "Maximum",
                },
            }
            for number, one in enumerate(pipelines)
        ],
        StartTime=now - _AGE_WINDOW,
        EndTime=now + timedelta(minutes=1),
    )
    points: dict[str, list[tuple[datetime, float]]] = defaultdict(list)
    for page in pages:
        for one in page["MetricDataResults"]:
            name = pipelines[int(one["Id"][1:])].name
            points[name] += zip(one["Timestamps"], one["Values"], strict=True)
    return {name: int(max(known)[1]) for name, known in points.items() if known}


def _alarms(cloudwatch: CloudWatchClient, app: App) -> Mapping[str, Sequence[AlarmState]]:
    """The alarms that are in ALARM, by pipeline."""
    pages = cloudwatch.get_paginator("describe_alarms").paginate(
        AlarmNamePrefix=f"{app.name}-",
        AlarmTypes=["MetricAlarm", "CompositeAlarm"],
        StateValue="ALARM",
    )
    found: dict[str, list[AlarmState]] = defaultdict(list)
    for page in pages:
        for alarm in [*page.get("MetricAlarms", ()), *page.get("CompositeAlarms", ())]:
            since = alarm.get("StateTransitionedTimestamp") or alarm["StateUpdatedTimestamp"]
            owner = _owner(alarm["AlarmName"], app)
            if owner is not None and alarm["StateValue"] == "ALARM":
                found[owner].append(AlarmState(alarm["AlarmName"], since))
    return found


def _owner(alarm: str, app: App) -> str | None:
    """The pipeline whose name an alarm begins with; of `orders` and `orders-eu`, the longer."""
    fitting = (one.name for one in app.pipelines if alarm.startswith(f"{app.name}-{one.name}-"))
    return max(fitting, key=len, default=None)


def attention(pipelines: Iterable[PipelineStatus], now: datetime) -> Iterator[Attention]:
    """What in these pipelines needs a person."""
    for one in pipelines:
        for alarm in one.alarms:
            since = duration((now - alarm.since).total_seconds())
            says = f"{alarm.name} is in ALARM since {clock(alarm.since, now)}, {since} ago"
            yield Attention(one.name, "ALARM", says)
        if one.circuit is not None and one.circuit.state != State.CLOSED:
            yield Attention(one.name, "CIRCUIT", _circuit_says(one.circuit, now))
        if failed := _counter(one.last_run, "failed"):
            says = f"the last busy run could not move {count(failed, 'letter')}"
            yield Attention(one.name, "LAST_RUN", says)
        if parked := _visible(one.parking.values()):
            says = f"{count(parked, 'parked letter')}: see dlq parked list --pipeline {one.name}"
            yield Attention(one.name, "PARKED", says)


def _circuit_says(circuit: CircuitStatus, now: datetime) -> str:
    match circuit.state:
        case State.OPEN:
            if circuit.open_until is None:
                return "the circuit is OPEN: nothing is re-driven while it is"
            if circuit.open_until <= now:
                return "the circuit is OPEN, and its next canary is due"
            return f"the circuit is OPEN: no canary before {clock(circuit.open_until, now)}"
        case State.HALF_OPEN:
            return "the circuit is HALF_OPEN: one letter is being tried"
        case _:
            return "the circuit's record is not understood: its letters are held"


def _counter(run: Mapping[str, Any] | None, name: str) -> int:
    found = (run or {}).get(name)
    return found if isinstance(found, int) else 0


def _visible(depths: Iterable[QueueDepth | None]) -> int:
    return sum(one.visible for one in depths if one is not None)


def show(found: AppStatus) -> Iterator[Block]:
    """The status as a person reads it: what needs attention first."""
    yield line(
        Styled(found.app, "strong"),
        f" in account {found.account}, {found.region}, at {found.at:%H:%M:%S} UTC",
    )
    yield Line()
    if found.attention:
        yield line(Styled("Needs attention", "alarm"))
        yield TextTable((), [(f"  {names}", says) for names, says in _merged(found.attention)])
    else:
        yield line(Styled("Nothing needs attention.", "good"))
    yield Line()
    match found.pipelines:
        case ():
            yield line("No pipeline is deployed yet.")
        case (only,):
            yield from _one(only, found.at)
        case several:
            yield _overview(several, found.at)
            yield line(Styled("Depths are visible/in flight/delayed.", "faint"))


def _merged(items: Iterable[Attention]) -> Iterator[tuple[str, str]]:
    """Equal sentences once, with the names of all pipelines that they hold for."""
    pipelines: dict[str, list[str]] = {}
    for one in items:
        pipelines.setdefault(one.says, []).append(one.pipeline)
    for says, names in pipelines.items():
        yield ", ".join(names), says


def _overview(pipelines: Sequence[PipelineStatus], now: datetime) -> TextTable:
    dedicated = any(one.dedicated for one in pipelines)
    headings = ["PIPELINE", "CIRCUIT", ">MAIN", ">DLQ", ">OLDEST", ">WAITING", ">PARKED"]
    if dedicated:
        headings.append(">DEDICATED")
    return TextTable(
        [*headings, "LAST BUSY"],
        [
            [
                Styled(one.name if one.mode == "enforce" else f"{one.name} ({one.mode})", "strong"),
                _circuit_cell(one.circuit),
                _depth_cell([one.main]),
                _depth_cell([one.dlq]),
                _oldest(one),
                _waiting_cell(one),
                _depth_cell(one.parking.values()),
                *([_depth_cell(one.dedicated.values())] if dedicated else []),
                _last_run_at(one.last_run, now),
            ]
            for one in pipelines
        ],
    )


def _one(one: PipelineStatus, now: datetime) -> Iterator[Block]:
    observe = " (decides and reports, moves nothing)" if one.mode == "observe" else ""
    yield line(Styled(one.name, "strong"), f": mode {one.mode}{observe}, circuit ",
               _circuit_cell(one.circuit))  # fmt: skip
    # A run that finds nothing to do leaves no record: this is no heartbeat.
    yield line("Last busy run: ", _last_run_at(one.last_run, now), _last_run_did(one.last_run))
    yield line("Oldest letter in the DLQ: ", _oldest(one))
    yield Line()
    queues = [
        ("main queue", one.main),
        ("DLQ", one.dlq),
        *((f"parking queue {key}", held) for key, held in one.parking.items()),
        *((f"dedicated DLQ {key}", held) for key, held in one.dedicated.items()),
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
    if not one.waiting:
        yield line("The waiting room is empty.")
        return
    yield TextTable(
        ("LANE OF THE WAITING ROOM", ">LETTERS"),
        [(lane.lane, "?" if lane.letters is None else f"{lane.letters:,}") for lane in one.waiting],
    )
    if one.lanes_not_counted:
        yield line(f"and {count(one.lanes_not_counted, 'more lane')}, not counted")


def _circuit_cell(circuit: CircuitStatus | None) -> Part:
    if circuit is None:
        return "?"
    return Styled(circuit.state, "good" if circuit.state == State.CLOSED else "alarm")


def _depth_cell(depths: Iterable[QueueDepth | None]) -> Part:
    sums = [0, 0, 0]
    for one in depths:
        if one is None:
            return "?"
        sums = [sums[0] + one.visible, sums[1] + one.in_flight, sums[2] + one.delayed]
    text = "/".join(f"{one:,}" for one in sums)
    return text if any(sums) else Styled(text, "faint")


def _oldest(one: PipelineStatus) -> Part:
    # The figure lags by minutes: for an empty queue it would be about the past.
    if one.dlq == QueueDepth(0, 0, 0):
        return Styled("none", "faint")
    if one.oldest_letter_seconds is None:
        return Styled("unknown", "faint")
    return duration(one.oldest_letter_seconds)


def _waiting_cell(one: PipelineStatus) -> Part:
    if any(lane.letters is None for lane in one.waiting):
        return "?"
    total = sum(lane.letters or 0 for lane in one.waiting)
    more = "+" if one.lanes_not_counted else ""
    return f"{total:,}{more}" if total else Styled(f"0{more}", "faint")


def _last_run_at(run: Mapping[str, Any] | None, now: datetime) -> Part:
    if run is None:
        return Styled("none known", "faint")
    at = moment(run.get("at"))
    when = f"{duration((now - at).total_seconds())} ago" if at else "unknown"
    return Styled(when, "alarm") if _counter(run, "failed") else when


def _last_run_did(run: Mapping[str, Any] | None) -> str:
    if run is None:
        return ""
    moved, failed = (_counter(run, name) for name in ("moved", "failed"))
    stopped = run.get("stopped")
    why = f"; ended because {stopped}" if isinstance(stopped, str) else ""
    return f", {moved:,} moved, {failed:,} failed{why}"
