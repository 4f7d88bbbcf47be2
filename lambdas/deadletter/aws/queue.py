"""An SQS queue: letters received under a lock, sent in batches, deleted once confirmed."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from deadletter.aws.errors import (
    AWS_ERRORS,
    AwsError,
    code,
    ignore,
    is_throttle,
    member,
    never_left,
    ours,
    refusal,
    surely_refused,
)
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
    check_confirmations,
)

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient

_LONGEST_LOCK = 43_200  # seconds: SQS hides a message for 12 hours at most
_DEPTH = (
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
)
_IN_FLIGHT_CODES = frozenset({"OverLimit", "AWS.SimpleQueueService.OverLimit"})

MOST_DELETES = 4
"""Tries of a delete that SQS reports as failed: a letter that stays is received again by a later
run, and its intent stands until then."""

T = TypeVar("T")


class SqsQueue:
    """One queue, by its URL.

    `clock` returns epoch seconds. `home` is the queue's id in the letters that it returns.
    `note_refusal` is told what SQS refused where a method goes on without an error.
    `sending` is the client that sends; it must try each call only once, because a second
    try after a lost answer makes a copy that is never counted. Without it, no error of a
    connection shows that nothing was sent: an earlier try may have been.
    """

    def __init__(
        self,
        client: SQSClient,
        url: str,
        clock: Callable[[], float],
        home: str = MAIN_DLQ,
        note_refusal: Callable[[str], None] = ignore,
        *,
        sending: SQSClient | None = None,
    ) -> None:
        self._client = client
        self._sending = sending or client
        self._sends_once = sending is not None
        self._url = url
        self._clock = clock
        self._home = home
        self._note_refusal = note_refusal
        self._traits: QueueTraits | None = None

    @property
    def traits(self) -> QueueTraits:
        """The queue's type and limits, read once. Raises QueueUnavailable."""
        if self._traits is None:
            attributes = self._attributes("MaximumMessageSize", "MessageRetentionPeriod")
            self._traits = QueueTraits(
                fifo=self._url.endswith(".fifo"),
                max_bytes=int(attributes.get("MaximumMessageSize", MAX_BYTES)),
                retention=float(attributes.get("MessageRetentionPeriod", 345_600)),
            )
        return self._traits

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> Sequence[ReceivedLetter]:
        """Up to ten letters. A malformed message is left out, and stays until its lock ends."""
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
        except AWS_ERRORS as error:
            if code(error) in _IN_FLIGHT_CODES:
                raise TooManyInFlight(self._refusal(error)) from error
            raise QueueUnavailable(self._refusal(error)) from error
        letters = []
        for message in answer.get("Messages", []):
            try:
                letter = from_api(message)
            except NotALetter:
                continue
            letters.append(
                ReceivedLetter(letter, message["ReceiptHandle"], locked_until, self._home)
            )
        return letters

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        """Send up to ten. SQS confirms an envelope by its id and the MD5 digest of its body."""
        entries = [_entry(str(position), envelope) for position, envelope in enumerate(batch)]
        everything = frozenset(envelope.copy for envelope in batch)
        try:
            answer = self._sending.send_message_batch(QueueUrl=self._url, Entries=entries)
        except AWS_ERRORS as error:
            self._note_refusal(self._refusal(error))
            why = dict.fromkeys(everything, code(error))
            if self._sends_once and never_left(error):
                return SendResult(failed=why)
            if not surely_refused(error):
                return SendResult(unknown=everything)
            return SendResult(failed=why) if is_throttle(error) else SendResult(refused=why)
        confirmed: dict[str, Confirmation] = {}
        refused: dict[str, str] = {}
        failed: dict[str, str] = {}
        for success in answer.get("Successful", []):
            envelope = batch[int(success["Id"])]
            if success["MD5OfMessageBody"] == _md5(envelope.body):
                confirmed[envelope.copy] = Confirmation(
                    envelope.copy, self._url, success["MessageId"]
                )
        for failure in answer.get("Failed", []):
            # SQS answers for each entry: one that it names as failed is not stored.
            why = refused if failure.get("SenderFault") else failed
            why[batch[int(failure["Id"])].copy] = failure["Code"]
        answered = confirmed.keys() | refused.keys() | failed.keys()
        return SendResult(confirmed, refused, failed, everything - answered)

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        """Delete confirmed letters; returns those that may still be in the queue.

        Entries that SQS reports as failed, for no fault of ours, are tried again.
        """
        check_confirmations(letters)
        undeleted: list[ReceivedLetter] = []
        pending = [received for received, _ in letters]
        for _ in range(MOST_DELETES):
            results = [self._delete(batch) for batch in _batches(pending)]
            pending = [received for failed, _ in results for received in failed]
            undeleted += [received for _, refused in results for received in refused]
        return [*undeleted, *pending]

    def _delete(
        self, batch: Sequence[ReceivedLetter]
    ) -> tuple[list[ReceivedLetter], list[ReceivedLetter]]:
        """Delete up to ten; returns those that failed, and those for which a try is useless."""
        entries: list[Any] = [
            {"Id": str(position), "ReceiptHandle": received.handle}
            for position, received in enumerate(batch)
        ]
        try:
            answer = self._client.delete_message_batch(QueueUrl=self._url, Entries=entries)
        except AWS_ERRORS as error:
            self._note_refusal(self._refusal(error))
            return [], list(batch)
        deleted = {int(success["Id"]) for success in answer.get("Successful", [])}
        refused = {
            int(failure["Id"]) for failure in answer.get("Failed", []) if failure["SenderFault"]
        }
        answered = deleted | refused
        return (
            [received for position, received in enumerate(batch) if position not in answered],
            [batch[position] for position in sorted(refused)],
        )

    def make_visible(self, handles: Sequence[str]) -> None:
        """Make letters visible at once. Failures are ignored, because locks end by themselves."""
        self.hide([(handle, 0) for handle in handles])

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        """Hide messages, by receipt handle, for seconds from now; returns the failures' number."""
        changed = 0
        for batch in _batches(waits):
            entries: list[Any] = [
                {"Id": str(position), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
                for position, (handle, seconds) in enumerate(batch)
            ]
            try:
                answer = self._client.change_message_visibility_batch(
                    QueueUrl=self._url, Entries=entries
                )
            except AWS_ERRORS as error:
                self._note_refusal(self._refusal(error))
                continue
            changed += len(answer.get("Successful", []))
        return len(waits) - changed

    def max_receives(self) -> int | None:
        """Receives after which SQS moves a message to the DLQ, or None if it never does.

        Raises QueueUnavailable.
        """
        policy = self._attributes("RedrivePolicy").get("RedrivePolicy")
        return int(json.loads(policy)["maxReceiveCount"]) if policy else None

    def depth(self) -> Depth:
        counts = self._attributes(*_DEPTH)
        with ours(QueueUnavailable, "sqs", self._url.rpartition("/")[2]):
            return Depth(*(int(member(counts, name)) for name in _DEPTH))

    def _refusal(self, error: AwsError) -> str:
        return refusal(error, "sqs", self._url.rpartition("/")[2])

    def _attributes(self, *names: str) -> dict[str, str]:
        requested: list[Any] = list(names)
        with ours(QueueUnavailable, "sqs", self._url.rpartition("/")[2]):
            answer = self._client.get_queue_attributes(QueueUrl=self._url, AttributeNames=requested)
        values: dict[Any, str] = dict(answer.get("Attributes", {}))
        return {name: values[name] for name in names if name in values}


def _value_name(value: str | bytes) -> str:
    return "BinaryValue" if isinstance(value, bytes) else "StringValue"


def _entry(entry_id: str, envelope: Envelope) -> Any:
    entry: dict[str, Any] = {
        "Id": entry_id,
        "MessageBody": envelope.body,
        "MessageAttributes": {
            name: {
                "DataType": attribute.data_type,
                _value_name(attribute.value): attribute.value,
            }
            for name, attribute in envelope.attributes.items()
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


def _batches(items: Sequence[T]) -> Iterator[Sequence[T]]:
    for start in range(0, len(items), MAX_BATCH):
        yield items[start : start + MAX_BATCH]
