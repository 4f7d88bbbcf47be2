"""A circuit's state, its counted outcomes and its ramp."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from deadletter.circuit.state import (
    BUCKETS,
    NO_END,
    RAMP_STEPS,
    Circuit,
    CircuitPolicy,
    OutcomeBucket,
    Override,
    Permit,
    State,
)
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import pipeline_from_json

NOW = 1_800_000_000.0
POLICY = CircuitPolicy()


def test_a_new_circuit_is_closed_and_at_full_rate() -> None:
    assert Circuit("orders").is_closed
    assert Circuit("orders").admitted_share(POLICY, NOW) == 1.0


@pytest.mark.parametrize("state", [State.OPEN, State.HALF_OPEN])
def test_only_a_closed_circuit_admits_letters(state: State) -> None:
    circuit = Circuit("orders", state)
    assert not circuit.is_closed
    assert circuit.admitted_share(POLICY, NOW) == 0.0


def test_a_closed_circuit_returns_to_its_rate_in_five_steps() -> None:
    closed = Circuit("orders", closed_at=NOW)
    moments = [NOW + second for second in range(int(POLICY.ramp) + 10)]
    shares = [closed.admitted_share(POLICY, moment) for moment in moments]
    assert shares == sorted(shares)
    assert sorted(set(shares)) == [0.2, 0.4, 0.6, 0.8, 1.0]
    assert len(set(shares)) == RAMP_STEPS


def test_a_clock_that_is_behind_reads_the_first_step_of_the_ramp() -> None:
    assert Circuit("orders", closed_at=NOW).admitted_share(POLICY, NOW - 5) == 0.2
    assert Circuit("orders", closed_at=NOW).admitted_share(POLICY, NOW - POLICY.ramp) == 0.2


def test_without_a_ramp_a_closed_circuit_has_its_full_rate_at_once() -> None:
    assert Circuit("orders", closed_at=NOW).admitted_share(CircuitPolicy(ramp=0), NOW) == 1.0


def test_a_circuit_for_configuration_has_its_full_rate_at_once() -> None:
    assert Circuit("orders#config", closed_at=NOW).admitted_share(POLICY, NOW) == 1.0


def test_a_circuit_for_configuration_follows_a_policy_of_its_own() -> None:
    policy = CircuitPolicy(pause_consumer=True, lease=77.0, consecutive=3)
    assert policy.of("orders") == policy
    of_config = policy.of("orders#config")
    assert (of_config.cooldown, of_config.cooldown_factor, of_config.cooldown_cap) == (60, 1, 60)
    assert (of_config.successes, of_config.ramp, of_config.pause_consumer) == (1, 0, False)
    assert (of_config.lease, of_config.consecutive) == (77.0, 3)


def test_outcomes_are_added_up_bucket_by_bucket_and_leave_the_window() -> None:
    circuit = Circuit("orders")
    for second in range(0, 2 * int(POLICY.window), 5):
        circuit = circuit.with_outcomes(1, 2, POLICY, NOW + second)
    assert len(circuit.buckets) == BUCKETS
    assert {(bucket.good, bucket.bad) for bucket in circuit.buckets} == {(4, 8)}
    last = NOW + 2 * POLICY.window
    assert circuit.in_window(POLICY, last + 2 * POLICY.window) == ()


def test_outcomes_from_before_the_circuit_closed_do_not_count() -> None:
    bucket = POLICY.bucket_of(NOW)
    before, after = OutcomeBucket(bucket - 1, 0, 50), OutcomeBucket(bucket, 3, 0)
    circuit = Circuit("orders", closed_at=NOW, buckets=(before, after))
    assert circuit.in_window(POLICY, NOW + 1) == (after,)


def test_a_success_resets_the_streak() -> None:
    circuit = (
        Circuit("orders").with_outcomes(0, 3, POLICY, NOW).with_outcomes(0, 2, POLICY, NOW + 1)
    )
    assert circuit.streak == 5
    assert circuit.with_outcomes(1, 2, POLICY, NOW + 2).streak == 0
    assert circuit.with_outcomes(0, 0, POLICY, NOW + 2).streak == 5


def test_a_canary_is_sent_only_if_it_ends_before_its_lease() -> None:
    permit = Permit("me", NOW + 30)
    assert permit.lasts_for(10, NOW + 20)
    assert not permit.lasts_for(10, NOW + 20.1)


def test_a_pipelines_settings_hold_its_circuit_policy() -> None:
    pipeline = pipeline_from_json('{"name": "orders", "circuit": {"cooldown": 5}}')
    assert pipeline.circuit == CircuitPolicy(cooldown=5)
    for wrong in ('{"name": "orders", "circuit": {"cool": 5}}', '{"name": "o", "circuit": 5}'):
        with pytest.raises(BadSettings, match="circuit"):
            pipeline_from_json(wrong)


def test_of_a_clock_that_is_ahead_only_the_next_bucket_counts() -> None:
    """Clocks differ by seconds, and a bucket is longer: it may lie at most one ahead."""
    here = POLICY.bucket_of(NOW)
    ahead = tuple(OutcomeBucket(here + number, 0, 1) for number in range(3))
    counted = Circuit("orders", buckets=ahead).in_window(POLICY, NOW)
    assert [bucket.number for bucket in counted] == [here, here + 1]


def test_outcomes_of_one_kind_count_and_no_outcomes_leave_no_bucket() -> None:
    failing = Circuit("orders", streak=4)
    assert failing.with_outcomes(0, 0, POLICY, NOW) == failing
    here = POLICY.bucket_of(NOW)
    good = failing.with_outcomes(3, 0, POLICY, NOW)
    assert (good.buckets, good.streak) == ((OutcomeBucket(here, 3, 0),), 0)
    bad = failing.with_outcomes(0, 2, POLICY, NOW)
    assert (bad.buckets, bad.streak) == ((OutcomeBucket(here, 0, 2),), 6)


def test_the_canary_of_the_permit_is_admitted_until_the_lease_ends_and_no_other() -> None:
    circuit = Circuit("orders", State.HALF_OPEN, permit=Permit("me", NOW + 30))
    assert circuit.admits_canary("me", NOW + 29)
    assert not circuit.admits_canary("me", NOW + 30)
    assert not circuit.admits_canary("another", NOW)
    assert not circuit.admits_canary(None, NOW)
    assert not Circuit("orders", State.OPEN).admits_canary(None, NOW)
    assert not Circuit("orders", State.OPEN).admits_canary("me", NOW)


def override(until: float = NO_END, begun: float | None = None) -> Override:
    return Override(State.OPEN, "ada", "looks odd", until, begun)


def test_a_circuit_is_held_since_its_endless_override_began() -> None:
    times = {"opened_at": NOW - 60, "closed_at": NOW - 30}
    assert Circuit("orders", State.OPEN).held_since is None
    assert Circuit("orders", State.OPEN, forced=override(NOW + 60, NOW)).held_since is None
    assert Circuit("orders", State.OPEN, forced=override(begun=NOW), **times).held_since == NOW


def test_a_new_circuit_has_counted_nothing_and_never_changed() -> None:
    """A key without a record reads as this."""
    new = Circuit("orders")
    assert (new.generation, new.outage, new.restart, new.trips) == (0, 0, 0, 0)
    assert (new.started, new.open_until, new.cooldown) == (0.0, 0.0, 0.0)
    assert (new.opened_at, new.closed_at) == (0.0, 0.0)
    assert (new.successes, new.streak) == (0, 0)


def test_an_override_without_an_end_lasts_until_the_year_9999() -> None:
    assert datetime.fromtimestamp(NO_END, UTC) == datetime(9999, 12, 31, tzinfo=UTC)
    assert not Override(State.OPEN, "ada", "maintenance", NO_END).has_end
    assert Override(State.OPEN, "ada", "maintenance", NO_END - 1).has_end


def test_a_ramp_of_a_second_has_five_steps_too() -> None:
    policy = CircuitPolicy(ramp=1)
    closed = Circuit("orders", closed_at=NOW)
    steps = [closed.ramp_step(policy, NOW + at / 10) for at in (0, 1, 3, 5, 7, 9, 11)]
    assert steps == [1, 1, 2, 3, 4, 5, 5]


def test_a_ramp_begins_with_its_first_step() -> None:
    policy = CircuitPolicy(ramp=5)
    closed = Circuit("orders", closed_at=NOW)
    assert [closed.ramp_step(policy, NOW + at) for at in (-3, 0, 0.9, 1.1)] == [1, 1, 1, 2]


def test_the_buckets_of_a_window_end_with_the_oldest_that_still_counts() -> None:
    here = POLICY.bucket_of(NOW)
    every = tuple(OutcomeBucket(here + at, 1) for at in range(-BUCKETS - 2, 4))
    counted = Circuit("orders", buckets=every).in_window(POLICY, NOW)
    assert [bucket.number - here for bucket in counted] == [-5, -4, -3, -2, -1, 0, 1]
