"""Cleans up after outages, once a minute."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial

from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitsUnavailable, State
from deadletter.circuit.transitions import Breaker, ExecutionLost, OverrideEnded
from deadletter.outage.executions import ExecutionsUnavailable, OutageExecutions, repairs_for
from deadletter.outage.mapping import ConsumerPause, MappingBusy, MappingUnavailable
from deadletter.signals.figures import Count


@dataclass(frozen=True, slots=True)
class Sweep:
    """What a sweep has found, and why a part of it failed.

    `troubled` are the circuits that need care, as they were before any repair; None if they
    could not be read. A mapping that Lambda is still changing is no failure. `disabled` is the
    consumer's mapping if another than we has disabled it, empty if not, None if it was not read.
    """

    troubled: tuple[Circuit, ...] | None
    failed: tuple[str, ...] = ()
    disabled: str | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reconciler:
    """Restarts lost executions, re-enables mappings, and ends overrides that have expired.

    A mapping is re-enabled by the row of its circuit, or by its tag if the row is lost.

    Without a `consumer_pause` no mapping is touched. It never raises: the next minute tries
    again. `count_metric` counts a metric by its name.
    """

    pipeline: str
    breaker: Breaker
    outages: OutageExecutions
    consumer_pause: ConsumerPause | None
    clock: Callable[[], float]
    count_metric: Callable[[str, int], None]

    def reconcile(self, looks_at_mapping: bool = True) -> Sweep:
        """Clean up, and look at the consumer's mapping if no circuit says that we paused it."""
        try:
            troubled = tuple(self.breaker.troubled())
        except CircuitsUnavailable as error:
            self.count_metric(Count.SWEEP_FAILED, 1)
            return Sweep(None, (_why(error),))
        failed = self._repair(troubled) if troubled else ()
        disabled = None
        if looks_at_mapping and not any(circuit.paused for circuit in troubled):
            disabled, unread = self._recover_mapping()
            failed += unread
        return Sweep(troubled, failed, disabled)

    def _repair(self, troubled: Sequence[Circuit]) -> tuple[str, ...]:
        """Repair what can be repaired; returns why the rest could not."""
        now = self.clock()
        try:
            repairs = repairs_for(self.pipeline, troubled, self.outages.running(), now)
        except ExecutionsUnavailable as error:
            self.count_metric(Count.SWEEP_FAILED, 1)
            return (_why(error),)
        wanted = {
            circuit.paused.mapping
            for circuit in troubled
            if circuit.paused is not None and not circuit.is_closed
        }
        # A mapping that another circuit still wants paused stays so.
        put_back = [
            circuit
            for circuit in repairs.put_back
            if circuit.paused is not None and circuit.paused.mapping not in wanted
        ]
        expired = [circuit for circuit in troubled if _has_expired_override(circuit, now)]
        return self._do(
            [
                *(partial(self._restart, circuit) for circuit in repairs.start),
                *(partial(self._put_back, circuit) for circuit in put_back),
                *(partial(self._end_override, circuit) for circuit in expired),
            ]
        )

    def _recover_mapping(self) -> tuple[str | None, tuple[str, ...]]:
        """Put back a mapping that only its tag remembers.

        Returns the mapping that another has disabled, and why it could not be put back.
        """
        if self.consumer_pause is None:
            return None, ()
        found: list[str] = []
        pause = self.consumer_pause
        failed = self._do([lambda: found.append(pause.recover(self.pipeline))])
        return (found[0] if found else None), failed

    def _do(self, tasks: Sequence[Callable[[], None]]) -> tuple[str, ...]:
        """Do each task; returns why tasks failed."""
        failed: list[str] = []
        for task in tasks:
            try:
                task()
            except MappingBusy:
                self.count_metric(Count.SWEEP_FAILED, 1)
            except (CircuitsUnavailable, ExecutionsUnavailable, MappingUnavailable) as error:
                self.count_metric(Count.SWEEP_FAILED, 1)
                failed.append(_why(error))
        return tuple(failed)

    def _restart(self, circuit: Circuit) -> None:
        lost = ExecutionLost(circuit.generation, circuit.restart)
        result = self.breaker.apply(circuit.key, lost)
        if result.refused is None:
            self.count_metric(Count.OUTAGE_RESTARTED, 1)
            restarted = result.circuit
            self.outages.start(restarted.key, restarted.outage, restarted.restart)

    def _put_back(self, circuit: Circuit) -> None:
        """Resume fully, without the ramp: most of its time has passed without an execution."""
        if self.consumer_pause is not None:
            self.consumer_pause.resume(circuit, RAMP_STEPS)
            self.count_metric(Count.MAPPING_PUT_BACK, 1)

    def _end_override(self, circuit: Circuit) -> None:
        self.breaker.apply(circuit.key, OverrideEnded())


def _has_expired_override(circuit: Circuit, now: float) -> bool:
    """Whether an override held the circuit closed until a time that has passed.

    An override that holds it open is ended by a probe.
    """
    held = circuit.forced is not None and circuit.state is State.CLOSED
    return held and not circuit.unreadable and not circuit.is_forced(now)


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
