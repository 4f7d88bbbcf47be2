"""The promises of one part each, under every schedule that its own simulator knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.simulation.causes_simulator import CausesSimulation
from tests.simulation.claims_simulator import Workers
from tests.simulation.kinds_simulator import KindsSimulation
from tests.simulation.pause_simulator import PauseSimulation
from tests.simulation.search import DAY, play_all, seeds

MANY = pytest.mark.slow_because("some stories have thousands of messages")

# fmt: off


@pytest.mark.long
@pytest.mark.parametrize(("simulation", "schedules"), [
    pytest.param(Workers, seeds(DAY, 2_000),
        id="no two owners of a claim act at one time, and no act is forgotten"),
    pytest.param(PauseSimulation, seeds(DAY, 1_000),
        id="a paused consumer comes back, and a person's own disabling stays"),
    pytest.param(CausesSimulation, seeds(3, 300),
        id="no deployment parks a letter, and no hold outlives its cause"),
    pytest.param(KindsSimulation, seeds(1, 300), marks=MANY,
        id="a minority is slowed alone, and an outage opens the circuit"),
])
def test_no_schedule_breaks_a_promise(simulation: Callable[[int], Any], schedules: range) -> None:
    play_all(lambda seed: simulation(seed).run(), schedules)
