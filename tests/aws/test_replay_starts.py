"""What a person stores before a replay run is what the run reads."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.aws.dynamodb import plain
from deadletter.aws.replay_runs import (
    MOST_COUNTED,
    DynamoDBReplayPlans,
    StepFunctionsReplays,
    packed,
    unpacked,
)
from deadletter.redrive.journal import key_of
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunsUnavailable
from deadletter.testing.fakes import client_error
from tests.aws.backends import Aws
from tests.tables import LETTERS, create_messages_table

PLAN = ReplayPlan(pipeline="orders", who="ann", why="fixed", created=1.0)


@pytest.fixture
def starts(aws: Aws) -> DynamoDBReplayPlans:
    create_messages_table(aws.dynamodb)
    return DynamoDBReplayPlans(aws.dynamodb, LETTERS, "orders", lambda: 1_000.0)


def rows(aws: Aws) -> dict[str, dict[str, Any]]:
    items = aws.dynamodb.query(
        TableName=LETTERS,
        KeyConditionExpression="pk = :pk",
        ExpressionAttributeValues={":pk": {"S": f"orders#run#{PLAN.run_id}#plan"}},
    )["Items"]
    return {row["sk"]: row for row in map(plain, items)}


def test_a_plan_is_stored_with_the_letters_that_were_counted(
    aws: Aws, starts: DynamoDBReplayPlans
) -> None:
    starts.store(PLAN, ["b", "a", "a"])
    starts.store(PLAN, ["a", "b"])
    stored = rows(aws)
    assert set(stored) == {"plan", "counted#000000"}
    assert unpacked(stored["counted#000000"]["keys"]) == {key_of("a"), key_of("b")}
    assert stored["plan"]["ttl"] > 1_000
    plans = DynamoDBReplayPlans(aws.dynamodb, LETTERS, "orders", lambda: 1_000.0)
    assert plans.plan(PLAN.run_id) == PLAN


def test_a_plan_that_counts_no_single_letters_has_no_list(
    aws: Aws, starts: DynamoDBReplayPlans
) -> None:
    starts.store(PLAN, None)
    assert set(rows(aws)) == {"plan"}


def test_keys_are_sorted_over_all_rows_and_fit_into_an_item() -> None:
    parts = list(packed([f"origin-{number}" for number in range(MOST_COUNTED + 5)]))
    assert [len(part) for part in parts] == [MOST_COUNTED * 16, 5 * 16]
    keys = [part[at : at + 16] for part in parts for at in range(0, len(part), 16)]
    assert keys == sorted(keys)


def test_a_run_that_does_not_wait_has_no_token(starts: DynamoDBReplayPlans) -> None:
    assert starts.approval_token("nope") is None


def test_a_run_that_waits_has_the_token_that_its_execution_kept(
    aws: Aws, starts: DynamoDBReplayPlans
) -> None:
    plans = DynamoDBReplayPlans(aws.dynamodb, LETTERS, "orders", lambda: 1_000.0)
    plans.keep_token("0123", "the token")
    assert starts.approval_token("0123") == "the token"


class _Machine:
    def __init__(self, error: str | None = None) -> None:
        self.started: list[Any] = []
        self.error = error

    def start_execution(self, **request: Any) -> None:
        self.started.append(request)
        if self.error:
            raise client_error("StartExecution", self.error, "refused")


RUN = ReplayRun(id="0123", pipeline="orders", restart=2)


def test_an_execution_has_the_name_that_its_run_says() -> None:
    machine: Any = _Machine()
    StepFunctionsReplays(lambda: machine, "arn:machine").start(RUN)
    assert machine.started == [
        {"stateMachineArn": "arn:machine", "name": "0123-2", "input": '{"run": "0123"}'}
    ]


def test_an_execution_that_was_started_before_is_no_error() -> None:
    machine: Any = _Machine("ExecutionAlreadyExists")
    StepFunctionsReplays(lambda: machine, "arn:machine").start(RUN)


def test_a_refused_start_names_what_was_refused() -> None:
    machine: Any = _Machine("AccessDeniedException")
    with pytest.raises(RunsUnavailable, match="replay"):
        StepFunctionsReplays(lambda: machine, "arn:aws:states:eu:1:stateMachine:replay").start(RUN)
