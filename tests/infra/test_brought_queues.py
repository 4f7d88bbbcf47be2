"""A pipeline of queues and a function of yours makes and changes nothing of them."""

from __future__ import annotations

import json

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
