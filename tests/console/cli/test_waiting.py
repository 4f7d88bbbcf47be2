"""What waits outside SQS, and how it leaves."""

from __future__ import annotations

from typing import Any

import pytest

from console.operations.again import opens
from console.operations.replay_census import ReplaySource
from console.operations.words import way_out
from deadletter.redrive.recall import is_recallable

LATER = 4_000_000_000


@pytest.fixture
def orders(cloud: Any, functions: Any) -> Any:
    cloud.deploy("orders", context=["tenantId"])
    for lane, letters in (("rule:stop", 3), ("delay:later", 2), ("due", 1), ("run:4f0c", 1)):
        cloud.waiting("orders", lane, letters, due=LATER)
    return cloud


def test_the_function_opens_the_lanes_that_dlq_opens() -> None:
    lanes = ("due", "delay:r", "rule:r", "circuit:c", "run:x", "parked", "dedicated:d")
    for lane in lanes:
        assert is_recallable(lane) == (way_out(lane, "orders") is None), lane
        assert is_recallable(lane) == opens(ReplaySource("", lane=lane)), lane
