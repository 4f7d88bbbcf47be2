"""However many processes serve one dependency, its circuit's row takes their writes.

DynamoDB takes 1,000 write units a second of one partition, and the row is one.
"""

from __future__ import annotations

from collections import Counter
from itertools import count
from random import Random
from typing import Any

import pytest

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.circuit.state import Circuit, CircuitPolicy, OutcomeCounts
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.tables import CIRCUITS, create_circuits_table

MOST_UNITS = 200
"""Units a second: a fifth of what DynamoDB takes."""

STARTING = 10
"""Seconds in which the processes start, as fast as Lambda starts them."""

WELL, FAILING = 20, 20

CALL_SECONDS = 0.1


class Fleet:
    """Processes that each have two messages a second, of one dependency."""

    def __init__(self, processes: int) -> None:
        self.clock = Clock()
        self.units = Counter[int]()
        self.dead = 0
        self.opened_after: float | None = None
        self._random = Random(7)
        self._dynamodb: Any = MemoryDynamoDB(self.clock)
        create_circuits_table(self._dynamodb)
        self._names = count()
        change = self._dynamodb.update_item

        def counted(**options: Any) -> Any:
            # One that is refused for its condition costs as much.
            self.units[int(self.clock.now - self._began)] += 1
            return change(**options)

        self._dynamodb.update_item = counted
        self._began = self.clock.now
        self._breaker = self._breaker_of(self._dynamodb)
        self._processes = [self._process() for _ in range(processes)]

    def _breaker_of(self, client: Any) -> DynamoDBBreaker:
        return DynamoDBBreaker(
            client=client,
            table=CIRCUITS,
            pipeline="orders",
            policy=CircuitPolicy(),
            clock=self.clock,
            random=self._random,
            new_id=lambda: f"token{next(self._names)}",
        )

    def _process(self) -> DynamoDBOutcomes:
        return DynamoDBOutcomes(
            client=self._dynamodb,
            table=CIRCUITS,
            pipeline="orders",
            policy=CircuitPolicy(),
            breaker=self._breaker,
            outages=None,
            clock=self.clock,
            count_metric=lambda *_: None,
        )

    @property
    def circuit(self) -> Circuit:
        return self._breaker.find("orders")

    def run(self) -> None:
        """All messages succeed, then all fail; a process reads the circuit before each message."""
        total = len(self._processes)
        fails_at = STARTING + WELL
        for step in range((STARTING + WELL + FAILING) * 2 * total):
            at = step / (2 * total)
            number = self._random.randrange(total)
            if number / total * STARTING > at:
                continue
            self.clock.now = self._began + at
            fails = at >= fails_at
            if fails and not self.circuit.is_closed:
                if self.opened_after is None:
                    self.opened_after = at - fails_at
                continue
            self.dead += fails
            good_at = self.clock.now - CALL_SECONDS
            outcomes = OutcomeCounts(0, 1) if fails else OutcomeCounts(1, 0, good_at=good_at)
            self._processes[number].report("orders", outcomes)


@pytest.mark.parametrize("processes", [300, pytest.param(1_000, marks=pytest.mark.long)])
def test_the_row_takes_the_writes_of_all_and_still_opens_at_once(processes: int) -> None:
    fleet = Fleet(processes)
    fleet.run()
    starting = [units for second, units in fleet.units.items() if second <= STARTING + 1]
    later = [units for second, units in fleet.units.items() if second > STARTING + 1]
    assert max(later) <= MOST_UNITS
    # Each begins with a write or two, before it knows of the others.
    assert max(starting) <= 2 * MOST_UNITS
    assert fleet.opened_after is not None
    assert fleet.opened_after <= 0.3
    assert fleet.dead <= 0.5 * processes
