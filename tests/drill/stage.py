"""The place of a scene: a pipeline, its endpoint, and each message that was sent to it."""

from __future__ import annotations

import json
import threading
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from deadletter.contract import MINUTE, PARKED_LANE
from sandbox.progress import Standstill
from sandbox.server import Sandbox
from tests.e2e.deployed import Deployed
from tests.e2e.receiver import Receiver


@dataclass(frozen=True, slots=True)
class Letters:
    """Where the messages of a scene are, by number: each is in one of these places or lost.

    `twice` are messages that the endpoint took more than once.
    """

    sent: int
    processed: int
    parked: int
    left: int
    twice: int
    lost: tuple[int, ...]


@dataclass
class Stage:
    """One pipeline of the deployed app; numbers of messages count from 0.

    `fail` lets calls of this scene fail from now on, and no others of it.
    """

    deployed: Deployed
    receiver: Receiver
    fail: Callable[..., None]
    _sent: list[int] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def name(self) -> str:
        return self.deployed.name

    @property
    def sandbox(self) -> Sandbox:
        return self.deployed.sandbox

    def function(self, role: str) -> str:
        return f"deadletter-{self.name}-{role}"

    def until(self, condition: Callable[[], object], what: str, minutes: float = 30) -> None:
        """Wait for what the app does; raises Standstill after so many minutes of its clock."""
        began = self.sandbox.time()
        while not condition():
            if self.sandbox.time() - began > minutes * MINUTE:
                raise Standstill(
                    f"waited {minutes:.0f} minutes for: {what}; seen: {self.letters()}"
                )
            threading.Event().wait(0.5)

    def send(self, count: int, queue: str = "MainQueue", **more: Any) -> None:
        for _ in range(count):
            with self._lock:
                number = len(self._sent)
                self._sent.append(number)
            body = {"tenantId": self.name, "n": number, **more}
            self.deployed.send(json.dumps(body), queue, MessageAttributes={})

    def letters(self) -> Letters:
        """Where each message is now."""
        with self._lock:
            sent = set(self._sent)
        processed = Counter(map(_number, tuple(self.receiver.bodies[self.name])))
        parked = self._numbers_in("ParkingLot")
        left = self._numbers_in("MainQueue") | self._numbers_in("Dlq")
        for item in self.deployed.waiting():
            lane = item["lane"]["S"].split("|")[1]
            there = parked if lane == PARKED_LANE else left
            there.add(_number(json.loads(item["message"]["B"])["body"]))
        return Letters(
            sent=len(sent),
            processed=len(processed),
            parked=len(parked - processed.keys()),
            left=len(left - parked - processed.keys()),
            twice=sum(times > 1 for times in processed.values()),
            lost=tuple(sorted(sent - processed.keys() - parked - left)),
        )

    def _numbers_in(self, queue: str) -> set[int]:
        return _numbers(message["Body"] for message in self.deployed.held(queue))


def _numbers(bodies: Iterable[str]) -> set[int]:
    return {_number(body) for body in bodies}


def _number(body: str) -> int:
    return int(json.loads(body)["n"])
