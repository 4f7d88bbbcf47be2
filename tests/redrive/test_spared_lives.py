"""A letter whose cause of failure suddenly dominates goes back, and uses no attempt."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.causes import DynamoDBCauses
from deadletter.aws.ledger import DynamoDBLedger
from deadletter.contract import Category
from deadletter.failure.causes import HOLD, FailedTry, Second
from tests.samples import failed
from tests.simulation.stage import Stage
from tests.tables import CIRCUITS, LETTERS

CAUSE = "0123456789abcdef"


@pytest.fixture
def stage() -> Stage:
    """A dead letter that failed for good, as suddenly most do."""
    made = Stage()
    made.pipeline = replace(made.pipeline, consumer_library=True)
    store: Any = made.dynamodb
    now = made.clock()
    origin = made.put(url=made.dlq)
    ledger = DynamoDBLedger(store, LETTERS, "orders", made.clock, 1e6)
    ledger.failed(origin, failed(at=now, category=Category.SCHEMA, fingerprint=CAUSE))
    causes = causes_of(made)
    causes.count([Second(int(now) - 1_800, 100)], now - 1_800)
    letters = tuple(FailedTry(CAUSE, "KeyError", letter) for letter in range(20))
    causes.count([Second(int(now), 20, letters)], now)
    return made


def causes_of(stage: Stage) -> DynamoDBCauses:
    store: Any = stage.dynamodb
    return DynamoDBCauses(store, CIRCUITS, "orders", stage.world.new_id)


def run(stage: Stage) -> None:
    # The letters of a lane may be due only after the clock has moved.
    stage.clock.advance(60)
    stage.redriver().run(stage.clock() + 55)


def places(stage: Stage) -> Counter[str]:
    urls = {"main": stage.main, "dlq": stage.dlq, "parking": stage.parking}
    counts = Counter({name: len(stage.bodies(url)) for name, url in urls.items()})
    return counts + Counter(room=len(stage.waiting()))


def test_it_goes_back_and_its_life_is_spared(stage: Stage) -> None:
    run(stage)
    assert places(stage) == {"main": 1}
    [mark] = stage.stamps(stage.main)
    assert (mark.attempt, mark.base, mark.spared) == (1, 1, 1)
    assert str(mark.because).startswith("no attempt used, its cause suddenly dominates")


def test_in_a_fifo_group_it_waits_for_that_where_it_is(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, fifo=True)
    run(stage)
    assert places(stage) == {"dlq": 1}
    for _ in range(3):
        run(stage)
    assert places(stage) == {"main": 1}
    [mark] = stage.stamps(stage.main)
    assert (mark.attempt, mark.base, mark.spared) == (1, 1, 1)


def test_it_goes_back_once_more_when_the_hold_has_ended(stage: Stage) -> None:
    stage.clock.advance(HOLD)
    run(stage)
    assert places(stage) == {"main": 1}
