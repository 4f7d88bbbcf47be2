"""What a person stores before a replay run: its plan, and the letters that were counted."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import AWS_ERRORS, code, ours, refusal
from deadletter.aws.table import PARTITION, SORT, Key, parts
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.redrive.journal import KEY_BYTES, key_of
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunsUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_stepfunctions import SFNClient

PLAN_ROW, APPROVAL_ROW = "plan", "approval"
"""Sort keys of a run's plan, and of its approval."""

COUNTED = "counted#"
"""What the sort keys of the rows with counted letters begin with, beside the plan's."""

MOST_COUNTED = 20_000
"""Origins of one row: at 16 bytes each they stay below the 400 KB of an item."""


def plan_partition(pipeline: str, run: str, *, discards: bool) -> str:
    """The partition of a run's plan.

    That of a run that throws letters away or brings them back is another one: who may only replay
    letters can't write it, and no plan is believed that stands in the other's place.
    """
    return Partition.RUN.of(pipeline, run, "discard" if discards else "plan")


def approval_key(pipeline: str, run: str) -> Key:
    """The key of the row that a run's approval waits for: planners can't write it."""
    return Partition.RUN.of(pipeline, run, "approval"), APPROVAL_ROW


class DynamoDBReplayStarts:
    """The plans of a pipeline's replay runs. Raises RunsUnavailable."""

    def __init__(
        self, client: DynamoDBClient, table: str, pipeline: str, clock: Callable[[], float]
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._clock = clock

    def store(self, plan: ReplayPlan, origins: Sequence[str] | None) -> None:
        """Store a plan and the origins that a person saw counted (None: any that match).

        Storing a plan twice has the effect of once: its text and its letters never change.
        """
        partition = plan_partition(self._pipeline, plan.run_id, discards=plan.is_for_discarders)
        ttl = int(self._clock() + ROWS_KEPT)
        rows: list[dict[str, Any]] = [{SORT: PLAN_ROW, "plan": plan.to_text()}]
        if origins is not None:
            rows += [
                {SORT: f"{COUNTED}{number:06}", "keys": keys}
                for number, keys in enumerate(packed(origins))
            ]
        with ours(RunsUnavailable):
            for row in rows:
                self._table.write_many(puts=[{PARTITION: partition, "ttl": ttl, **row}])

    def approval_token(self, run: str) -> str | None:
        """The token with which the run waits for an approval; None if it does not wait."""
        key = approval_key(self._pipeline, run)
        with ours(RunsUnavailable):
            row = self._table.get_many([key]).get(key)
        return str(row["token"]) if row and row.get("token") else None


def packed(origins: Sequence[str]) -> Iterator[bytes]:
    """The keys of these origins, each once, sorted over all rows; at most MOST_COUNTED a row."""
    keys = sorted({key_of(origin) for origin in origins})
    for part in parts(keys, MOST_COUNTED):
        yield b"".join(part)


def unpacked(keys: bytes) -> frozenset[bytes]:
    """The keys in one row."""
    return frozenset(keys[at : at + KEY_BYTES] for at in range(0, len(keys), KEY_BYTES))


def start_execution(client: SFNClient, machine: str, run: ReplayRun) -> None:
    """Start the execution of a run, unless it was started before. Raises RunsUnavailable."""
    try:
        client.start_execution(
            stateMachineArn=machine, name=run.execution, input=json.dumps({"run": run.id})
        )
    except AWS_ERRORS as error:
        # The same start, answered late or typed twice: its name is taken for 90 days.
        if code(error) != "ExecutionAlreadyExists":
            raise RunsUnavailable(refusal(error, "states", machine.rpartition(":")[2])) from error
