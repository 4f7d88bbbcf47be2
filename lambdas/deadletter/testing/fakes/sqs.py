"""SQS as its documentation describes it at its least forgiving, in one process's memory."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy
from hashlib import md5
from itertools import islice
from random import Random
from typing import Any

from deadletter.testing.fakes.errors import Declined, Exceptions, malformed, operation
from deadletter.testing.fakes.sqs_queue import (
    IN_FLIGHT,
    LONGEST_DELAY,
    LONGEST_VISIBILITY,
    LONGEST_WAIT,
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
    accept_attributes,
    accept_body,
    check_batch,
    check_range,
    check_token,
    invalid,
    invalid_value,
    missing,
    prefixed,
    unknown_attribute,
)

_NOTHING: Mapping[str, Any] = {}
_ABSENT: Any = object()
# Seconds.
_DEDUPLICATION_SECONDS = 300.0

_SEND_KEYS = frozenset(
    (
        *("Id", "MessageBody", "DelaySeconds", "MessageAttributes", "MessageSystemAttributes"),
        *("MessageDeduplicationId", "MessageGroupId"),
    )
)
_HANDLE_KEYS = frozenset(("Id", "ReceiptHandle"))
_OF_OTHERS = "The request include parameter that is not valid for this queue type."


class MemorySqs:
    """A `boto3.client("sqs")` over queues that live in this object, standard and FIFO.

    `clock` returns epoch seconds and `ids` a new message id at each call. Nothing sleeps: a long
    poll that finds nothing calls `on_wait(seconds)`, which may move the clock, and looks once more.
    With `random`, standard messages (and FIFO groups) come in any order, and a short poll may
    return less than there is, even nothing; without it, receives are first in, first out.
    A delete with the receipt handle of an earlier receive succeeds and leaves the message; AWS
    promises neither that nor the contrary. A receive shows all attributes or none, and a FIFO queue
    knows repeated sends by their MessageDeduplicationId alone.

    One thread only. Two calls with the same history answer the same.
    """

    exceptions = Exceptions()

    def __init__(
        self,
        clock: Callable[[], float],
        ids: Callable[[], str],
        *,
        random: Random | None = None,
        on_wait: Callable[[float], object] | None = None,
        sender_id: str = "AROAEXAMPLEEXAMPLE:session",
        region: str = "us-east-1",
        account_id: str = "123456789012",
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._random = random
        self._on_wait = on_wait
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
            live += [message.live(queue.name) for message in queue.messages.values()]
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

    @operation
    def create_queue(
        self, *, QueueName: str, Attributes: Mapping[str, str] = _NOTHING
    ) -> dict[str, Any]:
        wanted = dict(Attributes)
        if (wanted.pop("FifoQueue", "false") == "true") is not QueueName.endswith(".fifo"):
            raise invalid("The name of a FIFO queue, and of no other, ends in .fifo.")
        queue = self._queues.get(QueueName)
        if queue is None:
            queue = FakeQueue(QueueName, self._arn + QueueName, self._clock())
            queue.configure(wanted, self._dead_letter_queue)
            self._queues[QueueName] = queue
        elif not queue.attributes.items() >= wanted.items():
            raise Declined("QueueAlreadyExists", "A queue of this name has other attributes")
        return {"QueueUrl": self._url + QueueName}

    @operation
    def delete_queue(self, *, QueueUrl: str) -> dict[str, Any]:
        del self._queues[self._queue(QueueUrl).name]
        return {}

    @operation
    def get_queue_url(self, *, QueueName: str) -> dict[str, Any]:
        self._queue(self._url + QueueName)
        return {"QueueUrl": self._url + QueueName}

    @operation
    def get_queue_attributes(
        self, *, QueueUrl: str, AttributeNames: Sequence[str] = ()
    ) -> dict[str, Any]:
        """Without names nothing comes back: the answer has no `Attributes`."""
        queue = self._queue(QueueUrl)
        wanted = frozenset(AttributeNames)
        if not wanted <= READABLE:
            raise unknown_attribute(wanted - READABLE)
        queue.settle(self._clock())
        values = {
            **queue.attributes,
            "ApproximateNumberOfMessages": str(len(queue.ready)),
            "ApproximateNumberOfMessagesNotVisible": str(queue.in_flight),
            "ApproximateNumberOfMessagesDelayed": str(queue.delayed),
            "QueueArn": queue.arn,
            "CreatedTimestamp": str(int(queue.created)),
        }
        if "All" not in wanted:
            values = {name: value for name, value in values.items() if name in wanted}
        return {"Attributes": values} if values else {}

    @operation
    def set_queue_attributes(
        self, *, QueueUrl: str, Attributes: Mapping[str, str]
    ) -> dict[str, Any]:
        self._queue(QueueUrl).configure(Attributes, self._dead_letter_queue)
        return {}

    def _queue(self, url: str) -> FakeQueue:
        if type(url) is not str:
            raise malformed("QueueUrl is a string")
        queue = self._queues.get(url.rpartition("/")[2])
        if queue is None or self._url + queue.name != url:
            raise prefixed("NonExistentQueue", "The specified queue does not exist.")
        return queue

    def _dead_letter_queue(self, arn: str) -> FakeQueue | None:
        return self._queues.get(arn.removeprefix(self._arn))

    # Sending.

    @operation
    def send_message(self, *, QueueUrl: str, **message: Any) -> dict[str, Any]:
        if not message.keys() <= _SEND_KEYS:
            raise malformed(f"a message has no member but {', '.join(_SEND_KEYS)}")
        queue = self._queue(QueueUrl)
        composed, size = self._compose(message)
        if queue.fifo:
            if not composed.group:
                raise missing("MessageGroupId")
            _check_deduplication(message)
        return self._accept(queue, composed, size, message.get("DelaySeconds", _ABSENT))

    @operation
    def send_message_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl)
        check_batch(Entries, _SEND_KEYS, "MessageBody")
        if queue.fifo:
            # These two turn down the whole batch, with another code than SendMessage's.
            for entry in Entries:
                if not entry.get("MessageGroupId"):
                    raise invalid(missing("MessageGroupId").message)
                _check_deduplication(entry)
        composed = {entry["Id"]: self._composed(entry) for entry in Entries}
        total = sum(size for _, size in composed.values())
        if total > LARGEST_MESSAGE:
            raise prefixed(
                "BatchRequestTooLong",
                f"Batch requests cannot be longer than {LARGEST_MESSAGE} bytes. "
                f"You have sent {total} bytes.",
            )

        def send(entry: Mapping[str, Any]) -> dict[str, Any]:
            message, size = composed[entry["Id"]]
            if isinstance(message, Declined):
                raise message
            return self._accept(queue, message, size, entry.get("DelaySeconds", _ABSENT))

        return _each(Entries, send)

    def _composed(self, entry: Mapping[str, Any]) -> tuple[Message | Declined, int]:
        """The message of an entry, or why there is none; its size in bytes."""
        try:
            return self._compose(entry)
        except Declined as refused:
            return refused, len(entry["MessageBody"])

    def _compose(self, entry: Mapping[str, Any]) -> tuple[Message, int]:
        """A message that is well-formed by itself, and its size in bytes."""
        token, group = (
            entry.get(name, "") for name in ("MessageDeduplicationId", "MessageGroupId")
        )
        check_token(token, "MessageDeduplicationId")
        check_token(group, "MessageGroupId")
        body: Any = entry.get("MessageBody")
        octets = accept_body(body)
        attributes, extra = accept_attributes(entry.get("MessageAttributes", _NOTHING))
        system, _ = accept_attributes(entry.get("MessageSystemAttributes", _NOTHING))
        if any((n, v["DataType"]) != ("AWSTraceHeader", "String") for n, v in system.items()):
            raise invalid("AWSTraceHeader, a String, is the only system attribute one can send.")
        trace = system["AWSTraceHeader"]["StringValue"] if system else ""
        digest = md5(octets, usedforsecurity=False).hexdigest()
        now = self._clock()
        message = Message(body, digest, self._sender, now, attributes, trace, group, token, now)
        return message, len(octets) + extra

    def _accept(self, queue: FakeQueue, message: Message, size: int, delay: int) -> dict[str, Any]:
        """Put a well-formed message into the queue, unless the queue itself objects."""
        if size > queue.largest:
            raise invalid(
                "One or more parameters are invalid. "
                f"Reason: Message must be shorter than {queue.largest} bytes."
            )
        if delay is not _ABSENT:
            check_range(delay, "DelaySeconds", LONGEST_DELAY)
            if queue.fifo and delay:
                raise invalid_value(delay, "DelaySeconds", _OF_OTHERS)
        if delay is _ABSENT or queue.fifo:
            delay = queue.delay
        token = message.deduplication_id
        if token and not queue.fifo:
            raise invalid_value(token, "MessageDeduplicationId", _OF_OTHERS)
        now = message.sent_at
        answer: dict[str, Any] = {"MD5OfMessageBody": message.body_md5}
        if queue.fifo:
            twin = _first_of(queue, token, now)
            if twin is not None:
                _, answer["MessageId"], answer["SequenceNumber"] = twin
                return answer
        message.id = answer["MessageId"] = self._ids()
        if queue.fifo:
            queue.sequence += 1
            message.sequence = answer["SequenceNumber"] = f"{queue.sequence:020d}"
            queue.sent_tokens[token] = (now, message.id, message.sequence)
        queue.settle(now)
        queue.add(message, now + delay, now)
        return answer

    # Receiving.

    @operation
    def receive_message(
        self,
        *,
        QueueUrl: str,
        MessageSystemAttributeNames: Sequence[str] = (),
        MessageAttributeNames: Sequence[str] = (),
        MaxNumberOfMessages: int = 1,
        VisibilityTimeout: int = _ABSENT,
        WaitTimeSeconds: int = _ABSENT,
    ) -> dict[str, Any]:
        """Attributes are all shown or none. With nothing to return there are no `Messages`."""
        queue = self._queue(QueueUrl)
        if not {*MessageSystemAttributeNames, *MessageAttributeNames} <= {"All"}:
            raise invalid("These queues in memory show all attributes or none; allowed: All")
        check_range(MaxNumberOfMessages, "MaxNumberOfMessages", LARGEST_BATCH, least=1)
        wait = queue.wait if WaitTimeSeconds is _ABSENT else WaitTimeSeconds
        check_range(wait, "WaitTimeSeconds", LONGEST_WAIT)
        visibility = queue.visibility if VisibilityTimeout is _ABSENT else VisibilityTimeout
        check_range(visibility, "VisibilityTimeout", LONGEST_VISIBILITY)
        taken = self._take(queue, MaxNumberOfMessages, visibility, short=not wait)
        if not taken and wait and self._on_wait is not None:
            self._on_wait(wait)
            # The queue may have been deleted during the wait.
            queue = self._queue(QueueUrl)
            taken = self._take(queue, MaxNumberOfMessages, visibility, short=False)
        if not taken:
            return {}
        system, user = bool(MessageSystemAttributeNames), bool(MessageAttributeNames)
        return {"Messages": [_shown(queue, message, system, user) for message in taken]}

    def _take(self, queue: FakeQueue, limit: int, visibility: int, *, short: bool) -> list[Message]:
        now = self._clock()
        queue.settle(now)
        if short and self._random is not None:
            limit = self._random.randint(0, limit)
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

    @operation
    def delete_message(self, *, QueueUrl: str, ReceiptHandle: str) -> dict[str, Any]:
        self._delete(self._queue(QueueUrl), ReceiptHandle)
        return {}

    @operation
    def delete_message_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl)
        check_batch(Entries, _HANDLE_KEYS, "ReceiptHandle")
        return _each(Entries, lambda entry: self._delete(queue, entry["ReceiptHandle"]))

    @operation
    def change_message_visibility(
        self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int
    ) -> dict[str, Any]:
        self._change_visibility(self._queue(QueueUrl), ReceiptHandle, VisibilityTimeout)
        return {}

    @operation
    def change_message_visibility_batch(
        self, *, QueueUrl: str, Entries: Sequence[Mapping[str, Any]]
    ) -> dict[str, Any]:
        queue = self._queue(QueueUrl)
        check_batch(Entries, _HANDLE_KEYS | {"VisibilityTimeout"}, "ReceiptHandle")

        def change(entry: Mapping[str, Any]) -> None:
            if "VisibilityTimeout" not in entry:
                raise missing("VisibilityTimeout")
            self._change_visibility(queue, entry["ReceiptHandle"], entry["VisibilityTimeout"])

        return _each(Entries, change)

    def _held(self, queue: FakeQueue, handle: str) -> tuple[Message | None, bool]:
        """The message of a receipt handle, if it still exists; whether the handle is its last."""
        if type(handle) is not str:
            raise malformed("ReceiptHandle is a string")
        count, _, rest = handle.partition(":")
        name, _, message_id = rest.partition(":")
        if not count.isdigit() or name != queue.name:
            raise Declined("ReceiptHandleIsInvalid", "The input receipt handle is invalid.")
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
        if message is not None and latest:
            queue.drop(message)
            queue.remember(message)

    def _change_visibility(self, queue: FakeQueue, handle: str, timeout: int) -> None:
        check_range(timeout, "VisibilityTimeout", LONGEST_VISIBILITY)
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


def _shown(queue: FakeQueue, message: Message, system: bool, user: bool) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "MessageId": message.id,
        "ReceiptHandle": f"{message.receive_count}:{queue.name}:{message.id}",
        "MD5OfBody": message.body_md5,
        "Body": message.body,
    }
    if system:
        shown["Attributes"] = message.system()
    if user and message.attributes:
        shown["MessageAttributes"] = {n: dict(v) for n, v in message.attributes.items()}
    return shown


def _each(
    entries: Sequence[Mapping[str, Any]],
    act: Callable[[Mapping[str, Any]], Mapping[str, Any] | None],
) -> dict[str, Any]:
    """The answer to a batch: every entry is acted on, and fails by itself."""
    done, failed = [], []
    for entry in entries:
        try:
            done.append({"Id": entry["Id"], **(act(entry) or {})})
        except Declined as refused:
            reason = {"SenderFault": True, "Code": refused.code, "Message": refused.message}
            failed.append({"Id": entry["Id"], **reason})
    parts = {"Successful": done, "Failed": failed}
    return {name: part for name, part in parts.items() if part}


def _first_of(queue: FakeQueue, token: str, now: float) -> tuple[float, str, str] | None:
    """The message sent with the same token in the last five minutes, living or deleted."""
    tokens = queue.sent_tokens
    while tokens and next(iter(tokens.values()))[0] + _DEDUPLICATION_SECONDS <= now:
        tokens.popitem(last=False)
    return tokens.get(token)


def _check_deduplication(entry: Mapping[str, Any]) -> None:
    if not entry.get("MessageDeduplicationId"):
        raise invalid("A message of a FIFO queue has a MessageDeduplicationId here")
