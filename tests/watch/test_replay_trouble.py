"""A replay run calls a person when it is broken, or loses its executions."""

from __future__ import annotations

from deadletter.replay.care import Care
from deadletter.signals.figures import Figure
from tests.watch.minutes import Minutes

BROKEN = Figure.REPLAY_BROKEN
QUIET = Care()


def test_a_broken_run_calls_a_person_until_a_person_ends_it() -> None:
    minutes = Minutes(replays=Care(broken=("r1",)))
    minutes.pass_minutes(1)
    assert minutes.value(BROKEN) == 1
    assert minutes.why(BROKEN) == "run r1 is BROKEN"
    minutes.replays = None
    minutes.pass_minutes(2)
    assert minutes.value(BROKEN) == 1
    minutes.replays = QUIET
    minutes.pass_minutes(1)
    assert minutes.value(BROKEN) == 0
    minutes.pass_minutes(10)
    assert minutes.value(BROKEN) is None


def lose(minutes: Minutes, *runs: str) -> None:
    minutes.replays = Care(restarted=runs)
    minutes.pass_minutes(1)
    minutes.replays = QUIET


def test_a_run_that_loses_two_executions_in_a_quarter_of_an_hour_calls_a_person() -> None:
    minutes = Minutes()
    lose(minutes, "r1")
    minutes.pass_minutes(9)
    assert minutes.value(BROKEN) is None
    lose(minutes, "r1")
    assert minutes.value(BROKEN) == 1
    assert minutes.why(BROKEN) == "run r1 has lost 2 executions within 15 minutes"
    minutes.replays = None
    minutes.pass_minutes(1)
    assert minutes.value(BROKEN) == 1
    minutes.pass_minutes(3)
    assert minutes.value(BROKEN) == 1
    # The first of the two is a quarter of an hour old.
    minutes.pass_minutes(1)
    assert minutes.value(BROKEN) == 0
    minutes.pass_minutes(10)
    assert minutes.row is not None
    assert minutes.row.replays.lost == {}


def test_one_lost_execution_now_and_then_is_no_trouble() -> None:
    minutes = Minutes()
    for _ in range(5):
        lose(minutes, "r1")
        minutes.pass_minutes(14)
        assert minutes.value(BROKEN) is None


def test_two_runs_that_lose_one_execution_each_are_no_trouble() -> None:
    minutes = Minutes()
    lose(minutes, "r1", "r2")
    assert minutes.value(BROKEN) is None


def test_a_broken_run_that_lost_executions_counts_once() -> None:
    minutes = Minutes()
    lose(minutes, "r1")
    lose(minutes, "r1", "r2")
    lose(minutes, "r2")
    minutes.replays = Care(broken=("r1",))
    minutes.pass_minutes(1)
    assert minutes.value(BROKEN) == 2
