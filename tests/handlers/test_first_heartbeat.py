"""The custom resource answers each request, whatever becomes of the heartbeat."""

from __future__ import annotations

import importlib
import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.aws.stack_request import ANSWERING
from deadletter.aws.wiring.judging import FirstHeartbeats
from deadletter.aws.wiring.world import World
from deadletter.watch.first_heartbeat import HeartbeatRefused
from handlers import first_heartbeat

SECRET = "https://cloudformation.example/answer?signature=secret"
CONTEXT: Any = SimpleNamespace(
    function_name="first-heartbeat",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:eu-west-1:111122223333:function:first-heartbeat",
    aws_request_id="id",
    get_remaining_time_in_millis=lambda: 240_000,
)


@dataclass
class Stack:
    """CloudFormation and CloudWatch as the function meets them, and a clock."""

    fails: Exception | None = None
    shows: bool = True
    now: float = 1_800_000_000.0
    written: list[str] = field(default_factory=list)
    answers: list[tuple[str, dict[str, Any], float]] = field(default_factory=list)

    def write(self, pipeline: str, times: Sequence[float]) -> None:
        assert times
        if self.fails:
            raise self.fails
        self.written.append(pipeline)

    def shown(self, _pipeline: str, _begin: float, _end: float) -> bool:
        return self.shows

    def put(self, address: str, body: bytes) -> None:
        self.answers.append((address, json.loads(body), self.now))

    def wait(self, seconds: float) -> None:
        self.now += seconds

    @property
    def world(self) -> World:
        return World(clock=lambda: self.now, wait=self.wait, new_id=lambda: "id", random=Random(1))


def request(kind: str, **properties: str) -> dict[str, Any]:
    return {
        "RequestType": kind,
        "StackId": "arn:stack",
        "RequestId": "request",
        "LogicalResourceId": "Heartbeat",
        "ResourceProperties": properties,
        "ResponseURL": SECRET,
    }


def run(
    stack: Stack, event: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> tuple[dict[str, Any], float]:
    """The answer that CloudFormation got, and how many seconds it took."""
    resource = FirstHeartbeats(stack, stack.put, stack.world)
    monkeypatch.setattr(first_heartbeat, "resource", lambda: resource)
    monkeypatch.setattr(first_heartbeat, "world", lambda: stack.world)
    begun = stack.now
    first_heartbeat.handler(event, CONTEXT)
    [(address, answer, at)] = stack.answers
    assert address == SECRET
    return answer, at - begun


@pytest.mark.parametrize("kind", ["Create", "Update"])
def test_it_writes_and_answers(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = Stack()
    answer, _ = run(stack, request(kind, Pipeline="orders"), monkeypatch)
    assert stack.written == ["orders"]
    assert (answer["Status"], answer["Reason"]) == ("SUCCESS", "first heartbeat: shown")
    assert answer["PhysicalResourceId"] == "first-heartbeat-orders"


def test_a_pipeline_that_is_deleted_gets_no_heartbeat_and_an_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    stack = Stack()
    answer, took = run(stack, request("Delete", Pipeline="orders"), monkeypatch)
    assert (stack.written, answer["Status"], took) == ([], "SUCCESS", 0)


@pytest.mark.parametrize(
    ("stack", "properties", "reason"),
    [
        (Stack(fails=HeartbeatRefused("AccessDenied")), {"Pipeline": "a"}, "not written AccessDe"),
        (Stack(fails=ZeroDivisionError("a defect")), {"Pipeline": "a"}, "failed ZeroDivisionError"),
        (Stack(), {}, "failed KeyError"),
        (Stack(shows=False), {"Pipeline": "a"}, "written, and not shown in time"),
    ],
    ids=["refused", "defect", "no pipeline", "not shown"],
)
def test_a_heartbeat_that_fails_is_a_success_with_a_reason(
    stack: Stack, properties: dict[str, str], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A false page is better than a stack that does not deploy."""
    answer, took = run(stack, request("Create", **properties), monkeypatch)
    assert answer["Status"] == "SUCCESS"
    assert answer["Reason"].startswith(f"first heartbeat: {reason}")
    # The answer itself may take a while, within the function's timeout.
    assert took <= 240 - ANSWERING


def test_the_log_says_what_became_of_it_and_never_where_the_answer_went(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    # Read when the handler is decorated.
    monkeypatch.setenv("POWERTOOLS_LOGGER_LOG_EVENT", "true")
    importlib.reload(first_heartbeat)
    stack = Stack(fails=HeartbeatRefused("AccessDenied for cloudwatch:PutMetricData"))
    run(stack, request("Create", Pipeline="orders"), monkeypatch)
    monkeypatch.undo()
    importlib.reload(first_heartbeat)
    printed = [str(vars(record)) for record in caplog.records]
    assert len(printed) == 1
    assert "'why': 'AccessDenied for cloudwatch:PutMetricData'" in printed[0]
    assert "signature" not in printed[0]
