"""A deployment that breaks every message parks none of them; what was always there is parked.

Ten consumers, the redriver and the router, on the scenario bench's queue and mapping.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.causes import DynamoDBCauses
from deadletter.contract import Category
from deadletter.failure.signals import Permanent
from tests.scenario_bench.measure import Figures, play
from tests.scenario_bench.scenario import Scenario
from tests.scenario_bench.systems import Deadletter
from tests.scenario_bench.traffic import Book, Call, messages_of
from tests.tables import CIRCUITS

# By day tests/failure/test_causes.py and tests/processing/test_sudden_causes.py hold the parts.
pytestmark = pytest.mark.nightly

MINUTE = 60.0
HOUR = 60 * MINUTE
BREAKS, MENDED = HOUR, HOUR + 15 * MINUTE

DEPLOYMENT = Scenario(
    name="bad-deployment",
    title="a deployment breaks every message for 15 min",
    rate=1,
    lasts=HOUR + 45 * MINUTE,
    tail=15 * MINUTE,
)


def no_field(_: Any) -> None:
    raise Permanent("no field", category=Category.SCHEMA)


def defect(_: Any) -> None:
    raise KeyError("renamed")


class Deployed(Deadletter):
    """The product, with a handler that fails each message between two moments."""

    fails: Callable[[Any], None] = staticmethod(no_field)

    def work(self, body: str, call: Call) -> None:
        if BREAKS <= self.elapsed < MENDED:
            self.fails(json.loads(body))
        super().work(body, call)

    def store(self) -> DynamoDBCauses:
        store: Any = self.stage.dynamodb
        return DynamoDBCauses(store, CIRCUITS, "orders", self.world.new_id)


def played(
    scenario: Scenario, seed: int = 1, **changes: Any
) -> tuple[Figures, Deployed, Counter[str]]:
    kind = type("Deployed", (Deployed,), changes)
    system = kind(scenario, seed, Book(messages_of(scenario, seed)))
    figures = play(system)
    marks = system.stage.stamps(system.stage.parking)
    return figures, system, Counter(str(mark.reason) for mark in marks)


@pytest.mark.parametrize("fails", [no_field, defect])
def test_a_deployment_that_breaks_every_message_parks_none_of_them(
    fails: Callable[[Any], None],
) -> None:
    figures, system, reasons = played(DEPLOYMENT, fails=staticmethod(fails))
    assert figures.lost == 0
    assert reasons.total() == figures.parked_wrongly == 0
    # All are tried until the handler is mended, and are back four minutes later.
    assert figures.goodput == 1.0
    assert figures.longest is not None
    assert figures.longest <= MENDED - BREAKS + 4 * MINUTE
    assert figures.openings == 0
    assert system.store().read().held(system.timeline.now) == {}


@pytest.mark.parametrize("share", [0.05, 0.3])
@pytest.mark.parametrize("fails", [no_field, defect])
def test_poison_that_was_always_there_is_parked_as_ever(
    share: float, fails: Callable[[Any], None]
) -> None:
    class Poisoned(Deployed):
        def work(self, body: str, call: Call) -> None:
            if "customer" not in json.loads(body):
                fails(body)
            Deadletter.work(self, body, call)

    scenario = replace(DEPLOYMENT, poison=share, lasts=HOUR, tail=HOUR)
    system = Poisoned(scenario, 1, Book(messages_of(scenario, 1)))
    figures = play(system)
    assert figures.parked_wrongly == 0
    assert figures.goodput == 1.0
    assert figures.poison_left == 0
    assert system.store().read().holds == {}


def test_poison_that_gathered_in_the_dlq_does_not_dominate_when_it_is_sent_back() -> None:
    """For 40 minutes no run sends letters; then all that were poisonous go back at once."""

    class Gathering(Deployed):
        def work(self, body: str, call: Call) -> None:
            if "customer" not in json.loads(body):
                defect(body)
            Deadletter.work(self, body, call)

        def _redrive(self) -> None:
            if not 20 * MINUTE <= self.elapsed < HOUR:
                super()._redrive()

    scenario = replace(DEPLOYMENT, poison=0.05, rate=2, lasts=HOUR + 20 * MINUTE, tail=HOUR)
    system = Gathering(scenario, 1, Book(messages_of(scenario, 1)))
    figures = play(system)
    assert figures.parked_wrongly == 0
    assert figures.poison_left == 0
    assert system.store().read().holds == {}
