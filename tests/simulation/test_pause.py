"""A paused consumer comes back whatever is lost, and a person's own disabling stays."""

from __future__ import annotations

import pytest

from tests.simulation.effects import Broken
from tests.simulation.pause_simulator import PauseSimulation


@pytest.mark.parametrize("seed", range(150))
def test_no_promise_of_the_pause_is_broken(seed: int) -> None:
    try:
        PauseSimulation(seed).run()
    except Broken as broken:
        pytest.fail(f"seed {seed}: {broken}")
