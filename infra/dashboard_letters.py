"""Graphs of letters: where they are and go, how old they are, and what became of them."""

from __future__ import annotations

from collections.abc import Mapping

from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import FAILURE_CATEGORIES, MAIN_DLQ, Metric, parking_source

from .dashboard_graphs import DIRECTION, Band
from .dashboard_metrics import AVERAGE, MAXIMUM, MINIMUM, computed, of_queue
from .duration import HOUR

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
ROOMS = tuple(f"room:{kind}" for kind in ("due", "circuit", "rule"))


def of_letters(band: Band) -> list[cloudwatch.IWidget]:
    """Where letters are, where they go, and how old they are."""
    ours = band.ours
    letters = [ours.of(Metric.LETTERS, MAXIMUM, source=source) for source in _sources(band)]
    ages = [
        ours.of(Metric.OLDEST_LETTER_AGE, MAXIMUM, source=source)
        for source in (*_sources(band), *ROOMS)
    ]
    expiry = [
        ours.of(Metric.SECONDS_TO_EXPIRY, MINIMUM, source=source, label=f"{source} expires in")
        for source in (MAIN, *_sources(band))
    ]
    visible = "ApproximateNumberOfMessagesVisible"
    age = "ApproximateAgeOfOldestMessage"
    dlq, main = band.queues.dlq.name, band.queues.main.name
    return [
        band.graph(
            "flow",
            ours.all_of(
                *(Metric.RECEIVED, Metric.REDRIVEN, Metric.HELD, Metric.DIVERTED),
                *(Metric.MOVED_TO_PARKING, Metric.LEFT_IN_PLACE, Metric.RESCUED),
                *(Metric.LOOKED_AT, Metric.REDRIVE_BOUNCED),
            ),
        ),
        band.graph(
            "letters",
            [
                of_queue(dlq, visible, MAXIMUM, "DLQ, as SQS says"),
                *letters,
                ours.of(Metric.LETTERS, MAXIMUM, source="room"),
                ours.of(Metric.PARKED_UNATTENDED, MAXIMUM, label="parked and unattended"),
            ],
            [ours.of(*(Metric.DEPTH_DIRECTION, MAXIMUM), label="direction: 1 rising, -1 falling")],
            right_axis=DIRECTION,
        ),
        band.graph(
            "ages (seconds)",
            [
                of_queue(dlq, age, MAXIMUM, "DLQ, as SQS says"),
                ours.of(Metric.OLDEST_LETTER_AGE, MAXIMUM, label="oldest that a run drains"),
                *ages,
                ours.of(Metric.AGE_WHEN_RECEIVED, AVERAGE, label="average when received"),
            ],
        ),
        band.graph(
            "time to expiry, age of the main queue (seconds)",
            [
                ours.of(Metric.SECONDS_TO_EXPIRY, MINIMUM, label="next letter expires in"),
                *expiry,
            ],
            [of_queue(main, age, MAXIMUM, "main queue, as SQS says")],
        ),
    ]


def of_outcomes(band: Band) -> list[cloudwatch.IWidget]:
    """What became of messages, and why they failed."""
    ours = band.ours
    hourly = {
        "recovered": ours.of(Metric.REDRIVE_SUCCESS, period=HOUR),
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
        ours.of(Metric.FAILURES_BY_CATEGORY, category=category) for category in FAILURE_CATEGORIES
    ]
    return [
        band.graph(
            "outcomes",
            ours.all_of(
                *(Metric.PROCESSED, Metric.SKIPPED, Metric.DEDUPLICATED),
                *(Metric.PROCESSING_FAILURE, Metric.REDRIVE_SUCCESS),
            ),
        ),
        band.graph(
            "retries, hour by hour",
            [rate],
            [ours.of(attempts, AVERAGE, label="average re-drives", period=HOUR)],
        ),
        band.graph("re-drives of recovered letters", buckets, bars=True),
        band.graph("failures by category", categories, stacked=True),
        band.graph(
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


def _sources(band: Band) -> tuple[str, ...]:
    """The queues that the watch publishes figures about."""
    parking = map(parking_source, band.queues.parking)
    return (MAIN_DLQ, *band.queues.dedicated, *parking)
