"""Whether a circuit needs a person, and why: what is remembered of the circuits for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deadletter.circuit.state import Circuit
from deadletter.contract import DAY, MINUTE, WatchDefaults, is_config_key
from deadletter.watch.observation import CircuitsState
from deadletter.watch.row import CircuitOpenings, CircuitsRow

HELD_TOO_LONG = float(DAY)
"""Seconds after which any hold without an end is shown: a person may have forgotten it."""

MOST_OPENINGS = 20
"""The most outages of a circuit that are remembered; no threshold is higher."""

NO_OPENINGS = CircuitOpenings(outage=0, trips=0)


def with_circuits(
    row: CircuitsRow, state: CircuitsState | None, alarms: WatchDefaults, now: float
) -> CircuitsRow:
    """The row after a look at the circuits; as it was if they could not be read."""
    if state is None:
        return row
    not_closed = [circuit for circuit in state.of_all if not circuit.is_closed]
    many = state.open_keys >= alarms.open_circuits
    begun = now if row.many_since is None else row.many_since
    return CircuitsRow(
        not_closed={
            circuit.key: _since(row, circuit, now)
            for circuit in not_closed
            if not is_config_key(circuit.key)
        },
        stuck={
            circuit.key: why
            for circuit in not_closed
            if not _has_end(circuit, now) and (why := _stuck(circuit))
        },
        openings=_openings(row.openings, state, now - alarms.flapping_within, now),
        many_since=begun if many else None,
    )


def _has_end(circuit: Circuit, now: float) -> bool:
    """Whether a person holds the circuit until a time that is yet to come."""
    return circuit.forced is not None and circuit.forced.has_end and circuit.is_forced(now)


def _since(row: CircuitsRow, circuit: Circuit, now: float) -> float:
    """Since when a circuit is not closed. The time of a hold with an end does not count."""
    if _has_end(circuit, now):
        return now
    begun = row.not_closed.get(circuit.key)
    return min(now, circuit.opened_at or now) if begun is None else begun


def _stuck(circuit: Circuit) -> str:
    """Why no automation will close a circuit; empty if it may."""
    if circuit.unreadable:
        return f"the record of circuit {circuit.key} is malformed, and its letters are held"
    if is_config_key(circuit.key):
        return f"circuit {circuit.key} waits until its configuration is repaired"
    return ""


def _openings(
    rows: Mapping[str, CircuitOpenings], state: CircuitsState, oldest: float, now: float
) -> dict[str, CircuitOpenings]:
    """The outages of each circuit of all messages, without those before `oldest`."""
    seen = {
        circuit.key: _opened(rows.get(circuit.key), circuit, now)
        for circuit in state.of_all
        if not is_config_key(circuit.key)
    }
    recent = {
        key: CircuitOpenings(
            outage=row.outage,
            trips=row.trips,
            at=tuple(at for at in row.at if at > oldest)[-MOST_OPENINGS:],
        )
        for key, row in {**rows, **seen}.items()
    }
    return {key: row for key, row in recent.items() if row.at or key in seen}


def _opened(row: CircuitOpenings | None, circuit: Circuit, now: float) -> CircuitOpenings:
    """The outages after a look. A circuit may open more than once between two looks.

    Its trips say how often, as long as it has not settled in between. An outage that a person
    began does not count.
    """
    known = row or NO_OPENINGS
    if circuit.unreadable:
        return known
    if row is None:
        # Of a closed circuit that was never seen, the outages are over.
        new = 0 if circuit.is_closed else 1
    elif circuit.outage == row.outage:
        new = 0
    elif circuit.trips > row.trips:
        new = circuit.trips - row.trips
    else:
        new = 1 if circuit.trips == 1 else circuit.trips if circuit.trips < row.trips else 0
    if circuit.forced is not None and not circuit.is_closed:
        new = 0
    began = min(now, circuit.opened_at or now)
    at = (*known.at, *(began,) * min(new, MOST_OPENINGS))
    return CircuitOpenings(outage=circuit.outage, trips=circuit.trips, at=at)


def circuit_reasons(
    row: CircuitsRow,
    held: Mapping[str, float],
    causes: float,
    alarms: WatchDefaults,
    now: float,
) -> Iterator[str]:
    """Why circuits need a person: nothing if they do not.

    `held` says since when circuits are held without an end, `causes` how many causes of failure
    are.
    """
    yield from row.stuck.values()
    if causes:
        yield "a cause of failure suddenly fails most messages: none is parked for it"
    for key, since in row.not_closed.items():
        if now - since >= alarms.circuit_open_after:
            by = ", and a person holds it without an end" if key in held else ""
            yield f"circuit {key} has not been closed for {_minutes(now - since)}{by}"
    for key, openings in row.openings.items():
        times = sum(now - at < alarms.flapping_within for at in openings.at)
        if times >= alarms.flapping_times:
            within = _minutes(alarms.flapping_within)
            yield f"circuit {key} has opened {times} times within {within}"
    if row.many_since is not None and now - row.many_since >= alarms.open_circuits_for:
        yield (
            f"{alarms.open_circuits} or more circuits of single keys have not been closed for"
            f" {_minutes(now - row.many_since)}"
        )
    for key, since in held.items():
        if now - since >= HELD_TOO_LONG:
            yield f"circuit {key} has been held without an end for {_minutes(now - since)}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def _minutes(seconds: float) -> str:
    return _count(int(seconds // MINUTE), "minute")
