"""The plans of replay runs in the letters table, and the tokens of their approvals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, StillUnprocessed, refusal
from deadletter.aws.replay_starts import APPROVAL_ROW, PLAN_ROW
from deadletter.aws.table import DynamoDBTable, Key, stored_number
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.replay.machine import ApprovalAnswer, ReplayPlans
from deadletter.replay.plan import ReplayPlan, plan_from_text
from deadletter.replay.run import RunsUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def plan_key(pipeline: str, run: str, row: str) -> Key:
    """The key of a row of a run's plan."""
    return Partition.RUN.of(pipeline, run, "plan"), row


class DynamoDBReplayPlans(ReplayPlans):
    """The plans of one pipeline's runs."""

    def __init__(
        self, client: DynamoDBClient, table: str, pipeline: str, clock: Callable[[], float]
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._clock = clock

    def plan(self, run: str) -> ReplayPlan | None:
        key = plan_key(self._pipeline, run, PLAN_ROW)
        try:
            rows = self._table.get_many([key])
        except (*AWS_ERRORS, StillUnprocessed) as error:
            raise self._unavailable(error) from error
        return plan_from_text(str(rows[key]["plan"])) if key in rows else None

    def keep_token(self, run: str, token: str) -> None:
        self._keep(run, {"token": token})

    def keep_answer(self, run: str, answer: ApprovalAnswer) -> None:
        self._keep(run, {**asdict(answer), "at": stored_number(self._clock())})

    def _keep(self, run: str, values: Mapping[str, Any]) -> None:
        ttl = int(self._clock() + ROWS_KEPT)
        try:
            self._table.change(plan_key(self._pipeline, run, APPROVAL_ROW), {**values, "ttl": ttl})
        except AWS_ERRORS as error:
            raise self._unavailable(error) from error

    def _unavailable(self, error: Exception) -> RunsUnavailable:
        return RunsUnavailable(refusal(error, "dynamodb", self._table.name))
