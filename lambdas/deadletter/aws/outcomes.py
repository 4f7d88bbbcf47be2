"""Outcomes added up in the circuits table, and the trip when they say so."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deadletter.aws.circuits import (
    BAD,
    GOOD,
    KEEP_SECONDS,
    PARTITION,
    SORT,
    DynamoDBBreaker,
    circuit_from_item,
)
from deadletter.aws.errors import AWS_ERRORS
from deadletter.aws.table import plain, stored
from deadletter.circuit.state import (
    BUCKETS,
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    Outcomes,
    State,
)
from deadletter.circuit.transitions import Reported
from deadletter.contract import Metric
from deadletter.outage.executions import ExecutionsUnavailable, OutageExecutions

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

WRITE_SECONDS = 1.0
"""At most one write for each key and process in this time: an item takes about 1,000 writes a
second, and as many processes may serve one dependency."""

MOST_STALE = 2 * BUCKETS
"""Buckets out of every window that an item may hold; more are swept out by a write of its own.
It keeps the item, and so each write, within one unit of 1 KB."""

DROPPED = Metric.OUTCOMES_DROPPED
TRIPPED = Metric.CIRCUIT_TRIPPED
NOT_TRIPPED = Metric.CIRCUIT_NOT_TRIPPED
NOT_STARTED = Metric.OUTAGE_NOT_STARTED


@dataclass(slots=True)
class _Held:
    """What one process has to say of one key, and what it knows to be stale."""

    written: float = 0.0
    counts: dict[int, tuple[int, int]] = field(default_factory=dict)
    streak: int = 0
    any_good: bool = False
    stale: tuple[int, ...] = ()


class DynamoDBOutcomes(Outcomes):
    """Adds one process's outcomes to the circuits of a pipeline; never raises.

    One write a batch and key, at most one in WRITE_SECONDS; what comes sooner goes with the
    next, unless it is older than the window by then. The write answers with the whole
    circuit, so the trip is judged without a read. Without `outages`, or if they give no
    answer, the sweep of the next run starts the execution. `count_metric` counts a
    metric by its name.
    """

    def __init__(
        self,
        *,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        policy: CircuitPolicy,
        breaker: DynamoDBBreaker,
        outages: OutageExecutions | None,
        clock: Callable[[], float],
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._client: Any = client
        self._table = table
        self._pipeline = pipeline
        self._policy = policy
        self._breaker = breaker
        self._outages = outages
        self._clock = clock
        self._count_metric = count_metric
        self._held: dict[str, _Held] = {}

    def report(self, key: str, good: int, bad: int) -> None:
        if not good and not bad:
            return
        now = self._clock()
        held = self._held.setdefault(key, _Held())
        number = self._policy.bucket_of(now)
        had = held.counts.get(number, (0, 0))
        held.counts[number] = (had[0] + good, had[1] + bad)
        held.any_good = held.any_good or good > 0
        held.streak = 0 if good else held.streak + bad
        for old in [one for one in held.counts if one <= number - BUCKETS]:
            del held.counts[old]
        if abs(now - held.written) < WRITE_SECONDS:
            return
        # Not kept for another try: whoever throttles wants fewer writes, not later ones.
        counts, streak, reset = held.counts, held.streak, held.any_good
        self._held[key] = replacement = _Held(written=now)
        try:
            item = self._add(key, counts, streak, reset, held.stale, now)
        except AWS_ERRORS:
            self._count_metric(DROPPED, sum(good + bad for good, bad in counts.values()))
            return
        circuit = circuit_from_item(item)
        replacement.stale = _stale(circuit, number)
        if len(replacement.stale) > MOST_STALE:
            self._sweep_out(key, replacement)
        if circuit.is_closed:
            self._judge(circuit)

    def _add(
        self,
        key: str,
        counts: dict[int, tuple[int, int]],
        streak: int,
        reset: bool,
        stale: tuple[int, ...],
        now: float,
    ) -> dict[str, Any]:
        adds: list[str] = []
        values: dict[str, Any] = {
            ":ttl": int(now + KEEP_SECONDS),
            ":closed": str(State.CLOSED),
            ":streak": streak,
        }
        for number, (good, bad) in counts.items():
            for name, count in ((f"{GOOD}{number}", good), (f"{BAD}{number}", bad)):
                if count:
                    adds.append(f"{name} :{name}")
                    values[f":{name}"] = count
        sets = "SET #ttl = :ttl, #state = if_not_exists(#state, :closed)"
        if reset:
            sets += ", streak = :streak"
        else:
            adds.append("streak :streak")
        removes = _names(number for number in stale if number not in counts)
        answer = self._client.update_item(
            TableName=self._table,
            Key=stored({PARTITION: self._pipeline, SORT: key}),
            UpdateExpression=f"{sets} ADD {', '.join(adds)}"
            + (f" REMOVE {removes}" if removes else ""),
            ExpressionAttributeNames={"#ttl": "ttl", "#state": "state"},
            ExpressionAttributeValues=stored(values),
            ReturnValues="ALL_NEW",
        )
        return plain(answer["Attributes"])

    def _judge(self, circuit: Circuit) -> None:
        """Trip, if what stands in the circuit now is too much; whoever trips starts the outage."""
        try:
            moved = self._breaker.apply_to(circuit, Reported())
        except CircuitsUnavailable:
            # Still closed: the next report finds the same, and more.
            self._count_metric(NOT_TRIPPED, 1)
            return
        if moved.refused is not None:
            return
        self._count_metric(TRIPPED, 1)
        if self._outages is None:
            return
        opened = moved.circuit
        try:
            self._outages.start(opened.key, opened.outage, opened.restart)
        except ExecutionsUnavailable:
            self._count_metric(NOT_STARTED, 1)

    def _sweep_out(self, key: str, held: _Held) -> None:
        try:
            self._client.update_item(
                TableName=self._table,
                Key=stored({PARTITION: self._pipeline, SORT: key}),
                UpdateExpression=f"REMOVE {_names(held.stale)}",
            )
        except AWS_ERRORS:
            return
        held.stale = ()


def _stale(circuit: Circuit, number: int) -> tuple[int, ...]:
    """The buckets that are in nobody's window; one counted under another length of bucket may
    lie far ahead."""
    return tuple(
        one.number for one in circuit.buckets if not -BUCKETS <= one.number - number <= BUCKETS
    )


def _names(numbers: Iterable[int]) -> str:
    return ", ".join(f"{prefix}{number}" for number in numbers for prefix in (GOOD, BAD))
