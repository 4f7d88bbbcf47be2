"""The deployed state machine, run by the emulator's engine through every exit of every state.

Its functions are stood in for by one that answers as the execution's input tells it to: what
they themselves decide is tested elsewhere, and few of these ways can be had by waiting.
"""

from __future__ import annotations

import io
import json
import uuid
import zipfile
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import pytest

from sandbox.progress import until
from sandbox.server import ACCOUNT
from tests.statemachines.test_graph import exits

ENDS = ("SUCCEEDED", "FAILED", "TIMED_OUT", "ABORTED")

# Says the next word of the script for its step; how many it has said so far is counted in
# what an execution carries from step to step.
STAND_IN = """
def handler(event, context):
    step, outage = event["step"], event["outage"]
    so_far = outage.get("circuit", {})
    counter = "empty" if step == "resume" else "probes"
    said = so_far.get(counter, 0)
    words = outage["script"][step]
    word = words[min(said, len(words) - 1)]
    if word == "raise":
        raise RuntimeError("told to")
    counted = {"probes": so_far.get("probes", 0), "empty": so_far.get("empty", 0)}
    if step in ("probe", "resume"):
        counted[counter] += 1
    return {"next": word, "state": "OPEN", "wait_seconds": 0, "said": "", **counted}
"""

WELL = {
    "announce": ["pause"],
    "pause": ["probe"],
    "probe": ["probe", "resume"],
    "resume": ["resume", "closed"],
}

# What differs from an outage that goes well, and how it ends.
SCENES: dict[str, tuple[Mapping[str, list[str]], str]] = {
    "well": ({}, "SUCCEEDED"),
    "no announcement": ({"announce": ["raise"]}, "FAILED"),
    "nonsense at first": ({"announce": ["fly"]}, "FAILED"),
    "nothing to pause": ({"announce": ["probe"]}, "SUCCEEDED"),
    "closed before it began": ({"announce": ["resume"]}, "SUCCEEDED"),
    "not ours at first": ({"announce": ["hand over"]}, "SUCCEEDED"),
    "no pause": ({"pause": ["raise"]}, "SUCCEEDED"),
    "no probe": ({"probe": ["raise"]}, "FAILED"),
    "nonsense of the probe": ({"probe": ["fly"]}, "FAILED"),
    "an outage after a hold": ({"announce": ["probe"], "probe": ["pause", "resume"]}, "SUCCEEDED"),
    "not ours any more": ({"probe": ["hand over"]}, "SUCCEEDED"),
    "no way back": ({"resume": ["raise"]}, "FAILED"),
    "nonsense on the way back": ({"resume": ["fly"]}, "FAILED"),
    "not ours on the way back": ({"resume": ["hand over"]}, "SUCCEEDED"),
}


@pytest.fixture(scope="module")
def stand_in(aws: Callable[[str], Any]) -> Iterator[str]:
    """The ARN of the function in the place of both."""
    name = f"stand-in-{uuid.uuid4().hex[:8]}"
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        archive.writestr("index.py", STAND_IN)
    yield aws("lambda").create_function(
        FunctionName=name,
        Runtime="python3.13",
        Handler="index.handler",
        Role=f"arn:aws:iam::{ACCOUNT}:role/{_role(aws, 'lambda')}",
        Code={"ZipFile": package.getvalue()},
    )["FunctionArn"]
    aws("lambda").delete_function(FunctionName=name)


@pytest.fixture(scope="module")
def definition(aws: Callable[[str], Any], outputs: Mapping[str, str]) -> dict[str, Any]:
    """The state machine as it was deployed."""
    arn = outputs["OrdersCircuitBreakerArn"]
    found = aws("stepfunctions").describe_state_machine(stateMachineArn=arn)
    said: dict[str, Any] = json.loads(found["definition"])
    return said


@pytest.fixture(scope="module")
def executions(
    aws: Callable[[str], Any], definition: dict[str, Any], stand_in: str
) -> Mapping[str, tuple[str, list[str]]]:
    """Every scene played, all at once: how it ended, and the states it entered."""
    states = aws("stepfunctions")
    for state in definition["States"].values():
        if state["Type"] == "Task":
            state["Parameters"]["FunctionName"] = stand_in
            for retry in state["Retry"]:
                # Which way a scene goes does not depend on how long it waits for that.
                retry |= {"IntervalSeconds": 1, "BackoffRate": 1.0}
    machine = states.create_state_machine(
        name=f"stand-in-{uuid.uuid4().hex[:8]}",
        definition=json.dumps(definition),
        roleArn=f"arn:aws:iam::{ACCOUNT}:role/{_role(aws, 'states', 'lambda:InvokeFunction')}",
    )["stateMachineArn"]
    started = {
        scene: states.start_execution(
            stateMachineArn=machine, input=json.dumps({"script": {**WELL, **differs}})
        )["executionArn"]
        for scene, (differs, _) in SCENES.items()
    }

    def ended() -> dict[str, str] | None:
        found = {
            scene: states.describe_execution(executionArn=arn)["status"]
            for scene, arn in started.items()
        }
        return found if all(entry in ENDS for entry in found.values()) else None

    def entered() -> list[int]:
        return [len(_entered(states, arn)) for arn in started.values()]

    statuses = until(ended, "every scene has ended", marks=entered)
    found = {scene: (statuses[scene], _entered(states, arn)) for scene, arn in started.items()}
    states.delete_state_machine(stateMachineArn=machine)
    return found


def _role(aws: Callable[[str], Any], service: str, *actions: str) -> str:
    name = f"stand-in-{uuid.uuid4().hex[:8]}"
    principal = {"Service": f"{service}.amazonaws.com"}
    trust = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}
    aws("iam").create_role(
        RoleName=name,
        AssumeRolePolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [trust]}),
    )
    if actions:
        allowed = {"Effect": "Allow", "Action": list(actions), "Resource": "*"}
        policy = {"Version": "2012-10-17", "Statement": [allowed]}
        aws("iam").put_role_policy(
            RoleName=name, PolicyName="all", PolicyDocument=json.dumps(policy)
        )
    return name


def _entered(states: Any, execution: str) -> list[str]:
    pages = states.get_paginator("get_execution_history").paginate(executionArn=execution)
    return [
        event["stateEnteredEventDetails"]["name"]
        for page in pages
        for event in page["events"]
        if "stateEnteredEventDetails" in event
    ]


def test_each_scene_ends_as_it_should_and_every_exit_of_every_state_is_taken(
    definition: dict[str, Any], executions: Mapping[str, tuple[str, list[str]]]
) -> None:
    ends = {scene: status for scene, (status, _) in executions.items()}
    assert ends == {scene: status for scene, (_, status) in SCENES.items()}
    lost = {scene for scene, (_, visited) in executions.items() if visited[-1] == "ExecutionLost"}
    assert lost == {scene for scene, status in ends.items() if status == "FAILED"}
    taken = {edge for _, visited in executions.values() for edge in pairwise(visited)}
    states = definition["States"]
    assert {(name, to) for name, item in states.items() for to in exits(item)} == taken
