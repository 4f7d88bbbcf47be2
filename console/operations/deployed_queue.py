"""The settings of a queue, whether the app made it or not."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


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
    counts = ("", "NotVisible", "Delayed")
    sources = allow.get("sourceQueueArns")
    encrypted = texts.get("SqsManagedSseEnabled") == "true"
    dlq = redrive.get("deadLetterTargetArn")
    return DeployedQueue(
        name=texts.get("QueueArn", url).rpartition(":")[2].rpartition("/")[2],
        url=url,
        arn=texts.get("QueueArn", ""),
        messages=sum(int(texts.get(f"ApproximateNumberOfMessages{kind}", 0)) for kind in counts),
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
    try:
        data = json.loads(text or "{}")
    except ValueError:
        return {}
    return data if isinstance(data, dict) else {}
