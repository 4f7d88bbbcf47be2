"""The fixtures of `deadletter.testing`; they alone need pytest."""

from __future__ import annotations

import pytest

from deadletter.consumer import runtime
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.letterbox import Letterbox


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
