"""Step Functions in memory: the real state machine, each execution a process."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from random import Random
from typing import Any

from greenlet import greenlet

from deadletter.outage.steps import Execution, execution_from_json
from deadletter.testing.fakes import client_error
from tests.scenario_bench.timeline import Timeline

MACHINE = Path(__file__).parents[2] / "statemachines" / "circuit_breaker.asl.json"

Task = Callable[[str, Execution], Mapping[str, Any]]
"""Takes a step (announce, pause, probe, resume) of an execution; returns the answer as JSON."""


class MemoryStepFunctions:
    """A `boto3.client("stepfunctions")` for one machine."""

    def __init__(self, timeline: Timeline, task: Task, random: Random) -> None:
        self._timeline = timeline
        self._task = task
        self._random = random
        self._states = json.loads(MACHINE.read_text())["States"]
        self._running: dict[str, greenlet] = {}
        self._names: set[str] = set()
        self.failed = 0

    def start_execution(self, **arguments: str) -> dict[str, Any]:
        name = arguments["name"]
        if name in self._names:
            raise client_error("StartExecution", "ExecutionAlreadyExists", "taken")
        self._names.add(name)
        data = json.loads(arguments["input"])
        self._running[name] = self._timeline.spawn(lambda: self._run(name, data))
        return {"executionArn": name}

    def list_executions(self, **_: Any) -> dict[str, Any]:
        return {"executions": [{"name": name} for name in self._running]}

    def kill_all(self) -> None:
        """All executions that run now are gone."""
        for process in self._running.values():
            self._timeline.kill(process)
        self._running.clear()

    def _run(self, name: str, data: dict[str, Any]) -> None:
        at = "Announce"
        while True:
            state = self._states[at]
            match state["Type"]:
                case "Task":
                    at = self._take(state, data)
                case "Choice":
                    word = data["circuit"]["next"]
                    choices = {c["StringEquals"]: c["Next"] for c in state["Choices"]}
                    at = choices.get(word, state["Default"])
                case "Wait":
                    self._timeline.advance(data["circuit"]["wait_seconds"])
                    at = state["Next"]
                case kind:
                    self.failed += kind == "Fail"
                    del self._running[name]
                    return

    def _take(self, state: Mapping[str, Any], data: dict[str, Any]) -> str:
        """Run a task with its retries; returns the next state."""
        tries = [0] * len(state["Retry"])
        while True:
            try:
                answer = self._task(
                    state["Parameters"]["Payload"]["step"], execution_from_json(data)
                )
            except Exception as error:
                at, retry = next(
                    (at, retry)
                    for at, retry in enumerate(state["Retry"])
                    if {type(error).__name__, "States.ALL"} & set(retry["ErrorEquals"])
                )
                if tries[at] == retry["MaxAttempts"]:
                    if state["Catch"][0]["ResultPath"] == "$.circuit.pause_failed":
                        data["circuit"]["pause_failed"] = {}
                    return str(state["Catch"][0]["Next"])
                longest = retry["IntervalSeconds"] * retry["BackoffRate"] ** tries[at]
                tries[at] += 1
                self._timeline.advance(
                    self._random.random() * min(longest, retry["MaxDelaySeconds"])
                )
            else:
                data["circuit"] = dict(answer)
                return str(state["Next"])


def as_json(step: Any) -> dict[str, Any]:
    """A step's answer, as the function returns it."""
    return {**asdict(step), "next": str(step.next)}
