"""The status of an app: what needs a person, and how full each queue is.

`read` asks AWS, `attention` judges the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.circuit.state import State
from deadletter.contract import (
    CAUSE_SHARDS,
    LETTERS,
    MAIN,
    MAIN_DLQ,
    Mode,
    is_config_key,
    is_of_delays,
    parking_source,
)
from deadletter.routing.decision import DUE
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import Seen, TroubleKind, known_names

from . import deployed, observed
from .adapter_errors import aws_errors
from .answer import Answer
from .app import App, DeployedPipeline
from .attention import Outlook, attention, outlook, rate_now
from .aws import Aws, Read, Start
from .cards import Attention, cards
from .causes import HELD, CauseRow, read_causes
from .circuits import CircuitRow, Paced, circuit_row, opens_at
from .deadline import PATIENCE, Deadline, DeadlineMissed, reads_until
from .figures import WINDOW, QueueFigures, alarms, because, queue_figures, silences
from .item import jsonable
from .observed import ObservedCounts
from .problem import Problem
from .queue import QueueDepth, depth
from .replay_runs import ReplayRow, lost_runs, row, runs_of
from .selection import NamedPipelines
from .session import AppLocation, Session
from .verbs import Asked, Verb
from .watched import (
    ManyCollisions,
    Memories,
    SeenTrouble,
    SourceStatus,
    Watched,
    as_shown,
    bad_row,
    many_collisions,
    met_by_runs,
    read_memories,
    watched,
)
from .words import moment

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.circuit.state import Circuit
    from deadletter.redrive.source_memory import SourceMemory
    from deadletter.settings.pipeline import Pipeline
    from deadletter.watch.row import LaneRow

# A lane takes a query per shard, and circuits of webhook endpoints can make thousands of
# lanes: more do not fit on a screen.
_MAX_LANES = 40

UNREADABLE = "UNREADABLE"
"""The state of a circuit whose record is malformed: the router holds its letters."""


@dataclass(frozen=True, slots=True)
class LaneStatus:
    """Messages that wait for one thing."""

    waiting_for: Annotated[
        str,
        "`due`, `circuit:<key>`, `rule:<id>`, `run:<id>`, `parked` or `dedicated:<id>`",
    ]
    messages: Annotated[int | None, "messages in it; null if it could not be read"]
    oldest_seconds: Annotated[
        int | None,
        "age of the oldest message of this kind, as the monitor remembers it; null if it is "
        "unknown",
    ] = None
    first_due: Annotated[
        datetime | None, "when the first of those that wait for a time is due; null for others"
    ] = None


@dataclass(frozen=True, slots=True)
class CircuitStatus:
    """The pipeline's own circuit."""

    state: Annotated[str, "CLOSED, OPEN, HALF_OPEN, or UNREADABLE (messages are held)"]
    open_until: Annotated[
        datetime | None, "when an open circuit is tried again; null if a person says when"
    ]
    since: Annotated[datetime | None, "when it opened or closed; null if it never did"] = None
    by: Annotated[str | None, "who holds it in this state; null if no person does now"] = None
    because: Annotated[
        str | None,
        "the reason of who holds it, or else why it last opened; null if that is not on record",
    ] = None
    until: Annotated[datetime | None, "when that person's hold ends; null without an end"] = None
    paced: Annotated[Paced | None, "how fast calls may go; null if nothing limits them"] = None
    slowed: Annotated[
        Mapping[str, int],
        "how many kinds of messages are slowed, by field: they fail while others succeed",
    ] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class AlarmState:
    """A CloudWatch alarm in state ALARM."""

    name: Annotated[str, "name of the alarm"]
    since: Annotated[datetime, "when it went into ALARM"]


@dataclass(frozen=True, slots=True)
class PipelineStatus:
    """A pipeline as it is now."""

    name: Annotated[str, "name of the pipeline"]
    mode: Annotated[str, "`enforce`, or `observe` (decides and reports, moves nothing)"]
    fifo: Annotated[bool, "whether its queues are FIFO queues"]
    main: Annotated[QueueDepth | None, "the main queue; null if it could not be read"]
    dlq: Annotated[QueueDepth | None, "the DLQ"]
    parking: Annotated[Mapping[str, QueueDepth | None], "parking queues by id"]
    dedicated: Annotated[Mapping[str, QueueDepth | None], "dedicated DLQs by id"]
    oldest_message_seconds: Annotated[
        int | None, "age of the DLQ's oldest message by CloudWatch; null if it says nothing"
    ]
    waiting: Annotated[Sequence[LaneStatus], "what waits, by what it waits for"]
    places_not_counted: Annotated[int, f"things that are waited for, beyond {_MAX_LANES}"]
    circuit: Annotated[
        CircuitStatus | None, "the pipeline's own circuit; null if it could not be read"
    ]
    last_run: Annotated[
        Mapping[str, Any] | None,
        "the last run of the DLQ that found something to do: `at` (epoch seconds) and its "
        "report, as in `dlq retry --auto`; null if none is on record",
    ]
    alarms: Annotated[Sequence[AlarmState], "its alarms that are in ALARM"]
    held: Annotated[Sequence[CircuitRow], "the circuits that a person holds open or closed"] = ()
    misconfigured: Annotated[
        Sequence[CircuitRow],
        "the circuits for configuration that are not closed, and that no person holds",
    ] = ()
    causes: Annotated[Sequence[CauseRow], "the causes of failure that suddenly dominate"] = ()
    collisions: Annotated[
        ManyCollisions | None, "if so many messages collide that none is parked for it"
    ] = None
    monitor_ran_at: Annotated[
        datetime | None, "when its monitor last ran; null if it never did, or could not be read"
    ] = None
    seen: Annotated[
        Sequence[SeenTrouble],
        "the troubles that the monitor sees, rung or not yet, the most specific first",
    ] = ()
    direction: Annotated[
        str | None,
        "where the number of messages in DLQs and waiting went in the monitor's last ten looks: "
        "`rising`, `falling` or `flat` (within 20 %); null before ten looks",
    ] = None
    sources: Annotated[
        Sequence[SourceStatus], "its DLQs and parking queues, as runs and the monitor remember them"
    ] = ()
    runs: Annotated[Sequence[ReplayRow], "runs that are live, or that still have messages"] = ()

    main_oldest_seconds: Annotated[
        int | None, "age of the main queue's oldest message by CloudWatch; null if unknown"
    ] = None
    observed: Annotated[
        ObservedCounts | None,
        "in mode observe, what would have been done; null in mode enforce, and before any of it. "
        "dlq show tells the causes",
    ] = None
    bad_rows: Annotated[
        Sequence[SeenTrouble],
        "rows that cannot be read, as far as is known, since when they were last met",
    ] = ()
    outlook: Annotated[Outlook | None, "what becomes of its messages if nothing changes"] = None
    foreign_rows: Annotated[
        Sequence[Mapping[str, str]],
        "keys of rows among what waits and its causes that others wrote: they are ignored",
    ] = ()

    @property
    def is_stalled(self) -> bool:
        """Whether no run can do its work, as far as the watch knows."""
        return any(trouble.page == Alarm.REDRIVE_STALLED for trouble in self.seen)

    @property
    def depths(self) -> Mapping[str, QueueDepth | None]:
        """How full its queues are, by source; None for one that could not be read."""
        parking = {parking_source(id_): depth for id_, depth in self.parking.items()}
        return {MAIN: self.main, MAIN_DLQ: self.dlq, **parking, **self.dedicated}

    def source(self, source: str) -> SourceStatus | None:
        """What is remembered of a queue; None if it could not be read."""
        return next((status for status in self.sources if status.source == source), None)


@dataclass(frozen=True, slots=True)
class AppStatus(Answer):
    """What `dlq status` answers."""

    at: Annotated[datetime, "when it was read"]
    attention: Annotated[Sequence[Attention], "what needs a person, most urgent first"]
    pipelines: Annotated[Sequence[PipelineStatus], "the pipelines, by name"]
    needs_person: Annotated[bool, "whether something in `attention` does"] = False


def read(session: Session, names: Sequence[str], *, patience: float = PATIENCE) -> AppStatus:
    """The status of these pipelines, or of all, read side by side.

    What AWS refuses, or does not answer within `patience` seconds in all, is named in
    `attention`. Raises Problem if the app itself can't be read.
    """
    deadline, now = Deadline(patience), session.now
    with reads_until(deadline) as start:
        # Clients are made here, in one thread: that alone may ask for credentials.
        start(lambda: _clients(session.aws)).answer("The AWS credentials")
        account = start(lambda: session.aws.account)
        app = session.app(deadline)
        aws, pipelines = session.aws, app.select(names)
        figures = start(partial(queue_figures, aws.cloudwatch, app, pipelines, now))
        ringing = start(partial(_alarms, aws.cloudwatch, app))
        reads = [_PipelineReads(start, session, app, pipeline) for pipeline in pipelines]
        for pending in reads:
            pending.count_lanes(start)
        place = AppLocation(
            account=account.answer("The account (STS)"), region=aws.region, app=session.app_name
        )
        statuses = tuple(pending.status(figures, ringing) for pending in reads)
        silent = _silent(start, aws.cloudwatch, app, statuses, now)
    items = [
        card
        for status, pending in zip(statuses, reads, strict=True)
        for found in [(*attention(status, now), *silent.get(status.name, ()), *pending.unread())]
        for card in cards(app.name, status, found, now)
    ]
    items.sort(key=lambda item: item.urgency)
    return AppStatus(
        **place,
        at=now,
        attention=tuple(items),
        pipelines=statuses,
        needs_person=any(item.needs_person for item in items),
    )


def _silent(
    start: Start,
    cloudwatch: CloudWatchClient,
    app: App,
    pipelines: Sequence[PipelineStatus],
    now: datetime,
) -> Mapping[str, Sequence[Seen]]:
    """Why functions have left no record, by pipeline: asked only where one is missing."""
    missing = [silence for pipeline in pipelines for silence in silences(app.name, pipeline, now)]
    reads = [
        start(partial(because, cloudwatch, silence, app.letters_table, now)) for silence in missing
    ]
    found: dict[str, list[Seen]] = defaultdict(list)
    for silence, read in zip(missing, reads, strict=True):
        refused: list[Problem] = []
        known = read.result(refused.append)
        found[silence.pipeline].append(
            known or unread(f"figures of {silence.function}", refused[0].says)
        )
    return found


def unread(what: str, why: str) -> Seen:
    """Something that AWS refused, or did not answer."""
    return Seen(TroubleKind.UNREAD, {"what": what, "why": why})


def _clients(aws: Aws) -> None:
    _ = aws.sts, aws.ssm, aws.sqs, aws.dynamodb, aws.cloudwatch


class _PipelineReads:
    """The reads under way for a pipeline."""

    def __init__(
        self, start: Start, session: Session, app: App, pipeline: DeployedPipeline
    ) -> None:
        from deadletter.aws.cause_entries import DynamoDBCauseEntries
        from deadletter.aws.errors import BadRows
        from deadletter.aws.waiting_room import DynamoDBLanes
        from deadletter.settings.pipeline import Pipeline

        self._app, self._bad_rows = app, BadRows()
        note = self._bad_rows.note
        self.pipeline = pipeline
        self._refused: list[Seen] = []
        self._unanswered: dict[str, list[str]] = {}
        dynamodb, sqs, name = session.aws.dynamodb, session.aws.sqs, pipeline.name
        self._room = DynamoDBLanes(dynamodb, app.letters_table, name, note_bad_row=note)
        self._causes = DynamoDBCauseEntries(dynamodb, app.letters_table, name)
        self._foreign_causes = start(self._find_foreign_causes)
        self._main, self._dlq = (
            start(partial(depth, sqs, url)) for url in (pipeline.main_url, pipeline.dlq_url)
        )
        self._parking, self._dedicated = (
            {key: start(partial(depth, sqs, url)) for key, url in queues.items()}
            for queues in (pipeline.parking, pipeline.dedicated)
        )
        self._registry = start(self._lane_names)
        self._now = session.now
        self._settings = _settings(pipeline)
        self._ttl = (self._settings or Pipeline(name)).message_ttl
        self._circuits = start(partial(_circuits, session, app, pipeline, note))
        self._memories = start(partial(read_memories, dynamodb, app.letters_table, name, note))
        self._observed = start(partial(_observed, session, app, pipeline))
        self._last_run = start(partial(_last_run, dynamodb, app.letters_table, name))
        self._replays = start(partial(_replays, session, app, pipeline, note))
        self._lanes: Sequence[str] = ()
        self._letters: dict[str, Read[int]] = {}

    def _lane_names(self) -> Sequence[str]:
        with aws_errors():
            return [lane.name for lane in self._room.lanes()]

    def _count(self, lane: str) -> int:
        with aws_errors():
            return self._room.count(lane)

    def _find_foreign_causes(self) -> None:
        with aws_errors():
            for shard in range(CAUSE_SHARDS):
                self._causes.find_foreign(shard)

    def count_lanes(self, start: Start) -> None:
        from deadletter.redrive.waiting_room import is_shut

        lanes = self._registry.result(partial(self._lost, "what waits")) or ()
        # Those that count as letters of a queue are never left out.
        self._lanes = sorted(lanes, key=lambda lane: not is_shut(lane))
        self._letters = {
            lane: start(partial(self._count, lane)) for lane in self._lanes[:_MAX_LANES]
        }

    def status(
        self,
        figures: Read[Mapping[str, QueueFigures]],
        alarms: Read[Mapping[str, Sequence[AlarmState]]],
    ) -> PipelineStatus:
        name, lost = self.pipeline.name, self._lost
        known_figures = figures.result(partial(lost, "CloudWatch's figures")) or {}
        figure = known_figures.get(name, QueueFigures())
        ringing = alarms.result(partial(lost, "the alarms")) or {}
        letters = {
            lane: letters.result(partial(lost, f"what waits for {lane}"))
            for lane, letters in self._letters.items()
        }
        self._foreign_causes.result(partial(lost, "the index of causes"))
        circuits = self._circuits.result(partial(lost, "the circuit"))
        memories = self._memories.result(partial(lost, "what runs and the monitor remember"))
        known = None if memories is None else self._watched(memories, letters)
        lane_rows = {} if memories is None or memories.row is None else memories.row.lanes
        status = PipelineStatus(
            name=name,
            mode=self.pipeline.mode,
            fifo=self.pipeline.fifo,
            main=self._main.result(partial(lost, "the main queue")),
            dlq=self._dlq.result(partial(lost, "the DLQ")),
            parking={
                key: queue.result(partial(lost, f"parking queue {key}"))
                for key, queue in self._parking.items()
            },
            dedicated={
                key: queue.result(partial(lost, f"dedicated DLQ {key}"))
                for key, queue in self._dedicated.items()
            },
            oldest_message_seconds=figure.dlq_age,
            waiting=tuple(
                lane_status(lane, number, lane_rows, self._ttl, self._now)
                for lane, number in sorted(letters.items())
            ),
            places_not_counted=max(0, len(self._lanes) - _MAX_LANES),
            circuit=None if circuits is None else circuits[0],
            last_run=self._last_run.result(partial(lost, "the last run")),
            alarms=ringing.get(name, ()),
            held=() if circuits is None else circuits[1],
            misconfigured=() if circuits is None else circuits[2],
            causes=() if circuits is None else circuits[3],
            collisions=None if circuits is None else circuits[4],
            monitor_ran_at=None if known is None else known.ran_at,
            seen=() if known is None else known.seen,
            direction=None if known is None else known.direction,
            sources=() if known is None else known.sources,
            observed=self._observed.result(partial(lost, "what mode observe has seen")),
            runs=self._replays.result(partial(lost, "the runs")) or (),
            main_oldest_seconds=figure.main_age,
            foreign_rows=tuple(
                {LETTERS.partition: partition, LETTERS.sort: sort}
                for partition, sort in (*self._room.foreign.keys, *self._causes.foreign.keys)
            ),
        )
        status = replace(status, bad_rows=self._known_bad_rows(memories))
        dues = [lane.first_due for lane in status.waiting if is_of_delays(lane.waiting_for)]
        due = min((at for at in dues if at is not None), default=None)
        memory = None if memories is None else memories.by_source.get(MAIN_DLQ)
        rate_limit, rate_because = rate_now(self._settings, memory, self._now)
        return replace(
            status,
            outlook=outlook(
                status,
                self._now,
                rate_limit=rate_limit,
                rate_measured=figure.rate,
                measured_seconds=_measured_over(figure, memory, self._now),
                rate_because=rate_because,
                first_due=due,
                looked=None if memories is None else memories.row,
            ),
        )

    def _known_bad_rows(self, memories: Memories | None) -> Sequence[SeenTrouble]:
        """Once all is read: what runs have met, and what was met here."""
        met = {**met_by_runs(memories), **dict.fromkeys(self._bad_rows.take(), 0.0)}
        app, name = self._app, self.pipeline.name
        return [
            as_shown(bad_row(app, name, row, at, self._now), known_names(app.name, name))
            for row, at in sorted(met.items())
        ]

    def unread(self) -> Iterator[Seen]:
        """What AWS refused, then what it did not answer, in one sentence."""
        yield from self._refused
        for why, names in self._unanswered.items():
            yield unread(", ".join(names), why)

    def _watched(self, memories: Memories, lanes: Mapping[str, int | None]) -> Watched:
        return watched(
            memories, self._app.name, self.pipeline, lambda lane: lanes.get(lane, 0), self._now
        )

    def _lost(self, what: str, why: Problem) -> None:
        if isinstance(why, DeadlineMissed):
            self._unanswered.setdefault(why.says, []).append(what)
            return
        self._refused.append(unread(what, why.says))


def _measured_over(figure: QueueFigures, memory: SourceMemory | None, now: datetime) -> int | None:
    """Seconds in which runs could send letters back; None if none has run of late."""
    ended = moment(memory.ended_at) if memory is not None else None
    has_run = ended is not None and now - ended <= WINDOW
    return figure.ran or (int(WINDOW.total_seconds()) if has_run else None)


def lane_status(
    lane: str, letters: int | None, rows: Mapping[str, LaneRow], ttl: float, now: datetime
) -> LaneStatus:
    """A lane with the age of its oldest letter and its first due time, as the watch knows them.

    `rows` are what the watch remembers, by kind of lane; `ttl` is the pipeline's message TTL in
    seconds.
    """
    from deadletter.watch.lane_figures import CIRCUIT, RULE, kind_of

    kind = kind_of(lane)
    row = rows.get(kind)
    if row is None or not letters:
        return LaneStatus(lane, letters)
    if kind == DUE:
        return LaneStatus(lane, letters, None, moment(row.first_due))
    since = row.oldest
    if kind == CIRCUIT:
        # Such a letter is due when its time to live is over.
        since = None if row.first_due is None else row.first_due - ttl
    elif kind == RULE:
        since = row.filled_at
    known = since is not None and 0 < since <= now.timestamp()
    return LaneStatus(lane, letters, int(now.timestamp() - since) if known and since else None)


def _circuits(
    session: Session, app: App, pipeline: DeployedPipeline, note_bad_row: Callable[[str], None]
) -> tuple[
    CircuitStatus,
    Sequence[CircuitRow],
    Sequence[CircuitRow],
    Sequence[CauseRow],
    ManyCollisions | None,
]:
    """What the circuits table says of a pipeline.

    Its own circuit, those that a person holds, the open ones for configuration, the causes
    that are held, and whether many messages collide.
    """
    from deadletter.aws.circuits import DynamoDBCircuits

    name = pipeline.name
    circuits = DynamoDBCircuits(session.aws.dynamodb, app.circuits_table, name, note_bad_row)
    with aws_errors():
        own = circuits.find(name)
        others = [circuit for circuit in circuits.troubled() if circuit.key != name]
    rows = [
        circuit_row(name, circuit, session.now)
        for circuit in (own, *sorted(others, key=lambda circuit: circuit.key))
    ]
    state = UNREADABLE if own.unreadable else str(own.state)
    held = [row for row in rows if row.forced is not None]
    misconfigured = [
        row
        for row in rows
        if is_config_key(row.key) and row.state != State.CLOSED and row.forced is None
    ]
    causes = [row for row in read_causes(session, app, pipeline) if row.state == HELD]
    many = many_collisions(session, app, pipeline, note_bad_row)
    return _own_circuit(state, own, rows[0]), held, misconfigured, causes, many


def _own_circuit(state: str, own: Circuit, row: CircuitRow) -> CircuitStatus:
    """The pipeline's circuit, with who holds it and why, or what opened it."""
    because = row.forced_reason
    if row.forced is None and state not in (State.CLOSED, UNREADABLE):
        because = row.because or None
    return CircuitStatus(
        state,
        opens_at(own),
        row.since,
        row.forced_by,
        because,
        row.forced_until,
        row.paced,
        row.slowed,
    )


def _settings(pipeline: DeployedPipeline) -> Pipeline | None:
    """The pipeline's settings; None if this version does not understand them."""
    try:
        return deployed.settings(pipeline)
    except Problem:
        return None


def _replays(
    session: Session, app: App, pipeline: DeployedPipeline, note_bad_row: Callable[[str], None]
) -> Sequence[ReplayRow]:
    """The replay runs that have not ended to their end."""
    with aws_errors():
        runs = runs_of(session, app, pipeline, note_bad_row).all()
    unfinished = [run for run in runs if run.is_live or not run.left]
    lost = lost_runs(session, pipeline, unfinished)
    return tuple(row(run, lost.get(run.id)) for run in unfinished)


def _observed(session: Session, app: App, pipeline: DeployedPipeline) -> ObservedCounts | None:
    is_observed = pipeline.mode == Mode.OBSERVE
    return observed.counted(session, app, pipeline) if is_observed else None


def _last_run(dynamodb: DynamoDBClient, table: str, pipeline: str) -> Mapping[str, Any] | None:
    from deadletter.aws.lease import read_last_run

    with aws_errors():
        report = read_last_run(dynamodb, table, pipeline, MAIN_DLQ)
    return None if report is None else {key: jsonable(value) for key, value in report.items()}


def _alarms(cloudwatch: CloudWatchClient, app: App) -> Mapping[str, Sequence[AlarmState]]:
    """The alarms that are in ALARM, by pipeline."""
    by_pipeline: dict[str, list[AlarmState]] = defaultdict(list)
    for alarm in alarms(cloudwatch, f"{app.name}-", StateValue="ALARM"):
        since = alarm.get("StateTransitionedTimestamp") or alarm["StateUpdatedTimestamp"]
        owner = app.owner_of(alarm["AlarmName"])
        if owner is not None and alarm["StateValue"] == "ALARM":
            by_pipeline[owner].append(AlarmState(alarm["AlarmName"], since))
    return by_pipeline


@dataclass(frozen=True, slots=True, kw_only=True)
class StatusRequest:
    """What needs attention, and how full each queue is.

    Reads only. The first line says whether anything needs a person. Depths are SQS's own
    estimates, written visible/in flight/delayed; messages that were moved out of a queue before SQS
    could delete them count as visible. With one pipeline, its queues, what waits, its circuit, its
    last run and what happens next are shown one by one. Of one in mode observe it counts what would
    have been done.

    It ends within ten seconds: what AWS has not answered by then is named.

    The exit status is 1 if something could not be read; with --check also if something
    needs a person.
    """

    pipelines: NamedPipelines = ()
    check: Annotated[bool, Asked("Exit with 1 if something needs attention.", ("--check",))] = False
    watch: Annotated[
        bool, Asked("Show it anew every five seconds, until Ctrl-C.", ("--watch",))
    ] = False


def _status(session: Session, request: StatusRequest) -> AppStatus:
    session.say(f"Asking AWS about app {session.app_name}")
    return read(session, request.pipelines)


VERB = Verb(
    name="status",
    request=StatusRequest,
    examples=[
        "dlq status",
        "dlq status orders",
        "dlq status orders --watch",
        "dlq status --check --json --query attention",
    ],
    read=_status,
)
