"""A Lambda function of ours, with a role that has exactly the listed permissions."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cache
from types import MappingProxyType

import aws_cdk as cdk
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from deadletter.contract import Variable

from . import asset, environment, here
from .duration import MINUTE
from .encryption import customer_key
from .findings import acknowledge
from .names import Names
from .permissions import Permissions, grant_traces
from .settings import AppDeployment, PipelineDeployment

RETENTION = {
    1: logs.RetentionDays.ONE_DAY,
    7: logs.RetentionDays.ONE_WEEK,
    14: logs.RetentionDays.TWO_WEEKS,
    30: logs.RetentionDays.ONE_MONTH,
    90: logs.RetentionDays.THREE_MONTHS,
    180: logs.RetentionDays.SIX_MONTHS,
    365: logs.RetentionDays.ONE_YEAR,
    731: logs.RetentionDays.TWO_YEARS,
    1827: logs.RetentionDays.FIVE_YEARS,
    3653: logs.RetentionDays.TEN_YEARS,
}


# What Lambda needs to put a function into a VPC.
NETWORK = (
    *("ec2:CreateNetworkInterface", "ec2:DescribeNetworkInterfaces", "ec2:DeleteNetworkInterface"),
    *("ec2:DescribeSubnets", "ec2:AssignPrivateIpAddresses", "ec2:UnassignPrivateIpAddresses"),
)


class FunctionRole:
    """The role of a function, or of two that do much the same to the same things.

    It is closed: it has the permissions that it was given, and no grant of the CDK's adds to
    them. `sender` is its unique id, which SQS shows in the SenderId of what its functions send.
    """

    construct: iam.Role
    role: iam.IRole
    sender: str

    def __init__(
        self, scope: Construct, construct_id: str, *, description: str, permissions: Permissions
    ) -> None:
        self._grants = [*permissions.grants]
        self._document = permissions.document()
        role = iam.Role(
            scope,
            construct_id,
            assumed_by=_lambda(),
            description=description,
            inline_policies={"Permissions": self._document},
        )
        # For findings that are accepted in what the role allows.
        self.construct = role
        self.sender = role.role_id
        self.role = role.without_policy_updates()

    def allow(self, permissions: Permissions) -> None:
        """Add what the role may not do yet."""
        added = permissions.beyond(self._grants)
        self._grants += added
        self._document.add_statements(*(grant.statement() for grant in added))


class PythonFunction(Construct):
    """One entry point of the asset, its log group, and its role unless it shares another's.

    The role has `permissions`, the log group and traces. `sender` is the role's unique id.
    Without `settings` the function belongs to the whole app. One that is started each minute
    begins no traces ($0.22 a month): it goes on with those of its caller. `reserved` executions
    of the account are kept for it, and it never has more at once.
    """

    function: lambda_.Function
    role: iam.IRole
    log_group: logs.LogGroup
    sender: str

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        name: str,
        handler: str,
        description: str,
        timeout: int,
        memory: int,
        app: AppDeployment,
        permissions: Permissions,
        settings: PipelineDeployment | None = None,
        begins_traces: bool = True,
        reserved: int | None = None,
        variables: Mapping[str, str] = MappingProxyType({}),
        role: FunctionRole | None = None,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._name = name
        self._environment: dict[str, str] = {
            Variable.APP: app.app,
            **{str(name): text for name, text in app.environment.items()},
            **variables,
        }
        if settings:
            self._environment[Variable.PIPELINE] = environment.pipeline(settings)
        self.log_group = logs.LogGroup(
            self,
            "Logs",
            log_group_name=f"/aws/lambda/{name}",
            retention=RETENTION[app.log_retention_days],
            encryption_key=customer_key(self, app),
            removal_policy=cdk.RemovalPolicy.DESTROY,
        )
        # Ends in ":*": Lambda names the streams.
        streams = [self.log_group.log_group_arn]
        permissions.allow("Logs", ["logs:CreateLogStream", "logs:PutLogEvents"], streams)
        grant_traces(permissions)
        if app.vpc:
            # Lambda makes the interfaces of the subnets with the role's permissions, and none of
            # these actions can be limited to an interface before it is there.
            permissions.allow("Network", NETWORK, ["*"])
        if role:
            role.allow(permissions)
        else:
            may = f"What {name} may do"
            role = FunctionRole(self, "Role", description=may, permissions=permissions)
        self.sender, self.role = role.sender, role.role
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=description,
            code=asset.code(self),
            runtime=asset.RUNTIME,
            architecture=lambda_.Architecture.custom(app.architecture),
            handler=handler,
            timeout=cdk.Duration.seconds(timeout),
            memory_size=memory,
            environment={str(name): value for name, value in self._environment.items()},
            role=self.role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            reserved_concurrent_executions=reserved,
            tracing=lambda_.Tracing.ACTIVE if begins_traces else lambda_.Tracing.PASS_THROUGH,
        )
        if app.vpc and isinstance(made := self.function.node.default_child, lambda_.CfnFunction):
            made.vpc_config = lambda_.CfnFunction.VpcConfigProperty(
                subnet_ids=list(app.vpc.subnet_ids),
                security_group_ids=list(app.vpc.security_group_ids),
            )
        # On the pipeline's or the app's construct: a role that is shared lies beside the function.
        acknowledge(
            scope,
            "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
            "Serverless::Serverless-LambdaStarPermissions",
            because="the actions of X-Ray and CloudWatch, listing streams, and network interfaces"
            " to come know no resources",
        )
        acknowledge(
            scope,
            "AwsSolutions::AwsSolutions-L1",
            "Serverless::Serverless-LambdaLatestVersion",
            because="the newest runtime that the tests run on and the wheels are chosen for",
        )
        acknowledge(
            scope,
            "Serverless::Serverless-LambdaDLQ",
            because="an invocation carries nothing that its queue doesn't keep until it is done",
        )
        if not begins_traces:
            acknowledge(
                scope,
                "Serverless::Serverless-LambdaTracing",
                because="it goes on with the traces of its caller: to begin one each minute costs"
                " $0.22 a month",
            )
        if variables:
            self._check()

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add variables to the function's environment; raises Refused if it becomes too large."""
        self._environment |= variables
        self._check()
        for name, value in variables.items():
            self.function.add_environment(str(name), value)

    def _check(self) -> None:
        if self._settings and not environment.surely_fits(self._environment):
            resolved = cdk.Stack.of(self).resolve(self._environment)
            environment.check(self._name, self._settings, resolved)

    def retry_in_the_next_minute(self, *, because: str) -> None:
        """Have Lambda drop an event that it cannot deliver: the next start is the retry."""
        self.function.configure_async_invoke(
            retry_attempts=0, max_event_age=cdk.Duration.seconds(MINUTE)
        )
        acknowledge(self, "Serverless::Serverless-LambdaAsyncFailureDestination", because=because)

    def trust(self, senders: Sequence[str]) -> None:
        """Set the roles whose `Redrive` attribute the function trusts, by their unique ids."""
        self.add_variables({Variable.TRUSTED_SENDERS: json.dumps(list(senders))})


@cache
def _lambda() -> iam.ServicePrincipal:
    return iam.ServicePrincipal("lambda.amazonaws.com")


def function_arn(app: AppDeployment, pipeline: str, role: str) -> str:
    """The ARN of the pipeline's function that plays `role`, by its name.

    By name, because roles of two functions that know each other would make a circle.
    """
    return here.arn("lambda", f"function:{Names(app.app, pipeline).function(role)}")


def grant_invoke(permissions: Permissions, sid: str, *functions: str) -> None:
    """Invoke functions, given by their ARNs."""
    permissions.allow(sid, ["lambda:InvokeFunction"], functions)
