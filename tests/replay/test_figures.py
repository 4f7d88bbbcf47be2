"""The cases of the replay figures, with fewer letters."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.replay.figures import PLAN, costs_of, letters_per_second, outage_of


@pytest.mark.parametrize(
    ("seconds", "retry_after"),
    [
        (60.0, 10.0),
        *(pytest.param(*each, marks=pytest.mark.nightly) for each in ((60.0, 0.0), (180.0, 30.0))),
    ],
)
def test_an_endpoint_that_fails_uses_up_no_tries_of_a_letter(
    seconds: float, retry_after: float
) -> None:
    """Where what has died is back at once, and a person resumes the run again and again."""
    outcome = outage_of(seconds, schedule=5.0, retry_after=retry_after, letters=400)
    assert (outcome.recovered, outcome.exhausted) == (400, 0)
    assert outcome.failed_tries > 100
    assert outcome.holds


def test_a_letter_of_a_long_key_costs_no_more_than_its_share_of_a_chunk() -> None:
    keys = [f"k{number % 50}" for number in range(250)]
    costs = costs_of("in order", keys, replace(PLAN, ordered=True))
    assert costs.units < 7.6
    assert costs.sqs < 0.3


def test_two_workers_send_nearly_twice_as_fast_as_one() -> None:
    assert letters_per_second(2, 400) > 1.7 * letters_per_second(1, 400)
