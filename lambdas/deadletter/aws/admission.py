"""What circuits have admitted since they closed, in the circuits table."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deadletter.aws.circuits import PARTITION, SORT, circuit_from_item
from deadletter.aws.errors import AWS_ERRORS, refusal
from deadletter.aws.table import changes, conflicting_item, stored, stored_number
from deadletter.circuit.admission import Admission, Admitted, granted
from deadletter.circuit.state import Circuit, CircuitPolicy, CircuitsUnavailable, State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

MOST_CONFLICTS = 6
"""Tries to count messages while other processes count theirs. Then none is admitted: all of them
together have asked for more than there is."""


class DynamoDBAdmission(Admission):
    """Counts what the circuits of a pipeline admit; one conditional write for each grant."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        policy: CircuitPolicy,
        clock: Callable[[], float],
    ) -> None:
        self._client: Any = client
        self._table = table
        self._pipeline = pipeline
        self._policy = policy
        self._clock = clock

    def admit(self, circuit: Circuit, wanted: int) -> Admitted:
        for _ in range(MOST_CONFLICTS):
            grant = granted(circuit, wanted, self._policy, self._clock())
            if grant.circuit == circuit:
                return grant
            conflicting = self._write(circuit, grant)
            if conflicting is None:
                return grant
            circuit = conflicting
        return Admitted(0, circuit)

    def _write(self, before: Circuit, grant: Admitted) -> Circuit | None:
        """Write a grant. Returns None, or the stored circuit if another process was first.

        A write that is repeated because its first answer was lost finds its own count: what it
        had counted is lost, and counted anew.
        """
        unset = " OR attribute_not_exists(admitted)" if not before.admitted else ""
        condition = f"generation = :generation AND #state = :closed AND (admitted = :before{unset})"
        try:
            self._client.update_item(
                TableName=self._table,
                Key=stored({PARTITION: self._pipeline, SORT: before.key}),
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **changes(
                    {"admitted": stored_number(grant.circuit.admitted)},
                    condition=condition,
                    values={
                        ":generation": before.generation,
                        ":closed": str(State.CLOSED),
                        ":before": stored_number(before.admitted),
                    },
                ),
            )
        except AWS_ERRORS as error:
            item = conflicting_item(error)
            if item is None:
                raise CircuitsUnavailable(refusal(error, "dynamodb", self._table)) from error
            # A row that was deleted: nothing is known of a ramp.
            return circuit_from_item(item) if item else Circuit(before.key)
        return None
