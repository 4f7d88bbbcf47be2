"""The alarms of a pipeline: about a dozen, on plain metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from deadletter.contract import (
    APP_DIMENSION,
    CIRCUIT_LEVELS,
    DEFAULT_PARKING,
    DIMENSION,
    NAMESPACE,
    Alarm,
    Metric,
)

from .duration import MINUTE, written
from .names import Names
from .outage import state_machine_arn
from .pager import Pager
from .queues import QueueReference, Queues
from .settings import AppSettings, PipelineSettings

# CloudWatch's limit for the description of an alarm.
LONGEST_DESCRIPTION = 1024

# Seconds of the longest period of an alarm that watches a long time.
LONGEST_LOOK = 5 * MINUTE

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
LESS = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD


@dataclass(frozen=True, slots=True)
class Page:
    """The description of an alarm, in parts; `name` is also the runbook's section."""

    name: str
    symptom: str
    likely_cause: str
    command: str = "dlq status"

    def text(self, pipeline: str | None, runbook: str) -> str:
        """The description of the alarm: four lines that read well with and without Markdown."""
        about = f" --pipeline {pipeline}" if pipeline else ""
        return (
            f"Symptom: {self.symptom}\n"
            f"Likely cause: {self.likely_cause}\n"
            f"First command: `{self.command}{about}`\n"
            f"Runbook: {runbook}#{self.name.lower()}"
        )


RULE_INVALID = Page(
    Alarm.RULE_INVALID,
    "a rule is invalid and matches nothing.",
    "a typing mistake: status_reason of the item in the rules table says which.",
    command="dlq rules list",
)


class PipelineAlarms(Construct):
    """The alarms of one pipeline, by name; each notifies the pager when it starts and ends.

    Each alarm says how it treats missing data: an idle queue or function reports nothing,
    and only for the heartbeat is that a fault.
    """

    alarms: Mapping[str, cloudwatch.Alarm]

    def __init__(
        self,
        scope: Construct,
        construct_id: str,
        *,
        settings: PipelineSettings,
        app: AppSettings,
        queues: Queues,
        pager: Pager,
    ) -> None:
        super().__init__(scope, construct_id)
        self._settings = settings
        self._app = app
        self._names = Names(app.app, settings.name)
        self._pager = actions.SnsAction(sns.Topic.from_topic_arn(self, "Pager", pager.topic_arn))
        self._alarms: dict[str, cloudwatch.Alarm] = {}
        self.alarms = self._alarms
        self._on_letters(queues.dlq)
        for name, dedicated in queues.dedicated.items():
            self._on_letters(dedicated, name)
        self._on_parking(queues.parking)
        self._on_functions()
        self._on_rules()
        self._on_circuits()
        if settings.writes_ledger:
            self._on_failures()

    def _on_letters(self, dlq: QueueReference, dedicated: str | None = None) -> None:
        """Age and depth of the DLQ or of a dedicated DLQ, which by default is not drained."""
        alarms = self._settings.alarms
        suffix = f"_{dedicated}" if dedicated else ""
        self._alarm(
            Page(
                Alarm.DLQ_AGE,
                f"the oldest letter is older than {written(alarms.dlq_age.threshold)}.",
                "the dependency is still down and its circuit open, the redriver fails or waits"
                " for the main queue's backlog, or its rate is too low.",
            ),
            suffix=suffix,
            metric=_of_queue(dlq, "ApproximateAgeOfOldestMessage", alarms.dlq_age.period),
            threshold=alarms.dlq_age.threshold,
            periods=alarms.dlq_age.periods,
        )
        self._alarm(
            Page(
                Alarm.DLQ_DEPTH,
                f"{alarms.dlq_depth.threshold} letters or more wait in the DLQ.",
                "the consumer or its dependency fails for all messages: a deployment, an outage,"
                " an expired credential.",
            ),
            suffix=suffix,
            metric=_of_queue(dlq, "ApproximateNumberOfMessagesVisible", alarms.dlq_depth.period),
            threshold=alarms.dlq_depth.threshold,
            periods=alarms.dlq_depth.periods,
        )

    def _on_parking(self, lot: Mapping[str, QueueReference]) -> None:
        parking_alarm = self._settings.alarms.parking_lot
        for parking, queue in lot.items():
            page = Page(
                Alarm.PARKING_LOT_NOT_EMPTY,
                f"letters that automation has given up are in {queue.name}.",
                "a rule quarantines them, or they are poison, exhausted, expired or malformed:"
                " the reason is in each letter.",
                command="dlq parked list",
            )
            self._alarm(
                page,
                suffix="" if parking == DEFAULT_PARKING else f"_{parking}",
                metric=_of_queue(queue, "ApproximateNumberOfMessagesVisible", parking_alarm.period),
                threshold=parking_alarm.threshold,
                periods=parking_alarm.periods,
                # A letter stays parked when SQS no longer reports metrics of its queue.
                missing=cloudwatch.TreatMissingData.IGNORE,
            )

    def _on_functions(self) -> None:
        alarms = self._settings.alarms
        self._alarm(
            Page(
                Alarm.REDRIVE_ERRORS,
                "runs of the redriver fail; letters stay in their queues.",
                "a missing permission or queue, a throttled table, or a run that reached its"
                " timeout.",
            ),
            metric=self._of_function("redrive", "Errors", alarms.redrive_errors.period),
            threshold=alarms.redrive_errors.threshold,
            periods=alarms.redrive_errors.periods,
        )
        self._alarm(
            Page(
                Alarm.ROUTER_ERRORS,
                "the router fails; it decides nothing, and letters stay in their queues.",
                "a missing permission, a throttled table, or a letter that takes too long to"
                " judge.",
            ),
            metric=self._of_function("route", "Errors", alarms.router_errors.period),
            threshold=alarms.router_errors.threshold,
            periods=alarms.router_errors.periods,
        )
        self._alarm(
            Page(
                Alarm.REDRIVE_HEARTBEAT,
                f"the redriver has not run for {written(self._settings.heartbeat)}.",
                "its schedule is disabled or deleted, the schedule's role may not start it, or the"
                " account has no concurrency left.",
            ),
            metric=self._of_function("redrive", "Invocations", self._settings.heartbeat),
            threshold=1,
            periods=1,
            comparison=LESS,
            missing=cloudwatch.TreatMissingData.BREACHING,
        )

    def _on_rules(self) -> None:
        self._alarm(
            RULE_INVALID,
            metric=counted(Metric.RULE_INVALID, self._app.app, self._settings.name),
            threshold=1,
            periods=1,
        )
        limit = Page(
            Alarm.RULE_LIMIT_REACHED,
            "a rule has matched max_matches letters and has stopped.",
            "the rule matches more than intended, or the incident is larger than expected: raise"
            " max_matches, or disable the rule.",
            command="dlq rules list",
        )
        self._alarm(
            limit,
            metric=counted(Metric.RULE_LIMIT_REACHED, self._app.app, self._settings.name),
            threshold=1,
            periods=1,
        )

    def _on_circuits(self) -> None:
        alarms, app, pipeline = self._settings.alarms, self._app.app, self._settings.name
        open_for = self._settings.circuit_open
        # Each period holds a run of the redriver, which reports the circuit's state.
        period = max(self._settings.redrive.every, min(LONGEST_LOOK, open_for))
        self._alarm(
            Page(
                Alarm.CIRCUIT_OPEN,
                f"the circuit has not been closed for {written(open_for)}; letters wait.",
                "the consumer's dependency is down, a person holds the circuit open, or canaries"
                " fail for a reason of their own.",
                command="dlq circuit show",
            ),
            metric=_gauge(Metric.CIRCUIT_STATE, app, pipeline, period, "Minimum"),
            threshold=CIRCUIT_LEVELS["HALF_OPEN"],
            periods=-(-open_for // period),
            # A circuit that could not be read has not changed.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )
        flapping = alarms.circuit_flapping
        self._alarm(
            Page(
                Alarm.CIRCUIT_FLAPPING,
                f"the circuit opened {flapping.threshold} times or more within"
                f" {written(flapping.period * flapping.periods)}.",
                "the dependency works for canaries and fails under load, or the circuit opens for"
                " failures that the dependency does not cause.",
                command="dlq circuit show",
            ),
            metric=counted(Metric.CIRCUIT_OPENED, app, pipeline, flapping.period),
            threshold=flapping.threshold,
            periods=flapping.periods,
        )
        if self._settings.circuit_key is not None:
            open_circuits = alarms.open_circuits
            self._alarm(
                Page(
                    Alarm.OPEN_CIRCUITS,
                    f"the circuits of {open_circuits.threshold} keys or more are not closed.",
                    "something that these dependencies share is down: a network, a proxy, a"
                    " credential, or the consumer itself.",
                    command="dlq circuit list",
                ),
                metric=_gauge(Metric.OPEN_CIRCUITS, app, pipeline, open_circuits.period, "Maximum"),
                threshold=open_circuits.threshold,
                periods=open_circuits.periods,
                missing=cloudwatch.TreatMissingData.IGNORE,
            )
        failed = alarms.circuit_breaker_failed
        self._alarm(
            Page(
                Alarm.CIRCUIT_BREAKER_FAILED,
                "executions that run an outage fail; each is replaced, and the circuit does not"
                " change.",
                "a missing permission, a throttled table, or a consumer that can't be invoked or"
                " resumed.",
                command="dlq circuit show",
            ),
            metric=cloudwatch.Metric(
                namespace="AWS/States",
                metric_name="ExecutionsFailed",
                dimensions_map={"StateMachineArn": state_machine_arn(self._app, pipeline)},
                statistic="Sum",
                period=cdk.Duration.seconds(failed.period),
            ),
            threshold=failed.threshold,
            periods=failed.periods,
        )

    def _on_failures(self) -> None:
        alarms, app, pipeline = self._settings.alarms, self._app.app, self._settings.name
        dominant = Page(
            Alarm.DOMINANT_FAILURE,
            "more than half of the dead letters failed with the same error.",
            "a defect in the consumer or in a producer's messages, most often from the last"
            " deployment: the letters return to the DLQ until it is fixed.",
        )
        self._alarm(
            dominant,
            metric=counted(Metric.DOMINANT_FAILURE, app, pipeline, alarms.dominant_failure.period),
            threshold=alarms.dominant_failure.threshold,
            periods=alarms.dominant_failure.periods,
        )
        ledger = Page(
            Alarm.LEDGER_UNAVAILABLE,
            "the consumer works, but cannot record why messages fail.",
            "a missing permission of the consumer's role, or a throttled table; letters then"
            " appear as SILENT or have no reason.",
        )
        self._alarm(
            ledger,
            metric=counted(
                Metric.LEDGER_UNAVAILABLE, app, pipeline, alarms.ledger_unavailable.period
            ),
            threshold=alarms.ledger_unavailable.threshold,
            periods=alarms.ledger_unavailable.periods,
        )

    def _alarm(
        self,
        page: Page,
        *,
        metric: cloudwatch.Metric,
        threshold: float,
        periods: int,
        comparison: cloudwatch.ComparisonOperator = AT_LEAST,
        missing: cloudwatch.TreatMissingData = cloudwatch.TreatMissingData.NOT_BREACHING,
        suffix: str = "",
    ) -> None:
        name = f"{page.name}{suffix}"
        alarm = cloudwatch.Alarm(
            self,
            name,
            alarm_name=self._names.alarm(name),
            alarm_description=page.text(self._settings.name, self._app.runbook),
            metric=metric,
            threshold=threshold,
            evaluation_periods=periods,
            comparison_operator=comparison,
            treat_missing_data=missing,
        )
        alarm.add_alarm_action(self._pager)
        alarm.add_ok_action(self._pager)
        self._alarms[name] = alarm

    def _of_function(self, role: str, name: str, period: int) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=name,
            dimensions_map={"FunctionName": self._names.function(role)},
            statistic="Sum",
            period=cdk.Duration.seconds(period),
        )


def counted(name: str, app: str, pipeline: str, period: int = MINUTE) -> cloudwatch.Metric:
    """The sum that our functions count of a pipeline in each period (seconds)."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={APP_DIMENSION: app, DIMENSION: pipeline},
        statistic="Sum",
        period=cdk.Duration.seconds(period),
    )


def _gauge(name: str, app: str, pipeline: str, period: int, statistic: str) -> cloudwatch.Metric:
    """A gauge of a pipeline, which each run of the redriver reports."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={APP_DIMENSION: app, DIMENSION: pipeline},
        statistic=statistic,
        period=cdk.Duration.seconds(period),
    )


def _of_queue(queue: QueueReference, name: str, period: int) -> cloudwatch.Metric:
    return cloudwatch.Metric(
        namespace="AWS/SQS",
        metric_name=name,
        dimensions_map={"QueueName": queue.name},
        statistic="Maximum",
        period=cdk.Duration.seconds(period),
    )
