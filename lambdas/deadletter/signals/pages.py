"""Whom a page wakes, and why: one row for each alarm, in the order of the runbook.

A pipeline has nine alarms and no more (ADR 24): each is worth waking up for, and each has a section
of the runbook that ends in a resolution. Levels of the monitor are published each minute while a
trouble lasts. Their alarms look at three minutes and ring at one, so that a minute in which the
watch did not run does not end a page that is still true.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import partial

from deadletter.signals.commands import TypedLine, in_app
from deadletter.signals.figures import AGES, MAXIMUM, MESSAGES, Figure


class Alarm(StrEnum):
    """The names of alarms, behind `<app>-<pipeline>-`; the runbook has a section for each."""

    DLQ_AGE = "DlqAge"
    MESSAGE_AGE = "MessageAge"
    """In the section of DlqAge: the same trouble, by the messages' own timestamps."""
    MESSAGE_EXPIRY = "MessageExpiry"
    DLQ_DEPTH = "DlqDepth"
    REDRIVE_STALLED = "RedriveStalled"
    CIRCUIT_TROUBLE = "CircuitTrouble"
    PARKED_UNATTENDED = "ParkedUnattended"
    RULE_TROUBLE = "RuleTrouble"
    """Behind `<app>-` too: rules of every pipeline belong to the whole app."""
    REPLAY_BROKEN = "ReplayBroken"
    SHARED_TROUBLE = "SharedTrouble"
    """Behind `<app>-` only: what all pipelines share."""


@dataclass(frozen=True, slots=True)
class AwsMetric:
    """A metric that a service of AWS publishes by itself.

    of     what of a pipeline it is about: a name that `infra.alarms.Subject` has
    graph  the graph of the dashboard that draws it
    """

    service: str
    dimension: str
    name: str
    of: str
    graph: str
    statistic: str = MAXIMUM


_of_queue = partial(AwsMetric, "SQS", "QueueName")

DLQ_AGE = _of_queue("ApproximateAgeOfOldestMessage", "dlq", AGES)

AWS_METRICS = (
    _of_queue("ApproximateNumberOfMessagesVisible", "main", MESSAGES),
    _of_queue("ApproximateNumberOfMessagesVisible", "dlq", MESSAGES),
    _of_queue("ApproximateAgeOfOldestMessage", "main", AGES),
    DLQ_AGE,
)
"""What the dashboard draws beside our figures, in this order."""


class Compares(StrEnum):
    """When a value breaches a threshold."""

    ABOVE = "above"
    AT_LEAST = "at least"
    AT_MOST = "at most"


class Missing(StrEnum):
    """What a minute without data means; the comment at each member says why."""

    # SQS stops publishing for a queue that is idle for hours: what was true stays true.
    KEPT = "kept"
    # The watch publishes this level only while there is something to say; if it does not run at
    # all, RedriveStalled rings.
    QUIET = "quiet"
    # The watch publishes this figure every minute: without it, the watch does not run.
    HEARTBEAT = "heartbeat"


@dataclass(frozen=True, slots=True, kw_only=True)
class Page:
    """An alarm: what it watches, when it rings, and what it says.

    threshold   a number, or the name of the setting below `alarms` that is one
    looks       how many of the last minutes have to breach, of how many; None where settings say it
    says        what is wrong, as a sentence; `cause` is its likely cause
    first       what to type first; it only reads
    repair      what to type then, if no trouble says more; in mode observe, `observed`
    shares      the alarm whose section of the runbook is this alarm's too, if not its own
    of_app      whether it is about the whole app: it has no pipeline, and the app's owner

    In `says` stand such settings in braces, as people read them.
    """

    alarm: Alarm
    watches: Figure | AwsMetric
    threshold: float | str = 1
    compares: Compares = Compares.AT_LEAST
    looks: tuple[int, int] | None = (1, 3)
    missing: Missing = Missing.QUIET
    says: str
    cause: str
    first: str = "dlq status"
    repair: TypedLine = TypedLine.GROUPS
    observed: TypedLine | None = None
    shares: Alarm | None = None
    of_app: bool = False

    @property
    def section(self) -> str:
        """The section of the runbook, as it stands behind `#` in an address."""
        return (self.shares or self.alarm).lower()

    def text(
        self,
        app: str,
        pipeline: str | None,
        settings: Mapping[str, str],
        *,
        runbook: str,
        owner: str,
    ) -> str:
        """The description of the alarm: five lines that read well with and without Markdown."""
        first = in_app(f"{self.first} --pipeline {pipeline}" if pipeline else self.first, app)
        return (
            f"Symptom: {self.says.format(**settings)}\n"
            f"Likely cause: {self.cause.format(**settings)}\n"
            f"First command: `{first}`\n"
            f"Runbook: {runbook}#{self.section}\n"
            f"Owner: {owner}"
        )


_OLD = (
    "the dependency is down, runs wait for the main queue's backlog, the rate is too low, or mode"
    " observe."
)
_DENIED = "a denied action or a throttled table"

RULES = Page(
    alarm=Alarm.RULE_TROUBLE,
    watches=Figure.RULE_TROUBLE,
    says="a rule is invalid and matches nothing, or has matched max_matches messages and"
    " has stopped.",
    cause="a typing mistake, or a rule that matches more than intended: status_reason"
    " of the rule says which.",
    first="dlq rules list",
    repair=TypedLine.RULES,
)

PIPELINE_PAGES = (
    Page(
        alarm=Alarm.DLQ_AGE,
        watches=DLQ_AGE,
        threshold="age",
        compares=Compares.ABOVE,
        looks=None,
        missing=Missing.KEPT,
        says="the oldest message of the DLQ is older than {age}.",
        cause=_OLD,
    ),
    Page(
        alarm=Alarm.MESSAGE_AGE,
        # SQS leaves a message out of its own metric once it has been received three times.
        watches=Figure.OLDEST_MESSAGE_AGE,
        threshold="age",
        says="a message is older than {age}, by its own timestamp.",
        cause=_OLD,
        shares=Alarm.DLQ_AGE,
    ),
    Page(
        alarm=Alarm.MESSAGE_EXPIRY,
        watches=Figure.SECONDS_TO_EXPIRY,
        threshold="letter_expiry",
        compares=Compares.AT_MOST,
        says="SQS drops the oldest message of a queue within {letter_expiry}.",
        cause="the consumer is paused or too slow, mode observe moves nothing, or messages"
        f" could not be moved in time: {_DENIED}.",
        repair=TypedLine.REDRIVE,
        observed=TypedLine.SHOW,
    ),
    Page(
        alarm=Alarm.DLQ_DEPTH,
        watches=Figure.DLQ_DEPTH,
        says="more than {depth} messages are in the DLQ, or it will not be empty within 2 hours.",
        cause="messages fail for a common reason: a deployment, an outage, an expired"
        " credential, one tenant; or the rate is too low for them.",
        first="dlq groups",
    ),
    Page(
        alarm=Alarm.REDRIVE_STALLED,
        watches=Figure.REDRIVE_STALLED,
        # One bad minute, such as that of a deployment, is no stall; three in a row are.
        looks=(3, 3),
        missing=Missing.HEARTBEAT,
        says="nothing moves: no run can do its work, the consumer's mapping is disabled, or the"
        " monitor itself does not run.",
        cause=f"{_DENIED}, a function that fails or is throttled, or a schedule or"
        " a mapping that is disabled or deleted.",
        repair=TypedLine.REDRIVE,
    ),
    Page(
        alarm=Alarm.CIRCUIT_TROUBLE,
        watches=Figure.CIRCUIT_TROUBLE,
        says="a circuit is open for {circuit_open_after}, flaps, or needs a person; messages wait.",
        cause="a dependency is down or refuses the consumer's credential, a person holds"
        " the circuit, or one error suddenly fails most messages.",
        repair=TypedLine.CIRCUITS,
    ),
    Page(
        alarm=Alarm.PARKED_UNATTENDED,
        watches=Figure.PARKED_UNATTENDED,
        says="parked messages have waited for a person for {parked_after}; none has left.",
        cause="no person reads the parking queue: each message says why automation gave it up.",
        first="dlq list --in parked --look",
        repair=TypedLine.RELEASE,
    ),
    RULES,
    Page(
        alarm=Alarm.REPLAY_BROKEN,
        watches=Figure.REPLAY_BROKEN,
        says="a run does not add up to its messages, or loses its executions.",
        cause="messages or rows of the run were changed by hand, its executions are stopped"
        f" by a person, {_DENIED}, or a defect of ours.",
        first="dlq run list",
        repair=TypedLine.RUNS,
    ),
)
"""The nine pages of a pipeline."""

APP_PAGES = (
    RULES,
    Page(
        alarm=Alarm.SHARED_TROUBLE,
        watches=Figure.SHARED_TROUBLE,
        says="something that all pipelines share fails: edits of rules are not checked, and may"
        " take 10 minutes; routing checks each rule when it reads it.",
        cause=f"the rule checker's mapping is disabled, {_DENIED}, or unreadable"
        " registrations: the function's log says which.",
        repair=TypedLine.STATUS,
        of_app=True,
    ),
)
"""The pages that belong to no pipeline."""

PIPELINE_ALARMS = tuple(page.alarm for page in PIPELINE_PAGES)
"""The nine alarms of a pipeline, in the order of the runbook."""
