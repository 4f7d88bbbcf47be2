"""The metrics that alarms and graphs watch: ours, and those of AWS."""

from __future__ import annotations

from collections.abc import Iterable

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_logs as logs
from constructs import Construct

from deadletter.contract import APP_DIMENSION, DIMENSION, NAMESPACE, SOURCE_DIMENSION
from deadletter.signals.counts import SAYS
from deadletter.signals.figures import Figure
from deadletter.signals.pages import AwsMetric

from .duration import MINUTE

# Asked of the CDK once: each pipeline draws a hundred metrics.
_EACH_MINUTE = cdk.Duration.seconds(MINUTE)


def ours(
    app: str,
    pipeline: str,
    figure: Figure,
    *,
    statistic: str | None = None,
    source: str = "",
    label: str | None = None,
) -> cloudwatch.Metric:
    """A figure of a pipeline, or of one of its sources; EVERY_PIPELINE is a pipeline too."""
    dimensions = {APP_DIMENSION: app, DIMENSION: pipeline}
    if source:
        dimensions[SOURCE_DIMENSION] = source
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=str(figure),
        dimensions_map=dimensions,
        statistic=statistic or figure.statistic,
        label=label or source or None,
        period=_EACH_MINUTE,
    )


def by_aws(
    name: str, metric: AwsMetric, *, period: int = MINUTE, label: str | None = None
) -> cloudwatch.Metric:
    """A metric that AWS publishes of the resource of this name."""
    return cloudwatch.Metric(
        namespace=f"AWS/{metric.service}",
        metric_name=metric.name,
        dimensions_map={metric.dimension: name},
        statistic=metric.statistic,
        label=label,
        period=cdk.Duration.seconds(period),
    )


def saved_query(
    scope: Construct, app: str, pipeline: str, groups: Iterable[logs.ILogGroup]
) -> logs.CfnQueryDefinition:
    """The query of Logs Insights that finds what a pipeline counts and no graph draws."""
    counted = " or ".join(f"{count} > 0" for count in SAYS)
    lines = (
        "fields @timestamp, @log, @message",
        f'filter {APP_DIMENSION} = "{app}" and {DIMENSION} = "{pipeline}"',
        f"filter {counted}",
        "sort @timestamp desc",
    )
    return logs.CfnQueryDefinition(
        scope,
        "Counted",
        name=f"{app}/{pipeline}/counted",
        log_group_names=[group.log_group_name for group in groups],
        query_string="\n| ".join(lines),
    )
