"""What each role may do: one table, and the templates equal it."""

from __future__ import annotations

import re
from typing import Any

import pytest

from tests.infra.templates import Stack, Synthesis, filled

# Function -> what it reaches -> the actions it may take there.
GRANTED: dict[str, dict[str, set[str]]] = {
    "redrive": {
        "queue main": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        "queue dlq": {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:ChangeMessageVisibility",
            "sqs:GetQueueAttributes",
        },
        **{
            f"queue dlq_{one}": {
                "sqs:ReceiveMessage",
                "sqs:DeleteMessage",
                "sqs:ChangeMessageVisibility",
                "sqs:GetQueueAttributes",
                "sqs:SendMessage",
            }
            for one in ("vip", "slow")
        },
        "queue parking": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        "queue parking_quarantine": {"sqs:SendMessage", "sqs:GetQueueAttributes"},
        "table Letters": {
            "dynamodb:BatchGetItem",
            "dynamodb:Query",
            "dynamodb:PutItem",
            "dynamodb:UpdateItem",
            "dynamodb:DeleteItem",
            "dynamodb:BatchWriteItem",
        },
        "table Letters/index/lanes": {"dynamodb:Query"},
        "table Circuits": {"dynamodb:BatchGetItem"},
        # One object a letter.
        "bucket letters/waiting/orders/*": {"s3:GetObject", "s3:PutObject", "s3:DeleteObject"},
        "function route": {"lambda:InvokeFunction"},
        "logs redrive": {"logs:CreateLogStream", "logs:PutLogEvents"},
        # The actions of X-Ray know no resources.
        "*": {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
    },
    "route": {
        "table Letters": {"dynamodb:BatchGetItem"},
        "table Rules": {"dynamodb:Query"},
        "table Circuits": {"dynamodb:BatchGetItem"},
        "logs route": {"logs:CreateLogStream", "logs:PutLogEvents"},
        "*": {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
    },
    "consumer": {
        "queue main": {
            "sqs:ReceiveMessage",
            "sqs:DeleteMessage",
            "sqs:GetQueueAttributes",
            "sqs:ChangeMessageVisibility",
        },
        "table Endpoints": {"dynamodb:GetItem"},
        "logs consumer": {"logs:CreateLogStream", "logs:PutLogEvents"},
        "*": {"xray:PutTraceSegments", "xray:PutTelemetryRecords"},
    },
    "scheduler": {"function redrive": {"lambda:InvokeFunction"}},
    "check-rules": {
        "stream of Rules": {
            "dynamodb:DescribeStream",
            "dynamodb:GetRecords",
            "dynamodb:GetShardIterator",
        },
        "table Rules": {"dynamodb:UpdateItem"},
        "table Audit": {"dynamodb:PutItem"},
        # Read by path: IAM looks at the path, and may look at what is below it.
        "parameters pipelines": {"ssm:GetParametersByPath"},
        "parameters pipelines/*": {"ssm:GetParametersByPath"},
        "bus default": {"events:PutEvents"},
        "queue of failures": {"sqs:SendMessage"},
        "logs check-rules": {"logs:CreateLogStream", "logs:PutLogEvents"},
        # None of these knows resources.
        "*": {
            "dynamodb:ListStreams",
            "xray:PutTraceSegments",
            "xray:PutTelemetryRecords",
        },
    },
}

# Whatever is not listed here is in the stack of its pipeline.
SHARED = {"check-rules"}

NOUNS = (
    (r"arn:aws:sqs:eu-west-1:111122223333:deadletter-orders-(\w+)", r"queue \1"),
    (r"arn:aws:lambda:eu-west-1:111122223333:function:deadletter-orders-(\w+)", r"function \1"),
    (r"arn:aws:s3:::deadletter-letters-111122223333-eu-west-1/(.*)", r"bucket letters/\1"),
    (r"<Deadletter-Shared:\w*?Storage([A-Z][a-z]+)[0-9A-F]{8}Arn[0-9A-F]{8}>(.*)", r"table \1\2"),
    (r"<Storage([A-Z][a-z]+)[0-9A-F]{8}\.Arn>", r"table \1"),
    (r"<StorageRules[0-9A-F]{8}\.StreamArn>", "stream of Rules"),
    (r"arn:aws:ssm:eu-west-1:111122223333:parameter/deadletter/(.*)", r"parameters \1"),
    (r"arn:aws:events:eu-west-1:111122223333:event-bus/(\w+)", r"bus \1"),
    (r"<RuleCheckFailures[0-9A-F]{8}\.Arn>", "queue of failures"),
    (r"<RuleCheckLogs[0-9A-F]{8}\.Arn>", "logs check-rules"),
    (r"<PipelineRedriver\w+Function[0-9A-F]{8}.Arn>", "function redrive"),
    (r"<PipelineRedriver\w+Logs[0-9A-F]{8}.Arn>", "logs redrive"),
    (r"<PipelineRouter\w+Logs[0-9A-F]{8}.Arn>", "logs route"),
    (r"<PipelineDispatcher\w+Logs[0-9A-F]{8}.Arn>", "logs consumer"),
    (r"\*", "*"),
)


def noun(arn: str) -> str:
    """What `arn` names, in the words of the table; the ARN itself if that is nothing of ours."""
    for pattern, replacement in NOUNS:
        if re.fullmatch(pattern, arn):
            return re.sub(pattern, replacement, arn, count=1)
    return arn


def statements(role: dict[str, Any]) -> list[dict[str, Any]]:
    return [
        statement
        for policy in role["Properties"]["Policies"]
        for statement in policy["PolicyDocument"]["Statement"]
    ]


def granted(role: dict[str, Any]) -> dict[str, set[str]]:
    """What a role may do, in the shape of the table."""
    found: dict[str, set[str]] = {}
    for statement in statements(role):
        assert statement["Effect"] == "Allow"
        for resource in listed(statement["Resource"]):
            found.setdefault(noun(filled(resource)), set()).update(listed(statement["Action"]))
    return found


def listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def role_of(stack: Stack, function: str) -> dict[str, Any]:
    if function == "scheduler":
        [schedule, *_] = stack.of("AWS::Scheduler::Schedule").values()
        return stack.resources[schedule["Properties"]["Target"]["RoleArn"]["Fn::GetAtt"][0]]
    owner = "deadletter" if function in SHARED else "deadletter-orders"
    made = stack.named("AWS::Lambda::Function", "FunctionName", f"{owner}-{function}")
    return stack.resources[made["Role"]["Fn::GetAtt"][0]]


@pytest.mark.parametrize("function", GRANTED)
def test_a_role_may_do_what_the_table_says_and_nothing_else(app: Synthesis, function: str) -> None:
    stack = "Deadletter-Shared" if function in SHARED else "Deadletter-Orders"
    assert granted(role_of(app[stack], function)) == GRANTED[function]


def test_there_is_no_role_beside_those_of_the_table(app: Synthesis) -> None:
    roles = {name: len(stack.of("AWS::IAM::Role")) for name, stack in app.stacks.items()}
    assert roles["Deadletter-Orders"] == len(GRANTED.keys() - SHARED)
    assert roles["Deadletter-Shared"] == len(SHARED)
    assert {number for name, number in roles.items() if name.endswith("-Queues")} == {0}


def test_no_permission_comes_from_anywhere_but_the_role_itself(app: Synthesis) -> None:
    for kind in ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy", "AWS::Lambda::Permission"):
        assert list(app.of(kind)) == []
    for key, role in app.of("AWS::IAM::Role"):
        assert "ManagedPolicyArns" not in role["Properties"], key


def test_no_action_is_a_wildcard(app: Synthesis, sandboxed: Synthesis) -> None:
    for one in (app, sandboxed):
        for key, role in one.of("AWS::IAM::Role"):
            for statement in statements(role):
                assert "*" not in "".join(listed(statement["Action"])), key


def test_the_router_can_move_nothing() -> None:
    actions = set().union(*GRANTED["route"].values())
    assert {one for one in actions if one.startswith(("sqs:", "s3:", "lambda:"))} == set()
    assert {
        one for one in actions if re.search("Put(?!Trace|Telemetry|Log)|Update|Delete", one)
    } == set()


def test_a_role_is_taken_on_by_its_service_only(app: Synthesis) -> None:
    for key, role in app.of("AWS::IAM::Role"):
        [trust] = role["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        service = trust["Principal"]["Service"]
        assert service in ("lambda.amazonaws.com", "scheduler.amazonaws.com"), key
        if service == "scheduler.amazonaws.com":
            account = trust["Condition"]["StringEquals"]["aws:SourceAccount"]
            assert filled(account) == "111122223333"


def test_a_pipeline_of_existing_queues_reaches_those_and_no_others(app: Synthesis) -> None:
    stack = app["Deadletter-Theirs"]
    made = stack.named("AWS::Lambda::Function", "FunctionName", "deadletter-theirs-redrive")
    role = stack.resources[made["Role"]["Fn::GetAtt"][0]]
    assert {one for one in granted(role) if ":sqs:" in one} == {
        "arn:aws:sqs:eu-west-1:111122223333:their-main",
        "arn:aws:sqs:eu-west-1:111122223333:their-dlq",
        "arn:aws:sqs:eu-west-1:111122223333:deadletter-theirs-parking",
    }


KEY = {"kms:Decrypt", "kms:DescribeKey"}
KEY_TO_WRITE = KEY | {
    "kms:Encrypt",
    "kms:GenerateDataKey",
    "kms:GenerateDataKeyWithoutPlaintext",
    "kms:ReEncryptFrom",
    "kms:ReEncryptTo",
}


@pytest.mark.parametrize(
    ("function", "actions", "services"),
    [
        ("redrive", KEY_TO_WRITE, ["sqs", "dynamodb", "s3"]),
        ("route", KEY, ["dynamodb"]),
        ("consumer", KEY, ["sqs", "dynamodb"]),
    ],
)
def test_a_customers_key_may_be_used_through_the_services_that_hold_the_data(
    sandboxed: Synthesis, function: str, actions: set[str], services: list[str]
) -> None:
    stack = sandboxed["Mail-Orders"]
    made = stack.named("AWS::Lambda::Function", "FunctionName", f"mail-orders-{function}")
    [use] = [
        one
        for one in statements(stack.resources[made["Role"]["Fn::GetAtt"][0]])
        if one.get("Sid") == "Key"
    ]
    assert set(use["Action"]) == actions
    assert use["Resource"] == "arn:aws:kms:eu-west-1:111122223333:key/1234abcd"
    via = listed(use["Condition"]["StringEquals"]["kms:ViaService"])
    assert [filled(one) for one in via] == [
        f"{service}.eu-west-1.amazonaws.com" for service in services
    ]
