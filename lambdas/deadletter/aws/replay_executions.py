"""Replay runs in Step Functions: each is an execution of one state machine, and its successors."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.replay.machine import ReplayExecutions, ReplayUnavailable
from deadletter.replay.run import ReplayRun

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

NOT_WAITING = ("TaskDoesNotExist", "TaskTimedOut", "InvalidToken")
"""Errors of an answer to a task that waits no more."""


class StepFunctionsReplays(ReplayExecutions):
    """The executions of one pipeline's replay runs."""

    def __init__(self, client: SFNClient, state_machine_arn: str) -> None:
        self._client: Any = client
        self._state_machine_arn = state_machine_arn
        self._name = state_machine_arn.rpartition(":")[2]

    def start(self, run: ReplayRun) -> None:
        try:
            self._client.start_execution(
                stateMachineArn=self._state_machine_arn,
                name=run.execution,
                input=json.dumps({"run": run.id}),
            )
        except AWS_ERRORS as error:
            # Another process has started it. If it has ended already, the watch sees that.
            if code(error) != "ExecutionAlreadyExists":
                raise ReplayUnavailable(refusal(error, "states", self._name)) from error

    def running(self) -> frozenset[str]:
        names: set[str] = set()
        start: dict[str, Any] = {}
        with ours(ReplayUnavailable, "states", self._name):
            while True:
                answer = self._client.list_executions(
                    stateMachineArn=self._state_machine_arn,
                    statusFilter="RUNNING",
                    maxResults=1_000,
                    **start,
                )
                names.update(execution["name"] for execution in member(answer, "executions"))
                if not answer.get("nextToken"):
                    return frozenset(names)
                start = {"nextToken": answer["nextToken"]}

    def answer(self, token: str) -> None:
        try:
            self._client.send_task_success(taskToken=token, output="{}")
        except AWS_ERRORS as error:
            if code(error) not in NOT_WAITING:
                raise ReplayUnavailable(refusal(error, "states", self._name)) from error
