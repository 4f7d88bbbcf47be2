"""Alarms as CloudWatch has them, made from the pages of the catalogue (`deadletter.signals`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from deadletter.contract import EVERY_PIPELINE, pipeline_prefix
from deadletter.signals.figures import Figure
from deadletter.signals.pages import PIPELINE_PAGES, Compares, Missing, Page

from .duration import MINUTE
from .measured import by_aws, ours
from .pager import Pager
from .queues import Addresses, Queues
from .settings import Alarms, AppDeployment, PipelineDeployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What alarms are about: a pipeline, or with EVERY_PIPELINE the app.

    pages     one for each alarm
    names     what is watched by metrics of AWS, by what these are `of`
    settings  those that pages name; they also say how an alarm looks whose page does not
    """

    app: AppDeployment
    pipeline: str = EVERY_PIPELINE
    owner: str
    pages: Sequence[Page]
    names: Mapping[str, str] = field(default_factory=dict)
    settings: Alarms = field(default_factory=Alarms)

    @property
    def prefix(self) -> str:
        """What the names of its alarms begin with."""
        app = self.app.app
        is_app = self.pipeline == EVERY_PIPELINE
        return f"{app}-" if is_app else pipeline_prefix(app, self.pipeline)

    def metric(self, page: Page) -> cloudwatch.Metric:
        """What the alarm of a page watches."""
        if isinstance(page.watches, Figure):
            return ours(self.app.app, self.pipeline, page.watches)
        period = MINUTE if page.looks else self.settings.age_period
        return by_aws(self.names[page.watches.of], page.watches, period=period)

    def threshold(self, page: Page) -> float:
        """The number at which the alarm of a page rings."""
        named = page.threshold
        return float(getattr(self.settings, named)) if isinstance(named, str) else named

    def description(self, page: Page) -> str:
        """What the page says."""
        named = None if self.pipeline == EVERY_PIPELINE else self.pipeline
        app, texts = self.app, self.settings.texts
        return page.text(app.app, named, texts, runbook=app.runbook, owner=self.owner)


def of_pipeline(
    app: AppDeployment, settings: PipelineDeployment, queues: Addresses | Queues
) -> Subject:
    """The subject of a pipeline's alarms."""
    return Subject(
        app=app,
        pipeline=settings.name,
        owner=settings.owner or app.owner,
        pages=PIPELINE_PAGES,
        names={"main": queues.main.name, "dlq": queues.dlq.name},
        settings=settings.alarms,
    )


def add_alarms(
    scope: Construct, subject: Subject, *, pager: Pager
) -> Mapping[str, cloudwatch.Alarm]:
    """Add an alarm to `scope` for each page; returns them by name.

    Each notifies the pager when it starts and ends.
    """
    action = actions.SnsAction(sns.Topic.from_topic_arn(scope, "Pager", pager.topic_arn))
    looks = subject.settings.age_looks
    alarms = {}
    for page in subject.pages:
        breaching, of = page.looks or (looks, looks)
        alarm = cloudwatch.Alarm(
            scope,
            page.alarm,
            alarm_name=f"{subject.prefix}{page.alarm}",
            alarm_description=subject.description(page),
            metric=subject.metric(page),
            threshold=subject.threshold(page),
            evaluation_periods=of,
            datapoints_to_alarm=None if breaching == of else breaching,
            comparison_operator=_COMPARISONS[page.compares],
            treat_missing_data=_MISSING[page.missing],
        )
        alarm.add_alarm_action(action)
        alarm.add_ok_action(action)
        alarms[str(page.alarm)] = alarm
    return alarms


_COMPARISONS = {
    Compares.ABOVE: cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD,
    Compares.AT_LEAST: cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD,
    Compares.AT_MOST: cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD,
}
_MISSING = {
    Missing.KEPT: cloudwatch.TreatMissingData.IGNORE,
    Missing.QUIET: cloudwatch.TreatMissingData.NOT_BREACHING,
    Missing.HEARTBEAT: cloudwatch.TreatMissingData.BREACHING,
}
