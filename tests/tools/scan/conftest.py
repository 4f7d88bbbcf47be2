"""One planted app for all scanners: starting Node is what takes time."""

from __future__ import annotations

from pathlib import Path

import pytest

import tools.scan.apps as apps
from tests.tools.scan.planted import plant


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an app in which every scanner has something to find."""
    folder = tmp_path_factory.mktemp("planted")
    apps.synthesize({}, folder, plant)
    return folder
