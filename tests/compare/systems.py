"""Two ways to process a message once, each with the same queue, table, clock and handler.

powertools   Powertools' batch processor, its record handler wrapped in idempotent_function, its
             rows in DynamoDB, the Lambda context registered, as its documentation shows
deadletter   the consumer library
"""

from __future__ import annotations

import datetime
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

from aws_lambda_powertools.utilities.batch import (
    BatchProcessor,
    EventType,
    SqsFifoPartialProcessor,
    process_partial_response,
)
from aws_lambda_powertools.utilities.idempotency import (
    DynamoDBPersistenceLayer,
    IdempotencyConfig,
)
from aws_lambda_powertools.utilities.idempotency import base as handler_module
from aws_lambda_powertools.utilities.idempotency.idempotency import idempotent_function
from aws_lambda_powertools.utilities.idempotency.persistence import base, datarecord, dynamodb
from botocore.exceptions import ClientError

from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox

TABLE = "idempotency"

LONG_ENOUGH = 200.0
"""Seconds after which a message that was not acknowledged is visible again."""

Work = Callable[[dict[str, Any]], object]


class Killed(BaseException):
    """The process ends here: nothing after this line runs."""


class Faulty:
    """A DynamoDB client that may fail, or make a call twice as the SDK does for a lost answer."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.fails = False
        self.loses_answers = False
        self.calls = 0

    def __getattr__(self, name: str) -> Any:
        act = getattr(self._inner, name)
        if not callable(act):
            return act

        def call(**options: Any) -> Any:
            self.calls += 1
            if self.fails:
                response = {"Error": {"Code": "ServiceUnavailable", "Message": "not now"}}
                raise ClientError(response, name)
            if self.loses_answers and name != "get_item":
                with suppress(ClientError):
                    act(**options)
            return act(**options)

        return call


def unwrapped(body: dict[str, Any]) -> dict[str, Any]:
    """The order in a body that may be SNS's or EventBridge's, as the handler takes it out."""
    if "TopicArn" in body:
        order: dict[str, Any] = json.loads(body["Message"])
        return order
    return dict(body["detail"]) if "detail-type" in body else body


class System(ABC):
    """A queue with its consumer. `effects` are the orders whose effect happened, in their order.

    `work` is what the handler does with an order; a case may replace it. `results` are what the
    caller of the guarded function gets, where it has one.
    """

    name = ""

    def __init__(
        self,
        *,
        key: bool = True,
        fifo: bool = False,
        in_first_day: bool = False,
        **settings: Any,
    ) -> None:
        pipeline = Pipeline("orders", fifo=fifo, **self.settings(key=key, **settings))
        self.box = Letterbox(pipeline, in_first_day=in_first_day)
        self.clock = self.box.clock
        self.table = Faulty(self.box.dynamodb)
        store: Any = self.table
        self.box.dynamodb = store
        self.effects: list[str] = []
        self.work: Work = self.do
        self.results: list[object] = []
        self.keyed = key
        self.fifo = fifo

    def settings(self, *, key: bool, **_: Any) -> dict[str, Any]:
        """The pipeline's settings."""
        return {}

    def do(self, order: dict[str, Any]) -> None:
        """The effect."""
        self.effects.append(str(order["orderId"]))

    def send(self, order: dict[str, Any], group: str | None = None) -> str:
        """Publish an order."""
        return self.box.send(order, group=group)

    @abstractmethod
    def redrive(self, order: dict[str, Any], origin: str) -> None:
        """The letter `origin` comes back from the DLQ, as a copy with an id of its own."""

    def run(self) -> None:
        """One batch. What a killed or failed invocation had comes back, as with Lambda."""
        with self.patched(), suppress(Exception, Killed):
            self.box.run(self.handler)

    def settle(self, rounds: int = 12) -> None:
        """Run until the queue is empty, as time passes."""
        for _ in range(rounds):
            if not self.box.waiting:
                return
            self.run()
            self.clock.advance(LONG_ENOUGH)

    @property
    def end(self) -> str:
        """What became of the messages."""
        if self.box.parked:
            return f"parked as {self.box.parked[0].stamp.reason}"
        if self.box.dead:
            return "in the DLQ"
        return "still in the queue" if self.box.waiting else "all acknowledged"

    @abstractmethod
    def call_directly(self, order: dict[str, Any]) -> None:
        """The handler is called without a queue, as by an API."""

    @abstractmethod
    def handler(self, event: Any, context: Any) -> Any:
        """The Lambda handler."""

    @contextmanager
    def patched(self) -> Iterator[None]:
        """The system with the clock of the case."""
        yield


class Powertools(System):
    """Powertools' batch processor and idempotency."""

    name = "powertools"

    def __init__(
        self,
        *,
        validates: bool = False,
        expires: int = 3600,
        path: str = "order.orderId",
        **options: Any,
    ) -> None:
        super().__init__(**options)
        self.box.dynamodb.create_table(
            TableName=TABLE,
            KeySchema=[{"AttributeName": "id", "KeyType": "HASH"}],
            AttributeDefinitions=[{"AttributeName": "id", "AttributeType": "S"}],
            BillingMode="PAY_PER_REQUEST",
        )
        payload = {"payload_validation_jmespath": "order"} if validates else {}
        self.config = IdempotencyConfig(
            event_key_jmespath=path if self.keyed else "messageId",
            expires_after_seconds=expires,
            raise_on_no_idempotency_key=True,
            **payload,
        )
        client: Any = self.table
        self.store = DynamoDBPersistenceLayer(TABLE, boto3_client=client)

    def redrive(self, order: dict[str, Any], origin: str) -> None:
        self.send(order)

    def call_directly(self, order: dict[str, Any]) -> None:
        with self.patched():
            self.guarded(self.box.context())(data={"order": order})

    def guarded(self, context: Any) -> Callable[..., object]:
        """The handler of one order, guarded."""
        self.config.register_lambda_context(context)

        def consume(data: dict[str, Any]) -> object:
            return self.work(unwrapped(data["order"]))

        function: Callable[..., object] = idempotent_function(
            consume,
            data_keyword_argument="data",
            config=self.config,
            persistence_store=self.store,
        )
        return function

    def handler(self, event: Any, context: Any) -> Any:
        guarded = self.guarded(context)

        def each(record: Any) -> object:
            data = {"messageId": record.message_id, "order": record.json_body}
            self.results.append(guarded(data=data))
            return None

        processor = SqsFifoPartialProcessor() if self.fifo else BatchProcessor(EventType.SQS)
        return process_partial_response(
            event=event, record_handler=each, processor=processor, context=context
        )

    @contextmanager
    def patched(self) -> Iterator[None]:
        clock = self.clock

        def now() -> datetime.datetime:
            return datetime.datetime.fromtimestamp(clock(), tz=datetime.UTC)

        time: Any = SimpleNamespace(datetime=SimpleNamespace(now=now), timedelta=datetime.timedelta)
        with (
            patch.object(handler_module, "dt", time),
            patch.object(base, "dt", time),
            patch.object(datarecord, "dt", time),
            patch.object(dynamodb, "dt", time),
        ):
            yield


class Deadletter(System):
    """The consumer library."""

    name = "deadletter"

    def settings(self, *, key: bool, **settings: Any) -> dict[str, Any]:
        return {**({"idempotency_key": "body.orderId"} if key else {}), **settings}

    def redrive(self, order: dict[str, Any], origin: str) -> None:
        self.box.redrive(order, origin=origin)

    def call_directly(self, order: dict[str, Any]) -> None:
        self.handler({"body": json.dumps(order)}, self.box.context())

    def handler(self, event: Any, context: Any) -> Any:
        consumer = self.box.runtime.consumer
        assert consumer is not None
        guarded = replace(
            consumer, handle=lambda delivery: self.work(unwrapped(json.loads(delivery.letter.body)))
        )
        return guarded.process(event["Records"], deadline=context.deadline).to_response()
