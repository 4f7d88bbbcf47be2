"""The dashboard of an app: its alarms, a band for each pipeline, and what they share.

CloudWatch draws at most 500 widgets, 2,500 metrics a dashboard and 500 a widget (those inside of
an expression count), and a template of CloudFormation has at most a megabyte. An app with more
pipelines than fit has further dashboards. The first three of an account are free; each further
one costs $3 a month.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from deadletter.contract import EVERY_PIPELINE, Metric, pipeline_prefix

from . import here
from .alarm_table import app_rows, rows
from .dashboard_body import body_of
from .dashboard_costs import shared_costs, tables
from .dashboard_graphs import COLUMNS, GRAPH, HEIGHT, Thresholds, alarm_called, graph
from .dashboard_metrics import MAXIMUM, SUM, OurMetrics, of_function, of_queue, of_table
from .dashboard_widgets import widgets
from .queues import Addresses
from .refusal import Refused
from .rule_check import RuleCheck
from .settings import AppDeployment
from .storage import Storage

__all__ = ["AppDashboard", "widgets"]

# The limits of CloudWatch.
MOST_WIDGETS = 500
MOST_METRICS = 2_500

# The most alarms that one widget shows.
MOST_ALARMS = 100

# CloudFormation takes templates of a megabyte, in which each quote of a body needs two characters.
MOST_CHARACTERS = 650_000

Rows = list[list[cloudwatch.IWidget]]

Measure = Callable[[Sequence[Any]], "Size"]
"""How much of a dashboard some rows take."""


class AppDashboard(Construct):
    """The dashboards of an app: one, or as many as its pipelines need.

    Pipelines in `without` have no band.
    """

    dashboards: tuple[cloudwatch.CfnDashboard, ...]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        app: AppDeployment,
        storage: Storage,
        rule_check: RuleCheck,
        without: Container[str] = (),
    ) -> None:
        super().__init__(scope, construct_id)
        bands = [
            widgets(Construct(self, pipeline.name), settings=pipeline, app=app)
            for pipeline in app.pipelines
            if pipeline.name not in without
        ]
        stack = cdk.Stack.of(self)
        ringing = _ringing(Construct(self, "Ringing"), app)
        alarms, graphs = _shared(app, storage, rule_check)
        head = [alarms, *([widget] for widget in ringing), graphs]
        drawn = pages(head, bands, lambda rows: size_of(rows, stack))
        variables: dict[str, Any] = {}
        bodies = [body_of(page, stack, variables) for page in drawn]
        characters = sum(map(len, bodies))
        if characters > MOST_CHARACTERS:
            raise Refused(
                f"App {app.app}: the dashboards of its {len(bands)} pipelines are {characters}"
                f" characters; allowed: {MOST_CHARACTERS}, what a template holds, so set dashboard"
                " to false, and put the widgets of the pipelines that matter on one of yours."
            )
        self.dashboards = tuple(
            cloudwatch.CfnDashboard(
                self,
                f"Dashboard{number}",
                dashboard_name=dashboard_name(app, number),
                dashboard_body=cdk.Fn.sub(body, _named_in(body, variables)),
            )
            for number, body in enumerate(bodies, start=1)
        )


def _named_in(body: str, variables: Mapping[str, Any]) -> dict[str, str] | None:
    """The variables that stand in the body: CloudFormation refuses others."""
    named = {
        name: cdk.Token.as_string(value)
        for name, value in variables.items()
        if f"${{{name}}}" in body
    }
    return named or None


def dashboard_name(app: AppDeployment, number: int = 1) -> str:
    """The name of the app's dashboard, or of its `number`th.

    Dashboards are the account's in all regions, and an app may be in several.
    """
    return f"{app.app}-{here.REGION}" + (f"-{number}" if number > 1 else "")


def _ringing(scope: Construct, app: AppDeployment) -> Iterator[cloudwatch.IWidget]:
    """The alarms of all pipelines that ring now, the newest first: bands may be far below."""
    alarms = [
        alarm_called(scope, f"{pipeline_prefix(app.app, pipeline.name)}{row.name}")
        for pipeline in app.pipelines
        for row in rows(app, pipeline, Addresses.of(app, pipeline))
    ]
    for start in range(0, len(alarms), MOST_ALARMS):
        yield cloudwatch.AlarmStatusWidget(
            title=f"{app.app}: alarms of pipelines that ring now",
            alarms=alarms[start : start + MOST_ALARMS],
            states=[cloudwatch.AlarmState.ALARM],
            sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
            width=COLUMNS,
            height=3,
        )


def _shared(app: AppDeployment, storage: Storage, rule_check: RuleCheck) -> Rows:
    """What is about the whole app: its alarms, its rules, its tables."""
    ours = OurMetrics(app.app, EVERY_PIPELINE)
    check = rule_check.function.function_name
    failures = rule_check.failures.queue_name
    reads, writes = (
        [of_table(table, metric, label, index) for label, table, index in tables(storage)]
        for metric in ("ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits")
    )
    return [
        [
            cloudwatch.TextWidget(
                markdown=f"# {app.app}\n`dlq status` what is wrong, pipeline by pipeline  \n"
                f"Runbook: {app.runbook}\n\nMade by `cdk deploy`: a change by hand is lost.",
                width=GRAPH,
                height=HEIGHT,
            ),
            cloudwatch.AlarmStatusWidget(
                title=f"{app.app}: alarms of the whole app",
                alarms=list(rule_check.alarms.values()),
                width=COLUMNS - GRAPH,
                height=HEIGHT,
            ),
        ],
        [
            graph(
                f"{app.app}: rules of all pipelines, and their checks",
                [
                    ours.of(Metric.RULE_TROUBLE, MAXIMUM),
                    *(
                        of_function(check, metric, SUM, f"check: {metric}")
                        for metric in ("Throttles", "Errors")
                    ),
                    of_queue(
                        failures,
                        "ApproximateNumberOfMessagesVisible",
                        *(MAXIMUM, "edits that were not checked"),
                    ),
                ],
                thresholds=Thresholds(tuple(app_rows(app, failures))),
            ),
            graph(f"{app.app}: read (left) and write (right) units of the tables", reads, writes),
            graph(
                f"{app.app}: estimated costs (USD an hour, at prices of us-east-1)",
                shared_costs(storage),
                stacked=True,
            ),
        ],
    ]


@dataclass(frozen=True, slots=True)
class Size:
    """How much of a dashboard some rows take: its widgets, and the metrics that they read."""

    widgets: int = 0
    metrics: int = 0

    @property
    def fits(self) -> bool:
        """Whether it fits into one dashboard."""
        return self.widgets <= MOST_WIDGETS and self.metrics <= MOST_METRICS

    def __add__(self, other: Size) -> Size:
        return Size(self.widgets + other.widgets, self.metrics + other.metrics)


def size_of(rows: Sequence[Sequence[cloudwatch.IWidget]], stack: cdk.Stack) -> Size:
    """The size of rows; a metric inside of an expression counts."""
    drawn = json.loads(body_of(rows, stack))["widgets"]
    metrics = sum(
        isinstance(metric[0], str)
        for widget in drawn
        for metric in widget["properties"].get("metrics", ())
    )
    return Size(len(drawn), metrics)


def pages(
    head: Sequence[Any], bands: Iterable[Sequence[Any]], size: Measure
) -> Iterator[list[Any]]:
    """The rows of each dashboard: all bands in their order, as many as fit, below the head."""
    page, taken = list(head), size(head)
    for band in bands:
        needed = size(band)
        if page and not (taken + needed).fits:
            yield page
            page, taken = [], Size()
        page, taken = [*page, *band], taken + needed
    yield page
