"""However many processes serve one dependency, its circuit's row takes their writes.

DynamoDB takes 1,000 write units a second of one partition, and the row is one.
"""

from __future__ import annotations

from collections import Counter
from heapq import heappop, heappush
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

WELL, FAILING = 20, 5

CALL_SECONDS = 0.1

READ_AGAIN = 20
"""Messages of all processes after which they see what is in the row, while nothing fails."""


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

    def run(self, share: float = 1.0, each: float = 2.0) -> None:
        """Of `each` messages a second and process all succeed, then this share fails.

        A message reads the circuit when its call begins, and reports when it ends.
        """
        at, fails_at, read = 0.0, STARTING + WELL, self.circuit
        calls: list[tuple[float, int, int, Circuit, bool]] = []
        for number in count():
            at += self._random.expovariate(each * len(self._processes))
            if at > fails_at + FAILING:
                return
            while calls and calls[0][0] <= at:
                self._report(*heappop(calls))
            process = self._random.randrange(len(self._processes))
            if process / len(self._processes) * STARTING > at:
                continue
            self.clock.now = self._began + at
            if at >= fails_at or number % READ_AGAIN == 0:
                read = self.circuit
            if not read.is_closed:
                self.opened_after = at - fails_at
                return
            fails = at >= fails_at and self._random.random() < share
            self.dead += fails
            ends = at + CALL_SECONDS * self._random.uniform(0.5, 1.5)
            heappush(calls, (ends, number, process, read, fails))

    def _report(self, at: float, _: int, process: int, read: Circuit, fails: bool) -> None:
        self.clock.now = self._began + at
        good_at = self.clock.now - CALL_SECONDS
        outcomes = OutcomeCounts(0, 1) if fails else OutcomeCounts(1, 0, good_at=good_at)
        self._processes[process].report("orders", outcomes, read)


@pytest.mark.parametrize("processes", [300, pytest.param(1_000, marks=pytest.mark.nightly)])
def test_the_row_takes_the_writes_of_all_and_still_opens_at_once(processes: int) -> None:
    fleet = Fleet(processes)
    fleet.run()
    starting = [units for second, units in fleet.units.items() if second <= STARTING + 3]
    later = [units for second, units in fleet.units.items() if second > STARTING + 3]
    assert max(later) <= MOST_UNITS
    # The second write of each, after five calls, tells it of the others.
    assert max(starting) <= 2 * MOST_UNITS
    assert fleet.opened_after is not None
    assert fleet.opened_after <= 0.3
    assert fleet.dead <= 0.5 * processes


@pytest.mark.nightly
def test_a_tenth_that_fails_is_no_row_of_failures() -> None:
    """Where the successes of calm times are told too seldom, the first failures look like a row."""
    fleet = Fleet(1_000)
    fleet.run(share=0.1, each=1.0)
    assert fleet.opened_after is None
