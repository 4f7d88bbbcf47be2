"""The names of all resources: stable, and short enough for a person to type at 3 a.m."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from deadletter.contract import DEFAULT_PARKING, MAIN_DLQ, pipeline_prefix

# The most characters that EventBridge Scheduler and SQS allow.
LONGEST_SCHEDULE = 64
LONGEST_QUEUE = 80


@dataclass(frozen=True, slots=True)
class Names:
    """The names in one pipeline of one app.

    An id is joined with an underscore, which no pipeline's name contains: so no two
    pipelines share a name.
    """

    app: str
    pipeline: str
    fifo: bool = False

    def function(self, role: str) -> str:
        """The Lambda function that plays `role`: redrive, watch, route, and so on."""
        return f"{self._prefix}{role}"

    def schedule(self, dedicated: str = "") -> str:
        """The schedule that drains the DLQ, or a dedicated one."""
        return f"{self._prefix}{MAIN_DLQ}{_suffix(dedicated)}"

    def too_long(self, dedicated: Iterable[str], parking: Iterable[str]) -> Iterator[str]:
        """Each name with an id in it that its service does not allow, and why."""
        dedicated = tuple(dedicated)
        queues = [*map(self.dlq, dedicated), *map(self.parking, parking)]
        schedules = list(map(self.schedule, dedicated))
        for kind, names, most in (
            ("schedule", schedules, LONGEST_SCHEDULE),
            ("queue", queues, LONGEST_QUEUE),
        ):
            for name in names:
                if len(name) > most:
                    yield f"the name of {kind} {name} has {len(name)} characters; allowed: {most}"

    @property
    def circuit_breaker(self) -> str:
        """The state machine that runs outages."""
        return f"{self._prefix}circuit-breaker"

    @property
    def replay_machine(self) -> str:
        """The state machine that runs replays."""
        return f"{self._prefix}replay"

    @property
    def main(self) -> str:
        """The main queue."""
        return self._queue("main")

    def dlq(self, dedicated: str = "") -> str:
        """The DLQ, or a dedicated one."""
        return self._queue(f"dlq{_suffix(dedicated)}")

    def parking(self, parking: str = DEFAULT_PARKING) -> str:
        """A queue of the parking lot."""
        return self._queue(f"parking{_suffix(parking)}")

    @property
    def _prefix(self) -> str:
        return pipeline_prefix(self.app, self.pipeline)

    def _queue(self, what: str) -> str:
        return f"{self._prefix}{what}{'.fifo' if self.fifo else ''}"


def _suffix(id_: str) -> str:
    return "" if id_ in ("", DEFAULT_PARKING) else f"_{id_}"


# Where a word of PascalCase begins: OrderEvents, SQSOrders.
_WORD = re.compile(r"(?<=[a-z0-9])(?=[A-Z])|(?<=[A-Z])(?=[A-Z][a-z])|[^A-Za-z0-9]+")


def kebab_case(construct_id: str) -> str:
    """The name of a pipeline whose construct has this id: OrderEvents is order-events."""
    return "-".join(word.lower() for word in _WORD.split(construct_id) if word)


def pascal_case(name: str) -> str:
    """A name as it is written in stack ids and outputs: order-events is OrderEvents."""
    return "".join(word.capitalize() for word in name.split("-"))
