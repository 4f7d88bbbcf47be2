"""Graphs of what is wrong: circuits, rules, runs, and what the consumer library ran into."""

from __future__ import annotations

from aws_cdk import aws_cloudwatch as cloudwatch

from deadletter.contract import Metric

from .dashboard_graphs import Band
from .dashboard_metrics import MAXIMUM, of_machine
from .outage import state_machine_arn
from .replay_start import replay_machine_arn


def of_troubles(band: Band) -> list[cloudwatch.IWidget]:
    """Circuits, rules, runs, and what the consumer library ran into."""
    ours = band.ours
    return [
        band.graph(
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
        band.graph(
            "outages",
            [
                *ours.all_of(
                    *(Metric.CIRCUIT_TRIPPED, Metric.CIRCUIT_NOT_TRIPPED),
                    *(Metric.OUTAGE_NOT_STARTED, Metric.OUTAGE_RESTARTED),
                    *(Metric.CIRCUIT_UNANNOUNCED, Metric.NOTHING_TO_PAUSE),
                    *(Metric.CONSUMER_NOT_PAUSED, Metric.NOTHING_TO_PROBE),
                    *(Metric.MAPPING_PUT_BACK, Metric.SWEEP_FAILED),
                ),
                _of_breaker(band, "ExecutionsStarted"),
                _of_breaker(band, "ExecutionsFailed"),
            ],
        ),
        band.graph(
            "rules and replays",
            [
                *ours.all_of(Metric.RULE_TROUBLE, Metric.REPLAY_BROKEN, statistic=MAXIMUM),
                *ours.all_of(
                    *(Metric.RULE_INVALID, Metric.RULE_LIMIT_REACHED, Metric.RULE_TOO_COSTLY),
                    Metric.REPLAY_RESTARTED,
                    *(Metric.EVENT_REFUSED, Metric.NEWS_UNREAD),
                ),
                of_machine(
                    replay_machine_arn(band.app, band.settings.name),
                    *("ExecutionsStarted", "replay steps started"),
                ),
            ],
        ),
        band.graph(
            "runs that could not work",
            [
                *ours.all_of(
                    *(Metric.REDRIVE_STALLED, Metric.LETTER_TROUBLE, Metric.DLQ_DEPTH),
                    statistic=MAXIMUM,
                ),
                *ours.all_of(
                    *(Metric.LEASE_UNAVAILABLE, Metric.ROUTER_UNAVAILABLE),
                    *(Metric.JOURNAL_UNAVAILABLE, Metric.ROOM_UNAVAILABLE),
                    *(Metric.QUEUE_UNAVAILABLE, Metric.CIRCUITS_UNAVAILABLE),
                ),
            ],
        ),
        band.graph(
            "letters with trouble",
            ours.all_of(
                *(Metric.REDRIVE_FAILURE, Metric.POSSIBLE_DUPLICATE, Metric.ALREADY_SENT),
                *(Metric.REDRIVE_UNMARKED, Metric.REDRIVE_UNRECORDED, Metric.UNDECIDED),
                *(Metric.UNDELETED, Metric.UNSENDABLE, Metric.TOO_LATE_TO_SEND),
                *(Metric.BAD_ROW, Metric.FOREIGN_ROW, Metric.FOREIGN_LETTER),
                *(Metric.FORGED_STAMP, Metric.ATTRIBUTE_RENAMED, Metric.UNREADABLE_EXPIRY),
            ),
        ),
        band.graph(
            "consumer",
            ours.all_of(
                *(Metric.BUSY_ELSEWHERE, Metric.LEASE_LOST, Metric.GROUP_HELD_BACK),
                *(Metric.TOO_LATE_TO_PROCESS, Metric.UNFINISHED, Metric.VISIBILITY_UNCHANGED),
                *(Metric.IDEMPOTENCY_COLLISION, Metric.MANY_COLLISIONS),
                Metric.IDEMPOTENCY_KEY_MISSING,
                *(Metric.IDEMPOTENCY_UNAVAILABLE, Metric.LEDGER_UNAVAILABLE),
                *(Metric.PARKING_UNAVAILABLE, Metric.OUTCOMES_DROPPED),
                Metric.CONSUMER_LIBRARY_ERROR,
            ),
        ),
    ]


def _of_breaker(band: Band, metric: str) -> cloudwatch.Metric:
    return of_machine(state_machine_arn(band.app, band.settings.name), metric, metric)
