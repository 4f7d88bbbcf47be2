"""The letters of one queue: what is remembered of them, and how old and how safe they are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from deadletter.contract import MINUTE
from deadletter.message.queue import QueueState
from deadletter.redrive.source_memory import SourceMemory
from deadletter.signals.figures import Figure
from deadletter.watch.point import MetricPoint
from deadletter.watch.row import LaneRow, QueueRow

SURE_AFTER = 5.0 * MINUTE
"""Seconds of readings of 0 after which a queue is surely empty: SQS counts its messages
approximately, and a count is right a minute after the last change."""

LONGEST_GAP = 3.0 * MINUTE
"""Readings further apart than this are not in a row."""

ZEROS_FOR = 10.0 * MINUTE
"""Seconds for which a figure stays visible as 0: so that an alarm sees that it is over. After
that it is not published: a metric costs money as long as it is."""


def with_memory(row: QueueRow, memory: SourceMemory) -> QueueRow:
    """The row with what runs know of the queue."""
    if memory.emptied_at != row.drained_at:
        row = replace(row, drained_at=memory.emptied_at, left=None)
    return replace(row, oldest_seen=memory.oldest)


def with_state(row: QueueRow, state: QueueState, now: float) -> QueueRow:
    """The row after a reading of the queue."""
    letters = state.depth.total
    row = replace(
        row,
        letters=letters,
        left=letters if row.left is None else min(row.left, letters),
        read_at=now,
        created=state.created,
        retention=state.retention,
        zero_since=_zero_since(row, state, now),
    )
    if letters:
        return replace(row, filled_at=now if row.filled_at is None else row.filled_at)
    row = replace(row, filled_at=None)
    if row.zero_since is not None and now - row.zero_since >= SURE_AFTER:
        return replace(row, empty_at=now - SURE_AFTER, oldest_gone=row.oldest_seen)
    return row


def _zero_since(row: QueueRow, state: QueueState, now: float) -> float | None:
    if state.depth.total:
        return None
    in_a_row = row.zero_since is not None and now - row.read_at <= LONGEST_GAP
    return row.zero_since if in_a_row else now


def oldest_known(row: QueueRow) -> float | None:
    """When the oldest letter of the queue was sent, as far as it is known; None if it is empty.

    Runs say what they have seen. Of a letter that none has seen, only its arrival is known:
    the queue has held letters since then, and no run has emptied it.
    """
    if row.filled_at is None:
        return None
    arrived = max(row.filled_at, row.drained_at or 0.0)
    if row.oldest_seen is None or row.oldest_seen == row.oldest_gone:
        return arrived
    return min(row.oldest_seen, arrived)


def empty_at(row: QueueRow) -> float:
    """The last time at which the queue surely held none of the letters that it holds now."""
    return max(row.created, row.empty_at or 0.0, row.drained_at or 0.0)


def oldest_possible(row: QueueRow, sent_before: float) -> float:
    """A time before which no letter of the queue was sent.

    A letter may have been sent up to `sent_before` seconds before it came into this queue.
    """
    bound = empty_at(row) - sent_before
    oldest = oldest_known(row)
    return bound if oldest is None else min(bound, oldest)


def queue_points(source: str, row: QueueRow, lane: LaneRow, now: float) -> Iterator[MetricPoint]:
    """Depth, age and time to expiry of a queue, with the lane that belongs to it.

    Nothing is published for a source that has been empty for a while. Time to expiry is the
    queue's alone: nothing expires in a lane.
    """
    letters = row.letters + lane.letters
    if not letters:
        if row.held_at is not None and now - row.held_at <= ZEROS_FOR:
            yield MetricPoint(Figure.MESSAGES, 0, now, source)
            yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, 0, now, source)
        return
    yield MetricPoint(Figure.MESSAGES, letters, now, source)
    oldest = oldest_known(row)
    sent = [time for time in (oldest, lane.oldest) if time is not None]
    age = max(0.0, now - min(sent, default=now))
    yield MetricPoint(Figure.OLDEST_MESSAGE_AGE, age, now, source)
    if oldest is not None and row.retention:
        left = oldest + row.retention - now
        yield MetricPoint(Figure.SECONDS_TO_EXPIRY, max(0.0, left), now, source)
