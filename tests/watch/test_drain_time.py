"""When the DLQ will be empty: measured over ten looks, or not said."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.circuit.state import Circuit, State
from deadletter.contract import HOUR, MINUTE, WATCH, Mode
from deadletter.signals.figures import Figure
from deadletter.watch.observation import circuits_state
from deadletter.watch.queues import LEAST, TARGET, DrainTime, drain_time
from deadletter.watch.row import DrainRow
from tests.each_row import each_row
from tests.watch.minutes import BEGIN, Minutes

DEPTH = Figure.DLQ_DEPTH

# Ten looks, and five in a row that miss the target.
UNTIL_LATE = 14


def looked(*depths: int) -> DrainTime:
    times = tuple(BEGIN + MINUTE * number for number in range(len(depths)))
    return drain_time(DrainRow(times=times, depths=depths))


@each_row(
    ("depths", "seconds"),
    [
        # Six fewer a minute: the last of 46 goes in 46 / 6 minutes.
        (range(100, 40, -6), 460),
        # One fewer a minute.
        (range(1_009, 999, -1), None),
        (range(409, 399, -1), 400 * MINUTE),
        ([100] * 10, None),
        ([100] * 5 + [101] * 5, None),
        (range(100, 200, 10), None),
        # Bursts: the halves are compared, not the ends.
        ([50, 150] * 5, None),
    ],
)
def test_the_time_is_that_of_the_net_rate_over_ten_looks(
    depths: list[int], seconds: float | None
) -> None:
    told = looked(*depths)
    assert told.fewer is not None
    assert told.seconds == (None if seconds is None else pytest.approx(seconds))


@each_row(
    "depths",
    [(), (90,) * 9, (LEAST - 1,) * 10, (9, 9, 9, 9, 9, 99, 99, 99, 99, 99)],
)
def test_what_ten_looks_do_not_tell_is_not_said_and_never_late(depths: tuple[int, ...]) -> None:
    told = looked(*depths)
    assert (told.seconds, told.fewer, told.is_late) == (None, None, False)


def test_a_missing_minute_does_not_make_the_rate_higher() -> None:
    depths = tuple(range(100, 40, -6))
    times = tuple(BEGIN + 2 * MINUTE * number for number in range(10))
    assert drain_time(DrainRow(times=times, depths=depths)).seconds == pytest.approx(920)


@each_row(
    ("times", "depths"),
    [((BEGIN,) * 10, (90,) * 10), ((BEGIN,), (90,) * 10), (tuple(range(10, 0, -1)), (90,) * 10)],
)
def test_looks_of_a_row_that_an_enemy_wrote_say_nothing(
    times: tuple[float, ...], depths: tuple[int, ...]
) -> None:
    assert drain_time(DrainRow(times=times, depths=depths)).is_late is False


def falling(by: int, *, start: int = 90, minutes: Minutes | None = None, for_: int = 30) -> Minutes:
    """A DLQ that becomes emptier by so many letters in three minutes."""
    minutes = minutes or Minutes()
    for number in range(for_):
        minutes.letters["dlq"] = start - by * number // 3
        minutes.pass_minutes(1)
    return minutes


def test_a_queue_that_is_not_empty_within_two_hours_is_a_reason_of_the_page_on_depth() -> None:
    """90 letters, one fewer in three minutes: four hours and a half."""
    minutes = falling(1, for_=UNTIL_LATE)
    assert minutes.value(DEPTH) == 1
    assert minutes.why(DEPTH) is not None
    assert "will not be empty within 2 hours but in 4." in str(minutes.why(DEPTH))
    assert "(86 messages)" in str(minutes.why(DEPTH))


def test_a_quarter_of_an_hour_is_not_enough_for_it() -> None:
    assert falling(1, for_=UNTIL_LATE - 1).value(DEPTH) is None


def test_a_queue_that_is_empty_in_time_is_no_reason() -> None:
    """90 letters, one fewer a minute."""
    assert falling(3).value(DEPTH) is None


def test_a_queue_that_does_not_become_emptier_is_a_reason_until_it_does() -> None:
    minutes = falling(0)
    assert minutes.why(DEPTH) == "the DLQ has not become emptier in 10 looks (90 messages)"
    falling(12, minutes=minutes, for_=6)
    assert (minutes.value(DEPTH), minutes.why(DEPTH)) == (0, None)


def test_more_letters_than_the_threshold_for_five_looks_are_a_reason() -> None:
    minutes = Minutes(letters={"dlq": 101})
    minutes.pass_minutes(WATCH.depth_looks - 1)
    assert minutes.value(DEPTH) is None
    minutes.pass_minutes(1)
    assert minutes.why(DEPTH) == "101 messages are in the DLQ, more than 100"
    minutes.letters["dlq"] = 100
    minutes.pass_minutes(1)
    assert minutes.value(DEPTH) == 0


def test_both_reasons_are_said_in_one() -> None:
    minutes = falling(0, start=3_000)
    assert minutes.why(DEPTH) == (
        "3,000 messages are in the DLQ, more than 100;"
        " the DLQ has not become emptier in 10 looks (3,000 messages)"
    )


def test_a_queue_that_could_not_be_read_stays_as_it_was() -> None:
    minutes = falling(0)
    before = minutes.row
    assert before is not None
    minutes.unreadable = {"dlq"}
    minutes.pass_minutes(1)
    assert minutes.value(DEPTH) == 1
    assert minutes.row is not None
    assert minutes.row.drain == before.drain


def opened(key: str = "orders") -> Minutes:
    circuit = Circuit(key, State.OPEN, opened_at=BEGIN)
    return Minutes(circuits=circuits_state("orders", [circuit]))


def named() -> Minutes:
    return opened("dependency/mail")


def unread_since_it_opened() -> Minutes:
    minutes = opened()
    minutes.pass_minutes(1)
    minutes.circuits = None
    return minutes


def observing() -> Minutes:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, mode=Mode.OBSERVE)
    return minutes


def hourly() -> Minutes:
    minutes = Minutes()
    minutes.settings = replace(minutes.settings, every=float(HOUR))
    return minutes


@pytest.mark.parametrize("world", [opened, named, unread_since_it_opened, observing, hourly])
def test_where_no_letter_can_go_back_the_time_is_not_known(world: object) -> None:
    """Their own alarms say so; of runs an hour apart, ten looks see none."""
    assert callable(world)
    minutes = falling(0, minutes=world())
    assert minutes.value(DEPTH) is None
    assert minutes.row is not None
    assert drain_time(minutes.row.drain) == DrainTime()


def test_stalled_runs_have_an_alarm_of_their_own() -> None:
    minutes = Minutes(letters={"dlq": 90})
    minutes.pass_minutes(40, runs_end_well=False)
    assert minutes.value(Figure.REDRIVE_STALLED) == 1
    assert minutes.value(DEPTH) is None


def test_a_queue_that_runs_empty_again_and_again_is_no_backlog() -> None:
    """Each look sees what has arrived since the last run."""
    minutes = Minutes(letters={"dlq": 50})
    for _ in range(30):
        minutes.remember(emptied_at=minutes.now - 20)
        minutes.pass_minutes(1)
    assert minutes.value(DEPTH) is None


def test_a_gap_in_the_looks_begins_them_anew() -> None:
    minutes = falling(0, for_=UNTIL_LATE - 1)
    minutes.now += 10 * MINUTE
    minutes.pass_minutes(1)
    assert minutes.value(DEPTH) is None
    assert minutes.row is not None
    assert len(minutes.row.drain.times) == 1


def test_an_empty_queue_costs_the_row_nothing() -> None:
    minutes = falling(0)
    minutes.letters["dlq"] = 0
    minutes.pass_minutes(1)
    assert minutes.row is not None
    assert minutes.row.drain == DrainRow()


def test_the_target_is_two_hours() -> None:
    assert TARGET == 2 * HOUR
