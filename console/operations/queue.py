"""How many messages a queue holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The messages in a queue, as SQS estimates them."""

    visible: Annotated[int, "waiting to be received"]
    in_flight: Annotated[int, "received and not deleted yet"]
    delayed: Annotated[int, "sent with a delay that is not over"]


def depth(sqs: SQSClient, url: str) -> QueueDepth:
    """The depth of the queue at this URL."""
    attributes = sqs.get_queue_attributes(
        QueueUrl=url,
        AttributeNames=[
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        ],
    )["Attributes"]
    return QueueDepth(
        int(attributes["ApproximateNumberOfMessages"]),
        int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        int(attributes["ApproximateNumberOfMessagesDelayed"]),
    )
