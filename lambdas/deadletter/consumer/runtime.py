"""Where the real clock, ids, randomness and environment come into a function of yours.

This library lives in other people's functions: nobody there hands these in, so they come in
here, and nowhere else. Nothing is read before the first event.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache
from random import SystemRandom

from deadletter.aws.clients import consumer_clients, ssm
from deadletter.aws.registration import look_up
from deadletter.aws.wiring.consume import consumer_for
from deadletter.aws.wiring.world import World
from deadletter.consumer import emf
from deadletter.contract import CONSUMER_VARIABLE
from deadletter.processing.batch import Consumer
from deadletter.processing.result import BatchResult
from deadletter.settings.json_fields import BadSettings

OFF = "off"

_NAMED = re.compile(r"([a-z][a-z0-9-]*)/([a-z][a-z0-9-]*)")


@dataclass(frozen=True, slots=True)
class Kit:
    """What a process consumes with: `consumer` is None where all of it is switched off.

    `told` is what was counted on the way and not said yet; `say` writes one line.
    """

    consumer: Consumer | None
    clock: Callable[[], float]
    say: Callable[[str], object]
    told: Counter[str] = field(default_factory=Counter)

    def tell(self, handled: BatchResult) -> None:
        """Say what became of a batch: one line for each failure, and one of metrics."""
        about = {} if self.consumer is None else {"pipeline": self.consumer.pipeline.name}
        for one in handled.log_lines():
            self.say(json.dumps({"level": "WARNING", "logger": "deadletter", **about, **one}))
        counts = dict(self.told + Counter(handled.counts))
        self.told.clear()
        if self.consumer is not None and counts:
            self.say(emf.line(counts, pipeline=self.consumer.pipeline.name, at=self.clock()))


@cache
def kit() -> Kit:
    """This process's kit, made at its first event; raises BadSettings and NotRegistered."""
    return kit_from(os.environ.get(CONSUMER_VARIABLE))


def kit_from(value: str | None) -> Kit:
    """The kit that the variable names."""
    if value == OFF:
        return Kit(None, time.time, _say)
    named = _NAMED.fullmatch(value or "")
    if named is None:
        said = "is not set" if value is None else f"is {value!r}"
        raise BadSettings(
            f"the environment variable {CONSUMER_VARIABLE} {said}; allowed: <app>/<pipeline>, "
            f"such as deadletter/orders, or {OFF}"
        )
    told: Counter[str] = Counter()
    pipeline, resources = look_up(ssm(), named[1], named[2])
    world = World(
        clock=time.time, wait=time.sleep, new_id=lambda: uuid.uuid4().hex, random=SystemRandom()
    )
    consumer = consumer_for(
        pipeline,
        resources,
        consumer_clients(),
        world,
        count_metric=lambda figure, number: told.update({figure: number}),
    )
    return Kit(consumer, time.time, _say, told)


def _say(line: str) -> None:
    sys.stdout.write(f"{line}\n")
