"""Sudden causes under every schedule: what is parked, what comes back, and when a hold ends."""

from __future__ import annotations

import pytest

from tests.simulation.causes_simulator import CausesSimulation
from tests.simulation.effects import Broken
from tests.simulation.search import seeds


@pytest.mark.long
def test_no_deployment_parks_a_letter_and_no_hold_outlives_its_cause() -> None:
    for seed in seeds(6, 300):
        try:
            CausesSimulation(seed).run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
