"""Letters for people call one when none of them has left for a week."""

from __future__ import annotations

from dataclasses import replace

from deadletter.contract import DAY, END_OF_TIME, HOUR, MINUTE, WATCH, Mode
from deadletter.signals.figures import Figure
from deadletter.watch.observation import LaneState
from tests.watch.minutes import BEGIN, Minutes

UNATTENDED = Figure.PARKED_UNATTENDED
PARKED, OTHER = "parking:default", "parking:business"
WEEK = WATCH.parked_after
SENT = END_OF_TIME + BEGIN


def parked(letters: int = 5, source: str = PARKED, **changes: object) -> Minutes:
    """A pipeline whose letters have lain there for a week, less a minute."""
    minutes = Minutes(letters={source: letters}, created=BEGIN)
    minutes.settings = replace(
        minutes.settings, parking=("default", "business"), dedicated=("slow", "vip")
    )
    minutes.settings = replace(minutes.settings, **changes)  # type: ignore[arg-type]  # by name
    minutes.pass_minutes(1)
    wait(minutes, WEEK - 2 * MINUTE)
    return minutes


def wait(minutes: Minutes, seconds: float) -> None:
    """Time passes with a look at its end; a rescue needs no more looks here."""
    minutes.now += seconds - MINUTE
    minutes.pass_minutes(1)


def test_parked_letters_that_nobody_takes_call_a_person_after_a_week() -> None:
    minutes = parked()
    assert minutes.value(UNATTENDED) is None
    minutes.pass_minutes(2)
    assert minutes.value(UNATTENDED) == 5
    why = "a person has to look at 5 messages in parking:default: none has left for 7 days"
    assert minutes.why(UNATTENDED) == why
    # More letters, and a minute without a reading, end nothing.
    minutes.letters[PARKED] = 8
    minutes.pass_minutes(1)
    assert minutes.value(UNATTENDED) == 8
    minutes.unreadable = {PARKED}
    minutes.pass_minutes(2)
    assert minutes.value(UNATTENDED) == 8


def test_a_letter_that_leaves_ends_it_in_five_minutes() -> None:
    minutes = parked()
    minutes.pass_minutes(2)
    minutes.letters[PARKED] = 4
    minutes.pass_minutes(5)
    assert minutes.value(UNATTENDED) == 4
    minutes.pass_minutes(1)
    assert minutes.value(UNATTENDED) == 0
    assert minutes.why(UNATTENDED) is None
    wait(minutes, WEEK - 10 * MINUTE)
    assert minutes.value(UNATTENDED) is None
    minutes.pass_minutes(12)
    assert minutes.value(UNATTENDED) == 4


def test_a_queue_that_was_empty_was_looked_after() -> None:
    minutes = parked()
    minutes.letters[PARKED] = 0
    minutes.pass_minutes(10)
    minutes.letters[PARKED] = 3
    minutes.pass_minutes(1)
    wait(minutes, WEEK - HOUR)
    assert minutes.value(UNATTENDED) is None
    wait(minutes, 2 * HOUR)
    assert minutes.value(UNATTENDED) == 3


def test_an_empty_queue_calls_nobody_at_once() -> None:
    minutes = parked()
    minutes.pass_minutes(2)
    minutes.letters[PARKED] = 0
    minutes.pass_minutes(1)
    assert minutes.value(UNATTENDED) == 0


def test_a_count_that_is_too_low_for_a_moment_looks_after_nothing() -> None:
    minutes = parked()
    for letters in (4, 5, 3, 5, 4, 4, 5):
        minutes.letters[PARKED] = letters
        minutes.pass_minutes(1)
    assert minutes.value(UNATTENDED) == 5


def test_a_rescue_into_the_lane_looks_after_nothing() -> None:
    """The lane is counted each minute then, and letters are counted twice for a while."""
    minutes = parked()
    begin_rescue(minutes, PARKED)
    for in_queue, in_lane in ((5, 0), (5, 3), (5, 5), (2, 5), (0, 5)):
        minutes.letters[PARKED] = in_queue
        minutes.lanes = {"parked": LaneState(in_lane, SENT)}
        minutes.pass_minutes(7)
        assert minutes.value(UNATTENDED) == in_queue + in_lane
    minutes.pass_minutes(60)
    assert minutes.value(UNATTENDED) == 5
    # A person releases two: the lane is counted every ten minutes.
    minutes.lanes = {"parked": LaneState(3, SENT)}
    minutes.pass_minutes(10)
    assert minutes.value(UNATTENDED) == 3
    minutes.pass_minutes(10)
    assert minutes.value(UNATTENDED) == 0


def test_letters_counted_twice_in_a_rescue_are_no_letters_that_leave_after_it() -> None:
    minutes = parked()
    begin_rescue(minutes, PARKED)
    minutes.lanes = {"parked": LaneState(5, SENT)}
    minutes.pass_minutes(14)
    minutes.letters[PARKED] = 0
    minutes.pass_minutes(30)
    assert minutes.value(UNATTENDED) == 5


def begin_rescue(minutes: Minutes, source: str) -> None:
    assert minutes.row is not None
    queue = replace(minutes.row.queues[source], rescued_at=minutes.now)
    minutes.row = replace(minutes.row, queues={**minutes.row.queues, source: queue})


def test_letters_rescued_from_another_parking_queue_have_waited_since_then() -> None:
    minutes = parked(source=OTHER)
    minutes.pass_minutes(2)
    assert minutes.value(UNATTENDED) == 5
    begin_rescue(minutes, OTHER)
    minutes.lanes = {"parked": LaneState(5, SENT)}
    minutes.pass_minutes(1)
    minutes.letters[OTHER] = 0
    minutes.pass_minutes(10)
    assert minutes.value(UNATTENDED) == 5
    assert "parking:default" in (minutes.why(UNATTENDED) or "")
    minutes.pass_minutes(60)
    assert minutes.value(UNATTENDED) == 5


def test_each_queue_is_looked_after_on_its_own() -> None:
    minutes = parked()
    minutes.letters[OTHER] = 9
    minutes.pass_minutes(2)
    minutes.letters[OTHER] = 1
    minutes.pass_minutes(10)
    assert minutes.value(UNATTENDED) == 5


def test_a_dedicated_dlq_without_a_schedule_is_for_people() -> None:
    minutes = parked(2, "slow")
    minutes.pass_minutes(2)
    assert minutes.value(UNATTENDED) == 2
    scheduled = parked(2, "slow", alarms=WATCH._replace(scheduled=("slow",)))
    scheduled.pass_minutes(2)
    assert scheduled.value(UNATTENDED) is None


def test_letters_of_the_lane_count_while_the_lane_is_counted_now_and_then() -> None:
    minutes = Minutes(lanes={"parked": LaneState(4, SENT)})
    minutes.pass_minutes(1)
    wait(minutes, WEEK)
    minutes.pass_minutes(1)
    assert minutes.value(UNATTENDED) == 4
    minutes.lanes = {}
    minutes.pass_minutes(11)
    assert minutes.value(UNATTENDED) == 0


def test_a_steady_stream_of_letters_with_a_person_behind_calls_nobody() -> None:
    minutes = Minutes(letters={PARKED: 3}, created=BEGIN)
    for _ in range(9 * 24):
        minutes.letters[PARKED] += 1
        minutes.pass_minutes(8)
        minutes.letters[PARKED] -= 1
        minutes.pass_minutes(8)
        assert minutes.value(UNATTENDED) is None
        minutes.now += HOUR - 16 * MINUTE
    assert minutes.now - BEGIN > 8 * DAY


def test_a_letter_that_leaves_a_growing_lane_is_seen() -> None:
    """The lane is counted every ten minutes: what came meanwhile counts as well."""
    minutes = parked(mode=Mode.OBSERVE)
    minutes.lanes = {"parked": LaneState(3, SENT)}
    minutes.pass_minutes(25)
    minutes.lanes = {"parked": LaneState(5, SENT)}
    minutes.pass_minutes(25)
    assert minutes.value(UNATTENDED) == 10
    minutes.lanes = {"parked": LaneState(4, SENT)}
    minutes.pass_minutes(20)
    assert minutes.value(UNATTENDED) == 0
