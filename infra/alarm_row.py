"""A row of the table of alarms: what is measured, when it rings, and what its page says."""

from __future__ import annotations

from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import (
    APP_DIMENSION,
    DIMENSION,
    NAMESPACE,
    SOURCE_DIMENSION,
    Alarm,
    Metric,
)

from .duration import MINUTE
from .length import seconds

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
AT_MOST = cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD
ABOVE = cloudwatch.ComparisonOperator.GREATER_THAN_THRESHOLD


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An alarm rings if `datapoints` of the last `periods` (of `period` seconds) breach.

    Without `datapoints`, all of them have to.
    """

    periods: int = 1
    datapoints: int | None = None
    period: int = MINUTE


@dataclass(frozen=True, slots=True)
class Missing:
    """What a minute without data means to an alarm, and why."""

    treatment: cloudwatch.TreatMissingData
    because: str


@dataclass(frozen=True, slots=True)
class Measured:
    """A metric: its namespace, name, dimensions and statistic."""

    namespace: str
    name: str
    dimensions: dict[str, str]
    statistic: str

    def over(self, period: int) -> cloudwatch.Metric:
        """The metric for the CDK, over so many seconds."""
        return cloudwatch.Metric(
            namespace=self.namespace,
            metric_name=self.name,
            dimensions_map=self.dimensions,
            statistic=self.statistic,
            period=seconds(period),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """An alarm: its page, its metric, when it rings, and what a gap in the metric means.

    alarm         its name, behind the names of app and pipeline
    symptom       what is wrong, as a sentence; with likely_cause and command, the page
    command       what to type first; it only reads
    annotation    what the line at the threshold is called on the dashboard
    shares        the alarm whose section of the runbook is this alarm's too, if not its own
    """

    alarm: Alarm
    symptom: str
    likely_cause: str
    command: str = "dlq status"
    measured: Measured
    threshold: float
    comparison: cloudwatch.ComparisonOperator = AT_LEAST
    evaluation: Evaluation
    missing: Missing
    annotation: str
    shares: Alarm | None = None

    @property
    def name(self) -> str:
        """The name of the alarm, without those of app and pipeline."""
        return str(self.alarm)

    @property
    def section(self) -> str:
        """The section of the runbook, as it stands behind `#` in an address."""
        return (self.shares or self.alarm).lower()

    def description(self, pipeline: str | None, *, runbook: str, owner: str) -> str:
        """The description of the alarm: five lines that read well with and without Markdown."""
        about = f" --pipeline {pipeline}" if pipeline else ""
        return (
            f"Symptom: {self.symptom}\n"
            f"Likely cause: {self.likely_cause}\n"
            f"First command: `{self.command}{about}`\n"
            f"Runbook: {runbook}#{self.section}\n"
            f"Owner: {owner}"
        )


def ours(
    metric: Metric, app: str, pipeline: str, source: str = "", *, statistic: str = "Maximum"
) -> Measured:
    """A metric of ours, of a pipeline or of one of its sources."""
    dimensions = {APP_DIMENSION: app, DIMENSION: pipeline}
    if source:
        dimensions[SOURCE_DIMENSION] = source
    return Measured(NAMESPACE, metric, dimensions, statistic)


def of_queue(queue: str, metric: str) -> Measured:
    """A metric that SQS publishes of a queue."""
    return Measured("AWS/SQS", metric, {"QueueName": queue}, "Maximum")
