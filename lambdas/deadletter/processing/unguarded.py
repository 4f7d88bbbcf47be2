"""Messages with the library switched off: only the handler, and partial failures of a batch."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial

from deadletter.failure.fate import Fate
from deadletter.failure.signals import Skip, is_message_failure, reject_deferred_result
from deadletter.message.letter import Letter, NotALetter, from_event
from deadletter.processing.crew import Crew, InTurn, check_concurrency, lanes
from deadletter.processing.delivery import Record, group_of, id_of, queue_of
from deadletter.processing.diagnosing import diagnose
from deadletter.processing.result import BatchResult, MessageResult


def process_unguarded(
    records: Sequence[Record],
    handle: Callable[[Record], object],
    now: float,
    *,
    crew: Crew | None = None,
    concurrency: int = 1,
    goes_on: Callable[[], bool] = lambda: True,
) -> BatchResult:
    """Process records with the library switched off: only the handler and partial failures.

    The order within a FIFO group is kept all the same. No message is begun once `goes_on` says
    no: it is given back.
    """
    check_concurrency(concurrency)
    results = [MessageResult(id_of(record), Fate.LATE) for record in records]
    stopped_groups: set[str] = set()

    def process(position: int) -> None:
        record = records[position]
        # Read before the handler runs: it may rewrite its record.
        message_id, group = id_of(record), _fifo_group(record)
        if group and group in stopped_groups:
            results[position] = MessageResult(message_id, Fate.HELD_BACK)
            return
        if not goes_on():
            return
        result = _unguarded(record, message_id, handle, now)
        if group and not result.acknowledged:
            stopped_groups.add(group)
        results[position] = result

    all_lanes = lanes([_fifo_group(record) or None for record in records], concurrency)
    tasks = [partial(_each_of, process, lane) for lane in all_lanes]
    (crew or InTurn(lambda: now)).work(tasks, at_once=concurrency, until=lambda: math.inf)
    return BatchResult(tuple(results))


def _unguarded(
    record: Record,
    message_id: str,
    handle: Callable[[Record], object],
    now: float,
) -> MessageResult:
    letter = _letter_in(record)
    try:
        reject_deferred_result(handle(record))
    except Skip:
        return MessageResult(message_id, Fate.SKIPPED)
    except BaseException as error:
        if not is_message_failure(error):
            raise
        diagnosis = diagnose(error, letter, now=now)
        return MessageResult(message_id, Fate.FAILED, diagnosis, error=error)
    return MessageResult(message_id, Fate.PROCESSED)


def _fifo_group(record: Record) -> str:
    return group_of(record) if queue_of(record).endswith(".fifo") else ""


def _each_of(process: Callable[[int], object], positions: Sequence[int]) -> None:
    for position in positions:
        process(position)


def _letter_in(record: Record) -> Letter | None:
    try:
        return from_event(record)
    except NotALetter:
        return None
