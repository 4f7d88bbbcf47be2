"""The plans of replay runs in the letters table, and the tokens of their approvals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import MALFORMED, ours, row_name
from deadletter.aws.replay_starts import PLAN_ROW, approval_key, plan_partition
from deadletter.aws.table import Key, stored_number
from deadletter.contract import ROWS_KEPT
from deadletter.replay.approval import ApprovalAnswer, RunApproval
from deadletter.replay.machine import ReplayPlans
from deadletter.replay.plan import ReplayPlan, plan_from_text
from deadletter.replay.run import RunsUnavailable, bad_run_row
from deadletter.settings.json_fields import BadSettings

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDBReplayPlans(ReplayPlans):
    """The plans of one pipeline's runs."""

    def __init__(
        self, client: DynamoDBClient, table: str, pipeline: str, clock: Callable[[], float]
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._clock = clock

    def plan(self, run: str) -> ReplayPlan | None:
        # IAM tells who may throw letters away by the partition: there, and only there, a plan may
        # say so.
        keys = {
            discards: (plan_partition(self._pipeline, run, discards=discards), PLAN_ROW)
            for discards in (False, True)
        }
        rows = self._rows(*keys.values())
        for discards, key in keys.items():
            if key not in rows:
                continue
            plan = self._plan(key, rows[key])
            if plan.is_for_discarders is discards:
                return plan
        return None

    def _plan(self, key: Key, row: Mapping[str, Any]) -> ReplayPlan:
        try:
            return plan_from_text(row["plan"])
        except (BadSettings, *MALFORMED) as error:
            raise bad_run_row(row_name(self._table.name, *key)) from error

    def approval(self, run: str) -> RunApproval:
        key = approval_key(self._pipeline, run)
        row = self._rows(key).get(key, {})
        approved, by, because = (row.get(name) for name in ("approved", "by", "because"))
        answer = (
            ApprovalAnswer(approved, str(by or ""), str(because or ""))
            if isinstance(approved, bool)
            else None
        )
        asked = row.get("asked")
        return RunApproval(asked if isinstance(asked, bool) else None, answer)

    def _rows(self, *keys: Key) -> Mapping[Key, Mapping[str, Any]]:
        with ours(RunsUnavailable):
            return self._table.get_many(keys)

    def keep_asked(self, run: str, *, asked: bool) -> None:
        # Of an earlier snapshot of the same plan an answer may be left, which is none to this one.
        self._keep(run, {"asked": asked, "approved": None})

    def keep_token(self, run: str, token: str) -> None:
        self._keep(run, {"token": token})

    def keep_answer(self, run: str, answer: ApprovalAnswer) -> None:
        self._keep(run, {**asdict(answer), "at": stored_number(self._clock())})

    def _keep(self, run: str, values: Mapping[str, Any]) -> None:
        ttl = int(self._clock() + ROWS_KEPT)
        with ours(RunsUnavailable):
            self._table.change(approval_key(self._pipeline, run), {**values, "ttl": ttl})
