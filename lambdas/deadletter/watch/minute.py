"""What one minute's look means: what to remember, to publish, and to rescue."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from deadletter.contract import CIRCUIT_LEVELS, DAY, MAIN, MAIN_DLQ, Mode
from deadletter.redrive.source_memory import UNKNOWN
from deadletter.signals.figures import Figure
from deadletter.signals.pages import Alarm
from deadletter.signals.troubles import since_before
from deadletter.watch.drain import MOST_APART, direction, with_depth, with_look
from deadletter.watch.observation import MetricPoint, Observation
from deadletter.watch.queues import (
    count_lanes,
    first_due,
    lane_of,
    queue_points,
    rescue_due,
    room_letters,
    room_points,
    seconds_left,
    with_answer,
    with_counts,
    with_memory,
    with_state,
)
from deadletter.watch.row import LaneRow, QueueRow, WatchRow
from deadletter.watch.troubles import (
    failing_steps,
    level_points,
    not_closed_at,
    stall,
    unread_main_queue,
    with_circuits,
    with_levels,
    with_replays,
)
from deadletter.watch.watch_settings import WatchSettings

LONGEST_RETENTION = 14.0 * DAY
"""The longest that SQS keeps a message: the main queue's, as long as it could not be read."""

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
        return {
            **({"seen": [asdict(seen) for seen in self.row.seen]} if self.row.seen else {}),
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
    row = _remembered(before, observation, settings, now)
    levels, seen = with_levels(row, observation, settings, now)
    row = replace(row, levels=levels)
    stalled = (
        *stall(row, observation.memories, settings, now),
        *unread_main_queue(row, observation.consumer, now),
    )
    row = replace(row, seen=tuple(since_before((*stalled, *seen), before.seen, now)))
    points = (
        *_source_points(row, settings, now),
        *room_points(
            row.lanes,
            message_ttl=settings.message_ttl,
            not_closed_at=not_closed_at(row),
            now=now,
        ),
        *level_points(row.levels, now),
        # Published each minute: the alarm rings as well when there is no value.
        MetricPoint(Figure.REDRIVE_STALLED, int(bool(stalled)), now),
    )
    return Minute(row=row, points=points, rescues=_rescues(row, observation, settings, now))


def _remembered(
    before: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> WatchRow:
    """The row with everything that was read in this minute, and without a judgement on it."""
    lanes = _lanes(before.lanes, observation, now)
    queues = _queues(before, lanes, observation, settings, now)
    alarms = settings.alarms
    depths, drain = before.depths, before.drain
    if MAIN_DLQ in observation.queues:
        drain = with_look(
            drain,
            queues[MAIN_DLQ].messages,
            alarms,
            runs_can_work=_runs_can_work(before, observation, settings),
            emptied_at=queues[MAIN_DLQ].drained_at,
            now=now,
        )
        depths = with_depth(depths, queues[MAIN_DLQ].messages + room_letters(lanes))
    return replace(
        before,
        ran_at=now,
        botocore=settings.botocore,
        failing=failing_steps(before, observation.failed, now),
        lanes=lanes,
        queues=queues,
        counted_at=now if observation.counted else before.counted_at,
        held=_held(before, observation, now),
        circuits=with_circuits(before.circuits, observation.circuits, alarms, now),
        attended=with_counts(before.attended, queues, lanes, observation, settings, now),
        replays=with_replays(before.replays, observation.replays, now),
        main=with_answer(before.main, queues[MAIN], observation.main, now),
        depths=depths,
        direction=direction(depths),
        drain=drain,
    )


def _runs_can_work(before: WatchRow, observation: Observation, settings: WatchSettings) -> bool:
    """Whether letters of the DLQ go back, so often that a minute's look can tell."""
    circuits = observation.circuits
    if circuits is None:
        level = before.levels.get(Figure.CIRCUIT_STATE)
        is_closed = level is None or not level.value
    else:
        is_closed = not max(circuits.level, circuits.named)
    is_enforced = settings.mode is Mode.ENFORCE
    is_stalled = bool(before.of(Alarm.REDRIVE_STALLED))
    return is_enforced and is_closed and not is_stalled and settings.every <= MOST_APART


def with_rescues(row: WatchRow, sources: Sequence[str], now: float) -> WatchRow:
    """The row once rescues of these sources have been started."""
    started = {source: replace(row.queues[source], rescued_at=now) for source in sources}
    return replace(row, queues={**row.queues, **started})


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
        if queue.messages or lane_of(source, lanes).messages:
            queue = replace(queue, held_at=now)
        queues[source] = queue
    return queues


def _source_points(row: WatchRow, settings: WatchSettings, now: float) -> Iterator[MetricPoint]:
    """The figures of each queue, and of the pipeline: its oldest letter and its soonest expiry."""
    points = [
        point
        for source in settings.sources
        for point in queue_points(source, row.queues[source], lane_of(source, row.lanes), now)
    ]
    main = seconds_left(row.main, row.queues[MAIN], now)
    if main is not None:
        points.append(MetricPoint(Figure.SECONDS_TO_EXPIRY, main, now, MAIN))
    yield from points
    ages = [
        point.value
        for point in points
        if point.metric is Figure.OLDEST_MESSAGE_AGE and point.source in settings.drained
    ]
    if ages:
        yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, max(ages), now)
    soonest = [point.value for point in points if point.metric is Figure.SECONDS_TO_EXPIRY]
    if soonest:
        yield MetricPoint(Figure.SECONDS_TO_EXPIRY, min(soonest), now)


def _rescues(
    row: WatchRow, observation: Observation, settings: WatchSettings, now: float
) -> tuple[str, ...]:
    # No run drains a parking queue, or a dedicated DLQ without a schedule.
    drained = settings.drained if _circuit_closed(observation) else ()
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
            runs_drain=source in drained,
            now=now,
        )
    )


def _circuit_closed(observation: Observation) -> bool:
    circuits = observation.circuits
    return circuits is not None and circuits.level == CIRCUIT_LEVELS["CLOSED"]


def _held(row: WatchRow, observation: Observation, now: float) -> dict[str, float]:
    """Since when circuits are held without an end; unchanged if circuits could not be read."""
    if observation.circuits is None:
        return dict(row.held)
    return {
        key: row.held.get(key, now) if begun is None else begun
        for key, begun in observation.circuits.held.items()
    }
