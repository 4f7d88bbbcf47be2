"""A circuit calls a person when no automation, or none in time, brings it back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from deadletter.circuit.state import NO_END, Circuit, Override, State
from deadletter.contract import DAY, HOUR, MINUTE, WATCH
from deadletter.signals.figures import Figure
from deadletter.watch.observation import CircuitsState, circuits_state
from deadletter.watch.troubles import MOST_OPENINGS
from tests.watch.minutes import BEGIN, Minutes

TROUBLE = Figure.CIRCUIT_TROUBLE
OPEN = Circuit("orders", State.OPEN, outage=7, trips=1, opened_at=BEGIN)


def seen(*circuits: Circuit) -> CircuitsState:
    return circuits_state("orders", circuits)


def closed(circuit: Circuit) -> Circuit:
    return replace(circuit, state=State.CLOSED)


def looking_at(*circuits: Circuit, **changes: int) -> Minutes:
    """A pipeline with these circuits, and with other thresholds."""
    minutes = Minutes(circuits=seen(*circuits))
    minutes.settings = replace(minutes.settings, alarms=WATCH._replace(**changes))
    return minutes


def passes(minutes: Minutes, minute: int) -> float | None:
    minutes.pass_minutes(minute)
    return minutes.value(TROUBLE)


@pytest.mark.parametrize(
    "circuit",
    [
        OPEN,
        replace(OPEN, state=State.HALF_OPEN),
        replace(OPEN, key="dependency/payments"),
        replace(OPEN, forced=Override(State.OPEN, "ada", "looks odd", NO_END, begun=BEGIN)),
    ],
    ids=lambda circuit: f"{circuit.key} {circuit.state} {bool(circuit.forced)}",
)
def test_a_circuit_that_is_not_closed_for_half_an_hour_calls_a_person(circuit: Circuit) -> None:
    minutes = looking_at(circuit)
    assert passes(minutes, 30) is None
    assert passes(minutes, 1) == 1
    why = minutes.why(TROUBLE)
    assert why is not None
    held = circuit.forced is not None
    open_long = "has not been closed for 30 minutes"
    does = "is held (for 30 minutes now, without an end)" if held else open_long
    assert why == f"circuit {circuit.key} {does}"
    # A minute in which the circuits cannot be read ends nothing.
    minutes.circuits = None
    assert passes(minutes, 2) == 1
    minutes.circuits = seen(circuit)
    assert passes(minutes, 1) == 1
    minutes.circuits = seen(closed(replace(circuit, forced=None)))
    assert passes(minutes, 1) == 0
    assert minutes.why(TROUBLE) is None


def test_the_trouble_says_since_when() -> None:
    minutes = looking_at(OPEN)
    minutes.pass_minutes(40)
    assert minutes.row is not None
    assert minutes.row.seen[0].since == BEGIN + 30 * MINUTE


def test_a_watch_that_begins_late_knows_since_when_a_circuit_is_open() -> None:
    minutes = looking_at(replace(OPEN, opened_at=BEGIN - HOUR))
    assert passes(minutes, 1) == 1


def test_a_hold_with_an_end_calls_nobody_until_its_end() -> None:
    hold = Override(State.OPEN, "ada", "migration", BEGIN + 3 * HOUR, begun=BEGIN)
    minutes = looking_at(replace(OPEN, opened_at=BEGIN - HOUR, forced=hold))
    for _ in range(180):
        assert passes(minutes, 1) is None
    minutes.circuits = seen(replace(OPEN, opened_at=BEGIN - HOUR))
    assert passes(minutes, 29) is None
    assert passes(minutes, 1) == 1


def test_a_circuit_for_configuration_calls_a_person_at_once() -> None:
    for key in ("orders#config", "dependency/mail#config"):
        minutes = looking_at(Circuit(key, State.OPEN, opened_at=BEGIN))
        assert passes(minutes, 1) == 1
        assert minutes.why(TROUBLE) == f"circuit {key} waits until its configuration is repaired"
        minutes.circuits = None
        assert passes(minutes, 1) == 1
        minutes.circuits = seen()
        assert passes(minutes, 1) == 0


def test_a_circuit_for_configuration_under_a_hold_with_an_end_calls_nobody() -> None:
    hold = Override(State.OPEN, "ada", "new key at nine", BEGIN + HOUR)
    held = Circuit("orders#config", State.OPEN, opened_at=BEGIN, forced=hold)
    minutes = looking_at(held)
    assert passes(minutes, 60) is None
    assert passes(minutes, 1) == 1


def test_a_circuit_of_one_key_calls_nobody_even_for_configuration() -> None:
    keyed = replace(OPEN, key="tenant-1", opened_at=BEGIN - DAY)
    minutes = looking_at(keyed, replace(keyed, key="tenant-1#config"))
    assert passes(minutes, 90) is None


def test_a_record_that_is_malformed_calls_a_person_at_once() -> None:
    minutes = looking_at(Circuit("orders", State.OPEN, unreadable=True))
    assert passes(minutes, 1) == 1
    assert "malformed" in (minutes.why(TROUBLE) or "")


def test_a_cause_that_is_held_calls_a_person_at_once() -> None:
    minutes = Minutes(causes=1)
    assert passes(minutes, 1) == 1
    assert "a cause of failure" in (minutes.why(TROUBLE) or "")
    minutes.causes = None
    assert passes(minutes, 1) == 1
    minutes.causes = 0
    assert passes(minutes, 1) == 0


def test_many_circuits_of_single_keys_call_a_person_after_five_minutes() -> None:
    tenants = [replace(OPEN, key=f"tenant-{number}") for number in range(10)]
    minutes = looking_at(*tenants)
    assert passes(minutes, 5) is None
    assert passes(minutes, 1) == 1
    assert "10 or more circuits of single keys" in (minutes.why(TROUBLE) or "")
    minutes.circuits = None
    assert passes(minutes, 1) == 1
    minutes.circuits = seen(*tenants[1:])
    assert passes(minutes, 1) == 0
    # It counts anew.
    minutes.circuits = seen(*tenants)
    assert passes(minutes, 5) == 0
    assert passes(minutes, 1) == 1


def test_a_hold_without_an_end_calls_a_person_after_a_day() -> None:
    forgotten = Override(State.CLOSED, "ada", "false alarm", NO_END, begun=BEGIN)
    minutes = looking_at(Circuit("tenant-1", forced=forgotten))
    minutes.pass_minutes(1)
    assert minutes.value(TROUBLE) is None
    minutes.now = BEGIN + DAY
    assert passes(minutes, 1) == 1
    held = "circuit tenant-1 is held (for 1,440 minutes now, without an end)"
    assert minutes.why(TROUBLE) == held
    minutes.circuits = None
    assert passes(minutes, 1) == 1
    minutes.circuits = seen()
    assert passes(minutes, 1) == 0


def test_a_hold_whose_begin_is_not_on_record_counts_from_when_it_was_seen() -> None:
    hold = Override(State.CLOSED, "ada", "false alarm", NO_END)
    minutes = looking_at(Circuit("orders", forced=hold))
    minutes.pass_minutes(1)
    minutes.now = BEGIN + DAY - MINUTE
    assert passes(minutes, 1) is None
    assert passes(minutes, 1) == 1


# Flapping.


def flap(minutes: Minutes, outage: int, trips: int, *, open_for: int = 2) -> None:
    """The circuit opens, and closes after so many looks; ten minutes in all."""
    opened = replace(OPEN, outage=outage, trips=trips, opened_at=minutes.now - 10)
    minutes.circuits = seen(opened)
    minutes.pass_minutes(open_for)
    minutes.circuits = seen(closed(opened))
    minutes.pass_minutes(10 - open_for)


def test_a_circuit_that_opens_three_times_within_an_hour_calls_a_person() -> None:
    minutes = looking_at(Circuit("orders"))
    minutes.pass_minutes(1)
    flap(minutes, 1, 1)
    flap(minutes, 3, 2)
    assert minutes.value(TROUBLE) is None
    flap(minutes, 5, 3)
    assert minutes.value(TROUBLE) == 1
    assert minutes.why(TROUBLE) == "circuit orders has opened 3 times within 60 minutes"
    minutes.circuits = None
    assert passes(minutes, 1) == 1
    minutes.circuits = seen(Circuit("orders", outage=5, trips=3))
    # The first of the three is 30 minutes old; it leaves the hour in another half.
    assert passes(minutes, 28) == 1
    assert passes(minutes, 2) == 0


def test_outages_shorter_than_a_minute_are_counted_by_their_trips() -> None:
    minutes = looking_at(Circuit("orders"))
    minutes.pass_minutes(1)
    minutes.circuits = seen(Circuit("orders", outage=5, trips=3, opened_at=BEGIN + 30))
    assert passes(minutes, 1) == 1


def test_trips_that_begin_again_at_one_are_an_outage_after_a_settled_one() -> None:
    minutes = looking_at(Circuit("orders", outage=9, trips=4), flapping_times=2)
    minutes.pass_minutes(1)
    minutes.circuits = seen(Circuit("orders", outage=11, trips=1, opened_at=BEGIN + 30))
    assert passes(minutes, 1) is None
    minutes.circuits = seen(Circuit("orders", outage=13, trips=2, opened_at=BEGIN + 90))
    assert passes(minutes, 1) == 1


def test_outages_before_the_first_look_are_not_counted() -> None:
    minutes = looking_at(Circuit("orders", outage=9, trips=20, opened_at=BEGIN - 10))
    assert passes(minutes, 5) is None
    minutes = looking_at(replace(OPEN, outage=9, trips=20))
    assert passes(minutes, 5) is None


def test_an_outage_that_a_person_begins_is_no_flapping() -> None:
    minutes = looking_at(Circuit("orders"), flapping_times=2)
    minutes.pass_minutes(1)
    for outage in (1, 3, 5):
        hold = Override(State.OPEN, "ada", "trying", minutes.now + HOUR)
        minutes.circuits = seen(replace(OPEN, outage=outage, trips=1, forced=hold))
        minutes.pass_minutes(1)
        minutes.circuits = seen(Circuit("orders", outage=outage, trips=1))
        assert passes(minutes, 1) is None


def test_a_named_dependency_that_flaps_is_known_between_its_outages() -> None:
    payments = replace(OPEN, key="dependency/payments")
    minutes = looking_at(Circuit("orders"))
    for outage in (1, 3, 5):
        minutes.circuits = seen(replace(payments, outage=outage, trips=1, opened_at=minutes.now))
        minutes.pass_minutes(1)
        # Closed circuits are not listed.
        minutes.circuits = seen(Circuit("orders"))
        minutes.pass_minutes(12)
    assert minutes.value(TROUBLE) == 1
    assert passes(minutes, 60) is None
    assert minutes.row is not None
    assert set(minutes.row.circuits.openings) == {"orders"}


def test_no_more_outages_are_remembered_than_a_threshold_may_ask_for() -> None:
    minutes = looking_at(Circuit("orders"))
    minutes.pass_minutes(1)
    minutes.circuits = seen(Circuit("orders", outage=999, trips=500, opened_at=minutes.now))
    minutes.pass_minutes(1)
    assert minutes.row is not None
    assert len(minutes.row.circuits.openings["orders"].at) == MOST_OPENINGS


def test_a_malformed_record_forgets_no_outage() -> None:
    minutes = looking_at(Circuit("orders", outage=9, trips=2), flapping_times=2)
    minutes.pass_minutes(1)
    minutes.circuits = seen(Circuit("orders", State.OPEN, unreadable=True))
    minutes.pass_minutes(1)
    minutes.circuits = seen(Circuit("orders", outage=9, trips=2))
    assert passes(minutes, 1) == 0


@pytest.mark.parametrize(
    ("changes", "expected"),
    [({"circuit_open_after": 5 * MINUTE}, 6), ({"circuit_open_after": 2 * HOUR}, 121)],
)
def test_thresholds_are_the_pipelines(changes: dict[str, int], expected: int) -> None:
    minutes = looking_at(OPEN, **changes)
    assert first_minute(lambda: passes(minutes, 1) == 1) == expected


def first_minute(is_true: Callable[[], bool]) -> int:
    return next(number for number in range(1, 1000) if is_true())
