"""One statement in another app makes a whole pipeline."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.infra.templates import Stack, filled, read


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Stack:
    """A stack of another app, with two pipelines dropped in."""
    import aws_cdk as cdk

    from infra.pipeline import RedrivePipeline
    from infra.settings import PipelineSettings

    folder: Path = tmp_path_factory.mktemp("theirs")
    app = cdk.App(outdir=str(folder), context={"aws:cdk:bundling-stacks": []})
    stack = cdk.Stack(app, "Shop")
    orders = RedrivePipeline(stack, "Orders", settings=PipelineSettings(name="orders"))
    refunds = RedrivePipeline(
        stack,
        "Refunds",
        settings=PipelineSettings(name="refunds", consumer={"kind": "none"}),
    )
    assert orders.dispatcher
    assert refunds.dispatcher is None
    cdk.CfnOutput(stack, "Redriver", value=orders.redriver.function.function_arn)
    cdk.CfnOutput(stack, "Router", value=orders.router.function.function_arn)
    cdk.CfnOutput(stack, "Main", value=orders.queues.main.url)
    cdk.CfnOutput(stack, "Age", value=orders.alarms["DlqAge"].alarm_arn)
    app.synth()
    return read(folder)["Shop"]


def test_what_is_not_given_is_made_once(theirs: Stack) -> None:
    assert len(theirs.of("AWS::DynamoDB::Table")) == 5
    assert len(theirs.of("AWS::S3::Bucket")) == 1
    assert len(theirs.of("AWS::SNS::Topic")) == 1
    assert len(theirs.of("AWS::SQS::Queue")) == 7
    assert {
        parameter["Properties"]["Name"] for parameter in theirs.of("AWS::SSM::Parameter").values()
    } == {
        *("/deadletter/app", "/deadletter/pipelines/orders", "/deadletter/pipelines/refunds"),
        # Orders has a dispatcher.
        "/deadletter/policies/refunds/consumer",
    }


def test_its_nouns_can_be_used(theirs: Stack) -> None:
    assert set(theirs.outputs) >= {"Redriver", "Router", "Main", "Age"}
    assert theirs.outputs["Main"].endswith("/deadletter-orders-main")


def test_no_resource_waits_for_itself(theirs: Stack) -> None:
    waits = {
        key: _references(resource, set(theirs.resources))
        for key, resource in theirs.resources.items()
    }
    made: set[str] = set()
    while ready := {key for key in waits if key not in made and waits[key] <= made}:
        made |= ready
    assert set(waits) - made == set()


def test_the_mapping_waits_for_its_queue_which_it_knows_by_name_only(theirs: Stack) -> None:
    [mapping] = [
        mapping
        for mapping in theirs.of("AWS::Lambda::EventSourceMapping").values()
        if filled(mapping["Properties"]["EventSourceArn"]).endswith("-main")
    ]
    [main] = [
        key
        for key, queue in theirs.of("AWS::SQS::Queue").items()
        if filled(queue["Properties"]["QueueName"]) == "deadletter-orders-main"
    ]
    assert main in mapping["DependsOn"]


def _references(resource: object, known: set[str]) -> set[str]:
    text = json.dumps(resource)
    return {key for key in known if f'"{key}"' in text}
