"""The steps of an outage beside the canary: announce, pause and resume."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from deadletter.circuit.state import (
    NO_END,
    RAMP_STEPS,
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    Override,
    Permit,
    State,
)
from deadletter.circuit.transitions import (
    CanaryAnswered,
    CanaryVerdict,
    MappingPaused,
    OverrideBegun,
    OverrideEnded,
    PermitTaken,
    Tripped,
)
from deadletter.contract import config_key
from deadletter.outage.mapping import ConsumerMapping
from deadletter.outage.steps import (
    BadExecution,
    CircuitAnnouncer,
    ConsumerSteps,
    Execution,
    Next,
    execution_from_json,
    seconds_to_probe,
)
from tests.each_row import each_row
from tests.outage.breakers import KEY, NOW, Announcements, Circuits
from tests.outage.test_mapping import OneMapping, pause_of

EXECUTION = Execution(KEY, 1, 0)


class Scene:
    """A circuit that has tripped, and the consumer's mapping."""

    def __init__(self, *, admits_a_rate: bool = False, **policy: object) -> None:
        settings = {"successes": 1, "pause_consumer": True, "ramp": 300.0, **policy}
        self.circuits = Circuits(CircuitPolicy(**settings))  # type: ignore[arg-type]
        self.mappings = OneMapping()
        self.announced = Announcements()
        consumer_pause = pause_of(self.circuits, self.mappings)
        self.steps = ConsumerSteps(
            pipeline=KEY,
            policy=self.circuits.policy,
            circuits=self.circuits,
            consumer_pause=consumer_pause,
            announcer=CircuitAnnouncer(
                pipeline=KEY, announcer=self.announced, count_metric=self.circuits.count_metric
            ),
            clock=self.circuits.clock,
            admits_a_rate=admits_a_rate,
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


def test_a_circuit_that_a_person_has_let_go_is_tried_before_the_consumer_is_paused() -> None:
    """If the canary fails, the probe asks for the pause."""
    scene = Scene()
    held = Override(State.OPEN, "ada", "a rollback", NO_END)
    circuit = scene.circuits.apply(KEY, OverrideBegun(held)).circuit
    execution = Execution(KEY, circuit.outage, circuit.restart)
    assert scene.steps.announce(execution).next is Next.PAUSE
    circuit = scene.circuits.apply(KEY, OverrideEnded()).circuit
    execution = replace(execution, restart=circuit.restart)
    step = scene.steps.announce(execution)
    assert (step.next, step.wait_seconds) == (Next.PROBE, 1)


def test_no_probe_pauses_a_consumer_without_the_setting() -> None:
    scene = Scene(pause_consumer=False).trip()
    assert scene.steps.pause(EXECUTION).next is Next.PROBE
    assert scene.mappings.changes == 0


def test_no_consumer_is_paused_without_the_setting() -> None:
    scene = Scene(pause_consumer=False).trip()
    assert scene.steps.take("announce", EXECUTION).next is Next.PROBE


@pytest.mark.parametrize("key", ["endpoint-7", "dependency/bank", config_key(KEY)])
def test_the_outage_of_a_part_is_neither_announced_nor_paused_for(key: str) -> None:
    """A broken configuration pauses nothing: the other messages can be processed."""
    scene = Scene().trip(key)
    execution = Execution(key, 1, 0)
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


@pytest.mark.parametrize(
    ("admits_a_rate", "rate", "limit", "goes"),
    [
        (True, 5.0, 50, Next.CLOSED),
        # Nothing is known to admit, or nobody admits it: the mapping is the ramp.
        (True, 0.0, 10, Next.RESUME),
        (False, 5.0, 10, Next.RESUME),
    ],
)
def test_a_consumer_that_admits_a_rate_gets_its_mapping_back_at_once(
    admits_a_rate: bool, rate: float, limit: int, goes: Next
) -> None:
    scene = Scene(admits_a_rate=admits_a_rate).trip()
    scene.steps.take("pause", EXECUTION)
    scene.close()
    scene.circuits.held[KEY] = replace(scene.circuits.held[KEY], rate=rate)
    assert scene.steps.take("resume", EXECUTION).next is goes
    assert scene.mappings.mapping == ConsumerMapping("m", True, concurrency=limit)
    assert (scene.circuits.held[KEY].paused is None) is (goes is Next.CLOSED)


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


@each_row(
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


@each_row(
    ("wait", "seconds"),
    [(-5.0, 1), (0.0, 1), (1.0, 1), (1.01, 2), (86_399.5, 86_400), (86_400.5, 86_400)],
)
def test_a_wait_is_a_whole_number_of_seconds_from_one_to_a_day(wait: float, seconds: int) -> None:
    step = EXECUTION.step_to(Next.PROBE, Circuit(KEY), wait)
    assert step.wait_seconds == seconds


def test_only_a_further_probe_is_handed_over_after_500() -> None:
    for probes, to, goes in [
        (499, Next.PROBE, Next.PROBE),
        (500, Next.PROBE, Next.HAND_OVER),
        (500, Next.RESUME, Next.RESUME),
    ]:
        assert replace(EXECUTION, probes=probes).step_to(to, Circuit(KEY)).next is goes


@each_row(
    ("permit", "elapsed", "seconds"),
    [
        (None, 0, 2),
        # A prober that invokes the consumer: looked at when its lease is over for every clock.
        (Permit("me", NOW + 100), 0, 111),
        (Permit("me", NOW + 100), 40, 71),
        # A canary in the main queue: as long as it has been under way, from 20 seconds on.
        (Permit("me", NOW + 100, "m", 1, NOW), 0, 20),
        (Permit("me", NOW + 100, "m", 1, NOW), 21, 21),
        (Permit("me", NOW + 100, "m", 1, NOW), 90, 21),
    ],
)
def test_the_wait_for_a_canary_depends_on_how_it_was_sent(
    permit: Permit | None, elapsed: float, seconds: float
) -> None:
    half_open = Circuit(KEY, State.HALF_OPEN, permit=permit)
    assert seconds_to_probe(half_open, NOW + elapsed) == seconds


def test_an_open_circuit_is_probed_when_its_cooldown_is_over() -> None:
    assert seconds_to_probe(Circuit(KEY, State.OPEN, open_until=NOW + 30), NOW) == 30


def test_a_step_is_written_with_the_word_that_the_state_machine_compares() -> None:
    step = replace(EXECUTION, probes=2, empty=1, said="OPEN").step_to(
        Next.HAND_OVER, Circuit(KEY, State.OPEN), 7.0
    )
    assert step.to_json() == {
        "next": "hand over",
        "state": "OPEN",
        "wait_seconds": 7,
        "probes": 2,
        "empty": 1,
        "said": "OPEN",
    }
    assert type(step.to_json()["next"]) is str


def test_an_execution_begins_without_probes_and_unannounced() -> None:
    assert execution_from_json({"key": KEY, "generation": 0, "restart": 0}) == Execution(
        KEY, 0, 0, probes=0, empty=0, said="", pause_failed=False
    )
    assert (EXECUTION.probes, EXECUTION.empty) == (0, 0)


def test_each_step_of_a_ramp_of_300_seconds_lasts_a_minute() -> None:
    scene = Scene().trip()
    scene.steps.take("pause", EXECUTION)
    scene.close()
    waits = []
    for _ in range(RAMP_STEPS):
        step = scene.steps.take("resume", EXECUTION)
        waits.append(step.wait_seconds)
        scene.circuits.now += step.wait_seconds
    assert waits == [60, 60, 60, 60, 1]
    assert scene.circuits.held[KEY].paused is None


def test_a_step_that_comes_late_waits_only_for_the_rest_of_its_time() -> None:
    scene = Scene().trip()
    scene.steps.take("pause", EXECUTION)
    scene.close()
    scene.circuits.now += 70
    step = scene.steps.take("resume", EXECUTION)
    assert (step.next, step.wait_seconds) == (Next.RESUME, 50)
    assert scene.mappings.mapping == ConsumerMapping("m", True, concurrency=20)


def test_a_consumer_that_was_not_paused_needs_no_ramp() -> None:
    scene = Scene().trip()
    scene.close()
    step = scene.steps.take("resume", EXECUTION)
    assert (step.next, step.said) == (Next.CLOSED, "CLOSED")
    assert scene.announced.published == [("", "CLOSED")]
    assert scene.mappings.changes == 0


def test_a_pause_repeated_after_the_circuit_has_closed_pauses_nothing() -> None:
    scene = Scene().trip()
    scene.close()
    assert scene.steps.take("pause", EXECUTION).next is Next.PROBE
    assert scene.mappings.changes == 0


@pytest.mark.parametrize(
    ("execution", "metrics"),
    [
        (Execution(KEY, 1, 0), {"CircuitState": 2, "CircuitOpened": 1}),
        # An outage is counted once, by the first execution that runs it.
        (Execution(KEY, 1, 1), {"CircuitState": 2}),
        (Execution(KEY, 1, 0, said="HALF_OPEN"), {"CircuitState": 2}),
        (Execution(KEY, 1, 0, said="OPEN"), {}),
    ],
)
def test_an_outage_is_counted_once(execution: Execution, metrics: dict[str, int]) -> None:
    counts: Counter[str] = Counter()
    announcer = CircuitAnnouncer(
        pipeline=KEY,
        announcer=Announcements(),
        count_metric=lambda name, number: counts.update({name: number}),
    )
    circuit = Circuit(KEY, State.OPEN)
    assert announcer.announce(execution, circuit) == replace(execution, said="OPEN")
    assert counts == metrics
    closed = Circuit(KEY, State.CLOSED)
    assert announcer.announce(replace(execution, said=""), closed).said == "CLOSED"
    assert counts["CircuitOpened"] == metrics.get("CircuitOpened", 0)
