"""Executions in Step Functions, each named; those of outages."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from deadletter.aws.errors import AWS_ERRORS, code, member, ours, refusal
from deadletter.outage.executions import ExecutionsUnavailable, execution_name

if TYPE_CHECKING:
    from mypy_boto3_stepfunctions import SFNClient


@dataclass(eq=False, repr=False)
class NamedExecutions:
    """The executions of one state machine, by its ARN. Raises its error `UNAVAILABLE`.

    `client` makes the client, or returns the one that is made: most processes start none.
    """

    client: Callable[[], SFNClient]
    machine: str

    UNAVAILABLE: ClassVar[type[Exception]]

    @property
    def name(self) -> str:
        """The name of the state machine."""
        return self.machine.rpartition(":")[2]

    def _start(self, name: str, data: Mapping[str, Any]) -> None:
        """Start an execution under its own name, unless it was started before."""
        try:
            self.client().start_execution(
                stateMachineArn=self.machine, name=name, input=json.dumps(data)
            )
        except AWS_ERRORS as error:
            # The same start, answered late, typed twice, or of another process first: its name is
            # taken for 90 days. If that execution has ended already, the next sweep sees it.
            if code(error) != "ExecutionAlreadyExists":
                raise self.UNAVAILABLE(refusal(error, "states", self.name)) from error

    def running(self) -> frozenset[str]:
        """The names of the executions that have not ended."""
        names: set[str] = set()
        start: dict[str, Any] = {}
        with ours(self.UNAVAILABLE, "states", self.name):
            while True:
                answer = self.client().list_executions(
                    stateMachineArn=self.machine,
                    statusFilter="RUNNING",
                    maxResults=1_000,
                    **start,
                )
                names.update(execution["name"] for execution in member(answer, "executions"))
                if not answer.get("nextToken"):
                    return frozenset(names)
                start = {"nextToken": answer["nextToken"]}


@dataclass(eq=False, repr=False)
class StepFunctionsExecutions(NamedExecutions):
    """The executions of one pipeline's outages."""

    pipeline: str

    UNAVAILABLE = ExecutionsUnavailable

    def start(self, key: str, generation: int, restart: int) -> None:
        outage = {
            "pipeline": self.pipeline,
            "key": key,
            "generation": generation,
            "restart": restart,
        }
        self._start(execution_name(self.pipeline, key, generation, restart), outage)
