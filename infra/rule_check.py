"""The rule checker: it judges each edit of the rules table, and keeps those of endpoints."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from deadletter.contract import Variable, pipelines_folder, rule_checker
from deadletter.signals.pages import APP_PAGES

from .alarms import Subject, add_alarms
from .encryption import customer_key, grant_key
from .findings import acknowledge
from .function import PythonFunction
from .pager import Pager
from .permissions import Permissions, grant_put_events
from .registration import acknowledge_folder, grant_list_parameters
from .settings import LONGEST_RETENTION, AppDeployment
from .storage import Storage

# A few edits at a time; each is a handful of calls.
TIMEOUT = 30
MEMORY = 256
BATCH = 10


class RuleCheck(Construct):
    """The function behind the streams of rules and of endpoints, and the queue of its failures."""

    alarms: Mapping[str, cloudwatch.Alarm]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: AppDeployment,
        storage: Storage,
        pager: Pager,
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        name = rule_checker(app.app)
        self._failures = self._queue(f"{name}-failures")
        permissions = Permissions()
        storage.grant_check_rules(permissions)
        registrations = pipelines_folder(app.app)
        grant_list_parameters(permissions, registrations)
        grant_put_events(permissions)
        permissions.allow("Failures", ["sqs:SendMessage"], [self._failures.queue_arn])
        grant_key(permissions, app, services=("dynamodb", "sqs"), writes=True)
        function = PythonFunction(
            self,
            "Check",
            name=name,
            handler="handlers.check_rules.handler",
            description=f"Judges each edit of a rule of {app.app}",
            timeout=TIMEOUT,
            memory=MEMORY,
            app=app,
            permissions=permissions,
        )
        function.add_variables(
            {
                Variable.RULES_TABLE: storage.rules.table_name,
                Variable.MESSAGES_TABLE: storage.messages.table_name,
                Variable.AUDIT_TABLE: storage.audit.table_name,
                Variable.AUDIT_DAYS: str(app.audit_days),
                Variable.REGISTRATIONS: registrations,
            }
        )
        acknowledge_folder(
            function,
            registrations,
            because="one parameter a pipeline, and pipelines come later than the checker",
        )
        # Edits between the creation of a table and of its mapping are seen too.
        self._mapping("Mapping", storage.rules_stream, function)
        self._mapping("EndpointsMapping", storage.endpoints_stream, function)
        # Lambda never gives up an edit for which the function was throttled: the queue stays empty.
        self.alarms = add_alarms(
            self, Subject(app=app, owner=app.owner, pages=APP_PAGES), pager=pager
        )

    def _mapping(self, construct_id: str, stream: str, function: PythonFunction) -> None:
        mapping = lambda_.CfnEventSourceMapping(
            self,
            construct_id,
            function_name=function.function.function_name,
            event_source_arn=stream,
            starting_position="TRIM_HORIZON",
            batch_size=BATCH,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=2,
            function_response_types=["ReportBatchItemFailures"],
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(
                    destination=self._failures.queue_arn
                )
            ),
        )
        # When the mapping is created, Lambda reads the stream with the role's permissions.
        mapping.node.add_dependency(function.role)

    def _queue(self, name: str) -> sqs.Queue:
        key = customer_key(self, self._app)
        kept = cdk.RemovalPolicy.RETAIN_ON_UPDATE_OR_DELETE
        queue = sqs.Queue(
            self,
            "Failures",
            queue_name=name,
            retention_period=cdk.Duration.seconds(LONGEST_RETENTION),
            redrive_allow_policy=sqs.RedriveAllowPolicy(
                redrive_permission=sqs.RedrivePermission.DENY_ALL
            ),
            encryption=sqs.QueueEncryption.KMS if key else sqs.QueueEncryption.SQS_MANAGED,
            encryption_master_key=key,
            enforce_ssl=True,
            removal_policy=cdk.RemovalPolicy.DESTROY if self._app.ephemeral else kept,
        )
        acknowledge(
            queue,
            "AwsSolutions::AwsSolutions-SQS3",
            "Serverless::Serverless-SQSRedrivePolicy",
            because="no consumer reads here, so nothing can fail here too often",
        )
        return queue
