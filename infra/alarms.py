"""What calls a person: about a dozen alarms a pipeline, on plain metrics."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch
from aws_cdk import aws_cloudwatch_actions as actions
from aws_cdk import aws_sns as sns
from constructs import Construct

from deadletter.contract import CIRCUIT_LEVELS, DEFAULT_PARKING, DIMENSION, NAMESPACE, Alarm, Metric

from .duration import MINUTE, written
from .names import Names
from .outage import state_machine_arn
from .pager import Pager
from .queues import QueueReference, Queues
from .settings import AppSettings, PipelineSettings

# CloudWatch's limit for the description of an alarm.
LONGEST_DESCRIPTION = 1024

# Seconds of a metric that are looked at together where a long time is watched.
LONGEST_LOOK = 5 * MINUTE

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
LESS = cloudwatch.ComparisonOperator.LESS_THAN_THRESHOLD


@dataclass(frozen=True, slots=True)
class Page:
    """What the person who is called reads first; `name` is also the runbook's section."""

    name: str
    symptom: str
    likely_cause: str
    command: str = "dlq status"

    def text(self, pipeline: str | None, runbook: str) -> str:
        """The description of the alarm: four lines, with and without Markdown."""
        about = f" --pipeline {pipeline}" if pipeline else ""
        return (
            f"Symptom: {self.symptom}\n"
            f"Likely cause: {self.likely_cause}\n"
            f"First command: `{self.command}{about}`\n"
            f"Runbook: {runbook}#{self.name.lower()}"
        )


RULE_INVALID = Page(
    Alarm.RULE_INVALID,
    "a rule cannot be understood and matches nothing.",
    "a typing mistake: the item in the rules table says why, in status_reason.",
    command="dlq rules list",
)


class PipelineAlarms(Construct):
    """The alarms of one pipeline, by name; each tells the pager when it starts and when it is over.

    What missing data means is decided for each: an idle queue or function reports
    nothing, and only for the heartbeat is that the fault.
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
        self._made: dict[str, cloudwatch.Alarm] = {}
        self.alarms = self._made
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
        """A dedicated DLQ ages unseen as well: nobody drains it by default."""
        wanted = self._settings.alarms
        suffix = f"_{dedicated}" if dedicated else ""
        self._alarm(
            Page(
                Alarm.DLQ_AGE,
                f"the oldest letter is older than {written(wanted.dlq_age.threshold)}.",
                "the dependency is still down and its circuit open, the redriver fails or is"
                " held back by the main queue's backlog, or its rate is too low.",
            ),
            suffix=suffix,
            metric=_of_queue(dlq, "ApproximateAgeOfOldestMessage", wanted.dlq_age.period),
            threshold=wanted.dlq_age.threshold,
            periods=wanted.dlq_age.periods,
        )
        self._alarm(
            Page(
                Alarm.DLQ_DEPTH,
                f"{wanted.dlq_depth.threshold} letters or more wait in the DLQ.",
                "the consumer or what it depends on fails for everybody: a deployment, an"
                " outage, an expired credential.",
            ),
            suffix=suffix,
            metric=_of_queue(dlq, "ApproximateNumberOfMessagesVisible", wanted.dlq_depth.period),
            threshold=wanted.dlq_depth.threshold,
            periods=wanted.dlq_depth.periods,
        )

    def _on_parking(self, lot: Mapping[str, QueueReference]) -> None:
        wanted = self._settings.alarms.parking_lot
        for parking, queue in lot.items():
            page = Page(
                Alarm.PARKING_LOT_NOT_EMPTY,
                f"automation has given letters up; they are in {queue.name}.",
                "a rule quarantines them, or they are poison, exhausted, expired or malformed:"
                " each letter says which.",
                command="dlq parked list",
            )
            self._alarm(
                page,
                suffix="" if parking == DEFAULT_PARKING else f"_{parking}",
                metric=_of_queue(queue, "ApproximateNumberOfMessagesVisible", wanted.period),
                threshold=wanted.threshold,
                periods=wanted.periods,
                # A parked letter that SQS no longer reports on is still parked.
                missing=cloudwatch.TreatMissingData.IGNORE,
            )

    def _on_functions(self) -> None:
        wanted = self._settings.alarms
        self._alarm(
            Page(
                Alarm.REDRIVE_ERRORS,
                "runs of the redriver fail; letters stay where they are.",
                "a missing permission or queue, a throttled table, or a run that was killed by"
                " its timeout.",
            ),
            metric=self._of_function("redrive", "Errors", wanted.redrive_errors.period),
            threshold=wanted.redrive_errors.threshold,
            periods=wanted.redrive_errors.periods,
        )
        self._alarm(
            Page(
                Alarm.ROUTER_ERRORS,
                "the router fails; nothing is decided, letters stay where they are.",
                "a missing permission, a throttled table, or a letter that takes too long to"
                " judge.",
            ),
            metric=self._of_function("route", "Errors", wanted.router_errors.period),
            threshold=wanted.router_errors.threshold,
            periods=wanted.router_errors.periods,
        )
        self._alarm(
            Page(
                Alarm.REDRIVE_HEARTBEAT,
                f"the redriver has not run for {written(self._settings.heartbeat)}.",
                "its schedule is disabled or was deleted, the schedule's role may not start it,"
                " or the account has no concurrency left.",
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
            metric=counted(Metric.RULE_INVALID, self._settings.name),
            threshold=1,
            periods=1,
        )
        limit = Page(
            Alarm.RULE_LIMIT_REACHED,
            "a rule has matched as many letters as its max_matches allows; it does nothing now.",
            "the rule matches more than was meant, or the trouble it was written for is larger:"
            " raise max_matches, or disable the rule.",
            command="dlq rules list",
        )
        self._alarm(
            limit,
            metric=counted(Metric.RULE_LIMIT_REACHED, self._settings.name),
            threshold=1,
            periods=1,
        )

    def _on_circuits(self) -> None:
        wanted, pipeline = self._settings.alarms, self._settings.name
        open_for = self._settings.circuit_open
        # Each period holds a run of the redriver, which says how the circuit stands.
        period = max(self._settings.redrive.every, min(LONGEST_LOOK, open_for))
        self._alarm(
            Page(
                Alarm.CIRCUIT_OPEN,
                f"the circuit has not been closed for {written(open_for)}; letters wait.",
                "what the consumer depends on is down, a person holds the circuit open, or"
                " canaries fail for a reason of their own.",
                command="dlq circuit show",
            ),
            metric=_standing(Metric.CIRCUIT_STATE, pipeline, period, "Minimum"),
            threshold=CIRCUIT_LEVELS["HALF_OPEN"],
            periods=-(-open_for // period),
            # A circuit that could not be read is as it was.
            missing=cloudwatch.TreatMissingData.IGNORE,
        )
        flapping = wanted.circuit_flapping
        self._alarm(
            Page(
                Alarm.CIRCUIT_FLAPPING,
                f"the circuit opened {flapping.threshold} times or more within"
                f" {written(flapping.period * flapping.periods)}.",
                "the dependency works for canaries and fails under load, or the circuit opens for"
                " failures that are not the dependency's.",
                command="dlq circuit show",
            ),
            metric=counted(Metric.CIRCUIT_OPENED, pipeline, flapping.period),
            threshold=flapping.threshold,
            periods=flapping.periods,
        )
        if self._settings.circuit_key is not None:
            many = wanted.open_circuits
            self._alarm(
                Page(
                    Alarm.OPEN_CIRCUITS,
                    f"the circuits of {many.threshold} keys or more are not closed.",
                    "what these dependencies share is down: a network, a proxy, a credential, or"
                    " the consumer itself.",
                    command="dlq circuit list",
                ),
                metric=_standing(Metric.OPEN_CIRCUITS, pipeline, many.period, "Maximum"),
                threshold=many.threshold,
                periods=many.periods,
                missing=cloudwatch.TreatMissingData.IGNORE,
            )
        failed = wanted.circuit_breaker_failed
        self._alarm(
            Page(
                Alarm.CIRCUIT_BREAKER_FAILED,
                "executions that run an outage fail; each is replaced, and the circuit stays as"
                " it is.",
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
        wanted, pipeline = self._settings.alarms, self._settings.name
        dominant = Page(
            Alarm.DOMINANT_FAILURE,
            "one and the same failure makes up more than half of the dead letters.",
            "a defect in the consumer or in what a producer sends, most often from the last"
            " deployment: the letters come back dead until it is mended.",
        )
        self._alarm(
            dominant,
            metric=counted(Metric.DOMINANT_FAILURE, pipeline, wanted.dominant_failure.period),
            threshold=wanted.dominant_failure.threshold,
            periods=wanted.dominant_failure.periods,
        )
        ledger = Page(
            Alarm.LEDGER_UNAVAILABLE,
            "the consumer goes on, but can't write down why messages fail.",
            "a missing permission of the consumer's role, or a throttled table; letters then"
            " look SILENT or lose their reason.",
        )
        self._alarm(
            ledger,
            metric=counted(Metric.LEDGER_UNAVAILABLE, pipeline, wanted.ledger_unavailable.period),
            threshold=wanted.ledger_unavailable.threshold,
            periods=wanted.ledger_unavailable.periods,
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
        self._made[name] = alarm

    def _of_function(self, role: str, name: str, period: int) -> cloudwatch.Metric:
        return cloudwatch.Metric(
            namespace="AWS/Lambda",
            metric_name=name,
            dimensions_map={"FunctionName": self._names.function(role)},
            statistic="Sum",
            period=cdk.Duration.seconds(period),
        )


def counted(name: str, pipeline: str, period: int = MINUTE) -> cloudwatch.Metric:
    """What our functions count of a pipeline, by the period in seconds."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={DIMENSION: pipeline},
        statistic="Sum",
        period=cdk.Duration.seconds(period),
    )


def _standing(name: str, pipeline: str, period: int, statistic: str) -> cloudwatch.Metric:
    """How something of a pipeline stands, which each run of the redriver says anew."""
    return cloudwatch.Metric(
        namespace=NAMESPACE,
        metric_name=name,
        dimensions_map={DIMENSION: pipeline},
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
