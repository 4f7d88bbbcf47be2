"""How old letters are and when they expire, whoever has received them how often."""

from __future__ import annotations

from dataclasses import replace

from deadletter.contract import DAY, END_OF_TIME, HOUR, MINUTE, WATCH, Mode
from deadletter.signals.figures import Figure
from deadletter.watch.observation import LaneState
from tests.watch.minutes import BEGIN, Minutes

AGE, EXPIRY, LETTERS = Figure.OLDEST_MESSAGE_AGE, Figure.SECONDS_TO_EXPIRY, Figure.MESSAGES


def test_observe_knows_the_age_of_letters_that_sqs_leaves_out_of_its_metric() -> None:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, mode=Mode.OBSERVE)
    minutes.letters["dlq"] = 100
    # Runs look at the letters three times; SQS then reports an age of 0.
    minutes.remember(oldest=BEGIN - 10 * MINUTE, looks=300, looked_at=BEGIN + 3 * MINUTE)
    minutes.pass_minutes(61)
    assert minutes.value(AGE, "dlq") == 70 * MINUTE
    assert minutes.value(EXPIRY, "dlq") == 14 * DAY - 70 * MINUTE
    assert minutes.value(EXPIRY) == 14 * DAY - 70 * MINUTE
    assert minutes.value(LETTERS, "dlq") == 100


def test_letters_age_under_an_open_circuit_that_nobody_polls() -> None:
    minutes = Minutes(letters={"dlq": 5})
    minutes.pass_minutes(2 * 60 + 1)
    assert minutes.value(AGE, "dlq") == 2 * HOUR


def test_a_queue_that_each_run_empties_does_not_age() -> None:
    minutes = Minutes(letters={"dlq": 5})
    for _ in range(180):
        # New letters arrive in each minute before the watch looks.
        minutes.remember(emptied_at=minutes.now - 20)
        minutes.pass_minutes(1)
    assert minutes.value(AGE, "dlq") == 20


def test_an_unreadable_queue_ages_from_memory() -> None:
    minutes = Minutes(letters={"dlq": 5})
    minutes.pass_minutes(10)
    minutes.unreadable = {"dlq"}
    minutes.failed = {"queue dlq": "AccessDenied"}
    minutes.pass_minutes(51)
    assert minutes.value(AGE, "dlq") == HOUR
    assert minutes.value(LETTERS, "dlq") == 5
    assert minutes.value(EXPIRY, "dlq") == 14 * DAY - HOUR
    assert minutes.value(Figure.REDRIVE_STALLED) == 1


def test_ages_go_on_while_the_leases_cannot_be_read() -> None:
    minutes = Minutes(letters={"dlq": 5})
    minutes.remember(oldest=BEGIN - HOUR)
    minutes.pass_minutes(1)
    minutes.memories = None
    minutes.pass_minutes(60)
    assert minutes.value(AGE, "dlq") == 2 * HOUR


def test_nothing_is_published_for_a_queue_that_was_always_empty() -> None:
    minutes = Minutes()
    minutes.pass_minutes(3)
    assert minutes.value(AGE, "dlq") is None
    assert minutes.value(LETTERS, "dlq") is None
    assert minutes.value(EXPIRY) is None


def test_an_emptied_queue_shows_zero_for_ten_minutes() -> None:
    minutes = Minutes(letters={"dlq": 1})
    minutes.pass_minutes(1)
    minutes.letters["dlq"] = 0
    minutes.pass_minutes(10)
    assert minutes.value(AGE, "dlq") == 0
    assert minutes.value(LETTERS, "dlq") == 0
    assert minutes.value(EXPIRY, "dlq") is None
    minutes.pass_minutes(1)
    assert minutes.value(AGE, "dlq") is None


def test_the_age_of_a_letter_that_is_gone_is_not_the_age_of_the_next() -> None:
    minutes = Minutes(letters={"dlq": 1})
    minutes.remember(oldest=BEGIN - DAY)
    minutes.pass_minutes(1)
    assert minutes.value(AGE, "dlq") == DAY
    # A person deletes the letter; under the open circuit no run finds the queue empty.
    minutes.letters["dlq"] = 0
    minutes.pass_minutes(7)
    minutes.letters["dlq"] = 1
    minutes.pass_minutes(2)
    assert minutes.value(AGE, "dlq") == MINUTE


def test_parked_letters_count_and_age_in_their_lane_too() -> None:
    minutes = Minutes(letters={"parking:default": 2})
    sent = BEGIN - 13 * DAY
    minutes.lanes = {"parked": LaneState(3, END_OF_TIME + sent)}
    minutes.pass_minutes(1)
    assert minutes.value(LETTERS, "parking:default") == 5
    assert minutes.value(AGE, "parking:default") == 13 * DAY
    assert minutes.value(EXPIRY, "parking:default") == 14 * DAY


def test_letters_of_a_dedicated_dlq_count_and_age_in_their_lane_too() -> None:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, dedicated=("slow", "dull"))
    minutes.lanes = {"dedicated:slow": LaneState(3, END_OF_TIME + BEGIN - DAY)}
    minutes.pass_minutes(1)
    assert minutes.value(LETTERS, "slow") == 3
    assert minutes.value(AGE, "slow") == DAY
    assert minutes.value(EXPIRY, "slow") is None
    assert minutes.value(LETTERS, "dull") is None


def test_the_soonest_expiry_of_all_queues_is_a_figure_of_its_own() -> None:
    minutes = Minutes(letters={"dlq": 1, "parking:default": 1})
    minutes.retention["dlq"] = 4.0 * DAY
    minutes.pass_minutes(1)
    assert minutes.value(EXPIRY) == minutes.value(EXPIRY, "dlq") == 4 * DAY
    assert minutes.value(EXPIRY, "parking:default") == 14 * DAY


def test_the_oldest_letter_of_the_queues_that_are_drained_is_a_figure_of_its_own() -> None:
    minutes = Minutes(letters={"slow": 1, "parking:default": 1, "vip": 1})
    minutes.settings = replace(
        minutes.settings, dedicated=("slow", "vip"), alarms=WATCH._replace(scheduled=("vip",))
    )
    minutes.pass_minutes(10)
    minutes.letters["dlq"] = 1
    minutes.pass_minutes(5)
    assert minutes.value(AGE, "dlq") == 4 * MINUTE
    assert minutes.value(AGE) == minutes.value(AGE, "vip") == 14 * MINUTE
    minutes.letters["vip"] = 0
    minutes.pass_minutes(1)
    assert minutes.value(AGE) == 5 * MINUTE
    minutes.letters["dlq"] = 0
    minutes.pass_minutes(10)
    assert minutes.value(AGE) == 0
    minutes.pass_minutes(1)
    assert minutes.value(AGE) is None
