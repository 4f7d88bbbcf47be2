"""The starter: the role in which schedules and state machines start the functions of pipelines."""

from __future__ import annotations

from aws_cdk import aws_iam as iam
from constructs import Construct

from deadletter.contract import ANY

from . import here
from .findings import acknowledge_patterns
from .function import function_arn, grant_invoke
from .machines import replay_machine_arn
from .permissions import Permissions, grant_traces
from .settings import AppDeployment

# What it starts in each pipeline.
STARTED = ("redrive", "watch", "circuit", "probe", "replay")

# What Step Functions needs to send an execution's log to a log group.
DELIVER_LOGS = (
    *("logs:CreateLogDelivery", "logs:GetLogDelivery", "logs:UpdateLogDelivery"),
    *("logs:DeleteLogDelivery", "logs:ListLogDeliveries", "logs:PutResourcePolicy"),
    *("logs:DescribeResourcePolicies", "logs:DescribeLogGroups"),
)


class Starter(Construct):
    """One role for the schedules and state machines of all pipelines.

    It reaches no letter: it can start functions of the app, and executions of replay runs. One a
    pipeline, or one a schedule, would say the same in a hundred or four hundred roles, of the
    thousand that an account has. Its name is fixed, because pipelines lie in other stacks.
    """

    def __init__(self, scope: Construct, construct_id: str, *, app: AppDeployment) -> None:
        super().__init__(scope, construct_id)
        permissions = Permissions()
        functions = [function_arn(app, ANY, role) for role in STARTED]
        grant_invoke(permissions, "Functions", *functions)
        machine = replay_machine_arn(app, ANY)
        # The children of a Distributed Map are executions of the machine itself.
        permissions.allow("Workers", ["states:StartExecution"], [machine])
        children = machine.replace(":stateMachine:", ":execution:") + f":{ANY}"
        watched = ["states:DescribeExecution", "states:StopExecution"]
        permissions.allow("WorkersUnderWay", watched, [children])
        # None of these actions can be limited to a resource.
        permissions.allow("Logs", DELIVER_LOGS, ["*"])
        grant_traces(permissions, sampling=True)
        # Schedules and state machines of other accounts may not assume this role.
        ours = {"StringEquals": {"aws:SourceAccount": here.ACCOUNT_ID}}
        role = iam.Role(
            self,
            "Role",
            role_name=f"{_name(app)}-{here.REGION}",
            assumed_by=iam.CompositePrincipal(
                *(
                    iam.ServicePrincipal(f"{service}.amazonaws.com", conditions=ours)
                    for service in ("scheduler", "states")
                )
            ),
            description=f"Starts the functions and runs of {app.app}",
            inline_policies={"Permissions": permissions.document()},
        )
        acknowledge_patterns(
            role,
            "*",
            because="neither X-Ray's actions nor the delivery of logs know resources",
        )
        acknowledge_patterns(
            role,
            *(*functions, machine, children),
            because="the functions and runs of all pipelines: a role for each would take a tenth"
            " of what an account has",
        )


def starter_arn(app: AppDeployment) -> str:
    """The ARN of the starter, by its name: it lies in another stack than its pipelines."""
    home = f"arn:{here.PARTITION}:iam::{here.ACCOUNT_ID}:role"
    return f"{home}/{_name(app)}-{here.REGION}"


def _name(app: AppDeployment) -> str:
    return f"{app.app}-starter"
