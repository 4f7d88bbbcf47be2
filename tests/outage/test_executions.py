"""An outage has one execution at a time, and repairs are found after it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.circuit.state import Circuit, Pause, State
from deadletter.outage.executions import (
    START_SECONDS,
    Repairs,
    execution_name,
    is_run_by,
    repairs_for,
)

NOW = 1_800_000_000.0
OPEN = Circuit("orders", State.OPEN, 7, outage=5, restart=2, started=NOW - START_SECONDS)
NAME = execution_name("orders", "orders", 5, 2)


def test_the_name_is_valid_for_step_functions_for_every_key() -> None:
    for key in ("orders", "https://a.example/hook?x=*", "ž" * 300, ""):
        name = execution_name("orders", key, 10**10, 10**5)
        assert len(name) <= 80
        assert name.replace("-", "").isalnum()
        assert name.isascii()


def test_each_outage_of_each_circuit_has_its_own_constant_name() -> None:
    names = {
        execution_name(pipeline, key, generation, restart)
        for pipeline in ("a", "ab")
        for key in ("bc", "c")
        for generation in (1, 11)
        for restart in (1, 11)
    }
    assert len(names) == 16
    assert execution_name("orders", "orders", 5, 2) == NAME


def test_an_execution_knows_whether_it_still_runs_the_outage() -> None:
    assert is_run_by(OPEN, 5, 2)
    assert not is_run_by(OPEN, 5, 1)
    assert not is_run_by(OPEN, 4, 2)


def test_an_outage_without_an_execution_is_started_again() -> None:
    for state in (State.OPEN, State.HALF_OPEN):
        lost = replace(OPEN, state=state)
        assert repairs_for("orders", [lost], set(), NOW) == Repairs(start=(lost,))
        assert repairs_for("orders", [lost], {NAME}, NOW) == Repairs()
        earlier = execution_name("orders", "orders", 5, 1)
        assert repairs_for("orders", [lost], {earlier}, NOW) == Repairs(start=(lost,))


def test_a_new_execution_has_time_to_appear_in_the_list() -> None:
    fresh = replace(OPEN, started=NOW - START_SECONDS + 1)
    assert repairs_for("orders", [fresh], set(), NOW) == Repairs()


def test_a_paused_mapping_is_put_back_when_no_execution_runs_the_outage() -> None:
    left = replace(OPEN, state=State.CLOSED, paused=Pause("m", None, NOW))
    assert repairs_for("orders", [left], set(), NOW) == Repairs(put_back=(left,))
    assert repairs_for("orders", [left], {NAME}, NOW) == Repairs()


def test_a_mapping_that_we_did_not_pause_is_left_alone() -> None:
    assert repairs_for("orders", [replace(OPEN, state=State.CLOSED)], set(), NOW) == Repairs()


def test_an_unreadable_circuit_is_left_to_a_person() -> None:
    unreadable = Circuit("orders", State.OPEN, unreadable=True)
    assert repairs_for("orders", [unreadable], set(), NOW) == Repairs()


@pytest.mark.parametrize(("age", "lost"), [(59.9, False), (60.0, True)])
def test_an_execution_is_lost_a_minute_after_its_start_and_not_before(
    age: float, lost: bool
) -> None:
    started = replace(OPEN, started=NOW - age)
    assert repairs_for("orders", [started], set(), NOW) == Repairs((started,) if lost else ())


def test_the_name_stays_the_same_between_versions() -> None:
    """Two versions that run at once would else start two executions for one outage."""
    assert execution_name("orders", "orders", 5, 2) == (
        "a89d7ca487f6954d82841ee886cca2dd79c87eb1-5-2"
    )
    assert len(execution_name("orders", "orders", 5, 2)) == 40 + len("-5-2")


def test_outages_are_restarted_and_mappings_put_back_side_by_side() -> None:
    left = Circuit("orders", State.CLOSED, paused=Pause("m", None, NOW))
    assert repairs_for("orders", [left, OPEN], set(), NOW) == Repairs((OPEN,), (left,))
