"""One planted app for all scanners: starting Node is what takes time."""

from __future__ import annotations

from pathlib import Path

import pytest

import scan.apps as apps
from tests.scan.planted import plant

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep this folder on one worker: another would synthesize everything again."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.xdist_group("scan"))


@pytest.fixture(scope="session")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an app in which every scanner has something to find."""
    folder = tmp_path_factory.mktemp("planted")
    apps.synthesize({}, folder, plant)
    return folder
