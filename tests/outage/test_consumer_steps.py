"""The steps of an outage beside the canary: announce, pause and resume."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.circuit.state import (
    NO_END,
    RAMP_STEPS,
    CircuitPolicy,
    CircuitsUnavailable,
    Override,
    State,
)
from deadletter.circuit.transitions import (
    CanaryAnswered,
    CanaryVerdict,
    MappingPaused,
    OverrideBegun,
    PermitTaken,
    Tripped,
)
from deadletter.outage.consumer_steps import ConsumerSteps
from deadletter.outage.event_source import ConsumerMapping, ConsumerPause
from deadletter.outage.execution_step import (
    BadExecution,
    CircuitAnnouncer,
    Execution,
    Next,
    execution_from_json,
)
from tests.outage.breakers import KEY, NOW, Announcements, Circuits
from tests.outage.test_event_source import OneMapping

EXECUTION = Execution(KEY, 1, 0)


class Scene:
    """A circuit that has tripped, and the consumer's mapping."""

    def __init__(self, **policy: object) -> None:
        settings = {"successes": 1, "pause_consumer": True, "ramp": 300.0, **policy}
        self.circuits = Circuits(CircuitPolicy(**settings))  # type: ignore[arg-type]
        self.mappings = OneMapping()
        self.announced = Announcements()
        consumer_pause = ConsumerPause(
            breaker=self.circuits, mappings=self.mappings, count_metric=self.circuits.count_metric
        )
        self.steps = ConsumerSteps(
            pipeline=KEY,
            policy=self.circuits.policy,
            circuits=self.circuits,
            consumer_pause=consumer_pause,
            announcer=CircuitAnnouncer(
                pipeline=KEY, announcer=self.announced, count_metric=self.circuits.count_metric
            ),
            clock=self.circuits.clock,
        )

    def trip(self, key: str = KEY) -> Scene:
        self.circuits.apply(key, Tripped())
        return self

    def close(self) -> None:
        self.circuits.now = self.circuits.held[KEY].open_until
        half_open = self.circuits.apply(KEY, PermitTaken("me")).circuit
        self.circuits.apply(KEY, CanaryAnswered(half_open.generation, "me", CanaryVerdict.SUCCESS))


def test_an_outage_is_announced_and_then_the_consumer_is_paused() -> None:
    scene = Scene().trip()
    step = scene.steps.take("announce", EXECUTION)
    assert (step.next, step.said) == (Next.PAUSE, "OPEN")
    assert step.wait_seconds == pytest.approx(scene.circuits.held[KEY].open_until - NOW, abs=1)
    assert scene.announced.published == [("", "OPEN")]
    assert scene.circuits.metrics == {"CircuitState": 2, "CircuitOpened": 1}
    paused = scene.steps.take("pause", EXECUTION)
    assert paused.next is Next.PROBE
    assert scene.mappings.mapping == ConsumerMapping("m", False, concurrency=50)


def test_a_repeated_step_announces_nothing() -> None:
    scene = Scene().trip()
    step = scene.steps.take("announce", EXECUTION)
    scene.steps.take("announce", replace(EXECUTION, said=step.said))
    assert len(scene.announced.published) == 1


def test_no_consumer_is_paused_without_the_setting() -> None:
    scene = Scene(pause_consumer=False).trip()
    assert scene.steps.take("announce", EXECUTION).next is Next.PROBE


def test_the_outage_of_a_single_key_is_neither_announced_nor_paused_for() -> None:
    scene = Scene().trip("endpoint-7")
    execution = Execution("endpoint-7", 1, 0)
    assert scene.steps.take("announce", execution).next is Next.PROBE
    scene.steps.take("pause", execution)
    assert scene.announced.published == []
    assert scene.mappings.changes == 0


@pytest.mark.parametrize("step", ["announce", "resume"])
def test_an_outage_of_another_execution_is_handed_over(step: str) -> None:
    scene = Scene().trip()
    other = replace(EXECUTION, restart=1)
    assert scene.steps.take(step, other).next is Next.HAND_OVER
    assert scene.announced.published == []


def test_a_pause_by_an_outdated_execution_changes_nothing() -> None:
    scene = Scene().trip()
    scene.steps.take("pause", replace(EXECUTION, restart=1))
    assert scene.mappings.changes == 0


def test_a_circuit_that_closed_early_goes_straight_to_resume() -> None:
    scene = Scene().trip()
    scene.close()
    assert scene.steps.take("announce", EXECUTION).next is Next.RESUME
    assert scene.steps.take("resume", EXECUTION).next is Next.CLOSED


def test_the_consumer_resumes_in_at_most_five_steps() -> None:
    scene = Scene().trip()
    scene.steps.take("pause", EXECUTION)
    scene.close()
    limits = []
    for _ in range(RAMP_STEPS):
        step = scene.steps.take("resume", EXECUTION)
        assert scene.mappings.mapping is not None
        limits.append(scene.mappings.mapping.concurrency)
        scene.circuits.now += step.wait_seconds
    assert step.next is Next.CLOSED
    assert limits == [10, 20, 30, 40, 50]


def test_a_circuit_held_closed_without_an_end_brings_the_consumer_back_in_steps() -> None:
    scene = Scene().trip()
    scene.steps.take("pause", EXECUTION)
    override = Override(State.CLOSED, "ada", "false alarm", NO_END)
    circuit = scene.circuits.apply(KEY, OverrideBegun(override)).circuit
    execution = replace(EXECUTION, restart=circuit.restart)
    steps = []
    for _ in range(RAMP_STEPS):
        steps.append(scene.steps.take("resume", execution))
        scene.circuits.now += steps[-1].wait_seconds
    assert [step.next for step in steps] == [Next.RESUME] * (RAMP_STEPS - 1) + [Next.CLOSED]
    assert scene.mappings.mapping == ConsumerMapping("m", True, concurrency=50)
    assert scene.circuits.held[KEY].is_forced(scene.circuits.now)


def test_a_consumer_stays_paused_while_a_circuit_is_held_open_without_an_end() -> None:
    scene = Scene().trip()
    override = Override(State.OPEN, "ada", "until I say so", NO_END)
    circuit = scene.circuits.apply(KEY, OverrideBegun(override)).circuit
    execution = replace(EXECUTION, restart=circuit.restart)
    assert scene.steps.take("announce", execution).next is Next.PAUSE
    scene.steps.take("pause", execution)
    scene.circuits.now += 100 * 86_400
    assert scene.steps.take("resume", execution).next is Next.HAND_OVER
    assert scene.mappings.mapping == ConsumerMapping("m", False, concurrency=50)


def test_a_ramp_of_zero_seconds_resumes_at_once() -> None:
    scene = Scene(ramp=0.0).trip()
    scene.steps.take("pause", EXECUTION)
    scene.close()
    assert scene.steps.take("resume", EXECUTION).next is Next.CLOSED
    assert scene.mappings.mapping == ConsumerMapping("m", True, concurrency=50)


def test_an_outage_that_begins_during_the_ramp_is_handed_over() -> None:
    scene = Scene().trip()
    scene.circuits.apply(KEY, MappingPaused("m", 50))
    scene.close()
    scene.trip()
    assert scene.circuits.held[KEY].state is State.OPEN
    assert scene.steps.take("resume", EXECUTION).next is Next.HAND_OVER
    scene.close()
    assert scene.steps.take("resume", EXECUTION).next is Next.HAND_OVER


def test_an_unavailable_store_is_an_error_that_the_state_machine_retries() -> None:
    scene = Scene().trip()
    scene.circuits.down = 1
    with pytest.raises(CircuitsUnavailable):
        scene.steps.take("announce", EXECUTION)


def test_an_unknown_step_is_refused() -> None:
    with pytest.raises(BadExecution, match="unknown step 'fly'; known are announce, pause, resume"):
        Scene().steps.take("fly", EXECUTION)


def test_an_execution_is_read_from_the_states_input() -> None:
    data = {"pipeline": KEY, "key": KEY, "generation": 3, "restart": 1}
    assert execution_from_json(data) == Execution(KEY, 3, 1)
    step = {"probes": 4, "empty": 1, "said": "OPEN", "next": "probe", "pause_failed": {}}
    assert execution_from_json({**data, "circuit": step}) == Execution(
        KEY, 3, 1, probes=4, empty=1, said="OPEN", pause_failed=True
    )


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"key": 7}, "key must be text"),
        ({"generation": -1}, "generation must be a whole number, at least 0"),
        ({"generation": True}, "generation must be a whole number, at least 0"),
        ({"restart": "1"}, "restart must be a whole number, at least 0"),
        ({"circuit": []}, "circuit must be an object"),
        ({"circuit": {"probes": 1.5}}, "probes must be a whole number, at least 0"),
    ],
)
def test_an_execution_with_a_bad_field_is_refused(change: dict[str, object], why: str) -> None:
    with pytest.raises(BadExecution, match=why):
        execution_from_json({"key": KEY, "generation": 1, "restart": 0, **change})
