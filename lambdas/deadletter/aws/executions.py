"""Executions in Step Functions: of outages and of replay runs, each by one state machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.outage.executions import ExecutionsUnavailable, execution_name

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

    from deadletter.replay.run import ReplayRun

NOT_WAITING = ("TaskDoesNotExist", "TaskTimedOut", "InvalidToken")
"""Errors of an answer to a task that waits no more."""

Unavailable = Callable[[str], Exception]


def start_replay(client: SFNClient, machine: str, run: ReplayRun) -> None:
    """Start the execution of a replay run, unless it was started before."""
    from deadletter.replay.run import RunsUnavailable

    _start(lambda: client, machine, run.execution, {"run": run.id}, RunsUnavailable)


def _start(
    client: Callable[[], Any],
    machine: str,
    name: str,
    data: Mapping[str, Any],
    unavailable: Unavailable,
) -> None:
    try:
        client().start_execution(stateMachineArn=machine, name=name, input=json.dumps(data))
    except AWS_ERRORS as error:
        # The same start, answered late, typed twice, or of another process first: its name is
        # taken for 90 days. If that execution has ended already, the next sweep sees it.
        if code(error) != "ExecutionAlreadyExists":
            raise unavailable(refusal(error, "states", machine.rpartition(":")[2])) from error


def _running(client: Callable[[], Any], machine: str, unavailable: Unavailable) -> frozenset[str]:
    """The names of the executions that have not ended."""
    names: set[str] = set()
    start: dict[str, Any] = {}
    with ours(unavailable, "states", machine.rpartition(":")[2]):
        while True:
            answer = client().list_executions(
                stateMachineArn=machine, statusFilter="RUNNING", maxResults=1_000, **start
            )
            names.update(execution["name"] for execution in member(answer, "executions"))
            if not answer.get("nextToken"):
                return frozenset(names)
            start = {"nextToken": answer["nextToken"]}


class StepFunctionsExecutions:
    """The executions of one pipeline's outages.

    `client` makes the client, or returns the one that is made: most processes start none.
    """

    def __init__(
        self, client: Callable[[], SFNClient], state_machine_arn: str, pipeline: str
    ) -> None:
        self._client, self._machine, self._pipeline = client, state_machine_arn, pipeline

    def start(self, key: str, generation: int, restart: int) -> None:
        outage = {
            "pipeline": self._pipeline,
            "key": key,
            "generation": generation,
            "restart": restart,
        }
        name = execution_name(self._pipeline, key, generation, restart)
        _start(self._client, self._machine, name, outage, ExecutionsUnavailable)

    def running(self) -> frozenset[str]:
        return _running(self._client, self._machine, ExecutionsUnavailable)


class StepFunctionsReplays:
    """The executions of one pipeline's replay runs."""

    def __init__(self, client: SFNClient, state_machine_arn: str) -> None:
        # Only replay runs, and the watch, have their words.
        from deadletter.replay.run import RunsUnavailable

        self._client, self._machine = client, state_machine_arn
        self._unavailable = RunsUnavailable

    def start(self, run: ReplayRun) -> None:
        start_replay(self._client, self._machine, run)

    def running(self) -> frozenset[str]:
        return _running(lambda: self._client, self._machine, self._unavailable)

    def answer(self, token: str) -> None:
        try:
            self._client.send_task_success(taskToken=token, output="{}")
        except AWS_ERRORS as error:
            if code(error) not in NOT_WAITING:
                name = self._machine.rpartition(":")[2]
                raise self._unavailable(refusal(error, "states", name)) from error
