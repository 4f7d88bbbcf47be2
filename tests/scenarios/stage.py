"""One pipeline of an account: its producers, its consumer, its letters and its pages."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.clients import Clients, ConsumerClients
from deadletter.aws.edits import DynamoDBBookVersions
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.aws.wiring.stores import Stores
from deadletter.aws.wiring.world import World
from deadletter.circuit.state import Override, State
from deadletter.circuit.transitions import OverrideBegun, Tripped
from deadletter.message.letter import from_api, to_event
from deadletter.settings.pipeline import Pipeline, pipeline_from_json
from deadletter.settings.resources import Resources, resources_from_environment
from deadletter.signals.pages import Alarm
from tests.scenarios.account import DAY, MINUTE, Account

AGE_ALARMS = frozenset({"DlqAge", "MessageAge"})


@dataclass(eq=False)
class Stage:
    """One pipeline of one app. Its consumer does nothing until `consume` is set."""

    account: Account
    name: str
    app: str = "deadletter"
    consumed: list[str] = field(default_factory=list)
    receives: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        environment = self.account.functions[self.function("redrive")].environment
        self.pipeline: Pipeline = pipeline_from_json(environment["PIPELINE"])
        self.resources: Resources = resources_from_environment(environment)
        self.main = self.resources.main_url
        self.dlq = self.resources.dlq_url
        self.parking = self.resources.parking["default"]
        self.consumer_sqs = self.account.sqs.as_sender("AROACONSUMER:consumer")
        self._numbers = Counter[str]()

    def function(self, role: str) -> str:
        return f"{self.app}-{self.name}-{role}"

    # Messages.

    def send(
        self, body: str = "{}", url: str | None = None, group: str = "g", attributes: int = 0
    ) -> str:
        """Send a message as a producer, with so many attributes. Returns its id."""
        options: dict[str, Any] = {}
        if self.pipeline.fifo:
            self._numbers["sent"] += 1
            options = {
                "MessageGroupId": group,
                "MessageDeduplicationId": f"m{self._numbers['sent']}",
            }
        if attributes:
            value = {"DataType": "String", "StringValue": "x"}
            options["MessageAttributes"] = {f"a{at}": value for at in range(attributes)}
        answer = self.account.sqs.send_message(
            QueueUrl=url or self.main, MessageBody=body, **options
        )
        return str(answer["MessageId"])

    def die(
        self,
        number: int = 1,
        *,
        main: str | None = None,
        body: str = "{}",
        attributes: int = 0,
    ) -> list[str]:
        """Send messages that fail at once until they are in the DLQ. Returns their ids."""
        url = main or self.main
        ids = [self.send(body, url, group=f"g{i}", attributes=attributes) for i in range(number)]
        self.bury(ids, url)
        return ids

    def bury(self, ids: Sequence[str], main: str = "") -> None:
        """These messages are received until they are in the DLQ."""
        url = main or self.main
        while any(message.message_id in ids for message in self.held(url)):
            self.receive(url, visibility=0)

    def put(self, url: str, number: int = 1, body: str = "{}") -> list[str]:
        """Send messages right into a queue."""
        return [self.send(body, url, group=f"g{i}") for i in range(number)]

    def work(self, succeeds: Callable[[str], bool] = lambda _body: True) -> None:
        """The consumer takes everything that is visible, once."""
        while messages := self.receive(self.main):
            for message in messages:
                if succeeds(message["Body"]):
                    self.consumer_sqs.delete_message(
                        QueueUrl=self.main, ReceiptHandle=message["ReceiptHandle"]
                    )
                    self.consumed.append(message["Body"])

    def process(self, handle: Callable[[str], None]) -> None:
        """A consumer with the library takes everything that is visible, once."""
        sqs, dynamodb = self.consumer_sqs, self.account.dynamodb
        clients: Any = ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb)  # type: ignore[arg-type]  # fakes
        consumer = consumer_for(
            self.pipeline,
            replace(self.resources, circuit_machine=""),
            clients,
            self._world,
            handle=lambda delivery: handle(delivery.letter.body),
            count_metric=lambda *_: None,
        )
        while messages := self.receive(self.main):
            records = [
                to_event(
                    from_api(message),
                    receipt_handle=message["ReceiptHandle"],
                    source_arn=self.resources.main_arn,
                )
                for message in messages
            ]
            handled = consumer.process(records, deadline=self.account.clock() + 25)
            for message, result in zip(messages, handled.results, strict=True):
                if result.acknowledged:
                    sqs.delete_message(QueueUrl=self.main, ReceiptHandle=message["ReceiptHandle"])

    def receive(self, url: str, visibility: int | None = None) -> list[dict[str, Any]]:
        options = {} if visibility is None else {"VisibilityTimeout": visibility}
        answer = self.consumer_sqs.receive_message(
            QueueUrl=url,
            MaxNumberOfMessages=10,
            WaitTimeSeconds=0,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
            **options,
        )
        messages: list[dict[str, Any]] = answer.get("Messages", [])
        return messages

    def held(self, url: str) -> list[Any]:
        """The messages in a queue, visible or not."""
        name = url.rpartition("/")[2]
        return [message for message in self.account.sqs.snapshot() if message.queue == name]

    def delete_all(self, url: str) -> None:
        """A person deletes every visible message of a queue."""
        while messages := self.receive(url):
            for message in messages:
                self.consumer_sqs.delete_message(
                    QueueUrl=url, ReceiptHandle=message["ReceiptHandle"]
                )

    def arn(self, url: str) -> str:
        """The ARN of a queue of this account."""
        return self.account.queue_arn(url.rpartition("/")[2])

    def waiting(self) -> list[dict[str, Any]]:
        """The items of letters in the waiting room."""
        items = self.account.dynamodb.items(self.resources.messages_table)
        return [item for item in items if "copy" in item and item["pk"]["S"].startswith(self.name)]

    def everywhere(self) -> list[str]:
        """Where each letter of this pipeline is: a queue's name, or its lane of the room."""
        prefixes = (f"{self.app}-{self.name}-", f"{self.name}-")
        queues = [
            message.queue
            for message in self.account.sqs.snapshot()
            if message.queue.startswith(prefixes)
        ]
        return [*queues, *(item["lane"]["S"] for item in self.waiting())]

    # What a person does.

    @property
    def breaker(self) -> DynamoDBBreaker:
        dynamodb: Any = self.account.dynamodb
        nothing: Any = None
        clients = Clients(nothing, nothing, dynamodb, dynamodb, nothing, nothing)
        return Stores(self.pipeline, self.resources, clients, self._world).breaker

    @property
    def _world(self) -> World:
        return World(
            clock=self.account.clock,
            wait=self.account.clock.advance,
            new_id=self.account.new_id,
            random=Random(5),
        )

    def trip(self) -> None:
        """Open the circuit, as too many failures do; the next probe is far away."""
        self.account.probing = False
        self.breaker.apply(self.name, Tripped())

    def hold_circuit(self, days: float = 60) -> None:
        """A person holds the circuit open."""
        until = self.account.clock() + days * DAY
        override = Override(State.OPEN, "ann", "an incident", until)
        self.breaker.apply(self.name, OverrideBegun(override))

    def redrive(self, **event: Any) -> Any:
        """Start a run by hand; returns its report."""
        return self.account.start(self.function("redrive"), event)

    def add_rule(self, rule_id: str, *, pipeline: str = "", **columns: str | int) -> None:
        """Type a rule into the table."""
        item = {"pipeline": {"S": pipeline or self.name}, "rule_id": {"S": rule_id}}
        item |= {
            name: {"N": str(value)} if isinstance(value, int) else {"S": value}
            for name, value in columns.items()
        }
        self.account.dynamodb.put_item(TableName=f"{self.app}-rules", Item=item)
        self._note_edit(item["pipeline"]["S"])

    def delete_rule(self, rule_id: str, *, pipeline: str = "") -> None:
        """Delete a rule from the table."""
        key = {"pipeline": {"S": pipeline or self.name}, "rule_id": {"S": rule_id}}
        self.account.dynamodb.delete_item(TableName=f"{self.app}-rules", Key=key)
        self._note_edit(key["pipeline"]["S"])

    def _note_edit(self, pipeline: str) -> None:
        """Tell routers that rules have changed, as the rule checker does within seconds."""
        client: Any = self.account.dynamodb
        versions = DynamoDBBookVersions(client, self.resources.messages_table)
        versions.write(pipeline, f"{self.account.elapsed}")

    # What the pager did.

    def pages(self, since: float = 0.0) -> list[tuple[float, str]]:
        """Each page so far: minutes since the deployment, and the alarm's name."""
        prefix = f"{self.app}-{self.name}-"
        return [
            ((change.at - self.account.began) / MINUTE, change.alarm.removeprefix(prefix))
            for change in self.account.cloudwatch.pages
            if change.alarm.startswith(prefix) and change.at > since
        ]

    def pages_of_app(self) -> list[float]:
        """Each page about what all pipelines share: minutes since the deployment."""
        name = f"{self.app}-{Alarm.SHARED_TROUBLE}"
        pages = self.account.cloudwatch.pages
        return [(each.at - self.account.began) / MINUTE for each in pages if each.alarm == name]

    def alarming(self) -> list[str]:
        """The alarms of this pipeline that are in state ALARM."""
        prefix = f"{self.app}-{self.name}-"
        return [
            name.removeprefix(prefix)
            for name in self.account.cloudwatch.alarming
            if name.startswith(prefix)
        ]
