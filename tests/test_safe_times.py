"""The times that the promises rest on, against what AWS and clocks do, in literal seconds.

The tests of each module use its constants by name, so a shorter one would pass them.
"""

from __future__ import annotations

from deadletter.aws.circuits import KEEP_SECONDS
from deadletter.circuit.transitions import CLOCK_SKEW
from deadletter.contract import ROWS_KEPT
from deadletter.outage.canaries import POLL_SECONDS
from deadletter.outage.executions import START_SECONDS
from deadletter.outage.prober import LOCK_MARGIN_SECONDS
from deadletter.processing.guard import CLAIM_MARGIN_SECONDS
from deadletter.processing.visibility import GATHERING_SECONDS, LONGEST_SECONDS
from deadletter.redrive.journal import GRACE
from deadletter.redrive.known_intents import REUSED_FOR
from deadletter.redrive.mover import MARGIN
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE, SEND_AND_MARK, WIND_DOWN
from deadletter.redrive.sending import LAST_SEND

SKEW = 5.0
"""Seconds by which each clock may be wrong: two of them differ by twice as much."""

DAY = 86_400


def test_two_clocks_may_differ_by_ten_seconds() -> None:
    assert CLOCK_SKEW >= 2 * SKEW
    assert GRACE >= 2 * SKEW
    assert CLAIM_MARGIN_SECONDS >= SKEW
    assert MARGIN >= SKEW


def test_a_lock_outlasts_its_run_and_a_send_can_be_marked_within_the_run() -> None:
    """Lambda ends a function seconds after its deadline at the latest; a minute is plenty."""
    assert LOCK_PAST_DEADLINE >= 60
    assert SEND_AND_MARK >= 10
    assert WIND_DOWN >= SEND_AND_MARK
    assert LAST_SEND >= LOCK_PAST_DEADLINE + SEND_AND_MARK


def test_a_reading_of_the_journal_is_older_than_no_intent_of_a_letter_seen_again() -> None:
    """An intent is written before the last moment of a send, and its letters come back after
    their locks: a reading in between may not be older than that."""
    assert REUSED_FOR + 2 * SKEW < LAST_SEND


def test_records_outlive_what_they_are_about() -> None:
    # Main queue, DLQ and parking lot keep a message for 14 days each.
    assert ROWS_KEPT > 3 * 14 * DAY
    # Step Functions refuses the name of an execution for 90 days.
    assert KEEP_SECONDS > 90 * DAY


def test_a_new_execution_may_be_listed_late() -> None:
    assert START_SECONDS >= 60


def test_a_canary_stays_locked_after_the_last_moment_of_its_answer() -> None:
    assert LOCK_MARGIN_SECONDS >= 60
    # With a poll of 0 s SQS looks into a part of its servers, and may miss the only letter.
    assert POLL_SECONDS >= 1


def test_a_message_is_hidden_for_no_longer_than_sqs_allows_from_its_receive() -> None:
    """Twelve hours; Lambda gathers a batch for up to five minutes and may wait as long again."""
    assert LONGEST_SECONDS <= 12 * 3_600
    assert GATHERING_SECONDS >= 2 * 300
