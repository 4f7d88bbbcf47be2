"""A paused consumer comes back whatever is lost, and a person's own disabling stays."""

from __future__ import annotations

import pytest

from tests.simulation.effects import Broken
from tests.simulation.pause_simulator import PauseSimulation
from tests.simulation.search import DAY, seeds


@pytest.mark.long
def test_no_promise_of_the_pause_is_broken() -> None:
    for seed in seeds(DAY, 1_000):
        try:
            PauseSimulation(seed).run()
        except Broken as broken:
            pytest.fail(f"seed {seed}: {broken}")
