"""Alarms as CloudWatch has them, made from the rows of the table (`alarm_table`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from deadletter.contract import pipeline_prefix

from .alarm_row import Row
from .alarm_table import rows
from .pager import Pager
from .queues import Addresses, Queues
from .settings import AppDeployment, PipelineDeployment


class PipelineAlarms(Construct):
    """The alarms of one pipeline, by name; each notifies the pager when it starts and ends."""

    alarms: Mapping[str, cloudwatch.Alarm]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineDeployment,
        app: AppDeployment,
        queues: Queues,
        pager: Pager,
    ) -> None:
        super().__init__(scope, construct_id)
        addresses = Addresses(queues.main, queues.dlq, queues.dedicated, queues.parking)
        self.alarms = add_alarms(
            self,
            rows(app, settings, addresses),
            app=app,
            pager=pager,
            prefix=pipeline_prefix(app.app, settings.name),
            owner=settings.owner or app.owner,
            pipeline=settings.name,
        )


def add_alarms(
    scope: Construct,
    table: Iterable[Row],
    *,
    app: AppDeployment,
    pager: Pager,
    prefix: str,
    owner: str,
    pipeline: str | None = None,
) -> Mapping[str, cloudwatch.Alarm]:
    """Add an alarm to `scope` for each row of the table; returns them by name.

    `prefix` is what their full names begin with; `pipeline` is named in the commands of their
    descriptions.
    """
    action = actions.SnsAction(sns.Topic.from_topic_arn(scope, "Pager", pager.topic_arn))
    alarms = {}
    for row in table:
        alarm = cloudwatch.Alarm(
            scope,
            row.name,
            alarm_name=f"{prefix}{row.name}",
            alarm_description=row.description(pipeline, runbook=app.runbook, owner=owner),
            metric=row.measured.over(row.evaluation.period),
            threshold=row.threshold,
            evaluation_periods=row.evaluation.periods,
            datapoints_to_alarm=row.evaluation.datapoints,
            comparison_operator=row.comparison,
            treat_missing_data=row.missing.treatment,
        )
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        alarms[row.name] = alarm
    return alarms
