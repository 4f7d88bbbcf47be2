"""SQS as its documentation describes it at its least forgiving, in one process's memory."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from hashlib import md5, sha256
from itertools import islice
from random import Random
from typing import Any

from deadletter.testing.fakes.errors import Exceptions, answered, malformed
from deadletter.testing.fakes.sqs_queue import (
    IN_FLIGHT,
    LONGEST_DELAY,
    LONGEST_VISIBILITY,
    LONGEST_WAIT,
    NOTHING,
    READABLE,
    VISIBLE,
    FakeQueue,
    LiveMessage,
    Message,
    QueueMeasure,
)
from deadletter.testing.fakes.sqs_requests import (
    LARGEST_BATCH,
    LARGEST_MESSAGE,
    RequestRefused,
    accept_attributes,
    accept_body,
    attributes_md5,
    check_batch,
    check_mapping,
    check_range,
    check_token,
    check_whole,
    invalid,
    invalid_value,
    missing,
    prefixed,
    unknown_attribute,
)

_DEDUPLICATION_SECONDS = 300.0

_ABSENT: Any = object()

_QUEUE_NAME = re.compile(r"[A-Za-z0-9_-]+(\.fifo)?").fullmatch

_SEND_KEYS = frozenset(
    (
        *("Id", "MessageBody", "DelaySeconds", "MessageAttributes", "MessageSystemAttributes"),
        *("MessageDeduplicationId", "MessageGroupId"),
    )
)
_DELETE_KEYS = frozenset(("Id", "ReceiptHandle"))
_VISIBILITY_KEYS = frozenset(("Id", "ReceiptHandle", "VisibilityTimeout"))
_SYSTEM_NAMES = frozenset(
    (
        *("All", "SenderId", "SentTimestamp", "AWSTraceHeader", "DeadLetterQueueSourceArn"),
        *("ApproximateReceiveCount", "ApproximateFirstReceiveTimestamp"),
        *("MessageGroupId", "MessageDeduplicationId", "SequenceNumber"),
    )
)


class MemorySqs:
    """A `boto3.client("sqs")` over queues that live in this object, standard and FIFO.

    `clock` returns epoch seconds and `ids` a new message id at each call. Nothing sleeps: a long
    poll that finds nothing calls `on_wait(seconds)`, which may move the clock, and looks once more.
    With `random`, standard messages (and FIFO groups) come in any order, and a short poll may
    return less than there is, even nothing; without it, receives are first in, first out.
    A delete with the receipt handle of an earlier receive succeeds and leaves the message; AWS
    promises neither that nor the contrary, so `stale_deletes`, asked each time, may say otherwise.

    One thread only. Two calls with the same history answer the same.
    """

    exceptions = Exceptions(
        "BatchEntryIdsNotDistinct BatchRequestTooLong EmptyBatchRequest InvalidAttributeName "
        "InvalidAttributeValue InvalidBatchEntryId InvalidMessageContents MessageNotInflight "
        "OverLimit QueueDoesNotExist QueueNameExists ReceiptHandleIsInvalid RequestThrottled "
        "TooManyEntriesInBatchRequest UnsupportedOperation"
    )

    def __init__(
        self,
        clock: Callable[[], float],
        ids: Callable[[], str],
        *,
        random: Random | None = None,
        on_wait: Callable[[float], object] | None = None,
        stale_deletes: Callable[[], bool] | None = None,
        in_flight_limit: int = 120_000,
        sender_id: str = "AROAEXAMPLEEXAMPLE:session",
        region: str = "us-east-1",
        account_id: str = "123456789012",
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._random = random
        self._on_wait = on_wait
        self._stale_deletes = stale_deletes
        self._in_flight_limit = in_flight_limit
        self._sender = sender_id
        self._url = f"https://sqs.{region}.amazonaws.com/{account_id}/"
        self._arn = f"arn:aws:sqs:{region}:{account_id}:"
        self._queues: dict[str, FakeQueue] = {}

    # What a test or a simulator does to the world, and boto3 doesn't offer.

    def as_sender(self, sender_id: str) -> MemorySqs:
        """The same queues, seen by another principal: its messages carry its `SenderId`."""
        twin = copy(self)
        twin._sender = sender_id
        return twin

    def snapshot(self) -> list[LiveMessage]:
        """Every message that exists now, queue by queue, oldest arrival first."""
        now = self._clock()
        live = []
        for queue in self._queues.values():
            queue.settle(now)
            for m in queue.messages.values():
                live.append(
                    LiveMessage(
                        queue.name,
                        m.id,
                        m.body,
                        m.attributes,
                        m.state,
                        m.receive_count,
                        m.sent_at,
                        m.group,
                        m.sender,
                        m.sequence,
                    )
                )
        return live

    def measures(self) -> dict[str, QueueMeasure]:
        """What CloudWatch would be told of each queue now, by the queue's name."""
        now = self._clock()
        return {name: queue.measure(now) for name, queue in self._queues.items()}

    def expired(self) -> list[tuple[str, str]]:
        """The messages that retention has dropped so far, each as (queue, message id)."""
        now = self._clock()
        for queue in self._queues.values():
            queue.settle(now)
        return [(queue.name, id_) for queue in self._queues.values() for id_ in queue.expired]

    def resurrect(self, message_id: str) -> None:
        """SQS may deliver a standard message once more after it was deleted. KeyError if unknown.

        A queue remembers its last 1,000 deletions.
        """
        now = self._clock()
        for queue in self._queues.values():
            if not queue.fifo and message_id in queue.deleted:
                queue.add(queue.deleted.pop(message_id), now, now)
                return
        raise KeyError(message_id)

    def redeliver(self, message_id: str) -> None:
        """Deliver a standard message in flight a second time. KeyError if it isn't in flight."""
        for queue in self._queues.values():
            message = queue.messages.get(message_id)
            if message is not None and not queue.fifo and message.state is IN_FLIGHT:
                message.visible_at = self._clock()
                queue.show(message)
                return
        raise KeyError(message_id)

    # Queues.

    def create_queue(
        self,
        *,
        QueueName: str,
        Attributes: Mapping[str, str] = NOTHING,
        tags: Mapping[str, str] = NOTHING,
    ) -> dict[str, Any]:
        now = self._clock()
        try:
            if not _QUEUE_NAME(QueueName) or len(QueueName) > 80:
                raise invalid(
                    "A queue name has 1 to 80 letters, digits, hyphens and underscores, "
                    "and ends in .fifo if the queue is FIFO."
                )
            is_fifo = Attributes.get("FifoQueue") == "true"
            if is_fifo is not QueueName.endswith(".fifo"):
                raise invalid("The name of a FIFO queue, and of no other, ends in .fifo.")
            queue = self._queues.get(QueueName)
            if queue is None:
                queue = FakeQueue(QueueName, self._arn + QueueName, now)
                queue.configure(Attributes, self._dead_letter_queue)
                self._queues[QueueName] = queue
            for name, value in Attributes.items():
                if queue.attributes.get(name, "") != value:
                    raise RequestRefused(
                        "QueueAlreadyExists",
                        "A queue already exists with the same name and a different value "
                        f"for attribute {name}",
                        "QueueNameExists",
                    )
        except RequestRefused as refusal:
            raise refusal.raised_by("CreateQueue") from None
        return {"QueueUrl": self._url + QueueName, "ResponseMetadata": answered()}

    def delete_queue(self, *, QueueUrl: str) -> dict[str, Any]:
        del self._queues[self._queue(QueueUrl, "DeleteQueue").name]
        return {"ResponseMetadata": answered()}

    def get_queue_url(self, *, QueueName: str) -> dict[str, Any]:
        self._queue(self._url + QueueName, "GetQueueUrl")
        return {"QueueUrl": self._url + QueueName, "ResponseMetadata": answered()}

    def get_queue_attributes(
        self, *, QueueUrl: str, AttributeNames: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Without names nothing comes back: the answer has no `Attributes`."""
        queue = self._queue(QueueUrl, "GetQueueAttributes")
        wanted = frozenset(AttributeNames)
        if not wanted <= READABLE:
            raise unknown_attribute(wanted - READABLE).raised_by("GetQueueAttributes")
        queue.settle(self._clock())
        values = {
            **queue.attributes,
            "ApproximateNumberOfMessages": str(len(queue.ready)),
            "ApproximateNumberOfMessagesNotVisible": str(queue.in_flight),
            "ApproximateNumberOfMessagesDelayed": str(queue.delayed),
            "QueueArn": queue.arn,
            "CreatedTimestamp": str(int(queue.created)),
            "LastModifiedTimestamp": str(int(queue.modified)),
        }
        if "All" not in wanted:
            values = {name: value for name, value in values.items() if name in wanted}
        answer = {"ResponseMetadata": answered()}
        return {"Attributes": values, **answer} if values else answer

    def set_queue_attributes(
        self, *, QueueUrl: str, Attributes: Mapping[str, str]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "SetQueueAttributes")
        try:
            if queue.fifo and Attributes.get("FifoQueue", "true") != "true":
                raise RequestRefused(
                    "InvalidAttributeValue", "A queue keeps the type it was made with."
                )
            queue.configure(Attributes, self._dead_letter_queue)
        except RequestRefused as refusal:
            raise refusal.raised_by("SetQueueAttributes") from None
        queue.modified = self._clock()
        return {"ResponseMetadata": answered()}

    def list_dead_letter_source_queues(self, *, QueueUrl: str) -> dict[str, Any]:
        target = self._queue(QueueUrl, "ListDeadLetterSourceQueues").arn
        urls = [self._url + q.name for q in self._queues.values() if q.dead_letter_arn == target]
        return {"queueUrls": urls, "ResponseMetadata": answered()}

    def _queue(self, url: str, operation: str) -> FakeQueue:
        if type(url) is not str:
            raise malformed("QueueUrl is a string")
        queue = self._queues.get(url.rpartition("/")[2])
        if queue is None or self._url + queue.name != url:
            raise prefixed(
                "NonExistentQueue", "The specified queue does not exist.", "QueueDoesNotExist"
            ).raised_by(operation)
        return queue

    def _dead_letter_queue(self, arn: str) -> FakeQueue | None:
        return self._queues.get(arn.removeprefix(self._arn))

    # Sending.

    def send_message(
        self,
        *,
        QueueUrl: str,
        MessageBody: str,
        DelaySeconds: int = _ABSENT,
        MessageAttributes: Mapping[str, Mapping[str, Any]] = NOTHING,
        MessageSystemAttributes: Mapping[str, Mapping[str, Any]] = NOTHING,
        MessageDeduplicationId: str = "",
        MessageGroupId: str = "",
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "SendMessage")
        try:
            message, size = self._compose(
                MessageBody,
                MessageAttributes,
                MessageSystemAttributes,
                MessageDeduplicationId,
                MessageGroupId,
            )
            if queue.fifo:
                if not MessageGroupId:
                    raise missing("MessageGroupId")
                _check_deduplication(queue, MessageDeduplicationId)
            answer = self._accept(queue, message, size, DelaySeconds)
        except RequestRefused as refusal:
            raise refusal.raised_by("SendMessage") from None
        answer["ResponseMetadata"] = answered()
        return answer

    def send_message_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "SendMessageBatch")
        sent: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        try:
            check_batch(Entries, _SEND_KEYS, ("MessageBody",))
            total = 0
            composed: list[tuple[Mapping[str, Any], Message, int]] = []
            for entry in Entries:
                # These two turn down the whole batch, with another code than SendMessage's.
                if queue.fifo:
                    if not entry.get("MessageGroupId"):
                        raise invalid(missing("MessageGroupId").message)
                    _check_deduplication(queue, entry.get("MessageDeduplicationId", ""))
                try:
                    message, size = self._compose(
                        entry["MessageBody"],
                        entry.get("MessageAttributes", NOTHING),
                        entry.get("MessageSystemAttributes", NOTHING),
                        entry.get("MessageDeduplicationId", ""),
                        entry.get("MessageGroupId", ""),
                    )
                except RequestRefused as refusal:
                    failed.append(refusal.entry(entry["Id"]))
                    total += len(entry["MessageBody"])
                else:
                    composed.append((entry, message, size))
                    total += size
            if total > LARGEST_MESSAGE:
                raise prefixed(
                    "BatchRequestTooLong",
                    f"Batch requests cannot be longer than {LARGEST_MESSAGE} bytes. "
                    f"You have sent {total} bytes.",
                )
        except RequestRefused as refusal:
            raise refusal.raised_by("SendMessageBatch") from None
        for entry, message, size in composed:
            try:
                answer = self._accept(queue, message, size, entry.get("DelaySeconds", _ABSENT))
            except RequestRefused as refusal:
                failed.append(refusal.entry(entry["Id"]))
            else:
                answer["Id"] = entry["Id"]
                sent.append(answer)
        return _batch_answer(sent, failed)

    def _compose(
        self,
        body: str,
        attributes: Mapping[str, Mapping[str, Any]],
        system: Mapping[str, Mapping[str, Any]],
        deduplication_id: str,
        group: str,
    ) -> tuple[Message, int]:
        """A message that is well-formed by itself, and its size in bytes."""
        check_token(deduplication_id, "MessageDeduplicationId")
        check_token(group, "MessageGroupId")
        octets = accept_body(body)
        size = len(octets)
        digest = md5(octets, usedforsecurity=False).hexdigest()
        message = Message(body, digest, self._sender, self._clock())
        message.group = group
        message.deduplication_id = deduplication_id
        if attributes is not NOTHING:
            message.attributes, message.attributes_md5, extra = accept_attributes(attributes)
            size += extra
        if system is not NOTHING:
            check_mapping(system, "MessageSystemAttributes")
            for name, value in system.items():
                if name != "AWSTraceHeader" or value.get("DataType") != "String":
                    raise invalid(
                        "AWSTraceHeader, a String, is the only system attribute one can send."
                    )
            accepted, message.system_md5, _ = accept_attributes(system)
            if accepted:
                message.trace = accepted["AWSTraceHeader"]["StringValue"]
        return message, size

    def _accept(self, queue: FakeQueue, message: Message, size: int, delay: int) -> dict[str, Any]:
        """Put a well-formed message into the queue, unless the queue itself objects."""
        if size > queue.largest:
            raise invalid(
                "One or more parameters are invalid. "
                f"Reason: Message must be shorter than {queue.largest} bytes."
            )
        if delay is _ABSENT:
            delay = queue.delay
        else:
            check_whole(delay, "DelaySeconds")
            if not 0 <= delay <= LONGEST_DELAY:
                raise invalid_value(delay, "DelaySeconds", "DelaySeconds must be >= 0 and <= 900.")
            if queue.fifo:
                if delay:
                    raise invalid_value(
                        delay,
                        "DelaySeconds",
                        "The request include parameter that is not valid for this queue type.",
                    )
                delay = queue.delay
        if message.deduplication_id and not queue.fifo:
            raise invalid_value(
                message.deduplication_id,
                "MessageDeduplicationId",
                "The request include parameter that is not valid for this queue type.",
            )
        answer: dict[str, Any] = {"MD5OfMessageBody": message.body_md5}
        if message.attributes_md5:
            answer["MD5OfMessageAttributes"] = message.attributes_md5
        if message.system_md5:
            answer["MD5OfMessageSystemAttributes"] = message.system_md5
        now = message.sent_at
        if queue.fifo:
            twin = self._first_of(queue, message, now)
            if twin is not None:
                _, answer["MessageId"], answer["SequenceNumber"] = twin
                return answer
        message.id = answer["MessageId"] = self._ids()
        if queue.fifo:
            queue.sequence += 1
            message.sequence = answer["SequenceNumber"] = f"{queue.sequence:020d}"
            queue.sent_tokens[_token(queue, message)] = (now, message.id, message.sequence)
        queue.settle(now)
        queue.add(message, now + delay, now)
        return answer

    def _first_of(
        self, queue: FakeQueue, message: Message, now: float
    ) -> tuple[float, str, str] | None:
        """The message sent with the same token in the last five minutes, living or deleted."""
        if not message.deduplication_id:
            message.deduplication_id = sha256(message.body.encode()).hexdigest()
        tokens = queue.sent_tokens
        while tokens and next(iter(tokens.values()))[0] + _DEDUPLICATION_SECONDS <= now:
            tokens.popitem(last=False)
        return tokens.get(_token(queue, message))

    # Receiving.

    def receive_message(
        self,
        *,
        QueueUrl: str,
        AttributeNames: Sequence[str] = (),
        MessageSystemAttributeNames: Sequence[str] = (),
        MessageAttributeNames: Sequence[str] = (),
        MaxNumberOfMessages: int = 1,
        VisibilityTimeout: int = _ABSENT,
        WaitTimeSeconds: int = _ABSENT,
    ) -> dict[str, Any]:
        """Without anything to return, the answer has no `Messages`."""
        queue = self._queue(QueueUrl, "ReceiveMessage")
        names = frozenset((*AttributeNames, *MessageSystemAttributeNames))
        wait = queue.wait if WaitTimeSeconds is _ABSENT else WaitTimeSeconds
        visibility = queue.visibility if VisibilityTimeout is _ABSENT else VisibilityTimeout
        try:
            if not names <= _SYSTEM_NAMES:
                raise unknown_attribute(names - _SYSTEM_NAMES)
            check_range(MaxNumberOfMessages, "MaxNumberOfMessages", 1, LARGEST_BATCH)
            check_range(wait, "WaitTimeSeconds", 0, LONGEST_WAIT)
            check_range(visibility, "VisibilityTimeout", 0, LONGEST_VISIBILITY)
            taken = self._take(queue, MaxNumberOfMessages, visibility, short=not wait)
            if not taken and wait and self._on_wait is not None:
                self._on_wait(wait)
                # The queue may have been deleted during the wait.
                queue = self._queue(QueueUrl, "ReceiveMessage")
                taken = self._take(queue, MaxNumberOfMessages, visibility, short=False)
        except RequestRefused as refusal:
            raise refusal.raised_by("ReceiveMessage") from None
        answer: dict[str, Any] = {"ResponseMetadata": answered()}
        if taken:
            user_names = tuple(MessageAttributeNames)
            answer["Messages"] = [_shown(queue, m, names, user_names) for m in taken]
        return answer

    def _take(self, queue: FakeQueue, limit: int, visibility: int, *, short: bool) -> list[Message]:
        now = self._clock()
        queue.settle(now)
        room = self._in_flight_limit - queue.in_flight
        if room <= 0:
            if queue.fifo:
                return []
            raise RequestRefused(
                "OverLimit", "Too many messages are in flight in this queue.", status=403
            )
        if short and self._random is not None:
            limit = self._random.randint(0, limit)
        limit = min(limit, room)
        if queue.fifo:
            return self._take_in_order(queue, limit, visibility, now)
        taken: list[Message] = []
        moved = True
        # What the redrive policy takes away makes room for others.
        while moved and len(taken) < limit:
            moved = False
            wanted = limit - len(taken)
            if self._random is None:
                candidates = list(islice(queue.ready.values(), wanted))
            else:
                ready = list(queue.ready.values())
                candidates = self._random.sample(ready, min(wanted, len(ready)))
            for message in candidates:
                # Without visibility it is still there, but one batch holds it once.
                if message in taken:
                    continue
                if self._bury(queue, message, now):
                    moved = True
                else:
                    _receive(queue, message, visibility, now)
                    taken.append(message)
        return taken

    def _take_in_order(
        self, queue: FakeQueue, limit: int, visibility: int, now: float
    ) -> list[Message]:
        taken: list[Message] = []
        groups = list(queue.groups.values())
        if self._random is not None:
            self._random.shuffle(groups)
        for group in groups:
            if len(taken) == limit:
                break
            # Ten are received at most before the group is locked, and they are its oldest.
            if any(m.state is IN_FLIGHT for m in islice(group.values(), LARGEST_BATCH)):
                continue
            for message in list(group.values()):
                if len(taken) == limit or message.state is not VISIBLE:
                    break
                if not self._bury(queue, message, now):
                    taken.append(message)
                    _receive(queue, message, visibility, now)
        return taken

    def _bury(self, queue: FakeQueue, message: Message, now: float) -> bool:
        """Move a message to the dead-letter queue instead of showing it once too often."""
        if not queue.dead_letter_arn or message.receives_here < queue.max_receive_count:
            return False
        target = self._dead_letter_queue(queue.dead_letter_arn)
        if target is None:
            return False
        queue.drop(message)
        message.receives_here = 0
        message.arrived_at = now
        message.source_arn = queue.arn
        if target.fifo:
            message.sent_at = now
            message.deduplication_id = message.id
            target.sequence += 1
            message.sequence = f"{target.sequence:020d}"
        target.add(message, now, now)
        return True

    # What a receipt handle is good for.

    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "DeleteMessage")
        try:
            self._delete(queue, ReceiptHandle)
        except RequestRefused as refusal:
            raise refusal.raised_by("DeleteMessage") from None
        return {"ResponseMetadata": answered()}

    def delete_message_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "DeleteMessageBatch")
        try:
            check_batch(Entries, _DELETE_KEYS, ("ReceiptHandle",))
        except RequestRefused as refusal:
            raise refusal.raised_by("DeleteMessageBatch") from None
        done: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for entry in Entries:
            try:
                self._delete(queue, entry["ReceiptHandle"])
            except RequestRefused as refusal:
                failed.append(refusal.entry(entry["Id"]))
            else:
                done.append({"Id": entry["Id"]})
        return _batch_answer(done, failed)

    def change_message_visibility(
        self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "ChangeMessageVisibility")
        try:
            self._change_visibility(queue, ReceiptHandle, VisibilityTimeout)
        except RequestRefused as refusal:
            raise refusal.raised_by("ChangeMessageVisibility") from None
        return {"ResponseMetadata": answered()}

    def change_message_visibility_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl, "ChangeMessageVisibilityBatch")
        try:
            check_batch(Entries, _VISIBILITY_KEYS, ("ReceiptHandle",))
        except RequestRefused as refusal:
            raise refusal.raised_by("ChangeMessageVisibilityBatch") from None
        done: list[dict[str, Any]] = []
        failed: list[dict[str, Any]] = []
        for entry in Entries:
            try:
                self._change_visibility(
                    queue, entry["ReceiptHandle"], entry.get("VisibilityTimeout", _ABSENT)
                )
            except RequestRefused as refusal:
                failed.append(refusal.entry(entry["Id"]))
            else:
                done.append({"Id": entry["Id"]})
        return _batch_answer(done, failed)

    def _held(self, queue: FakeQueue, handle: str) -> tuple[Message | None, bool]:
        """The message of a receipt handle, if it still exists; whether the handle is its last."""
        if type(handle) is not str:
            raise malformed("ReceiptHandle is a string")
        count, _, rest = handle.partition(":")
        name, _, message_id = rest.partition(":")
        if not count.isdigit() or name != queue.name:
            raise RequestRefused("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
        now = self._clock()
        queue.settle(now)
        message = queue.messages.get(message_id)
        if message is None:
            return None, False
        latest = message.receive_count == int(count)
        has_expired = now > message.received_at + LONGEST_VISIBILITY
        if queue.fifo:
            has_expired = not latest or message.state is not IN_FLIGHT
        if has_expired:
            raise invalid_value(handle, "ReceiptHandle", "The receipt handle has expired.")
        return message, latest

    def _delete(self, queue: FakeQueue, handle: str) -> None:
        message, latest = self._held(queue, handle)
        if message is None:
            return
        if latest or (self._stale_deletes is not None and self._stale_deletes()):
            queue.drop(message)
            queue.remember(message)

    def _change_visibility(self, queue: FakeQueue, handle: str, timeout: int) -> None:
        if timeout is _ABSENT:
            raise missing("VisibilityTimeout")
        check_range(timeout, "VisibilityTimeout", 0, LONGEST_VISIBILITY)
        message, latest = self._held(queue, handle)
        if message is None or not latest:
            raise invalid_value(
                handle,
                "ReceiptHandle",
                "Message does not exist or is not available for visibility timeout change.",
            )
        until = self._clock() + timeout
        if until > message.received_at + LONGEST_VISIBILITY:
            raise invalid_value(
                timeout,
                "VisibilityTimeout",
                "Total VisibilityTimeout for the message is beyond the limit [43200 seconds]",
            )
        message.visible_at = until
        if timeout:
            # On a standard queue this also takes back a message whose timeout has just ended.
            queue.hide(message, IN_FLIGHT)
        else:
            queue.show(message)


def _receive(queue: FakeQueue, message: Message, visibility: int, now: float) -> None:
    message.receive_count += 1
    message.receives_here += 1
    message.first_received_at = message.first_received_at or now
    message.received_at = now
    message.visible_at = now + visibility
    if visibility:
        queue.hide(message, IN_FLIGHT)


def _shown(
    queue: FakeQueue, message: Message, names: frozenset[str], user_names: tuple[str, ...]
) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": f"{message.receive_count}:{queue.name}:{message.id}",
        "MD5OfBody": message.body_md5,
        "Body": message.body,
    }
    if names:
        system = message.system()
        if "All" not in names:
            system = {name: value for name, value in system.items() if name in names}
        if system:
            shown["Attributes"] = system
    if user_names and message.attributes:
        if "All" in user_names or ".*" in user_names:
            shown["MessageAttributes"] = {n: dict(v) for n, v in message.attributes.items()}
            shown["MD5OfMessageAttributes"] = message.attributes_md5
        else:
            some = {n: dict(v) for n, v in message.attributes.items() if _asked(n, user_names)}
            if some:
                shown["MessageAttributes"] = some
                shown["MD5OfMessageAttributes"] = attributes_md5(some)
    return shown


def _asked(name: str, wanted: tuple[str, ...]) -> bool:
    return any(
        name.startswith(want[:-2]) if want.endswith(".*") else name == want for want in wanted
    )


def _token(queue: FakeQueue, message: Message) -> str:
    if queue.attributes["DeduplicationScope"] == "messageGroup":
        return f"{message.group} {message.deduplication_id}"
    return message.deduplication_id


def _batch_answer(done: list[dict[str, Any]], failed: list[dict[str, Any]]) -> dict[str, Any]:
    answer: dict[str, Any] = {"ResponseMetadata": answered()}
    if done:
        answer["Successful"] = done
    if failed:
        answer["Failed"] = failed
    return answer


def _check_deduplication(queue: FakeQueue, token: str) -> None:
    if not token and queue.attributes["ContentBasedDeduplication"] != "true":
        raise invalid(
            "The queue should either have ContentBasedDeduplication enabled or "
            "MessageDeduplicationId provided explicitly"
        )
