"""The letters in the waiting room: how many, and how old or how late."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from deadletter.contract import MINUTE, dedicated_lane, is_of_delays
from deadletter.redrive.waiting_room import is_of_run, is_shut
from deadletter.routing.decision import DUE
from deadletter.signals.figures import Figure
from deadletter.watch.observation import FirstDue, LaneState
from deadletter.watch.point import MetricPoint
from deadletter.watch.queue_figures import ZEROS_FOR
from deadletter.watch.row import LaneRow, QueueRow, WatchRow

ROOM = "room"
CIRCUIT, RULE = "circuit", "rule"
NO_LANE = LaneRow()

BETWEEN_COUNTS = 10.0 * MINUTE - 10.0
"""Seconds between two counts of all lanes: a count reads each letter's entry in the index."""

MOST_LANES = 40
"""The most lanes of one count."""

AFTER_RESCUE = 15.0 * MINUTE
"""Seconds after the start of a rescue in which the lanes that it fills are counted each minute:
the queue's letters are in there, and must not look gone."""


def kind_of(lane: str) -> str:
    """The first word of a lane's name; the whole name for the lane of a dedicated DLQ.

    Delays that rules gave are counted with all others.
    """
    if is_of_delays(lane):
        return DUE
    return lane if lane.startswith(dedicated_lane("")) else lane.partition(":")[0]


def lanes_to_count(
    row: WatchRow | None, lanes: Sequence[str], now: float
) -> tuple[Sequence[str], bool]:
    """The lanes to count in this minute, and whether they stand for all.

    `lanes` are those of the room, the ones that were used last first.
    """
    if row is None or now - row.counted_at >= BETWEEN_COUNTS:
        return sorted(lanes, key=_rank)[:MOST_LANES], True
    if any(_just_rescued(queue, now) for queue in row.queues.values()):
        return [lane for lane in lanes if _is_of_queue(lane)][:MOST_LANES], False
    return (), False


def _rank(lane: str) -> int:
    """The place of a lane where there are more than one count takes.

    Those of queues and of delays are few. Letters of a run that has ended must not be overlooked.
    """
    return 0 if _is_of_queue(lane) or is_of_delays(lane) else 1 if is_of_run(lane) else 2


def _is_of_queue(lane: str) -> bool:
    """Whether a lane holds letters that were rescued from a queue, and counts for it."""
    return is_shut(lane) and not is_of_run(lane)


def _just_rescued(queue: QueueRow, now: float) -> bool:
    return queue.rescued_at is not None and now - queue.rescued_at <= AFTER_RESCUE


def count_lanes(
    rows: Mapping[str, LaneRow], lanes: Mapping[str, LaneState], *, counted: bool, now: float
) -> dict[str, LaneRow]:
    """The rows by kind, after a count; a kind that was not counted stays as it was.

    After a count of all lanes, a kind without a lane has no letters.
    """
    by_kind: dict[str, list[LaneState]] = {kind: [] for kind in (rows if counted else ())}
    for lane, state in lanes.items():
        by_kind.setdefault(kind_of(lane), []).append(state)
    return {
        **rows,
        **{kind: _row(rows.get(kind, NO_LANE), states, now) for kind, states in by_kind.items()},
    }


def _row(row: LaneRow, states: Sequence[LaneState], now: float) -> LaneRow:
    letters = sum(state.letters for state in states)
    due = [state.first_due for state in states if state.first_due is not None]
    if not letters:
        return replace(row, letters=0, more_at=None, first_due=None, filled_at=None)
    return replace(
        row,
        letters=letters,
        more_at=now if any(state.is_at_least for state in states) else None,
        first_due=min(due, default=None),
        filled_at=now if row.filled_at is None else row.filled_at,
    )


def first_due(rows: Mapping[str, LaneRow], due: FirstDue | None, now: float) -> dict[str, LaneRow]:
    """The rows after a look at the letter that is due first in the lane of delays.

    Between two counts, a lane holds the letters of the last one.
    """
    looked = {} if due is None else {DUE: replace(rows.get(DUE, NO_LANE), first_due=due.at)}
    return {
        kind: replace(row, held_at=now) if row.letters or row.first_due else row
        for kind, row in {**rows, **looked}.items()
    }


def room_letters(rows: Mapping[str, LaneRow]) -> int:
    """The letters of the waiting room, without those in lanes that belong to a queue."""
    return sum(row.letters for kind, row in rows.items() if not is_shut(kind))


def room_points(
    rows: Mapping[str, LaneRow], *, message_ttl: float, not_closed_at: float, now: float
) -> Iterator[MetricPoint]:
    """Depth and ages of the waiting room, without the lanes that belong to a queue.

    Letters of a replay run count, and are never late: the run says when they leave.

    A delayed letter is late from its due time, but not before the pipeline's circuit has
    closed: at `not_closed_at` it was last seen open. A letter of a circuit's lane is due when it
    is `message_ttl` old. One that a rule holds has the rule's end: its age is
    known from when letters were first seen there.
    """
    inside = [row for kind, row in rows.items() if not is_shut(kind)]
    letters = room_letters(rows)
    if letters or any(_shows_zero(row, now) for row in inside):
        yield MetricPoint(Figure.MESSAGES, letters, now, ROOM)
    delayed, held = (rows.get(kind, NO_LANE) for kind in (DUE, RULE))
    late = None if delayed.first_due is None else max(delayed.first_due, not_closed_at)
    yield from _age(delayed, late, f"{ROOM}:{DUE}", now)
    waiting = rows.get(CIRCUIT, NO_LANE)
    sent = None if waiting.first_due is None else waiting.first_due - message_ttl
    yield from _age(waiting, sent, f"{ROOM}:{CIRCUIT}", now)
    yield from _age(held, held.filled_at, f"{ROOM}:{RULE}", now)


def _age(row: LaneRow, since: float | None, source: str, now: float) -> Iterator[MetricPoint]:
    if since is not None:
        yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, max(0.0, now - since), now, source)
    elif _shows_zero(row, now):
        yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, 0, now, source)


def _shows_zero(row: LaneRow, now: float) -> bool:
    return row.held_at is not None and now - row.held_at <= ZEROS_FOR
