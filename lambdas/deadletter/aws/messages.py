"""The messages of a queue as the records of a Lambda event, for a consumer that polls itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, ours
from deadletter.message.letter import NotALetter, from_api, to_event
from deadletter.processing.poller import MOST_RECEIVED, SourceUnavailable

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient


class SqsMessages:
    """One queue. `receiving` waits longer for an answer than a receive waits for messages."""

    def __init__(self, client: SQSClient, receiving: SQSClient, url: str, arn: str) -> None:
        self._client = client
        self._receiving = receiving
        self._url = url
        self._arn = arn

    def receive(self, most: int, *, hidden: int, wait: int) -> list[dict[str, Any]]:
        with ours(SourceUnavailable, "sqs", self._url.rpartition("/")[2]):
            answer = self._receiving.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=most,
                VisibilityTimeout=hidden,
                WaitTimeSeconds=wait,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        return [record_of(message, self._arn) for message in answer.get("Messages", [])]

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        changed = 0
        for start in range(0, len(waits), MOST_RECEIVED):
            entries: list[Any] = [
                {"Id": str(position), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for position, (handle, seconds) in enumerate(waits[start : start + MOST_RECEIVED])
            ]
            try:
                answer = self._client.change_message_visibility_batch(
                    QueueUrl=self._url, Entries=entries
                )
            except AWS_ERRORS:
                continue
            changed += len(answer.get("Successful", []))
        return len(waits) - changed

    def delete(self, handles: Sequence[str]) -> list[str]:
        deleted: set[str] = set()
        for start in range(0, len(handles), MOST_RECEIVED):
            batch = handles[start : start + MOST_RECEIVED]
            entries: list[Any] = [
                {"Id": str(position), "ReceiptHandle": handle}
                for position, handle in enumerate(batch)
            ]
            try:
                answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
            except AWS_ERRORS:
                continue
            deleted |= {batch[int(success["Id"])] for success in answer.get("Successful", [])}
        return [handle for handle in handles if handle not in deleted]


def record_of(message: Any, arn: str) -> dict[str, Any]:
    """The record that Lambda would make of a received message.

    One that is no letter keeps what the library reads of it: it fails, and comes back.
    """
    try:
        letter = from_api(message)
    except NotALetter:
        return {
            "messageId": message.get("MessageId"),
            "receiptHandle": message.get("ReceiptHandle"),
            "body": message.get("Body"),
            "attributes": message.get("Attributes", {}),
            "messageAttributes": None,
            "eventSource": "aws:sqs",
            "eventSourceARN": arn,
        }
    return to_event(letter, receipt_handle=message["ReceiptHandle"], source_arn=arn)


def arn_of(client: SQSClient, url: str) -> str:
    """The queue's ARN, from its URL (https://host/account/name) and the client's region.

    Raises ValueError for another URL.
    """
    account, _, name = url.partition("://")[2].partition("/")[2].rpartition("/")
    if not account or not name:
        raise ValueError(f"queue_url is {url!r}; allowed: https://<host>/<account>/<queue>")
    return f"arn:{client.meta.partition}:sqs:{client.meta.region_name}:{account}:{name}"
