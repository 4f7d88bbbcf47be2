"""The circuits in DynamoDB: one item per dependency, each transition one conditional write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, StillUnprocessed, refusal
from deadletter.aws.table import (
    batch_get,
    changes,
    conditional,
    conflicting_item,
    pages,
    plain,
    stored,
    stored_number,
)
from deadletter.circuit.state import (
    Circuit,
    CircuitPolicy,
    Circuits,
    CircuitsUnavailable,
    OutcomeBucket,
    Override,
    Pause,
    Permit,
    Pollers,
    State,
)
from deadletter.circuit.transitions import Breaker, Event, Refusal, TransitionResult, transition
from deadletter.contract import CAUSES_ROW, CIRCUITS, TROUBLED

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = CIRCUITS.partition
SORT = CIRCUITS.sort

GOOD, BAD, SLOW = "good_", "bad_", "slow_"
"""Prefixes of the counters. Each bucket has its own attributes, so that outcomes are added
without a read."""

GOOD_TENANTS, BAD_TENANTS = "tg_", "tb_"
"""Prefixes of the sets with hashes of tenants, likewise."""

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

_MOST_CONFLICTS = 6
"""Tries to apply an event while other writers change the same circuit."""

_NUMBERS = (
    *("generation", "outage", "restart", "started", "open_until", "cooldown", "opened_at"),
    *("closed_at", "trips", "successes", "streak", "rate", "admitted"),
)
_PARTS = ("permit", "forced", "paused")
_ABSENT_WHEN_UNSET = (*_PARTS, KEPT_UNTIL, TROUBLED.partition)
_COUNTS = frozenset(("generation", "outage", "restart", "trips", "successes", "streak"))


class DynamoDBCircuits(Circuits):
    """The circuits of one pipeline, read consistently."""

    def __init__(self, client: DynamoDBClient, table: str, pipeline: str) -> None:
        self._client: Any = client
        self._table = table
        self._pipeline = pipeline

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        return {key: Circuit(key) for key in keys} | self.recorded(keys)

    def recorded(self, keys: Sequence[str]) -> dict[str, Circuit]:
        """The circuits among these keys that have a record."""
        try:
            items = batch_get(
                self._client, self._table, [self._key(key) for key in sorted(set(keys))]
            )
        except (*AWS_ERRORS, StillUnprocessed) as error:
            raise self._unavailable(error) from error
        return {item[SORT]: circuit_from_item(item) for item in items}

    def keys(self) -> Sequence[str]:
        """The keys of all circuits that have a record. Needs permission for Query."""
        answers = pages(
            self._client,
            TableName=self._table,
            KeyConditionExpression=f"{PARTITION} = :pipeline",
            ProjectionExpression=SORT,
            ExpressionAttributeValues=stored({":pipeline": self._pipeline}),
        )
        try:
            keys = [item[SORT]["S"] for answer in answers for item in answer.get("Items", [])]
            return [key for key in keys if key != CAUSES_ROW]
        except AWS_ERRORS as error:
            raise self._unavailable(error) from error

    def troubled(self) -> Sequence[Circuit]:
        """The circuits that are not closed, have an override, or have a paused consumer."""
        answers = pages(
            self._client,
            TableName=self._table,
            IndexName=TROUBLED.name,
            KeyConditionExpression=f"{TROUBLED.partition} = :pipeline",
            ExpressionAttributeValues=stored({":pipeline": self._pipeline}),
        )
        try:
            keys = [item[SORT]["S"] for answer in answers for item in answer.get("Items", [])]
        except AWS_ERRORS as error:
            raise self._unavailable(error) from error
        # The index lags behind the items, so they are read.
        return [circuit for circuit in self.read(keys).values() if _is_troubled(circuit)]

    def find(self, key: str) -> Circuit:
        """One circuit. Needs permission for GetItem; `read` needs it for BatchGetItem."""
        try:
            answer = self._client.get_item(
                TableName=self._table, Key=self._key(key), ConsistentRead=True
            )
        except AWS_ERRORS as error:
            raise self._unavailable(error) from error
        return circuit_from_item(plain(answer["Item"])) if "Item" in answer else Circuit(key)

    def _key(self, key: str) -> dict[str, Any]:
        return stored({PARTITION: self._pipeline, SORT: key})

    def _unavailable(self, error: Exception) -> CircuitsUnavailable:
        return CircuitsUnavailable(refusal(error, "dynamodb", self._table))


class DynamoDBBreaker(DynamoDBCircuits, Breaker):
    """Reads and changes the circuits of one pipeline.

    `clock` returns epoch seconds, `new_id` a unique text.
    """

    def __init__(
        self,
        *,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        policy: CircuitPolicy,
        clock: Callable[[], float],
        random: Random,
        new_id: Callable[[], str],
    ) -> None:
        super().__init__(client, table, pipeline)
        self._policy = policy
        self._clock = clock
        self._random = random
        self._new_id = new_id

    def apply(self, key: str, event: Event) -> TransitionResult:
        return self.apply_to(self.read([key])[key], event)

    def apply_to(self, circuit: Circuit, event: Event) -> TransitionResult:
        """Apply an event to a circuit that was just read, and so save the read of `apply`."""
        for _ in range(_MOST_CONFLICTS):
            after = transition(circuit, event, self._policy, self._clock(), self._random)
            if isinstance(after, Refusal):
                return TransitionResult(circuit, after)
            if after == circuit:
                return TransitionResult(circuit)
            conflicting = self._write(circuit, after)
            if conflicting is None:
                return TransitionResult(after)
            circuit = conflicting
        raise CircuitsUnavailable(f"circuit {circuit.key} changes too often at once")

    def _write(self, before: Circuit, after: Circuit) -> Circuit | None:
        """Write a transition. Returns None, or the stored circuit if another writer was first.

        #  generation 4 ──write 5 (finds 4)──► 5, token a
        #                 ├─ the SDK repeats the write, because its first answer was lost:
        #                 │  it finds 5 with its own token a ──► done
        #                 └─ another writer's 5 finds token a, not its own ──► conflict
        """
        token = self._new_id()
        bookkeeping = {"token": token, "ttl": _expiry(after, self._clock())}
        try:
            if before.unreadable:
                self._replace(after, bookkeeping)
            else:
                self._client.update_item(
                    TableName=self._table,
                    Key=self._key(before.key),
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **_update(self._pipeline, before, after, bookkeeping),
                )
        except AWS_ERRORS as error:
            item = conflicting_item(error)
            if item is None:
                raise self._unavailable(error) from error
            if not item:
                return Circuit(before.key)
            return None if item.get("token") == token else circuit_from_item(item)
        return None

    def _replace(self, circuit: Circuit, bookkeeping: Mapping[str, Any]) -> None:
        """Replace an unreadable item, whatever it holds."""
        item = {PARTITION: self._pipeline, SORT: circuit.key, **bookkeeping}
        self._client.put_item(
            TableName=self._table,
            Item=stored({**item, **_attributes(self._pipeline, circuit)}),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **conditional(f"attribute_exists({SORT})"),
        )


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
            permit=_permit(item.get("permit")),
            forced=_override(item.get("forced")),
            paused=_pause(item.get("paused")),
            **{name: _number(name, item[name]) for name in _NUMBERS if name in item},
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
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("must be a text")
    return value


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
    begun, canary_until = data.get("begun"), data.get("canary_until")
    return Override(
        state,
        _text(data["by"]),
        _text(data["reason"]),
        _number("until", data["until"]),
        None if begun is None else _number("begun", begun),
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


def _is_troubled(circuit: Circuit) -> bool:
    return not circuit.is_closed or circuit.forced is not None or circuit.paused is not None


def _attributes(pipeline: str, circuit: Circuit) -> dict[str, Any]:
    """The attributes of a circuit, without its counters and without absent parts."""
    values: dict[str, Any] = {"state": str(circuit.state)}
    values |= {name: stored_number(getattr(circuit, name)) for name in _NUMBERS}
    for name in _PARTS:
        if getattr(circuit, name) is not None:
            values[name] = _fields(getattr(circuit, name))
    if circuit.forced is not None:
        values[KEPT_UNTIL] = _expiry(circuit, circuit.forced.until)
    if _is_troubled(circuit):
        values[TROUBLED.partition] = pipeline
    return values


def _expiry(circuit: Circuit, now: float) -> int:
    """When the row of a circuit that changes now expires: never before its override."""
    end = now if circuit.forced is None else max(now, circuit.forced.until)
    return int(end + KEEP_SECONDS)


def _update(
    pipeline: str, before: Circuit, after: Circuit, bookkeeping: Mapping[str, Any]
) -> dict[str, Any]:
    """The arguments of the update from one circuit to another, if it is still the first."""
    old, new = _attributes(pipeline, before), _attributes(pipeline, after)
    # State and index are written each time: an item that a person typed may lack the index.
    sets = {
        name: value
        for name, value in new.items()
        if name in ("state", TROUBLED.partition) or old.get(name) != value
    }
    removes = [name for name in _ABSENT_WHEN_UNSET if name not in new]
    remaining = {bucket.number for bucket in after.buckets}
    removes += [
        f"{prefix}{bucket.number}"
        for bucket in before.buckets
        if bucket.number not in remaining
        for prefix in OF_BUCKETS
    ]
    if before.streak and not after.streak:
        removes += [STREAK_AT, STREAK_TENANTS]
    conditions, expected = _conditions(before, after)
    if after.paused == before.paused:
        removes = [name for name in removes if name != "paused"]
    return changes(
        {**sets, **bookkeeping},
        removes=removes,
        condition=" AND ".join(conditions),
        values=expected,
    )


def _conditions(before: Circuit, after: Circuit) -> tuple[list[str], dict[str, Any]]:
    """The conditions that the stored circuit is still `before`, and the values in them."""
    expected: dict[str, Any] = {":old_state": str(before.state)}
    conditions = [_equals("generation", before.generation, expected)]
    # A person who types a state into the table leaves the generation as it is.
    same_state = "#state = :old_state"
    never_stored = "attribute_not_exists(#state)"
    conditions.append(
        f"({same_state} OR {never_stored})" if before.state is State.CLOSED else same_state
    )
    if after.restart != before.restart:
        conditions.append(_equals("restart", before.restart, expected))
    # A pause is written beside the state. A write that takes the circuit out of the index
    # must therefore check that no consumer is paused: outside the index no run would find it.
    if after.paused != before.paused or not _is_troubled(after):
        if before.paused is None:
            conditions.append("attribute_not_exists(paused)")
        else:
            conditions.append("paused = :old_paused")
            expected[":old_paused"] = _fields(before.paused)
    return conditions, expected


def _equals(name: str, value: int, expected: dict[str, Any]) -> str:
    """The condition that a count has a value, which is added to `expected`; missing is 0."""
    expected[f":old_{name}"] = value
    same = f"{name} = :old_{name}"
    return same if value else f"({same} OR attribute_not_exists({name}))"


def _fields(part: Permit | Override | Pause) -> dict[str, Any]:
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
