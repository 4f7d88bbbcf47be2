"""The rule checker: it judges each edit of the rules table."""

from __future__ import annotations

from collections.abc import Mapping

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_iam as iam
from aws_cdk import aws_lambda as lambda_
from aws_cdk import aws_sns as sns
from aws_cdk import aws_sqs as sqs
from constructs import Construct

from deadletter.contract import EVERY_PIPELINE, Alarm, Metric, Variable, pipelines_folder

from .alarms import AT_LEAST, RULE_INVALID, Page, counted
from .encryption import customer_key, grant_key
from .findings import acknowledge
from .function import PythonFunction
from .pager import Pager
from .permissions import Permissions, grant_put_events
from .registration import acknowledge_folder, grant_list_parameters
from .settings import LONGEST_RETENTION, AppSettings
from .storage import Storage

# A few edits at a time; each is a handful of calls.
TIMEOUT = 30
MEMORY = 256
BATCH = 10

FAILED = Page(
    Alarm.RULE_CHECK_FAILED,
    "edits of rules were not checked; routing goes on, and checks each rule when it reads it.",
    "a missing permission, a throttled table, or unreadable registrations: the function's"
    " log says which.",
    command="dlq rules list",
)


class RuleCheck(Construct):
    """The function behind the stream of the rules table, and the queue of its failures."""

    function: lambda_.Function
    role: iam.IRole
    mapping: lambda_.CfnEventSourceMapping
    failures: sqs.Queue
    alarms: Mapping[str, cloudwatch.Alarm]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: AppSettings,
        storage: Storage,
        pager: Pager,
    ) -> None:
        super().__init__(scope, construct_id)
        self._app = app
        name = f"{app.app}-check-rules"
        self.failures = self._queue(f"{name}-failures")
        stream = storage.rules.table_stream_arn
        permissions = Permissions()
        storage.grant_check_rules(permissions)
        registrations = pipelines_folder(app.app)
        grant_list_parameters(permissions, registrations)
        grant_put_events(permissions)
        permissions.allow("Failures", ["sqs:SendMessage"], [self.failures.queue_arn])
        grant_key(permissions, app, services=("dynamodb", "sqs"), writes=True)
        function = PythonFunction(
            self,
            "Check",
            name=name,
            handler="handlers.check_rules.handler",
            description=f"Judges each edit of a rule of {app.app}",
            timeout=TIMEOUT,
            memory=MEMORY,
            settings=None,
            app=app,
            permissions=permissions,
        )
        function.add_variables(
            {
                Variable.RULES_TABLE: storage.rules.table_name,
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
        self.mapping = lambda_.CfnEventSourceMapping(
            self,
            "Mapping",
            function_name=function.function.function_name,
            event_source_arn=stream,
            # Edits between the creation of the table and of the mapping are judged too.
            starting_position="TRIM_HORIZON",
            batch_size=BATCH,
            bisect_batch_on_function_error=True,
            maximum_retry_attempts=2,
            function_response_types=["ReportBatchItemFailures"],
            destination_config=lambda_.CfnEventSourceMapping.DestinationConfigProperty(
                on_failure=lambda_.CfnEventSourceMapping.OnFailureProperty(
                    destination=self.failures.queue_arn
                )
            ),
        )
        # When the mapping is created, Lambda reads the stream with the role's permissions.
        self.mapping.node.add_dependency(function.role)
        self.function, self.role = function.function, function.role
        self.alarms = self._alarms(pager)

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

    def _alarms(self, pager: Pager) -> Mapping[str, cloudwatch.Alarm]:
        action = actions.SnsAction(sns.Topic.from_topic_arn(self, "Pager", pager.topic_arn))
        waiting = cloudwatch.Metric(
            namespace="AWS/SQS",
            metric_name="ApproximateNumberOfMessagesVisible",
            dimensions_map={"QueueName": f"{self._app.app}-check-rules-failures"},
            statistic="Maximum",
            period=cdk.Duration.minutes(1),
        )
        ignore = cloudwatch.TreatMissingData.IGNORE
        quiet = cloudwatch.TreatMissingData.NOT_BREACHING
        alarms = {}
        for page, metric, missing in (
            (FAILED, waiting, ignore),
            (RULE_INVALID, counted(Metric.RULE_INVALID, self._app.app, EVERY_PIPELINE), quiet),
        ):
            alarm = cloudwatch.Alarm(
                self,
                page.name,
                alarm_name=f"{self._app.app}-{page.name}",
                alarm_description=page.text(None, self._app.runbook),
                metric=metric,
                threshold=1,
                evaluation_periods=1,
                comparison_operator=AT_LEAST,
                treat_missing_data=missing,
            )
            alarm.add_alarm_action(action)
            alarm.add_ok_action(action)
            alarms[page.name] = alarm
        return alarms
