"""Changes of the circuits in DynamoDB: each transition is one conditional write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from deadletter.aws.circuits import (
    BOUNDED,
    BY_HAND,
    KEEP_SECONDS,
    KEPT_UNTIL,
    NUMBERS,
    OF_BUCKETS,
    OF_CALLS,
    PACE,
    PARTITION,
    SORT,
    STREAK_AT,
    STREAK_TENANTS,
    DynamoDBCircuits,
    circuit_from_item,
    counter_names,
    fields_of,
    is_troubled,
)
from deadletter.aws.errors import Conflict, ours
from deadletter.aws.table import Condition, absent, equals, every, present, stored_number
from deadletter.circuit.state import (
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    State,
)
from deadletter.circuit.transitions import Breaker, Event, Refusal, TransitionResult, transition
from deadletter.contract import TROUBLED

_MOST_CONFLICTS = 6
"""Tries to apply an event while other writers change the same circuit."""

_PARTS = ("permit", "forced", "paused", PACE)
_ABSENT_WHEN_UNSET = (*_PARTS, BOUNDED, BY_HAND, KEPT_UNTIL, TROUBLED.partition)


@dataclass(eq=False, repr=False, kw_only=True)
class DynamoDBBreaker(DynamoDBCircuits, Breaker):
    """Reads and changes the circuits of one pipeline.

    `clock` returns epoch seconds, `new_id` a unique text.
    """

    policy: CircuitPolicy
    clock: Callable[[], float]
    random: Random
    new_id: Callable[[], str]

    def apply(self, key: str, event: Event) -> TransitionResult:
        return self.apply_to(self.read([key])[key], event)

    def apply_to(self, circuit: Circuit, event: Event) -> TransitionResult:
        """Apply an event to a circuit that was just read, and so save the read of `apply`."""
        for _ in range(_MOST_CONFLICTS):
            after = transition(circuit, event, self.policy, self.clock(), self.random)
            if isinstance(after, Refusal):
                return TransitionResult(circuit, after)
            if after == circuit:
                return TransitionResult(circuit)
            conflicting = self._write(circuit, after)
            if conflicting is None:
                return TransitionResult(after)
            circuit = conflicting
        raise CircuitsUnavailable(f"circuit {circuit.key} changes too often at once")

    @ours(CircuitsUnavailable)
    def _write(self, before: Circuit, after: Circuit) -> Circuit | None:
        """Write a transition. Returns None, or the stored circuit if another writer was first.

        #  generation 4 ──write 5 (finds 4)──► 5, token a
        #                 ├─ the SDK repeats the write, because its first answer was lost:
        #                 │  it finds 5 with its own token a ──► done
        #                 └─ another writer's 5 finds token a, not its own ──► conflict
        """
        token = self.new_id()
        bookkeeping = {"token": token, "ttl": _expiry(after, self.clock())}
        try:
            if before.unreadable:
                self._replace(after, bookkeeping)
            else:
                self._table.change(
                    self.key_of(before.key),
                    {**_sets(self.pipeline, before, after), **bookkeeping},
                    removes=_removes(self.pipeline, before, after),
                    when=_is_still(before, after),
                )
        except Conflict as conflict:
            item = conflict.item
            if not item:
                return Circuit(before.key)
            return None if item.get("token") == token else circuit_from_item(item)
        return None

    def _replace(self, circuit: Circuit, bookkeeping: Mapping[str, Any]) -> None:
        """Replace an unreadable item, whatever it holds."""
        item = {PARTITION: self.pipeline, SORT: circuit.key, **bookkeeping}
        self._table.put({**item, **_attributes(self.pipeline, circuit)}, present(SORT))


def _attributes(pipeline: str, circuit: Circuit) -> dict[str, Any]:
    """The attributes of a circuit, without its counters and without absent parts."""
    values: dict[str, Any] = {"state": str(circuit.state)}
    values |= {name: stored_number(getattr(circuit, name)) for name in NUMBERS}
    if circuit.because:
        values["because"] = circuit.because
    for name in _PARTS:
        if getattr(circuit, name) is not None:
            values[name] = fields_of(getattr(circuit, name))
    if circuit.bounded:
        values[BOUNDED] = True
    if circuit.by_hand:
        values[BY_HAND] = True
    if circuit.forced is not None:
        values[KEPT_UNTIL] = _expiry(circuit, circuit.forced.until)
    if is_troubled(circuit):
        values[TROUBLED.partition] = pipeline
    return values


def _expiry(circuit: Circuit, now: float) -> int:
    """When the row of a circuit that changes now expires: never before its override."""
    end = now if circuit.forced is None else max(now, circuit.forced.until)
    return int(end + KEEP_SECONDS)


def _sets(pipeline: str, before: Circuit, after: Circuit) -> dict[str, Any]:
    """The attributes that differ in one circuit from those of another."""
    old, new = _attributes(pipeline, before), _attributes(pipeline, after)
    # State and index are written each time: an item that a person typed may lack the index.
    sets = {
        name: value
        for name, value in new.items()
        if name in ("state", TROUBLED.partition) or old.get(name) != value
    }
    if after.pace == before.pace:
        # Its own writers change it beside the state.
        sets.pop(PACE, None)
    return sets


def _removes(pipeline: str, before: Circuit, after: Circuit) -> list[str]:
    """The attributes that one circuit has no more, behind another."""
    new = _attributes(pipeline, after)
    removes = [name for name in _ABSENT_WHEN_UNSET if name not in new]
    removes += counter_names(OF_BUCKETS, _gone(before.buckets, after.buckets))
    removes += counter_names(OF_CALLS, _gone(before.calls, after.calls))
    # Other writers change these beside the state.
    beside = {PACE: after.pace == before.pace, BOUNDED: after.bounded == before.bounded}
    beside["paused"] = after.paused == before.paused
    removes = [name for name in removes if not beside.get(name)]
    return [*removes, STREAK_AT, STREAK_TENANTS] if before.streak and not after.streak else removes


def _gone(before: Sequence[Any], after: Sequence[Any]) -> list[int]:
    """The numbers of buckets, or of counts of calls, that are left out."""
    remaining = {bucket.number for bucket in after}
    return [bucket.number for bucket in before if bucket.number not in remaining]


def _is_still(before: Circuit, after: Circuit) -> Condition:
    """The condition that the stored circuit is still the one `before`."""
    # A person who types a state into the table leaves the generation as it is.
    same_state = equals("state", str(before.state))
    never_stored = absent("state")
    conditions = [
        _counts("generation", before.generation),
        same_state | never_stored if before.state is State.CLOSED else same_state,
    ]
    if after.restart != before.restart:
        conditions.append(_counts("restart", before.restart))
    # A pause is written beside the state. A write that takes the circuit out of the index
    # must therefore check that no consumer is paused: outside the index no run would find it.
    if after.paused != before.paused or not is_troubled(after):
        paused = before.paused
        conditions.append(
            absent("paused")
            if paused is None
            # Beside it anybody may have written more, or the time with other digits.
            else equals(("paused", "mapping"), paused.mapping)
        )
    return every(conditions)


def _counts(name: str, value: int) -> Condition:
    """The condition that a count has a value; one that is missing is 0."""
    return equals(name, value) if value else equals(name, value) | absent(name)
