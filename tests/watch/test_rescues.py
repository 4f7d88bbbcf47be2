"""A letter is moved out of a queue before SQS can drop it, whatever circuits and runs do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.contract import CIRCUIT_LEVELS, DAY, HOUR, MINUTE, Mode
from deadletter.watch.observation import CircuitsState
from deadletter.watch.queues import rescue_due
from deadletter.watch.row import QueueRow
from tests.watch.minutes import BEGIN, Minutes

OPEN = CircuitsState(level=CIRCUIT_LEVELS["OPEN"])


def filled(minutes: Minutes, source: str = "dlq") -> float:
    """The source is surely empty, and then gets a letter; returns when."""
    minutes.pass_minutes(10)
    arrived = minutes.now
    minutes.letters[source] = 1
    return arrived


def test_a_dlq_that_runs_do_not_empty_is_rescued_a_day_before_a_letter_could_expire() -> None:
    minutes = Minutes(circuits=OPEN)
    minutes.retention["main"] = 10.0 * DAY
    arrived = filled(minutes)
    # The letter may have spent the main queue's ten days before it came here.
    minutes.now = arrived + 3 * DAY - 7 * MINUTE
    minutes.pass_minutes(1)
    assert not minutes.rescues
    minutes.now = arrived + 3 * DAY
    minutes.pass_minutes(1)
    assert minutes.rescued == {"dlq"}


def test_a_letter_of_a_fifo_dlq_expires_by_its_time_there() -> None:
    minutes = Minutes(circuits=OPEN)
    minutes.settings = replace(minutes.settings, fifo=True)
    minutes.retention["main"] = 10.0 * DAY
    arrived = filled(minutes)
    minutes.now = arrived + 12 * DAY
    minutes.pass_minutes(1)
    assert not minutes.rescues
    minutes.now = arrived + 13 * DAY
    minutes.pass_minutes(1)
    assert minutes.rescued == {"dlq"}


@pytest.mark.parametrize("every", [MINUTE, 5 * MINUTE, DAY])
def test_brought_queues_of_four_days_are_rescued_under_an_open_circuit(every: int) -> None:
    minutes = Minutes(circuits=OPEN)
    minutes.settings = replace(minutes.settings, every=float(every))
    minutes.retention["dlq"] = 4.0 * DAY
    filled(minutes)
    # A letter may be four days old when it comes here.
    minutes.pass_minutes(1)
    assert minutes.rescued == {"dlq"}


def test_brought_queues_of_four_days_are_left_to_runs_that_empty_them() -> None:
    minutes = Minutes(letters={"dlq": 3})
    minutes.retention["dlq"] = 4.0 * DAY
    for _ in range(180):
        minutes.remember(emptied_at=minutes.now - 30)
        minutes.pass_minutes(1)
    assert not minutes.rescues


def test_brought_queues_of_four_days_are_rescued_once_runs_do_not_empty_them_for_an_hour() -> None:
    minutes = Minutes()
    minutes.retention["dlq"] = 4.0 * DAY
    arrived = filled(minutes)
    minutes.pass_minutes(70)
    assert minutes.rescues
    first, _ = minutes.rescues[0]
    assert HOUR - 10 * MINUTE <= first - arrived <= HOUR


def test_a_rescue_is_started_at_most_every_two_minutes() -> None:
    minutes = Minutes(letters={"dlq": 1}, circuits=OPEN)
    minutes.retention["dlq"] = 4.0 * DAY
    minutes.pass_minutes(6)
    assert [at - BEGIN for at, _ in minutes.rescues] == [0, 2 * MINUTE, 4 * MINUTE]


def test_letters_of_another_pipeline_are_not_received_again_and_again() -> None:
    minutes = Minutes(letters={"dlq": 3}, circuits=OPEN)
    minutes.retention["dlq"] = 4.0 * DAY
    minutes.pass_minutes(1)
    # The rescue has moved every letter of ours; three foreign ones stay.
    minutes.remember(emptied_at=minutes.now - 30)
    minutes.pass_minutes(14)
    assert [at - BEGIN for at, _ in minutes.rescues] == [0]
    # It may have come between the rescue and the count of what the rescue left.
    minutes.pass_minutes(1)
    assert [at - BEGIN for at, _ in minutes.rescues] == [0, 15 * MINUTE]
    minutes.remember(emptied_at=minutes.now - 30)
    minutes.pass_minutes(3)
    minutes.letters["dlq"] = 4
    minutes.pass_minutes(1)
    assert [at - BEGIN for at, _ in minutes.rescues] == [0, 15 * MINUTE, 19 * MINUTE]


def test_observe_never_moves() -> None:
    minutes = Minutes(letters={"dlq": 1, "parking:default": 1}, circuits=OPEN)
    minutes.settings = replace(minutes.settings, mode=Mode.OBSERVE)
    minutes.retention["dlq"] = 4.0 * DAY
    minutes.pass_minutes(3)
    minutes.now += 14 * DAY
    minutes.pass_minutes(3)
    assert not minutes.rescues


def test_parked_letters_are_rescued_after_thirteen_days() -> None:
    minutes = Minutes()
    arrived = filled(minutes, "parking:default")
    minutes.now = arrived + 13 * DAY - 7 * MINUTE
    minutes.pass_minutes(1)
    assert not minutes.rescues
    minutes.now = arrived + 13 * DAY
    minutes.pass_minutes(1)
    assert minutes.rescued == {"parking:default"}


def test_a_dedicated_dlq_that_no_schedule_drains_is_rescued() -> None:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, dedicated=("slow",))
    arrived = filled(minutes, "slow")
    minutes.now = arrived + 9 * DAY
    minutes.pass_minutes(1)
    assert minutes.rescued == {"slow"}


def test_a_rescue_that_emptied_the_queue_ends_it() -> None:
    minutes = Minutes(letters={"parking:default": 1}, created=BEGIN - 13 * DAY)
    minutes.pass_minutes(1)
    assert minutes.rescued == {"parking:default"}
    minutes.remember("parking:default", emptied_at=minutes.now)
    minutes.pass_minutes(10)
    assert len(minutes.rescues) == 1


def test_a_short_zero_is_no_proof_of_an_empty_queue() -> None:
    minutes = Minutes(letters={"parking:default": 1}, created=BEGIN - 13 * DAY + HOUR)
    minutes.pass_minutes(1)
    # SQS counts approximately: for three minutes it says 0.
    minutes.letters["parking:default"] = 0
    minutes.pass_minutes(3)
    minutes.letters["parking:default"] = 1
    minutes.now = BEGIN + HOUR
    minutes.pass_minutes(1)
    assert minutes.rescued == {"parking:default"}


def test_readings_of_zero_with_a_gap_between_them_are_no_proof_either() -> None:
    minutes = Minutes(created=BEGIN - 13 * DAY + 2 * HOUR)
    minutes.pass_minutes(1)
    minutes.now += HOUR
    minutes.pass_minutes(1)
    minutes.letters["parking:default"] = 1
    minutes.now = BEGIN + 2 * HOUR
    minutes.pass_minutes(1)
    assert minutes.rescued == {"parking:default"}


def test_an_unreadable_queue_is_rescued_when_its_time_comes() -> None:
    minutes = Minutes(unreadable=set())
    minutes.pass_minutes(10)
    minutes.unreadable = {"parking:default"}
    minutes.now += 13 * DAY
    minutes.pass_minutes(1)
    assert minutes.rescued == {"parking:default"}


def test_a_queue_is_rescued_while_circuits_cannot_be_read() -> None:
    minutes = Minutes(letters={"dlq": 1}, circuits=None)
    minutes.retention["dlq"] = 4.0 * DAY
    minutes.pass_minutes(1)
    assert minutes.rescued == {"dlq"}


def test_a_letter_that_a_run_saw_and_left_bounds_the_rescue() -> None:
    minutes = Minutes()
    minutes.retention["main"] = 60.0
    minutes.pass_minutes(10)
    minutes.letters["dlq"] = 1
    # An override sent it long ago, with a time of its own.
    minutes.remember(oldest=minutes.now - 13 * DAY)
    minutes.pass_minutes(1)
    assert minutes.rescued == {"dlq"}


def test_a_queue_whose_retention_was_never_read_is_not_rescued() -> None:
    unread = QueueRow(messages=3, read_at=BEGIN, created=BEGIN - 365 * DAY)
    known = replace(unread, retention=4.0 * DAY)
    for row, is_due in ((unread, False), (known, True)):
        assert is_due is rescue_due(
            row, mode=Mode.ENFORCE, sent_before=0.0, runs_drain=False, now=BEGIN
        )


def due_after(row: QueueRow, seconds: float) -> bool:
    return rescue_due(
        replace(row, read_at=BEGIN + seconds),
        mode=Mode.ENFORCE,
        sent_before=0.0,
        runs_drain=False,
        now=BEGIN + seconds,
    )


def test_a_rescue_is_repeated_after_110_seconds_or_after_890_if_nothing_came() -> None:
    """The watch starts a few seconds early or late, and still misses no turn."""
    row = QueueRow(messages=3, created=BEGIN - 365 * DAY, retention=4.0 * DAY, rescued_at=BEGIN)
    more, same = replace(row, left=2), replace(row, left=3)
    assert [due_after(more, seconds) for seconds in (109.5, 110, 111)] == [False, True, True]
    assert [due_after(same, seconds) for seconds in (889.5, 890, 891)] == [False, True, True]
    assert not due_after(replace(row, messages=0, left=None), 890)


def test_a_queue_is_unreadable_once_a_reading_is_older_than_110_seconds() -> None:
    row = QueueRow(read_at=BEGIN, created=BEGIN - 365 * DAY, retention=4.0 * DAY)
    for seconds, is_due in ((110, False), (110.5, True)):
        assert is_due is rescue_due(
            row, mode=Mode.ENFORCE, sent_before=0.0, runs_drain=False, now=BEGIN + seconds
        )


def test_an_empty_queue_that_cannot_be_read_is_rescued_again_after_a_quarter_of_an_hour() -> None:
    """Nothing was left in it, and as far as anyone knows nothing came."""
    row = QueueRow(
        read_at=BEGIN,
        created=BEGIN - 365 * DAY,
        retention=4.0 * DAY,
        rescued_at=BEGIN,
        left=None,
    )
    for seconds, is_due in ((889.0, False), (890.0, True)):
        assert is_due is rescue_due(
            row, mode=Mode.ENFORCE, sent_before=0.0, runs_drain=False, now=BEGIN + seconds
        )


def test_a_queue_is_drained_for_an_hour_after_it_was_empty() -> None:
    """Where the bound is always near, runs that empty the queue each hour need no rescue."""
    always_near = 5.0 * DAY + HOUR
    row = QueueRow(messages=1, retention=always_near, read_at=BEGIN, drained_at=BEGIN - HOUR)
    for drained_at, is_due in ((BEGIN - HOUR, False), (BEGIN - HOUR - 1, True)):
        assert is_due is rescue_due(
            replace(row, drained_at=drained_at),
            mode=Mode.ENFORCE,
            sent_before=4.0 * DAY,
            runs_drain=True,
            now=BEGIN,
        )


def test_a_main_queue_that_was_never_read_may_have_kept_a_letter_for_two_weeks() -> None:
    minutes = Minutes(letters={"dlq": 1}, circuits=OPEN, created=BEGIN - DAY, unreadable={"main"})
    minutes.pass_minutes(1)
    assert minutes.rescued == {"dlq"}


def test_a_parked_letter_keeps_its_last_second_before_the_rescue() -> None:
    for early, rescued in ((0.5, []), (0.0, [(BEGIN, "parking:default")])):
        created = BEGIN - 13 * DAY + early
        minutes = Minutes(letters={"parking:default": 1}, created=created)
        minutes.pass_minutes(1)
        assert minutes.rescues == rescued


def test_parked_letters_whose_retention_is_cut_short_are_rescued_at_once() -> None:
    minutes = Minutes()
    filled(minutes, "parking:default")
    minutes.pass_minutes(2)
    assert not minutes.rescues
    minutes.retention["parking:default"] = 4.0 * HOUR
    minutes.pass_minutes(1)
    # No run drains a parking queue, however lately it was empty.
    assert minutes.rescued == {"parking:default"}
