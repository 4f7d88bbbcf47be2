"""A deployment that breaks a handler, is mended by half and then for good; one seed is one story.

The processes of the consumer count and park by the production code, on a store that may refuse or
lose answers, and each may start anew at any time. Letters that die are judged by the router's own
judgements. What is promised: no letter is parked that only the deployment failed; each is back
within minutes of the mending; poison of a known cause is parked at once; and no hold outlives its
cause, whatever little poison of it goes on.
"""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from deadletter.aws.causes import DynamoDBCauses
from deadletter.contract import Category
from deadletter.failure.causes import (
    BUCKET,
    HOLD,
    Causes,
    CausesUnavailable,
    FailedTry,
    Second,
)
from deadletter.failure.classify import Diagnosis
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import LedgerRow
from deadletter.message.stamp import Stamp
from deadletter.processing.sudden_causes import SuddenCauses, hash_of
from deadletter.routing.decision import Hold, Park, Redrive
from deadletter.routing.judgement import Case, judge
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import START, Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.simulation.effects import Broken
from tests.tables import CIRCUITS, create_circuits_table

PIPELINE = Pipeline("orders", consumer_library=True)
NEW, OLD = "new", "old"
MINUTE = 60.0
RECEIVES = 5
VISIBILITY = 180.0
RUN = 60.0
"""Seconds between two runs of the redriver."""

BACK = 210.0 + 2 * RUN
"""Seconds after the mending in which each letter is processed."""

OVER = HOLD + 2 * BUCKET + 2 * MINUTE
"""Seconds after the mending in which no cause is held any more."""


class Faulty:
    """The store of causes as one process sees it: it may refuse, or lose its answer."""

    def __init__(self, store: DynamoDBCauses, random: Random, rate: float) -> None:
        self._store = store
        self._random = random
        self._rate = rate

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._store, name)

        def struck(*arguments: Any) -> Any:
            if self._random.random() < self._rate:
                raise CausesUnavailable
            answer = call(*arguments)
            if self._random.random() < self._rate:
                raise CausesUnavailable
            return answer

        return struck


class CausesSimulation:
    """One seed is one story; `run` raises Broken."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.clock = Clock()
        self._names = (f"token{number}" for number in count())
        self._dynamodb: Any = MemoryDynamoDB(self.clock)
        create_circuits_table(self._dynamodb)
        # Twenty letters have to fail before the first of them comes back.
        self._rate = random.choice((0.5, 1.0, 2.0))
        self._faults = random.choice((0.0, 0.0, 0.1))
        self._restarts = random.choice((0.0, 0.01))
        self._broken = random.choice((3, 12, 18)) * MINUTE
        self._half = random.choice((0, 12, 25)) * MINUTE
        self._leftover = random.choice((0.0, 0.04))
        self._processes = [self._process() for _ in range(random.choice((1, 3, 10)))]
        self._events: list[tuple[float, int, str, int, Stamp]] = []
        self._numbers = 0
        self._sent: dict[str, float] = {}
        self._waiting: set[str] = set()

    def _store(self) -> DynamoDBCauses:
        return DynamoDBCauses(self._dynamodb, CIRCUITS, "orders", lambda: next(self._names))

    def _process(self) -> SuddenCauses:
        store: Any = Faulty(self._store(), self._random, self._faults)
        return SuddenCauses(store, self.clock, lambda *_: None)

    def run(self) -> None:
        self._healthy_hour()
        begins = self.clock.now
        mended = begins + self._broken + self._half
        end = mended + OVER + 10 * MINUTE
        for number in range(int((end - begins) * self._rate)):
            name, at = self._name(number), begins + number / self._rate
            self._sent[name] = at
            self._push(at, name, 1)
        while self._events and self._events[0][0] <= end:
            self.clock.now, _, name, receive, stamp = heappop(self._events)
            if self.clock.now > mended + BACK:
                self._check_back()
            self._receive(name, receive, stamp, begins)
            if self.clock.now > mended + OVER and self._causes().held(self.clock.now):
                raise Broken("a cause is still held, though next to nothing fails for it")
        left = [name for name in self._waiting if name.startswith("leftover")]
        if not self._faults and any(self._sent[name] < mended + OVER for name in left):
            raise Broken("poison that a hold has kept from the parking lot stays out of it")

    def _healthy_hour(self) -> None:
        """An hour before, with a twentieth of poison whose cause is known."""
        store = self._store()
        for back in range(14, 0, -1):
            at = int(self.clock.now - back * BUCKET)
            old = tuple(FailedTry(OLD, "E", hash_of(f"{back}/{n}")) for n in range(15))
            store.count([Second(at, 300, old)], at)

    def _name(self, number: int) -> str:
        if self._random.random() < 0.05:
            return f"poison{number}"
        if self._random.random() < self._leftover:
            return f"leftover{number}"
        return f"order{number}"

    def _push(self, at: float, name: str, receive: int, stamp: Stamp | None = None) -> None:
        self._numbers += 1
        event = (at, self._numbers, name, receive, stamp or Stamp(name, 0, int(START * 1_000)))
        heappush(self._events, event)

    def _cause(self, name: str, begins: float) -> str:
        """What the message fails for now; empty if it is processed."""
        if name.startswith("poison"):
            return OLD
        since = self.clock.now - begins
        number = int(name.removeprefix("leftover").removeprefix("order"))
        if since < self._broken or (since < self._broken + self._half and number % 2):
            return NEW
        # The deployment is mended, and a producer sends a little of what it could not read.
        return NEW if name.startswith("leftover") else ""

    def _receive(self, name: str, receive: int, stamp: Stamp, begins: float) -> None:
        at = self._random.randrange(len(self._processes))
        if self._random.random() < self._restarts:
            self._processes[at] = self._process()
        causes, cause = self._processes[at], self._cause(name, begins)
        if not cause:
            causes.processed(receive, stamp)
            causes.report()
            self._waiting.discard(name)
            return
        causes.failed(
            receive, stamp, Diagnosis(Category.SCHEMA, "E", "no field", fingerprint=cause)
        )
        if causes.may_park(cause, receive):
            self._park(name)
            return
        causes.report()
        if name.startswith("poison") and receive == 1 and not self._faults and not self._restarts:
            raise Broken("poison of a known cause is not parked at its first receive")
        self._waiting.add(name)
        wait = causes.again_after(cause, self._random)
        if receive < RECEIVES:
            again = self.clock.now + (VISIBILITY if wait is None else wait)
            self._push(again, name, receive + 1, stamp)
        else:
            self._die(name, stamp, cause, receive)

    def _die(self, name: str, stamp: Stamp, cause: str, receive: int) -> None:
        """The redriver's next run asks what becomes of the letter."""
        failure = Failure(
            self.clock.now, stamp.attempt, Category.SCHEMA, fingerprint=cause, receive=receive
        )
        now = self.clock.now + self._random.random() * RUN
        case = Case(
            PIPELINE,
            stamp,
            now,
            self._random,
            row=LedgerRow((failure,)),
            causes=self._causes(),
        )
        match judge(case):
            case Park():
                self._park(name)
            case Redrive(delay=delay):
                attempt = stamp.attempt + 1
                free, spared = int(case.is_free), attempt if case.is_excused else stamp.spared
                sent = replace(stamp, attempt=attempt, base=stamp.base + free, spared=spared)
                self._push(now + delay, name, 1, sent)
            case Hold(due=due):
                self._push(due, name, 1, stamp)

    def _park(self, name: str) -> None:
        self._waiting.discard(name)
        if name.startswith("order"):
            raise Broken(f"{name} is parked, which only the deployment failed")

    def _check_back(self) -> None:
        late = [name for name in self._waiting if name.startswith("order")]
        if late:
            raise Broken(f"{late[0]} is not back, though the handler is mended")

    def _causes(self) -> Causes:
        return self._store().read()
