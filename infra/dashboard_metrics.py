"""The metrics that graphs draw: ours, and those that AWS publishes of what we deploy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import (
    APP_DIMENSION,
    CATEGORY_DIMENSION,
    DIMENSION,
    NAMESPACE,
    SOURCE_DIMENSION,
    Metric,
)

from .duration import MINUTE
from .length import seconds

SUM, AVERAGE, MAXIMUM, MINIMUM = "Sum", "Average", "Maximum", "Minimum"

# Seconds of a point on a graph. Metrics of SQS, Lambda and embedded lines have one a minute.
PERIOD = MINUTE


@dataclass(frozen=True, slots=True)
class OurMetrics:
    """The metrics that we publish about one pipeline; EVERY_PIPELINE is one too."""

    app: str
    pipeline: str

    def of(
        self,
        metric: Metric,
        statistic: str = SUM,
        *,
        label: str | None = None,
        source: str | None = None,
        category: str | None = None,
        period: int = PERIOD,
    ) -> cloudwatch.Metric:
        """One metric, of the pipeline or of one of its sources; labelled by its name."""
        dimensions = {APP_DIMENSION: self.app, DIMENSION: self.pipeline}
        if source is not None:
            dimensions[SOURCE_DIMENSION] = source
        if category is not None:
            dimensions[CATEGORY_DIMENSION] = category
        return cloudwatch.Metric(
            namespace=NAMESPACE,
            metric_name=str(metric),
            dimensions_map=dimensions,
            statistic=statistic,
            label=label or source or category,
            period=seconds(period),
        )

    def all_of(self, *metrics: Metric, statistic: str = SUM) -> list[cloudwatch.IMetric]:
        """Several metrics with one statistic."""
        return [self.of(metric, statistic) for metric in metrics]


def of_queue(queue: str, metric: str, statistic: str, label: str = "") -> cloudwatch.Metric:
    """A metric that SQS publishes of a queue."""
    return _of_aws("AWS/SQS", metric, {"QueueName": queue}, statistic, label)


def of_function(function: str, metric: str, statistic: str, label: str = "") -> cloudwatch.Metric:
    """A metric that Lambda publishes of a function."""
    return _of_aws("AWS/Lambda", metric, {"FunctionName": function}, statistic, label)


def of_machine(arn: str, metric: str, label: str) -> cloudwatch.Metric:
    """A count that Step Functions publishes of a state machine."""
    return _of_aws("AWS/States", metric, {"StateMachineArn": arn}, SUM, label)


def state_transitions(label: str) -> cloudwatch.Metric:
    """The state transitions of the whole account: Step Functions does not count them apart."""
    where = {"ServiceMetric": "StateTransition"}
    return _of_aws("AWS/States", "ConsumedCapacity", where, SUM, label)


def of_table(table: str, metric: str, label: str, index: str | None = None) -> cloudwatch.Metric:
    """Units that DynamoDB counts of a table, or of one of its indexes."""
    where = {"TableName": table}
    if index is not None:
        where["GlobalSecondaryIndexName"] = index
    return _of_aws("AWS/DynamoDB", metric, where, SUM, label)


def computed(
    expression: str, metrics: Mapping[str, cloudwatch.IMetric], label: str, *, period: int = PERIOD
) -> cloudwatch.MathExpression:
    """A figure of several metrics, by their ids in the expression; not for alarms."""
    return cloudwatch.MathExpression(
        expression=expression,
        using_metrics=dict(metrics),
        label=label,
        period=seconds(period),
    )


def weighted_sum(
    terms: Iterable[tuple[float, cloudwatch.IMetric]],
    label: str,
    *,
    first_id: str,
    period: int = PERIOD,
) -> cloudwatch.MathExpression:
    """The sum of metrics, each times its weight; one without data counts as zero.

    The ids of the metrics begin with `first_id`: each expression of a widget needs its own.
    """
    metrics: dict[str, cloudwatch.IMetric] = {}
    by_weight: dict[float, list[str]] = {}
    for number, (weight, metric) in enumerate(terms):
        metrics[f"{first_id}{number}"] = metric
        by_weight.setdefault(weight, []).append(f"FILL({first_id}{number},0)")
    sums = (f"{weight:.6g}*({'+'.join(filled)})" for weight, filled in by_weight.items())
    return computed("+".join(sums), metrics, label, period=period)


def _of_aws(
    namespace: str, metric: str, dimensions: Mapping[str, str], statistic: str, label: str
) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace=namespace,
        metric_name=metric,
        dimensions_map=dict(dimensions),
        statistic=statistic,
        label=label or None,
        period=seconds(PERIOD),
    )
