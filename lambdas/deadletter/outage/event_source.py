"""The event source mapping that feeds a consumer from the main queue."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from deadletter.circuit.state import RAMP_STEPS, Circuit, Pause
from deadletter.circuit.transitions import Breaker, MappingPaused, MappingPutBack
from deadletter.contract import Metric

LEAST_CONCURRENCY = 2
"""The lowest limit that Lambda accepts for a mapping of SQS."""

NOTHING_TO_PAUSE = Metric.NOTHING_TO_PAUSE


class MappingUnavailable(Exception):
    """Lambda gave no answer about the mapping, or refused to change it."""


class MappingBusy(Exception):
    """The mapping is still changing, and cannot be changed meanwhile: try again later."""


@dataclass(frozen=True, slots=True)
class ConsumerMapping:
    """A mapping as Lambda describes it.

    `enabled` is its state, or the state it is `changing` to; `concurrency` is its own limit
    (2 to 1,000; None: no limit).
    """

    id: str
    enabled: bool
    changing: bool = False
    concurrency: int | None = None


class Mappings(Protocol):
    """Finds and changes the consumer's mapping; raises MappingUnavailable."""

    def find(self) -> ConsumerMapping | None:
        """The mapping from the main queue to the consumer; None if there is none."""

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, concurrency: int | None
    ) -> ConsumerMapping:
        """Change the mapping; `enabled` None leaves it enabled or disabled. Returns the mapping.

        Raises MappingBusy if another change of it is under way.
        """


def low_concurrency(own: int | None, step: int) -> int | None:
    """The mapping's limit at a step of the ramp (1 to RAMP_STEPS); `own` is its own limit.

    Without an own limit it starts with the lowest and doubles with each step.
    """
    if step >= RAMP_STEPS:
        return own
    if own is None:
        return LEAST_CONCURRENCY << (step - 1)
    return max(LEAST_CONCURRENCY, own * step // RAMP_STEPS)


def is_as_paused(mapping: ConsumerMapping, pause: Pause) -> bool:
    """Whether the mapping is as we left it when we paused it.

    The first step of the ramp sets another limit, so a disabled mapping with that limit was
    disabled by somebody else since. (With a limit of 2 no step is lower.)
    """
    return not mapping.enabled and mapping.concurrency == pause.concurrency


class ConsumerPause:
    """Pauses and resumes the consumer's mapping; its former state is kept in the circuit.

    `count_metric` counts a metric by its name.
    """

    def __init__(
        self, *, breaker: Breaker, mappings: Mappings, count_metric: Callable[[str, int], None]
    ) -> None:
        self._breaker = breaker
        self._mappings = mappings
        self._count_metric = count_metric

    def pause(self, circuit: Circuit) -> Circuit:
        """Disable the mapping unless it is already disabled. Returns the updated circuit.

        Raises MappingBusy until the mapping is disabled, MappingUnavailable and
        CircuitsUnavailable.
        """
        mapping = self._mappings.find()
        if mapping is None:
            self._count_metric(NOTHING_TO_PAUSE, 1)
            return circuit
        if circuit.paused is None:
            if not mapping.enabled:
                # Disabled by somebody else, who will enable it: we must not.
                return circuit
            if mapping.changing:
                raise MappingBusy(mapping.id)
            paused = MappingPaused(mapping.id, mapping.concurrency)
            circuit = self._breaker.apply(circuit.key, paused).circuit
        # The circuit may have closed, or the mapping may have been replaced.
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
        """Enable the mapping with the limit of a step of the ramp. Returns the updated circuit.

        The last step restores the mapping's own limit, and clears the pause in the circuit.
        A step may be repeated. Raises the errors of `pause`.
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
