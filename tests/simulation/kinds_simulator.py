"""A dependency that fails a few customers' messages, a share, or all; one seed, one story.

The processes of the consumer ask their gate by the production code, on a store that they have read
up to two seconds ago, that refuses, or that loses its answers. What is promised: the others are
never refused, and no circuit opens for a minority; its kind is tried once each fifteen seconds, and
is back within minutes; a brown-out slows hardly a kind; and an outage of all opens the circuit,
whatever was sick before.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from itertools import count
from random import Random
from typing import Any

from deadletter.aws.breaker import DynamoDBBreaker
from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.circuit.state import Circuit, Circuits
from deadletter.contract import Blame
from deadletter.pace.kinds import ALL, HIDDEN, TRY_SECONDS, WELL, kind_of
from deadletter.processing.circuit_gate import CircuitGate
from deadletter.processing.delivery import Reader
from deadletter.processing.result import Troubles, outcomes_of
from deadletter.settings.pipeline import Pipeline
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB, client_error
from tests.processing.doubles import record
from tests.samples import letter
from tests.simulation.effects import Broken
from tests.tables import CIRCUITS, create_circuits_table

PIPELINE = Pipeline("orders", consumer_library=True, context={"customer": "body.tenant"})
"""Nothing names the tenant: the breaker's own look at tenants helps no kind."""

VISIBILITY = 60.0
SKEW = 1.0
"""Seconds by which a process's clock is ahead at most."""
STALE = 2.0
TROUBLE = 300.0
BACK = HIDDEN[1] + 6 * TRY_SECONDS
"""Seconds after the recovery in which each message is processed."""
CHANCES = 4
"""Kinds that a brown-out may slow: one in 10,000 is found by chance, and there are many moments.
Three were in one of a thousand schedules."""
MOST_DEAD = 45
"""Messages that fail in an outage of all until the circuit is open: twenty in a row, and what each
process has not reported."""


class Faulty:
    """DynamoDB as one process sees it."""

    def __init__(self, dynamodb: Any, random: Random, rate: float) -> None:
        self._dynamodb = dynamodb
        self._random = random
        self._rate = rate

    def __getattr__(self, name: str) -> Any:
        call = getattr(self._dynamodb, name)

        def struck(**options: Any) -> Any:
            if self._random.random() < self._rate:
                raise client_error(name, "ThrottlingException", "slow down")
            answer = call(**options)
            if self._random.random() < self._rate:
                raise client_error(name, "InternalServerError", "lost")
            return answer

        return struck


@dataclass
class Stale(Circuits):
    """The circuits as one process has read them lately."""

    circuits: Circuits
    clock: Callable[[], float]
    _read: Mapping[str, Circuit] = field(default_factory=dict)
    _at: float = 0.0

    def read(self, keys: Sequence[str], *, lagging: bool = False) -> Mapping[str, Circuit]:
        if self.clock() - self._at > STALE or not self._read.keys() >= set(keys):
            self._read, self._at = self.circuits.read(keys), self.clock()
        return self._read


class KindsSimulation:
    """One seed is one story; `run` raises Broken."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        self.clock = Clock()
        self._dynamodb: Any = MemoryDynamoDB(self.clock)
        create_circuits_table(self._dynamodb)
        self._names = count()
        self._rate = random.choice((2.0, 4.0))
        self._faults = random.choice((0.0, 0.0, 0.02))
        self._sick_share = random.choice((0.2, 0.4, 0.6))
        self._kinds = random.choice((1, 6))
        self._brown_out = random.choice((0.0, 0.0, 0.3))
        self._outage = random.choice((False, True)) and not self._brown_out
        # Each process handles a batch of one message; its gate knows no other.
        self._processes = [self._process() for _ in range(random.choice((1, 3, 10)))]
        self._reader = Reader(PIPELINE, frozenset(), self.clock)
        self._events: list[tuple[float, int, str, str, int]] = []
        self._tries: dict[str, float] = {}
        self._found: dict[str, float] = {}
        self._dead = 0
        self._by_chance: set[str] = set()
        self._waiting: set[str] = set()
        self._opened_early = False

    def _process(self) -> Callable[[], CircuitGate]:
        ahead = self._random.uniform(0.0, SKEW)

        def clock() -> float:
            return self.clock.now + ahead

        client: Any = Faulty(self._dynamodb, self._random, self._faults)
        breaker = DynamoDBBreaker(
            client=client,
            table=CIRCUITS,
            pipeline="orders",
            policy=PIPELINE.circuit,
            clock=clock,
            random=self._random,
            new_id=lambda: f"token{next(self._names)}",
        )
        outcomes = DynamoDBOutcomes(
            client=client,
            table=CIRCUITS,
            pipeline="orders",
            policy=PIPELINE.circuit,
            breaker=breaker,
            outages=None,
            clock=clock,
            count_metric=lambda *_: None,
        )
        circuits, calm = Stale(breaker, clock), dict[str, float]()
        return lambda: CircuitGate(
            pipeline=PIPELINE,
            circuits=circuits,
            outcomes=outcomes,
            troubles=Troubles(clock()),
            clock=clock,
            random=self._random,
            direct=False,
            named={},
            calm=calm,
            pause=lambda _: None,
            waits_until=clock,
        )

    def run(self) -> None:
        self._begins = self.clock.now + 20
        self._mended = self._begins + TROUBLE
        end = self._mended + (0 if self._outage else BACK)
        for number in range(int((end - self.clock.now) * self._rate)):
            ill = self._random.random() < self._sick_share
            tenant = (
                f"sick{self._random.randrange(self._kinds)}"
                if ill
                else f"t{self._random.randrange(20)}"
            )
            at = self.clock.now + number / self._rate
            heappush(self._events, (at, next(self._names), f"m{number}", tenant, 1))
        while self._events and self._events[0][0] <= end + 1:
            self.clock.now, _, name, tenant, receive = heappop(self._events)
            self._receive(name, tenant, receive)
            if self._opened_early:
                return
        if self._outage:
            self._die()
        elif not self._faults and not self._brown_out:
            if self._circuit().sick is not None:
                raise Broken("a kind is still slowed, though it has been well for minutes")
            if self._waiting:
                raise Broken(f"{len(self._waiting)} messages are not back")

    def _die(self) -> None:
        """From now on all messages fail."""
        for number in range(int(120 * self._rate)):
            self.clock.now += 1 / self._rate
            self._receive(f"dead{number}", f"t{self._random.randrange(20)}", 1, dead=True)
            if not self._circuit().is_closed:
                return
            self._dead += 1
            if self._dead > MOST_DEAD and not self._faults:
                raise Broken("the circuit stays closed in an outage of all")

    def _receive(self, name: str, tenant: str, receive: int, *, dead: bool = False) -> None:
        gate = self._random.choice(self._processes)()
        delivery = self._reader.read(record(letter(f'{{"tenant": "{tenant}"}}', name), receive))
        gate.expect([delivery])
        wait = gate.wait(delivery)
        if wait is not None:
            is_well = not tenant.startswith("sick") and not dead
            if is_well and not self._brown_out and not self._faults:
                raise Broken(f"a message of {tenant} is refused, which is well")
            if not dead:
                self._again(name, tenant, receive, wait)
            return
        fails = dead or self._fails(tenant)
        if fails and not dead:
            self._tried(tenant)
        blame = Blame.DEPENDENCY if fails else None
        gate.count(delivery, outcomes_of("orders", blame, 0.1))
        gate.report()
        if not dead and self._looks_dead(self._circuit()):
            # Seen at the opening, not later: others report meanwhile what went well.
            self._opened_early = True
            return
        if fails and not dead:
            self._again(name, tenant, receive, VISIBILITY)
        else:
            self._waiting.discard(name)
        if self._brown_out and (sick := self._circuit().sick) is not None:
            self._by_chance |= {kind.kind for kind in sick.kinds}
            if len(self._by_chance) > CHANCES:
                raise Broken("kinds are slowed that failed by chance")

    def _looks_dead(self, circuit: Circuit) -> bool:
        """Whether the circuit opened before enough was counted that went well meanwhile.

        All that was seen of the trouble failed then: nothing tells it from an outage.
        """
        good = sum(count.good for count in circuit.kinds if count.kind == ALL)
        return not circuit.is_closed and good < WELL

    def _fails(self, tenant: str) -> bool:
        if not self._begins <= self.clock.now < self._mended:
            return False
        if self._brown_out:
            return self._random.random() < self._brown_out
        return tenant.startswith("sick")

    def _again(self, name: str, tenant: str, receive: int, wait: float) -> None:
        self._waiting.add(name)
        heappush(
            self._events, (self.clock.now + wait, next(self._names), name, tenant, receive + 1)
        )

    def _tried(self, tenant: str) -> None:
        now, sick = self.clock.now, self._circuit().sick
        if sick is None or not sick.of([kind_of("c_customer", tenant)]):
            # Not found yet: a kind of which few messages come takes minutes.
            self._found.pop(tenant, None)
            self._tries.pop(tenant, None)
            return
        if now - self._found.setdefault(tenant, now) <= STALE + SKEW:
            # By a process that may not have read it yet.
            return
        last, self._tries[tenant] = self._tries.get(tenant), now
        if self._brown_out or self._faults or last is None:
            return
        if now - last < TRY_SECONDS - SKEW:
            raise Broken("a sick kind is tried twice at once")

    def _circuit(self) -> Circuit:
        breaker: Any = DynamoDBBreaker(
            client=self._dynamodb,
            table=CIRCUITS,
            pipeline="orders",
            policy=PIPELINE.circuit,
            clock=self.clock,
            random=Random(0),
            new_id=str,
        )
        circuit: Circuit = breaker.find("orders")
        return circuit


class LargeMinority(KindsSimulation):
    """Most messages fail, of a few customers: ten failures in a row are no wonder."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self._sick_share, self._kinds = 0.6, 6
        self._brown_out, self._outage = 0.0, False
