"""Steps that only the memory clients can take, and their account.

They go with the steps of the contract suites: `Step` is one on SQS, `db.Step` one on DynamoDB,
`LambdaStep` one on Lambda.
"""

from __future__ import annotations

import base64
import itertools
import json
from collections.abc import Callable
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ParamValidationError

from deadletter.aws.table import equals
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import Consumed, MemoryDynamoDB, MemoryLambda, MemoryS3, MemorySqs
from deadletter.testing.fakes.attribute_values import size_of_item
from tests.aws import dynamodb_steps as db
from tests.aws.backends import Aws
from tests.aws.dynamodb_steps import s
from tests.aws.rows import refusal
from tests.aws.sqs_steps import Scene, Step, holds
from tests.tables import create_keyed_table

LambdaStep = Callable[[MemoryLambda], object]


def counted() -> Callable[[], str]:
    count = itertools.count(1)
    return lambda: f"id-{next(count)}"


def account(*, seed: int | None = None, lagging_indexes: bool = False) -> Aws:
    """The memory clients, made with these options; a long poll moves their clock."""
    clock = Clock()
    random = None if seed is None else Random(seed)
    sqs = MemorySqs(clock, counted(), random=random, on_wait=clock.advance)
    dynamodb = MemoryDynamoDB(clock, lagging_indexes=lagging_indexes)
    indexes, included = {"lanes": ("lane",)}, {"lanes": ("note",)}
    create_keyed_table(dynamodb, "messages", ("pk", "sk"), indexes, included=included)
    return Aws("memory", sqs, dynamodb, MemoryS3(clock), clock)


# SQS.


def take(**arguments: Any) -> Step:
    """Receive up to ten messages, whatever they are."""
    return lambda scene: scene.received.extend(scene.aws.receive(scene.url, **arguments))


def bodies(scene: Scene) -> list[str]:
    return [message["Body"] for message in scene.received]


def source(name: str, dead: str, limit: object = 1) -> Step:
    """A queue whose messages move to a dead-letter queue after so many receives."""

    def create(scene: Scene) -> None:
        arn = scene.aws.arn(scene.urls[dead])
        policy = {"deadLetterTargetArn": arn, "maxReceiveCount": limit}
        scene.create(name, RedrivePolicy=json.dumps(policy))

    return create


def left(*states: str) -> Step:
    """The messages that all queues still hold are in these states."""
    return holds(lambda scene: [m.state for m in scene.aws.sqs.snapshot()] == [*states])


def malformed(operation: str, **arguments: Any) -> Step:
    """boto3 refuses these arguments before anything is sent."""

    def step(scene: Scene) -> None:
        with pytest.raises(ParamValidationError):
            getattr(scene.aws.sqs, operation)(QueueUrl=scene.url, **arguments)

    return step


def resurrect(scene: Scene) -> None:
    """The first message that was sent comes back after its deletion."""
    scene.aws.sqs.resurrect(scene.sent[0]["MessageId"])


def cannot_resurrect(scene: Scene) -> None:
    with pytest.raises(KeyError):
        resurrect(scene)


def redeliver(scene: Scene) -> None:
    """The first message that was sent is delivered again while it is in flight."""
    scene.aws.sqs.redeliver(scene.sent[0]["MessageId"])


def same_message(scene: Scene) -> bool:
    """Every receive showed the message that was sent first."""
    return {message["MessageId"] for message in scene.received} == {scene.sent[0]["MessageId"]}


# DynamoDB.


def unsent(step: db.Step) -> db.Step:
    """boto3 refuses these arguments before anything is sent."""

    def refuse(aws: Aws) -> None:
        with pytest.raises(ParamValidationError):
            step(aws)

    return refuse


def lane(**arguments: Any) -> db.Step:
    """A query of the index."""
    return db.query(equals("lane", "due"), IndexName="lanes", **arguments)


def in_lane(*items: dict[str, Any]) -> db.Step:
    """The index shows these items."""
    return db.answers(lane(), Items=[*items])


def settle(aws: Aws) -> None:
    """The indexes catch up with their table."""
    aws.dynamodb.settle()


def passes(seconds: float) -> db.Step:
    return lambda aws: aws.clock.advance(seconds)


def table_size(size: int) -> db.Step:
    """The items of the table have so many bytes."""

    def compare(aws: Aws) -> None:
        assert sum(map(size_of_item, aws.dynamodb.items("messages"))) == size

    return compare


def filling(size: int) -> db.Step:
    """Put an item of so many bytes in all; key and attribute name have seven."""
    return db.put(x=s("x" * (size - 7)))


def written(units: int) -> Consumed:
    return Consumed(write_requests=1, write_units=units)


def was_read(units: float) -> Consumed:
    return Consumed(read_requests=1, read_units=units)


# Lambda.


def echo(event: Any, context: Any) -> Any:
    return {"got": event, "in": context.function_name}


def fails(event: Any, context: Any) -> Any:
    raise LookupError("no rules")


def payload(answer: dict[str, Any]) -> Any:
    return json.loads(answer["Payload"].read())


def invoked(expected: Any, error: str | None = None, **arguments: Any) -> LambdaStep:
    """An invocation answers with this payload, and perhaps with an error of the function."""

    def step(functions: MemoryLambda) -> None:
        answer = functions.invoke(**{"FunctionName": "route", **arguments})
        assert (answer["StatusCode"], answer.get("FunctionError")) == (200, error)
        found = payload(answer)
        assert expected(found) if callable(expected) else found == expected

    return step


def turned_away(code: str, **arguments: Any) -> LambdaStep:
    def step(functions: MemoryLambda) -> None:
        assert refusal(functions.invoke, **{"FunctionName": "route", **arguments}) == code

    return step


def filled(size: int) -> bytes:
    """A text in JSON of so many bytes."""
    return b'"' + b"x" * (size - 2) + b'"'


def caller(size: int) -> str:
    """A client context of so many bytes, a multiple of four."""
    return base64.b64encode(b'{"custom": {}}'.ljust(size * 3 // 4)).decode()
