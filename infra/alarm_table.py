"""The alarms of a pipeline as one table, and those of the app.

The descriptions of the alarms, the sections of the runbook, the lines on the dashboard and the
tests are made from it. A pipeline has nine alarms and no more (ADR 24): each is worth waking up
for, and each has a section of the runbook that ends in a resolution.

Metrics of the watch are levels: published each minute while the trouble lasts. Alarms on them
look at three minutes and ring at one, so that a minute in which the watch did not run does not
end a page that is still true.
"""

from __future__ import annotations

from collections.abc import Iterator

from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import EVERY_PIPELINE, Alarm, Metric

from .alarm_row import ABOVE, AT_MOST, Evaluation, Missing, Row, of_queue, ours
from .duration import written
from .queues import Addresses
from .settings import AppDeployment, PipelineDeployment

LEVEL = Evaluation(periods=3, datapoints=1)

# One bad minute, such as that of a deployment, is no stall; three in a row are.
THREE_MINUTES = Evaluation(periods=3)

KEPT = Missing(
    cloudwatch.TreatMissingData.IGNORE,
    "SQS stops publishing for a queue that is idle for hours: what was true stays true.",
)
QUIET = Missing(
    cloudwatch.TreatMissingData.NOT_BREACHING,
    "the watch publishes this level only while there is something to say;"
    " if it does not run at all, RedriveStalled rings.",
)
HEARTBEAT = Missing(
    cloudwatch.TreatMissingData.BREACHING,
    "the watch publishes this figure every minute: without it, the watch does not run.",
)

DENIED = "a denied action or a throttled table"


def rows(app: AppDeployment, settings: PipelineDeployment, queues: Addresses) -> Iterator[Row]:
    """All alarms of one pipeline: nine."""
    yield dlq_age(settings, queues)
    yield letter_age(app, settings)
    yield letter_expiry(app, settings)
    yield dlq_depth(app, settings)
    yield redrive_stalled(app, settings)
    yield circuit_trouble(app, settings)
    yield parked_unattended(app, settings)
    yield rule_trouble(app.app, settings.name)
    yield replay_broken(app, settings)


def app_rows(app: AppDeployment, failures: str) -> Iterator[Row]:
    """The alarms that belong to no pipeline; `failures` is the rule checker's failure queue."""
    yield rule_trouble(app.app, EVERY_PIPELINE)
    yield Row(
        alarm=Alarm.RULE_CHECK_FAILED,
        symptom="edits of rules were not checked; routing goes on, and checks each rule when it"
        " reads it.",
        likely_cause=f"{DENIED}, or unreadable registrations: the function's log says which.",
        command="dlq rules list",
        measured=of_queue(failures, "ApproximateNumberOfMessagesVisible"),
        threshold=1,
        evaluation=Evaluation(),
        missing=KEPT,
        annotation="edits wait for a person",
    )


def dlq_age(settings: PipelineDeployment, queues: Addresses) -> Row:
    """The age of the oldest letter of the DLQ as SQS sees it."""
    age, alarms = int(settings.alarms.age), settings.alarms
    return Row(
        alarm=Alarm.DLQ_AGE,
        symptom=f"the oldest letter of the DLQ is older than {written(age)}.",
        likely_cause="the dependency is down, runs wait for the main queue's backlog, the rate is"
        " too low, or mode observe.",
        measured=of_queue(queues.dlq.name, "ApproximateAgeOfOldestMessage"),
        threshold=age,
        comparison=ABOVE,
        evaluation=Evaluation(alarms.age_looks, period=alarms.age_period),
        missing=KEPT,
        annotation=f"older than {written(age)} pages",
    )


def letter_age(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """The age of the oldest letter by its own timestamp.

    SQS leaves a letter out of its metric once it has been received three times.
    """
    age = int(settings.alarms.age)
    return Row(
        alarm=Alarm.LETTER_AGE,
        symptom=f"a letter is older than {written(age)}, by its own timestamp.",
        likely_cause="the dependency is down, runs wait for the main queue's backlog, the rate is"
        " too low, or mode observe.",
        measured=ours(Metric.OLDEST_LETTER_AGE, app.app, settings.name),
        threshold=age,
        evaluation=LEVEL,
        missing=QUIET,
        annotation=f"{written(age)} pages",
        shares=Alarm.DLQ_AGE,
    )


def letter_expiry(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """The time until SQS drops a message, of all queues of the pipeline."""
    warning = written(settings.alarms.letter_expiry)
    return Row(
        alarm=Alarm.LETTER_EXPIRY,
        symptom=f"SQS drops the oldest message of a queue within {warning}.",
        likely_cause="the consumer is paused or too slow, mode observe moves nothing, or letters"
        f" could not be moved in time: {DENIED}.",
        measured=ours(Metric.SECONDS_TO_EXPIRY, app.app, settings.name, statistic="Minimum"),
        threshold=settings.alarms.letter_expiry,
        comparison=AT_MOST,
        evaluation=LEVEL,
        missing=QUIET,
        annotation=f"{warning} to expiry pages",
    )


def dlq_depth(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """Many letters at once, or more than go back in time."""
    depth = settings.alarms.depth
    return Row(
        alarm=Alarm.DLQ_DEPTH,
        symptom=f"more than {depth} letters are in the DLQ, or it will not be empty"
        " within 2 hours.",
        likely_cause="messages fail for a common reason: a deployment, an outage, an expired"
        " credential, one tenant; or the rate is too low for them.",
        command="dlq groups",
        measured=ours(Metric.DLQ_DEPTH, app.app, settings.name),
        threshold=1,
        evaluation=LEVEL,
        missing=QUIET,
        annotation=f"more than {depth} letters, or not empty in time",
    )


def redrive_stalled(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """Nothing moves: the one alarm of the redriver, the waiting room and the watch itself."""
    return Row(
        alarm=Alarm.REDRIVE_STALLED,
        symptom="nothing moves: no run can do its work, or the watch itself does not run.",
        likely_cause=f"{DENIED}, a function that fails or is throttled, or a schedule that is"
        " disabled or deleted.",
        measured=ours(Metric.REDRIVE_STALLED, app.app, settings.name),
        threshold=1,
        evaluation=THREE_MINUTES,
        missing=HEARTBEAT,
        annotation="nothing moves",
    )


def circuit_trouble(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """A circuit that does not close, flaps, or that no automation closes."""
    return Row(
        alarm=Alarm.CIRCUIT_TROUBLE,
        symptom=f"a circuit is open for {written(settings.alarms.circuit_open_after)}, flaps, or"
        " needs a person; letters wait.",
        likely_cause="a dependency is down or refuses the consumer's credential, a person holds"
        " the circuit, or one error suddenly fails most messages.",
        measured=ours(Metric.CIRCUIT_TROUBLE, app.app, settings.name),
        threshold=1,
        evaluation=LEVEL,
        missing=QUIET,
        annotation="a circuit needs a person",
    )


def parked_unattended(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """Letters that automation has given up, and that nobody has looked after."""
    after = written(settings.alarms.parked_after)
    return Row(
        alarm=Alarm.PARKED_UNATTENDED,
        symptom=f"parked letters have waited for a person for {after}; none has left.",
        likely_cause="nobody reads the parking lot: each letter says why automation gave it up.",
        command="dlq parked list",
        measured=ours(Metric.PARKED_UNATTENDED, app.app, settings.name),
        threshold=1,
        evaluation=LEVEL,
        missing=QUIET,
        annotation=f"letters unattended for {after}",
    )


def rule_trouble(app: str, pipeline: str) -> Row:
    """Rules that do not do what their author meant."""
    return Row(
        alarm=Alarm.RULE_TROUBLE,
        symptom="a rule is invalid and matches nothing, or has matched max_matches letters and"
        " has stopped; or the rule checker does not see edits, which then may take 10 minutes.",
        likely_cause="a typing mistake, or a rule that matches more than intended: status_reason"
        " of the rule says which.",
        command="dlq rules list",
        measured=ours(Metric.RULE_TROUBLE, app, pipeline),
        threshold=1,
        evaluation=LEVEL,
        missing=QUIET,
        annotation="a rule is invalid or has stopped",
    )


def replay_broken(app: AppDeployment, settings: PipelineDeployment) -> Row:
    """Replay runs that do not add up, or that lose their executions."""
    return Row(
        alarm=Alarm.REPLAY_BROKEN,
        symptom="a replay run does not add up to its snapshot, or loses its executions.",
        likely_cause="letters or rows of the run were changed by hand, its executions are stopped"
        f" by a person, {DENIED}, or a defect of ours.",
        command="dlq replay list",
        measured=ours(Metric.REPLAY_BROKEN, app.app, settings.name),
        threshold=1,
        evaluation=LEVEL,
        missing=QUIET,
        annotation="a run is broken",
    )
