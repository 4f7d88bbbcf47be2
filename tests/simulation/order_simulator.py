"""Messages of a few ordering keys, sent while others of their key fail, wait and come back.

The rest is the redriver's simulator: its actors, its faults, and all of its invariants. What is
promised beside them: no message has its effect after a later one of its key; none has it while
an earlier one that has failed is neither processed nor parked; and none is skipped but for a
later one that had its effect.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from deadletter.contract import MINUTE
from deadletter.message.letter import Letter
from deadletter.routing.line import patience_of
from deadletter.settings.pipeline import Pipeline
from tests.simulation.scheduler import Fault, Plan, Process
from tests.simulation.simulator import (
    ATTEMPTS,
    LONG_TURN,
    NO_WAIT,
    ROUND,
    TURNS,
    TURNS_TO_DIE,
    Shape,
    Simulation,
    random_plan,
    shape_of,
)
from tests.simulation.witness import Broken, uid_of
from tests.tables import LETTERS

ORDERED_KINDS = ("echo", "echo", "good", "flaky", "poison")
"""Messages that work at once, in their second and in their third life, and in none."""

KEYS = 2

LATE = 0.2
"""The share of messages that are sent after the next one of their key."""


DYING = 0.15


@dataclass(frozen=True, slots=True)
class Tried:
    """A message that has failed or was given back, the process, and that one's faults."""

    process: Process
    faults: int

    @property
    def excused(self) -> bool:
        """Whether its process was struck since: it may have told of no failure."""
        return self.process.faults > self.faults or self.process.pauses > 0


class OrderSimulation(Simulation):
    """One schedule of messages in order; raises Broken at the first broken promise."""

    def __init__(self, seed: int, shape: Shape, plan: Plan, late: float = LATE) -> None:
        super().__init__(seed, shape, plan)
        self._applied: dict[str, set[int]] = {}
        self._failed: dict[str, dict[int, Tried]] = {}
        # Some are sent late: SQS shows a standard queue in any order, too.
        numbers = list(range(len(shape.kinds)))
        lot = Random(seed + 11)
        for at in range(len(numbers) - KEYS):
            if lot.random() < late:
                numbers[at], numbers[at + KEYS] = numbers[at + KEYS], numbers[at]
        self._numbers = numbers
        # Some producers write a text.
        self._version = lot.choice((int, int, "v{} of many".format))
        self.superseded = 0
        self.in_order = 0

    def _pipeline(self, shape: Shape) -> Pipeline:
        return replace(
            super()._pipeline(shape), ordering_key="body.account", sequence="body.version"
        )

    def _turns(self) -> int:
        """One message of a key after the other, each with the longest of its waits in each life."""
        waits = math.ceil(self._shape.backoff.cap / LONG_TURN)
        return TURNS + len(self._shape.kinds) * (1 + ATTEMPTS) * (TURNS_TO_DIE + waits * ROUND)

    def _produce(self) -> None:
        first = max(1, len(self._shape.kinds) // 3)
        for number in self._numbers[:first]:
            self._send(number)
        self.scheduler.add(self._producer(first))

    def _producer(self, first: int) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            for number in self._numbers[first:]:
                self.scheduler.sleep(random.choice((0.0, 20.0, 60.0)))
                self._send(number)

        return act

    def _send(self, number: int) -> None:
        uid = f"{self._shape.kinds[number]}{number}"
        fields = {
            "key": uid,
            "uid": f"~{uid}~",
            "account": f"a{number % KEYS}",
            "version": self._version(number),
        }
        body = json.dumps({"tenantId": "a", **fields})
        options: dict[str, Any] = {}
        if self._shape.fifo:
            options = {"MessageGroupId": f"a{number % KEYS}", "MessageDeduplicationId": uid}
        self.witness.produced(uid, self.stage.put(body, **options), body, {})

    def _handle(self, process: Process, letter: Letter) -> None:
        account, version = _place(letter)
        failed = self._failed.setdefault(account, {})
        faults = process.faults
        try:
            super()._handle(process, letter)
        except Exception:
            failed[version] = Tried(process, faults)
            raise
        self._check(process, account, version)
        failed.pop(version, None)
        self._applied.setdefault(account, set()).add(version)
        self.in_order += 1

    def _behind(self, process: Process, letter: Letter, faults: int) -> None:
        account, version = _place(letter)
        self._failed.setdefault(account, {})[version] = Tried(process, faults)

    def _check(self, process: Process, account: str, version: int) -> None:
        if process.pauses:
            # It may have slept until its claim had ended.
            return
        applied = self._applied.get(account, set())
        # One whose process died in its effect may be parked as one that kills its consumer.
        after = [later for later in applied if later > version]
        if not all(self._is_parked(later) or self._is_untold(later) for later in after):
            raise Broken(f"{process.name} processes {account} {version} after a later one")
        failed = self._failed.get(account, {})
        if version in failed and failed[version].process.dead:
            # Its process died in its turn: it may have had its effect, and goes first.
            return
        for earlier, tried in failed.items():
            # A FIFO group keeps an order of its own, and what was passed before is skipped.
            if self._shape.fifo or any(later > earlier for later in applied):
                continue
            if earlier < version and not tried.excused and not self._is_parked(earlier):
                raise Broken(f"{process.name} processes {account} {version} before {earlier}")

    def _uid(self, number: int) -> str:
        return f"{self._shape.kinds[number]}{number}"

    def _is_untold(self, number: int) -> bool:
        """Whether the word that a message was processed got lost, and it has left its queue or was
        waited for long enough.
        """
        uid = self._uid(number)
        claims = [
            item
            for item in self.stage.dynamodb.items(LETTERS)
            if item.get("origin", {}).get("S") in self.witness.messages[uid].origins
            and item["sk"]["S"] == "claim"
        ]
        told = any(item["status"]["S"] == "DONE" for item in claims)
        # A claim ends within a minute.
        wait = patience_of(self.stage.pipeline).unrecorded - MINUTE
        ends = [float(item["until"]["N"]) + wait for item in claims]
        is_over = bool(ends) and max(ends) < self.stage.clock()
        # In a FIFO queue one that comes back is behind what waits for it.
        is_gone = self._shape.fifo or self.witness.places()[uid] == ["done"]
        return not told and (is_gone or is_over)

    def _is_parked(self, number: int) -> bool:
        """Whether a message is parked, or about to be: the word of it comes first."""
        message = self.witness.messages[self._uid(number)]
        rows = {item["pk"]["S"]: item for item in self.stage.dynamodb.items(LETTERS)}
        ledger = [rows.get(f"orders#ledger#{origin}", {}) for origin in message.origins]
        return any("parked_at" in row for row in ledger)

    def _superseded(self, letter: Letter) -> None:
        account, version = _place(letter)
        if max(self._applied.get(account, {-1})) <= version:
            raise Broken(f"{account} {version} is skipped, and no later one was processed")
        self._failed.get(account, {}).pop(version, None)
        self.witness.processed(uid_of(letter.body))
        self.witness.effects.skipped(letter)
        self.superseded += 1


def _place(letter: Letter) -> tuple[str, int]:
    body = json.loads(letter.body)
    return body["account"], int(str(body["version"]).removeprefix("v").split()[0])


def order_shape(seed: int) -> Shape:
    """The shape of the random schedule with this seed."""
    random = Random(seed * 6_151 + 29)
    return replace(
        shape_of(seed),
        kinds=tuple(random.choice(ORDERED_KINDS) for _ in range(random.randint(3, 8))),
        backoff=random.choice((shape_of(seed).backoff, NO_WAIT)),
        operator=False,
        rule=None,
        library=True,
        minutes=random.randint(3, 6),
        known_causes=False,
        batch=random.choice((10, 10, 3)),
        # The main queue keeps messages for days, and none is taken in a few turns.
        hours=None,
    )


def dying_plan(seed: int) -> Plan:
    """Consumers that die now and then while they say what became of a message."""
    random = Random(seed * 15_485_863 + 7)

    def plan(process: Process, name: str, _number: int) -> Fault | None:
        if not process.name.startswith("consumer") or name != "update_item":
            return None
        return Fault.CRASH_BEFORE if random.random() < DYING else None

    return plan


def dying(seed: int) -> None:
    """A schedule in which consumers die, and half of the messages are late; raises Broken."""
    shape = replace(order_shape(seed), fifo=False, kinds=("echo",) * 6, spells=(), rescues=())
    OrderSimulation(seed, shape, dying_plan(seed), late=0.5).run()


def order_schedule(seed: int) -> OrderSimulation:
    return OrderSimulation(seed, order_shape(seed), random_plan(seed))


def in_order(seed: int) -> OrderSimulation:
    """The random schedule with this seed, run to its end; raises Broken."""
    return order_schedule(seed).run()
