"""A queue as SQS describes it: how many messages it holds, and its settings, ours or not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

from .errors import Cause, Problem, error_code, read_json
from .session import Session

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

LOOKS_COUNT = (
    "SQS counts each look as a receive: a message that was looked at three times drops out of "
    "the queue's own age metric, and a maxReceiveCount counts it."
)
"""The warning that belongs to every look into a queue."""

_ABSENT = frozenset({"AWS.SimpleQueueService.NonExistentQueue", "QueueDoesNotExist"})


_COUNTS: Any = [f"ApproximateNumberOfMessages{kind}" for kind in ("", "NotVisible", "Delayed")]


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """The messages in a queue, as SQS estimates them."""

    visible: Annotated[int, "waiting to be received"]
    in_flight: Annotated[int, "received and not deleted yet"]
    delayed: Annotated[int, "sent with a delay that is not over"]

    @property
    def total(self) -> int:
        """All of them."""
        return self.visible + self.in_flight + self.delayed


def depth(sqs: SQSClient, url: str) -> QueueDepth:
    """The depth of the queue at this URL."""
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=_COUNTS)["Attributes"]
    return QueueDepth(*(int(attributes[name]) for name in _COUNTS))


def bare_queue(session: Session, named: str) -> DeployedQueue:
    """A queue by its URL, name or ARN. Nothing of ours has to be deployed.

    Raises Problem (ABSENT) if there is no such queue.
    """
    sqs = session.aws.sqs
    try:
        return deployed_queue(sqs, _url(sqs, named))
    except Exception as error:
        if error_code(error) not in _ABSENT:
            raise
        raise Problem(
            f"There is no queue {named!r} in account {session.aws.account}, {session.aws.region}, "
            "or you have no access to it: give its URL, its name or its ARN, and check --region "
            "and --profile. Their names:\naws sqs list-queues",
            Cause.ABSENT,
        ) from error


def _url(sqs: SQSClient, text: str) -> str:
    """The URL of a queue that is named by its URL, name or ARN."""
    if text.startswith(("https://", "http://")):
        return text
    if text.startswith("arn:"):
        *_, account, name = text.split(":")
        return sqs.get_queue_url(QueueName=name, QueueOwnerAWSAccountId=account)["QueueUrl"]
    return sqs.get_queue_url(QueueName=text)["QueueUrl"]


@dataclass(frozen=True, slots=True)
class DeployedQueue:
    """What a queue does with its messages."""

    name: Annotated[str, "name of the queue"]
    url: Annotated[str, "its URL"]
    arn: Annotated[str, "its ARN"]
    messages: Annotated[int, "visible, in flight and delayed ones, as SQS estimates them"]
    retention: Annotated[int, "seconds after which SQS deletes a message"]
    visibility: Annotated[int, "seconds that a received message is hidden"]
    dlq_arn: Annotated[str | None, "its own DLQ; null if it has none"]
    max_receive_count: Annotated[int | None, "receives before a message goes there"]
    allowed_sources: Annotated[
        Sequence[str] | None, "queues that may name it as DLQ; null if any queue of the account may"
    ]
    encryption: Annotated[str, "`none`, `SSE-SQS`, or the id of its KMS key"]
    fifo: Annotated[bool, "whether it is a FIFO queue"]
    policy: Annotated[Mapping[str, Any], "its access policy"] = field(default_factory=dict)

    @property
    def key(self) -> str | None:
        """The id of its KMS key; None without one of ours."""
        return None if self.encryption in (NONE, SSE_SQS) else self.encryption


NONE, SSE_SQS = "none", "SSE-SQS"


def deployed_queue(sqs: SQSClient, url: str) -> DeployedQueue:
    """The settings of the queue at this URL."""
    attributes = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
    return described(url, {str(name): value for name, value in attributes.items()})


def described(url: str, texts: Mapping[str, str]) -> DeployedQueue:
    """The settings of a queue, from its attributes as SQS names them."""
    redrive, allow = _object(texts.get("RedrivePolicy")), _object(texts.get("RedriveAllowPolicy"))
    maximum = redrive.get("maxReceiveCount")
    sources = allow.get("sourceQueueArns")
    encrypted = texts.get("SqsManagedSseEnabled") == "true"
    dlq = redrive.get("deadLetterTargetArn")
    return DeployedQueue(
        name=texts.get("QueueArn", url).rpartition(":")[2].rpartition("/")[2],
        url=url,
        arn=texts.get("QueueArn", ""),
        messages=sum(int(texts.get(name, 0)) for name in _COUNTS),
        retention=int(texts.get("MessageRetentionPeriod", 345_600)),
        visibility=int(texts.get("VisibilityTimeout", 30)),
        dlq_arn=str(dlq) if dlq else None,
        max_receive_count=int(str(maximum)) if maximum is not None else None,
        allowed_sources=_sources(str(allow.get("redrivePermission", "")), sources),
        encryption=texts.get("KmsMasterKeyId") or (SSE_SQS if encrypted else NONE),
        fifo=texts.get("FifoQueue") == "true",
        policy=_object(texts.get("Policy")),
    )


def _sources(permission: str, arns: object) -> Sequence[str] | None:
    if permission == "denyAll":
        return ()
    if permission != "byQueue":
        return None
    return tuple(map(str, arns)) if isinstance(arns, list) else ()


def _object(text: str | None) -> Mapping[str, object]:
    data = read_json(text or "{}")
    return data if isinstance(data, dict) else {}
