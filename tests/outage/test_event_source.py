"""The consumer's mapping is paused and resumed, and nobody else's change of it is undone."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from deadletter.circuit.state import RAMP_STEPS, CircuitPolicy, Override, Pause, State
from deadletter.circuit.transitions import (
    CanaryAnswered,
    CanaryVerdict,
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
    """A mapping as Lambda keeps it; for `settles_after` looks a change is under way."""

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
    found = Circuits(CircuitPolicy(successes=1))
    found.apply(KEY, Tripped())
    return found


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


def test_what_it_was_is_written_down_before_it_is_changed(
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


def test_it_asks_until_lambda_has_disabled_it(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.settles_after = 3
    for _ in range(3):
        with pytest.raises(MappingBusy):
            consumer_pause.pause(circuits.held[KEY])
    assert consumer_pause.pause(circuits.held[KEY]).paused is not None
    assert lambda_.changes == 1


def test_a_mapping_that_somebody_has_disabled_is_not_ours(
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


def test_a_circuit_that_has_closed_meanwhile_pauses_nobody(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    before = circuits.held[KEY]
    close(circuits)
    assert consumer_pause.pause(before).paused is None
    assert lambda_.changes == 0


def test_it_comes_back_step_by_step_and_twice_is_once(
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


def test_a_mapping_that_an_operator_disables_on_the_way_stays_disabled(
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


def test_one_that_was_enabled_by_a_deployment_is_only_given_its_limits(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.mapping = ConsumerMapping("m", True, concurrency=50)
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.mapping == ConsumerMapping("m", True, concurrency=50)
    assert circuits.held[KEY].paused is None


@pytest.mark.parametrize("there", [None, ConsumerMapping("another", True)])
def test_a_mapping_that_is_gone_or_another_is_nobodys_to_put_back(
    circuits: Circuits,
    lambda_: OneMapping,
    consumer_pause: ConsumerPause,
    there: ConsumerMapping | None,
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.mapping = there
    changes = lambda_.changes
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.changes == changes
    assert circuits.held[KEY].paused is None


def test_a_second_outage_on_the_way_back_remembers_what_was_before_the_first(
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


def test_a_circuit_that_is_open_keeps_its_mapping_shut(
    circuits: Circuits, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    word = Override(State.OPEN, "ada", "looks odd", circuits.now + 60)
    circuits.apply(KEY, OverrideBegun(word))
    assert consumer_pause.resume(circuits.held[KEY], RAMP_STEPS).paused is not None


@pytest.mark.parametrize("own", [None, 2, 3, 50, 1_000])
def test_no_step_is_lower_than_the_one_before_or_than_lambda_allows(own: int | None) -> None:
    steps = [low_concurrency(own, step) for step in range(1, RAMP_STEPS + 1)]
    assert steps[-1] == own
    figures = [one for one in steps if one is not None]
    assert figures == sorted(figures)
    assert min(figures) >= LEAST_CONCURRENCY


def test_a_mapping_that_is_changing_already_is_asked_about_first(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.slow = 1
    with pytest.raises(MappingBusy):
        consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused is None
    assert lambda_.changes == 0
