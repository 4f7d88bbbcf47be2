"""Step Functions: our definitions, names of executions, what a failure is and who may catch it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tools.verify_aws.account import AskedAccount, allow, expect, refused
from tools.verify_aws.check import check
from tools.verify_aws.checks.queues import receive
from tools.verify_aws.checks.tables import until_it_may

DEFINITIONS = Path(__file__).parents[3] / "statemachines"

NOTHING: Mapping[str, Any] = {"StartAt": "Done", "States": {"Done": {"Type": "Succeed"}}}


def machine(
    account: AskedAccount, definition: Mapping[str, Any], *statements: Mapping[str, Any]
) -> str:
    """The ARN of a new state machine."""
    states, name = account.client("stepfunctions"), account.name("machine")
    role = account.role("states.amazonaws.com", list(statements))

    made = account.created(
        name,
        states.create_state_machine,
        *("assumed", "permissions"),
        name=name,
        definition=json.dumps(definition),
        roleArn=role,
    )
    arn = str(made["stateMachineArn"])
    account.remove(f"state machine {arn}", lambda: states.delete_state_machine(stateMachineArn=arn))
    return arn


def outcome(account: AskedAccount, arn: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """How an execution ended."""
    states = account.client("stepfunctions")
    execution = states.start_execution(stateMachineArn=arn, input=json.dumps(given))["executionArn"]

    def ended() -> Any:
        seen = states.describe_execution(executionArn=execution)
        return seen if seen["status"] != "RUNNING" else None

    return dict(account.until(ended, 120, "the execution has ended", every=2))


@check("states-definitions", creates="nothing")
def definitions(account: AskedAccount) -> str:
    """Does Step Functions find our two state machines free of errors?"""
    states = account.client("stepfunctions")
    arn = f"arn:aws:lambda:{account.region}:111122223333:function:verify"
    wrong = []
    for path in sorted(DEFINITIONS.glob("*.asl.json")):
        text = re.sub(r"\$\{\w+\}", arn, path.read_text())
        answer = states.validate_state_machine_definition(definition=text)
        wrong += [f"{path.name}: {each['message']}" for each in answer["diagnostics"]]
    expect(not wrong, "; ".join(wrong))
    return "no diagnostics"


@check("states-execution-name", creates="a state machine", seconds=150)
def execution_name(account: AskedAccount) -> str:
    """Does an execution's name stay taken after its end, and is one of 81 letters refused?"""
    states, arn = account.client("stepfunctions"), machine(account, NOTHING)
    started = states.start_execution(stateMachineArn=arn, name="once", input="{}")
    account.until(
        lambda: (
            states.describe_execution(executionArn=started["executionArn"])["status"] == "SUCCEEDED"
        ),
        60,
        "the execution has ended",
    )
    code = refused(
        states.start_execution,
        "ExecutionAlreadyExists",
        stateMachineArn=arn,
        name="once",
        input='{"n": 2}',
    )
    long = refused(states.start_execution, stateMachineArn=arn, name="x" * 81)
    return f"refused with {code}; 81 letters with {long}"


@check("states-payload", creates="a state machine", seconds=120)
def payload_of_a_state(account: AskedAccount) -> str:
    """Is an input of more than 256 KiB refused?"""
    states, arn = account.client("stepfunctions"), machine(account, NOTHING)
    most = 256 * 1024
    code = refused(states.start_execution, stateMachineArn=arn, input=json.dumps({"t": "x" * most}))
    return f"refused with {code}"


@check("states-data-limit", creates="a state machine", seconds=180)
def data_limit(account: AskedAccount) -> str:
    """Does a state that grows over 256 KiB fail its execution past a Catch of States.ALL?"""
    doubles = {"t.$": "States.Format('{}{}', $.t, $.t)"}
    inner = {
        "StartAt": "Double",
        "States": {"Double": {"Type": "Pass", "Parameters": doubles, "End": True}},
    }
    definition = {
        "StartAt": "Try",
        "States": {
            "Try": {
                "Type": "Parallel",
                "Branches": [inner],
                "Catch": [{"ErrorEquals": ["States.ALL"], "Next": "Caught"}],
                "End": True,
            },
            "Caught": {"Type": "Succeed"},
        },
    }
    seen = outcome(account, machine(account, definition), {"t": "x" * 200_000})
    expect(seen["status"] == "FAILED", f"the execution ended as {seen['status']}")
    return f"failed with {seen.get('error')}"


@check("states-map-tolerance", creates="two state machines with three children each", seconds=300)
def map_tolerance(account: AskedAccount) -> str:
    """Does a Distributed Map fail at its first failed child unless its tolerance is 100 %?"""
    actions = ["states:StartExecution", "states:DescribeExecution", "states:StopExecution"]
    rights = allow(actions, "*")

    def mapped(tolerance: int) -> dict[str, Any]:
        child = {
            "ProcessorConfig": {"Mode": "DISTRIBUTED", "ExecutionType": "STANDARD"},
            "StartAt": "Fails",
            "States": {"Fails": {"Type": "Fail", "Error": "Never"}},
        }
        state = {
            "Type": "Map",
            "ItemProcessor": child,
            "ItemsPath": "$.workers",
            "ToleratedFailurePercentage": tolerance,
            "End": True,
        }
        return {"StartAt": "Work", "States": {"Work": state}}

    ends = [
        outcome(account, machine(account, mapped(tolerance), rights), {"workers": [1, 2, 3]})
        for tolerance in (0, 100)
    ]
    seen = [end["status"] for end in ends]
    expect(seen == ["FAILED", "SUCCEEDED"], f"0 % ended as {seen[0]}, 100 % as {seen[1]}")
    return f"0 % failed with {ends[0].get('error')}, 100 % succeeded"


@check(
    "iam-send-task-success",
    creates="a queue, a state machine and a role",
    dollars=0.001,
    seconds=240,
)
def send_task_success(account: AskedAccount) -> str:
    """May a role whose policy names a machine answer a task of its executions?"""
    queue = account.queue()
    waits = {
        "Type": "Task",
        "Resource": "arn:aws:states:::sqs:sendMessage.waitForTaskToken",
        "Parameters": {"QueueUrl": queue, "MessageBody": {"token.$": "$$.Task.Token"}},
        "TimeoutSeconds": 180,
        "End": True,
    }
    sends = allow("sqs:SendMessage", account.queue_arn(queue))
    arn = machine(account, {"StartAt": "Wait", "States": {"Wait": waits}}, sends)
    account.client("stepfunctions").start_execution(stateMachineArn=arn, input="{}")
    token = json.loads(receive(account, queue, 60)["Body"])["token"]
    answers = allow("states:SendTaskSuccess", arn)
    theirs = account.acting_as(account.role(None, [answers]))("stepfunctions")
    until_it_may(account, theirs.send_task_success, taskToken=token, output="{}")
    return "answered by a role with the machine's ARN alone"
