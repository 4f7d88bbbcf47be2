"""A person's minutes and their hour follow from what the run wrote down."""

from __future__ import annotations

from typing import Any

from sandbox.alarms import SHORT_MINUTE
from sandbox.demo.person import (
    DAY_BEFORE,
    MINUTES_AN_ACT,
    MORNING,
    Act,
    acts_of_run,
    at_night,
    hours_of,
    minutes_of,
)
from tests.each_row import each_row

BEGAN = 14.7
RULE = {"at": 14.5, "text": "a person has typed a rule", "person": True}
TOLD = {"at": 20.0, "text": "the circuit opens"}


@each_row(
    ("at", "hour", "night"),
    [
        (0.0, "03:00", True),
        (6.9, "03:06", True),
        (MORNING - 1, "08:59", True),
        (MORNING, "09:00", False),
        (DAY_BEFORE, "17:00", False),
        (15 * 60, "18:00", True),
    ],
)
def test_an_act_has_an_hour_of_the_day_and_wakes_somebody_outside_of_work(
    at: float, hour: str, night: bool
) -> None:
    act = Act(at, "x")
    assert (act.hour, act.is_at_night) == (hour, night)


def test_minutes_are_those_of_each_act_and_hours_are_those_of_the_night() -> None:
    acts = [Act(MORNING, "c"), Act(7, "b"), Act(7, "b"), Act(1, "a")]
    assert minutes_of(acts) == 4 * MINUTES_AN_ACT
    assert minutes_of(at_night(acts)) == 3 * MINUTES_AN_ACT
    assert hours_of(acts) == "03:01 03:07"
    assert hours_of(acts[:1]) == "by day"
    assert hours_of([]) == "-"


@each_row(
    ("timeline", "rang", "parked", "acts", "hours"),
    [
        ([TOLD], [], 0, 0, "-"),
        ([RULE, TOLD], [], 0, 1, "by day"),
        # Written down in the same tenth of a second, before the first event was sent.
        ([RULE | {"at": BEGAN}, TOLD], [], 0, 1, "by day"),
        ([RULE, TOLD], [], 52, 2, "by day"),
        ([RULE | {"at": BEGAN + 4 * SHORT_MINUTE}], [], 52, 2, "03:04"),
        ([RULE], ["DlqAge", "MessageAge"], 52, 4, "03:00"),
    ],
    ids=["nothing", "a rule", "the same moment", "parked", "a rule at night", "alarms"],
)
def test_a_persons_acts_of_a_run_are_what_was_typed_what_rang_and_a_look_at_what_is_parked(
    timeline: list[dict[str, Any]], rang: list[str], parked: int, acts: int, hours: str
) -> None:
    found = acts_of_run(timeline, BEGAN, rang, parked=parked)
    assert len(found) == acts
    assert hours_of(found) == hours
