"""The app: one stack for what pipelines share, and two a pipeline.

Resources that hold data (tables, bucket, queues) are apart from those that can be deleted
and made again. Thirty pipelines are 61 stacks, each far from CloudFormation's limit
of 500 resources, and each role names one pipeline's queues only.
"""

from __future__ import annotations

import aws_cdk as cdk
from constructs import Construct

from deadletter.contract import DEFAULT_PARKING

from .names import pascal_case
from .pipeline import RedrivePipeline
from .queues import Queues
from .settings import AppDeployment, PipelineDeployment
from .shared import DeadletterApp
from .tagged import TAG


def _shared(scope: Construct, app: AppDeployment) -> DeadletterApp:
    """What all pipelines share, in a stack of its own."""
    stack = cdk.Stack(
        scope,
        shared_stack(app),
        description=f"What the pipelines of {app.app} share",
        termination_protection=not app.ephemeral,
    )
    # The CDK leaves an id of this name out of logical ids.
    shared = DeadletterApp(stack, "Default", settings=app)
    storage = shared.storage
    cdk.CfnOutput(stack, "MessagesTableName", value=storage.messages.table_name)
    cdk.CfnOutput(stack, "RulesTableName", value=storage.rules.table_name)
    cdk.CfnOutput(stack, "CircuitsTableName", value=storage.circuits.table_name)
    return shared


def _pipeline(
    scope: Construct, app: AppDeployment, settings: PipelineDeployment, shared: DeadletterApp
) -> None:
    """The queues of a pipeline in one stack, its functions, schedules and alarms in another."""
    of_queues, of_the_rest = pipeline_stacks(app, settings)
    name = pascal_case(settings.name)
    home = cdk.Stack(
        scope,
        of_queues,
        description=f"The queues of {settings.name}",
        termination_protection=not app.ephemeral,
    )
    queues = Queues(home, "Queues", settings=settings, app=app)
    cdk.CfnOutput(home, f"{name}MainQueueUrl", value=queues.main.url)
    cdk.CfnOutput(home, f"{name}DlqUrl", value=queues.dlq.url)
    cdk.CfnOutput(home, f"{name}ParkingLotUrl", value=queues.parking[DEFAULT_PARKING].url)
    stack = cdk.Stack(scope, of_the_rest, description=f"Heals the pipeline {settings.name}")
    made = RedrivePipeline(stack, "Pipeline", settings=settings, shared=shared, queues=queues)
    breaker, replays = made.circuit_breaker.state_machine, made.replay.state_machine
    cdk.CfnOutput(stack, f"{name}CircuitBreakerArn", value=breaker.state_machine_arn)
    cdk.CfnOutput(stack, f"{name}ReplayMachineArn", value=replays.state_machine_arn)
    if policy := made.consumer_policy:
        output = f"{name}ConsumerPolicyArn"
        cdk.CfnOutput(stack, output, value=policy.arn, description=policy.attach)
    for tagged in (home, stack):
        cdk.Tags.of(tagged).add("pipeline", settings.name)


def shared_stack(app: AppDeployment) -> str:
    """The id of the stack for what pipelines share."""
    return f"{pascal_case(app.app)}-Shared"


def pipeline_stacks(app: AppDeployment, pipeline: PipelineDeployment) -> tuple[str, str]:
    """The ids of a pipeline's two stacks: that of its queues, and that of the rest."""
    stack = f"{pascal_case(app.app)}-{pascal_case(pipeline.name)}"
    return f"{stack}-Queues", stack


def build(scope: cdk.App, app: AppDeployment) -> None:
    """Put the stacks of the whole app into `scope`."""
    shared = _shared(scope, app)
    for settings in app.pipelines:
        _pipeline(scope, app, settings, shared)
    shared.complete()
    for key, value in {"app": app.app, TAG: app.app}.items():
        cdk.Tags.of(scope).add(key, value)
