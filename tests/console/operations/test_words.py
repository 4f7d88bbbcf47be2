"""Numbers, sizes and times in words."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from console.operations import words
from console.operations.words import way_out
from deadletter.redrive.recall import is_recallable
from tests.each_row import each_row

NOW = datetime(2026, 11, 20, 3, 12, tzinfo=UTC)


@each_row(
    ("seconds", "text"),
    [
        (-5, "0 s"), (45, "45 s"), (60, "1 min"), (3_599, "59 min"), (7_500, "2 h 05 min"),
        (86_400, "1 d 0 h"), (273_600, "3 d 4 h"),
    ],
)  # fmt: skip
def test_a_duration_is_told_in_its_two_largest_units(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(812, "812 B"), (1024, "1.0 KiB"), (1_048_575, "1024.0 KiB"), (1_048_576, "1.0 MiB")],
)
def test_a_size_has_a_unit(number: int, text: str) -> None:
    assert words.size(number) == text


def test_a_time_of_another_day_carries_its_date() -> None:
    assert words.clock(datetime(2026, 11, 20, 3, 40, tzinfo=UTC), NOW) == "03:40 UTC"
    assert words.clock(datetime(2026, 11, 19, 3, 40, tzinfo=UTC), NOW) == "19 Nov 03:40 UTC"


@each_row("epoch", [None, "1", True, 1e300, float("nan"), -(10**20), 10**400])
def test_anything_but_a_number_in_the_range_of_dates_is_no_time(epoch: Any) -> None:
    assert words.moment(epoch) is None


def test_the_function_opens_the_lanes_that_dlq_opens() -> None:
    lanes = ("due", "delay:r", "rule:r", "circuit:c", "run:x", "parked", "dedicated:d")
    for lane in lanes:
        assert is_recallable(lane) == (way_out(lane, "orders") is None), lane
