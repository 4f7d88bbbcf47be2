"""The consumer library: a team wraps it around its own handler of SQS messages.

See docs/consumer.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import Any

from deadletter.consumer import runtime
from deadletter.failure.failure import Category
from deadletter.failure.signals import Permanent, Skip, Transient
from deadletter.processing.batch import process_unguarded
from deadletter.processing.lambda_event import permit_of, records_of, seconds_left
from deadletter.processing.result import BatchResult

__all__ = ["Category", "Permanent", "Skip", "Transient", "consume", "consumer", "handle"]

Record = Mapping[str, Any]
Each = Callable[[dict[str, Any]], object]
"""A team's own handler of one SQS record, in Lambda's form. Returning means processed."""


def consumer(each: Each) -> Callable[[Any, Any], dict[str, Any]]:
    """Turn a function of one SQS record into a Lambda handler of a batch of them."""

    @wraps(each)
    def handler(event: Any, context: Any) -> dict[str, Any]:
        return consume(event, context, each)

    return handler


def consume(event: Any, context: Any, each: Each) -> dict[str, Any]:
    """Process a Lambda event of SQS records one by one with `each`; returns the response.

    Raises ValueError for any other event, and BadSettings or NotRegistered if the
    environment variable DEADLETTER names no pipeline: then the whole batch comes back.

    WARNING: the event source mapping must have ReportBatchItemFailures, or Lambda deletes
    the failed messages that the response names.
    """
    return handle(records_of(event), context, each).to_response()


def handle(records: Sequence[Record], context: Any, each: Callable[[Any], object]) -> BatchResult:
    """As `consume`, for records; returns the result of each."""
    current = runtime.current_runtime()
    if current.consumer is None:
        result = process_unguarded(records, each, current.clock())
    else:
        guarded = replace(current.consumer, handle=lambda delivery: each(delivery.record))
        deadline = current.clock() + seconds_left(context)
        result = guarded.process(records, deadline=deadline, permit=permit_of(context))
    current.report(result)
    return result
