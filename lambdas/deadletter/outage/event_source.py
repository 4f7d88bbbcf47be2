"""The event source mapping that feeds a consumer from the main queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from deadletter.circuit.state import RAMP_STEPS, Circuit, Pause
from deadletter.circuit.transitions import Breaker, MappingPaused, MappingPutBack
from deadletter.contract import Metric

LEAST_CONCURRENCY = 2
"""Lambda takes no lower limit for a mapping of SQS."""

NOTHING_TO_PAUSE = Metric.NOTHING_TO_PAUSE


class MappingUnavailable(Exception):
    """Lambda gave no answer about the mapping, or refused to change it."""


class MappingBusy(Exception):
    """The mapping is still changing, and can't be changed meanwhile: ask again in a while."""


@dataclass(frozen=True, slots=True)
class ConsumerMapping:
    """A mapping as Lambda describes it.

    `enabled` is what it is, or is becoming if it is `changing`; `concurrency` is its own
    limit (2 to 1,000; None: it has none).
    """

    id: str
    enabled: bool
    changing: bool = False
    concurrency: int | None = None


class Mappings(Protocol):
    """Where the consumer's mapping is found and changed; raises MappingUnavailable."""

    def find(self) -> ConsumerMapping | None:
        """The mapping from the main queue to the consumer, if there is one."""

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, concurrency: int | None
    ) -> ConsumerMapping:
        """The mapping after the change; with `enabled` None it stays as it is in that.

        Raises MappingBusy if another change of it is under way.
        """


def low_concurrency(own: int | None, step: int) -> int | None:
    """The limit at a step of the ramp (1 to RAMP_STEPS), given the mapping's own limit.

    A mapping without a limit of its own doubles with each step, from the lowest.
    """
    if step >= RAMP_STEPS:
        return own
    if own is None:
        return LEAST_CONCURRENCY << (step - 1)
    return max(LEAST_CONCURRENCY, own * step // RAMP_STEPS)


def is_as_paused(mapping: ConsumerMapping, pause: Pause) -> bool:
    """Whether the mapping is as we left it when we paused it.

    With the first step back it gets another limit: one that is disabled with that was
    disabled by somebody else since. (Of a limit of 2 no step is lower.)
    """
    return not mapping.enabled and mapping.concurrency == pause.concurrency


class ConsumerPause:
    """Pauses and resumes the consumer's mapping; what it was stands in the circuit meanwhile.

    `count_metric` counts a metric by its name.
    """

    def __init__(
        self, *, breaker: Breaker, mappings: Mappings, count_metric: Callable[[str, int], None]
    ) -> None:
        self._breaker = breaker
        self._mappings = mappings
        self._count_metric = count_metric

    def pause(self, circuit: Circuit) -> Circuit:
        """Disable the mapping, unless somebody else has; the circuit as it is then.

        Raises MappingBusy until Lambda has done it, MappingUnavailable and
        CircuitsUnavailable.
        """
        mapping = self._mappings.find()
        if mapping is None:
            self._count_metric(NOTHING_TO_PAUSE, 1)
            return circuit
        if circuit.paused is None:
            if not mapping.enabled:
                # Whoever disabled it will enable it: it is not ours to put back.
                return circuit
            if mapping.changing:
                raise MappingBusy(mapping.id)
            moved = self._breaker.apply(circuit.key, MappingPaused(mapping.id, mapping.concurrency))
            circuit = moved.circuit
        # The circuit may have closed, or the mapping may be another one by now.
        if circuit.paused is None or circuit.paused.mapping != mapping.id:
            return circuit
        if mapping.enabled:
            mapping = self._mappings.change(
                mapping, enabled=False, concurrency=circuit.paused.concurrency
            )
        if mapping.changing:
            raise MappingBusy(mapping.id)
        return circuit

    def resume(self, circuit: Circuit, step: int) -> Circuit:
        """Bring the mapping back to a step of the ramp; at the last nothing of ours is left.

        Doing a step twice is doing it once. Raises as `pause` does.
        """
        pause = circuit.paused
        if pause is None:
            return circuit
        mapping = self._mappings.find()
        if mapping is not None and mapping.id == pause.mapping:
            wanted = low_concurrency(pause.concurrency, step)
            enable = True if is_as_paused(mapping, pause) else None
            if enable or mapping.concurrency != wanted:
                if mapping.changing:
                    raise MappingBusy(mapping.id)
                self._mappings.change(mapping, enabled=enable, concurrency=wanted)
        if step < RAMP_STEPS:
            return circuit
        return self._breaker.apply(circuit.key, MappingPutBack(pause.mapping)).circuit
