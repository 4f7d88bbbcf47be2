"""What Lambda passes to one invocation: the records, the time left, who invokes directly."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

PERMIT = "deadletter_permit"
"""The key of a probe's permit in the client context."""

REPLAY_RUN = "replay"
"""The key of a replay run's id in the client context."""

LONGEST_INVOCATION_SECONDS = 900.0
"""The longest that Lambda lets a function run; assumed if the context does not say."""


_IN_A_CONTAINER = (
    "In a container, let deadletter.consumer.poll receive the messages: it converts them, and"
    " deletes only those that were processed"
)


def records_of(event: Any) -> Sequence[Mapping[str, Any]]:
    """The records of an SQS event; raises ValueError for any other event."""
    records = event.get("Records") if isinstance(event, Mapping) else None
    if not isinstance(records, list):
        is_answer = isinstance(event, Mapping) and "Messages" in event
        raise ValueError(
            "the event has no list of Records; allowed: the event of an SQS queue"
            + (f". This is an answer of receive_message. {_IN_A_CONTAINER}" if is_answer else "")
        )
    return records


def check_records(records: Sequence[Any]) -> None:
    """Raises ValueError for messages as boto3 receives them, whose keys differ from a record's.

    They have no id that a response could name, and a loop that deletes whatever the response
    does not name would delete them all. A record of Lambda without an id is another matter: its
    empty id gives the whole batch back, and the other messages are processed meanwhile.
    """
    for position, record in enumerate(records):
        if isinstance(record, Mapping) and "MessageId" in record and "messageId" not in record:
            raise ValueError(
                f"records[{position}] is a message as boto3's receive_message returns it (it has"
                " MessageId, and no messageId); allowed: the records of a Lambda event, with"
                f" messageId, receiptHandle and body. {_IN_A_CONTAINER}"
            )


def seconds_left(context: Any) -> float:
    """Seconds until Lambda ends the invocation; LONGEST_INVOCATION_SECONDS without `context`."""
    remaining = getattr(_of_lambda(context), "get_remaining_time_in_millis", None)
    return LONGEST_INVOCATION_SECONDS if remaining is None else float(remaining()) / 1000


class Invoker(TypedDict):
    """Which invocation this is, and who invokes in place of the messages' queue."""

    permit: str | None
    run: str | None
    request_id: str


def invoker_of(context: Any) -> Invoker:
    """The invocation's id, and the probe or the replay run that made it, if one did."""
    return {
        "permit": permit_of(context),
        "run": run_of(context),
        "request_id": request_id_of(context),
    }


def request_id_of(context: Any) -> str:
    """The id of the invocation, as it stands in the function's log; empty without one."""
    request_id = getattr(_of_lambda(context), "aws_request_id", None)
    return request_id if isinstance(request_id, str) else ""


def permit_of(context: Any) -> str | None:
    """The permit of the probe that made this invocation; None for any other invocation."""
    return _custom_text(context, PERMIT)


def run_of(context: Any) -> str | None:
    """The replay run that made this invocation; None for any other invocation."""
    return _custom_text(context, REPLAY_RUN)


def execution_of(context: Any) -> str:
    """The ARN of the durable execution that this invocation begins or resumes; else empty."""
    execution = getattr(context, "execution_context", None)
    arn = getattr(execution, "durable_execution_arn", None)
    return arn if isinstance(arn, str) else ""


def _custom_text(context: Any, name: str) -> str | None:
    """A text that the invoker has put into the client context."""
    custom = getattr(getattr(_of_lambda(context), "client_context", None), "custom", None)
    text = custom.get(name) if isinstance(custom, Mapping) else None
    return text if isinstance(text, str) and text else None


def _of_lambda(context: Any) -> Any:
    """The context that Lambda made: a durable execution's context has it within."""
    return getattr(context, "lambda_context", None) or context
