"""The list of the letters that a person has counted for a replay run, in DynamoDB."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import MALFORMED, ours, row_name
from deadletter.aws.replay_starts import COUNTED, plan_partition
from deadletter.aws.table import SORT, begins
from deadletter.replay.counted import CountedOrigins
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import RunsUnavailable, bad_run_row

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


def read_counted(
    client: DynamoDBClient, table: str, pipeline: str, plan: ReplayPlan
) -> CountedOrigins:
    """The letters that the person of a plan has seen counted.

    Raises RunsUnavailable, also if some of the rows are missing: a list that is cut off would
    leave letters out of the run that the person has seen.
    """
    partition = plan_partition(pipeline, plan.run_id, discards=plan.is_for_discarders)
    try:
        with ours(RunsUnavailable):
            rows = DynamoDBTable(client, table).query(partition, begins(SORT, COUNTED))
        counted = CountedOrigins([bytes(row["keys"]) for row in rows])
    except MALFORMED as error:
        raise bad_run_row(row_name(table, partition, f"{COUNTED}*")) from error
    if len(counted) != plan.counted:
        raise RunsUnavailable(f"{len(counted)} of {plan.counted} counted messages are on record")
    return counted
