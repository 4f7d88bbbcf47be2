"""The band of one pipeline on a dashboard: its text, its alarms, and its graphs.

    class MyStack(Stack):
        ...
        for row in widgets(self, settings=orders):
            my_dashboard.add_widgets(*row)

A graph that draws the metric of an alarm has a line at the alarm's threshold. Metrics that no
graph draws are in `NOT_DRAWN`, each with its reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aws_cdk import Aws
from aws_cdk import aws_cloudwatch as cloudwatch
from constructs import Construct

from deadletter.contract import (
    FAILURE_CATEGORIES,
    MAIN_DLQ,
    Metric,
    parking_source,
    pipeline_prefix,
)

from .alarm_row import Row
from .alarm_table import rows
from .dashboard_costs import pipeline_costs
from .dashboard_functions import functions
from .dashboard_metrics import (
    AVERAGE,
    MAXIMUM,
    MINIMUM,
    SUM,
    OurMetrics,
    computed,
    of_function,
    of_machine,
    of_queue,
)
from .duration import HOUR
from .outage import state_machine_arn
from .queues import Addresses
from .replay_start import replay_machine_arn
from .settings import AppSettings, PipelineSettings

# Columns of a dashboard, and of each graph: three in a row.
COLUMNS, GRAPH = 24, 8
HEIGHT = 6

FROM_ZERO = cloudwatch.YAxisProps(min=0, show_units=False)
DIRECTION = cloudwatch.YAxisProps(min=-1, max=1, show_units=False)

# The part of its timeout at which a function is slow, in percent.
SLOW = 80

# How many re-drives recovered letters took. The bounds lie between whole numbers, because
# CloudWatch leaves out values at the lower one.
BUCKETS: Mapping[str, str] = {
    "0": "TC(:0.5)",
    "1": "TC(0.5:1.5)",
    "2": "TC(1.5:2.5)",
    "3": "TC(2.5:3.5)",
    "4 to 6": "TC(3.5:6.5)",
    "7 or more": "TC(6.5:)",
}

# The main queue, as a source of the watch's figures: of its expiry alone.
MAIN = "main"

# Kinds of lanes that the watch knows an age of.
ROOMS = tuple(f"room:{kind}" for kind in ("due", "circuit", "cause", "rule"))

NOT_DRAWN: Mapping[Metric, str] = {
    Metric.REDRIVE_SUCCESS: "the old name of LettersRecovered, which is drawn",
    Metric.REDRIVE_FAILURE: "the old name of MoveFailed, which is drawn",
}
"""The metrics of the contract that are on no graph, each with its reason."""

MetricList = Sequence[cloudwatch.IMetric]


def widgets(
    scope: Construct, *, settings: PipelineSettings, app: AppSettings | None = None
) -> list[list[cloudwatch.IWidget]]:
    """The rows of one pipeline, for `Dashboard.add_widgets(*row)` of a dashboard of yours.

    `app` has to be that of the deployment, whose first word is in every name. The first row has
    the pipeline's text and its alarms. Adds a construct to `scope`, and creates no resource.
    """
    band = _Band(app or AppSettings(), settings)
    graphs = [*band.of_letters(), *band.of_outcomes(), *band.of_troubles(), *band.of_aws()]
    return [
        [band.text(), band.alarms(scope)],
        *([*graphs[start : start + 3]] for start in range(0, len(graphs), 3)),
    ]


@dataclass(frozen=True, slots=True)
class Thresholds:
    """The thresholds of a pipeline's alarms, for graphs that draw the same metrics."""

    rows: Sequence[Row]

    def of(self, metrics: Iterable[cloudwatch.IMetric]) -> list[cloudwatch.HorizontalAnnotation]:
        """A line for each threshold of an alarm on one of the metrics."""
        drawn = [
            (metric.namespace, metric.metric_name, metric.dimensions)
            for metric in metrics
            if isinstance(metric, cloudwatch.Metric)
        ]
        lines: dict[float, list[str]] = {}
        for row in self.rows:
            measured = row.measured
            if (measured.namespace, measured.name, measured.dimensions) in drawn:
                lines.setdefault(row.threshold, []).append(f"{row.alarm}: {row.annotation}")
        return [
            cloudwatch.HorizontalAnnotation(
                value=value, label=", ".join(labels), color=cloudwatch.Color.RED
            )
            for value, labels in lines.items()
        ]


class _Band:
    def __init__(self, app: AppSettings, settings: PipelineSettings) -> None:
        self._app = app
        self._settings = settings
        self._queues = Addresses.of(app, settings)
        self._ours = OurMetrics(app.app, settings.name)
        self._rows = tuple(rows(app, settings, self._queues))
        self._thresholds = Thresholds(self._rows)

    def text(self) -> cloudwatch.IWidget:
        """What it is, and what to type first."""
        name, owner = self._settings.name, self._settings.owner or self._app.owner
        commands = (
            (f"dlq status --pipeline {name}", "what is wrong"),
            (f"dlq groups --pipeline {name}", "why letters fail"),
            (f"dlq circuit list --pipeline {name}", "which dependencies are down"),
            (f"dlq parked list --pipeline {name}", "what waits for a person"),
        )
        lines = "\n".join(f"`{command}` {what}  " for command, what in commands)
        return cloudwatch.TextWidget(
            markdown=f"## {name}\nMode {self._settings.mode}. Owner: {owner}."
            f" Runbook: {self._app.runbook}\n\n{lines}",
            width=GRAPH,
            height=HEIGHT,
        )

    def alarms(self, scope: Construct) -> cloudwatch.IWidget:
        """Which alarms ring."""
        prefix = pipeline_prefix(self._app.app, self._settings.name)
        home = Construct(scope, f"Alarms-{self._settings.name}")
        return cloudwatch.AlarmStatusWidget(
            title=f"{self._settings.name}: alarms",
            alarms=[alarm_called(home, f"{prefix}{row.name}") for row in self._rows],
            width=COLUMNS - GRAPH,
            height=HEIGHT,
        )

    def of_letters(self) -> list[cloudwatch.IWidget]:
        """Where letters are, where they go, and how old they are."""
        ours = self._ours
        letters = [ours.of(Metric.LETTERS, MAXIMUM, source=source) for source in self._sources]
        ages = [
            ours.of(Metric.OLDEST_LETTER_AGE, MAXIMUM, source=source)
            for source in (*self._sources, *ROOMS)
        ]
        expiry = [
            ours.of(Metric.SECONDS_TO_EXPIRY, MINIMUM, source=source, label=f"{source} expires in")
            for source in (MAIN, *self._sources)
        ]
        visible = "ApproximateNumberOfMessagesVisible"
        age = "ApproximateAgeOfOldestMessage"
        dlq, main = self._queues.dlq.name, self._queues.main.name
        return [
            self._graph(
                "flow",
                ours.all_of(
                    *(Metric.RECEIVED, Metric.REDRIVEN, Metric.HELD, Metric.DIVERTED),
                    *(Metric.MOVED_TO_PARKING, Metric.LEFT_IN_PLACE, Metric.RESCUED),
                    *(Metric.LOOKED_AT, Metric.REDRIVE_BOUNCED),
                ),
            ),
            self._graph(
                "letters",
                [
                    of_queue(dlq, visible, MAXIMUM, "DLQ, as SQS says"),
                    *letters,
                    ours.of(Metric.LETTERS, MAXIMUM, source="room"),
                    ours.of(Metric.PARKED_UNATTENDED, MAXIMUM, label="parked and unattended"),
                ],
                [
                    ours.of(
                        *(Metric.DEPTH_DIRECTION, MAXIMUM), label="direction: 1 rising, -1 falling"
                    )
                ],
                right_axis=DIRECTION,
            ),
            self._graph(
                "ages (seconds)",
                [
                    of_queue(dlq, age, MAXIMUM, "DLQ, as SQS says"),
                    ours.of(Metric.OLDEST_LETTER_AGE, MAXIMUM, label="oldest that a run drains"),
                    *ages,
                    ours.of(Metric.AGE_WHEN_RECEIVED, AVERAGE, label="average when received"),
                ],
            ),
            self._graph(
                "time to expiry, age of the main queue (seconds)",
                [
                    ours.of(Metric.SECONDS_TO_EXPIRY, MINIMUM, label="next letter expires in"),
                    *expiry,
                ],
                [of_queue(main, age, MAXIMUM, "main queue, as SQS says")],
            ),
        ]

    def of_outcomes(self) -> list[cloudwatch.IWidget]:
        """What became of messages, and why they failed."""
        ours = self._ours
        hourly = {
            "recovered": ours.of(Metric.LETTERS_RECOVERED, period=HOUR),
            "redriven": ours.of(Metric.REDRIVEN, period=HOUR),
        }
        rate = computed(
            # An hour in which nothing was re-driven has no point.
            "100 * FILL(recovered, 0) / redriven",
            hourly,
            "recovered of a hundred re-driven",
            period=HOUR,
        )
        attempts = Metric.ATTEMPTS_BEFORE_RECOVERY
        buckets = [
            ours.of(attempts, statistic, label=label, period=HOUR)
            for label, statistic in BUCKETS.items()
        ]
        categories = [
            ours.of(Metric.FAILURES_BY_CATEGORY, category=category)
            for category in FAILURE_CATEGORIES
        ]
        return [
            self._graph(
                "outcomes",
                ours.all_of(
                    *(Metric.PROCESSED, Metric.SKIPPED, Metric.DEDUPLICATED),
                    *(Metric.PROCESSING_FAILURE, Metric.LETTERS_RECOVERED),
                ),
            ),
            self._graph(
                "retries, hour by hour",
                [rate],
                [ours.of(attempts, AVERAGE, label="average re-drives", period=HOUR)],
            ),
            self._graph("re-drives of recovered letters", buckets, bars=True),
            self._graph("failures by category", categories, stacked=True),
            self._graph(
                "causes",
                [
                    *ours.all_of(Metric.CAUSES_HELD, Metric.FAILURE_DOMINATES, statistic=MAXIMUM),
                    *ours.all_of(
                        *(Metric.SUDDENLY_PERMANENT, Metric.DOMINANT_FAILURE),
                        Metric.CONFIGURATION_FAILURE,
                    ),
                ],
            ),
        ]

    def of_troubles(self) -> list[cloudwatch.IWidget]:
        """Circuits, rules, runs, and what the consumer library ran into."""
        ours = self._ours
        return [
            self._graph(
                "circuit",
                [
                    *ours.all_of(
                        *(Metric.CIRCUIT_TROUBLE, Metric.CIRCUIT_STATE, Metric.OPEN_CIRCUITS),
                        Metric.CONFIGURATION_HELD,
                        statistic=MAXIMUM,
                    ),
                    ours.of(Metric.CIRCUIT_OPENED),
                ],
                [ours.of(Metric.REFUSED_WHILE_OPEN)],
            ),
            self._graph(
                "outages",
                [
                    *ours.all_of(
                        *(Metric.CIRCUIT_TRIPPED, Metric.CIRCUIT_NOT_TRIPPED),
                        *(Metric.OUTAGE_NOT_STARTED, Metric.OUTAGE_RESTARTED),
                        *(Metric.CIRCUIT_UNANNOUNCED, Metric.NOTHING_TO_PAUSE),
                        *(Metric.CONSUMER_NOT_PAUSED, Metric.NOTHING_TO_PROBE),
                        *(Metric.MAPPING_PUT_BACK, Metric.SWEEP_FAILED),
                    ),
                    self._of_breaker("ExecutionsStarted"),
                    self._of_breaker("ExecutionsFailed"),
                ],
            ),
            self._graph(
                "rules and replays",
                [
                    *ours.all_of(Metric.RULE_TROUBLE, Metric.REPLAY_BROKEN, statistic=MAXIMUM),
                    *ours.all_of(
                        *(Metric.RULE_INVALID, Metric.RULE_LIMIT_REACHED, Metric.REPLAY_RESTARTED),
                        *(Metric.EVENT_REFUSED, Metric.NEWS_UNREAD),
                    ),
                    of_machine(
                        replay_machine_arn(self._app, self._settings.name),
                        *("ExecutionsStarted", "replay steps started"),
                    ),
                ],
            ),
            self._graph(
                "runs that could not work",
                [
                    *ours.all_of(Metric.REDRIVE_STALLED, Metric.LETTER_TROUBLE, statistic=MAXIMUM),
                    *ours.all_of(
                        *(Metric.LEASE_UNAVAILABLE, Metric.ROUTER_UNAVAILABLE),
                        *(Metric.JOURNAL_UNAVAILABLE, Metric.ROOM_UNAVAILABLE),
                        *(Metric.QUEUE_UNAVAILABLE, Metric.CIRCUITS_UNAVAILABLE),
                    ),
                ],
            ),
            self._graph(
                "letters with trouble",
                ours.all_of(
                    *(Metric.MOVE_FAILED, Metric.POSSIBLE_DUPLICATE, Metric.ALREADY_SENT),
                    *(Metric.REDRIVE_UNMARKED, Metric.REDRIVE_UNRECORDED, Metric.UNDECIDED),
                    *(Metric.UNDELETED, Metric.UNSENDABLE, Metric.TOO_LATE_TO_SEND),
                    *(Metric.BROKEN_IN_ROOM, Metric.FOREIGN_LETTER, Metric.FORGED_STAMP),
                    Metric.ATTRIBUTE_RENAMED,
                ),
            ),
            self._graph(
                "consumer",
                ours.all_of(
                    *(Metric.BUSY_ELSEWHERE, Metric.LEASE_LOST, Metric.GROUP_HELD_BACK),
                    *(Metric.TOO_LATE_TO_PROCESS, Metric.UNFINISHED, Metric.VISIBILITY_UNCHANGED),
                    *(Metric.IDEMPOTENCY_COLLISION, Metric.MANY_COLLISIONS),
                    *(Metric.IDEMPOTENCY_UNAVAILABLE, Metric.LEDGER_UNAVAILABLE),
                    *(Metric.PARKING_UNAVAILABLE, Metric.OUTCOMES_DROPPED),
                    Metric.CONSUMER_LIBRARY_ERROR,
                ),
            ),
        ]

    def of_aws(self) -> list[cloudwatch.IWidget]:
        """The functions, and what they and the queues cost."""
        drawn = tuple(functions(self._app, self._settings))
        return [
            self._graph(
                "functions throttled (left) and failed (right)",
                [of_function(each.name, "Throttles", SUM, each.role) for each in drawn],
                [of_function(each.name, "Errors", SUM, each.role) for each in drawn],
            ),
            cloudwatch.GraphWidget(
                title=self._title("longest calls (percent of the timeout)"),
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
            self._graph(
                "estimated costs (USD an hour, at prices of us-east-1)",
                pipeline_costs(self._app, self._settings, self._queues),
                stacked=True,
            ),
        ]

    @property
    def _sources(self) -> tuple[str, ...]:
        """The queues that the watch publishes figures about."""
        parking = map(parking_source, self._queues.parking)
        return (MAIN_DLQ, *self._queues.dedicated, *parking)

    def _title(self, title: str) -> str:
        return f"{self._settings.name}: {title}"

    def _of_breaker(self, metric: str) -> cloudwatch.Metric:
        return of_machine(state_machine_arn(self._app, self._settings.name), metric, metric)

    def _graph(
        self, title: str, left: MetricList, right: MetricList = (), **more: Any
    ) -> cloudwatch.IWidget:
        return graph(self._title(title), left, right, self._thresholds, **more)


def graph(
    title: str,
    left: MetricList,
    right: MetricList = (),
    thresholds: Thresholds | None = None,
    *,
    right_axis: cloudwatch.YAxisProps = FROM_ZERO,
    stacked: bool = False,
    bars: bool = False,
) -> cloudwatch.IWidget:
    """A graph with the thresholds of the alarms on its metrics.

    With `bars` it has one bar a metric, for all the time that the dashboard shows.
    """
    lines = thresholds or Thresholds(())
    return cloudwatch.GraphWidget(
        title=title,
        left=list(left),
        right=list(right),
        left_annotations=lines.of(left),
        right_annotations=lines.of(right),
        left_y_axis=FROM_ZERO,
        right_y_axis=right_axis if right else None,
        stacked=stacked,
        view=cloudwatch.GraphWidgetView.BAR if bars else None,
        set_period_to_time_range=True if bars else None,
        width=GRAPH,
        height=HEIGHT,
    )


def alarm_called(scope: Construct, name: str) -> cloudwatch.IAlarm:
    """The alarm of this name: by name, because its stack comes later than the dashboard's."""
    arn = f"arn:{Aws.PARTITION}:cloudwatch:{Aws.REGION}:{Aws.ACCOUNT_ID}:alarm:{name}"
    return cloudwatch.Alarm.from_alarm_arn(scope, name, arn)
