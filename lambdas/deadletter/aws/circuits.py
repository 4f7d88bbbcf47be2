"""The circuits table: one item a dependency, each change of state one conditional write."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from random import Random
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS
from deadletter.aws.table import (
    StillUnprocessed,
    batch_get,
    changes,
    conditional,
    conflicting_item,
    number,
    pages,
    plain,
    stored,
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
    State,
)
from deadletter.circuit.transitions import Breaker, Event, Refusal, TransitionResult, transition
from deadletter.contract import CIRCUITS, TROUBLED

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

PARTITION = CIRCUITS.partition
SORT = CIRCUITS.sort

GOOD, BAD = "good_", "bad_"
"""Counters are attributes of their own, named by their bucket: they are added to unread."""

KEEP_SECONDS = 100 * 86_400.0
"""How long a circuit that nothing happens to is kept: longer than Step Functions keeps the
names of its executions taken (90 days), for a forgotten circuit begins counting anew."""

_MOST_CONFLICTS = 6
"""Times that an event is let happen anew because somebody else's came first."""

_NUMBERS = (
    *("generation", "outage", "restart", "started", "open_until", "cooldown", "opened_at"),
    *("closed_at", "trips", "successes", "streak"),
)
_PARTS = ("permit", "forced", "paused")
_COUNTS = frozenset(("generation", "outage", "restart", "trips", "successes", "streak"))


class DynamoDBCircuits(Circuits):
    """The circuits of one pipeline, read consistently."""

    def __init__(self, client: DynamoDBClient, table: str, pipeline: str) -> None:
        self._client: Any = client
        self._table = table
        self._pipeline = pipeline

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        found = {key: Circuit(key) for key in keys}
        try:
            items = batch_get(self._client, self._table, [self._key(key) for key in sorted(found)])
        except StillUnprocessed as error:
            raise CircuitsUnavailable("the circuits table is throttling") from error
        except AWS_ERRORS as error:
            raise CircuitsUnavailable("the circuits table gave no answer") from error
        return found | {item[SORT]: circuit_from_item(item) for item in items}

    def find(self, key: str) -> Circuit:
        """One circuit, by a GetItem: `read` needs the permission for BatchGetItem."""
        try:
            answer = self._client.get_item(
                TableName=self._table, Key=self._key(key), ConsistentRead=True
            )
        except AWS_ERRORS as error:
            raise CircuitsUnavailable("the circuits table gave no answer") from error
        return circuit_from_item(plain(answer["Item"])) if "Item" in answer else Circuit(key)

    def _key(self, key: str) -> dict[str, Any]:
        return stored({PARTITION: self._pipeline, SORT: key})


class DynamoDBBreaker(DynamoDBCircuits, Breaker):
    """The circuits of one pipeline, changed.

    `clock` gives epoch seconds, `new_id` a text that nobody else has.
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
        """As `apply`, for a circuit that has just been read."""
        for _ in range(_MOST_CONFLICTS):
            found = transition(circuit, event, self._policy, self._clock(), self._random)
            if isinstance(found, Refusal):
                return TransitionResult(circuit, found)
            if found == circuit:
                return TransitionResult(circuit)
            other = self._write(circuit, found)
            if other is None:
                return TransitionResult(found)
            circuit = other
        raise CircuitsUnavailable(f"too many change circuit {circuit.key} at once")

    def troubled(self) -> Sequence[Circuit]:
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
            raise CircuitsUnavailable("the circuits table gave no answer") from error
        # The index lags behind: what counts is the item.
        return [one for one in self.read(keys).values() if _is_troubled(one)]

    def _write(self, before: Circuit, after: Circuit) -> Circuit | None:
        """Write what has changed; what stands there instead, if somebody was faster.

        #  generation 4 ──write 5 (finds 4)──► 5, token a
        #                 ├─ the same write again, by the SDK, whose first answer was lost:
        #                 │  finds 5 with token a, its own ──► done
        #                 └─ another's write of 5 ──► finds token a, not its own ──► too late
        """
        token = self._new_id()
        written = {"token": token, "ttl": int(self._clock() + KEEP_SECONDS)}
        try:
            if before.unreadable:
                self._replace(after, written)
            else:
                self._client.update_item(
                    TableName=self._table,
                    Key=self._key(before.key),
                    ReturnValuesOnConditionCheckFailure="ALL_OLD",
                    **_change(self._pipeline, before, after, written),
                )
        except AWS_ERRORS as error:
            item = conflicting_item(error)
            if item is None:
                raise CircuitsUnavailable("the circuits table gave no answer") from error
            if not item:
                return Circuit(before.key)
            return None if item.get("token") == token else circuit_from_item(item)
        return None

    def _replace(self, circuit: Circuit, written: Mapping[str, Any]) -> None:
        """Put an item in the place of one that nobody understands, whatever is in it."""
        item = {PARTITION: self._pipeline, SORT: circuit.key, **written}
        self._client.put_item(
            TableName=self._table,
            Item=stored({**item, **_whole(self._pipeline, circuit)}),
            ReturnValuesOnConditionCheckFailure="ALL_OLD",
            **conditional(f"attribute_exists({SORT})"),
        )


def circuit_from_item(item: Mapping[str, Any]) -> Circuit:
    """The circuit in an item; one that is not understood means that nobody may send: hold.

    An item with nothing but a state was typed by a person.
    """
    key = str(item[SORT])
    try:
        return Circuit(
            key=key,
            state=State(item["state"]),
            buckets=_buckets(item),
            permit=_permit(item.get("permit")),
            forced=_force(item.get("forced")),
            paused=_pause(item.get("paused")),
            **{name: _number(name, item[name]) for name in _NUMBERS if name in item},
        )
    except (KeyError, TypeError, ValueError, ArithmeticError, AttributeError):
        return Circuit(key, State.OPEN, unreadable=True)


def _number(name: str, value: Any) -> Any:
    """A count or a time. A text is none, whatever it looks like, nor is a time before 1970."""
    if not isinstance(value, Decimal | int | float) or isinstance(value, bool) or value < 0:
        raise ValueError(f"{name} is no number from 0 up")
    if name not in _COUNTS:
        return float(value)
    if value != int(value):
        raise ValueError(f"{name} is no whole number")
    return int(value)


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError("not a text")
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


def _force(data: Any) -> Override | None:
    if data is None:
        return None
    state = State(data["state"])
    if state is State.HALF_OPEN:
        raise ValueError("nobody can hold a circuit half open")
    return Override(
        state, _text(data["by"]), _text(data["reason"]), _number("until", data["until"])
    )


def _pause(data: Any) -> Pause | None:
    if data is None:
        return None
    concurrency = data.get("concurrency")
    return Pause(
        _text(data["mapping"]),
        None if concurrency is None else _number("restart", concurrency),
        _number("at", data["at"]),
    )


def _buckets(item: Mapping[str, Any]) -> tuple[OutcomeBucket, ...]:
    numbers = {name.rpartition("_")[2] for name in item if name.startswith((GOOD, BAD))}
    return tuple(
        OutcomeBucket(
            int(number),
            _number("streak", item.get(GOOD + number, 0)),
            _number("streak", item.get(BAD + number, 0)),
        )
        for number in sorted(numbers, key=int)
    )


def _is_troubled(circuit: Circuit) -> bool:
    return not circuit.is_closed or circuit.forced is not None or circuit.paused is not None


def _whole(pipeline: str, circuit: Circuit) -> dict[str, Any]:
    """A circuit's attributes, its counters apart; what it has none of is left out."""
    values: dict[str, Any] = {"state": str(circuit.state)}
    values |= {name: number(getattr(circuit, name)) for name in _NUMBERS}
    for name in _PARTS:
        if getattr(circuit, name) is not None:
            values[name] = _fields(getattr(circuit, name))
    if _is_troubled(circuit):
        values[TROUBLED.partition] = pipeline
    return values


def _change(
    pipeline: str, before: Circuit, after: Circuit, written: Mapping[str, Any]
) -> dict[str, Any]:
    """The update that makes one circuit of another, on condition that it still is the one."""
    old, new = _whole(pipeline, before), _whole(pipeline, after)
    # State and index are written each time: an item that a person typed may lack the one.
    values = {
        name: value
        for name, value in new.items()
        if name in ("state", TROUBLED.partition) or old.get(name) != value
    }
    values.update(written)
    gone = [name for name in (*_PARTS, TROUBLED.partition) if name not in new]
    kept = {one.number for one in after.buckets}
    dropped = [one.number for one in before.buckets if one.number not in kept]
    gone += [f"{prefix}{number}" for number in dropped for prefix in (GOOD, BAD)]
    conditions, expected = _still(before, after)
    if after.paused == before.paused:
        gone = [name for name in gone if name != "paused"]
    return changes(values, removes=gone, condition=" AND ".join(conditions), values=expected)


def _still(before: Circuit, after: Circuit) -> tuple[list[str], dict[str, Any]]:
    """The conditions that a circuit is what it was decided on, and the values in them."""
    expected: dict[str, Any] = {":old_state": str(before.state)}
    conditions = [_equals("generation", before.generation, expected)]
    # A state that a person types into the table comes without a new generation.
    same_state = "#state = :old_state"
    never_stored = "attribute_not_exists(#state)"
    conditions.append(
        f"({same_state} OR {never_stored})" if before.state is State.CLOSED else same_state
    )
    if after.restart != before.restart:
        conditions.append(_equals("restart", before.restart, expected))
    # Who takes the circuit out of the index has to know that no consumer is paused: a pause is
    # written beside the state, and without the index nobody would find it.
    if after.paused != before.paused or not _is_troubled(after):
        if before.paused is None:
            conditions.append("attribute_not_exists(paused)")
        else:
            conditions.append("paused = :old_paused")
            expected[":old_paused"] = _fields(before.paused)
    return conditions, expected


def _equals(name: str, value: int, expected: dict[str, Any]) -> str:
    expected[f":old_{name}"] = value
    same = f"{name} = :old_{name}"
    return same if value else f"({same} OR attribute_not_exists({name}))"


def _fields(value: Permit | Override | Pause) -> dict[str, Any]:
    return {
        name: number(one) if isinstance(one, float) else str(one) if name == "state" else one
        for name in value.__slots__
        if (one := getattr(value, name)) is not None
    }
