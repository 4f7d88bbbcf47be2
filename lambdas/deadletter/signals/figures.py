"""What is counted: figures go to CloudWatch, counts to the log line alone.

An alarm or a program watches a figure, it counts an exception to a promise, or a person reads its
rate in an incident; it costs $0.30 a month. All else is a count.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from enum import StrEnum

Values = float | Sequence[float]


SUM, AVERAGE, MAXIMUM, MINIMUM = "Sum", "Average", "Maximum", "Minimum"
COUNT, SECONDS = "Count", "Seconds"

GRAPHS = MESSAGES, FLOW, AGES, OUTCOMES, CIRCUIT, TROUBLES = (
    *("messages", "flow", "ages", "outcomes", "circuit", "troubles"),
)
"""The graphs of a pipeline's band on the dashboard, by their titles."""


class Figure(StrEnum):
    """A metric: its name, what it says, its graph, statistic and unit."""

    says: str
    unit: str
    statistic: str
    graph: str

    def __new__(
        cls,
        name: str,
        says: str,
        graph: str,
        statistic: str = SUM,
        unit: str = COUNT,
    ) -> Figure:
        figure = str.__new__(cls, name)
        figure._value_ = name
        figure.says, figure.unit = says, unit
        figure.graph, figure.statistic = graph, statistic
        return figure

    # A run of the redriver
    RECEIVED = "Received", "Messages that a run received.", FLOW
    AGE_WHEN_RECEIVED = (
        "AgeWhenReceived",
        "Age of each message that a run received.",
        *(AGES, AVERAGE, SECONDS),
    )
    REDRIVEN = "Redriven", "Messages sent back to the main queue.", FLOW
    HELD = "Held", "Messages put to wait outside SQS, or kept there for longer.", FLOW
    DIVERTED = "Diverted", "Messages moved to a dedicated DLQ.", FLOW
    MOVED_TO_PARKING = "MessageMovedToParkingLot", "Messages parked.", FLOW
    RESCUED = "Rescued", "Messages saved because SQS was about to drop them.", FLOW
    REDRIVE_FAILURE = "RedriveFailure", "Messages that could not be moved.", TROUBLES
    POSSIBLE_DUPLICATE = (
        "PossibleDuplicate",
        "Messages sent again whose earlier send, or canary, has no answer.",
        TROUBLES,
    )
    REDRIVE_UNMARKED = (
        "RedriveUnmarked",
        "Messages sent without the Redrive attribute: no room.",
        TROUBLES,
    )
    RUN_FAILED = "RunFailed", "Runs that could not do their work.", TROUBLES

    # A batch of the consumer
    PROCESSED = "Processed", "Messages whose handler returned.", OUTCOMES
    SKIPPED = "Skipped", "Messages whose handler raised Skip.", OUTCOMES
    DEDUPLICATED = (
        "dedup.skip",
        "Messages not processed because they were processed before.",
        OUTCOMES,
    )
    PROCESSING_FAILURE = "ProcessingFailure", "Messages that failed and came back.", OUTCOMES
    REDRIVE_SUCCESS = (
        "RedriveSuccess",
        "Dead messages that were processed: outcomes, not sends.",
        OUTCOMES,
    )
    ATTEMPTS_BEFORE_RECOVERY = (
        "AttemptsBeforeRecovery",
        "Attempts of each recovered message.",
        *(OUTCOMES, AVERAGE),
    )
    FAILURES_BY_CATEGORY = (
        "FailuresByCategory",
        "Messages that failed, by the category of the failure.",
        OUTCOMES,
    )
    IDEMPOTENCY_COLLISION = (
        "IdempotencyCollision",
        "Messages that differ from a processed one with their key.",
        TROUBLES,
    )
    REFUSED_WHILE_OPEN = (
        "RefusedWhileOpen",
        "Messages given back for their circuit.",
        CIRCUIT,
    )
    FORGED_STAMP = (
        "ForgedStamp",
        "Messages with a Redrive attribute that none of our roles wrote.",
        TROUBLES,
    )
    CONSUMER_TROUBLE = (
        "ConsumerTrouble",
        "Defects that the consumer met: the log names each.",
        TROUBLES,
    )

    # An outage
    CIRCUIT_STATE = (
        "CircuitState",
        "The worst circuit of all messages: 0 CLOSED, 1 HALF_OPEN, 2 OPEN.",
        *(CIRCUIT, MAXIMUM),
    )
    OPEN_CIRCUITS = (
        "OpenCircuits",
        "Circuits of single keys that are not closed.",
        *(CIRCUIT, MAXIMUM),
    )
    CIRCUIT_OPENED = "CircuitOpened", "Outages of the pipeline's circuit that began.", CIRCUIT

    # The watch
    OLDEST_MESSAGE_AGE = (
        "OldestMessageAge",
        "Age of the oldest message of a queue, or of what waits.",
        *(AGES, MAXIMUM, SECONDS),
    )
    SECONDS_TO_EXPIRY = (
        "SecondsToExpiry",
        "Seconds until SQS drops the oldest message of a queue.",
        *(AGES, MINIMUM, SECONDS),
    )
    MESSAGES = (
        "Messages",
        "Messages of a queue, and of those that wait from it.",
        *(MESSAGES, MAXIMUM),
    )
    REDRIVE_STALLED = (
        "RedriveStalled",
        "Is 1 while no run can do its work, or messages wait for a consumer whose mapping a person"
        " has disabled.",
        *(TROUBLES, MAXIMUM),
    )
    DLQ_DEPTH = (
        "DlqDepth",
        "Is 1 while the DLQ is too deep, or not empty in two hours.",
        *(TROUBLES, MAXIMUM),
    )
    CIRCUIT_TROUBLE = "CircuitTrouble", "Is 1 while a circuit needs a person.", *(CIRCUIT, MAXIMUM)
    PARKED_UNATTENDED = (
        "ParkedUnattended",
        "Parked messages that no person looks after.",
        *(TROUBLES, MAXIMUM),
    )
    RULE_TROUBLE = (
        "RuleTrouble",
        "Rules that are invalid or spent.",
        *(TROUBLES, MAXIMUM),
    )
    REPLAY_BROKEN = "ReplayBroken", "Runs that do not add up.", *(TROUBLES, MAXIMUM)
    SHARED_TROUBLE = (
        "SharedTrouble",
        "Is 1 while what all pipelines share fails.",
        *(TROUBLES, MAXIMUM),
    )
    FAILURE_DOMINATES = (
        "FailureDominates",
        "Is 1 while most fail alike.",
        *(OUTCOMES, MAXIMUM),
    )


_CONSUMER = Figure.CONSUMER_TROUBLE


class Count(StrEnum):
    """A field of a log line, and the figure that counts it too; `counts` has what they say."""

    of: Figure | None

    def __new__(cls, name: str, of: Figure | None = None) -> Count:
        count = str.__new__(cls, name)
        count._value_ = name
        count.of = of
        return count

    # A run of the redriver
    LEFT_IN_PLACE = "LeftInPlace"
    ALREADY_SENT = "AlreadySent"
    REDRIVE_UNRECORDED = "RedriveUnrecorded"
    FOREIGN_MESSAGE = "ForeignMessage"
    FOREIGN_ROW = "ForeignRow"
    ATTRIBUTE_RENAMED = "AttributeRenamed"
    UNREADABLE_EXPIRY = "UnreadableExpiry"
    UNDECIDED = "Undecided"
    UNDELETED = "Undeleted"
    UNSENDABLE = "Unsendable"
    TOO_LATE_TO_SEND = "TooLateToSend"
    BAD_ROW = "BadRow"
    LEASE_UNAVAILABLE = "LeaseUnavailable"
    ROUTER_UNAVAILABLE = "RouterUnavailable"
    JOURNAL_UNAVAILABLE = "JournalUnavailable"
    ROOM_UNAVAILABLE = "RoomUnavailable"
    QUEUE_UNAVAILABLE = "QueueUnavailable"
    RULE_INVALID = "RuleInvalid"
    RULE_LIMIT_REACHED = "RuleLimitReached"
    RULE_TOO_COSTLY = "RuleTooCostly"
    DOMINANT_FAILURE = "DominantFailure"
    REDRIVE_BOUNCED = "RedriveBounced"
    LOOKED_AT = "LookedAt"

    # A batch of the consumer
    CONFIGURATION_FAILURE = "ConfigurationFailure"
    BUSY_ELSEWHERE = "BusyElsewhere"
    IDEMPOTENCY_UNAVAILABLE = "IdempotencyUnavailable", _CONSUMER
    IDEMPOTENCY_KEY_MISSING = "IdempotencyKeyMissing", _CONSUMER
    MANY_COLLISIONS = "ManyCollisions"
    GROUP_HELD_BACK = "GroupHeldBack"
    BEHIND_ANOTHER = "BehindAnother"
    SUPERSEDED = "Superseded"
    TOO_LATE_TO_PROCESS = "TooLateToProcess"
    UNFINISHED = "HandlerUnfinished", _CONSUMER
    LEASE_LOST = "LeaseLost", _CONSUMER
    LEDGER_UNAVAILABLE = "LedgerUnavailable", _CONSUMER
    CIRCUITS_UNAVAILABLE = "CircuitsUnavailable", _CONSUMER
    PARKING_UNAVAILABLE = "ParkingUnavailable", _CONSUMER
    VISIBILITY_UNCHANGED = "VisibilityUnchanged", _CONSUMER
    CONSUMER_LIBRARY_ERROR = "ConsumerLibraryError", _CONSUMER
    OUTCOMES_DROPPED = "OutcomesDropped", _CONSUMER
    SUDDENLY_PERMANENT = "SuddenlyPermanent"
    CIRCUIT_TRIPPED = "CircuitTripped"
    CIRCUIT_NOT_TRIPPED = "CircuitNotTripped", _CONSUMER
    OUTAGE_NOT_STARTED = "OutageNotStarted", _CONSUMER

    # An outage
    CIRCUIT_UNANNOUNCED = "CircuitUnannounced"
    NOTHING_TO_PAUSE = "NothingToPause"
    CONSUMER_NOT_PAUSED = "ConsumerNotPaused"
    NOTHING_TO_PROBE = "NothingToProbe"
    OUTAGE_RESTARTED = "OutageRestarted"
    MAPPING_PUT_BACK = "MappingPutBack"
    SWEEP_FAILED = "SweepFailed"

    # The watch
    EVENT_REFUSED = "EventRefused"
    NEWS_UNREAD = "NewsUnread"
    CAUSES_HELD = "CausesHeld"
    REPLAY_RESTARTED = "ReplayRestarted"


Counted = Figure | Count

COUNTED: Mapping[str, Counted] = {str(each): each for kind in (Figure, Count) for each in kind}


def with_sums(values: Mapping[str, Values]) -> dict[str, Values]:
    """The values by name, and the figures that counts among them add up to."""
    sums = Counter[str]()
    for name, value in values.items():
        if isinstance(value, int) and (figure := getattr(COUNTED[name], "of", None)):
            sums[figure] += value
    return {**values, **sums}
