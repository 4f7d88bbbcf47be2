"""How many messages a circuit admits while it comes back."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.admission import BURST_SECONDS, granted, is_coming_back
from deadletter.circuit.state import Circuit, CircuitPolicy, State

NOW = 1_800_000_000.0
POLICY = CircuitPolicy()
CLOSED = Circuit("orders", rate=5.0, closed_at=NOW)


def admitted(circuit: Circuit, seconds: float, policy: CircuitPolicy = POLICY) -> int:
    """What a consumer gets that asks for everything ten times a second."""
    count = 0
    for tenth in range(int(seconds * 10)):
        grant = granted(circuit, 1_000_000, policy, NOW + tenth / 10)
        circuit, count = grant.circuit, count + grant.count
    return count


def test_a_closed_circuit_comes_back_until_its_ramp_is_over() -> None:
    assert is_coming_back(CLOSED, POLICY, NOW)
    assert is_coming_back(CLOSED, POLICY, NOW + 59.9)
    assert not is_coming_back(CLOSED, POLICY, NOW + 60)
    # Another machine's clock is ahead.
    assert is_coming_back(CLOSED, POLICY, NOW - 5)


@pytest.mark.parametrize(
    "circuit",
    [
        replace(CLOSED, state=State.OPEN),
        replace(CLOSED, closed_at=0.0),
        replace(CLOSED, rate=0.0),
        replace(CLOSED, key="orders#config"),
    ],
)
def test_any_other_circuit_does_not(circuit: Circuit) -> None:
    assert not is_coming_back(circuit, POLICY, NOW)
    assert granted(circuit, 7, POLICY, NOW).count == (7 if circuit.is_closed else 0)


def test_without_a_ramp_it_does_not() -> None:
    assert granted(CLOSED, 700, CircuitPolicy(ramp=0), NOW).count == 700


def test_the_rate_grows_in_five_steps_to_that_of_before() -> None:
    """Of 5 a second: 1, 2, 3, 4 and 5 a second for 12 seconds each, after a burst of 10."""
    in_all = [admitted(CLOSED, seconds) for seconds in (0.1, 12.1, 24.1, 36.1, 48.1, 60)]
    steps = [later - sooner for sooner, later in pairwise(in_all)]
    assert in_all[0] == 10
    assert steps == pytest.approx([12, 24, 36, 48, 60], abs=1)


def test_no_more_is_granted_than_is_wanted() -> None:
    grant = granted(CLOSED, 3, POLICY, NOW)
    assert (grant.count, grant.circuit.admitted) == (3, 3)


def test_when_nothing_is_left_nothing_is_counted() -> None:
    empty = replace(CLOSED, admitted=10.0)
    assert granted(empty, 3, POLICY, NOW).count == 0
    assert granted(empty, 3, POLICY, NOW).circuit is empty


def test_a_clock_that_is_behind_finds_the_burst() -> None:
    assert granted(CLOSED, 100, POLICY, NOW - 20).count == 10
    for admitted_already in (10.0, 15.0):
        circuit = replace(CLOSED, admitted=admitted_already)
        assert granted(circuit, 100, POLICY, NOW - 20).count == 0


def test_what_nobody_asked_for_is_not_kept() -> None:
    grant = granted(CLOSED, 1_000, POLICY, NOW + 59)
    assert grant.count == BURST_SECONDS * CLOSED.rate


def test_a_slow_pipeline_is_given_one_message_at_once() -> None:
    slow = replace(CLOSED, rate=0.1)
    assert granted(slow, 5, POLICY, NOW).count == 1


@given(
    st.floats(0.05, 1_000),
    st.floats(5, 3_600),
    st.lists(st.tuples(st.floats(0, 20), st.integers(1, 5_000)), max_size=40),
)
def test_in_no_ten_seconds_twice_the_rate_is_admitted(
    rate: float, ramp: float, asks: list[tuple[float, int]]
) -> None:
    policy = replace(POLICY, ramp=ramp)
    circuit, now = replace(CLOSED, rate=rate), NOW
    grants: list[tuple[float, int]] = []
    for pause, wanted in asks:
        now += pause
        if not is_coming_back(circuit, policy, now):
            break
        grant = granted(circuit, wanted, policy, now)
        circuit = grant.circuit
        grants.append((now, grant.count))
    for first, _ in grants:
        window = sum(count for at, count in grants if first <= at <= first + 10)
        assert window <= max(1.0, BURST_SECONDS * rate) + 10 * rate + 1
