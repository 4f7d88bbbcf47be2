"""The circuits in DynamoDB, one item per dependency, as they are read."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import MANY, PipelineRows, is_counted
from deadletter.aws.errors import NoteRow, ignore, ours, row_name
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

NUMBERS = (
    *("generation", "outage", "restart", "started", "open_until", "cooldown", "opened_at"),
    *("closed_at", "trips", "successes", "streak", "rate", *TOTALS, "openings", COUNTED_SINCE),
)
_COUNTS = frozenset(
    ("generation", "outage", "restart", "trips", "successes", "streak", *TOTALS, "openings")
)


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
    key = str(item[SORT])
    try:
        return Circuit(
            key=key,
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
            because=_words(item.get("because")),
            pace=_pace(item.get(PACE)),
            calls=_calls(item),
            kinds=_kinds(item),
            sick=_sick(item.get(SICK)),
            **{name: _number(name, item[name]) for name in NUMBERS if name in item},
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return Circuit(key, State.OPEN, unreadable=True)


def _number(name: str, value: Any) -> Any:
    """A count (int) or a time (float). Rejects text and negative numbers by ValueError."""
    if not isinstance(value, Decimal | int | float) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} must be a number, 0 or more")
    if name not in _COUNTS:
        return float(value)
    if value != int(value):
        raise ValueError(f"{name} must be a whole number")
    if value >= MANY:
        # DynamoDB would refuse to store the next one, or to add to it, and all else with it.
        raise ValueError(f"{name} is more than can be counted")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a text")
    return value


def _words(value: Any) -> str:
    """A text for people; a malformed one holds no letter."""
    return value if isinstance(value, str) else ""


def _permit(data: Any) -> Permit | None:
    if data is None:
        return None
    origin, attempt, sent_at = (data.get(name) for name in ("origin", "attempt", "sent_at"))
    return Permit(
        _text(data["owner"]),
        _number("until", data["until"]),
        None if origin is None else _text(origin),
        None if attempt is None else _number("restart", attempt),
        None if sent_at is None else _number("until", sent_at),
    )


def _override(data: Any) -> Override | None:
    if data is None:
        return None
    state = State(data["state"])
    if state is State.HALF_OPEN:
        raise ValueError("a circuit can be forced OPEN or CLOSED, not HALF_OPEN")
    canary_until = data.get("canary_until")
    return Override(
        state,
        _text(data["by"]),
        _text(data["reason"]),
        _number("until", data["until"]),
        _number("begun", data["begun"]),
        None if canary_until is None else _number("until", canary_until),
    )


def _pause(data: Any) -> Pause | None:
    if data is None:
        return None
    concurrency, pollers = data.get("concurrency"), data.get("pollers")
    return Pause(
        _text(data["mapping"]),
        None if concurrency is None else _number("restart", concurrency),
        _number("at", data["at"]),
        None if pollers is None else Pollers(*(_number("restart", limit) for limit in pollers)),
    )


def _pace(data: Any) -> CallPace | None:
    """The pace; None if it is malformed: a wrong row must not stop the consumer, nor slow it."""
    if data is None:
        return None
    from deadletter.pace.pace import FLOOR, MOST, THROTTLED, CallPace

    try:
        numbers = {name: _number("rate", data[name]) for name in _OF_PACE if name in data}
        turn = _number("streak", data["turn"])
        pace = CallPace(**numbers, turn=turn, because=_text(data["because"])[:_MOST_WORDS])
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    is_sane = all(FLOOR <= rate <= MOST for rate in (pace.limit, pace.cap) if rate is not None)
    is_capped = pace.cap is not None or pace.because == THROTTLED
    return pace if is_sane and is_capped and pace.normal <= MOST else None


_OF_PACE = (
    *("limit", "normal", "cap", "since", "changed"),
    *("utat", "ptat", "fell", "stepped", "waited"),
)

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
    try:
        return int(_number("streak", value))
    except (ValueError, ArithmeticError):
        return 0


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


def _sick(data: Any) -> SickKinds | None:
    """The kinds that are slowed; None if they are malformed: a wrong row must hold no message."""
    if data is None:
        return None
    from deadletter.pace.kinds import HEALED, MOST_SICK, SickKind, SickKinds, is_kind

    try:
        turn, entries = _number("streak", data["turn"]), data["kinds"].items()
        kinds = tuple(
            SickKind(name, _number("rate", each["next_try"]), _number("streak", each["good"]))
            for name, each in entries
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return None
    named = all(each.kind and is_kind(each.kind) and each.good < HEALED for each in kinds)
    return SickKinds(turn, kinds) if named and len(kinds) <= MOST_SICK else None


def _buckets(item: Mapping[str, Any]) -> tuple[OutcomeBucket, ...]:
    numbers = {name.rpartition("_")[2] for name in item if name.startswith(OF_BUCKETS)}
    return tuple(
        OutcomeBucket(
            int(number),
            _number("streak", item.get(GOOD + number, 0)),
            _number("streak", item.get(BAD + number, 0)),
            _number("streak", item.get(SLOW + number, 0)),
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
