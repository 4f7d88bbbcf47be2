"""Outcomes in the circuits table: added up, and the trip when they are bad."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.circuits import (
    BAD,
    GOOD,
    KEEP_SECONDS,
    KEPT_UNTIL,
    PARTITION,
    SORT,
    DynamoDBBreaker,
    circuit_from_item,
)
from deadletter.aws.errors import AWS_ERRORS
from deadletter.aws.table import plain, stored
from deadletter.circuit.outcomes import OutcomesWrite, PendingOutcomes
from deadletter.circuit.state import (
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    OutcomeCounts,
    Outcomes,
    State,
)
from deadletter.circuit.transitions import Reported
from deadletter.contract import Metric
from deadletter.outage.executions import ExecutionsUnavailable, OutageExecutions

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


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

    def report(self, key: str, outcomes: OutcomeCounts) -> None:
        now = self._clock()
        write = self._pending.add(key, outcomes.good, outcomes.bad, now)
        if write is None:
            return
        try:
            item = self._add(key, write, now)
        except AWS_ERRORS:
            self._count_metric(Metric.OUTCOMES_DROPPED, write.total)
            return
        circuit = circuit_from_item(item)
        stale = self._pending.written(key, circuit, now)
        if stale:
            self._remove_stale(key, stale)
        if circuit.is_closed:
            self._judge(circuit)

    def _add(self, key: str, write: OutcomesWrite, now: float) -> dict[str, Any]:
        """Write the outcomes; returns the circuit's item as it is then."""
        adds: list[str] = []
        values: dict[str, Any] = {
            ":ttl": int(now + KEEP_SECONDS),
            ":closed": str(State.CLOSED),
            ":streak": write.streak,
        }
        for bucket in write.buckets:
            counters = {f"{GOOD}{bucket.number}": bucket.good, f"{BAD}{bucket.number}": bucket.bad}
            for name, count in counters.items():
                if count:
                    adds.append(f"{name} :{name}")
                    values[f":{name}"] = count
        sets = (
            f"SET #ttl = if_not_exists({KEPT_UNTIL}, :ttl), #state = if_not_exists(#state, :closed)"
        )
        if write.resets_streak:
            sets += ", streak = :streak"
        else:
            adds.append("streak :streak")
        removes = _counter_names(write.stale)
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
        """Trip the circuit if it counts too many failures, and start the outage's execution.

        Of several processes that see the same counts, the one whose trip is written starts it.
        """
        try:
            result = self._breaker.apply_to(circuit, Reported())
        except CircuitsUnavailable:
            # Still closed: the next report finds the same, and more.
            self._count_metric(Metric.CIRCUIT_NOT_TRIPPED, 1)
            return
        if result.refused is not None:
            return
        self._count_metric(Metric.CIRCUIT_TRIPPED, 1)
        if self._outages is None:
            return
        opened = result.circuit
        try:
            self._outages.start(opened.key, opened.outage, opened.restart)
        except ExecutionsUnavailable:
            self._count_metric(Metric.OUTAGE_NOT_STARTED, 1)

    def _remove_stale(self, key: str, stale: Sequence[int]) -> None:
        """Remove the counters of stale buckets. After a failure the next report tries again."""
        try:
            self._client.update_item(
                TableName=self._table,
                Key=stored({PARTITION: self._pipeline, SORT: key}),
                UpdateExpression=f"REMOVE {_counter_names(stale)}",
            )
        except AWS_ERRORS:
            return
        self._pending.swept(key)


def _counter_names(buckets: Sequence[int]) -> str:
    return ", ".join(f"{prefix}{bucket}" for bucket in buckets for prefix in (GOOD, BAD))
