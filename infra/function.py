"""A Lambda function of ours, with a role that has exactly the listed permissions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import aws_cdk as cdk
from aws_cdk import Aws
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_logs as logs
from constructs import Construct

from deadletter.contract import Variable

from . import asset, environment
from .duration import MINUTE
from .encryption import customer_key
from .findings import acknowledge
from .names import Names
from .permissions import Permissions, grant_traces
from .settings import AppSettings, PipelineSettings

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


class PythonFunction(Construct):
    """One entry point of the asset, its role and its log group.

    The role is closed: it has `permissions`, its log group and traces, and no grant of the
    CDK's adds to them. `sender` is the role's unique id, which SQS shows in the SenderId of
    what the function sends. Without `settings` the function belongs to the whole app. One that
    is started each minute begins no traces ($0.22 a month): it goes on with those of its caller.
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
        settings: PipelineSettings | None,
        app: AppSettings,
        permissions: Permissions,
        begins_traces: bool = True,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._name = name
        self._app = app
        self._environment: dict[str, str] = {}
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
        role = iam.Role(
            self,
            "Role",
            assumed_by=iam.ServicePrincipal("lambda.amazonaws.com"),
            description=f"What {name} may do",
            inline_policies={"Permissions": permissions.document()},
        )
        acknowledge(
            role,
            "AwsSolutions::AwsSolutions-IAM5[Resource::*]",
            "Serverless::Serverless-LambdaStarPermissions",
            because="the actions of X-Ray and CloudWatch, and listing streams, know no resources",
        )
        self.sender = role.role_id
        self.role = role.without_policy_updates()
        self.function = lambda_.Function(
            self,
            "Function",
            function_name=name,
            description=description,
            code=asset.code(self),
            runtime=asset.RUNTIME,
            architecture=asset.ARCHITECTURE,
            handler=handler,
            timeout=cdk.Duration.seconds(timeout),
            memory_size=memory,
            role=self.role,
            log_group=self.log_group,
            logging_format=lambda_.LoggingFormat.JSON,
            tracing=lambda_.Tracing.ACTIVE if begins_traces else lambda_.Tracing.PASS_THROUGH,
        )
        acknowledge(
            self.function,
            "AwsSolutions::AwsSolutions-L1",
            "Serverless::Serverless-LambdaLatestVersion",
            because="the newest runtime that the tests run on and the wheels are chosen for",
        )
        acknowledge(
            self.function,
            "Serverless::Serverless-LambdaDLQ",
            because="an invocation carries nothing that its queue doesn't keep until it is done",
        )

    def add_variables(self, variables: Mapping[str, str]) -> None:
        """Add variables to the function's environment; raises Refused if it becomes too large."""
        added = {Variable.APP: self._app.app, **variables}
        if self._settings:
            added[Variable.PIPELINE] = environment.pipeline(self._settings)
        self._environment |= added
        if self._settings:
            resolved = cdk.Stack.of(self).resolve(self._environment)
            environment.check(self._name, self._settings, resolved)
        for name, value in added.items():
            self.function.add_environment(str(name), value)

    def retry_in_the_next_minute(self, *, because: str) -> None:
        """Have Lambda drop an event that it cannot deliver: the next start is the retry."""
        self.function.configure_async_invoke(
            retry_attempts=0, max_event_age=cdk.Duration.seconds(MINUTE)
        )
        acknowledge(self, "Serverless::Serverless-LambdaAsyncFailureDestination", because=because)

    def trust(self, senders: Sequence[str]) -> None:
        """Set the roles whose `Redrive` attribute the function trusts, by their unique ids."""
        self.add_variables(
            {Variable.TRUSTED_SENDERS: cdk.Stack.of(self).to_json_string(list(senders))}
        )


def function_arn(app: AppSettings, pipeline: str, role: str) -> str:
    """The ARN of the pipeline's function that plays `role`, by its name.

    By name, because roles of two functions that know each other would make a circle.
    """
    home = f"arn:{Aws.PARTITION}:lambda:{Aws.REGION}:{Aws.ACCOUNT_ID}:function"
    return f"{home}:{Names(app.app, pipeline).function(role)}"


def grant_invoke(permissions: Permissions, sid: str, *functions: str) -> None:
    """Invoke functions, given by their ARNs."""
    permissions.allow(sid, ["lambda:InvokeFunction"], functions)
