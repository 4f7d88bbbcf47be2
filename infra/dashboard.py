"""The dashboard of an app: its alarms, and a band of six graphs for each pipeline.

    class MyStack(Stack):
        ...
        for row in widgets(self, settings=orders):
            my_dashboard.add_widgets(*row)

The graphs are those of the catalogue (`deadletter.signals.figures`), each with a line at the
threshold of each alarm on its figures. CloudWatch draws at most 500 widgets and 2,500 metrics a
dashboard, and a template of CloudFormation has at most a megabyte: an app with more pipelines than
fit has further dashboards. The first three of an account are free; each further one costs $3 a
month.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from deadletter.contract import (
    CATEGORY_DIMENSION,
    EVERY_PIPELINE,
    MAIN_DLQ,
    Category,
    parking_source,
)
from deadletter.signals.commands import in_app
from deadletter.signals.figures import GRAPHS, Figure
from deadletter.signals.pages import APP_PAGES, AWS_METRICS

from . import here
from .alarms import Subject, of_pipeline
from .measured import by_aws, ours
from .queues import Addresses
from .refusal import Refused
from .rule_check import RuleCheck
from .settings import AppDeployment, PipelineDeployment

# The limits of CloudWatch, for a dashboard and for the alarms of one widget.
MOST_WIDGETS = 500
MOST_METRICS = 2_500
MOST_ALARMS = 100

# CloudFormation takes templates of a megabyte, in which each quote of a body needs two characters.
MOST_CHARACTERS = 650_000

# Columns of a dashboard, and of each graph: three in a row.
COLUMNS, GRAPH, HEIGHT = 24, 8, 6

# The time that a dashboard shows at first.
SHOWN = "-PT12H"

FROM_ZERO = cloudwatch.YAxisProps(min=0, show_units=False)

# Beside figures of another size, these have the axis on the right.
RIGHT = {Figure.SECONDS_TO_EXPIRY, Figure.ATTEMPTS_BEFORE_RECOVERY, Figure.REFUSED_WHILE_OPEN}

# What the ARN of each alarm begins with, and its name in a body.
ALARM_ARN = here.arn("cloudwatch", "alarm")
ALARM = "Alarm"

Rows = list[list[cloudwatch.IWidget]]


def add_dashboards(
    scope: Construct, *, app: AppDeployment, rule_check: RuleCheck, without: Container[str]
) -> None:
    """The dashboards of an app: one, or as many as its pipelines need.

    Pipelines in `without` have no band.
    """
    bands = [
        widgets(Construct(scope, pipeline.name), settings=pipeline, app=app)
        for pipeline in app.pipelines
        if pipeline.name not in without
    ]
    stack = cdk.Stack.of(scope)
    head = _head(Construct(scope, "Ringing"), app, rule_check)
    variables: dict[str, Any] = {ALARM: f"{ALARM_ARN}:"}
    bodies = [
        body_of(page, stack, variables)
        for page in pages(head, bands, lambda rows: size_of(rows, stack))
    ]
    characters = sum(map(len, bodies))
    if characters > MOST_CHARACTERS:
        raise Refused(
            f"App {app.app}: the dashboards of its {len(bands)} pipelines are {characters}"
            f" characters; allowed: {MOST_CHARACTERS}, what a template holds, so set dashboard"
            " to false, and put the widgets of the pipelines that matter on one of yours."
        )
    for number, body in enumerate(bodies, start=1):
        cloudwatch.CfnDashboard(
            scope,
            f"Dashboard{number}",
            dashboard_name=dashboard_name(app, number),
            dashboard_body=cdk.Fn.sub(body, _named_in(body, variables)),
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


# What is drawn.


def widgets(
    scope: Construct, *, settings: PipelineDeployment, app: AppDeployment | None = None
) -> Rows:
    """The rows of one pipeline, for `Dashboard.add_widgets(*row)` of a dashboard of yours.

    `app` has to be that of the deployment, whose first word is in every name. The first row has
    the pipeline's text and its alarms. Adds a construct to `scope`, and creates no resource.
    """
    used = app or AppDeployment()
    queues = Addresses.of(used, settings)
    subject = of_pipeline(used, settings, queues)
    name = settings.name
    text = (
        f"## {name}\nMode {settings.mode}. Owner: {subject.owner}. Runbook: {used.runbook}\n\n"
        f"`{in_app(f'dlq status --pipeline {name}', used.app)}` what is wrong  \n"
        f"`{in_app(f'dlq groups --pipeline {name}', used.app)}` why messages fail"
    )
    alarms = _alarms_shown(f"{name}: alarms", _alarms(Construct(scope, f"Alarms-{name}"), subject))
    graphs = [_graph(subject, settings, queues, graph) for graph in GRAPHS]
    return [
        [cloudwatch.TextWidget(markdown=text, width=GRAPH, height=3), alarms],
        graphs[:3],
        graphs[3:],
    ]


def _graph(
    subject: Subject, settings: PipelineDeployment, queues: Addresses, graph: str
) -> cloudwatch.IWidget:
    """One graph of a pipeline: its figures, and what AWS says of the same."""
    drawn = [figure for figure in Figure if figure.graph == graph]
    left: list[cloudwatch.IMetric] = []
    right: list[cloudwatch.IMetric] = []
    for figure in drawn:
        (right if figure in RIGHT else left).extend(_drawn(subject, queues, figure))
    beside = [
        metric for metric in AWS_METRICS if metric.graph == graph and metric.of in subject.names
    ]
    left += [
        by_aws(subject.names[metric.of], metric, label=f"{metric.of}, by {metric.service}")
        for metric in beside
    ]
    lines: dict[float, list[str]] = {}
    for page in subject.pages:
        if page.watches in (*drawn, *beside):
            lines.setdefault(subject.threshold(page), []).append(str(page.alarm))
    on_right = {subject.threshold(page) for page in subject.pages if page.watches in RIGHT}
    drawn_lines = {
        value: cloudwatch.HorizontalAnnotation(
            value=value, label=f"{', '.join(names)} pages", color=cloudwatch.Color.RED
        )
        for value, names in lines.items()
    }
    return cloudwatch.GraphWidget(
        title=f"{settings.name}: {graph}",
        left=left,
        right=right,
        left_annotations=[line for value, line in drawn_lines.items() if value not in on_right],
        right_annotations=[line for value, line in drawn_lines.items() if value in on_right],
        left_y_axis=FROM_ZERO,
        width=GRAPH,
        height=HEIGHT,
    )


def _drawn(subject: Subject, queues: Addresses, figure: Figure) -> Iterator[cloudwatch.IMetric]:
    """The metrics of a figure: of the pipeline, or of each of its queues or categories."""
    app, pipeline = subject.app.app, subject.pipeline
    if figure is Figure.MESSAGES:
        parking = map(parking_source, queues.parking)
        for source in (MAIN_DLQ, *queues.dedicated, *parking, "room"):
            yield ours(app, pipeline, figure, source=source)
    elif figure is Figure.FAILURES_BY_CATEGORY:
        for category in map(str, Category):
            metric = ours(app, pipeline, figure, label=category)
            where = {**(metric.dimensions or {}), CATEGORY_DIMENSION: category}
            yield metric.with_(dimensions_map=where)
    else:
        yield ours(app, pipeline, figure)


def _alarms(scope: Construct, subject: Subject) -> list[cloudwatch.IAlarm]:
    """The alarms of a pipeline: by name, because its stack comes later than the dashboard's."""
    names = [f"{subject.prefix}{page.alarm}" for page in subject.pages]
    return [cloudwatch.Alarm.from_alarm_arn(scope, name, f"{ALARM_ARN}:{name}") for name in names]


def _alarms_shown(
    title: str, alarms: Sequence[cloudwatch.IAlarm], **more: Any
) -> cloudwatch.IWidget:
    return cloudwatch.AlarmStatusWidget(
        title=title, alarms=list(alarms), **{"width": COLUMNS - GRAPH, "height": 3, **more}
    )


def _head(scope: Construct, app: AppDeployment, rule_check: RuleCheck) -> Rows:
    """What is about the whole app: its alarms, and those of all pipelines that ring now.

    The newest first: bands may be far below.
    """
    text = (
        f"# {app.app}\n`{in_app('dlq status', app.app)}` what is wrong, pipeline by pipeline  \n"
        "Runbook:"
        f" {app.runbook}\n\nMade by `cdk deploy`: a change by hand is lost."
    )
    alarms = [
        alarm
        for pipeline in app.pipelines
        for alarm in _alarms(scope, of_pipeline(app, pipeline, Addresses.of(app, pipeline)))
    ]
    return [
        [
            cloudwatch.TextWidget(markdown=text, width=GRAPH, height=3),
            _alarms_shown(f"{app.app}: alarms of the whole app", list(rule_check.alarms.values())),
        ],
        *(
            [
                _alarms_shown(
                    f"{app.app}: alarms of pipelines that ring now",
                    alarms[start : start + MOST_ALARMS],
                    states=[cloudwatch.AlarmState.ALARM],
                    sort_by=cloudwatch.AlarmStatusWidgetSortBy.STATE_UPDATED_TIMESTAMP,
                    width=COLUMNS,
                )
            ]
            for start in range(0, len(alarms), MOST_ALARMS)
        ),
        [
            cloudwatch.GraphWidget(
                title=f"{app.app}: what all pipelines share",
                left=[
                    ours(app.app, EVERY_PIPELINE, page.watches)
                    for page in APP_PAGES
                    if isinstance(page.watches, Figure)
                ],
                left_y_axis=FROM_ZERO,
                width=COLUMNS,
                height=HEIGHT,
            )
        ],
    ]


# How much fits.


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
    """The size of rows."""
    drawn = json.loads(body_of(rows, stack))["widgets"]
    return Size(len(drawn), sum(len(each["properties"].get("metrics", ())) for each in drawn))


def pages(
    head: Sequence[Any], bands: Iterable[Sequence[Any]], size: Callable[[Sequence[Any]], Size]
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


# The body as a short text. The CDK writes every metric in full and one part of a `Fn::Join` for
# every region. Here a part that repeats the metric before is a ".", the statistic and the period of
# most metrics stand once at their widget, and what CloudFormation fills in is as `Fn::Sub` has it.


def body_of(
    rows: Sequence[Sequence[cloudwatch.IWidget]],
    stack: cdk.Stack,
    variables: dict[str, Any] | None = None,
) -> str:
    """The body of a dashboard with these rows, for `Fn.sub`.

    What `Fn::Sub` cannot say itself, such as the last part of an ARN, is added to `variables`.
    """
    found = {} if variables is None else variables
    in_rows: list[Any] = [cloudwatch.Row(*row) for row in rows]
    column = cloudwatch.Column(*in_rows)
    column.position(0, 0)
    drawn = [shortened(_as_sub(widget, found)) for widget in stack.resolve(column.to_json())]
    body = {"start": SHOWN, "widgets": drawn}
    text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    where = _as_sub(stack.resolve(ALARM_ARN), found)
    # It stands at each alarm, twice.
    return text if variables is None else text.replace(f"{where}:", f"${{{ALARM}}}")


def shortened(widget: Mapping[str, Any]) -> dict[str, Any]:
    """The widget with its metrics in CloudWatch's short form; others are as they came."""
    properties = dict(widget["properties"])
    metrics = properties.get("metrics")
    if not metrics:
        return {**widget, "properties": properties}
    named: list[tuple[list[str], dict[str, Any]]] = []
    for metric in metrics:
        *name, last = metric
        has_options = isinstance(last, Mapping)
        # What CloudWatch takes where a metric says nothing, and what the CDK leaves out.
        options = {"stat": "Average", "period": 300, **(last if has_options else {})}
        named.append((name if has_options else metric, options))
    usual = {
        key: Counter(options[key] for _, options in named).most_common(1)[0][0]
        for key in ("stat", "period")
    }
    short: list[list[Any]] = []
    before: Sequence[str] = ()
    for name, options in named:
        others = {key: value for key, value in options.items() if usual.get(key) != value}
        same = len(before) == len(name)
        parts: list[Any] = [
            "." if same and part == before[place] else part for place, part in enumerate(name)
        ]
        short.append([*parts, others] if others else parts)
        before = name
    return {**widget, "properties": {**properties, **usual, "metrics": short}}


def _as_sub(value: Any, variables: dict[str, Any]) -> Any:
    """A resolved value with its references as `Fn::Sub` writes them."""
    match value:
        case {"Ref": name}:
            return f"${{{name}}}"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"${{{name}.{attribute}}}"
        case {"Fn::Join": [separator, parts]}:
            return separator.join(_as_sub(part, variables) for part in parts)
        case {"Fn::Select": _}:
            found = (name for name, other in variables.items() if other == value)
            name = next(found, f"Part{len(variables)}")
            variables[name] = value
            return f"${{{name}}}"
        case Mapping():
            return {key: _as_sub(item, variables) for key, item in value.items()}
        case list():
            return [_as_sub(item, variables) for item in value]
        case str():
            return value.replace("${", "${!")
        case float() if value.is_integer():
            return int(value)
    return value
