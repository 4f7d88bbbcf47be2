"""The consumer's mapping is paused and resumed, and a change by others is not undone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from deadletter.circuit.state import RAMP_STEPS, CircuitPolicy, Override, Pause, State
from deadletter.circuit.transitions import (
    CanaryAnswered,
    CanaryVerdict,
    MappingPaused,
    OverrideBegun,
    PermitTaken,
    Tripped,
)
from deadletter.outage.event_source import (
    LEAST_CONCURRENCY,
    ConsumerMapping,
    ConsumerPause,
    MappingBusy,
    low_concurrency,
)
from tests.outage.breakers import KEY, Circuits


@dataclass
class OneMapping:
    """A mapping as Lambda keeps it; a change is under way for `settles_after` calls of `find`."""

    mapping: ConsumerMapping | None = field(
        default_factory=lambda: ConsumerMapping("m", True, concurrency=50)
    )
    settles_after: int = 0
    changes: int = 0
    slow: int = 0

    def find(self) -> ConsumerMapping | None:
        return self._seen()

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, concurrency: int | None
    ) -> ConsumerMapping:
        self.changes += 1
        self.slow = self.settles_after
        on = mapping.enabled if enabled is None else enabled
        self.mapping = replace(mapping, enabled=on, concurrency=concurrency)
        seen = self._seen()
        assert seen is not None
        return seen

    def _seen(self) -> ConsumerMapping | None:
        changing, self.slow = self.slow > 0, max(0, self.slow - 1)
        return self.mapping and replace(self.mapping, changing=changing)


@pytest.fixture
def circuits() -> Circuits:
    circuits = Circuits(CircuitPolicy(successes=1))
    circuits.apply(KEY, Tripped())
    return circuits


@pytest.fixture
def lambda_() -> OneMapping:
    return OneMapping()


@pytest.fixture
def consumer_pause(circuits: Circuits, lambda_: OneMapping) -> ConsumerPause:
    return ConsumerPause(breaker=circuits, mappings=lambda_, count_metric=circuits.count_metric)


def close(circuits: Circuits) -> None:
    circuits.now = circuits.held[KEY].open_until
    half_open = circuits.apply(KEY, PermitTaken("me")).circuit
    circuits.apply(KEY, CanaryAnswered(half_open.generation, "me", CanaryVerdict.SUCCESS))


def test_the_mappings_state_is_recorded_before_it_is_changed(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused == Pause("m", 50, circuits.now)
    assert lambda_.mapping == ConsumerMapping("m", False, concurrency=50)


def test_a_circuit_that_cannot_be_written_leaves_the_mapping_alone(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    circuits.down = 1
    with pytest.raises(Exception, match="down"):
        consumer_pause.pause(circuits.held[KEY])
    assert lambda_.changes == 0


def test_pause_is_busy_until_lambda_has_disabled_the_mapping(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.settles_after = 3
    for _ in range(3):
        with pytest.raises(MappingBusy):
            consumer_pause.pause(circuits.held[KEY])
    assert consumer_pause.pause(circuits.held[KEY]).paused is not None
    assert lambda_.changes == 1


def test_a_mapping_that_was_already_disabled_is_left_alone(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.mapping = ConsumerMapping("m", False, concurrency=50)
    assert consumer_pause.pause(circuits.held[KEY]).paused is None
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.changes == 0


def test_a_consumer_without_a_mapping_has_nothing_to_pause(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.mapping = None
    assert consumer_pause.pause(circuits.held[KEY]).paused is None
    assert circuits.metrics["NothingToPause"] == 1


def test_a_circuit_that_has_closed_meanwhile_pauses_nothing(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    before = circuits.held[KEY]
    close(circuits)
    assert consumer_pause.pause(before).paused is None
    assert lambda_.changes == 0


def test_the_mapping_is_resumed_step_by_step_and_a_step_may_be_repeated(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    limits = []
    for step in range(1, RAMP_STEPS + 1):
        changes = lambda_.changes
        consumer_pause.resume(circuits.held[KEY], step)
        consumer_pause.resume(circuits.held[KEY], step)
        assert lambda_.changes == changes + 1
        assert lambda_.mapping is not None
        assert lambda_.mapping.enabled
        limits.append(lambda_.mapping.concurrency)
    assert limits == [10, 20, 30, 40, 50]
    assert circuits.held[KEY].paused is None


def test_a_mapping_that_an_operator_disables_during_the_ramp_stays_disabled(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], 1)
    assert lambda_.mapping is not None
    lambda_.mapping = replace(lambda_.mapping, enabled=False)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.mapping == ConsumerMapping("m", False, concurrency=50)
    assert circuits.held[KEY].paused is None


def test_a_mapping_that_a_deployment_has_enabled_only_gets_its_limits(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.mapping = ConsumerMapping("m", True, concurrency=50)
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.mapping == ConsumerMapping("m", True, concurrency=50)
    assert circuits.held[KEY].paused is None


@pytest.mark.parametrize("mapping", [None, ConsumerMapping("another", True)])
def test_a_mapping_that_is_gone_or_replaced_is_not_put_back(
    circuits: Circuits,
    lambda_: OneMapping,
    consumer_pause: ConsumerPause,
    mapping: ConsumerMapping | None,
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.mapping = mapping
    changes = lambda_.changes
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.changes == changes
    assert circuits.held[KEY].paused is None


def test_a_second_outage_during_the_ramp_keeps_the_state_before_the_first(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], 1)
    circuits.apply(KEY, Tripped())
    consumer_pause.pause(circuits.held[KEY])
    assert lambda_.mapping == ConsumerMapping("m", False, concurrency=50)
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], 1)
    assert lambda_.mapping == ConsumerMapping("m", True, concurrency=10)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.mapping == ConsumerMapping("m", True, concurrency=50)


def test_an_open_circuit_keeps_its_mapping_paused(
    circuits: Circuits, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    override = Override(State.OPEN, "ada", "looks odd", circuits.now + 60)
    circuits.apply(KEY, OverrideBegun(override))
    assert consumer_pause.resume(circuits.held[KEY], RAMP_STEPS).paused is not None


@pytest.mark.parametrize("own", [None, 2, 3, 50, 1_000])
def test_each_step_is_at_least_the_step_before_and_lambdas_minimum(own: int | None) -> None:
    steps = [low_concurrency(own, step) for step in range(1, RAMP_STEPS + 1)]
    assert steps[-1] == own
    limits = [limit for limit in steps if limit is not None]
    assert limits == sorted(limits)
    assert min(limits) >= LEAST_CONCURRENCY


def test_a_mapping_that_is_changing_is_busy(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.slow = 1
    with pytest.raises(MappingBusy):
        consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused is None
    assert lambda_.changes == 0


@pytest.mark.parametrize(
    ("own", "limits"),
    [
        (None, [2, 4, 8, 16, None]),
        (2, [2, 2, 2, 2, 2]),
        (3, [2, 2, 2, 2, 3]),
        (50, [10, 20, 30, 40, 50]),
        (1_000, [200, 400, 600, 800, 1_000]),
    ],
)
def test_a_consumer_comes_back_in_five_steps_from_lambdas_minimum(
    own: int | None, limits: list[int | None]
) -> None:
    assert [low_concurrency(own, step) for step in range(1, 6)] == limits


def test_a_mapping_without_a_limit_has_none_after_the_ramp(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.mapping = ConsumerMapping("m", True)
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    limits = []
    for step in range(1, RAMP_STEPS + 1):
        consumer_pause.resume(circuits.held[KEY], step)
        assert lambda_.mapping is not None
        limits.append(lambda_.mapping.concurrency)
    assert limits == [2, 4, 8, 16, None]
    assert lambda_.mapping == ConsumerMapping("m", True)


def test_a_mapping_that_is_already_as_wanted_is_not_busy(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS - 1)
    lambda_.mapping = ConsumerMapping("m", True, concurrency=50)
    lambda_.slow = 1
    changes = lambda_.changes
    assert consumer_pause.resume(circuits.held[KEY], RAMP_STEPS).paused is None
    assert lambda_.changes == changes


def test_a_mapping_that_is_changing_is_not_resumed_yet(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    lambda_.slow = 1
    with pytest.raises(MappingBusy):
        consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.changes == 1
    assert circuits.held[KEY].paused is not None


def test_a_pause_that_is_written_is_carried_out_by_the_repeated_step(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    """The step died between its two writes."""
    circuits.apply(KEY, MappingPaused("m", 50))
    consumer_pause.pause(circuits.held[KEY])
    assert lambda_.mapping == ConsumerMapping("m", False, concurrency=50)
    consumer_pause.pause(circuits.held[KEY])
    assert lambda_.changes == 1


def test_a_mapping_that_replaced_the_paused_one_is_left_alone(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    circuits.apply(KEY, MappingPaused("earlier", 50))
    assert consumer_pause.pause(circuits.held[KEY]) == circuits.held[KEY]
    assert lambda_.changes == 0


def test_a_circuit_without_a_pause_has_nothing_to_resume(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.mapping = ConsumerMapping("m", False, concurrency=50)
    events = len(circuits.events)
    assert consumer_pause.resume(circuits.held[KEY], RAMP_STEPS) == circuits.held[KEY]
    assert (lambda_.changes, len(circuits.events)) == (0, events)


def test_a_consumer_with_a_mapping_is_not_counted_as_one_without(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    assert circuits.metrics == {}
