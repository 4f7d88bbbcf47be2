"""Fixtures for the tests of a team's own consumer: `pytest_plugins = ["deadletter.testing"]`."""

from __future__ import annotations

import pytest

from deadletter.consumer import runtime
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import Clock
from deadletter.testing.letterbox import Context, Letterbox, Parked, Run

__all__ = [
    "Clock",
    "Context",
    "Letterbox",
    "Parked",
    "Run",
    "letterbox",
    "letterbox_settings",
]


@pytest.fixture
def letterbox_settings() -> Pipeline:
    """The pipeline's settings; a test module that wants others has a fixture of this name."""
    return Pipeline("test")


@pytest.fixture
def letterbox(letterbox_settings: Pipeline, monkeypatch: pytest.MonkeyPatch) -> Letterbox:
    """A pipeline in memory, which the consumer library uses as long as the test runs."""
    found = Letterbox(letterbox_settings)
    monkeypatch.setattr(runtime, "current_runtime", lambda: found.runtime)
    return found
