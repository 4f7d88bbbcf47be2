"""The band of one pipeline on a dashboard: its text, its alarms, and its graphs.

    class MyStack(Stack):
        ...
        for row in widgets(self, settings=orders):
            my_dashboard.add_widgets(*row)

A graph that draws the metric of an alarm has a line at the alarm's threshold.
"""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from deadletter.contract import pipeline_prefix

from .dashboard_costs import pipeline_costs
from .dashboard_functions import functions
from .dashboard_graphs import COLUMNS, GRAPH, HEIGHT, Band, alarm_called
from .dashboard_letters import of_letters, of_outcomes
from .dashboard_metrics import MAXIMUM, SUM, computed, of_function
from .dashboard_troubles import of_troubles
from .settings import AppDeployment, PipelineDeployment

# The part of its timeout at which a function is slow, in percent.
SLOW = 80


def widgets(
    scope: Construct, *, settings: PipelineDeployment, app: AppDeployment | None = None
) -> list[list[cloudwatch.IWidget]]:
    """The rows of one pipeline, for `Dashboard.add_widgets(*row)` of a dashboard of yours.

    `app` has to be that of the deployment, whose first word is in every name. The first row has
    the pipeline's text and its alarms. Adds a construct to `scope`, and creates no resource.
    """
    band = Band.of(app or AppDeployment(), settings)
    graphs = [*of_letters(band), *of_outcomes(band), *of_troubles(band), *_of_aws(band)]
    return [
        [_text(band), _alarms(band, scope)],
        *([*graphs[start : start + 3]] for start in range(0, len(graphs), 3)),
    ]


def _text(band: Band) -> cloudwatch.IWidget:
    """What it is, and what to type first."""
    name, owner = band.settings.name, band.settings.owner or band.app.owner
    commands = (
        (f"dlq status --pipeline {name}", "what is wrong"),
        (f"dlq groups --pipeline {name}", "why letters fail"),
        (f"dlq circuit list --pipeline {name}", "which dependencies are down"),
        (f"dlq parked list --pipeline {name}", "what waits for a person"),
    )
    lines = "\n".join(f"`{command}` {what}  " for command, what in commands)
    return cloudwatch.TextWidget(
        markdown=f"## {name}\nMode {band.settings.mode}. Owner: {owner}."
        f" Runbook: {band.app.runbook}\n\n{lines}",
        width=GRAPH,
        height=HEIGHT,
    )


def _alarms(band: Band, scope: Construct) -> cloudwatch.IWidget:
    """Which alarms ring."""
    prefix = pipeline_prefix(band.app.app, band.settings.name)
    home = Construct(scope, f"Alarms-{band.settings.name}")
    return cloudwatch.AlarmStatusWidget(
        title=f"{band.settings.name}: alarms",
        alarms=[alarm_called(home, f"{prefix}{row.name}") for row in band.rows],
        width=COLUMNS - GRAPH,
        height=HEIGHT,
    )


def _of_aws(band: Band) -> list[cloudwatch.IWidget]:
    """The functions, and what they and the queues cost."""
    drawn = tuple(functions(band.app, band.settings))
    return [
        band.graph(
            "functions throttled (left) and failed (right)",
            [of_function(each.name, "Throttles", SUM, each.role) for each in drawn],
            [of_function(each.name, "Errors", SUM, each.role) for each in drawn],
        ),
        cloudwatch.GraphWidget(
            title=band.title("longest calls (percent of the timeout)"),
            left=[
                computed(
                    # Lambda publishes milliseconds.
                    f"{each.role} / {10 * each.timeout}",
                    {each.role: of_function(each.name, "Duration", MAXIMUM, each.role)},
                    each.role,
                )
                for each in drawn
            ],
            left_annotations=[
                cloudwatch.HorizontalAnnotation(value=SLOW, label="slow"),
                cloudwatch.HorizontalAnnotation(value=100, label="ended by Lambda"),
            ],
            width=GRAPH,
            height=HEIGHT,
        ),
        band.graph(
            "estimated costs (USD an hour, at prices of us-east-1)",
            pipeline_costs(band.app, band.settings, band.queues),
            stacked=True,
        ),
    ]
