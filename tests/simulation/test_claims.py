"""The claims under every schedule: who may act at one time, and how often it can happen."""

from __future__ import annotations

import pytest

from tests.simulation.claims_simulator import Workers
from tests.simulation.effects import Broken


def run(first: int, seeds: int) -> None:
    for seed in range(first, first + seeds):
        try:
            Workers(seed).run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")


def test_no_schedule_lets_two_owners_act_or_an_act_be_forgotten() -> None:
    run(0, 150)


@pytest.mark.long
@pytest.mark.parametrize("last", [600, pytest.param(10_000, marks=pytest.mark.nightly)])
def test_no_schedule_of_many_does(last: int) -> None:
    run(150, last)
