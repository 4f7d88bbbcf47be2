"""How long until SQS drops a message of the main queue.

SQS tells only CloudWatch how old a queue's oldest message is, and each question costs: it is
asked only about a queue that has held messages for long, and its answer is remembered.
"""

from __future__ import annotations

from zlib import crc32

from deadletter.contract import HOUR, MAIN, MINUTE
from deadletter.watch.observation import OldestMessage
from deadletter.watch.row import MainRow, QueueRow, WatchRow

FULL_FOR = float(HOUR)
"""Seconds in which a main queue was not seen empty, after which its oldest message may be old."""

BETWEEN_QUESTIONS = 10.0 * MINUTE - 10.0
"""Seconds between two questions: 4,320 a month at most, for $0.04."""

NEAR = 0.5
"""The share of its retention that a message of the main queue has at least used up when its
expiry is shown: a queue that keeps messages for an hour would never be far from it."""


def must_ask(row: WatchRow | None, now: float) -> bool:
    """Whether CloudWatch has to be asked for the age of the oldest message."""
    queue = None if row is None else row.queues.get(MAIN)
    if row is None or queue is None or queue.filled_at is None:
        return False
    asked_long_ago = now - row.main.asked_at >= BETWEEN_QUESTIONS
    return asked_long_ago and now - queue.filled_at > FULL_FOR


def with_answer(row: MainRow, queue: QueueRow, answer: OldestMessage | None, now: float) -> MainRow:
    """What is known of the oldest message after this minute.

    It grows older until CloudWatch names another one, or the queue is seen empty.
    """
    if queue.filled_at is None:
        return MainRow(asked_at=row.asked_at)
    if answer is None:
        return row
    return MainRow(asked_at=now, oldest=row.oldest if answer.sent is None else answer.sent)


def seconds_left(row: MainRow, queue: QueueRow, now: float) -> float | None:
    """Seconds until SQS drops the oldest message; None while that is far away, or not known."""
    if row.oldest is None or not queue.retention:
        return None
    left = max(0.0, row.oldest + queue.retention - now)
    return left if left <= queue.retention * (1 - NEAR) else None


def mapping_is_due(pipeline: str, row: WatchRow | None, now: float) -> bool:
    """Whether to ask Lambda for the consumer's mapping, whose control plane is the account's.

    Every tenth minute, and each second one while messages wait: its answers are for all pipelines
    of the account, so each has a minute of its own.
    """
    minute = int(now // MINUTE) + crc32(pipeline.encode())
    waits = row is None or row.queues.get(MAIN, _EMPTY).letters > 0
    return minute % (2 if waits else 10) == 0


_EMPTY = QueueRow()
