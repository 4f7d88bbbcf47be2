"""Executions in Step Functions, each named; those of outages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.outage.executions import ExecutionsUnavailable, execution_name

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient

Unavailable = Callable[[str], Exception]


def start_execution(
    client: Callable[[], Any],
    machine: str,
    name: str,
    data: Mapping[str, Any],
    unavailable: Unavailable,
) -> None:
    """Start an execution under its own name, unless it was started before."""
    try:
        client().start_execution(stateMachineArn=machine, name=name, input=json.dumps(data))
    except AWS_ERRORS as error:
        # The same start, answered late, typed twice, or of another process first: its name is
        # taken for 90 days. If that execution has ended already, the next sweep sees it.
        if code(error) != "ExecutionAlreadyExists":
            raise unavailable(refusal(error, "states", machine.rpartition(":")[2])) from error


def running_executions(
    client: Callable[[], Any], machine: str, unavailable: Unavailable
) -> frozenset[str]:
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
        start_execution(self._client, self._machine, name, outage, ExecutionsUnavailable)

    def running(self) -> frozenset[str]:
        return running_executions(self._client, self._machine, ExecutionsUnavailable)
