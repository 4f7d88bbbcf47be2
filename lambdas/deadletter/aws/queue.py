"""SQS queues: letters received under a lock, sent in batches, deleted once confirmed.

And what else is asked of a queue: its state, and its messages as the records of a Lambda event,
for a consumer that polls itself.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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
from deadletter.aws.table import parts
from deadletter.contract import MAIN_DLQ
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import MAX_BYTES, NotALetter, from_api, to_event, utf8
from deadletter.message.queue import (
    MAX_BATCH,
    Depth,
    QueueState,
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
_LIMITS = ("MaximumMessageSize", "MessageRetentionPeriod")
_STATE = (*_DEPTH, "CreatedTimestamp", "MessageRetentionPeriod")
_WHOLE: Any = {"MessageSystemAttributeNames": ["All"], "MessageAttributeNames": ["All"]}
_IN_FLIGHT_CODES = frozenset({"OverLimit", "AWS.SimpleQueueService.OverLimit"})

MOST_DELETES = 4
"""Tries of a delete that SQS reports as failed: a letter that stays is received again by a later
run, and its intent stands until then."""


@dataclass(eq=False, repr=False)
class SqsQueue:
    """One queue, by its URL.

    `clock` returns epoch seconds. `home` is the queue's id in the letters that it returns.
    `note_refusal` is told what SQS refused where a method goes on without an error.
    `sending` is the client that sends; it must try each call only once, because a second
    try after a lost answer makes a copy that is never counted. Without it, no error of a
    connection shows that nothing was sent: an earlier try may have been.
    """

    client: SQSClient
    url: str
    clock: Callable[[], float]
    home: str = MAIN_DLQ
    note_refusal: Callable[[str], None] = ignore
    sending: SQSClient | None = None

    def __post_init__(self) -> None:
        self._traits: QueueTraits | None = None
        self._limits: Mapping[str, str] = {}

    @property
    def traits(self) -> QueueTraits:
        """The queue's type and limits, read once. Raises QueueUnavailable."""
        if self._traits is None:
            attributes = self._limits or self._attributes(*_LIMITS)
            self._traits = QueueTraits(
                fifo=self.url.endswith(".fifo"),
                max_bytes=int(attributes.get("MaximumMessageSize", MAX_BYTES)),
                retention=float(attributes.get("MessageRetentionPeriod", 345_600)),
            )
        return self._traits

    def receive(self, most: int, lock_seconds: int, wait_seconds: int) -> Sequence[ReceivedLetter]:
        """Up to ten letters. A malformed message is left out, and stays until its lock ends."""
        locked_until = self.clock() + min(lock_seconds, _LONGEST_LOCK)
        try:
            answer = self.client.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=min(most, MAX_BATCH),
                VisibilityTimeout=min(lock_seconds, _LONGEST_LOCK),
                WaitTimeSeconds=wait_seconds,
                **_WHOLE,
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
                ReceivedLetter(letter, message["ReceiptHandle"], locked_until, self.home)
            )
        return letters

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        """Send up to ten. SQS confirms an envelope by its id and the MD5 digest of its body."""
        entries = [_entry(str(position), envelope) for position, envelope in enumerate(batch)]
        everything = frozenset(envelope.copy for envelope in batch)
        client = self.sending or self.client
        try:
            answer = client.send_message_batch(QueueUrl=self.url, Entries=entries)
        except AWS_ERRORS as error:
            self.note_refusal(self._refusal(error))
            why = dict.fromkeys(everything, code(error))
            if self.sending is not None and never_left(error):
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
                    envelope.copy, self.url, success["MessageId"]
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
            results = [self._delete(batch) for batch in parts(pending, MAX_BATCH)]
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
            answer = self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
        except AWS_ERRORS as error:
            self.note_refusal(self._refusal(error))
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
        return _hide(self.client, self.url, waits, self.note_refusal)

    def max_receives(self) -> int | None:
        """Receives after which SQS moves a message to the DLQ, or None if it never does.

        Raises QueueUnavailable.
        """
        policy = self._attributes("RedrivePolicy").get("RedrivePolicy")
        return int(json.loads(policy)["maxReceiveCount"]) if policy else None

    def depth(self) -> Depth:
        # A run asks for both: one call answers.
        counts = self._limits = self._attributes(*_DEPTH, *_LIMITS)
        with ours(QueueUnavailable, "sqs", self.url.rpartition("/")[2]):
            return Depth(*(int(member(counts, name)) for name in _DEPTH))

    def _refusal(self, error: AwsError) -> str:
        return _refusal(error, self.url)

    def _attributes(self, *names: str) -> dict[str, str]:
        requested: list[Any] = list(names)
        with ours(QueueUnavailable, "sqs", self.url.rpartition("/")[2]):
            answer = self.client.get_queue_attributes(QueueUrl=self.url, AttributeNames=requested)
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


def _refusal(error: AwsError, url: str) -> str:
    return refusal(error, "sqs", url.rpartition("/")[2])


def _hide(
    client: SQSClient, url: str, waits: Sequence[tuple[str, int]], note: Callable[[str], None]
) -> int:
    changed = 0
    for batch in parts(waits, MAX_BATCH):
        entries: list[Any] = [
            {"Id": str(position), "ReceiptHandle": handle, "VisibilityTimeout": seconds}
            for position, (handle, seconds) in enumerate(batch)
        ]
        try:
            answer = client.change_message_visibility_batch(QueueUrl=url, Entries=entries)
        except AWS_ERRORS as error:
            note(_refusal(error, url))
            continue
        changed += len(answer.get("Successful", []))
    return len(waits) - changed


def queue_state(client: SQSClient, url: str) -> QueueState:
    """The state of the queue at `url`. Raises QueueUnavailable."""
    names: list[Any] = list(_STATE)
    with ours(QueueUnavailable, "sqs", name := url.rpartition("/")[2]):
        answer = client.get_queue_attributes(QueueUrl=url, AttributeNames=names)
        attributes: Any = member(answer, "Attributes")
        texts = [member(attributes, attribute) for attribute in _STATE]
    try:
        visible, in_flight, delayed, created, retention = map(float, texts)
    except ValueError as error:
        raise QueueUnavailable(f"unreadable attributes of {name}") from error
    depth = Depth(int(visible), int(in_flight), int(delayed))
    return QueueState(depth=depth, created=created, retention=retention)


@dataclass(eq=False, repr=False)
class SqsMessages:
    """The messages of one queue as records.

    `receiving` waits longer for an answer than a receive waits for messages.
    """

    client: SQSClient
    receiving: SQSClient
    url: str
    arn: str

    def receive(self, most: int, *, hidden: int, wait: int) -> list[dict[str, Any]]:
        # Only a consumer that polls itself has it.
        from deadletter.processing.poller import SourceUnavailable

        with ours(SourceUnavailable, "sqs", self.url.rpartition("/")[2]):
            answer = self.receiving.receive_message(
                QueueUrl=self.url,
                MaxNumberOfMessages=most,
                VisibilityTimeout=hidden,
                WaitTimeSeconds=wait,
                **_WHOLE,
            )
        return [record_of(message, self.arn) for message in answer.get("Messages", [])]

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        return _hide(self.client, self.url, waits, ignore)

    def delete(self, handles: Sequence[str]) -> list[str]:
        deleted: set[str] = set()
        for batch in parts(handles, MAX_BATCH):
            entries: list[Any] = [
                {"Id": str(position), "ReceiptHandle": handle}
                for position, handle in enumerate(batch)
            ]
            try:
                answer = self.client.delete_message_batch(QueueUrl=self.url, Entries=entries)
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
