"""Outages in Step Functions: each is an execution of one state machine."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.outage.executions import ExecutionsUnavailable, OutageExecutions, execution_name

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient


class StepFunctionsExecutions(OutageExecutions):
    """Starts and lists the executions of one state machine for one pipeline.

    `client` makes the client, or returns the one that is made: most processes start none.
    """

    def __init__(
        self, client: Callable[[], SFNClient], state_machine_arn: str, pipeline: str
    ) -> None:
        self._made: Callable[[], Any] = client
        self._state_machine_arn = state_machine_arn
        self._name = state_machine_arn.rpartition(":")[2]
        self._pipeline = pipeline

    def start(self, key: str, generation: int, restart: int) -> None:
        outage = {
            "pipeline": self._pipeline,
            "key": key,
            "generation": generation,
            "restart": restart,
        }
        try:
            client = self._made()
            client.start_execution(
                stateMachineArn=self._state_machine_arn,
                name=execution_name(self._pipeline, key, generation, restart),
                input=json.dumps(outage),
            )
        except AWS_ERRORS as error:
            # Another process reported the same trip first. If its execution has ended already,
            # the next sweep finds none running and starts the next restart number.
            if code(error) != "ExecutionAlreadyExists":
                raise ExecutionsUnavailable(refusal(error, "states", self._name)) from error

    def running(self) -> frozenset[str]:
        names: set[str] = set()
        start: dict[str, Any] = {}
        with ours(ExecutionsUnavailable, "states", self._name):
            client = self._made()
            while True:
                answer = client.list_executions(
                    stateMachineArn=self._state_machine_arn,
                    statusFilter="RUNNING",
                    maxResults=1_000,
                    **start,
                )
                names.update(execution["name"] for execution in member(answer, "executions"))
                if not answer.get("nextToken"):
                    return frozenset(names)
                start = {"nextToken": answer["nextToken"]}
