"""Reads the real clock, ids, randomness and environment for a team's own function.

A team's handler passes none of these in, so this module alone reads them. Nothing is read
before the first event.
"""

from __future__ import annotations

import json
import os
import re
import sys
import time
import uuid
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from inspect import iscoroutine
from random import Random, SystemRandom
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.aws.consumer_clients import consumer_clients, ssm
from deadletter.aws.wiring.consuming import consumer_for, look_up
from deadletter.aws.wiring.world import World
from deadletter.contract import CONSUMER_VARIABLE
from deadletter.failure.failure import version_in
from deadletter.processing.batch import Consumer
from deadletter.processing.crew import Threads
from deadletter.processing.result import BatchResult
from deadletter.settings.json_fields import BadSettings
from deadletter.signals import emf

if TYPE_CHECKING:
    from deadletter.processing.poller import Source


OFF = "off"

_NAMED = re.compile(r"([a-z][a-z0-9-]*)/([a-z][a-z0-9-]*)")


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Runtime:
    """What a process consumes with: `consumer` is None if the library is switched off.

    `write_line` writes one line of output; `app` is the first dimension of its metrics;
    `pending_metrics` are counts of adapters that the next batch reports. `queue_url` is the
    pipeline's main queue, if it is known, and `source` receives from a queue by its URL.
    """

    consumer: Consumer | None
    clock: Callable[[], float]
    write_line: Callable[[str], object]
    app: str
    pending_metrics: Counter[str] = field(default_factory=Counter)
    queue_url: str = ""
    source: Callable[[str], Source] = field(default=lambda url: _source(url))
    random: Random = field(default_factory=SystemRandom)
    emits_metrics: bool = True
    # Several threads may report.
    lock: Any = field(default_factory=Lock, repr=False, compare=False)

    def report(self, result: BatchResult) -> None:
        """Write what became of a batch: one line for each failure, and those of metrics."""
        for entry in result.log_lines():
            self._warn(entry)
        with self.lock:
            pending = dict(self.pending_metrics)
            self.pending_metrics.clear()
        if self.consumer is not None and self.emits_metrics:
            name = self.consumer.pipeline.name
            for line in result.metric_lines(self.app, name, self.clock(), pending):
                self.write_line(line)

    def warn(self, what: str, why: str) -> None:
        """Write one line about a trouble beside the messages; `why` must be redacted."""
        self._warn({"what": what, "why": why})

    def without_metrics(self) -> Runtime:
        """The same, without lines of metrics."""
        consumer = self.consumer
        if consumer is not None:
            consumer = replace(consumer, count_now=lambda _name, _number: None)
        return replace(self, consumer=consumer, emits_metrics=False)

    def _warn(self, entry: Mapping[str, Any]) -> None:
        dimensions = {} if self.consumer is None else {"pipeline": self.consumer.pipeline.name}
        line = {"level": "WARNING", "logger": "deadletter", **dimensions, **entry}
        self.write_line(json.dumps(line))


@cache
def current_runtime() -> Runtime:
    """The runtime of this process, made at its first event.

    Raises BadSettings and NotRegistered.
    """
    runtime = runtime_from(os.environ.get(CONSUMER_VARIABLE))
    if runtime.consumer is None:
        return runtime
    return replace(runtime, consumer=replace(runtime.consumer, version=version_in(os.environ)))


def runtime_from(value: str | None) -> Runtime:
    """The runtime that this value of the environment variable names.

    Raises BadSettings and NotRegistered.
    """
    if value == OFF:
        return Runtime(None, time.time, _write_line, app="")
    named = _NAMED.fullmatch(value or "")
    if named is None:
        problem = "is not set" if value is None else f"is {value!r}"
        raise BadSettings(
            f"the environment variable {CONSUMER_VARIABLE} {problem}; allowed: <app>/<pipeline>, "
            f"such as deadletter/orders, or {OFF}"
        )
    metrics: Counter[str] = Counter()
    lock = Lock()

    def count(name: str, number: int) -> None:
        with lock:
            metrics[name] += number

    pipeline, resources = look_up(ssm(), named[1], named[2])
    world = World(
        clock=time.time, wait=time.sleep, new_id=lambda: uuid.uuid4().hex, random=SystemRandom()
    )
    consumer = consumer_for(
        pipeline,
        resources,
        consumer_clients(),
        world,
        count_metric=count,
        count_now=lambda name, number: _write_line(
            emf.line({name: number}, app=named[1], pipeline=pipeline.name, at=time.time())
        ),
        crew=Threads(time.time),
    )
    return Runtime(
        consumer,
        time.time,
        _write_line,
        named[1],
        metrics,
        queue_url=resources.main_url,
        lock=lock,
    )


def _source(url: str) -> Source:
    # For consumers that poll; a Lambda function does not.
    from deadletter.aws.consumer_clients import polling
    from deadletter.aws.queue import SqsMessages, arn_of

    client = consumer_clients().sqs
    return SqsMessages(client, polling(), url, arn_of(client, url))


def _write_line(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    # A container's output is buffered, and a killed process writes nothing more.
    sys.stdout.flush()


def finished(
    each: Callable[[Any], object], seconds_left: Callable[[], float | None]
) -> Callable[[Any], object]:
    """A plain function that does all the work of `each`.

    `seconds_left` is how long an async handler may take from now on; None for no limit. Raises
    what `each` raises, and OutOfTime if an async handler was cancelled.
    """

    def call(record: Any) -> object:
        result = each(record)
        if not iscoroutine(result):
            return result
        # Loaded with the first async handler: asyncio takes long to load.
        from deadletter.consumer.async_handlers import LOOP

        seconds = seconds_left()
        return LOOP.run(result, None if seconds is None else max(0.0, seconds))

    return call
