"""Who runs a pipeline's outages, known by its name: whoever trips a circuit starts one."""

from __future__ import annotations

from aws_cdk import Aws
from aws_cdk import aws_iam as iam

from .names import Names
from .settings import AppSettings


def state_machine_arn(app: AppSettings, pipeline: str) -> str:
    """The ARN of the pipeline's circuit breaker; its functions wait for those that name it."""
    name = Names(app.app, pipeline).circuit_breaker
    return f"arn:{Aws.PARTITION}:states:{Aws.REGION}:{Aws.ACCOUNT_ID}:stateMachine:{name}"


def outage_statement(
    app: AppSettings, pipeline: str, *, lists: bool = False
) -> iam.PolicyStatement:
    """Leave to start outages of the pipeline, and if it `lists`, to see which are being run."""
    return iam.PolicyStatement(
        sid="Outages",
        actions=["states:StartExecution", *(["states:ListExecutions"] if lists else [])],
        resources=[state_machine_arn(app, pipeline)],
    )
