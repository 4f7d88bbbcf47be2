"""Whether a circuit needs a person, and why: what is remembered of the circuits for that."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from deadletter.circuit.state import Circuit
from deadletter.contract import DAY, WatchDefaults, is_config_key
from deadletter.signals.troubles import Seen, TroubleKind
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
            circuit.key: kind
            for circuit in not_closed
            if not _has_end(circuit, now) and (kind := _stuck(circuit))
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
    """The trouble of a circuit that no automation will close; empty if it may."""
    if circuit.unreadable:
        return TroubleKind.CIRCUIT_MALFORMED
    return TroubleKind.CONFIGURATION if is_config_key(circuit.key) else ""


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


def circuit_troubles(
    row: CircuitsRow,
    held: Mapping[str, float],
    causes: float,
    alarms: WatchDefaults,
    now: float,
) -> Iterator[Seen]:
    """What of the circuits needs a person.

    `held` says since when circuits are held without an end, `causes` how many causes of failure
    are.
    """
    for key, stuck in row.stuck.items():
        yield Seen(TroubleKind(stuck), {"key": key})
    if causes:
        yield Seen(TroubleKind.CAUSE_DOMINATES)
    open_long = {
        key: now - since
        for key, since in row.not_closed.items()
        if now - since >= alarms.circuit_open_after
    }
    for key, seconds in open_long.items():
        if key not in held:
            yield Seen(TroubleKind.CIRCUIT_OPEN, {"key": key, "seconds": seconds})
    for key, openings in row.openings.items():
        times = sum(now - at < alarms.flapping_within for at in openings.at)
        if times >= alarms.flapping_times:
            facts: dict[str, str | float] = {"key": key, "times": times}
            yield Seen(TroubleKind.CIRCUIT_FLAPS, facts | {"within": alarms.flapping_within})
    if row.many_since is not None and now - row.many_since >= alarms.open_circuits_for:
        seconds = now - row.many_since
        yield Seen(TroubleKind.MANY_CIRCUITS, {"most": alarms.open_circuits, "seconds": seconds})
    for key, since in held.items():
        if key in open_long or now - since >= HELD_TOO_LONG:
            yield Seen(TroubleKind.CIRCUIT_HELD, {"key": key, "seconds": now - since})
