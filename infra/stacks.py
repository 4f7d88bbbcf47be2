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


class SharedStack(cdk.Stack):
    """What all pipelines share, in a stack of its own."""

    def __init__(self, scope: Construct, construct_id: str, *, app: AppDeployment) -> None:
        super().__init__(
            scope,
            construct_id,
            description=f"What the pipelines of {app.app} share",
            termination_protection=not app.ephemeral,
        )
        # The CDK leaves an id of this name out of logical ids.
        self.shared = DeadletterApp(self, "Default", settings=app)
        storage = self.shared.storage
        cdk.CfnOutput(self, "MessagesTableName", value=storage.messages.table_name)
        cdk.CfnOutput(self, "RulesTableName", value=storage.rules.table_name)
        cdk.CfnOutput(self, "CircuitsTableName", value=storage.circuits.table_name)


class QueuesStack(cdk.Stack):
    """The queues of one pipeline."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: AppDeployment,
        settings: PipelineDeployment,
    ) -> None:
        super().__init__(
            scope,
            construct_id,
            description=f"The queues of {settings.name}",
            termination_protection=not app.ephemeral,
        )
        self.queues = Queues(self, "Queues", settings=settings, app=app)
        name = pascal_case(settings.name)
        parking = self.queues.parking[DEFAULT_PARKING]
        cdk.CfnOutput(self, f"{name}MainQueueUrl", value=self.queues.main.url)
        cdk.CfnOutput(self, f"{name}DlqUrl", value=self.queues.dlq.url)
        cdk.CfnOutput(self, f"{name}ParkingLotUrl", value=parking.url)


class PipelineStack(cdk.Stack):
    """The functions, schedules and alarms of one pipeline."""

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineDeployment,
        shared: DeadletterApp,
        queues: Queues,
    ) -> None:
        super().__init__(scope, construct_id, description=f"Heals the pipeline {settings.name}")
        self.pipeline = RedrivePipeline(
            self, "Pipeline", settings=settings, shared=shared, queues=queues
        )
        name = pascal_case(settings.name)
        breaker = self.pipeline.circuit_breaker.state_machine
        cdk.CfnOutput(self, f"{name}CircuitBreakerArn", value=breaker.state_machine_arn)
        replays = self.pipeline.replay.state_machine
        cdk.CfnOutput(self, f"{name}ReplayMachineArn", value=replays.state_machine_arn)
        if policy := self.pipeline.consumer_policy:
            cdk.CfnOutput(
                self, f"{name}ConsumerPolicyArn", value=policy.arn, description=policy.attach
            )


def shared_stack(app: AppDeployment) -> str:
    """The id of the stack for what pipelines share."""
    return f"{pascal_case(app.app)}-Shared"


def pipeline_stacks(app: AppDeployment, pipeline: PipelineDeployment) -> tuple[str, str]:
    """The ids of a pipeline's two stacks: that of its queues, and that of the rest."""
    stack = f"{pascal_case(app.app)}-{pascal_case(pipeline.name)}"
    return f"{stack}-Queues", stack


def build(scope: cdk.App, app: AppDeployment) -> None:
    """Put the stacks of the whole app into `scope`."""
    shared = SharedStack(scope, shared_stack(app), app=app)
    for settings in app.pipelines:
        of_queues, of_the_rest = pipeline_stacks(app, settings)
        own = QueuesStack(scope, of_queues, app=app, settings=settings)
        stack = PipelineStack(
            scope,
            of_the_rest,
            settings=settings,
            shared=shared.shared,
            queues=own.queues,
        )
        for tagged in (own, stack):
            cdk.Tags.of(tagged).add("pipeline", settings.name)
    shared.shared.complete()
    for key, value in {"app": app.app, TAG: app.app}.items():
        cdk.Tags.of(scope).add(key, value)
