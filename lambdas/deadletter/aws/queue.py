"""An SQS queue: letters taken under a lock, sent in batches, deleted against proof."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import ClientError

from deadletter.aws.errors import AWS_ERRORS, code, surely_refused
from deadletter.contract import MAIN_DLQ
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import MAX_BYTES, NotALetter, from_api, utf8
from deadletter.message.queue import (
    MAX_BATCH,
    Depth,
    QueueUnavailable,
    ReceivedLetter,
    SendResult,
    TooManyInFlight,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_LONGEST_LOCK = 43_200  # seconds: SQS hides a message for 12 hours at most
_IN_FLIGHT_CODES = frozenset({"OverLimit", "AWS.SimpleQueueService.OverLimit"})

T = TypeVar("T")


class SqsQueue:
    """One queue by its URL; `clock` gives epoch seconds, `home` is its id in what it hands out."""

    def __init__(
        self, client: SQSClient, url: str, clock: Callable[[], float], home: str = MAIN_DLQ
    ) -> None:
        self._client = client
        self._url = url
        self._clock = clock
        self._home = home
        self._traits: QueueTraits | None = None

    @property
    def traits(self) -> QueueTraits:
        """What the queue demands of messages, looked up once; raises QueueUnavailable."""
        if self._traits is None:
            found = self._attributes("MaximumMessageSize", "MessageRetentionPeriod")
            self._traits = QueueTraits(
                fifo=self._url.endswith(".fifo"),
                max_bytes=int(found.get("MaximumMessageSize", MAX_BYTES)),
                retention=float(found.get("MessageRetentionPeriod", 345_600)),
            )
        return self._traits

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> Sequence[ReceivedLetter]:
        """Up to ten letters; what is no letter at all stays in the queue until its lock ends."""
        locked_until = self._clock() + min(lock_seconds, _LONGEST_LOCK)
        try:
            answer = self._client.receive_message(
                QueueUrl=self._url,
                MaxNumberOfMessages=min(most, MAX_BATCH),
                VisibilityTimeout=min(lock_seconds, _LONGEST_LOCK),
                WaitTimeSeconds=wait_seconds,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
        except ClientError as error:
            if code(error) in _IN_FLIGHT_CODES:
                raise TooManyInFlight(code(error)) from error
            raise QueueUnavailable(code(error)) from error
        except AWS_ERRORS as error:
            raise QueueUnavailable(code(error)) from error
        taken = []
        for message in answer.get("Messages", []):
            try:
                letter = from_api(message)
            except NotALetter:
                continue
            taken.append(ReceivedLetter(letter, message["ReceiptHandle"], locked_until, self._home))
        return taken

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        """Send up to ten. Confirmed is what SQS names with the digest of the very body sent."""
        entries = [_entry(str(position), one) for position, one in enumerate(batch)]
        everything = frozenset(one.copy for one in batch)
        try:
            answer = self._client.send_message_batch(QueueUrl=self._url, Entries=entries)
        except AWS_ERRORS as error:
            if surely_refused(error):
                return SendResult(refused=dict.fromkeys(everything, code(error)))
            return SendResult(unknown=everything)
        confirmed: dict[str, Confirmation] = {}
        refused: dict[str, str] = {}
        for success in answer.get("Successful", []):
            envelope = batch[int(success["Id"])]
            if success["MD5OfMessageBody"] == _md5(envelope.body):
                confirmed[envelope.copy] = Confirmation(
                    envelope.copy, self._url, success["MessageId"]
                )
        for failure in answer.get("Failed", []):
            # A fault of the service may strike after the message was stored.
            if failure.get("SenderFault"):
                refused[batch[int(failure["Id"])].copy] = failure["Code"]
        return SendResult(confirmed, refused, everything - confirmed.keys() - refused.keys())

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        """Delete what is proved to be elsewhere; returns what may still be in the queue."""
        for taken, proof in letters:
            if proof.copy != taken.letter.message_id:
                raise ValueError("this proof is another letter's")
        left: list[ReceivedLetter] = []
        for part in _tens([taken for taken, _ in letters]):
            entries: list[Any] = [
                {"Id": str(position), "ReceiptHandle": one.handle}
                for position, one in enumerate(part)
            ]
            try:
                answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
            except AWS_ERRORS:
                left.extend(part)
                continue
            gone = {int(success["Id"]) for success in answer.get("Successful", [])}
            left.extend(one for position, one in enumerate(part) if position not in gone)
        return left

    def make_visible(self, handles: Sequence[str]) -> None:
        """Make letters visible at once, as far as SQS does it: their locks end anyway."""
        self.hide([(handle, 0) for handle in handles])

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages, by receipt handle, for seconds from now; how many it failed for."""
        done = 0
        for part in _tens(waits):
            entries: list[Any] = [
                {"Id": str(position), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for position, (handle, seconds) in enumerate(part)
            ]
            try:
                answer = self._client.change_message_visibility_batch(
                    QueueUrl=self._url, Entries=entries
                )
            except AWS_ERRORS:
                continue
            done += len(answer.get("Successful", []))
        return len(waits) - done

    def depth(self) -> Depth:
        found = self._attributes(
            "ApproximateNumberOfMessages",
            "ApproximateNumberOfMessagesNotVisible",
            "ApproximateNumberOfMessagesDelayed",
        )
        return Depth(*(int(value) for value in found.values()))

    def _attributes(self, *names: str) -> dict[str, str]:
        wanted: list[Any] = list(names)
        try:
            answer = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=wanted)
        except AWS_ERRORS as error:
            raise QueueUnavailable(code(error)) from error
        found: dict[Any, str] = dict(answer.get("Attributes", {}))
        return {name: found[name] for name in names if name in found}


def _entry(entry_id: str, envelope: Envelope) -> Any:
    entry: dict[str, Any] = {
        "Id": entry_id,
        "MessageBody": envelope.body,
        "MessageAttributes": {
            name: {
                "DataType": one.data_type,
                **(
                    {"BinaryValue": one.value}
                    if isinstance(one.value, bytes)
                    else {"StringValue": one.value}
                ),
            }
            for name, one in envelope.attributes.items()
        },
    }
    if envelope.trace_header:
        entry["MessageSystemAttributes"] = {
            "AWSTraceHeader": {"DataType": "String", "StringValue": envelope.trace_header}
        }
    if envelope.group is not None:
        entry["MessageGroupId"] = envelope.group
    if envelope.deduplication_id is not None:
        entry["MessageDeduplicationId"] = envelope.deduplication_id
    if envelope.delay is not None:
        entry["DelaySeconds"] = envelope.delay
    return entry


def _md5(body: str) -> str:
    return hashlib.md5(utf8(body), usedforsecurity=False).hexdigest()


def _tens(letters: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(letters), MAX_BATCH):
        yield letters[start : start + MAX_BATCH]
