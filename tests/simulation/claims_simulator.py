"""The claims under every schedule: who may act at one time, and how often it can happen.

Workers of any number of processes claim, act and end their claims on the real adapter, while
processes die, answers are lost and pauses outlast leases.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from deadletter.aws.claims import DynamoDBClaims
from deadletter.processing.idempotency import BusinessKey, Claim, ClaimsUnavailable, Standing
from deadletter.testing.clock import START
from deadletter.testing.fakes import MemoryDynamoDB
from tests.simulation.effects import Broken, wanted
from tests.simulation.scheduler import Client, Crash, Fault, Process, Scheduler
from tests.tables import LETTERS, create_messages_table

KEYS = (BusinessKey("key:7", "a"), BusinessKey("key:7", "b"), BusinessKey("origin:1", "a"))
LEASE = 60.0
KEEP = 45 * 86_400.0


@dataclass(eq=False)
class Held:
    """A claim that was won, the process that has it, and its faults when it asked."""

    claim: Claim
    process: Process
    faults: int
    effect: bool = False
    ended: bool = False

    @property
    def excused(self) -> bool:
        """Whether something befell its process since: only then may its effect be repeated."""
        return self.process.faults > self.faults


@dataclass(eq=False)
class Book:
    """What really happened to one message."""

    held: list[Held] = field(default_factory=list)

    @property
    def effects(self) -> list[Held]:
        return [message for message in self.held if message.effect]


class Workers:
    """One schedule of three workers; raises Broken."""

    def __init__(self, seed: int) -> None:
        self._random = random = Random(seed)
        faults = Random(seed * 104_729 + 3)
        rate = random.choice((0.0, 0.05, 0.1, 0.3))
        # Only a worker that outlives its lease can change what is no longer its own.
        kinds = (*Fault, Fault.PAUSE, Fault.PAUSE)
        self._healing = False

        def plan(_process: Process, _name: str, _number: int) -> Fault | None:
            struck = not self._healing and faults.random() < rate
            return faults.choice(kinds) if struck else None

        self.scheduler = Scheduler(seed, START, plan)
        self._dynamodb = MemoryDynamoDB(self.scheduler.clock)
        create_messages_table(self._dynamodb)
        self._books = {key: Book() for key in KEYS}
        self._owners = 0
        self._rows: dict[str, dict[str, Any]] = {}
        self._tries: dict[str, int] = {}
        self.scheduler.after_call = self._written

    def run(self) -> None:
        for number in range(3):
            self.scheduler.add(self._worker(f"worker{number}"))
        self.scheduler.run()
        self._healing = True
        self.scheduler.now += 10 * LEASE
        # One after the other: two messages with one key wait for each other.
        for key in KEYS:
            self.scheduler.add(partial(self._deliver, Process("healer"), key, works=True))
            self.scheduler.run()
        self._check_end()

    def _worker(self, name: str) -> Callable[[], None]:
        random = Random(self._random.random())

        def act() -> None:
            process = Process(f"{name}.0")
            for number in range(6):
                try:
                    self._deliver(process, random.choice(KEYS), works=random.random() < 0.6)
                except Crash:
                    process = Process(f"{name}.{number + 1}")
                self.scheduler.sleep(random.random() * LEASE)

        return act

    def _deliver(self, process: Process, key: BusinessKey, *, works: bool) -> None:
        """One receive of a message, as a consumer handles it."""
        client: Any = Client(self.scheduler, process, "dynamodb", self._dynamodb)
        clock = self.scheduler.clock
        claims = DynamoDBClaims(client, LETTERS, "orders", clock, KEEP)
        self._owners += 1
        with contextlib.suppress(ClaimsUnavailable):
            # A pause in the claim itself uses up its lease as any other.
            faults = process.faults
            claim = claims.claim(key, f"owner{self._owners}", clock() + LEASE)
            if claim.standing is Standing.DUPLICATE and not self._books[key].effects:
                raise Broken(f"{key} was never processed and is called a duplicate")
            if claim.standing is not Standing.MINE:
                return
            self._check_others(claim, key)
            held = self._won(Held(claim, process, faults), key)
            # The effect takes its time, and others have their turn meanwhile.
            self.scheduler.sleep(self._random.random() * 5)
            if not works:
                held.ended = True
                claims.withdraw(claim)
                return
            held.effect = True
            if not claims.done(claim) and not held.excused:
                raise Broken(f"{claim.owner} lost {key} and nothing befell it")
            held.ended = True

    def _won(self, held: Held, key: BusinessKey) -> Held:
        book, owner = self._books[key], held.claim.owner
        for earlier in book.held:
            if not earlier.excused and not earlier.ended:
                raise Broken(f"{owner} may process {key} beside {earlier.claim.owner}")
            if earlier.effect and not earlier.excused:
                raise Broken(f"{owner} may repeat {key}, and no fault explains it")
        book.held.append(held)
        row, tries = held.claim.key, held.claim.tries
        if tries <= self._tries.get(row, 0):
            raise Broken(f"{owner} calls a try of {key} as one before it")
        self._tries[row] = tries
        return held

    def _check_others(self, claim: Claim, key: BusinessKey) -> None:
        """A message is compared with one that was processed, and waits for any other."""
        others = [
            held
            for other, book in self._books.items()
            for held in book.held
            if other != key and other.text == key.text
        ]
        if claim.collision and not any(held.effect for held in others):
            raise Broken(f"{key} collides with a message that was never processed")
        if not claim.collision:
            for held in others:
                # One that was claimed apart is another message by now.
                if not held.claim.collision and not held.excused and not held.ended:
                    raise Broken(f"{key} may be processed beside {held.claim.owner}")
                if held.effect and not held.excused:
                    raise Broken(f"{key} takes the key of a message that was processed")

    def _written(self, process: Process, service: str, name: str, options: Any, _: Any) -> None:
        """A row belongs to the owner who claimed it: no other owner may change its standing."""
        for row in self._dynamodb.items(LETTERS):
            before = self._rows.get(row["pk"]["S"])
            self._rows[row["pk"]["S"]] = dict(row)
            if before is None:
                continue
            taken = float(before["until"]["N"]) > self.scheduler.now
            if before["payload"] != row["payload"] and before["status"]["S"] == "CLAIMED" and taken:
                raise Broken(f"{process.name} puts another message into the row of a live claim")
            if before["status"] == row["status"]:
                continue
            if before["status"]["S"] == "DONE":
                raise Broken(f"{process.name} forgets what was done")
            # A claim gives the row another owner; its end does not.
            is_end = name == "update_item" and "Adds" not in options
            if is_end and wanted(options["When"])["own"] != before["own"]["S"]:
                raise Broken(f"{process.name} changes the row of {before['own']}")

    def _check_end(self) -> None:
        for key, book in self._books.items():
            if not book.effects:
                raise Broken(f"{key} is never processed")
            if len(book.effects) > 1 + sum(effect.excused for effect in book.effects):
                raise Broken(f"{key} had {len(book.effects)} effects")
        missing = len(self._rows) - len(self._dynamodb.items(LETTERS))
        if missing:
            raise Broken("a row is gone before its time")
