"""Sick kinds under every schedule: who is refused, who is tried, and when the circuit opens."""

from __future__ import annotations

import pytest

from tests.simulation.effects import Broken
from tests.simulation.kinds_simulator import KindsSimulation
from tests.simulation.search import seeds


@pytest.mark.long
@pytest.mark.slow_because("some stories have thousands of messages")
def test_a_minority_is_slowed_alone_and_an_outage_opens_the_circuit() -> None:
    for seed in seeds(2, 300):
        try:
            KindsSimulation(seed).run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
