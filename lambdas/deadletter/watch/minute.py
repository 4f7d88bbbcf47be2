"""What one minute's look means: what to remember, to publish, and to rescue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from deadletter.contract import (
    CIRCUIT_LEVELS,
    DAY,
    DEFAULT_PARKING,
    MAIN_DLQ,
    MINUTE,
    PARKED_LANE,
    Metric,
    dedicated_lane,
    parking_source,
)
from deadletter.redrive.source_memory import LETTER_TROUBLES, UNKNOWN
from deadletter.watch.lane_figures import (
    NO_LANE,
    count_lanes,
    first_due,
    room_points,
)
from deadletter.watch.observation import MAIN, Observation
from deadletter.watch.point import METRICS, MetricPoint
from deadletter.watch.queue_figures import ZEROS_FOR, queue_points, with_memory, with_state
from deadletter.watch.rescue_due import rescue_due
from deadletter.watch.row import LaneRow, Level, QueueRow, Stalled, WatchRow
from deadletter.watch.stall import failing_steps, stall
from deadletter.watch.watch_settings import WatchSettings

LONGEST_RETENTION = 14.0 * DAY
"""The longest that SQS keeps a message: the main queue's, as long as it could not be read."""

HELD_TOO_LONG = float(DAY)
"""Seconds after which a hold without an end is shown: a person may have forgotten it."""

FIRST_OVERDUE, LAST_OVERDUE = 2, 7
"""The minutes ahead for which a run writes that the watch is overdue. Later runs lower them."""

_EVERYWHERE = "|*"
"""Behind the metric's name: the level of all pipelines."""

_UNREAD = QueueRow()


@dataclass(frozen=True, slots=True, kw_only=True)
class Minute:
    """What follows from one look.

    row      what the watch remembers from now on
    points   the figures to publish
    rescues  the sources whose letters have to be moved before SQS drops them
    """

    row: WatchRow
    points: tuple[MetricPoint, ...]
    rescues: tuple[str, ...] = ()

    @property
    def trouble(self) -> dict[str, Any]:
        """What the log says of this minute, as JSON-ready data; empty if all is well."""
        stalled = self.row.stalled
        return {
            **({} if stalled is None else {"stalled": asdict(stalled)}),
            **({"rescues": list(self.rescues)} if self.rescues else {}),
            **(
                {"failing": {step: asdict(failing) for step, failing in self.row.failing.items()}}
                if self.row.failing
                else {}
            ),
        }


def judge_minute(
    row: WatchRow | None, observation: Observation, settings: WatchSettings, now: float
) -> Minute:
    """What follows from one minute's look. Without a `row`, it is the first minute.

    What could not be read goes on from memory: an age grows, a level stays as it was.
    """
    before = row or WatchRow(first_at=now, ran_at=now)
    failing = failing_steps(before, observation.failed, now)
    lanes = _lanes(before.lanes, observation, now)
    row = replace(
        before,
        ran_at=now,
        failing=failing,
        lanes=lanes,
        queues=_queues(before, lanes, observation, settings, now),
        counted_at=now if observation.counted else before.counted_at,
        held=_held(before, observation, now),
    )
    why = stall(row, observation.memories, settings, now)
    stalled_since = now if before.stalled is None else before.stalled.since
    row = replace(
        row,
        levels=_levels(row, observation, settings, now),
        stalled=None if why is None else Stalled(stalled_since, why),
    )
    points = (
        *_source_points(row, settings, now),
        *room_points(
            row.lanes,
            message_ttl=settings.message_ttl,
            not_closed_at=_not_closed_at(row),
            now=now,
        ),
        *_level_points(row.levels, now),
        MetricPoint(Metric.REDRIVE_STALLED, 0 if why is None else 1, now),
        *_heartbeat(now),
    )
    return Minute(row=row, points=points, rescues=_rescues(row, observation, settings, now))


def with_rescues(row: WatchRow, sources: Sequence[str], now: float) -> WatchRow:
    """The row once rescues of these sources have been started."""
    started = {source: replace(row.queues[source], rescued_at=now) for source in sources}
    return replace(row, queues={**row.queues, **started})


def lane_of(source: str, lanes: Mapping[str, LaneRow]) -> LaneRow:
    """The lane with the letters that were rescued from a source.

    All parked letters share one: they count for the parking queue that every pipeline has.
    """
    if source == parking_source(DEFAULT_PARKING):
        return lanes.get(PARKED_LANE, NO_LANE)
    return lanes.get(dedicated_lane(source), NO_LANE)


def _lanes(
    lanes: Mapping[str, LaneRow], observation: Observation, now: float
) -> dict[str, LaneRow]:
    counted = count_lanes(lanes, observation.lanes, counted=observation.counted, now=now)
    return first_due(counted, observation.due, now)


def _queues(
    row: WatchRow,
    lanes: Mapping[str, LaneRow],
    observation: Observation,
    settings: WatchSettings,
    now: float,
) -> dict[str, QueueRow]:
    queues = {}
    for source in (MAIN, *settings.sources):
        queue = row.queues.get(source, _UNREAD)
        if observation.memories is not None:
            queue = with_memory(queue, observation.memories.get(source, UNKNOWN))
        if source in observation.queues:
            queue = with_state(queue, observation.queues[source], now)
        if queue.letters or lane_of(source, lanes).letters:
            queue = replace(queue, held_at=now)
        queues[source] = queue
    return queues


def _source_points(row: WatchRow, settings: WatchSettings, now: float) -> Iterator[MetricPoint]:
    points = [
        point
        for source in settings.sources
        for point in queue_points(source, row.queues[source], lane_of(source, row.lanes), now)
    ]
    yield from points
    soonest = [point.value for point in points if point.metric is Metric.SECONDS_TO_EXPIRY]
    if soonest:
        yield MetricPoint(Metric.SECONDS_TO_EXPIRY, min(soonest), now)


def _rescues(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> tuple[str, ...]:
    closed = _circuit_closed(observation)
    main_retention = row.queues[MAIN].retention or LONGEST_RETENTION
    # On FIFO the time of the first send does not follow a letter into the DLQ, and nothing is
    # moved into a parking queue but by a send.
    dlqs = () if settings.fifo else (MAIN_DLQ, *settings.dedicated)
    return tuple(
        source
        for source in settings.sources
        if rescue_due(
            row.queues[source],
            mode=settings.mode,
            sent_before=main_retention if source in dlqs else 0.0,
            circuit_closed=closed,
            now=now,
        )
    )


def _circuit_closed(observation: Observation) -> bool:
    circuits = observation.circuits
    return circuits is not None and circuits.level == CIRCUIT_LEVELS["CLOSED"]


def _not_closed_at(row: WatchRow) -> float:
    """When the pipeline's circuit, or a named dependency's, was last seen open; else long ago."""
    level = row.levels.get(Metric.CIRCUIT_STATE)
    return 0.0 if level is None else level.positive_at


def _held(row: WatchRow, observation: Observation, now: float) -> dict[str, float]:
    """Since when circuits are held without an end; unchanged if circuits could not be read."""
    if observation.circuits is None:
        return dict(row.held)
    return {
        key: row.held.get(key, now) if begun is None else begun
        for key, begun in observation.circuits.held.items()
    }


def _levels(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> dict[str, Level]:
    """Each level as it is now; one that could not be read stays as it was."""
    values: dict[str, float] = {}
    if observation.circuits is not None:
        # A dependency that the handler names is one of all messages: its outage pages too.
        values[Metric.CIRCUIT_STATE] = max(observation.circuits.level, observation.circuits.named)
        values[Metric.OPEN_CIRCUITS] = observation.circuits.open_keys
        values[Metric.CONFIGURATION_HELD] = observation.circuits.misconfigured
    if observation.causes is not None:
        values[Metric.CAUSES_HELD] = observation.causes
    held_too_long = [since for since in row.held.values() if now - since >= HELD_TOO_LONG]
    values[Metric.CIRCUIT_HELD] = len(held_too_long)
    if observation.rules is not None:
        values[Metric.RULES_REFUSED] = observation.rules.refused
        values[f"{Metric.RULES_REFUSED}{_EVERYWHERE}"] = observation.rules.refused_everywhere
        values[Metric.RULES_AT_LIMIT] = observation.rules.limited
        values[f"{Metric.RULES_AT_LIMIT}{_EVERYWHERE}"] = observation.rules.limited_everywhere
    if observation.memories is not None:
        recent = {
            trouble
            for memory in observation.memories.values()
            for trouble, at in memory.troubles.items()
            if now - at <= settings.trouble_lasts
        }
        values[Metric.LETTER_TROUBLE] = int(not recent.isdisjoint(LETTER_TROUBLES))
        values[Metric.FAILURE_DOMINATES] = int(Metric.DOMINANT_FAILURE in recent)
    remembered = {name: level.value for name, level in row.levels.items()}
    levels = {}
    for name, value in {**remembered, **values}.items():
        if value:
            levels[name] = Level(value, now)
        elif name in row.levels:
            levels[name] = Level(0, row.levels[name].positive_at)
    return levels


def _level_points(levels: Mapping[str, Level], now: float) -> Iterator[MetricPoint]:
    for name, level in levels.items():
        if level.value or now - level.positive_at <= ZEROS_FOR:
            metric = METRICS[name.removesuffix(_EVERYWHERE)]
            everywhere = name.endswith(_EVERYWHERE)
            yield MetricPoint(metric, level.value, now, everywhere=everywhere)


def _heartbeat(now: float) -> Iterator[MetricPoint]:
    """The watch is overdue in two minutes, and not around now: a missing run leaves the 1.

    Of several values of a minute the alarm takes the least. The minutes beside this one are
    lowered too: the schedule does not start on the second.
    """
    for offset in (-MINUTE, 0, MINUTE):
        yield MetricPoint(Metric.WATCH_OVERDUE, 0, now + offset)
    # Every minute ahead is written, because runs that drift leave minutes out.
    for minutes in range(FIRST_OVERDUE, LAST_OVERDUE + 1):
        yield MetricPoint(Metric.WATCH_OVERDUE, 1, now + minutes * MINUTE)
