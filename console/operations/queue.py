"""How many messages a queue holds, and a look at a queue that belongs to no app of ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Annotated

from deadletter.message.letter import Letter, NotALetter, from_api

from .aws import error_code
from .peek import SAMPLE, Peeked, peek
from .problem import Cause, Problem
from .session import Session

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

MOST_OF_BARE_QUEUE = 100
"""Messages of a bare queue that a look receives, if the caller names no number."""

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
    return _depth({str(name): value for name, value in attributes.items()})


def _depth(attributes: Mapping[str, str]) -> QueueDepth:
    return QueueDepth(
        int(attributes["ApproximateNumberOfMessages"]),
        int(attributes["ApproximateNumberOfMessagesNotVisible"]),
        int(attributes["ApproximateNumberOfMessagesDelayed"]),
    )


@dataclass(frozen=True, slots=True)
class BareQueue:
    """A queue as SQS describes it, and a sample of its messages.

    `attributes` are SQS's own, by their API names. `letters` are in the order in which SQS handed
    them out; `is_whole` says that the look ended because the queue seemed empty.
    """

    url: str
    attributes: Mapping[str, str]
    letters: Sequence[Letter] = ()
    looked_at: int = 0
    not_given_back: int = 0
    is_whole: bool = False

    @property
    def arn(self) -> str:
        return self.attributes["QueueArn"]

    @property
    def name(self) -> str:
        return self.arn.rpartition(":")[2]

    @property
    def is_fifo(self) -> bool:
        return self.attributes.get("FifoQueue") == "true"

    @property
    def depth(self) -> QueueDepth:
        return _depth(self.attributes)


def bare_queue(session: Session, url: str, *, most: int = MOST_OF_BARE_QUEUE) -> BareQueue:
    """A queue's attributes and at most so many of its messages, visible again at once.

    `url` is a URL, a name or an ARN. Nothing of ours has to be deployed. With `most` 0 no message
    is received; see LOOKS_COUNT. Raises Problem (ABSENT) if there is no such queue.
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
    attributes = {str(name): value for name, value in answer["Attributes"].items()}
    letters: list[Letter] = []
    look = Peeked(0, 0, is_whole=False)
    if most:
        look = _look(session, url, most, letters, _depth(attributes).visible)
    return BareQueue(
        url, attributes, tuple(letters), look.looked_at, look.not_given_back, look.is_whole
    )


def _look(session: Session, url: str, most: int, letters: list[Letter], visible: int) -> Peeked:
    looked_at = 0

    def missing() -> int:
        return most - looked_at

    def see(message: MessageTypeDef) -> None:
        nonlocal looked_at
        looked_at += 1
        try:
            letters.append(from_api(message))
        except NotALetter:
            return

    reach = replace(SAMPLE, most=most)
    return peek(
        session.aws.sqs,
        url,
        missing=missing,
        see=see,
        now=session.clock,
        reach=reach,
        visible=visible,
    )


def _url(sqs: SQSClient, text: str) -> str:
    """The URL of a queue that is named by its URL, name or ARN."""
    if text.startswith(("https://", "http://")):
        return text
    if text.startswith("arn:"):
        *_, account, name = text.split(":")
        return sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    return sqs.get_queue_url(QueueName=text)["QueueUrl"]
