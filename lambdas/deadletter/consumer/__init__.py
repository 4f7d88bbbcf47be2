"""The consumer library: a team wraps it around its own handler of SQS messages.

A failure counts against the circuit of the pipeline's dependency only if it speaks of the
dependency: a time-out, a failed connection, 408, 425, 429, 5xx, a busy or broken service. An error
in the code or in the data counts neither way, and so does an exception that the library does not
know. A team may say it itself, in the words of known breakers (record and ignore):

    @consumer(dependency_errors=(WarehouseBusy,), ignored_errors=(StillPacking,))

dependency_errors  count against the dependency, whatever the library makes of them
ignored_errors     count neither way; an exception in both is ignored

Each is an exception class, several in a tuple, or a function of one exception that returns True
or False. They are asked about the exception that the handler raised and about its causes.

See docs/consumer.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any, Literal, overload

from deadletter.consumer import runtime
from deadletter.consumer.runtime import finished
from deadletter.contract import Category
from deadletter.failure.signals import DependencyOpen, Permanent, Skip, Transient
from deadletter.processing.batch import (
    CANCELLING_SHARE,
    finishing_seconds,
)
from deadletter.processing.crew import Threads, check_concurrency
from deadletter.processing.lambda_event import (
    check_records,
    execution_of,
    invoker_of,
    records_of,
    seconds_left,
)
from deadletter.processing.named_dependencies import dependency
from deadletter.processing.result import BatchResult

if TYPE_CHECKING:
    from threading import Event

    from deadletter.failure.blame import Errors, TeamsWord

__all__ = [
    "Category",
    "DependencyOpen",
    "Permanent",
    "Skip",
    "Transient",
    "consume",
    "consumer",
    "correlation_id",
    "dependency",
    "handle",
    "poll",
]

Record = Mapping[str, Any]
Each = Callable[[dict[str, Any]], object]
"""A team's own handler of one SQS record, in Lambda's form. Returning means processed.

It may be async: then it runs in an event loop that the process keeps from batch to batch."""


Handler = Callable[[Any, Any], dict[str, Any]]
"""A Lambda handler, of an event and a context."""


def correlation_id(record: Mapping[str, Any]) -> str:
    """The id to log for a record: the same in all lives of its message.

    It is the id of the message's X-Ray trace if its producer sent one, else the MessageId of its
    first life. `dlq show` takes the second and shows both. With the Logger of Powertools:
    `logger.append_keys(correlation_id=correlation_id(record))`.

    Never raises. Its producer can choose it: do not decide anything by it.
    """
    from deadletter.message import stamp
    from deadletter.message.letter import NotALetter, from_event

    try:
        letter = from_event(record)
    except NotALetter:
        return str(record.get("messageId", ""))
    attribute = letter.attributes.get(stamp.NAME)
    mark = stamp.parse(attribute.value) if attribute else None
    return letter.trace or (mark.origin if mark else letter.message_id)


@overload
def consumer(each: Each) -> Handler: ...
@overload
def consumer(
    *, dependency_errors: Errors = (), ignored_errors: Errors = (), concurrency: int = 1
) -> Callable[[Each], Handler]: ...
def consumer(
    each: Each | None = None,
    *,
    dependency_errors: Errors = (),
    ignored_errors: Errors = (),
    concurrency: int = 1,
) -> Handler | Callable[[Each], Handler]:
    """Turn a function of one SQS record into a Lambda handler of a batch of them.

    `concurrency` is how many records of a batch are handled at the same time (1 to 64), each in
    a thread of its own, or as a task of one event loop if the function is async. On FIFO queues
    the records of a group stay in order.

    Raises TypeError for `dependency_errors` or `ignored_errors` of another kind, and ValueError
    for another `concurrency`.
    """
    check_concurrency(concurrency)
    team = _teams_word(dependency_errors, ignored_errors)

    def wrapped(each: Each) -> Handler:
        @wraps(each)
        def handler(event: Any, context: Any) -> dict[str, Any]:
            return _handle(records_of(event), context, each, team, concurrency).to_response()

        return handler

    return wrapped if each is None else wrapped(each)


def consume(
    event: Any,
    context: Any,
    each: Each,
    *,
    dependency_errors: Errors = (),
    ignored_errors: Errors = (),
    concurrency: int = 1,
) -> dict[str, Any]:
    """Process a Lambda event of SQS records with `each`; returns the response.

    `concurrency` is how many records are handled at the same time, as in `consumer`.

    Raises ValueError for any other event, and for messages as boto3 receives them (see
    `deadletter.consumer.poll`), TypeError for `dependency_errors` or `ignored_errors`
    of another kind, and BadSettings or NotRegistered if the environment variable DEADLETTER
    names no pipeline: then the whole batch comes back.

    WARNING: the event source mapping must have ReportBatchItemFailures, or Lambda deletes
    the failed messages that the response names.
    """
    team = _teams_word(dependency_errors, ignored_errors)
    return _handle(records_of(event), context, each, team, concurrency).to_response()


def handle(
    records: Sequence[Record],
    context: Any,
    each: Callable[[Any], object],
    *,
    dependency_errors: Errors = (),
    ignored_errors: Errors = (),
    concurrency: int = 1,
) -> BatchResult:
    """As `consume`, for the records of a Lambda event; returns the result of each."""
    team = _teams_word(dependency_errors, ignored_errors)
    return _handle(records, context, each, team, concurrency)


def poll(
    each: Each,
    *,
    queue_url: str | None = None,
    concurrency: int = 1,
    longest: float = 300.0,
    stop_within: float = 25.0,
    metrics: Literal["emf"] | None = "emf",
    dependency_errors: Errors = (),
    ignored_errors: Errors = (),
    stop: Event | None = None,
) -> None:
    """Process the messages of the pipeline's main queue with `each`, until the end is asked for.

    `each` takes one record in Lambda's form, as with `deadletter.consumer.consumer`, and may be
    async. It runs in a thread, `concurrency` of them at the same time (1 to 64); messages of a
    FIFO group stay in order. While it runs its message is kept hidden, for `longest` seconds at
    most: a handler that takes longer is left behind, and its message comes back.

    SIGTERM, SIGINT or `stop` ends it: nothing more is received, what is in hand is finished
    within `stop_within` seconds and the rest is given back at once. ECS and Kubernetes kill after
    30 seconds. Only messages that the library acknowledges are deleted.

    `metrics` is "emf" for lines of CloudWatch's embedded metric format on the output, or None.
    With DEADLETTER=off the library is switched off, and needs `queue_url`.

    Raises ValueError for other values, and BadSettings or NotRegistered if DEADLETTER names no
    pipeline.
    """
    # A Lambda function does not poll, and does not pay for it.
    from deadletter.consumer import polling

    polling.poll(
        each,
        queue_url=queue_url,
        concurrency=concurrency,
        longest=longest,
        stop_within=stop_within,
        metrics=metrics,
        dependency_errors=dependency_errors,
        ignored_errors=ignored_errors,
        stop=stop,
    )


def _handle(
    records: Sequence[Record],
    context: Any,
    each: Callable[[Any], object],
    team: TeamsWord | None,
    concurrency: int,
) -> BatchResult:
    check_records(records)
    current = runtime.current_runtime()
    if current.consumer is None:
        from deadletter.processing.unguarded import process_unguarded

        result = process_unguarded(
            records,
            finished(each, lambda: None),
            current.clock(),
            crew=Threads(current.clock),
            concurrency=concurrency,
        )
    else:
        began, seconds = current.clock(), seconds_left(context)
        deadline = began + seconds
        # An async handler is cancelled a little before the batch stops waiting for it.
        until = deadline - CANCELLING_SHARE * finishing_seconds(seconds)
        handle = finished(each, lambda: until - current.clock())
        guarded = replace(
            current.consumer, handle=lambda delivery: handle(delivery.record), team=team
        )
        result = guarded.process(
            records,
            deadline=deadline,
            **invoker_of(context),
            concurrency=concurrency,
            execution=execution_of(context),
        )
    current.report(result)
    return result


def _teams_word(dependency_errors: Errors, ignored_errors: Errors) -> TeamsWord | None:
    """What the team says of its exceptions, None if nothing; raises TypeError."""
    if dependency_errors == () and ignored_errors == ():
        return None
    from deadletter.failure.blame import teams_word

    return teams_word(dependency_errors, ignored_errors)
