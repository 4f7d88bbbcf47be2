"""Outcomes in the circuits table: added up, and the trip when they are bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.aws.circuits import (
    BAD,
    BAD_TENANTS,
    GOOD,
    GOOD_TENANTS,
    KEEP_SECONDS,
    KEPT_UNTIL,
    OF_BUCKETS,
    PARTITION,
    SLOW,
    SORT,
    STREAK_AT,
    STREAK_TENANTS,
    circuit_from_item,
)
from deadletter.aws.errors import AWS_ERRORS
from deadletter.aws.table import conflicting_item, plain, stored, stored_number
from deadletter.circuit.outcomes import OutcomesWrite, PendingOutcomes
from deadletter.circuit.state import (
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    OutcomeBucket,
    OutcomeCounts,
    Outcomes,
    State,
)
from deadletter.contract import Metric

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.aws.breaker import DynamoDBBreaker
    from deadletter.outage.executions import OutageExecutions


class DynamoDBOutcomes(Outcomes):
    """Adds one process's outcomes to the circuits of a pipeline; never raises.

    `PendingOutcomes` says when to write what: at most one write per batch and key. The write
    answers with the whole circuit, so the trip is judged without a read. Without `outages`,
    or if they give no answer, the watch starts the execution. `count_metric`
    counts a metric by its name.
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
        self._breaker = breaker
        self._outages = outages
        self._clock = clock
        self._count_metric = count_metric
        self._pending = PendingOutcomes(policy)
        # Several threads may handle the messages of a process.
        self._lock = Lock()

    def report(self, key: str, outcomes: OutcomeCounts) -> Circuit | None:
        with self._lock:
            return self._report(key, outcomes)

    def _report(self, key: str, outcomes: OutcomeCounts) -> Circuit | None:
        now = self._clock()
        write = self._pending.add(key, outcomes, now)
        if write is None:
            return None
        try:
            item = self._add(key, write, now)
        except AWS_ERRORS:
            self._count_metric(Metric.OUTCOMES_DROPPED, write.total)
            return None
        circuit = circuit_from_item(item)
        stale = self._pending.written(key, circuit, now)
        if stale:
            self._remove_stale(key, stale)
        return self._judge(circuit) if circuit.is_closed else circuit

    def _add(self, key: str, write: OutcomesWrite, now: float) -> dict[str, Any]:
        """Write the outcomes; returns the circuit's item as it is then.

        A success ends the streak, unless its call began before the streak did: when an outage
        begins, each process still has successes to report.
        """
        if not write.resets_streak:
            return self._update(key, write, now, goes_on=True)
        try:
            return self._update(key, write, now, goes_on=False)
        except AWS_ERRORS as error:
            if conflicting_item(error) is None:
                raise
            return self._update(key, write, now, goes_on=True)

    def _update(
        self, key: str, write: OutcomesWrite, now: float, *, goes_on: bool
    ) -> dict[str, Any]:
        """Add the outcomes to the item; `goes_on` adds to the streak, else it begins anew."""
        values: dict[str, Any] = {
            ":ttl": int(now + KEEP_SECONDS),
            ":closed": str(State.CLOSED),
        }
        sets = [
            f"#ttl = if_not_exists({KEPT_UNTIL}, :ttl)",
            "#state = if_not_exists(#state, :closed)",
        ]
        adds: list[str] = []
        removes = _counter_names(write.stale)
        for bucket in write.buckets:
            for prefix, added in _added(bucket).items():
                if added:
                    adds.append(f"{prefix}{bucket.number} :{prefix}{bucket.number}")
                    values[f":{prefix}{bucket.number}"] = added
        if write.streak:
            values |= {":streak": write.streak, ":streak_at": stored_number(write.streak_at)}
        if write.streak_tenants:
            values[":streak_tenants"] = set(write.streak_tenants)
        if goes_on and write.streak:
            adds.append("streak :streak")
            sets.append(f"{STREAK_AT} = if_not_exists({STREAK_AT}, :streak_at)")
        elif write.streak:
            sets += ["streak = :streak", f"{STREAK_AT} = :streak_at"]
        elif not goes_on:
            removes += ["streak", STREAK_AT]
        if goes_on and write.streak_tenants:
            adds.append(f"{STREAK_TENANTS} :streak_tenants")
        elif write.streak_tenants:
            sets.append(f"{STREAK_TENANTS} = :streak_tenants")
        elif not goes_on:
            removes.append(STREAK_TENANTS)
        condition: dict[str, Any] = {}
        if not goes_on and write.good_at is not None:
            values[":good_at"] = stored_number(write.good_at)
            condition = {
                "ConditionExpression": f"attribute_not_exists({STREAK_AT}) OR"
                f" {STREAK_AT} <= :good_at",
                "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
            }
        expression = f"SET {', '.join(sets)}" + (f" ADD {', '.join(adds)}" if adds else "")
        answer = self._client.update_item(
            TableName=self._table,
            Key=stored({PARTITION: self._pipeline, SORT: key}),
            UpdateExpression=expression + (f" REMOVE {', '.join(removes)}" if removes else ""),
            ExpressionAttributeNames={"#ttl": "ttl", "#state": "state"},
            ExpressionAttributeValues=stored(values),
            ReturnValues="ALL_NEW",
            **condition,
        )
        return plain(answer["Attributes"])

    def _judge(self, circuit: Circuit) -> Circuit:
        """Trip the circuit if it counts too many failures, and start the outage's execution.

        Of several processes that see the same counts, the one whose trip is written starts it.
        Returns the circuit as it is then.
        """
        if not _has_failures(circuit):
            return circuit
        # Loaded with the first failure: a process that has none starts sooner without them.
        from deadletter.circuit.transitions import Reported
        from deadletter.outage.executions import ExecutionsUnavailable

        try:
            result = self._breaker.apply_to(circuit, Reported())
        except CircuitsUnavailable:
            # Still closed: the next report finds the same, and more.
            self._count_metric(Metric.CIRCUIT_NOT_TRIPPED, 1)
            return circuit
        if result.refused is not None:
            return result.circuit
        self._count_metric(Metric.CIRCUIT_TRIPPED, 1)
        opened = result.circuit
        if self._outages is not None:
            try:
                self._outages.start(opened.key, opened.outage, opened.restart)
            except ExecutionsUnavailable:
                self._count_metric(Metric.OUTAGE_NOT_STARTED, 1)
        return opened

    def _remove_stale(self, key: str, stale: Sequence[int]) -> None:
        """Remove the counters of stale buckets. After a failure the next report tries again."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=stored({PARTITION: self._pipeline, SORT: key}),
                UpdateExpression=f"REMOVE {', '.join(_counter_names(stale))}",
            )
        except AWS_ERRORS:
            return
        self._pending.swept(key)


def _has_failures(circuit: Circuit) -> bool:
    """Whether anything is counted that could trip the circuit."""
    return circuit.streak > 0 or any(bucket.bad or bucket.slow for bucket in circuit.buckets)


def _counter_names(buckets: Sequence[int]) -> list[str]:
    return [f"{prefix}{bucket}" for bucket in buckets for prefix in OF_BUCKETS]


def _added(bucket: OutcomeBucket) -> dict[str, int | set[int]]:
    """What a bucket adds to the attributes with these prefixes."""
    return {
        GOOD: bucket.good,
        BAD: bucket.bad,
        SLOW: bucket.slow,
        GOOD_TENANTS: set(bucket.good_tenants),
        BAD_TENANTS: set(bucket.bad_tenants),
    }
