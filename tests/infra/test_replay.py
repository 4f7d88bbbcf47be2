"""The state machine of replay runs that is deployed is the one in statemachines/."""

from __future__ import annotations

import json
import re

import pytest

from infra.replay import DEFINITION
from tests.infra.conftest import ROOT
from tests.infra.templates import Synthesis, filled, state_machine

PIPELINES = ("Orders", "OrderEvents", "Theirs", "Watched")


def test_it_is_the_one_that_the_tests_of_the_state_machine_run(app: Synthesis) -> None:
    machine = state_machine(app["Deadletter-Orders"], "replay")["Properties"]
    text = machine["DefinitionString"].replace("arn:${Partition}:states", "arn:aws:states")
    assert json.loads(text) == json.loads((ROOT / "statemachines" / DEFINITION).read_text())
    left_open = set(re.findall(r"\$\{(\w+)\}", machine["DefinitionString"]))
    assert left_open == set(machine["DefinitionSubstitutions"])


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_every_step_calls_the_function_of_its_pipeline(app: Synthesis, pipeline: str) -> None:
    stack = app[f"Deadletter-{pipeline}"]
    machine = state_machine(stack, "replay")["Properties"]
    arn = filled(machine["DefinitionSubstitutions"]["ReplayFunctionArn"])
    function = stack.resources[re.split(r"[<.]", arn)[1]]["Properties"]
    assert function["Handler"] == "handlers.replay.handler"
    states = json.loads(machine["DefinitionString"])["States"]
    [worker] = states["Work"]["ItemProcessor"]["States"].values()
    tasks = [state for state in (*states.values(), worker) if state["Type"] == "Task"]
    assert len(tasks) == 10
    for task in tasks:
        assert task["Parameters"]["FunctionName"] == "${ReplayFunctionArn}"
        # No step outlives the patience of the state machine.
        assert function["Timeout"] <= task["TimeoutSeconds"]


def test_errors_are_logged_without_what_an_execution_carries(app: Synthesis) -> None:
    properties = state_machine(app["Deadletter-Orders"], "replay")["Properties"]
    assert properties["StateMachineType"] == "STANDARD"
    logging = properties["LoggingConfiguration"]
    assert (logging["Level"], logging["IncludeExecutionData"]) == ("ERROR", False)


def test_an_output_names_it(app: Synthesis) -> None:
    assert "OrdersReplayMachineArn" in app["Deadletter-Orders"].outputs
