"""How many messages a queue holds, and what SQS says of one that belongs to no app of ours."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from .aws import error_code
from .problem import Cause, Problem
from .session import Session

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

LOOKS_COUNT = (
    "SQS counts each look as a receive: a message that was looked at three times drops out of "
    "the queue's own age metric, and a maxReceiveCount counts it."
)
"""The warning that belongs to every look into a queue."""

_ABSENT = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})


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


@dataclass(frozen=True, slots=True)
class BareQueue:
    """A queue as SQS describes it: `attributes` are SQS's own, by their API names."""

    url: str
    attributes: Mapping[str, str]

    @property
    def arn(self) -> str:
        return self.attributes["QueueArn"]

    @property
    def name(self) -> str:
        return self.arn.rpartition(":")[2]

    @property
    def is_fifo(self) -> bool:
        return self.attributes.get("FifoQueue") == "true"


def bare_queue(session: Session, url: str) -> BareQueue:
    """A queue by its URL, name or ARN. Nothing of ours has to be deployed.

    Raises Problem (ABSENT) if there is no such queue.
    """
    sqs = session.aws.sqs
    try:
        url = _url(sqs, url)
        answer = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])
    except Exception as error:
        if error_code(error) not in _ABSENT:
            raise
        raise Problem(
            f"There is no queue {url!r} in account {session.aws.account}, {session.aws.region}, or "
            "you have no access to it: give its URL, its name or its ARN, and check --region and "
            "--profile; aws sqs list-queues names them.",
            Cause.ABSENT,
        ) from error
    return BareQueue(url, {str(name): value for name, value in answer["Attributes"].items()})


def _url(sqs: SQSClient, text: str) -> str:
    """The URL of a queue that is named by its URL, name or ARN."""
    if text.startswith(("https://", "http://")):
        return text
    if text.startswith("arn:"):
        *_, account, name = text.split(":")
        return sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    return sqs.get_queue_url(QueueName=text)["QueueUrl"]
