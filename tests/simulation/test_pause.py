"""A paused consumer comes back whatever is lost, and a person's own disabling stays."""

from __future__ import annotations

import pytest

from tests.simulation.pause_planted import BUGS
from tests.simulation.pause_simulator import Broken, PauseSimulation


@pytest.mark.parametrize("seed", range(150))
def test_no_promise_of_the_pause_is_broken(seed: int) -> None:
    PauseSimulation(seed).run()


@pytest.mark.parametrize("bug", BUGS)
def test_each_planted_bug_is_caught(bug: str) -> None:
    with BUGS[bug]():
        assert any(map(_is_broken, range(300)))


def _is_broken(seed: int) -> bool:
    try:
        PauseSimulation(seed).run()
    except Broken:
        return True
    return False
