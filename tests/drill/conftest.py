"""The drill has a machine for itself: `make drill` and `make nightly` run it by its marker."""

from pathlib import Path

import pytest

HERE = Path(__file__).parent


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the drill, and keep it out of all other runs."""
    for item in items:
        if item.path.is_relative_to(HERE):
            for marker in ("drill", "long", "nightly"):
                item.add_marker(getattr(pytest.mark, marker))
