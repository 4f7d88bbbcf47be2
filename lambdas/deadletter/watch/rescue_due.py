"""When letters have to leave a queue before SQS drops them."""

from __future__ import annotations

from deadletter.contract import DAY, HOUR, MINUTE, Mode
from deadletter.watch.queue_figures import empty_at, oldest_possible
from deadletter.watch.row import QueueRow

MARGIN = float(DAY)
"""Seconds before SQS could drop a letter in which its rescue begins."""

BETWEEN_RESCUES = 2.0 * MINUTE - 10.0
"""Seconds between two starts of a rescue of one source, a little less than two minutes: the
watch does not start on the second."""

SAME_LETTERS_AGAIN = 15.0 * MINUTE - 10.0
"""Seconds between two rescues of a queue that holds no more letters than the last one has left."""

DRAINED_WITHIN = float(HOUR)
"""A queue that was empty within this time is drained by the runs."""


def rescue_due(
    row: QueueRow,
    *,
    mode: Mode,
    sent_before: float,
    runs_drain: bool,
    now: float,
) -> bool:
    """Whether everything has to be moved out of a queue now.

    A letter may have been sent up to `sent_before` seconds before it came into the queue: so
    where retention is short, the bound is near from the first minute. Then a rescue is due only
    if the runs do not drain the queue. A queue that cannot be read may hold letters.
    """
    may_hold = row.letters > 0 or now - row.read_at > BETWEEN_RESCUES
    more_than_left = row.letters > (row.left or 0)
    pause = BETWEEN_RESCUES if more_than_left else SAME_LETTERS_AGAIN
    pause_over = row.rescued_at is None or now - row.rescued_at >= pause
    if mode is not Mode.ENFORCE or not row.retention or not may_hold or not pause_over:
        return False
    near = oldest_possible(row, sent_before) + row.retention - MARGIN <= now
    always_near = row.retention - sent_before - MARGIN <= DRAINED_WITHIN
    drained = runs_drain and now - empty_at(row) <= DRAINED_WITHIN
    return near and not (always_near and drained)
