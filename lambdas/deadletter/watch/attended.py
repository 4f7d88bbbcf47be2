"""Whether a person looks after the letters that wait for one."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from deadletter.contract import DEFAULT_PARKING, PARKED_LANE, dedicated_lane, parking_source
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.lane_figures import AFTER_RESCUE, BETWEEN_COUNTS, NO_LANE
from deadletter.watch.observation import Observation
from deadletter.watch.queue_figures import SURE_AFTER
from deadletter.watch.row import AttendedRow, LaneRow, QueueRow
from deadletter.watch.watch_settings import WatchSettings

IN_RESCUE = AFTER_RESCUE + BETWEEN_COUNTS
"""Seconds after the start of a rescue in which a letter may count twice, in its queue and in its
lane, or not at all in its queue."""

SHARED = parking_source(DEFAULT_PARKING)
"""The parking queue that the lane of all parked letters counts for."""


def lane_name(source: str) -> str | None:
    """The lane whose letters count for a source; None if those of another source do."""
    if source == SHARED:
        return PARKED_LANE
    return None if source.startswith(parking_source("")) else dedicated_lane(source)


def lane_of(source: str, lanes: Mapping[str, LaneRow]) -> LaneRow:
    """The lane with the letters that were rescued from a source.

    All parked letters share one: they count for the parking queue that every pipeline has.
    """
    name = lane_name(source)
    return NO_LANE if name is None else lanes.get(name, NO_LANE)


def for_people(settings: WatchSettings) -> tuple[str, ...]:
    """The sources whose letters only a person takes out."""
    undrained = (id_ for id_ in settings.dedicated if id_ not in settings.alarms.scheduled)
    return (*undrained, *map(parking_source, settings.parking))


def with_counts(
    rows: Mapping[str, AttendedRow],
    queues: Mapping[str, QueueRow],
    lanes: Mapping[str, LaneRow],
    observation: Observation,
    settings: WatchSettings,
    now: float,
) -> dict[str, AttendedRow]:
    """The rows after this minute's readings, by source; there is none of an empty source.

    Letters that were rescued from another parking queue go on in the shared lane, and have waited
    as long as they did in their queue.
    """
    after: dict[str, AttendedRow] = {}
    moved: list[float] = []
    for source in for_people(settings):
        queue, lane = queues[source], lane_of(source, lanes)
        letters = queue.letters + lane.letters
        row = rows.get(source, AttendedRow(letters=letters, at=now))
        in_rescue = queue.rescued_at is not None and now - queue.rescued_at <= IN_RESCUE
        if in_rescue and lane_name(source) is None:
            # It loses letters that no person takes.
            if row.letters:
                moved.append(row.at)
            row = AttendedRow(letters=queue.letters, at=row.at)
        elif source in observation.queues and _is_counted(source, lane, observation):
            row = with_reading(row, letters, now, in_rescue=in_rescue)
        if row.letters or letters:
            after[source] = row
    if moved and SHARED in after:
        after[SHARED] = replace(after[SHARED], at=min(after[SHARED].at, *moved))
    return after


def _is_counted(source: str, lane: LaneRow, observation: Observation) -> bool:
    """Whether the lane's letters are known as of this minute. A lane is counted now and then."""
    return not lane.letters or observation.counted or lane_name(source) in observation.lanes


def with_reading(row: AttendedRow, letters: int, now: float, *, in_rescue: bool) -> AttendedRow:
    """The row after a count of letters, which SQS gives approximately.

    Fewer letters are believed when all readings of SURE_AFTER say so, and so are more. In a
    rescue letters count twice: then there are no more of them.
    """
    readings = [*zip(row.times, row.counts, strict=False), (now, letters)]
    # One that is as old as SURE_AFTER is enough.
    old = [at for at, _ in readings if now - at >= SURE_AFTER]
    readings = [(at, count) for at, count in readings if not old or at >= old[-1]]
    times, counts = (tuple(values) for values in zip(*readings, strict=True))
    row = replace(row, times=times, counts=counts)
    if old and max(counts) < row.letters:
        row = replace(row, letters=max(counts), at=now)
    elif old and min(counts) > row.letters and not in_rescue:
        row = replace(row, letters=min(counts))
    return row if row.letters or any(counts) else replace(row, at=now)


def unattended(
    rows: Mapping[str, AttendedRow],
    queues: Mapping[str, QueueRow],
    lanes: Mapping[str, LaneRow],
    after: float,
    now: float,
) -> Iterator[tuple[str, int, float | None]]:
    """The sources that hold letters and that none has left for `after` seconds.

    Each with its letters and the seconds; None if there are more letters than were counted: some
    may have left.
    """
    for source, row in rows.items():
        lane = lane_of(source, lanes)
        letters = queues[source].letters + lane.letters
        if letters and row.letters and now - row.at >= after:
            yield source, letters, now - row.at if lane.more_at is None else None


def unattended_troubles(found: Iterable[tuple[str, int, float | None]]) -> Iterator[Seen]:
    """Which messages need a person, by source."""
    for source, letters, seconds in found:
        facts: dict[str, str | float] = {"source": source, "messages": letters}
        facts |= {"least": "at least"} if seconds is None else {"seconds": seconds}
        yield Seen(TroubleKind.UNATTENDED, facts)
