"""A pipeline in memory: queues, tables and a clock, for the tests of a consumer."""

from __future__ import annotations

import json
import uuid
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from threading import Event, RLock
from typing import Any

from deadletter.aws.clients import ConsumerClients
from deadletter.aws.collisions import DynamoDBCollisions
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.aws.queue import SqsMessages
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.world import World
from deadletter.consumer import poll
from deadletter.consumer.runtime import Runtime
from deadletter.contract import CATEGORY_DIMENSION, DAY, ROWS_KEPT
from deadletter.failure.ledger import NO_ROW, LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import from_api, to_event
from deadletter.message.stamp import Stamp
from deadletter.processing.batch import Consumer
from deadletter.processing.crew import Threads
from deadletter.processing.poller import Source
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import COUNTED
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemoryDynamoDB, MemorySqs
from deadletter.testing.fakes.lambda_ import ClientContext, Context

FUNCTION_SECONDS = 30.0
"""Seconds that an invocation has."""

VISIBILITY = 180
"""Seconds that SQS hides a received message: six times the function's, as AWS recommends."""

Handler = Callable[[Any, Any], Any]

_PRODUCER, _CONSUMER, _REDRIVER = "AIDAPRODUCER", "AROACONSUMER:function", "AROAREDRIVER"


@dataclass(frozen=True, slots=True)
class Run:
    """One invocation: the ids it was given, what the handler answered, and what followed."""

    received: tuple[str, ...]
    response: Mapping[str, Any]
    acknowledged: tuple[str, ...]
    returned: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Parked:
    """A message in the parking lot; `stamp` says why it is there."""

    message_id: str
    body: str
    stamp: Stamp


@dataclass(eq=False)
class Letterbox:
    """A main queue, its DLQ and its parking lot, and whatever the library writes down.

    `settings` are the pipeline's; `clock` is the test's to move. Nothing leaves memory,
    and nothing happens by itself but what SQS does when time passes. A pipeline `in_first_day`
    only counts messages whose idempotency key belongs to another one.
    """

    settings: Pipeline
    clock: Clock = field(default_factory=Clock)
    max_receive_count: int = 5
    lines: list[str] = field(default_factory=list)
    in_first_day: bool = False

    def __post_init__(self) -> None:
        self._numbers = Random(1)
        self._lock = RLock()
        self.sqs = MemorySqs(
            self.clock, self.new_id, sender_id=_PRODUCER, on_wait=self.clock.advance
        )
        self.dynamodb = MemoryDynamoDB(self.clock)
        _create_table(self.dynamodb, "messages", "pk", "sk")
        _create_table(self.dynamodb, "circuits", "pipeline", "circuit_key")
        if not self.in_first_day:
            client: Any = self.dynamodb
            collisions = DynamoDBCollisions(client, "circuits", self.settings.name)
            collisions.count({}, (), self.clock() - DAY)
        self._create_queues()
        self._runtime: Runtime | None = None
        self._counted: Counter[str] = Counter()

    @property
    def runtime(self) -> Runtime:
        """What the library consumes with here, made at the first event as in a real process."""
        if self._runtime is None:
            self._runtime = Runtime(
                self._consumer(),
                self.clock,
                self.lines.append,
                app="test",
                pending_metrics=self._counted,
                queue_url=self.main,
                source=self._source,
                random=Random(1),
            )
        return self._runtime

    def new_id(self) -> str:
        """An id that looks like SQS's and is the same in each run of a test."""
        return str(uuid.UUID(int=self._numbers.getrandbits(128), version=4))

    def send(
        self,
        body: Any,
        *,
        attributes: Mapping[str, str] | None = None,
        group: str | None = None,
    ) -> str:
        """Send a message as a producer does; a body that is no text is sent as JSON."""
        return self._send(self.sqs, body, attributes or {}, group)

    def redrive(
        self,
        body: Any,
        *,
        origin: str,
        attempt: int = 1,
        attributes: Mapping[str, str] | None = None,
    ) -> str:
        """Send a message as the redriver brings it back: the letter `origin` once more."""
        mark = stamps.attribute(Stamp(origin, attempt, int(START * 1000), _PRODUCER))
        ours = {**(attributes or {}), stamps.NAME: str(mark.value)}
        return self._send(self.sqs.as_sender(f"{_REDRIVER}:run"), body, ours, None)

    def run(
        self,
        handler: Handler,
        *,
        batch_size: int = 10,
        permit: str | None = None,
        replay: str | None = None,
    ) -> Run:
        """Invoke a Lambda handler with what the main queue has, as its event source would.

        What the response does not name is deleted; if the handler raises, nothing is, and
        the exception is the test's. `permit` makes the invocation a canary of the circuit, and
        `replay`, the id of a replay run, a delivery of that run.
        """
        answer = self.sqs.receive_message(
            QueueUrl=self.main,
            MaxNumberOfMessages=batch_size,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        )
        handles = {
            message["MessageId"]: message["ReceiptHandle"] for message in answer.get("Messages", [])
        }
        if not handles:
            return Run((), {"batchItemFailures": []}, (), ())
        event = {
            "Records": [
                to_event(
                    from_api(message), receipt_handle=message["ReceiptHandle"], source_arn=self._arn
                )
                for message in answer["Messages"]
            ]
        }
        response = handler(event, self.context(permit, replay)) or {}
        failed = {failure["itemIdentifier"] for failure in response.get("batchItemFailures", [])}
        if not failed <= handles.keys():
            # Lambda then takes the whole batch for failed.
            failed = set(handles)
        for message_id, handle in handles.items():
            if message_id not in failed:
                self.sqs.delete_message(QueueUrl=self.main, ReceiptHandle=handle)
        return Run(
            tuple(handles),
            response,
            tuple(receipt for receipt in handles if receipt not in failed),
            tuple(receipt for receipt in handles if receipt in failed),
        )

    def poll(self, each: Callable[[Any], object], **options: Any) -> None:
        """Let `deadletter.consumer.poll` process what is in the main queue, until it is empty.

        `options` are those of `poll`.
        """
        options.setdefault("stop", Event())
        running = self.runtime
        self._runtime = replace(
            running, source=lambda url: UntilEmpty(running.source(url), options["stop"])
        )
        try:
            poll(each, **options)
        finally:
            self._runtime = running

    def context(self, permit: str | None = None, replay: str | None = None) -> Context:
        """The context of an invocation that begins now."""
        given = {"deadletter_permit": permit, "replay": replay}
        invoker = {name: value for name, value in given.items() if value is not None}
        custom = ClientContext(invoker) if invoker else None
        return Context(self.clock, self.clock() + FUNCTION_SECONDS, custom)

    @property
    def waiting(self) -> list[str]:
        """The bodies of the messages in the main queue, visible or hidden, oldest first."""
        return self._bodies(self.main)

    @property
    def dead(self) -> list[str]:
        """The bodies of the messages in the DLQ."""
        return self._bodies(self.dlq)

    @property
    def parked(self) -> list[Parked]:
        """The messages in the parking lot, and why they are there."""
        found = []
        for message in self.sqs.snapshot():
            if message.queue == _name(self.lot):
                said = message.attributes[stamps.NAME]["StringValue"]
                mark = stamps.parse(said)
                assert mark is not None, said
                found.append(Parked(message.message_id, message.body, mark))
        return found

    def ledger(self, origin: str) -> LedgerRow:
        """What is written down about a message, by the id that it was first sent with."""
        client: Any = self.dynamodb
        ledger = DynamoDBLedger(client, "messages", self.settings.name, self.clock, ROWS_KEPT)
        return ledger.rows([origin]).get(origin, NO_ROW)

    @property
    def metrics(self) -> dict[str, int]:
        """Everything that was counted so far, figures and fields of the log alike, by name.

        Figures with one value a letter, such as AttemptsBeforeRecovery, are no counts; failures by
        category are those of ProcessingFailure and MessageMovedToParkingLot once more.
        """
        counts: dict[str, int] = {}
        for line in map(json.loads, self.lines):
            if CATEGORY_DIMENSION in line:
                continue
            for name in line.keys() & COUNTED.keys():
                if isinstance(line[name], int):
                    counts[name] = counts.get(name, 0) + line[name]
        return counts

    def set_circuit(self, state: str, key: str | None = None) -> None:
        """Put the dependency's circuit into a state: CLOSED, OPEN or HALF_OPEN."""
        self.dynamodb.put_item(
            TableName="circuits",
            Item={
                "pipeline": {"S": self.settings.name},
                "circuit_key": {"S": key or self.settings.name},
                "state": {"S": state},
            },
        )

    def _locked(self, client: object) -> Any:
        # The fakes belong to one thread at a time; real clients may be shared.
        return OneAtATime(client, self._lock)

    def _source(self, url: str) -> SqsMessages:
        client = self._locked(self.sqs.as_sender(_CONSUMER))
        return SqsMessages(client, client, url, self._arn_of(url))

    def _consumer(self) -> Consumer:
        sqs = self._locked(self.sqs.as_sender(_CONSUMER))
        dynamodb = self._locked(self.dynamodb)
        clients = ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb)
        world = World(
            clock=self.clock, wait=self.clock.advance, new_id=self.new_id, random=Random(1)
        )
        resources = Resources(
            main_url=self.main,
            parking={"default": self.lot},
            messages_table="messages",
            circuits_table="circuits",
            trusted_senders=(_REDRIVER,),
        )
        return consumer_for(
            self.settings,
            resources,
            clients,
            world,
            count_metric=lambda name, number: self._counted.update({name: number}),
            crew=Threads(self.clock),
        )

    def _create_queues(self) -> None:
        self.dlq = self._create("dlq", MessageRetentionPeriod="1209600")
        self.lot = self._create("parking", MessageRetentionPeriod="1209600")
        policy = {
            "deadLetterTargetArn": self._arn_of(self.dlq),
            "maxReceiveCount": self.max_receive_count,
        }
        self.main = self._create(
            "main", RedrivePolicy=json.dumps(policy), VisibilityTimeout=str(VISIBILITY)
        )
        self._arn = self._arn_of(self.main)

    def _create(self, name: str, **attributes: str) -> str:
        fifo = {"FifoQueue": "true"} if self.settings.fifo else {}
        suffix = ".fifo" if self.settings.fifo else ""
        answer = self.sqs.create_queue(
            QueueName=f"{self.settings.name}-{name}{suffix}", Attributes={**fifo, **attributes}
        )
        return str(answer["QueueUrl"])

    def _arn_of(self, url: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    def _send(
        self, sqs: MemorySqs, body: Any, attributes: Mapping[str, str], group: str | None
    ) -> str:
        options: dict[str, Any] = {}
        if self.settings.fifo:
            options = {
                "MessageGroupId": group or "group",
                "MessageDeduplicationId": self.new_id(),
            }
        answer = sqs.send_message(
            QueueUrl=self.main,
            MessageBody=body if isinstance(body, str) else json.dumps(body),
            MessageAttributes={
                name: {"DataType": "String", "StringValue": value}
                for name, value in attributes.items()
            },
            **options,
        )
        return str(answer["MessageId"])

    def _bodies(self, url: str) -> list[str]:
        return [message.body for message in self.sqs.snapshot() if message.queue == _name(url)]


class UntilEmpty:
    """A source that ends polling when it has no more messages."""

    def __init__(self, source: Source, stop: Event) -> None:
        self._source = source
        self._stop = stop

    def receive(self, most: int, *, hidden: int, wait: int) -> Sequence[Mapping[str, Any]]:
        records = self._source.receive(most, hidden=hidden, wait=0)
        if not records:
            self._stop.set()
        return records

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        return self._source.hide(waits)

    def delete(self, handles: Sequence[str]) -> Sequence[str]:
        return self._source.delete(handles)


class OneAtATime:
    """An object whose methods are called by one thread at a time."""

    def __init__(self, inner: object, lock: Any) -> None:
        self._inner = inner
        self._lock = lock

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._inner, name)
        if not callable(value):
            return value

        def call(*arguments: Any, **options: Any) -> Any:
            with self._lock:
                return value(*arguments, **options)

        return call


def _name(url: str) -> str:
    return url.rpartition("/")[2]


def _create_table(dynamodb: Any, name: str, partition: str, sort: str) -> None:
    dynamodb.create_table(
        TableName=name,
        KeySchema=[
            {"AttributeName": partition, "KeyType": "HASH"},
            {"AttributeName": sort, "KeyType": "RANGE"},
        ],
        AttributeDefinitions=[
            {"AttributeName": partition, "AttributeType": "S"},
            {"AttributeName": sort, "AttributeType": "S"},
        ],
        BillingMode="PAY_PER_REQUEST",
    )
