"""A pipeline of queues and a function of yours makes and changes nothing of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import aws_cdk as cdk
import pytest
from aws_cdk import aws_sqs as sqs

from deadletter.contract import Mode
from infra import DeadletterApp, PipelineSettings, RedrivePipeline
from infra.context import read
from infra.environment import runtime_settings
from tests.each_row import each_row
from tests.infra.conftest import ARN
from tests.infra.templates import Stack, Synthesis, filled

THEIRS = ("their-main", "their-dlq", "their-consumer")

# What CloudFormation does to a resource stands in one of these; the rest only names it.
CHANGES_QUEUES = ("AWS::SQS::Queue", "AWS::SQS::QueuePolicy", "AWS::SQS::QueueInlinePolicy")
CHANGES_FUNCTIONS = (
    "AWS::Lambda::EventSourceMapping",
    "AWS::Lambda::Permission",
    "AWS::Lambda::EventInvokeConfig",
)


def stacks(app: Synthesis) -> list[Stack]:
    return [app["Deadletter-Theirs"], app["Deadletter-Theirs-Queues"]]


def test_of_queues_the_parking_lot_is_made_and_nothing_else(app: Synthesis) -> None:
    made = [queue for stack in stacks(app) for queue in stack.of("AWS::SQS::Queue").values()]
    names = [filled(queue["Properties"]["QueueName"]) for queue in made]
    assert names == ["deadletter-theirs-parking"]


def test_nothing_that_changes_a_queue_or_a_function_names_one_of_yours(app: Synthesis) -> None:
    looked = 0
    for stack in app.stacks.values():
        for kind in (*CHANGES_QUEUES, *CHANGES_FUNCTIONS):
            for key, resource in stack.of(kind).items():
                looked += 1
                said = json.dumps(resource["Properties"])
                assert [name for name in THEIRS if name in said] == [], f"{stack.name}/{key}"
    assert looked > 10


def test_no_custom_resource_and_no_trigger_is_given_a_queue_of_yours(app: Synthesis) -> None:
    for stack in stacks(app):
        for key, resource in stack.resources.items():
            if resource["Type"].startswith("Custom::"):
                said = json.dumps(resource["Properties"])
                assert [name for name in THEIRS if name in said] == [], key


MAIN, DLQ = ({"arn": ARN.format("sqs", name)} for name in ("orders", "orders-dlq"))


@each_row(
    ("queues", "mode"),
    [
        ({}, Mode.ENFORCE),
        ({"main_queue": MAIN, "dlq": DLQ}, Mode.OBSERVE),
        ({"main_queue": MAIN}, Mode.OBSERVE),
        ({"dlq": DLQ}, Mode.OBSERVE),
        ({"main_queue": {"retention": "2d"}}, Mode.ENFORCE),
    ],
)
def test_a_queue_of_yours_is_observed_until_a_person_writes_enforce(
    queues: dict[str, Any], mode: Mode
) -> None:
    [pipeline] = read({"pipelines": [{"name": "orders", **queues}]}).pipelines
    assert pipeline.mode == mode
    # What is not said to the functions is enforce there.
    assert runtime_settings(pipeline).get("mode", "enforce") == mode
    for written in Mode:
        [pipeline] = read({"pipelines": [{"name": "orders", "mode": written, **queues}]}).pipelines
        assert pipeline.mode == written


def settings(**more: Any) -> PipelineSettings:
    return {"name": "orders", "consumer": "none", **more}  # type: ignore[typeddict-item]


def made_here(stack: cdk.Stack) -> dict[str, Any]:
    dead = sqs.Queue(stack, "Dead")
    dead_letters = sqs.DeadLetterQueue(queue=dead, max_receive_count=5)
    return {"main_queue": sqs.Queue(stack, "New", dead_letter_queue=dead_letters)}


def imported(stack: cdk.Stack) -> dict[str, Any]:
    return {
        argument: sqs.Queue.from_queue_arn(stack, argument, queue["arn"])
        for argument, queue in (("main_queue", MAIN), ("dlq", DLQ))
    }


def only_a_dlq(stack: cdk.Stack) -> dict[str, Any]:
    return {"dlq": sqs.Queue.from_queue_arn(stack, "dlq", DLQ["arn"])}


def none(stack: cdk.Stack) -> dict[str, Any]:
    return {}


@pytest.mark.parametrize(
    ("queues", "names"),
    [
        (made_here, ["Shop/Dead", "Shop/New"]),
        (imported, ["orders-dlq", "orders"]),
        (only_a_dlq, ["orders-dlq"]),
        (none, []),
    ],
)
def test_the_construct_observes_queues_of_yours_and_says_a_line_for_each_in_enforce(
    queues: Callable[[cdk.Stack], dict[str, Any]], names: list[str]
) -> None:
    for mode in (None, *Mode):
        app = cdk.App(context={"aws:cdk:bundling-stacks": []})
        stack = cdk.Stack(app, "Shop")
        written = settings() if mode is None else settings(mode=mode)
        pipeline = RedrivePipeline(
            stack,
            "Pipeline",
            settings=written,
            shared=DeadletterApp(stack, "Deadletter"),
            **queues(stack),
        )
        unwritten = Mode.OBSERVE if names else Mode.ENFORCE
        assert pipeline.settings.mode == (mode or unwritten)
        lines = [str(said.data) for said in pipeline.node.metadata if said.type == "aws:cdk:info"]
        expected = names if pipeline.settings.mode == Mode.ENFORCE else []
        assert [name in line for name, line in zip(expected, lines, strict=True)] == [
            True for _ in expected
        ], lines
