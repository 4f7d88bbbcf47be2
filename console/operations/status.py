"""The status of an app: what needs a person, and how full each queue is.

`read` asks AWS, `attention` judges the answers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.circuit.state import State
from deadletter.contract import (
    CAUSE_SHARDS,
    EVERY_PIPELINE,
    MAIN,
    MAIN_DLQ,
    MESSAGES,
    is_config_key,
    is_of_delays,
    parking_source,
    pipeline_prefix,
    with_config_keys,
)
from deadletter.routing.decision import DUE
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.pages import APP_PAGES
from deadletter.signals.troubles import Fact, Seen, TroubleKind, known_names, shown

from . import observed
from .app import App, DeployedPipeline
from .attention import Attention, attention, cards, cards_of_app, outlook, seen, source_name
from .causes import HELD, read_causes
from .circuits import circuit_row
from .deadline import PATIENCE, Asking, Deadline, DeadlineMissed, Read, Start, side_by_side
from .errors import Cause, Problem
from .figures import Metric, QueueFigures, alarms, points, queue_figures
from .item import jsonable
from .pipeline_status import MOST_LANES, AlarmState, Flow, LaneStatus, PipelineStatus
from .queue import depth
from .replay_runs import ReplayRow, lost_runs, row
from .selection import NamedPipelines
from .session import Answer, AppLocation, Here, Session
from .verbs import Asked, Verb
from .watched import (
    Memories,
    as_shown,
    bad_row,
    many_collisions,
    met_by_runs,
    read_memories,
    sources_of,
)
from .words import duration, moment

if TYPE_CHECKING:
    from mypy_boto3_cloudwatch import CloudWatchClient

    from deadletter.redrive.waiting_room import LaneCount
    from deadletter.watch.row import WatchRow


@dataclass(frozen=True, slots=True)
class AppStatus(Answer):
    """What `dlq status` answers."""

    attention: Annotated[Sequence[Attention], "what needs a person, or is good to know"]
    pipelines: Annotated[Sequence[PipelineStatus], "the pipelines, by name"]
    needs_person: Annotated[bool, "whether something in `attention` does"] = False
    flow: Annotated[Flow | None, "with --flow, the deployment as nodes and edges"] = None


def read(session: Session, names: Sequence[str], *, patience: float = PATIENCE) -> AppStatus:
    """The status of these pipelines, or of all, read side by side.

    What AWS refuses, or does not answer within `patience` seconds in all, is named in
    `attention`. Raises Problem if the app itself can't be read.
    """
    deadline, now = Deadline(patience), session.now
    with side_by_side(deadline) as start:
        # Clients are made here, in one thread: that alone may ask for credentials.
        start(lambda: (session.aws.sts, session.aws.ssm)).answer("The AWS credentials")
        account = start(lambda: session.aws.account)
        app = session.app(deadline)
        aws, pipelines = session.aws, app.select(names)
        # Without an app, none of these is needed: each takes a fiftieth second to make.
        start(lambda: (aws.sqs, aws.dynamodb, aws.cloudwatch)).answer("The AWS credentials")
        figures = start(partial(queue_figures, aws.cloudwatch, app, pipelines, now))
        ringing = start(partial(_alarms, aws.cloudwatch, app))
        reads = [_PipelineReads(start, session, app, pipeline) for pipeline in pipelines]
        for pending in reads:
            pending.count_lanes()
        named = account.answer("The account (STS)")
        place = AppLocation(account=named, region=aws.region, app=session.app_name, at=now)
        statuses = tuple(pending.status(figures, ringing) for pending in reads)
        silent = _silent(start, aws.cloudwatch, app, statuses, now)
    items = [
        card
        for status, pending in zip(statuses, reads, strict=True)
        for found in [(*attention(status, now), *silent.get(status.name, ()), *pending.unread())]
        for card in cards(app.name, status, found, now)
    ]
    rung = ringing.result(lambda _: None) or {}  # Where it is unread, pipelines say so.
    items += cards_of_app(rung.get(EVERY_PIPELINE, ()), now)
    items.sort(key=lambda item: item.urgency)
    return AppStatus(
        **place,
        attention=tuple(items),
        pipelines=statuses,
        needs_person=any(item.needs_person for item in items),
    )


# The minute of the record itself, and the minutes that CloudWatch may be late.
_AFTER_THE_RECORD = timedelta(minutes=1)

# Silence is not asked about before: a figure would be of too few minutes.
_LEAST = timedelta(minutes=3)

# CloudWatch keeps figures of single minutes for 15 days; older ones help no person.
_MOST = timedelta(hours=3)


@dataclass(frozen=True, slots=True)
class Silence:
    """A function of a pipeline that has left no record since a time, and its schedule."""

    pipeline: str
    function: str
    schedule: str
    since: datetime


def silences(app: str, pipeline: PipelineStatus, now: datetime) -> Iterator[Silence]:
    """The functions of a pipeline that have been silent for longer than they should."""
    prefix = pipeline_prefix(app, pipeline.name)
    if not pipeline.sources:
        return  # What runs and the watch remember could not be read.
    watch = f"{prefix}watch"
    if pipeline.monitor_ran_at is not None and now - pipeline.monitor_ran_at >= _LEAST:
        yield Silence(pipeline.name, watch, watch, pipeline.monitor_ran_at)
    source = pipeline.source(MAIN_DLQ)
    ending = None if source is None or source.last_ending is None else source.last_ending.at
    # The watch knows how often runs begin: where it sees no stall, this one is not late.
    if pipeline.is_stalled and ending is not None and now - ending >= _LEAST:
        yield Silence(pipeline.name, f"{prefix}redrive", f"{prefix}dlq", ending)


def because(
    cloudwatch: CloudWatchClient, silence: Silence, messages_table: str, now: datetime
) -> Seen:
    """Why a function is silent, from the figures of the minutes of its silence."""
    function, table = ("FunctionName", silence.function), ("TableName", messages_table)
    metrics = [
        *(Metric("AWS/Lambda", name, "Sum", (function,))
          for name in ("Invocations", "Errors", "Throttles")),
        *(Metric("AWS/DynamoDB", name, "Sum", (table,))
          for name in ("ReadThrottleEvents", "WriteThrottleEvents")),
    ]  # fmt: skip
    start = max(silence.since + _AFTER_THE_RECORD, now - _MOST)
    found = points(cloudwatch, metrics, start, now)
    sums = [int(sum(value for _, value in found.get(metric, ()))) for metric in metrics]
    started, failed, refused, reads, writes = sums
    kind, times = TroubleKind.NOT_RECORDED, 0
    if refused:
        kind, times = TroubleKind.NOT_LET_RUN, refused
    elif not started:
        kind = TroubleKind.NOT_STARTED
    elif reads + writes:
        kind, times = TroubleKind.TABLE_THROTTLED, reads + writes
    elif failed:
        kind, times = TroubleKind.FUNCTION_FAILS, failed
    facts: dict[str, Fact] = {"function": silence.function, "schedule": silence.schedule}
    facts |= {"table": messages_table, "times": times, "starts": started}
    return Seen(kind, facts | {"ago": duration(now - silence.since)})


def _silent(
    start: Start,
    cloudwatch: CloudWatchClient,
    app: App,
    pipelines: Sequence[PipelineStatus],
    now: datetime,
) -> Mapping[str, Sequence[Seen]]:
    """Why functions have left no record, by pipeline: asked only where one is missing."""
    missing = [silence for pipeline in pipelines for silence in silences(app.name, pipeline, now)]
    asking = Asking(start)
    reads = [
        asking(f"figures of {each.function}", because, cloudwatch, each, app.messages_table, now)
        for each in missing
    ]
    found: dict[str, list[Seen]] = defaultdict(list)
    for silence, known in zip(missing, reads, strict=True):
        found[silence.pipeline].append(known() or unread(*asking.lost[-1]))
    return found


def unread(what: str, why: Problem) -> Seen:
    """Something that AWS refused, or did not answer."""
    return seen(TroubleKind.UNREAD, what=what, why=why.says)


class _PipelineReads:
    """The reads under way for a pipeline."""

    def __init__(
        self, start: Start, session: Session, app: App, pipeline: DeployedPipeline
    ) -> None:
        from deadletter.aws.cause_entries import DynamoDBCauseEntries
        from deadletter.aws.lease import read_last_run
        from deadletter.aws.rows import MOST_BROKEN, MetRows
        from deadletter.aws.waiting_room import DynamoDBLanes

        self._app, self._pipeline, self._now = app, pipeline, session.now
        self._bad_rows, ask = MetRows[str](most=MOST_BROKEN), Asking(start)
        self._ask, note, sqs = ask, self._bad_rows.add, session.aws.sqs
        table = (session.aws.dynamodb, app.messages_table, pipeline.name)
        at = (session, app, pipeline)
        self._room = DynamoDBLanes(*table, note_bad_row=note)
        self._causes = DynamoDBCauseEntries(*table)
        self._foreign_causes = ask("the index of causes", self._find_foreign_causes)
        self._depths = {
            source: ask(source_name(source), depth, sqs, url)
            for source, url in pipeline.urls.items()
        }
        self._registry = ask("what waits", self._room.lanes)
        self._circuits = ask("the circuit", _circuits, *at, note)
        self._memories = ask("what runs and the monitor remember", read_memories, *table, note)
        self._observed = ask("what mode observe has seen", observed.counted, *at)
        self._last_run = ask("the last run", read_last_run, *table, MAIN_DLQ)
        self._runs = ask("the runs", _replays, *at, note)

    def _find_foreign_causes(self) -> None:
        for shard in range(CAUSE_SHARDS):
            self._causes.find_foreign(shard)

    def count_lanes(self) -> None:
        from deadletter.redrive.waiting_room import is_shut

        lanes = self._registry()
        names = [lane.name for lane in lanes or ()]
        # Those that count as letters of a queue, or are summed, are never left out.
        names.sort(key=lambda lane: not (is_shut(lane) or is_of_delays(lane)))
        self._more = None if lanes is None else max(0, len(names) - MOST_LANES)
        self._letters = {
            lane: self._ask(f"what waits for {lane}", self._room.count, lane)
            for lane in names[:MOST_LANES]
        }

    def status(
        self,
        figures: Read[Mapping[str, QueueFigures]],
        alarms: Read[Mapping[str, Sequence[AlarmState]]],
    ) -> PipelineStatus:
        pipeline, now, known = self._pipeline, self._now, _settings(self._pipeline)
        figure = (self._ask.wait("CloudWatch's figures", figures) or {}).get(pipeline.name)
        ringing = self._ask.wait("the alarms", alarms)
        counts = {lane: counted() for lane, counted in self._letters.items()}
        letters = None if self._more is None else counts
        self._foreign_causes()
        circuits = self._circuits() or {}
        remembered = self._memories()
        memories = remembered or Memories()
        no_trouble = None if remembered is None else ()
        row, names = memories.row, known_names(self._app.name, pipeline.name)
        depths = {source: held() for source, held in self._depths.items()}
        last_run = self._last_run()
        sources = sources_of(memories, pipeline, letters, now)
        status = PipelineStatus(
            name=pipeline.name,
            mode=pipeline.mode,
            fifo=pipeline.fifo,
            main=depths[MAIN],
            dlq=depths[MAIN_DLQ],
            parking={id_: depths[parking_source(id_)] for id_ in pipeline.parking},
            dedicated={id_: depths[id_] for id_ in pipeline.dedicated},
            oldest_message_seconds=None if figure is None else figure.dlq_age,
            waiting=None
            if letters is None
            else tuple(
                lane_status(lane, number, row, (known or Pipeline("")).message_ttl, now)
                for lane, number in sorted(letters.items())
            ),
            places_not_counted=self._more,
            last_run=last_run and {key: jsonable(value) for key, value in last_run.items()},
            alarms=None if ringing is None else ringing.get(pipeline.name, ()),
            monitor_ran_at=moment(row.ran_at) if row else None,
            seen=tuple(as_shown(seen, names) for seen in shown(row.seen)) if row else no_trouble,
            direction=(row.direction or None) if row else None,
            sources=None if remembered is None else tuple(sources),
            observed=self._observed(),
            runs=self._runs(),
            main_oldest_seconds=None if figure is None else figure.main_age,
            foreign_rows=tuple(
                {MESSAGES.partition: partition, MESSAGES.sort: sort}
                for partition, sort in (*self._room.foreign.rows, *self._causes.foreign.rows)
            ),
            # Once all is read: what runs have met, and what was met here.
            bad_rows=tuple(
                as_shown(bad_row(self._app, pipeline.name, met, at, now), names)
                for met, at in sorted(
                    {**met_by_runs(memories), **dict.fromkeys(self._bad_rows.take(), 0.0)}.items()
                )
            ),
            **circuits,
        )
        unread = [what for what, _ in self._ask.lost]
        return replace(status, outlook=outlook(status, now, known, figure, memories, unread))

    def unread(self) -> Iterator[Seen]:
        """What AWS refused, then what it did not answer, in one sentence."""
        unanswered: dict[str, list[str]] = {}
        for what, why in self._ask.lost:
            if isinstance(why, DeadlineMissed):
                unanswered.setdefault(why.says, []).append(what)
            else:
                yield unread(what, why)
        for says, names in unanswered.items():
            yield unread(", ".join(names), Problem(says, Cause.UNREACHABLE))


def lane_status(
    lane: str, counted: LaneCount | None, looked: WatchRow | None, ttl: float, now: datetime
) -> LaneStatus:
    """A lane with the age of its oldest letter and its first due time, as the watch knows them.

    `ttl` is the pipeline's message TTL in seconds.
    """
    from deadletter.watch.queues import CIRCUIT, RULE, kind_of

    if counted is None:
        return LaneStatus(lane, None)
    status = LaneStatus(lane, counted.messages, is_at_least=counted.is_at_least)
    kind = kind_of(lane)
    row = None if looked is None else looked.lanes.get(kind)
    if row is None or not counted.messages:
        return status
    if kind == DUE:
        return replace(status, first_due=moment(row.first_due))
    since = row.filled_at if kind == RULE else row.oldest
    if kind == CIRCUIT:
        # Such a letter is due when its time to live is over.
        since = None if row.first_due is None else row.first_due - ttl
    known = since is not None and 0 < since <= now.timestamp()
    seconds = int(now.timestamp() - since) if known and since else None
    return replace(status, oldest_seconds=seconds)


def _circuits(
    session: Session, app: App, pipeline: DeployedPipeline, note_bad_row: Callable[[str], None]
) -> Mapping[str, Any]:
    """What the circuits table says of a pipeline, by the fields of its status."""
    from deadletter.aws.circuits import DynamoDBCircuits

    name = pipeline.name
    circuits = DynamoDBCircuits(session.aws.dynamodb, app.circuits_table, name, note_bad_row)
    # The index lags, and lacks rows that a person typed: what stops runs is read as they read it.
    own = circuits.read(with_config_keys([name]))
    known = {**{circuit.key: circuit for circuit in circuits.troubled()}, **own}
    keys = sorted(known, key=lambda key: (key != name, key))
    rows = [circuit_row(name, known[key], session.now) for key in keys]
    free = [row for row in rows if row.forced is None and row.state != State.CLOSED]
    causes = read_causes(Here(session, app, pipeline))
    return {
        "circuit": rows[0],
        "held": [row for row in rows if row.forced is not None],
        "misconfigured": [row for row in free if is_config_key(row.key)],
        "causes": [row for row in causes if row.state == HELD],
        "collisions": many_collisions(session, app, pipeline, note_bad_row),
    }


def _settings(pipeline: DeployedPipeline) -> Pipeline | None:
    """The pipeline's settings; None if this version does not understand them."""
    try:
        return pipeline.settings()
    except Problem:
        return None


def _replays(
    session: Session, app: App, pipeline: DeployedPipeline, note_bad_row: Callable[[str], None]
) -> Sequence[ReplayRow]:
    """The replay runs that have not ended to their end."""
    runs = Here(session, app, pipeline).every_run(note_bad_row)
    unfinished = [run for run in runs if run.is_live or not run.left]
    lost = lost_runs(session, pipeline, unfinished)
    return tuple(row(run, lost.get(run.id)) for run in unfinished)


def _alarms(cloudwatch: CloudWatchClient, app: App) -> Mapping[str, Sequence[AlarmState]]:
    """The alarms that are in ALARM, by pipeline; those of the app itself by EVERY_PIPELINE."""
    of_app = {f"{app.name}-{page.alarm}": EVERY_PIPELINE for page in APP_PAGES}
    by_pipeline: dict[str, list[AlarmState]] = defaultdict(list)
    for alarm in alarms(cloudwatch, f"{app.name}-", StateValue="ALARM"):
        since = alarm.get("StateTransitionedTimestamp") or alarm["StateUpdatedTimestamp"]
        owner = of_app.get(alarm["AlarmName"]) or app.owner_of(alarm["AlarmName"])
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
    have been done. With --flow the deployment follows as nodes and edges: queues, what waits,
    rules in force, circuits; an edge that messages do not take now says why.

    Without --flow it ends within ten seconds: what AWS has not answered by then is named.

    The exit status is 1 if something could not be read; with --check also if something
    needs a person.
    """

    pipelines: NamedPipelines = ()
    check: Annotated[bool, Asked("Exit with 1 if something needs a person.", ("--check",))] = False
    watch: Annotated[
        bool, Asked("Show it anew every five seconds, until Ctrl-C.", ("--watch",))
    ] = False
    flow: Annotated[
        bool, Asked("The deployment too, as nodes and edges to be drawn.", ("--flow",))
    ] = False


def answered(session: Session, request: StatusRequest) -> AppStatus:
    """What `dlq status` answers. Raises Problem if the app itself can't be read."""
    session.say(f"Asking AWS about app {session.app_name}")
    answer = read(session, request.pipelines)
    if not request.flow:
        return answer
    # It reads rules and all circuits, which a status alone need not load.
    from .flow import drawn

    unread = [card.says for card in answer.attention if card.kind == TroubleKind.UNREAD]
    return replace(answer, flow=drawn(session, answer.pipelines, answer.at, unread))


VERB = Verb(
    name="status",
    request=StatusRequest,
    examples=[
        "dlq status",
        "dlq status orders",
        "dlq status orders --watch",
        "dlq status --check --json --query attention",
        "dlq status orders --flow --json --query flow.edges",
    ],
    read=answered,
)
