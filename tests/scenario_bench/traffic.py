"""The messages of a scenario, the handler that every system runs, and what became of each."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
from random import Random
from typing import Any

from pydantic import BaseModel

from tests.scenario_bench.scenario import LINES, Burst, Scenario

BIG_BODY = 20_000
"""Bytes of a big message, about."""

Call = Callable[[str, Mapping[str, Any]], Any]
"""Calls a dependency for a message; returns its parsed reply."""


@dataclass(frozen=True)
class Sent:
    """One message: when it is sent, its body, and whether it lacks what the handler reads."""

    at: float
    number: int
    body: Mapping[str, Any]
    poison: bool

    @property
    def group(self) -> str:
        return str(self.body["endpoint"])


def messages_of(scenario: Scenario, seed: int) -> list[Sent]:
    """All messages in the order of their sending. The same seed gives the same messages."""
    random = Random(seed)
    times: list[tuple[float, Burst | None]] = [(at, None) for at in _steady(scenario, random)]
    for burst in scenario.bursts:
        count = int((burst.ends - burst.begins) * burst.rate)
        times += [(burst.begins + i / burst.rate, burst) for i in range(count)]
    if scenario.in_hand and scenario.begins is not None:
        times += [(scenario.begins - 0.5, None)] * scenario.in_hand
    messages = []
    for number, (at, burst) in enumerate(sorted(times, key=itemgetter(0))):
        tenant, key = (burst.tenant, burst.key) if burst else ("", "")
        body: dict[str, Any] = {
            "id": number,
            "endpoint": key or f"e{random.randrange(scenario.keys)}",
            "tenant": tenant or f"t{random.randrange(scenario.tenants)}",
            "needs": scenario.needs[number % len(scenario.needs)],
            "customer": f"c{number}",
        }
        poison = random.random() < scenario.poison or (burst is not None and burst.poison)
        if poison:
            del body["customer"]
        if scenario.big and random.random() < scenario.big:
            body[LINES] = "x" * BIG_BODY
        messages.append(Sent(at, number, body, poison))
    return messages


def _steady(scenario: Scenario, random: Random) -> Iterator[float]:
    gap = 1 / scenario.rate
    for number in range(int(scenario.lasts * scenario.rate)):
        at = (number + random.random()) * gap
        if scenario.pause is None or not scenario.pause[0] <= at < scenario.pause[1]:
            yield at


@dataclass
class Book:
    """What became of the messages; times are seconds since the first message."""

    messages: list[Sent]
    effects: Counter[int] = field(default_factory=Counter)
    processed_at: dict[int, float] = field(default_factory=dict)
    failed_at: dict[int, float] = field(default_factory=dict)
    purged: set[int] = field(default_factory=set)

    def failed(self, number: int, now: float) -> None:
        """The handler has failed for a message."""
        self.failed_at.setdefault(number, now)

    def processed(self, number: int, now: float) -> None:
        """The handler has done its work for a message."""
        self.effects[number] += 1
        self.processed_at.setdefault(number, now)


class Order(BaseModel):
    """What a deployment demands of each message all at once: a field that none of them has."""

    currency: str


def handle(
    body: str,
    call: Call,
    book: Book,
    clock: Callable[[], float],
    *,
    is_refused: Callable[[Mapping[str, Any]], bool] = lambda _: False,
) -> None:
    """The business code: reads a field, calls what the message needs, and is done.

    `is_refused` tells the messages that the deployed code refuses.
    """
    message = json.loads(body)
    message["customer"]
    if is_refused(message):
        Order.model_validate(message)
    for dependency in message["needs"]:
        call(dependency, message)
    book.processed(message["id"], clock())
