"""A queue and its messages: who may be shown now, who later, and what time alone does."""

from __future__ import annotations

import json
from collections import OrderedDict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from heapq import heapify, heappop, heappush
from typing import Any, Literal, NamedTuple

from deadletter.testing.fakes.errors import Declined
from deadletter.testing.fakes.sqs_requests import (
    LARGEST_MESSAGE,
    invalid_value,
    unknown_attribute,
)

State = Literal["visible", "delayed", "in flight"]
VISIBLE: State = "visible"
DELAYED: State = "delayed"
IN_FLIGHT: State = "in flight"

# Seconds: what DelaySeconds, WaitTimeSeconds and the visibility of one receive may reach.
LONGEST_DELAY = 900
LONGEST_WAIT = 20
LONGEST_VISIBILITY = 43_200
# From this receive on, SQS leaves a standard message that is not deleted out of the age.
RECEIVES_THAT_HIDE_AGE = 3
# Deleted messages that a queue can still bring back. A benchmark deletes millions.
_REMEMBERED = 1_000

# Queue attributes that are whole numbers: default, least, most.
_NUMBERS = {
    "DelaySeconds": (0, 0, LONGEST_DELAY),
    "MaximumMessageSize": (LARGEST_MESSAGE, 1_024, LARGEST_MESSAGE),
    "MessageRetentionPeriod": (345_600, 60, 1_209_600),
    "ReceiveMessageWaitTimeSeconds": (0, 0, LONGEST_WAIT),
    "VisibilityTimeout": (30, 0, LONGEST_VISIBILITY),
}
_ENCRYPTION = ("SqsManagedSseEnabled", "KmsMasterKeyId", "KmsDataKeyReusePeriodSeconds")
_SETTABLE = frozenset((*_NUMBERS, *_ENCRYPTION, "Policy", "RedrivePolicy", "RedriveAllowPolicy"))
READABLE = _SETTABLE | {
    *("All", "FifoQueue", "QueueArn", "CreatedTimestamp"),
    "ApproximateNumberOfMessages",
    "ApproximateNumberOfMessagesNotVisible",
    "ApproximateNumberOfMessagesDelayed",
}


class LiveMessage(NamedTuple):
    """A message that a queue holds at this moment: what an invariant is checked against.

    `attributes` are the user's, in API shape, not copied: look, don't touch. `sent_at` is epoch
    seconds, of the original send on a standard queue; `sequence` is empty there.
    """

    queue: str
    message_id: str
    body: str
    attributes: Mapping[str, Mapping[str, Any]]
    state: State
    receive_count: int
    sent_at: float
    group: str
    sender: str
    sequence: str


@dataclass(frozen=True, slots=True)
class QueueMeasure:
    """What CloudWatch knows of one queue at this moment; `age` in seconds, 0 without a message.

    `age` is ApproximateAgeOfOldestMessage: a standard message that was received three times in
    this queue and is still there no longer counts. It counts from the send, in a dead-letter
    queue from the move.
    """

    queue: str
    visible: int
    not_visible: int
    delayed: int
    age: float


@dataclass(eq=False, slots=True)
class Message:
    """A message in a queue, and what has become of it there."""

    body: str
    body_md5: str
    sender: str
    sent_at: float
    attributes: Mapping[str, Mapping[str, Any]]
    trace: str
    group: str
    deduplication_id: str
    arrived_at: float = 0.0
    visible_at: float = 0.0
    id: str = ""
    sequence: str = ""
    source_arn: str = ""
    first_received_at: float = 0.0
    received_at: float = 0.0
    receive_count: int = 0
    # The redrive policy counts per queue, ApproximateReceiveCount across queues.
    receives_here: int = 0
    state: State = VISIBLE

    def live(self, queue: str) -> LiveMessage:
        return LiveMessage(
            queue,
            self.id,
            self.body,
            self.attributes,
            self.state,
            self.receive_count,
            self.sent_at,
            self.group,
            self.sender,
            self.sequence,
        )

    def system(self) -> dict[str, str]:
        names = {
            "SenderId": self.sender,
            "SentTimestamp": str(int(self.sent_at * 1000)),
            "ApproximateReceiveCount": str(self.receive_count),
            "ApproximateFirstReceiveTimestamp": str(int(self.first_received_at * 1000)),
        }
        if self.group:
            names["MessageGroupId"] = self.group
        if self.sequence:
            names["SequenceNumber"] = self.sequence
            names["MessageDeduplicationId"] = self.deduplication_id
        if self.trace:
            names["AWSTraceHeader"] = self.trace
        if self.source_arn:
            names["DeadLetterQueueSourceArn"] = self.source_arn
        return names


class _Timers:
    """Messages by the moment at which something happens to them.

    A message that has changed its mind, or is gone, leaves a dead entry: `alive` tells.
    """

    __slots__ = ("alive", "heap", "prune_at", "pushes")

    def __init__(self, alive: Callable[[float, Message], bool]) -> None:
        self.alive = alive
        self.heap: list[tuple[float, int, Message]] = []
        self.pushes = 0
        self.prune_at = 64

    def push(self, at: float, message: Message) -> None:
        if len(self.heap) >= self.prune_at:
            self.heap = [entry for entry in self.heap if self.alive(entry[0], entry[2])]
            heapify(self.heap)
            self.prune_at = 2 * len(self.heap) + 64
        # The count keeps the heap from comparing messages.
        self.pushes += 1
        heappush(self.heap, (at, self.pushes, message))

    def due(self, now: float) -> Iterator[Message]:
        heap = self.heap
        while heap and heap[0][0] <= now:
            at, _, message = heappop(heap)
            # Asked late: what was done to the one before may have ended this one, too.
            if self.alive(at, message):
                yield message


class FakeQueue:
    """A queue: every message by id, those `ready` to be shown, and (FIFO) each group in order."""

    def __init__(self, name: str, arn: str, now: float) -> None:
        self.name = name
        self.arn = arn
        self.fifo = name.endswith(".fifo")
        self.created = now
        self.attributes = {name: str(row[0]) for name, row in _NUMBERS.items()}
        self.attributes["SqsManagedSseEnabled"] = "true"
        if self.fifo:
            self.attributes["FifoQueue"] = "true"
        self.delay = self.largest = self.retention = self.wait = self.visibility = 0
        self.dead_letter_arn = ""
        self.max_receive_count = 0
        self.messages: dict[str, Message] = {}
        self.ready: OrderedDict[str, Message] = OrderedDict()
        self.hidden = _Timers(self._is_hidden)
        self.ages = _Timers(self._is_aging)
        self.groups: dict[str, dict[str, Message]] = {}
        self.in_flight = 0
        self.delayed = 0
        self.sent_tokens: OrderedDict[str, tuple[float, str, str]] = OrderedDict()
        self.sequence = 0
        self.deleted: OrderedDict[str, Message] = OrderedDict()
        self.expired: list[str] = []

    def configure(
        self, attributes: Mapping[str, str], find: Callable[[str], FakeQueue | None]
    ) -> None:
        """Set queue attributes, all or none. `find` knows the account's queues by ARN."""
        if unknown := attributes.keys() - _SETTABLE:
            raise unknown_attribute(unknown)
        for name, value in attributes.items():
            _, least, most = _NUMBERS.get(name, (0, 0, 0))
            if name in _NUMBERS and not (value.isdigit() and least <= int(value) <= most):
                raise Declined("InvalidAttributeValue", f"Invalid value for the parameter {name}.")
        if "RedrivePolicy" in attributes:
            self._point_to(attributes["RedrivePolicy"], find)
        # An empty value takes an attribute away.
        self.attributes = {
            name: value for name, value in {**self.attributes, **attributes}.items() if value
        }
        self.delay, self.largest, self.retention, self.wait, self.visibility = (
            int(self.attributes[name]) for name in _NUMBERS
        )

    def _point_to(self, policy: str, find: Callable[[str], FakeQueue | None]) -> None:
        """Make another queue the dead-letter queue of this one; "" for none."""
        if not policy:
            self.dead_letter_arn, self.max_receive_count = "", 0
            return
        try:
            members = json.loads(policy)
            arn, count = str(members["deadLetterTargetArn"]), int(members["maxReceiveCount"])
        except (ValueError, TypeError, KeyError):
            arn, count = "", 0
        target = find(arn)
        if target is None or target.fifo is not self.fifo or not 1 <= count <= 1_000:
            raise invalid_value(
                policy,
                "RedrivePolicy",
                "It has deadLetterTargetArn, of a queue of the same type, and maxReceiveCount,"
                " which is from 1 to 1000.",
            )
        self.dead_letter_arn, self.max_receive_count = arn, count

    def settle(self, now: float) -> None:
        """What time alone does: delays and visibility timeouts end, old messages expire."""
        for message in self.hidden.due(now):
            self.show(message)
        for message in self.ages.due(now - self.retention):
            self.expired.append(message.id)
            self.drop(message)

    def measure(self, now: float) -> QueueMeasure:
        """What CloudWatch would be told of this queue."""
        self.settle(now)
        arrivals = (
            message.arrived_at
            for message in self.messages.values()
            if self.fifo or message.receives_here < RECEIVES_THAT_HIDE_AGE
        )
        return QueueMeasure(
            queue=self.name,
            visible=len(self.ready),
            not_visible=self.in_flight,
            delayed=self.delayed,
            age=now - min(arrivals, default=now),
        )

    def add(self, message: Message, visible_at: float, now: float) -> None:
        self.messages[message.id] = message
        if self.fifo:
            self.groups.setdefault(message.group, {})[message.id] = message
        self.ages.push(message.sent_at, message)
        message.state = VISIBLE
        if visible_at > now:
            message.visible_at = visible_at
            self.hide(message, DELAYED)
        else:
            message.visible_at = now
            self.ready[message.id] = message

    def hide(self, message: Message, state: State) -> None:
        """Keep a message from receives until its `visible_at`."""
        self._uncount(message)
        message.state = state
        if state is IN_FLIGHT:
            self.in_flight += 1
        else:
            self.delayed += 1
        self.hidden.push(message.visible_at, message)

    def show(self, message: Message) -> None:
        self._uncount(message)
        message.state = VISIBLE
        self.ready[message.id] = message

    def drop(self, message: Message) -> None:
        self._uncount(message)
        del self.messages[message.id]
        if self.fifo:
            group = self.groups[message.group]
            del group[message.id]
            if not group:
                del self.groups[message.group]

    def remember(self, message: Message) -> None:
        self.deleted[message.id] = message
        if len(self.deleted) > _REMEMBERED:
            self.deleted.popitem(last=False)

    def _is_hidden(self, until: float, message: Message) -> bool:
        return message.visible_at == until and self.messages.get(message.id) is message

    def _is_aging(self, since: float, message: Message) -> bool:
        return message.sent_at == since and self.messages.get(message.id) is message

    def _uncount(self, message: Message) -> None:
        if message.state is VISIBLE:
            self.ready.pop(message.id, None)
        elif message.state is IN_FLIGHT:
            self.in_flight -= 1
        else:
            self.delayed -= 1
