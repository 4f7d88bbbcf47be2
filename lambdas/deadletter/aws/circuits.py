"""The circuits in DynamoDB, one item per dependency, as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import PipelineRows, is_counted
from deadletter.aws.errors import NoteRow, ignore, ours, row_name
from deadletter.aws.rows import count_of, part_of, readable, text_of
from deadletter.aws.table import Key, stored_number
from deadletter.circuit.state import (
    Circuit,
    Circuits,
    CircuitsUnavailable,
    OutcomeBucket,
    Override,
    Pause,
    Permit,
    Pollers,
    State,
)
from deadletter.contract import CAUSES_ROW, CIRCUITS, COLLISIONS_ROW, TROUBLED

if TYPE_CHECKING:
    from deadletter.pace.kinds import KindCount, SickKinds
    from deadletter.pace.pace import CallCount, CallPace

PARTITION = CIRCUITS.partition
SORT = CIRCUITS.sort

GOOD, BAD, SLOW = "good_", "bad_", "slow_"
"""Prefixes of the counters. Each bucket has its own attributes, so that outcomes are added
without a read."""

GOOD_TENANTS, BAD_TENANTS = "tg_", "tb_"
"""Prefixes of the sets with hashes of tenants, likewise."""

CALLS_OK, CALLS_FAILED, CALLS_THROTTLED = "ok_", "failed_", "throttled_"
"""Prefixes of the counters of all calls, likewise."""

OF_CALLS = (CALLS_OK, CALLS_FAILED, CALLS_THROTTLED)

PACE = "pace"
"""Attribute: the circuit's pace, as a map of its fields."""

KIND_FAILED, KIND_GOOD = "x_", "y_"
"""Prefixes of the counters of kinds: `x_{number}_{kind}`."""

OF_KINDS = (KIND_FAILED, KIND_GOOD)

SICK = "sick"
"""Attribute: the kinds that are slowed, as a map of `turn` and of their names."""

OF_BUCKETS = (GOOD, BAD, SLOW, GOOD_TENANTS, BAD_TENANTS)


def counter_names(prefixes: Sequence[str], of: Iterable[object]) -> list[str]:
    """The counters with these prefixes of buckets, by their numbers, or of kinds."""
    return [f"{prefix}{each}" for each in of for prefix in prefixes]


def of_kind(count: KindCount) -> str:
    """What the names of the counters of a kind end with."""
    return f"{count.number}_{count.kind}"


STREAK_AT = "streak_at"
"""Attribute: when the first failure of the streak was counted; absent without a streak."""

STREAK_TENANTS = "streak_tenants"
"""Attribute: the set with hashes of tenants whose calls failed in the streak."""

KEEP_SECONDS = 100 * 86_400.0
"""How long a circuit stays after its last change. Longer than the 90 days in which Step
Functions refuses a name again: a circuit that expires counts from 0 once more, and would
give its executions names that are taken."""

KEPT_UNTIL = "kept_until"
"""Attribute of a circuit with an override: the least time that its row is kept until. Whatever
writes the row's expiry writes this instead, so that no override expires with its row."""

BY_HAND = "by_hand"
"""Attribute: true while a circuit is open that a person opened; absent otherwise."""

BOUNDED = "bounded"
"""Attribute: true while the consumer's mapping has a MaximumConcurrency; absent otherwise."""

TOTALS = ("total_calls", "total_failed", "total_refused")
"""Attributes: what is added up with each write of outcomes. They cost no write of their own, and
less than 100 of the 1,024 bytes that one write unit pays for."""

COUNTED_SINCE = "counted_since"
"""Attribute: when the totals began; a circuit whose row expired begins anew."""

NUMBERS = tuple(field.name for field in fields(Circuit) if field.type in ("int", "float"))
"""Attributes of a circuit that are counts and times."""


@dataclass(eq=False, repr=False)
class DynamoDBCircuits(PipelineRows, Circuits):
    """The circuits of one pipeline, read consistently where they may not be `lagging`."""

    note_bad_row: NoteRow = ignore

    KEYS = CIRCUITS

    def read(self, keys: Sequence[str], *, lagging: bool = False) -> Mapping[str, Circuit]:
        return {key: Circuit(key) for key in keys} | self.recorded(keys, lagging=lagging)

    def recorded(self, keys: Sequence[str], *, lagging: bool = False) -> dict[str, Circuit]:
        """The circuits among these keys that have a record."""
        with ours(CircuitsUnavailable):
            items = self._table.get_many([self.key_of(key) for key in keys], lagging=lagging)
        return self._circuits(items.values())

    def _circuits(self, items: Iterable[Mapping[str, Any]]) -> dict[str, Circuit]:
        circuits = {}
        for item in items:
            key = item[SORT]
            circuits[key] = circuit = circuit_from_item(item)
            malformed_pace = PACE in item and circuit.pace is None
            malformed_kinds = SICK in item and circuit.sick is None
            if circuit.unreadable or malformed_pace or malformed_kinds:
                self.note_bad_row(row_name(self._table.name, self.pipeline, key))
        return circuits

    def keys(self) -> Sequence[str]:
        """The keys of all circuits that have a record. Needs permission for Query."""
        with ours(CircuitsUnavailable):
            items = self._table.query(self.pipeline, only=[SORT], lagging=True)
        return [item[SORT] for item in items if item[SORT] not in (CAUSES_ROW, COLLISIONS_ROW)]

    def troubled(self) -> Sequence[Circuit]:
        """The circuits that are not closed, have an override, or have a paused consumer."""
        with ours(CircuitsUnavailable):
            items = self._table.query(self.pipeline, index=TROUBLED)
        # Another pipeline's circuit may name this one in the index.
        keys = [item[SORT] for item in items if item[PARTITION] == self.pipeline]
        # The index lags behind the items, so they are read.
        return [circuit for circuit in self.read(keys).values() if is_troubled(circuit)]

    def find(self, key: str) -> Circuit:
        """One circuit. Needs permission for GetItem; `read` needs it for BatchGetItem."""
        with ours(CircuitsUnavailable):
            item = self._table.get(self.key_of(key))
        return Circuit(key) if item is None else self._circuits([item])[key]

    def key_of(self, key: str) -> Key:
        """The primary key of a circuit's item."""
        return (self.pipeline, key)


def circuit_from_item(item: Mapping[str, Any]) -> Circuit:
    """The circuit in an item. A malformed item gives an OPEN circuit marked unreadable: hold.

    An item may have a state and nothing else: then a person typed it.
    """
    return readable(_circuit, item, Circuit(str(item[SORT]), State.OPEN, unreadable=True))


def _circuit(item: Mapping[str, Any]) -> Circuit:
    because = item.get("because")
    return part_of(
        Circuit,
        item,
        key=str(item[SORT]),
        state=State(item["state"]),
        buckets=_buckets(item),
        streak_tenants=_tenants(item.get(STREAK_TENANTS)),
        # Whatever else it says: messages are given back at once.
        bounded=item.get(BOUNDED) is True,
        # Whatever else it says: only slower to close.
        by_hand=item.get(BY_HAND) is True,
        permit=_permit(item.get("permit")),
        forced=_override(item.get("forced")),
        paused=_pause(item.get("paused")),
        # For people: a malformed text holds no letter.
        because=because if isinstance(because, str) else "",
        # A wrong row must not stop the consumer, nor slow it.
        pace=readable(_pace, item, None),
        calls=_calls(item),
        kinds=_kinds(item),
        sick=readable(_sick, item, None),
    )


def _permit(data: Any) -> Permit | None:
    return None if data is None else part_of(Permit, data)


def _override(data: Any) -> Override | None:
    if data is None:
        return None
    override = part_of(Override, data, state=State(data["state"]))
    if override.state is State.HALF_OPEN or override.begun is None:
        raise ValueError("a circuit is forced OPEN or CLOSED since some time")
    return override


def _pause(data: Any) -> Pause | None:
    if data is None:
        return None
    pollers = data.get("pollers")
    limits = None if pollers is None else Pollers(*map(count_of, pollers))
    return part_of(Pause, data, pollers=limits)


def _pace(item: Mapping[str, Any]) -> CallPace | None:
    """The pace; None if no pace is like that."""
    data = item[PACE]
    from deadletter.pace.pace import FLOOR, MOST, THROTTLED, CallPace

    because = text_of(data["because"])[:_MOST_WORDS]
    pace = part_of(CallPace, data, turn=count_of(data["turn"]), because=because)
    is_sane = all(FLOOR <= rate <= MOST for rate in (pace.limit, pace.cap) if rate is not None)
    is_capped = pace.cap is not None or pace.because == THROTTLED
    return pace if is_sane and is_capped and pace.normal <= MOST else None


_MOST_WORDS = 80


def _calls(item: Mapping[str, Any]) -> tuple[CallCount, ...]:
    numbers = {name.rpartition("_")[2] for name in item if name.startswith(OF_CALLS)}
    if not numbers:
        return ()
    from deadletter.pace.pace import CallCount

    counts = (
        (int(number), *(_count(item.get(prefix + number, 0)) for prefix in OF_CALLS))
        for number in numbers
        if is_counted(number)
    )
    return tuple(sorted((CallCount(*each) for each in counts), key=attrgetter("number")))


def _count(value: Any) -> int:
    """A count; a malformed one is 0: it is one sign of many."""
    return readable(count_of, value, 0)


def _kinds(item: Mapping[str, Any]) -> tuple[KindCount, ...]:
    """The counts of kinds; a malformed number is 0, and a malformed name is left out."""
    names = [name for name in item if name.startswith(OF_KINDS)]
    if not names:
        return ()
    from deadletter.pace.kinds import KindCount, is_kind

    found = set()
    for name in names:
        number, _, kind = name[2:].partition("_")
        if is_counted(number) and is_kind(kind):
            found.add((number, kind))
    return tuple(
        KindCount(
            kind,
            int(number),
            *(_count(item.get(f"{prefix}{number}_{kind}", 0)) for prefix in OF_KINDS),
        )
        for number, kind in sorted(found)
    )


def _sick(item: Mapping[str, Any]) -> SickKinds | None:
    """The kinds that are slowed; None if none are like that: a wrong row must hold no message."""
    data = item[SICK]
    from deadletter.pace.kinds import HEALED, MOST_SICK, SickKind, SickKinds, is_kind

    kinds = tuple(part_of(SickKind, each, kind=name) for name, each in data["kinds"].items())
    named = all(each.kind and is_kind(each.kind) and each.good < HEALED for each in kinds)
    is_sane = named and len(kinds) <= MOST_SICK
    return SickKinds(count_of(data["turn"]), kinds) if is_sane else None


def _buckets(item: Mapping[str, Any]) -> tuple[OutcomeBucket, ...]:
    numbers = {name.rpartition("_")[2] for name in item if name.startswith(OF_BUCKETS)}
    return tuple(
        OutcomeBucket(
            int(number),
            count_of(item.get(GOOD + number, 0)),
            count_of(item.get(BAD + number, 0)),
            count_of(item.get(SLOW + number, 0)),
            _tenants(item.get(GOOD_TENANTS + number)),
            _tenants(item.get(BAD_TENANTS + number)),
        )
        for number in sorted(numbers, key=int)
    )


def _tenants(value: Any) -> frozenset[int]:
    return frozenset(int(member) for member in value) if value else frozenset()


def is_troubled(circuit: Circuit) -> bool:
    """Whether it is not closed, has an override, or has a paused consumer: the index names it."""
    return not circuit.is_closed or circuit.forced is not None or circuit.paused is not None


def fields_of(part: Permit | Override | Pause | CallPace) -> dict[str, Any]:
    """A part of a circuit as an item has it; absent fields are left out."""
    fields = {name: getattr(part, name) for name in part.__slots__}
    return {
        name: stored_number(value)
        if isinstance(value, float)
        else str(value)
        if name == "state"
        else value
        for name, value in fields.items()
        if value is not None
    }
