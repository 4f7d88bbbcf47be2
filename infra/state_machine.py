"""A state machine of ours, which runs as the app's starter."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from . import files, here
from .encryption import customer_key
from .findings import acknowledge
from .function import RETENTION
from .settings import AppDeployment
from .starter import starter_arn

# Log groups with this prefix do not count towards a limit of 5,120 characters of CloudWatch
# Logs' resource policy, which all state machines of a region share.
LOG_FOLDER = "/aws/vendedlogs/states"


def add_state_machine(
    scope: Construct,
    *,
    name: str,
    comment: str,
    definition: str,
    substitutions: Mapping[str, str],
    app: AppDeployment,
    because: str,
) -> sfn.StateMachine:
    """Add the state machine in the file `definition` to `scope`, with its log group.

    It runs as the app's starter (see `starter`).

    `because` says why its log has errors only.
    """
    log_group = logs.LogGroup(
        scope,
        "Logs",
        log_group_name=f"{LOG_FOLDER}/{name}",
        retention=RETENTION[app.log_retention_days],
        encryption_key=customer_key(scope, app),
        removal_policy=cdk.RemovalPolicy.DESTROY,
    )
    state_machine = sfn.StateMachine(
        scope,
        "StateMachine",
        state_machine_name=name,
        comment=comment,
        state_machine_type=sfn.StateMachineType.STANDARD,
        definition_body=sfn.DefinitionBody.from_string(definition_in(definition)),
        definition_substitutions={"Partition": here.PARTITION, **substitutions},
        # It has all that it needs: nothing is added to it from here.
        role=iam.Role.from_role_arn(scope, "Starter", starter_arn(app), mutable=False),
        logs=sfn.LogOptions(
            destination=log_group, level=sfn.LogLevel.ERROR, include_execution_data=False
        ),
        tracing_enabled=True,
    )
    acknowledge(state_machine, "AwsSolutions::AwsSolutions-SF1", because=because)
    return state_machine


def definition_in(file: str) -> str:
    """The definition in a file, compact, for the partition of the deployment."""
    text = json.dumps(json.loads((files.STATE_MACHINES / file).read_text()), separators=(",", ":"))
    return text.replace('"arn:aws:states:::', '"arn:${Partition}:states:::')
