"""One pipeline on the in-memory AWS: producers, the DLQ, and runs of the real redriver."""

from __future__ import annotations

import itertools
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from deadletter.aws.clients import Clients
from deadletter.aws.edits import DynamoDBBookVersions
from deadletter.aws.wiring.judging import router_for
from deadletter.aws.wiring.moving import redriver_for
from deadletter.aws.wiring.world import World
from deadletter.contract import MAIN_DLQ, Partition
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import PAST
from deadletter.routing.router import Router
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.settings.resources import Resources
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB, MemoryS3, MemorySqs
from tests.tables import BUCKET, CIRCUITS, LETTERS, RULES, create_tables

PRODUCER = "AIDAPRODUCER"
REDRIVER = "AROAREDRIVER"
CONSUMER = "AROACONSUMER"

DAY = 86_400.0


def ids_from(seed: int) -> Callable[[], str]:
    """Message ids that look like SQS's and are the same in each run."""
    numbers = Random(seed)
    return lambda: str(uuid.UUID(int=numbers.getrandbits(128), version=4))


def in_turn(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    """Calls one after the other, where production makes them at the same time."""
    return [call() for call in calls]


def prompt_policy(attempts: int = 3) -> RetryPolicy:
    """Re-drives without any wait, so that a test need not let time pass."""
    return RetryPolicy(Backoff(base=0, factor=1, cap=0, floor=0), max_attempts=attempts)


@dataclass(eq=False)
class Stage:
    """Everything one pipeline needs, built fresh: change `pipeline` before the first call.

    Unless it `is_new`, it was deployed long ago: what lies in its DLQ came later.
    """

    pipeline: Pipeline = field(
        default_factory=lambda: Pipeline(
            "orders",
            policy=prompt_policy(),
            context={"tenantId": "body.tenantId"},
            workers=1,
            dedicated=("slow",),
        )
    )
    clock: Clock = field(default_factory=Clock)
    seed: int = 1
    random: Random | None = None
    lagging: bool = False
    stale: bool = False
    page: int | None = None
    hours: int | None = None
    sqs_type: type[MemorySqs] = MemorySqs
    dynamodb_type: type[MemoryDynamoDB] = MemoryDynamoDB
    is_new: bool = False

    def __post_init__(self) -> None:
        self._edits = 0
        ids = ids_from(self.seed)
        self.sqs = self.sqs_type(
            self.clock,
            ids,
            sender_id=PRODUCER,
            on_wait=self.clock.advance,
            random=self.random,
        )
        self.redriver_sqs = self.sqs.as_sender(f"{REDRIVER}:run")
        self.consumer_sqs = self.sqs.as_sender(f"{CONSUMER}:consume")
        coin = Random(self.seed + 3)
        self.dynamodb = self.dynamodb_type(
            self.clock,
            lagging_indexes=self.lagging,
            stale_reads=(lambda: coin.random() < 0.7) if self.stale else None,
            page_items=self.page,
        )
        self.s3 = MemoryS3(self.clock)
        self.names = itertools.count(1)
        self._create_queues()
        self._create_tables()
        if not self.is_new:
            # The first runs over what was there before the deployment are over.
            key = {"pk": {"S": Partition.LEASE.of(self.pipeline.name)}, "sk": {"S": MAIN_DLQ}}
            item = {**key, "first_step": {"N": str(PAST)}}
            self.dynamodb.put_item(TableName=LETTERS, Item=item)

    def _create_queues(self) -> None:
        suffix = ".fifo" if self.pipeline.fifo else ""
        fifo = {"FifoQueue": "true"} if self.pipeline.fifo else {}

        def create(name: str, **attributes: str) -> str:
            answer = self.sqs.create_queue(
                QueueName=f"{name}{suffix}", Attributes={**fifo, **attributes}
            )
            return str(answer["QueueUrl"])

        two_weeks = str(14 * 86_400)
        hours = None if self.hours is None else str(self.hours * 3_600)
        self.dlq = create("orders-dlq", MessageRetentionPeriod=hours or two_weeks)
        self.parking = create("orders-parking", MessageRetentionPeriod=two_weeks)
        self.dedicated = create("orders-slow", MessageRetentionPeriod=hours or two_weeks)
        policy = {"deadLetterTargetArn": self.arn(self.dlq), "maxReceiveCount": 1}
        self.main = create(
            "orders",
            RedrivePolicy=json.dumps(policy),
            VisibilityTimeout="30",
            MessageRetentionPeriod=hours or str(4 * 86_400),
        )
        self.resources = Resources(
            main_url=self.main,
            main_arn=self.arn(self.main),
            dlq_url=self.dlq,
            parking={"default": self.parking},
            dedicated={"slow": self.dedicated},
            messages_table=LETTERS,
            messages_bucket=BUCKET,
            rules_table=RULES,
            circuits_table=CIRCUITS,
            router_function="router",
            trusted_senders=(REDRIVER, CONSUMER),
            replay_days=30,
        )

    def _create_tables(self) -> None:
        create_tables(self.dynamodb)
        self.s3.create_bucket(Bucket=BUCKET)

    def arn(self, url: str) -> str:
        answer = self.sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["QueueArn"])
        return str(answer["Attributes"]["QueueArn"])

    @property
    def clients(self) -> Clients:
        anything: Any = None
        sqs: Any = self.redriver_sqs
        dynamodb: Any = self.dynamodb
        s3: Any = self.s3
        return Clients(
            sqs=sqs,
            sending=sqs,
            dynamodb=dynamodb,
            journal=dynamodb,
            s3=s3,
            functions=anything,
        )

    @property
    def world(self) -> World:
        return World(
            clock=self.clock,
            wait=self.clock.advance,
            new_id=lambda: f"run{next(self.names)}",
            random=Random(self.seed),
        )

    @property
    def router(self) -> Router:
        return router_for(self.pipeline, self.resources, self.clients, self.world)

    def put(self, body: str = '{"tenantId": "a"}', url: str | None = None, **options: Any) -> str:
        """Send a message as a producer; returns its id."""
        answer = self.sqs.send_message(QueueUrl=url or self.main, MessageBody=body, **options)
        return str(answer["MessageId"])

    def fail(self) -> int:
        """The consumer takes everything once and succeeds at nothing; returns how many died."""
        taken = len(self.take(self.main))
        self.clock.advance(31)
        self.take(self.main)
        return taken

    def take(self, url: str, hide: int | None = None) -> list[dict[str, Any]]:
        """Receive everything that is visible, leaving it locked."""
        messages: list[dict[str, Any]] = []
        options = {} if hide is None else {"VisibilityTimeout": hide}
        while found := self.sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
            **options,
        ).get("Messages"):
            messages += found
        return messages

    def bodies(self, url: str) -> list[str]:
        """The bodies of all messages in a queue, whether visible or not, in no order."""
        name = url.rpartition("/")[2]
        return sorted(message.body for message in self.sqs.snapshot() if message.queue == name)

    def stamps(self, url: str) -> list[Stamp]:
        """The stamps that the letters in a queue carry."""
        found = []
        name = url.rpartition("/")[2]
        for message in self.sqs.snapshot():
            if message.queue == name and stamps.NAME in message.attributes:
                mark = stamps.parse(message.attributes[stamps.NAME]["StringValue"])
                assert mark is not None
                found.append(mark)
        return found

    def add_rule(self, rule_id: str, **columns: Any) -> None:
        """Type a rule into the table, as raw attributes."""
        item = {"pipeline": {"S": self.pipeline.name}, "rule_id": {"S": rule_id}}
        for name, value in columns.items():
            item[name] = {"N": str(value)} if isinstance(value, int | float) else {"S": value}
        self.dynamodb.put_item(TableName=RULES, Item=item)
        self._note_edit()

    def remove_rule(self, rule_id: str) -> None:
        """Delete a rule from the table."""
        key = {"pipeline": {"S": self.pipeline.name}, "rule_id": {"S": rule_id}}
        self.dynamodb.delete_item(TableName=RULES, Key=key)
        self._note_edit()

    def _note_edit(self) -> None:
        """Tell routers that rules have changed, as the rule checker does within seconds."""
        self._edits += 1
        client: Any = self.dynamodb
        DynamoDBBookVersions(client, LETTERS).write(self.pipeline.name, f"edit {self._edits}")

    def set_circuit(self, state: str, key: str | None = None) -> None:
        self.dynamodb.put_item(
            TableName=CIRCUITS,
            Item={
                "pipeline": {"S": self.pipeline.name},
                "circuit_key": {"S": key or self.pipeline.name},
                "state": {"S": state},
            },
        )

    def waiting(self) -> list[dict[str, Any]]:
        """The items of letters in the waiting room."""
        return [item for item in self.dynamodb.items(LETTERS) if "copy" in item]

    def journal(self) -> list[dict[str, Any]]:
        """The intents that stand."""
        return [item for item in self.dynamodb.items(LETTERS) if "plans" in item]

    def run(
        self,
        *,
        seconds: float = 55,
        home: str = "dlq",
        dry_run: bool = False,
        asked: bool = False,
        router: Router | None = None,
    ) -> Report:
        """One run of the redriver, as the schedule would start it."""
        redriver = self.redriver(home, router)
        return redriver.run(self.clock() + seconds, dry_run=dry_run, asked=asked)

    def rescue(
        self, source: str = "dlq", *, seconds: float = 55, router: Router | None = None
    ) -> Report:
        """One rescue of a source, as the watch would start it."""
        return self.redriver(source, router).rescue(self.clock() + seconds)

    def redriver(self, home: str = "dlq", router: Router | None = None) -> Redriver:
        return redriver_for(
            self.pipeline,
            self.resources,
            self.clients,
            self.world,
            home=home,
            router=router or self.router,
            in_parallel=in_turn,
        )


def with_(pipeline: Pipeline, **changes: Any) -> Pipeline:
    return replace(pipeline, **changes)


def attribute(value: str | bytes, data_type: str | None = None) -> Mapping[str, Any]:
    """A message attribute in the API's shape."""
    if isinstance(value, bytes):
        return {"DataType": data_type or "Binary", "BinaryValue": value}
    return {"DataType": data_type or "String", "StringValue": value}
