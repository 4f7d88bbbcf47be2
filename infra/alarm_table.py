"""The alarms of a pipeline as one table: the metric, when it rings, and what its page says.

Metrics of the watch are levels: published each minute while the trouble lasts. Alarms on them
look at three minutes and ring at one, so that a minute in which the watch did not run does not
end a page that is still true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import aws_cdk as cdk
from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import (
    APP_DIMENSION,
    CIRCUIT_LEVELS,
    DEFAULT_PARKING,
    DIMENSION,
    MAIN_DLQ,
    NAMESPACE,
    SOURCE_DIMENSION,
    Alarm,
    Metric,
    parking_source,
)

from .duration import DAY, MINUTE, written
from .names import Names
from .outage import state_machine_arn
from .queues import Addresses, QueueReference
from .router import TIMEOUT as ROUTER_TIMEOUT
from .settings import AppSettings, PipelineSettings, WebhookConsumer

# Seconds of the longest period of an alarm that watches a long time.
LONGEST_LOOK = 5 * MINUTE

# Seconds between two counts of the waiting room's lanes by the watch.
BETWEEN_COUNTS = 10 * MINUTE

# The part of its timeout that a function may take before a person is called.
SLOW = 0.8

AT_LEAST = cloudwatch.ComparisonOperator.GREATER_THAN_OR_EQUAL_TO_THRESHOLD
AT_MOST = cloudwatch.ComparisonOperator.LESS_THAN_OR_EQUAL_TO_THRESHOLD

# A queue or a function that is idle publishes nothing: that is no trouble.
QUIET = cloudwatch.TreatMissingData.NOT_BREACHING
# SQS stops publishing for a queue that is not polled: what was true stays true.
KEPT = cloudwatch.TreatMissingData.IGNORE

DENIED = "a denied action or a throttled table: `dlq status` names it"


@dataclass(frozen=True, slots=True)
class Page:
    """What the description of an alarm says; `name` is also the runbook's section."""

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


@dataclass(frozen=True, slots=True)
class Evaluation:
    """An alarm rings if `datapoints` of the last `periods` (of `period` seconds) breach.

    Without `datapoints`, all of them have to.
    """

    periods: int = 1
    datapoints: int | None = None
    period: int = MINUTE


LEVEL = Evaluation(periods=3, datapoints=1)

FUNCTION = Evaluation(periods=5, datapoints=3)

# A step of the state machine calls its function in bursts, with minutes of backoff in between.
STEP_OF_OUTAGE = Evaluation(periods=15, datapoints=2)


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
            period=cdk.Duration.seconds(period),
        )


@dataclass(frozen=True, slots=True)
class Row:
    """An alarm: what is measured, when it rings, what a gap means, and what its page says."""

    page: Page
    measured: Measured
    threshold: float
    evaluation: Evaluation = LEVEL
    missing: cloudwatch.TreatMissingData = QUIET
    comparison: cloudwatch.ComparisonOperator = AT_LEAST
    suffix: str = ""

    @property
    def name(self) -> str:
        """The name of the alarm, without those of app and pipeline."""
        return f"{self.page.name}_{self.suffix}" if self.suffix else self.page.name


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


def of_function(function: str, metric: str, statistic: str) -> Measured:
    """A metric that Lambda publishes of a function."""
    return Measured("AWS/Lambda", metric, {"FunctionName": function}, statistic)


def rules_refused(app: str, pipeline: str) -> Row:
    """Rules of a pipeline that are invalid."""
    page = Page(
        Alarm.RULE_INVALID,
        "a rule is invalid and matches nothing.",
        "a typing mistake: status_reason of the item in the rules table says which.",
        command="dlq rules list",
    )
    return Row(page, ours(Metric.RULES_REFUSED, app, pipeline), 1)


def rules_at_limit(app: str, pipeline: str) -> Row:
    """Rules of a pipeline that have used up their max_matches."""
    page = Page(
        Alarm.RULE_LIMIT_REACHED,
        "a rule has matched max_matches letters and has stopped.",
        "the rule matches more than intended, or the incident is larger than expected: raise"
        " max_matches, or disable the rule.",
        command="dlq rules list",
    )
    return Row(page, ours(Metric.RULES_AT_LIMIT, app, pipeline), 1)


def throttled(
    function: str,
    suffix: str,
    name: str = Alarm.FUNCTION_THROTTLED,
    command: str = "dlq status",
    evaluation: Evaluation = FUNCTION,
) -> Row:
    """A function that Lambda does not start, because too many run."""
    page = Page(
        name,
        f"Lambda throttles {function}: it does not run, or not often enough.",
        "its reserved concurrency is 0 or too low, or the account's concurrency is used up.",
        command,
    )
    return Row(page, of_function(function, "Throttles", "Sum"), 1, evaluation, suffix=suffix)


def rows(app: AppSettings, settings: PipelineSettings, queues: Addresses) -> Iterator[Row]:
    """All alarms of one pipeline."""
    yield from _on_letters(app, settings, queues)
    yield from _on_parking(app, settings, queues)
    yield from _on_room(app, settings)
    yield from _on_runs(app, settings)
    yield rules_refused(app.app, settings.name)
    yield rules_at_limit(app.app, settings.name)
    yield from _on_circuits(app, settings)
    yield from _on_replays(app, settings)
    yield from _on_functions(app, settings)
    if settings.writes_ledger:
        yield from _on_failures(app, settings)


def _on_letters(app: AppSettings, settings: PipelineSettings, queues: Addresses) -> Iterator[Row]:
    alarms = settings.alarms
    yield from _on_dlq(app, settings, MAIN_DLQ, queues.dlq)
    for id_, queue in queues.dedicated.items():
        yield from _on_dlq(app, settings, id_, queue)
    warning = settings.expiry_warning
    yield Row(
        Page(
            Alarm.LETTER_EXPIRY,
            f"SQS drops the oldest letter of a queue within {written(warning)}.",
            f"letters were not moved into the waiting room in time: {DENIED}. Or mode observe,"
            " which moves nothing.",
        ),
        ours(Metric.SECONDS_TO_EXPIRY, app.app, settings.name, statistic="Minimum"),
        warning,
        comparison=AT_MOST,
    )
    main = alarms.main_queue_age
    yield Row(
        Page(
            Alarm.MAIN_QUEUE_AGE,
            "the oldest message of the main queue is older than"
            f" {written(settings.main_queue_age)}; SQS drops it when the queue's retention ends.",
            "the consumer is paused, disabled, throttled or too slow.",
            command="dlq circuit show",
        ),
        of_queue(queues.main.name, "ApproximateAgeOfOldestMessage"),
        settings.main_queue_age,
        Evaluation(main.periods, period=main.period),
        KEPT,
    )


def _on_dlq(
    app: AppSettings, settings: PipelineSettings, source: str, queue: QueueReference
) -> Iterator[Row]:
    """The DLQ, or a dedicated DLQ, which by default is not drained."""
    age, depth = settings.alarms.dlq_age, settings.alarms.dlq_depth
    suffix = "" if source == MAIN_DLQ else source
    cause = (
        "the dependency is down and its circuit open, runs wait for the main queue's backlog, the"
        f" rate is too low, or {DENIED}."
    )
    yield Row(
        Page(Alarm.DLQ_AGE, f"the oldest letter is older than {written(age.threshold)}.", cause),
        of_queue(queue.name, "ApproximateAgeOfOldestMessage"),
        age.threshold,
        Evaluation(age.periods, period=age.period),
        KEPT,
        suffix=suffix,
    )
    # SQS leaves a letter out of its metric once it has been received three times.
    yield Row(
        Page(
            Alarm.LETTER_AGE,
            f"a letter is older than {written(age.threshold)}, by its own timestamp.",
            f"mode observe, which moves nothing; or {cause}",
        ),
        ours(Metric.OLDEST_LETTER_AGE, app.app, settings.name, source),
        age.threshold,
        suffix=suffix,
    )
    yield Row(
        Page(
            Alarm.DLQ_DEPTH,
            f"{depth.threshold} letters or more wait in the DLQ.",
            "the consumer or its dependency fails for all messages: a deployment, an outage,"
            " an expired credential.",
        ),
        of_queue(queue.name, "ApproximateNumberOfMessagesVisible"),
        depth.threshold,
        Evaluation(depth.periods, period=depth.period),
        KEPT,
        suffix=suffix,
    )


def _on_parking(app: AppSettings, settings: PipelineSettings, queues: Addresses) -> Iterator[Row]:
    for id_, queue in queues.parking.items():
        page = Page(
            Alarm.PARKING_LOT_NOT_EMPTY,
            f"letters that automation has given up are in {queue.name}, or were rescued from it.",
            "a rule quarantines them, or they are poison, exhausted, expired or malformed:"
            " the reason is in each letter.",
            command="dlq parked list",
        )
        yield Row(
            page,
            ours(Metric.LETTERS, app.app, settings.name, parking_source(id_)),
            settings.alarms.parking_lot.threshold,
            suffix="" if id_ == DEFAULT_PARKING else id_,
        )


def _on_room(app: AppSettings, settings: PipelineSettings) -> Iterator[Row]:
    room = settings.alarms.waiting_room
    yield Row(
        Page(
            Alarm.WAITING_ROOM_LATE,
            "a letter of the waiting room has been due for longer than"
            f" {written(settings.room_late)}.",
            f"runs end before they reach it, the rate is too low, or {DENIED}.",
        ),
        ours(Metric.OLDEST_LETTER_AGE, app.app, settings.name, "room:due"),
        settings.room_late,
    )
    yield Row(
        Page(
            Alarm.WAITING_ROOM_DEPTH,
            f"{room.threshold} letters or more are in the waiting room.",
            "a circuit has been open for long, a HOLD rule holds more than intended, or letters"
            " come back faster than rate lets them go.",
        ),
        ours(Metric.LETTERS, app.app, settings.name, "room"),
        room.threshold,
        Evaluation(period=BETWEEN_COUNTS),
        KEPT,
    )


def _on_runs(app: AppSettings, settings: PipelineSettings) -> Iterator[Row]:
    yield Row(
        Page(
            Alarm.REDRIVE_STALLED,
            "no run can do its work; letters stay where they are.",
            f"{DENIED}. Or the redriver or the router fails, or is throttled.",
        ),
        ours(Metric.REDRIVE_STALLED, app.app, settings.name),
        1,
        # A single minute, as in a deployment, is no stall.
        Evaluation(periods=5, datapoints=2),
    )
    # The watch writes a 1 ahead of each minute and lowers it when it runs. After the last one
    # there is no data, and a watch that is dead stays dead.
    yield Row(
        Page(
            Alarm.WATCH_HEARTBEAT,
            "the watch has stopped: outages, retention and these alarms are not looked after.",
            "its schedule is disabled or deleted, or may not start it; or the function fails or is"
            " throttled.",
        ),
        ours(Metric.WATCH_OVERDUE, app.app, settings.name, statistic="Minimum"),
        1,
        Evaluation(periods=3),
        KEPT,
    )
    yield Row(
        Page(
            Alarm.LETTER_TROUBLE,
            "runs meet letters that need a person: `dlq status` says which.",
            "a send without a record of its end, a letter that its queue refuses or the router"
            " does not decide, or a letter of the waiting room that is broken.",
        ),
        ours(Metric.LETTER_TROUBLE, app.app, settings.name),
        1,
    )


def _on_circuits(app: AppSettings, settings: PipelineSettings) -> Iterator[Row]:
    alarms, pipeline = settings.alarms, settings.name
    after = alarms.circuit_open.after
    period = LONGEST_LOOK if after % LONGEST_LOOK == 0 else MINUTE
    yield Row(
        Page(
            Alarm.CIRCUIT_OPEN,
            f"a circuit has not been closed for {written(after)}; letters wait.",
            "a dependency of the consumer is down, a person holds the circuit open, or canaries"
            " fail for a reason of their own.",
            command="dlq circuit list",
        ),
        ours(Metric.CIRCUIT_STATE, app.app, pipeline, statistic="Minimum"),
        CIRCUIT_LEVELS["HALF_OPEN"],
        Evaluation(after // period, period=period),
        # A circuit that could not be read has not changed.
        KEPT,
    )
    flapping = alarms.circuit_flapping
    yield Row(
        Page(
            Alarm.CIRCUIT_FLAPPING,
            f"the circuit opened {flapping.threshold} times or more within"
            f" {written(flapping.period * flapping.periods)}.",
            "the dependency works for canaries and fails under load, or the circuit opens for"
            " failures that the dependency does not cause.",
            command="dlq circuit show",
        ),
        ours(Metric.CIRCUIT_OPENED, app.app, pipeline, statistic="Sum"),
        flapping.threshold,
        Evaluation(flapping.periods, period=flapping.period),
    )
    if settings.key_of_circuits is not None:
        keys = alarms.open_circuits
        yield Row(
            Page(
                Alarm.OPEN_CIRCUITS,
                f"the circuits of {keys.threshold} keys or more are not closed.",
                "something that these dependencies share is down: a network, a proxy, a"
                " credential, or the consumer itself.",
                command="dlq circuit list",
            ),
            ours(Metric.OPEN_CIRCUITS, app.app, pipeline),
            keys.threshold,
            Evaluation(keys.periods, period=keys.period),
            KEPT,
        )
    failed = alarms.circuit_breaker_failed
    machine = {"StateMachineArn": state_machine_arn(app, pipeline)}
    yield Row(
        Page(
            Alarm.CIRCUIT_BREAKER_FAILED,
            "executions that run an outage fail; each is replaced, and the circuit does not"
            " change.",
            "a missing permission, a throttled table, or a consumer that can't be invoked or"
            " resumed.",
            command="dlq circuit show",
        ),
        Measured("AWS/States", "ExecutionsFailed", machine, "Sum"),
        failed.threshold,
        Evaluation(failed.periods, period=failed.period),
    )
    yield Row(
        Page(
            Alarm.CIRCUIT_HELD,
            f"a person has held a circuit for {written(DAY)} or longer, without an end.",
            "a kill switch that was forgotten, or a cause that is not fixed yet.",
            command="dlq circuit list",
        ),
        ours(Metric.CIRCUIT_HELD, app.app, pipeline),
        1,
    )


def _on_replays(app: AppSettings, settings: PipelineSettings) -> Iterator[Row]:
    yield Row(
        Page(
            Alarm.REPLAY_BROKEN,
            "the outcomes of a replay run do not add up to its snapshot.",
            "letters of the run were moved by hand, its rows or objects were deleted, or a defect"
            " of ours; its report names the letters.",
            command="dlq replay list",
        ),
        ours(Metric.REPLAY_BROKEN, app.app, settings.name),
        1,
    )
    # Step Functions counts failed, timed-out and stopped executions apart. The watch sees each run
    # that is left without one; if it can't start the next, RedriveStalled rings.
    lost = settings.alarms.circuit_breaker_failed
    yield Row(
        Page(
            Alarm.REPLAY_BROKEN,
            "replay runs lose their executions; each is replaced, and nothing is lost or sent"
            " twice.",
            "a missing permission, a throttled table, a function that fails or is throttled, or a"
            " person who stops the executions.",
            command="dlq replay list",
        ),
        ours(Metric.REPLAY_RESTARTED, app.app, settings.name, statistic="Sum"),
        lost.threshold,
        Evaluation(lost.periods, period=lost.period),
        suffix="execution",
    )


def _on_functions(app: AppSettings, settings: PipelineSettings) -> Iterator[Row]:
    """Functions without other pages: RedriveStalled and WatchHeartbeat ring for the others."""
    names = Names(app.app, settings.name)
    timeouts = {"route": ROUTER_TIMEOUT}
    if isinstance(settings.consumer, WebhookConsumer):
        timeouts["consumer"] = settings.consumer.timeout
        yield throttled(names.function("consumer"), "consumer")
    yield throttled(names.function("circuit"), "circuit", evaluation=STEP_OF_OUTAGE)
    yield throttled(names.function("probe"), "probe", evaluation=STEP_OF_OUTAGE)
    yield throttled(names.function("replay"), "replay", evaluation=STEP_OF_OUTAGE)
    for role, timeout in timeouts.items():
        name = names.function(role)
        yield Row(
            Page(
                Alarm.FUNCTION_SLOW,
                f"{name} takes {SLOW:.0%} of its timeout or longer.",
                "a throttled table, slow endpoints, or letters that take long to judge; at its"
                " timeout the function is ended within its work.",
            ),
            of_function(name, "Duration", "Maximum"),
            # Lambda publishes milliseconds.
            SLOW * timeout * 1000,
            FUNCTION,
            suffix=role,
        )


def _on_failures(app: AppSettings, settings: PipelineSettings) -> Iterator[Row]:
    yield Row(
        Page(
            Alarm.DOMINANT_FAILURE,
            "more than half of the dead letters failed with the same error.",
            "a defect in the consumer or in a producer's messages, most often from the last"
            " deployment: the letters return to the DLQ until it is fixed.",
        ),
        ours(Metric.FAILURE_DOMINATES, app.app, settings.name),
        1,
    )
    yield Row(
        Page(
            Alarm.SUDDENLY_PERMANENT,
            "one error suddenly fails most messages; its letters wait and are not parked.",
            "the last deployment of the consumer or of a producer, or a dependency that answers in"
            " another form than before.",
            command="dlq cause list",
        ),
        ours(Metric.CAUSES_HELD, app.app, settings.name),
        1,
    )
    yield Row(
        Page(
            Alarm.MANY_COLLISIONS,
            "many messages have the idempotency key of a processed message and differ from it;"
            " they are processed again, and not parked.",
            "a part of the message that each publishing writes anew, such as a time or a request"
            " id: name what is to be compared in idempotency_payload. `dlq status` names the"
            " paths.",
        ),
        ours(Metric.MANY_COLLISIONS, app.app, settings.name, statistic="Sum"),
        1,
        Evaluation(periods=2, datapoints=1, period=LONGEST_LOOK),
    )
    yield Row(
        Page(
            Alarm.CONFIGURATION_HELD,
            "a dependency refuses the consumer itself: an invalid key, a missing permission or"
            " endpoint. Letters wait and use no attempt.",
            "a credential that has expired or was rotated, a policy that was changed, or an"
            " endpoint that has moved.",
            command="dlq circuit list",
        ),
        ours(Metric.CONFIGURATION_HELD, app.app, settings.name),
        1,
    )
    ledger = settings.alarms.ledger_unavailable
    yield Row(
        Page(
            Alarm.LEDGER_UNAVAILABLE,
            "the consumer works, but cannot record why messages fail.",
            "a missing permission of the consumer's role, or a throttled table; letters then"
            " appear as SILENT or have no reason.",
        ),
        ours(Metric.LEDGER_UNAVAILABLE, app.app, settings.name, statistic="Sum"),
        ledger.threshold,
        Evaluation(ledger.periods, period=ledger.period),
    )
