"""A state machine of ours, with a role that has exactly the listed permissions."""

from __future__ import annotations

import json
from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_logs as logs
from aws_cdk import aws_stepfunctions as sfn
from constructs import Construct

from . import files
from .encryption import customer_key
from .findings import acknowledge
from .function import RETENTION
from .permissions import Permissions, grant_traces
from .settings import AppSettings

# Log groups with this prefix do not count towards a limit of 5,120 characters of CloudWatch
# Logs' resource policy, which all state machines of a region share.
LOG_FOLDER = "/aws/vendedlogs/states"

# What Step Functions needs to send an execution's log to a log group.
DELIVER_LOGS = (
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
    *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
    *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
)


def add_state_machine(
    scope: Construct,
    *,
    name: str,
    comment: str,
    definition: str,
    substitutions: Mapping[str, str],
    permissions: Permissions,
    app: AppSettings,
    because: str,
) -> sfn.StateMachine:
    """Add the state machine in the file `definition` to `scope`, with its role and log group.

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
    # None of these actions can be limited to a resource.
    permissions.allow("Logs", DELIVER_LOGS, ["*"])
    grant_traces(permissions, sampling=True)
    role = iam.Role(
        scope,
        "Role",
        assumed_by=iam.ServicePrincipal(
            "states.amazonaws.com",
            # State machines of other accounts may not assume this role.
            conditions={"StringEquals": {"aws:SourceAccount": Aws.ACCOUNT_ID}},
        ),
        description=f"What {name} may do",
        inline_policies={"Permissions": permissions.document()},
    )
    acknowledge(
        role,
        "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
        because="neither X-Ray's actions nor the delivery of logs know resources",
    )
    state_machine = sfn.StateMachine(
        scope,
        "StateMachine",
        state_machine_name=name,
        comment=comment,
        state_machine_type=sfn.StateMachineType.STANDARD,
        definition_body=sfn.DefinitionBody.from_string(definition_in(definition)),
        definition_substitutions={"Partition": Aws.PARTITION, **substitutions},
        role=role.without_policy_updates(),
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
