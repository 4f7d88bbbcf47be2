"""The claims under every schedule: who may act at one time, and how often it can happen."""

from __future__ import annotations

import pytest

from tests.simulation.claims_simulator import Workers
from tests.simulation.effects import Broken
from tests.simulation.search import DAY, seeds


@pytest.mark.long
def test_no_schedule_lets_two_owners_act_or_an_act_be_forgotten() -> None:
    for seed in seeds(DAY, 2_000):
        try:
            Workers(seed).run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
