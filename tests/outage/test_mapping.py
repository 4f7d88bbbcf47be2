"""The consumer's mapping is paused and resumed, and a change by others is not undone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest

from deadletter.circuit.state import (
    RAMP_STEPS,
    Circuit,
    CircuitPolicy,
    Override,
    Pause,
    Pollers,
    State,
)
from deadletter.circuit.transitions import (
    CanaryAnswered,
    CanaryVerdict,
    MappingPaused,
    MappingSeen,
    OverrideBegun,
    PermitTaken,
    Tripped,
)
from deadletter.outage.mapping import (
    LEAST_CONCURRENCY,
    ConsumerMapping,
    ConsumerPause,
    Limits,
    MappingBusy,
    PauseTag,
    low_limits,
)
from tests.each_row import each_row
from tests.outage.breakers import KEY, Circuits


@dataclass
class OneMapping:
    """A mapping as Lambda keeps it; a change is under way for `settles_after` calls of `find`.

    `done` lists the calls that change it, in their order.
    """

    mapping: ConsumerMapping | None = field(
        default_factory=lambda: ConsumerMapping("m", True, concurrency=50)
    )
    settles_after: int = 0
    slow: int = 0
    clock: Callable[[], float] = lambda: 0.0
    tag_value: PauseTag | None = None
    done: list[str] = field(default_factory=list)
    looks: int = 0
    busy: set[str] = field(default_factory=set)

    @property
    def changes(self) -> int:
        return sum(name not in ("tag", "untag") for name in self.done)

    def find(self) -> ConsumerMapping | None:
        return self._seen()

    def change(
        self, mapping: ConsumerMapping, *, enabled: bool | None, limits: Limits
    ) -> ConsumerMapping:
        self.done.append({None: "change", True: "enable", False: "disable"}[enabled])
        self.slow = self.settles_after
        on = mapping.enabled if enabled is None else enabled
        self.mapping = replace(
            mapping,
            enabled=on,
            concurrency=limits.concurrency,
            pollers=limits.pollers,
            changed_at=self.clock(),
        )
        seen = self._seen()
        assert seen is not None
        return seen

    def pause_tag(self, mapping: ConsumerMapping) -> PauseTag | None:
        self.looks += 1
        return self.tag_value

    def tag(self, mapping: ConsumerMapping, tag: PauseTag) -> None:
        self._busy("tag")
        self.tag_value = tag

    def untag(self, mapping: ConsumerMapping) -> None:
        self._busy("untag")
        self.tag_value = None

    def _busy(self, name: str) -> None:
        if name in self.busy:
            raise MappingBusy(name)
        self.done.append(name)

    def _seen(self) -> ConsumerMapping | None:
        changing, self.slow = self.slow > 0, max(0, self.slow - 1)
        return self.mapping and replace(self.mapping, changing=changing)


def is_now(mapping: ConsumerMapping | None, expected: ConsumerMapping) -> bool:
    """Whether the mapping is as expected, whenever it was last changed."""
    return mapping is not None and replace(mapping, changed_at=0.0) == expected


@pytest.fixture
def circuits() -> Circuits:
    circuits = Circuits(CircuitPolicy(successes=1))
    circuits.apply(KEY, Tripped())
    return circuits


@pytest.fixture
def lambda_(circuits: Circuits) -> OneMapping:
    return OneMapping(clock=circuits.clock)


def pause_of(circuits: Circuits, mappings: OneMapping) -> ConsumerPause:
    return ConsumerPause(
        breaker=circuits,
        circuits=circuits,
        mappings=mappings,
        clock=circuits.clock,
        count_metric=circuits.count_metric,
    )


@pytest.fixture
def consumer_pause(circuits: Circuits, lambda_: OneMapping) -> ConsumerPause:
    return pause_of(circuits, lambda_)


def close(circuits: Circuits) -> None:
    circuits.now = circuits.held[KEY].open_until
    half_open = circuits.apply(KEY, PermitTaken("me")).circuit
    circuits.apply(KEY, CanaryAnswered(half_open.generation, "me", CanaryVerdict.SUCCESS))


def test_the_mappings_state_is_recorded_before_it_is_changed(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused == Pause("m", 50, circuits.now)
    assert is_now(lambda_.mapping, ConsumerMapping("m", False, concurrency=50))


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
    assert is_now(lambda_.mapping, ConsumerMapping("m", False, concurrency=50))
    assert circuits.held[KEY].paused is None


def test_a_mapping_that_a_deployment_has_enabled_only_gets_its_limits(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.mapping = ConsumerMapping("m", True, concurrency=50)
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))
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
    assert is_now(lambda_.mapping, ConsumerMapping("m", False, concurrency=50))
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], 1)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=10))
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))


def test_an_open_circuit_keeps_its_mapping_paused(
    circuits: Circuits, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    override = Override(State.OPEN, "ada", "looks odd", circuits.now + 60)
    circuits.apply(KEY, OverrideBegun(override))
    assert consumer_pause.resume(circuits.held[KEY], RAMP_STEPS).paused is not None


@each_row("own", [None, 2, 3, 50, 1_000])
def test_each_step_is_at_least_the_step_before_and_lambdas_minimum(own: int | None) -> None:
    steps = [low_limits(Limits(own), step).concurrency for step in range(1, RAMP_STEPS + 1)]
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


@each_row(
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
    assert [low_limits(Limits(own), step).concurrency for step in range(1, 6)] == limits


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
    assert is_now(lambda_.mapping, ConsumerMapping("m", True))


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
    assert is_now(lambda_.mapping, ConsumerMapping("m", False, concurrency=50))
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


# The tag: a pause is remembered twice.


def test_a_pause_writes_row_then_tag_then_disables(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.busy = {"tag"}
    with pytest.raises(MappingBusy):
        consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused is not None
    assert lambda_.done == []
    lambda_.busy = set()
    consumer_pause.pause(circuits.held[KEY])
    assert lambda_.done == ["tag", "disable"]
    generation = circuits.held[KEY].generation
    assert lambda_.tag_value == PauseTag(generation, Limits(50), circuits.now)


def test_the_way_back_enables_then_removes_the_tag_then_clears_the_row(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    lambda_.done.clear()
    lambda_.busy = {"untag"}
    with pytest.raises(MappingBusy):
        consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.done == ["enable"]
    assert circuits.held[KEY].paused is not None
    lambda_.busy = set()
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.done == ["enable", "untag"]
    assert circuits.held[KEY].paused is None
    assert lambda_.tag_value is None


def test_the_tag_stays_until_the_last_step_of_the_ramp(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    for step in range(1, RAMP_STEPS):
        consumer_pause.resume(circuits.held[KEY], step)
        assert lambda_.tag_value is not None
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert lambda_.tag_value is None


def lose_the_row(circuits: Circuits) -> None:
    del circuits.held[KEY]


def test_a_paused_mapping_whose_row_is_lost_comes_back_with_its_limits(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lose_the_row(circuits)
    circuits.now += 3_600
    consumer_pause.recover(KEY)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))
    assert lambda_.tag_value is None
    assert circuits.metrics["MappingPutBack"] == 1


def test_a_pause_that_its_row_remembers_is_not_ended_by_its_tag(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    consumer_pause.recover(KEY)
    assert lambda_.done == ["tag", "disable"]
    close(circuits)
    consumer_pause.recover(KEY)
    assert lambda_.done == ["tag", "disable"]


def test_a_row_without_its_pause_is_as_good_as_none(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    circuits.held[KEY] = replace(circuits.held[KEY], paused=None)
    consumer_pause.recover(KEY)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))


def test_an_outage_that_goes_on_remembers_its_pause_again(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lose_the_row(circuits)
    circuits.apply(KEY, Tripped())
    consumer_pause.recover(KEY)
    assert circuits.held[KEY].paused == Pause("m", 50, circuits.now)
    assert lambda_.done == ["tag", "disable"]


def test_the_next_outage_takes_over_the_pause_of_a_lost_row(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lose_the_row(circuits)
    circuits.apply(KEY, Tripped())
    consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused == Pause("m", 50, circuits.now)
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))


def test_a_mapping_that_a_person_disables_has_no_tag_and_stays_disabled(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lose_the_row(circuits)
    lambda_.mapping = ConsumerMapping("m", False, concurrency=50, changed_at=circuits.now)
    consumer_pause.recover(KEY)
    assert lambda_.done == []


@pytest.mark.parametrize("later", [-3_600, 3_600])
def test_a_tag_of_another_time_enables_nothing(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause, later: float
) -> None:
    """A person enabled the mapping without us, and disabled it again."""
    lose_the_row(circuits)
    lambda_.tag_value = PauseTag(1, Limits(50), circuits.now)
    changed_at = circuits.now + later
    lambda_.mapping = ConsumerMapping("m", False, concurrency=50, changed_at=changed_at)
    circuits.now += 7_200
    consumer_pause.recover(KEY)
    assert lambda_.done == []
    assert consumer_pause.pause(circuits.apply(KEY, Tripped()).circuit).paused is None


def test_a_mapping_with_other_limits_than_its_tag_stays_disabled(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lose_the_row(circuits)
    lambda_.tag_value = PauseTag(1, Limits(50), circuits.now)
    lambda_.mapping = ConsumerMapping("m", False, concurrency=7, changed_at=circuits.now)
    consumer_pause.recover(KEY)
    assert lambda_.done == []


def test_the_tag_of_an_enabled_mapping_is_only_removed(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lose_the_row(circuits)
    lambda_.tag_value = PauseTag(1, Limits(50), circuits.now)
    lambda_.mapping = ConsumerMapping("m", True, concurrency=7, changed_at=circuits.now)
    consumer_pause.recover(KEY)
    assert lambda_.done == ["untag"]


def test_a_ramp_whose_row_is_lost_ends_at_the_mappings_own_limit(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], 1)
    lose_the_row(circuits)
    consumer_pause.recover(KEY)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))
    assert lambda_.tag_value is None


def test_a_mapping_that_has_run_undisturbed_costs_one_call(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lose_the_row(circuits)
    consumer_pause.recover(KEY)
    assert (lambda_.looks, lambda_.done) == (0, [])


def test_what_bounds_the_consumer_is_noted_once_and_when_it_changes(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lose_the_row(circuits)
    for bounded, mapping in (
        (True, ConsumerMapping("m", True, concurrency=50)),
        (True, ConsumerMapping("m", True, concurrency=2)),
        (False, ConsumerMapping("m", True)),
        # Its pollers serve ten invocations each: more than a new account may run.
        (False, ConsumerMapping("m", True, pollers=Pollers(2, 50))),
        (True, ConsumerMapping("m", True, concurrency=50)),
        (False, None),
    ):
        lambda_.mapping = mapping
        consumer_pause.recover(KEY)
        assert circuits.held[KEY].bounded is bounded
    seen = [event for event in circuits.events if isinstance(event, MappingSeen)]
    assert [event.bounded for event in seen] == [True, False, True, False]


def test_what_bounds_the_consumer_is_noted_later_if_the_row_cannot_be_read(
    circuits: Circuits, consumer_pause: ConsumerPause
) -> None:
    circuits.held[KEY] = Circuit(KEY, unreadable=True)
    consumer_pause.recover(KEY)
    circuits.held[KEY] = Circuit(KEY)
    consumer_pause.recover(KEY)
    assert circuits.held[KEY].bounded


@pytest.mark.parametrize("mapping", [None, ConsumerMapping("m", False, changing=True)])
def test_a_mapping_that_is_gone_or_changing_is_left_to_the_next_minute(
    circuits: Circuits,
    lambda_: OneMapping,
    consumer_pause: ConsumerPause,
    mapping: ConsumerMapping | None,
) -> None:
    lambda_.mapping, lambda_.slow = mapping, 1
    lambda_.tag_value = PauseTag(1, Limits(), 0.0)
    lose_the_row(circuits)
    consumer_pause.recover(KEY)
    assert lambda_.done == []


def test_a_person_who_disables_the_mapping_after_our_way_back_is_not_undone(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    """The step enabled it and removed the tag, and died before it cleared the row."""
    consumer_pause.pause(circuits.held[KEY])
    close(circuits)
    lambda_.tag_value = None
    circuits.now += 3_600
    lambda_.mapping = ConsumerMapping("m", False, concurrency=50, changed_at=circuits.now)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert not lambda_.mapping.enabled
    assert circuits.held[KEY].paused is None


def test_a_pause_of_an_earlier_version_has_no_tag_and_is_ended(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.tag_value = None
    circuits.now += 3_600
    close(circuits)
    consumer_pause.resume(circuits.held[KEY], RAMP_STEPS)
    assert is_now(lambda_.mapping, ConsumerMapping("m", True, concurrency=50))


# Provisioned mode.


def provisioned(enabled: bool, minimum: int, maximum: int) -> ConsumerMapping:
    return ConsumerMapping("m", enabled, pollers=Pollers(minimum, maximum))


def test_a_provisioned_mapping_comes_back_by_both_limits_of_its_pollers(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.mapping = provisioned(True, 5, 100)
    consumer_pause.pause(circuits.held[KEY])
    assert circuits.held[KEY].paused == Pause("m", None, circuits.now, Pollers(5, 100))
    assert is_now(lambda_.mapping, provisioned(False, 5, 100))
    close(circuits)
    limits = []
    for step in range(1, RAMP_STEPS + 1):
        consumer_pause.resume(circuits.held[KEY], step)
        assert lambda_.mapping is not None
        limits.append(lambda_.mapping.pollers)
    assert limits == [(2, 20), (2, 40), (3, 60), (4, 80), (5, 100)]
    assert is_now(lambda_.mapping, provisioned(True, 5, 100))
    assert circuits.held[KEY].paused is None


def test_no_step_goes_below_two_pollers() -> None:
    own = Limits(pollers=Pollers(2, 2))
    assert {low_limits(own, step) for step in range(1, RAMP_STEPS + 1)} == {own}


def test_a_provisioned_mapping_whose_row_is_lost_comes_back_with_its_pollers(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    lambda_.mapping = provisioned(True, 5, 100)
    consumer_pause.pause(circuits.held[KEY])
    lose_the_row(circuits)
    consumer_pause.recover(KEY)
    assert is_now(lambda_.mapping, provisioned(True, 5, 100))


def test_a_mapping_that_has_changed_its_mode_keeps_its_present_limits(
    circuits: Circuits, lambda_: OneMapping, consumer_pause: ConsumerPause
) -> None:
    consumer_pause.pause(circuits.held[KEY])
    lambda_.mapping = provisioned(True, 5, 100)
    close(circuits)
    for step in (1, RAMP_STEPS):
        consumer_pause.resume(circuits.held[KEY], step)
        assert is_now(lambda_.mapping, provisioned(True, 5, 100))
    assert circuits.held[KEY].paused is None
