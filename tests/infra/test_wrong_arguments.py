"""What does not fit together in a CDK app is refused in one sentence that names it.

Nothing is synthesized here: an argument is refused before anything is made of it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_kms as kms
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs

from infra import DeadletterApp, PipelineSettings, RedrivePipeline, Refused

QUEUE_ARN = "arn:aws:sqs:eu-west-1:111122223333:orders"


@pytest.fixture(scope="module")
def stack() -> cdk.Stack:
    app = cdk.App(context={"aws:cdk:bundling-stacks": []})
    stack = cdk.Stack(app, "Shop", env=cdk.Environment(account="111122223333", region="eu-west-1"))
    failed = sqs.Queue(stack, "Failed")
    dead = sqs.DeadLetterQueue(queue=failed, max_receive_count=5)
    sqs.Queue(stack, "Orders", dead_letter_queue=dead)
    sqs.Queue(stack, "Alone")
    named = kms.Alias.from_alias_name(stack, "Named", "alias/shop")
    sqs.Queue(stack, "Sealed", dead_letter_queue=dead, encryption_master_key=named)
    return stack


def function(stack: cdk.Stack, construct_id: str) -> lambda_.Function:
    return lambda_.Function(
        stack,
        construct_id,
        runtime=lambda_.Runtime.PYTHON_3_13,
        handler="index.handler",
        code=lambda_.Code.from_inline("def handler(event, context): ..."),
    )


def child(name: str) -> Callable[[cdk.Stack], Any]:
    return lambda stack: stack.node.find_child(name)


def always(value: object) -> Callable[[cdk.Stack], Any]:
    return lambda _stack: value


WRONG: dict[str, tuple[dict[str, Callable[[cdk.Stack], Any]], str]] = {
    "no DLQ": ({"main_queue": child("Alone")}, "a queue with a dead_letter_queue"),
    "no DLQ of its own": (
        {"main_queue": child("Alone"), "dlq": child("Failed")},
        'main_queue is "Shop/Alone"; allowed: a queue with a dead_letter_queue',
    ),
    "swapped": (
        {"main_queue": child("Failed"), "dlq": child("Orders")},
        'main_queue is "Shop/Failed"',
    ),
    "an ARN": ({"main_queue": always(QUEUE_ARN)}, 'main_queue is "of type str"; allowed: a queue'),
    "the policy of a queue": (
        {
            "dlq": lambda stack: sqs.DeadLetterQueue(
                queue=child("Failed")(stack), max_receive_count=5
            )
        },
        'dlq is "of type DeadLetterQueue"',
    ),
    "a number": ({"consumer": always(7)}, 'or "none"'),
    "a class": ({"consumer": always(lambda_.Function)}, 'consumer is "of type Function'),
    "the id of a mapping": ({"consumer_mapping": always("1a2b")}, "allowed: an EventSourceMapping"),
    "settings as a text": (
        {"settings": always("orders")},
        'settings is "of type str"; allowed: PipelineSettings(...)',
    ),
    "an alias of a key": (
        {"main_queue": child("Sealed")},
        'the key of Shop/Sealed is "the alias Shop/Named"; allowed: the key behind it',
    ),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_argument_is_one_sentence(stack: cdk.Stack, wrong: str) -> None:
    arguments, said = WRONG[wrong]
    made = {name: make(stack) for name, make in arguments.items()}
    with pytest.raises(Refused) as refused:
        RedrivePipeline(stack, wrong.title().replace(" ", ""), **made)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


def test_an_alias_is_no_key_of_the_app(stack: cdk.Stack) -> None:
    with pytest.raises(Refused, match=r"App deadletter: key is .* allowed: the key behind it"):
        DeadletterApp(stack, "Aliased", key=child("Named")(stack))


def test_a_pipeline_and_what_it_shares_are_in_one_region(stack: cdk.Stack) -> None:
    there = cdk.Stack(
        cdk.App(), "There", env=cdk.Environment(account="111122223333", region="us-east-1")
    )
    with pytest.raises(
        Refused, match=r"shared is .* allowed: one in region us-east-1, not eu-west-1"
    ):
        RedrivePipeline(there, "Far", shared=DeadletterApp(stack, "Here"), consumer="none")


def test_a_function_consumes_one_pipeline(stack: cdk.Stack) -> None:
    home = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Home")
    ship = function(home, "Ship")
    library: dict[str, Any] = {"consumer": "none", "consumer_library": True}
    RedrivePipeline(home, "Orders", **library).grant_consume(ship)
    payments = RedrivePipeline(home, "Payments", **library)
    with pytest.raises(
        Refused, match="Home/Ship consumes deadletter/orders; allowed: a function of"
    ):
        payments.grant_consume(ship)


def test_an_alias_of_a_function_switches_the_function_on(stack: cdk.Stack) -> None:
    home = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Home")
    ship = function(home, "Ship")
    pipeline = RedrivePipeline(home, "Orders", consumer="none", consumer_library=True)
    pipeline.grant_consume(ship.add_alias("live"))
    [claim] = [entry.data for entry in ship.node.metadata if entry.type == "deadletter:consumes"]
    assert claim == "deadletter/orders"


def test_the_queues_of_a_pipeline_are_queues_of_the_cdk(stack: cdk.Stack) -> None:
    made = RedrivePipeline(
        cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Made"),
        "Orders",
        settings=PipelineSettings(name="orders"),
    )
    assert made.main_queue.queue_arn != made.dlq.queue_arn
    assert made.main_queue.node.path.startswith("Made/Orders/Queues/")
    brought = RedrivePipeline(
        cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Brought"),
        "Orders",
        settings=PipelineSettings(name="orders", main_queue={"arn": QUEUE_ARN}, consumer="none"),
    )
    assert brought.main_queue.queue_arn == QUEUE_ARN
    assert brought.main_queue is brought.main_queue
    assert brought.dlq.node.path.startswith("Brought/Orders/Queues/")


def test_a_pipeline_stands_in_a_nested_stack(stack: cdk.Stack) -> None:
    home = cdk.Stack(cdk.App(context={"aws:cdk:bundling-stacks": []}), "Home")
    shared = DeadletterApp(home, "Deadletter")
    nested = cdk.NestedStack(home, "Nested")
    pipeline = RedrivePipeline(nested, "Orders", shared=shared, consumer="none")
    assert cdk.Stack.of(pipeline.redriver.function) is nested
