"""The state machine that is deployed is the one in statemachines/, wired to our functions."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from infra.circuit import DEFINITION
from tests.infra.conftest import ARN, ROOT, THEIRS, Synthesize
from tests.infra.templates import Stack, Synthesis, filled, state_machine

PIPELINES = ("Orders", "OrderEvents", "Theirs", "Watched")


def machine(stack: Stack) -> dict[str, Any]:
    """The properties of the state machine of a pipeline's outages."""
    return dict(state_machine(stack, "circuit-breaker")["Properties"])


def defined(stack: Stack) -> dict[str, Any]:
    """The definition as Step Functions gets it, its substitutions made."""
    properties = machine(stack)
    text: str = properties["DefinitionString"]
    for name, value in properties["DefinitionSubstitutions"].items():
        text = text.replace(f"${{{name}}}", filled(value))
    found: dict[str, Any] = json.loads(text)
    return found


@pytest.mark.parametrize("pipeline", PIPELINES)
def test_the_definition_has_no_substitution_left_and_calls_the_functions_of_its_pipeline(
    app: Synthesis, pipeline: str
) -> None:
    stack = app[f"Deadletter-{pipeline}"]
    definition = defined(stack)
    assert "${" not in json.dumps(definition)
    called = {
        name: stack.resources[re.split(r"[<.]", state["Parameters"]["FunctionName"])[1]]
        for name, state in definition["States"].items()
        if state["Type"] == "Task"
    }
    handlers = {name: item["Properties"]["Handler"] for name, item in called.items()}
    assert handlers.pop("Probe") == "handlers.probe.handler"
    assert set(handlers.values()) == {"handlers.circuit.handler"}


def test_it_is_the_one_that_the_tests_of_the_state_machine_run(app: Synthesis) -> None:
    text = machine(app["Deadletter-Orders"])["DefinitionString"]
    there = json.loads(text.replace("arn:${Partition}:states", "arn:aws:states"))
    assert there == json.loads((ROOT / "statemachines" / DEFINITION).read_text())


def test_whatever_the_definition_leaves_open_is_filled_in(app: Synthesis) -> None:
    properties = machine(app["Deadletter-Orders"])
    left_open = set(re.findall(r"\$\{(\w+)\}", properties["DefinitionString"]))
    assert left_open == set(properties["DefinitionSubstitutions"])


def test_errors_are_logged_without_what_an_execution_carries(app: Synthesis) -> None:
    stack = app["Deadletter-Orders"]
    properties = machine(stack)
    assert properties["StateMachineType"] == "STANDARD"
    assert properties["TracingConfiguration"] == {"Enabled": True}
    logging = properties["LoggingConfiguration"]
    assert (logging["Level"], logging["IncludeExecutionData"]) == ("ERROR", False)
    [destination] = logging["Destinations"]
    group = stack.resources[destination["CloudWatchLogsLogGroup"]["LogGroupArn"]["Fn::GetAtt"][0]][
        "Properties"
    ]
    assert group["LogGroupName"] == "/aws/vendedlogs/states/deadletter-orders-circuit-breaker"


def test_an_output_names_it_as_everybody_else_knows_it(app: Synthesis) -> None:
    stack = app["Deadletter-Orders"]
    key = next(
        key
        for key, made in stack.of("AWS::StepFunctions::StateMachine").items()
        if made["Properties"]["StateMachineName"].endswith("circuit-breaker")
    )
    assert stack.outputs["OrdersCircuitBreakerArn"] == f"<{key}>"
    assert machine(stack)["StateMachineName"] == "deadletter-orders-circuit-breaker"


def test_no_step_outlives_the_patience_of_the_state_machine(app: Synthesis) -> None:
    for pipeline in PIPELINES:
        stack = app[f"Deadletter-{pipeline}"]
        for name, state in defined(stack)["States"].items():
            if state["Type"] == "Task":
                function = stack.resources[
                    re.split(r"[<.]", state["Parameters"]["FunctionName"])[1]
                ]
                assert function["Properties"]["Timeout"] <= state["TimeoutSeconds"], name


def test_the_probe_waits_for_a_slow_consumer_as_long_as_lambda_lets_it(app: Synthesis) -> None:
    assert app.function("deadletter-orders-probe")["Timeout"] == 60 + 120
    assert app.function("deadletter-theirs-probe")["Timeout"] == 30 + 120


def test_no_probe_asks_for_more_time_than_lambda_gives(synthesize: Synthesize) -> None:
    """A consumer may use all of Lambda's 15 minutes; looking for a letter comes on top."""
    slow = {
        **THEIRS,
        "name": "slow",
        "consumer": {"function_arn": ARN.format("lambda", "function:slow"), "timeout": "15m"},
        "circuit": {},
    }
    timeouts = {
        function["Properties"]["FunctionName"]: function["Properties"]["Timeout"]
        for _, function in synthesize({"pipelines": [slow]}).of("AWS::Lambda::Function")
    }
    assert timeouts["deadletter-slow-probe"] == 900
    assert max(timeouts.values()) <= 900
