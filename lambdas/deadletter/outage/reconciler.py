"""Sees to what outages left lying about, once in each redrive run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from deadletter.circuit.state import RAMP_STEPS, Circuit, CircuitsUnavailable, State
from deadletter.circuit.transitions import Breaker, ExecutionLost, OverrideEnded
from deadletter.contract import Metric
from deadletter.outage.event_source import ConsumerPause, MappingBusy, MappingUnavailable
from deadletter.outage.executions import ExecutionsUnavailable, OutageExecutions, repairs_for

RESTARTED = Metric.OUTAGE_RESTARTED
PUT_BACK = Metric.MAPPING_PUT_BACK
FAILED = Metric.SWEEP_FAILED


class Reconciler:
    """Starts outages that nobody runs again, and puts back mappings that nobody will.

    Without a `consumer_pause` no mapping is ours. It never raises: the next run sweeps again.
    `count_metric` counts a metric by its name.
    """

    def __init__(
        self,
        *,
        pipeline: str,
        breaker: Breaker,
        outages: OutageExecutions,
        consumer_pause: ConsumerPause | None,
        clock: Callable[[], float],
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._pipeline = pipeline
        self._breaker = breaker
        self._outages = outages
        self._consumer_pause = consumer_pause
        self._clock = clock
        self._count_metric = count_metric

    def reconcile(self) -> int | None:
        """Clean up; returns how many circuits of single keys are not closed.

        None if the circuits could not be read.
        """
        try:
            troubled = self._breaker.troubled()
        except CircuitsUnavailable:
            self._count_metric(FAILED, 1)
            return None
        if troubled:
            self._see_to(troubled)
        others = [one for one in troubled if one.key != self._pipeline]
        return sum(not one.is_closed for one in others)

    def _see_to(self, troubled: Sequence[Circuit]) -> None:
        now = self._clock()
        try:
            found = repairs_for(self._pipeline, troubled, self._outages.running(), now)
        except ExecutionsUnavailable:
            self._count_metric(FAILED, 1)
            return
        ended = [one for one in troubled if _word_is_over(one, now)]
        works: list[tuple[Callable[[Circuit], None], Circuit]] = [
            *((self._start, one) for one in found.start),
            *((self._put_back, one) for one in found.put_back),
            *((self._release, one) for one in ended),
        ]
        for work, circuit in works:
            try:
                work(circuit)
            except (CircuitsUnavailable, ExecutionsUnavailable, MappingUnavailable, MappingBusy):
                self._count_metric(FAILED, 1)

    def _start(self, circuit: Circuit) -> None:
        lost = ExecutionLost(circuit.generation, circuit.restart)
        moved = self._breaker.apply(circuit.key, lost)
        if moved.refused is None:
            self._count_metric(RESTARTED, 1)
            now = moved.circuit
            self._outages.start(now.key, now.outage, now.restart)

    def _put_back(self, circuit: Circuit) -> None:
        """At once and not in steps: the ramp's time has mostly gone while nobody was there."""
        if self._consumer_pause is not None:
            self._consumer_pause.resume(circuit, RAMP_STEPS)
            self._count_metric(PUT_BACK, 1)

    def _release(self, circuit: Circuit) -> None:
        self._breaker.apply(circuit.key, OverrideEnded())


def _word_is_over(circuit: Circuit, now: float) -> bool:
    """Whether a person kept it closed until a time that has passed; an open one is probed."""
    held = circuit.forced is not None and circuit.state is State.CLOSED
    return held and not circuit.unreadable and not circuit.is_forced(now)
