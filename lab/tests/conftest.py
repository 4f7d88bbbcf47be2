"""No test of the lab asks a real AWS either."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.loopback_only import loopback_only


@pytest.fixture(autouse=True)
def _no_real_aws() -> Iterator[None]:
    """A test that asks another machine fails, also if what it tests swallows the refusal."""
    asked: list[str] = []
    with loopback_only(asked.append):
        yield
    assert asked == []
