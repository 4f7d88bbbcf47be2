"""Further runs of the redriver, started by one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.functions import LambdaRunStarter
from deadletter.aws.wiring import moving as wiring
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryLambda
from tests.simulation.stage import Stage


def test_a_run_is_started_with_its_event_and_its_end_is_not_waited_for() -> None:
    numbers = itertools.count()
    functions = MemoryLambda(Clock(), lambda: f"id{next(numbers)}")
    events: list[Any] = []

    def redrive(event: Any, _context: Any) -> Any:
        events.append(event)
        raise RuntimeError("what becomes of it is not seen")

    functions.register("redrive", redrive)
    LambdaRunStarter(lambda: functions, "redrive").start({"source": "dlq", "hop": 1})  # type: ignore[arg-type, return-value]
    assert events == [{"source": "dlq", "hop": 1}]


@pytest.mark.parametrize(("function", "starts"), [("redrive", True), ("", False)])
def test_a_run_can_start_others_if_it_knows_its_function(function: str, starts: bool) -> None:
    stage = Stage()
    resources = replace(stage.resources, redrive_function=function)
    made = wiring.redriver_for(stage.pipeline, resources, stage.clients, stage.world)
    assert (made._setup.starter is not None) == starts
