"""The plans of replay runs, their approvals and their executions, in moto."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws

from deadletter.aws.replay_runs import DynamoDBReplayPlans, StepFunctionsReplays
from deadletter.replay.plan import DISCARD, ApprovalAnswer, ReplayPlan
from deadletter.replay.run import ReplayRun, RunsUnavailable
from tests.tables import LETTERS, create_messages_table

REGION = "eu-central-1"
NOW = 1_800_000_000.0
PLAN = ReplayPlan(pipeline="orders", who="ada", why="fixed")
ROLE = "arn:aws:iam::123456789012:role/any"
WAIT = {"StartAt": "Wait", "States": {"Wait": {"Type": "Wait", "Seconds": 1, "End": True}}}


@pytest.fixture
def dynamodb() -> Iterator[Any]:
    with mock_aws():
        client = boto3.client("dynamodb", region_name=REGION)
        create_messages_table(client)
        yield client


def plans(client: Any) -> DynamoDBReplayPlans:
    return DynamoDBReplayPlans(client, LETTERS, "orders", lambda: NOW)


def starts(client: Any) -> DynamoDBReplayPlans:
    return DynamoDBReplayPlans(client, LETTERS, "orders", lambda: NOW)


def test_the_plan_is_read_as_the_person_stored_it(dynamodb: Any) -> None:
    assert plans(dynamodb).plan(PLAN.run_id) is None
    starts(dynamodb).store(PLAN, ["a"])
    assert plans(dynamodb).plan(PLAN.run_id) == PLAN


def test_a_later_token_takes_the_place_of_an_earlier_one(dynamodb: Any) -> None:
    for token in ("first", "second"):
        plans(dynamodb).keep_token("r", token)
    assert starts(dynamodb).approval_token("r") == "second"


def test_who_approved_stands_beside_the_token(dynamodb: Any) -> None:
    plans(dynamodb).keep_token("r", "t")
    plans(dynamodb).keep_answer("r", ApprovalAnswer(True, "grace", "checked"))
    key = {"pk": {"S": "orders#run#r#approval"}, "sk": {"S": "approval"}}
    item = dynamodb.get_item(TableName=LETTERS, Key=key)["Item"]
    assert (item["token"], item["by"], item["approved"]) == (
        {"S": "t"},
        {"S": "grace"},
        {"BOOL": True},
    )


def test_an_approval_is_read_as_it_was_asked_and_answered(dynamodb: Any) -> None:
    store = plans(dynamodb)
    assert not store.approval("r").allows
    store.keep_asked("r", asked=False)
    assert store.approval("r").allows
    store.keep_asked("r", asked=True)
    store.keep_token("r", "t")
    assert not store.approval("r").allows
    store.keep_answer("r", ApprovalAnswer(False, "grace", "no"))
    assert not store.approval("r").allows
    store.keep_answer("r", ApprovalAnswer(True, "grace", "checked"))
    assert store.approval("r").answer == ApprovalAnswer(True, "grace", "checked")
    assert store.approval("r").allows
    # A new snapshot of the same plan asks anew.
    store.keep_asked("r", asked=True)
    assert not store.approval("r").allows


def put_plan(client: Any, run: str, place: str, text: str) -> None:
    item = {"pk": f"orders#run#{run}#{place}", "sk": "plan", "plan": text}
    stored = {name: {"S": value} for name, value in item.items()}
    client.put_item(TableName=LETTERS, Item=stored)


def test_letters_are_thrown_away_only_by_a_plan_in_the_place_of_discards(dynamodb: Any) -> None:
    """IAM lets those write there who may discard, and no one else."""
    discard = replace(PLAN, destination=DISCARD)
    put_plan(dynamodb, discard.run_id, "plan", discard.to_text())
    assert plans(dynamodb).plan(discard.run_id) is None
    starts(dynamodb).store(discard, None)
    assert plans(dynamodb).plan(discard.run_id) == discard
    # Nor may those replay who may only discard.
    put_plan(dynamodb, PLAN.run_id, "discard", PLAN.to_text())
    assert plans(dynamodb).plan(PLAN.run_id) is None


def test_a_table_that_refuses_names_itself() -> None:
    with mock_aws(), pytest.raises(RunsUnavailable, match=LETTERS):
        plans(boto3.client("dynamodb", region_name=REGION)).plan("r")


class RefusingSteps:
    """A Step Functions that refuses every call with one error."""

    def __init__(self, code: str) -> None:
        self._code = code

    def __getattr__(self, operation: str) -> Any:
        def refuse(**_arguments: Any) -> Any:
            raise ClientError({"Error": {"Code": self._code, "Message": "no"}}, operation)

        return refuse


def replays(code: str) -> StepFunctionsReplays:
    client: Any = RefusingSteps(code)
    return StepFunctionsReplays(lambda: client, "arn:aws:states:::stateMachine:replay")


def test_an_execution_that_was_started_before_is_no_error() -> None:
    replays("ExecutionAlreadyExists").start(ReplayRun(id="r", pipeline="orders"))
    with pytest.raises(RunsUnavailable, match="replay"):
        replays("AccessDeniedException").start(ReplayRun(id="r", pipeline="orders"))


@pytest.mark.parametrize("code", ["TaskDoesNotExist", "TaskTimedOut", "InvalidToken"])
def test_a_task_that_waits_no_more_needs_no_answer(code: str) -> None:
    replays(code).answer("token")


def test_an_answer_that_is_refused_is_an_error() -> None:
    with pytest.raises(RunsUnavailable):
        replays("AccessDeniedException").answer("token")


def test_running_executions_are_listed_by_the_names_of_their_runs() -> None:
    with mock_aws():
        client = boto3.client("stepfunctions", region_name=REGION)
        machine = client.create_state_machine(
            name="replay", definition=json.dumps(WAIT), roleArn=ROLE
        )["stateMachineArn"]
        executions = StepFunctionsReplays(lambda: client, machine)
        assert executions.running() == frozenset()
        run = ReplayRun(id="r", pipeline="orders", restart=2)
        executions.start(run)
        assert executions.running() == {"r-2"}
