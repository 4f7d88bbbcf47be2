"""What runs and the watch remember of a pipeline: ages, expiry, unreadable rows, collisions."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

from deadletter.contract import (
    CIRCUITS,
    DAY,
    DEFAULT_PARKING,
    MAIN,
    MAIN_DLQ,
    MESSAGES,
    PARKED_LANE,
    Partition,
    Table,
    dedicated_lane,
    parking_source,
)
from deadletter.signals.figures import Counted, Figure
from deadletter.signals.troubles import Fact, Seen, TroubleKind

from .app import App, DeployedPipeline
from .errors import aws_errors
from .session import Session
from .words import duration, moment

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.redrive.source_memory import SourceMemory
    from deadletter.redrive.waiting_room import LaneCount
    from deadletter.watch.row import WatchRow


@dataclass(frozen=True, slots=True)
class RunEnding:
    """How the last run of a queue ended, whatever it did."""

    at: Annotated[datetime | None, "when"]
    ended_well: Annotated[bool, "whether it could do its work, or had none"]
    stopped: Annotated[str, "why it ended"]
    trouble: Annotated[str | None, "what AWS refused or did not answer; null if it is unknown"]


@dataclass(frozen=True, slots=True)
class SourceStatus:
    """A queue of letters, as runs and the watch remember it."""

    source: Annotated[str, "`main`, `dlq`, the id of a dedicated DLQ, or `parking:<id>`"]
    url: Annotated[str, "the queue's URL"]
    saved: Annotated[
        int | None,
        "its messages that were saved from expiry: they wait outside SQS; "
        "null if they could not be counted",
    ]
    oldest_seconds: Annotated[
        int | None, "age of its oldest known message, by when it was sent; null if it has none"
    ]
    seconds_to_expiry: Annotated[
        int | None, "until SQS deletes the oldest known message; null if none is in the queue"
    ]
    looks: Annotated[int, "messages received only to be looked at, since the queue was empty"]
    troubles: Annotated[
        Mapping[str, datetime],
        "when a run last counted a metric of messages that need a person, by its name",
    ]
    last_ending: Annotated[RunEnding | None, "how its last run ended; null if none is on record"]
    saved_is_at_least: Annotated[bool, "whether there are more of the saved ones"] = False


@dataclass(frozen=True, slots=True)
class SeenTrouble:
    """A trouble as answers show it, with what is known of it."""

    kind: Annotated[str, "which trouble it is, such as `router-down`: see the runbook"]
    page: Annotated[str | None, "the alarm that it rings; null if it rings none"]
    since: Annotated[datetime | None, "since when; null if that is not known"]
    facts: Annotated[Mapping[str, Any], "what is known of it, by name"]
    says: Annotated[str, "what is wrong: which circuit, queue, rule or run it is, and why"]
    type: Annotated[str | None, "the command that ends it; null if none does"]

    @property
    def seen(self) -> Seen:
        """The trouble itself."""
        since = 0.0 if self.since is None else self.since.timestamp()
        return Seen(TroubleKind(self.kind), self.facts, since)


def as_shown(seen: Seen, known: Mapping[str, Fact]) -> SeenTrouble:
    """A trouble for an answer; `known` is what its command names beside its facts."""
    page = None if seen.page is None else str(seen.page)
    since = moment(seen.since) if seen.since else None
    return SeenTrouble(str(seen.kind), page, since, seen.facts, seen.says(), seen.repair(**known))


@dataclass(frozen=True, slots=True)
class Memories:
    """The row of a pipeline's watch (None if it has never run), and its sources' memories."""

    row: WatchRow | None = None
    by_source: Mapping[str, SourceMemory] = field(default_factory=dict)


def read_memories(
    dynamodb: DynamoDBClient,
    table: str,
    pipeline: str,
    note_bad_row: Callable[[str], None] | None = None,
) -> Memories:
    """What runs and the watch of one pipeline remember, by one query."""
    from deadletter.aws.errors import ignore
    from deadletter.aws.watch_store import DynamoDBWatchStore

    store = DynamoDBWatchStore(dynamodb, table, pipeline, note_bad_row or ignore)
    with aws_errors():
        return Memories(*store.read())


def sources_of(
    memories: Memories,
    pipeline: DeployedPipeline,
    lanes: Mapping[str, LaneCount | None] | None,
    now: datetime,
) -> Iterator[SourceStatus]:
    """The queues as people read of them; `lanes` are counted, and None if they could not be."""
    urls = pipeline.urls
    parked = parking_source(DEFAULT_PARKING)
    for source in (MAIN_DLQ, *pipeline.dedicated, *map(parking_source, pipeline.parking), MAIN):
        # All parked letters share one lane.
        lane = PARKED_LANE if source == parked else dedicated_lane(source)
        has_lane = source == parked or source in pipeline.dedicated
        if not has_lane or (lanes is not None and lane not in lanes):
            yield source_status(memories, source, urls[source], 0, now)
            continue
        counted = None if lanes is None else lanes[lane]
        saved = None if counted is None else counted.messages
        status = source_status(memories, source, urls[source], saved, now)
        yield replace(status, saved_is_at_least=counted is not None and counted.is_at_least)


def source_status(
    memories: Memories, source: str, url: str, saved: int | None, now: datetime
) -> SourceStatus:
    """One queue as people read of it."""
    memory, row = memories.by_source.get(source), memories.row
    figures: dict[Counted, float] = dict(_figures(source, row, now.timestamp()))
    age, left = figures.get(Figure.OLDEST_MESSAGE_AGE), figures.get(Figure.SECONDS_TO_EXPIRY)
    times = {} if memory is None else {name: moment(at) for name, at in memory.troubles.items()}
    return SourceStatus(
        source,
        url,
        saved,
        int(age) if age is not None and figures.get(Figure.MESSAGES) else None,
        None if left is None else int(left),
        0 if memory is None else memory.looks,
        {name: at for name, at in times.items() if at is not None},
        _ending(memory),
    )


def _figures(source: str, row: WatchRow | None, now: float) -> Iterator[tuple[Counted, float]]:
    """The figures of a queue as the watch publishes them, by metric."""
    from deadletter.watch.queues import lane_of, queue_points, seconds_left

    if row is None or source not in row.queues:
        return
    if source == MAIN:
        left = seconds_left(row.main, row.queues[MAIN], now)
        if left is not None:
            yield Figure.SECONDS_TO_EXPIRY, left
        return
    for point in queue_points(source, row.queues[source], lane_of(source, row.lanes), now):
        yield point.metric, point.value


def _ending(memory: SourceMemory | None) -> RunEnding | None:
    if memory is None or memory.ended_at is None:
        return None
    return RunEnding(
        moment(memory.ended_at),
        memory.ended_well_at == memory.ended_at,
        memory.stopped,
        memory.trouble or None,
    )


def met_by_runs(memories: Memories) -> Mapping[str, float]:
    """The rows that runs of a pipeline have met, and when they last did."""
    met: dict[str, float] = {}
    for memory in memories.by_source.values():
        for row, at in memory.bad_rows.items():
            met[row] = max(at, met.get(row, at))
    return met


def bad_row(app: App, pipeline: str, row: str, met: float, now: datetime) -> Seen:
    """The trouble of a row, which was last met at `met` (epoch seconds; 0 for just now).

    It keeps its own letter, lane, circuit or run, and no other.
    """
    table, partition, sort = (*row.split(" ", 2), "", "")[:3]
    ago = duration(now.timestamp() - met) if met else ""
    facts: dict[str, Fact] = {"row": row, "ago": ago}
    if table == app.circuits_table and not sort.startswith("#"):
        return Seen(TroubleKind.BAD_CIRCUIT, facts | {"key": sort}, met)
    if partition == Partition.LEASE.of(pipeline):
        return Seen(TroubleKind.BAD_LEASE, facts, met)
    names: Table = CIRCUITS if table == app.circuits_table else MESSAGES
    key = {names.partition: {"S": partition}, names.sort: {"S": sort}}
    return Seen(TroubleKind.BAD_ROW, facts | {"table": table, "item": json.dumps(key)}, met)


@dataclass(frozen=True, slots=True)
class ManyCollisions:
    """Many messages have the idempotency key of a processed message and differ from it."""

    messages: Annotated[int, "messages of the last ten minutes"]
    collided: Annotated[int, "those of them that collided"]
    paths: Annotated[Sequence[str], "the paths in which they differ, the commonest first"]
    until: Annotated[datetime | None, "when parking begins again, unless as many collide"]


def many_collisions(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    note_bad_row: Callable[[str], None] | None = None,
) -> ManyCollisions | None:
    """The collisions of a pipeline for which parking has stopped; None while it has not.

    `note_bad_row` is told the claim that a consumer could not read within the last day.
    """
    from deadletter.aws.collisions import DynamoDBCollisions

    store = DynamoDBCollisions(session.aws.dynamodb, app.circuits_table, pipeline.name)
    known = store.read()
    now = session.now.timestamp()
    is_recent = known is not None and now - known.bad_claim_at <= DAY
    if known is not None and note_bad_row is not None and known.bad_claim and is_recent:
        note_bad_row(known.bad_claim)
    if known is None or not known.is_stopped(now):
        return None
    messages, collided = known.in_window(now)
    return ManyCollisions(messages, collided, known.paths, moment(known.stopped_until))
