"""Alarms as CloudWatch has them, made from the pages of the catalogue (`deadletter.signals`)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from deadletter.contract import EVERY_PIPELINE, pipeline_prefix
from deadletter.signals.figures import Figure
from deadletter.signals.pages import PIPELINE_PAGES, Compares, Missing, Page

from .duration import MINUTE, written
from .measured import of_queue, ours
from .pager import Pager
from .settings import AppDeployment, PipelineDeployment


@dataclass(frozen=True, slots=True, kw_only=True)
class Subject:
    """What alarms are about: a pipeline, or with EVERY_PIPELINE the app.

    queue   the queue whose metrics of SQS are watched
    facts   the settings that pages name, as numbers; `texts` as people read them
    looks   minutes of `period` seconds that have to breach where settings say it
    """

    app: AppDeployment
    pipeline: str = EVERY_PIPELINE
    owner: str
    queue: str
    facts: Mapping[str, float] = field(default_factory=dict)
    texts: Mapping[str, str] = field(default_factory=dict)
    looks: int = 1
    period: int = MINUTE

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
        return of_queue(self.queue, page.watches, period=self.period if not page.looks else MINUTE)

    def threshold(self, page: Page) -> float:
        """The number at which the alarm of a page rings."""
        return page.threshold if not isinstance(page.threshold, str) else self.facts[page.threshold]

    def description(self, page: Page) -> str:
        """What the page says."""
        named = None if self.pipeline == EVERY_PIPELINE else self.pipeline
        return page.text(named, self.texts, runbook=self.app.runbook, owner=self.owner)


def of_pipeline(app: AppDeployment, settings: PipelineDeployment, dlq: str) -> Subject:
    """The subject of a pipeline's alarms; `dlq` is the name of its DLQ."""
    alarms = settings.alarms
    seconds = {
        "age": int(alarms.age),
        "expiry": alarms.letter_expiry,
        "open": alarms.circuit_open_after,
        "parked": alarms.parked_after,
    }
    return Subject(
        app=app,
        pipeline=settings.name,
        owner=settings.owner or app.owner,
        queue=dlq,
        facts=seconds,
        texts={
            **{name: written(value) for name, value in seconds.items()},
            "depth": str(alarms.depth),
        },
        looks=alarms.age_looks,
        period=alarms.age_period,
    )


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
        dlq: str,
        pager: Pager,
    ) -> None:
        super().__init__(scope, construct_id)
        self.alarms = add_alarms(self, PIPELINE_PAGES, of_pipeline(app, settings, dlq), pager=pager)


def add_alarms(
    scope: Construct, pages: Iterable[Page], subject: Subject, *, pager: Pager
) -> Mapping[str, cloudwatch.Alarm]:
    """Add an alarm to `scope` for each page; returns them by name."""
    action = actions.SnsAction(sns.Topic.from_topic_arn(scope, "Pager", pager.topic_arn))
    alarms = {}
    for page in pages:
        breaching, of = page.looks or (subject.looks, subject.looks)
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
