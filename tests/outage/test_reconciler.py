"""Each run cleans up after outages, and leaves everything else alone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from deadletter.circuit.state import NO_END, Circuit, CircuitPolicy, Override, Pause, State
from deadletter.circuit.transitions import (
    CanaryAnswered,
    CanaryVerdict,
    MappingPaused,
    OverrideBegun,
    PermitTaken,
    Tripped,
)
from deadletter.outage.executions import START_SECONDS, ExecutionsUnavailable, execution_name
from deadletter.outage.mapping import ConsumerMapping, MappingUnavailable
from deadletter.outage.reconciler import Reconciler, Sweep
from tests.outage.breakers import KEY, Circuits
from tests.outage.test_mapping import OneMapping, pause_of


@dataclass
class Executions:
    """The executions that were started, and the names of those that run."""

    started: list[tuple[str, int, int]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)
    down: bool = False

    def start(self, key: str, generation: int, restart: int) -> None:
        self.started.append((key, generation, restart))

    def running(self) -> set[str]:
        if self.down:
            raise ExecutionsUnavailable("down")
        return self.names


class Scene:
    """Circuits, executions and a mapping, with their reconciler."""

    def __init__(self) -> None:
        self.circuits = Circuits(CircuitPolicy(successes=1))
        self.executions = Executions()
        self.mappings = OneMapping()
        self.reconciler = Reconciler(
            pipeline=KEY,
            breaker=self.circuits,
            outages=self.executions,
            consumer_pause=pause_of(self.circuits, self.mappings),
            clock=self.circuits.clock,
            count_metric=self.circuits.count_metric,
        )

    def trip(self, key: str = KEY) -> Circuit:
        return self.circuits.apply(key, Tripped()).circuit

    def leave_paused(self) -> None:
        """Close the circuit and lose the execution that would have put the mapping back."""
        self.trip()
        self.circuits.apply(KEY, MappingPaused("m", 50))
        self.mappings.mapping = ConsumerMapping("m", False, concurrency=50)
        self.circuits.now = self.circuits.held[KEY].open_until + START_SECONDS
        half_open = self.circuits.apply(KEY, PermitTaken("me")).circuit
        self.circuits.apply(KEY, CanaryAnswered(half_open.generation, "me", CanaryVerdict.SUCCESS))


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_executions_are_not_listed_while_all_circuits_are_closed(scene: Scene) -> None:
    scene.executions.down = True
    assert scene.reconciler.reconcile() == Sweep(())
    assert scene.circuits.metrics == {}


def test_an_outage_without_an_execution_is_restarted_under_its_next_number(scene: Scene) -> None:
    opened = scene.trip()
    scene.reconciler.reconcile()
    assert scene.executions.started == []
    scene.circuits.now += START_SECONDS
    scene.reconciler.reconcile()
    assert scene.executions.started == [(KEY, opened.outage, 1)]
    assert scene.circuits.metrics["OutageRestarted"] == 1
    scene.reconciler.reconcile()
    assert len(scene.executions.started) == 1


def test_an_outage_with_a_running_execution_is_left_alone(scene: Scene) -> None:
    opened = scene.trip()
    scene.executions.names = {execution_name(KEY, KEY, opened.outage, 0)}
    scene.circuits.now += START_SECONDS
    scene.reconciler.reconcile()
    assert scene.executions.started == []


def test_an_outage_whose_circuit_has_changed_is_not_restarted(scene: Scene) -> None:
    scene.trip()
    scene.circuits.now += START_SECONDS
    stale = scene.circuits.troubled()
    scene.circuits.apply(KEY, PermitTaken("me"))
    scene.circuits.troubled = lambda: stale  # type: ignore[method-assign]
    scene.reconciler.reconcile()
    assert scene.executions.started == []


def test_a_mapping_that_was_left_paused_is_put_back(scene: Scene) -> None:
    scene.leave_paused()
    scene.reconciler.reconcile()
    assert scene.mappings.mapping == ConsumerMapping("m", True, concurrency=50)
    assert scene.circuits.held[KEY].paused is None


def test_a_mapping_that_lambda_is_still_changing_is_left_to_the_next_run(scene: Scene) -> None:
    scene.leave_paused()
    scene.mappings.slow = 1
    assert scene.reconciler.reconcile().failed == ()
    assert scene.circuits.held[KEY].paused is not None
    assert scene.circuits.metrics["SweepFailed"] == 1
    scene.reconciler.reconcile()
    assert scene.circuits.held[KEY].paused is None


def test_one_failed_repair_does_not_stop_the_others(scene: Scene) -> None:
    scene.leave_paused()

    def unavailable() -> ConsumerMapping | None:
        raise MappingUnavailable("AccessDenied")

    scene.mappings.find = unavailable  # type: ignore[method-assign]
    scene.trip("endpoint-7")
    scene.circuits.now += START_SECONDS
    assert scene.reconciler.reconcile().failed == ("AccessDenied",)
    assert [key for key, _, _ in scene.executions.started] == ["endpoint-7"]
    assert scene.circuits.metrics["SweepFailed"] == 1


def test_an_expired_override_is_ended(scene: Scene) -> None:
    override = Override(State.CLOSED, "ada", "it is fine", scene.circuits.now + 60)
    scene.circuits.apply(KEY, OverrideBegun(override))
    scene.reconciler.reconcile()
    assert scene.circuits.held[KEY].is_forced(scene.circuits.now)
    scene.circuits.now += 61
    scene.reconciler.reconcile()
    assert scene.circuits.held[KEY].forced is None


@pytest.mark.parametrize("state", [State.OPEN, State.CLOSED])
def test_an_override_without_an_end_is_never_ended(scene: Scene, state: State) -> None:
    override = Override(state, "ada", "until I say so", NO_END)
    scene.circuits.apply(KEY, OverrideBegun(override))
    scene.circuits.now += 10 * 365 * 86_400
    scene.reconciler.reconcile()
    assert scene.circuits.held[KEY].state is state
    assert scene.circuits.held[KEY].is_forced(scene.circuits.now)


def test_unreadable_circuits_are_not_counted_as_closed(scene: Scene) -> None:
    scene.circuits.down = 1
    assert scene.reconciler.reconcile() == Sweep(None, ("down",))
    assert scene.circuits.metrics["SweepFailed"] == 1


def test_nothing_is_restarted_if_executions_cannot_be_listed(scene: Scene) -> None:
    scene.trip()
    scene.circuits.now += START_SECONDS
    scene.executions.down = True
    assert scene.reconciler.reconcile().failed == ("down",)
    assert scene.executions.started == []
    assert scene.circuits.metrics["SweepFailed"] == 1


def test_a_mapping_that_is_put_back_is_counted_once(scene: Scene) -> None:
    scene.leave_paused()
    scene.reconciler.reconcile()
    scene.reconciler.reconcile()
    assert scene.circuits.metrics == {"MappingPutBack": 1}


def test_a_pipeline_that_pauses_no_consumer_puts_none_back(scene: Scene) -> None:
    scene.leave_paused()
    reconciler = Reconciler(
        pipeline=KEY,
        breaker=scene.circuits,
        outages=scene.executions,
        consumer_pause=None,
        clock=scene.circuits.clock,
        count_metric=scene.circuits.count_metric,
    )
    assert reconciler.reconcile().failed == ()
    assert scene.circuits.metrics == {}
    assert scene.mappings.mapping == ConsumerMapping("m", False, concurrency=50)


def test_a_sweep_shows_the_circuits_as_they_were_before_any_repair(scene: Scene) -> None:
    opened = scene.trip()
    scene.circuits.now += START_SECONDS
    assert scene.reconciler.reconcile() == Sweep((opened,))


def test_an_override_that_holds_a_circuit_open_is_left_to_its_probe(scene: Scene) -> None:
    override = Override(State.OPEN, "ada", "looks odd", scene.circuits.now + 60)
    held = scene.circuits.apply(KEY, OverrideBegun(override)).circuit
    scene.executions.names = {execution_name(KEY, KEY, held.outage, held.restart)}
    scene.circuits.now += 61
    scene.reconciler.reconcile()
    assert scene.circuits.held[KEY].forced is not None


def test_an_unreadable_circuit_is_not_touched(scene: Scene) -> None:
    override = Override(State.CLOSED, "ada", "it is fine", scene.circuits.now - 1)
    broken = Circuit(KEY, State.CLOSED, forced=override, unreadable=True)
    scene.circuits.held[KEY] = broken
    assert scene.reconciler.reconcile() == Sweep((broken,))
    assert scene.circuits.held[KEY] == broken


def test_a_failure_without_words_is_named_by_its_kind(scene: Scene) -> None:
    scene.leave_paused()

    def unavailable() -> ConsumerMapping | None:
        raise MappingUnavailable

    scene.mappings.find = unavailable  # type: ignore[method-assign]
    assert scene.reconciler.reconcile().failed == ("MappingUnavailable",)


def test_each_failed_repair_is_counted_and_the_next_one_done(scene: Scene) -> None:
    for key in ("a", "b"):
        scene.trip(key)
    scene.circuits.now += START_SECONDS

    def failing(key: str, generation: int, restart: int) -> None:
        scene.executions.started.append((key, generation, restart))
        raise ExecutionsUnavailable(key)

    scene.executions.start = failing  # type: ignore[method-assign]
    assert scene.reconciler.reconcile().failed == ("a", "b")
    assert len(scene.executions.started) == 2
    assert scene.circuits.metrics["SweepFailed"] == 2


def test_a_store_that_fails_in_a_repair_is_counted(scene: Scene) -> None:
    scene.trip("a")
    scene.circuits.now += START_SECONDS
    stale = scene.circuits.troubled()

    def then_down() -> list[Circuit]:
        scene.circuits.down = 1
        return list(stale)

    scene.circuits.troubled = then_down  # type: ignore[method-assign]
    assert scene.reconciler.reconcile().failed == ("down",)
    assert scene.executions.started == []
    assert scene.circuits.metrics == {"SweepFailed": 1}


def test_a_consumer_whose_row_was_deleted_while_it_was_paused_is_back_after_one_sweep(
    scene: Scene,
) -> None:
    scene.mappings.clock = scene.circuits.clock
    pause_of(scene.circuits, scene.mappings).pause(scene.trip())
    del scene.circuits.held[KEY]
    scene.reconciler.reconcile()
    assert scene.mappings.mapping is not None
    assert scene.mappings.mapping.enabled
    assert scene.circuits.metrics == {"MappingPutBack": 1}


def test_a_mapping_that_cannot_be_looked_at_is_a_failed_sweep(scene: Scene) -> None:
    def unavailable() -> ConsumerMapping | None:
        raise MappingUnavailable("AccessDenied")

    scene.mappings.find = unavailable  # type: ignore[method-assign]
    assert scene.reconciler.reconcile() == Sweep((), ("AccessDenied",))
    assert scene.circuits.metrics == {"SweepFailed": 1}


def test_a_pause_that_a_row_remembers_costs_no_look_at_the_mapping(scene: Scene) -> None:
    opened = scene.trip()
    pause_of(scene.circuits, scene.mappings).pause(opened)
    scene.executions.names = {execution_name(KEY, KEY, opened.outage, 0)}
    scene.mappings.find = lambda: pytest.fail("looked")  # type: ignore[method-assign]
    assert scene.reconciler.reconcile().failed == ()


def test_a_mapping_that_another_circuit_still_wants_paused_is_not_put_back(scene: Scene) -> None:
    scene.leave_paused()
    other = scene.trip("another")
    scene.circuits.held["another"] = replace(other, paused=Pause("m", 50, scene.circuits.now))
    scene.executions.names = {execution_name(KEY, "another", other.outage, 0)}
    scene.reconciler.reconcile()
    assert scene.mappings.mapping == ConsumerMapping("m", False, concurrency=50)
    assert scene.circuits.held[KEY].paused is not None
