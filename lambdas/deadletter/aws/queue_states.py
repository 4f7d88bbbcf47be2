"""The state of a queue, as SQS describes it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.errors import ours
from deadletter.message.queue import Depth, QueueUnavailable
from deadletter.watch.observation import QueueState

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.literals import QueueAttributeNameType

_NAMES: tuple[QueueAttributeNameType, ...] = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
    "CreatedTimestamp",
    "MessageRetentionPeriod",
)


def queue_state(client: SQSClient, url: str) -> QueueState:
    """The state of the queue at `url`. Raises QueueUnavailable."""
    name = url.rpartition("/")[2]
    with ours(QueueUnavailable, "sqs", name):
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=list(_NAMES))
    attributes = answer.get("Attributes", {})
    try:
        visible, in_flight, delayed, created, retention = (
            float(attributes[attribute]) for attribute in _NAMES
        )
    except (KeyError, ValueError) as error:
        raise QueueUnavailable(f"incomplete attributes of {name}") from error
    depth = Depth(int(visible), int(in_flight), int(delayed))
    return QueueState(depth=depth, created=created, retention=retention)
