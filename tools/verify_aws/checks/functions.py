"""Lambda: what an invocation carries, what a mapping deletes, how long a change takes."""

from __future__ import annotations

import base64
import json
from typing import Any

from botocore.exceptions import ClientError

from tools.verify_aws.account import AskedAccount, allow, code_of, expect, quietly, refused
from tools.verify_aws.check import check

ECHO = """
def handler(event, context):
    given = context.client_context
    return {"custom": given.custom if given else None}
"""

VERSIONS = """
import sys
import boto3, botocore
def handler(event, context):
    return {"python": sys.version.split()[0], "boto3": boto3.__version__}
"""

# Fails each record whose body is "bad".
PARTIAL = """
def handler(event, context):
    bad = [r["messageId"] for r in event["Records"] if r["body"] == "bad"]
    return {"batchItemFailures": [{"itemIdentifier": each} for each in bad]}
"""

QUEUE_RIGHTS = allow(["sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes"], "*")


def answer(account: AskedAccount, function: str, **more: Any) -> Any:
    """What a function returns."""
    reply = account.client("lambda").invoke(FunctionName=function, **more)
    return json.loads(reply["Payload"].read() or b"null")


def mapping(account: AskedAccount, url: str, function: str, **settings: Any) -> str:
    """The id of a new mapping from a queue to a function, enabled."""
    client = account.client("lambda")

    # Its rights on the queue may not be seen yet.
    made = account.created(
        "a mapping",
        client.create_event_source_mapping,
        "permissions",
        EventSourceArn=account.queue_arn(url),
        FunctionName=function,
        **settings,
    )
    uuid = str(made["UUID"])

    def remove() -> None:
        def gone() -> bool:
            try:
                client.delete_event_source_mapping(UUID=uuid)
            except ClientError as error:
                return code_of(error) != "ResourceInUseException"
            return True

        account.until(gone, 120, "the mapping is removed", every=5)

    account.remove(f"mapping {uuid}", remove)
    account.until(lambda: state(account, uuid) == "Enabled", 180, "the mapping is enabled", every=3)
    return uuid


def state(account: AskedAccount, uuid: str) -> str:
    """A mapping's state, in AWS's words."""
    return str(account.client("lambda").get_event_source_mapping(UUID=uuid)["State"])


@check("lambda-client-context", creates="a function", seconds=90)
def client_context(account: AskedAccount) -> str:
    """Does a synchronous invocation hand over the client context, and refuse a long one?"""
    function = account.function(ECHO, [])

    def context(text: str) -> str:
        return base64.b64encode(json.dumps({"custom": {"permit": text}}).encode()).decode()

    seen = answer(account, function, ClientContext=context("x"))
    expect(seen == {"custom": {"permit": "x"}}, f"the function saw {seen}")
    code = refused(
        account.client("lambda").invoke, FunctionName=function, ClientContext=context("x" * 2800)
    )
    return f"handed over; more than 3,583 bytes refused with {code}"


@check("lambda-payload", creates="a function", seconds=90)
def payload(account: AskedAccount) -> str:
    """Is a request of 6 MB taken, and a longer one refused as too large?"""
    function = account.function(ECHO, [])
    invoke = account.client("lambda").invoke
    most = 6 * 1024 * 1024
    reply = invoke(FunctionName=function, Payload=b'"' + b"x" * (most - 2) + b'"')
    expect(reply["StatusCode"] == 200, f"6 MB: status {reply['StatusCode']}")
    # AWS lets some hundred bytes more pass; a tenth more is surely too long.
    code = refused(
        invoke,
        "RequestTooLargeException",
        "RequestEntityTooLargeException",
        FunctionName=function,
        Payload=b'"' + b"x" * (most + most // 10) + b'"',
    )
    return f"6,291,456 bytes taken, 6.6 MB refused with {code}"


@check("lambda-environment", creates="a function", seconds=90)
def environment(account: AskedAccount) -> str:
    """Is an environment of more than 4 KB refused?"""
    function = account.function(ECHO, [])
    code = refused(
        account.client("lambda").update_function_configuration,
        FunctionName=function,
        Environment={"Variables": {"LONG": "x" * 4096}},
    )
    return f"refused with {code}"


@check("lambda-runtime", creates="a function", seconds=90)
def runtime(account: AskedAccount) -> str:
    """Does a function's runtime bring a boto3 of 1.x, and which?"""
    seen = answer(account, account.function(VERSIONS, []))
    expect(seen["boto3"].startswith("1."), f"boto3 {seen['boto3']}")
    return f"Python {seen['python']}, boto3 {seen['boto3']}"


@check("lambda-throttled", creates="a function", seconds=90)
def throttled(account: AskedAccount) -> str:
    """Is a synchronous invocation over a reserved concurrency refused, and not kept?"""
    function, client = account.function(ECHO, []), account.client("lambda")
    client.put_function_concurrency(FunctionName=function, ReservedConcurrentExecutions=0)

    def refusal() -> str:
        try:
            client.invoke(FunctionName=function)
        except ClientError as error:
            return code_of(error)
        return ""

    code = account.until(refusal, 30, "the reserve of 0 is in effect", every=2)
    expect(code == "TooManyRequestsException", f"refused with {code}")
    return f"refused with {code}"


@check("lambda-asynchronous", creates="a function", seconds=90)
def asynchronous(account: AskedAccount) -> str:
    """Can retries of asynchronous invocations be switched off, and an event's age be a minute?"""
    function, client = account.function(ECHO, []), account.client("lambda")
    seen = client.put_function_event_invoke_config(
        FunctionName=function, MaximumRetryAttempts=0, MaximumEventAgeInSeconds=60
    )
    expect(seen["MaximumRetryAttempts"] == 0, f"retries: {seen['MaximumRetryAttempts']}")
    expect(seen["MaximumEventAgeInSeconds"] == 60, f"age: {seen['MaximumEventAgeInSeconds']}")
    return "0 retries and an age of 60 s are taken"


@check("lambda-recursion", creates="a function", seconds=90)
def recursion(account: AskedAccount) -> str:
    """Does a function's loop detection end loops unless it is told otherwise?"""
    function = account.function(ECHO, [])
    seen = account.client("lambda").get_function_recursion_config(FunctionName=function)
    expect(seen["RecursiveLoop"] == "Terminate", f"RecursiveLoop is {seen['RecursiveLoop']}")
    return "RecursiveLoop is Terminate"


@check("lambda-mapping-visibility", creates="a function and a queue", seconds=120)
def mapping_visibility(account: AskedAccount) -> str:
    """Is a mapping refused whose queue hides messages for less than the function's timeout?"""
    function = account.function(ECHO, [QUEUE_RIGHTS], Timeout=60)
    url, client = account.queue(VisibilityTimeout="30"), account.client("lambda")

    def refusal() -> str:
        try:
            made = client.create_event_source_mapping(
                EventSourceArn=account.queue_arn(url), FunctionName=function, Enabled=False
            )
        except ClientError as error:
            return "" if "permissions" in str(error) else str(error)
        account.remove(
            "mapping", lambda: quietly(client.delete_event_source_mapping, UUID=made["UUID"])
        )
        return "taken"

    said = account.until(refusal, 60, "an answer about the time-outs", every=3)
    expect("timeout" in said.lower(), f"the mapping was {said}")
    return "refused for its time-outs"


@check(
    "lambda-partial-failures",
    creates="a function, a queue and a mapping",
    dollars=0.002,
    seconds=480,
)
def partial_failures(account: AskedAccount) -> str:
    """Does a mapping keep the messages that a function names as failed, and delete the rest?"""
    function = account.function(PARTIAL, [QUEUE_RIGHTS])
    policy_of = account.queue("dead")
    url = account.queue(
        VisibilityTimeout="5",
        RedrivePolicy=json.dumps(
            {"deadLetterTargetArn": account.queue_arn(policy_of), "maxReceiveCount": 2}
        ),
    )
    mapping(account, url, function, FunctionResponseTypes=["ReportBatchItemFailures"])
    sqs = account.client("sqs")
    for body in ("good", "bad"):
        sqs.send_message(QueueUrl=url, MessageBody=body)

    def dead() -> list[str]:
        found = sqs.receive_message(
            QueueUrl=policy_of, WaitTimeSeconds=account.poll_seconds, MaxNumberOfMessages=10
        )
        return [each["Body"] for each in found.get("Messages", [])]

    bodies = account.until(dead, 120, "the failed message is in the DLQ", every=2)
    expect(bodies == ["bad"], f"{bodies} came into the DLQ")
    names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
    account.until(
        lambda: (
            set(sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"].values())
            == {"0"}
        ),
        90,
        "the main queue is empty",
        every=3,
    )
    return "the good message is deleted, the bad one died after its receives"


@check(
    "lambda-mapping-changes",
    "lambda-mapping-tags",
    "lambda-mapping-concurrency",
    creates="a function, a queue and a mapping",
    dollars=0.002,
    seconds=600,
)
def mapping_changes(account: AskedAccount) -> str:
    """How long does a mapping take to be disabled, and what does it refuse meanwhile?"""
    function = account.function(ECHO, [QUEUE_RIGHTS])
    uuid = mapping(account, account.queue(VisibilityTimeout="60"), function)
    client = account.client("lambda")
    arn = client.get_event_source_mapping(UUID=uuid)["EventSourceMappingArn"]
    value = "g=3/c=10/p=2-5/t=1795474052"
    client.tag_resource(Resource=arn, Tags={"deadletter:paused": value})
    seen = client.list_tags(Resource=arn)["Tags"].get("deadletter:paused")
    expect(seen == value, f"the tag came back as {seen}")
    refused(client.tag_resource, Resource=arn, Tags={"x": '{"a":1}'})
    both = refused(
        client.update_event_source_mapping,
        UUID=uuid,
        ScalingConfig={"MaximumConcurrency": 2},
        ProvisionedPollerConfig={"MinimumPollers": 2, "MaximumPollers": 2},
    )
    began = account.clock()
    client.update_event_source_mapping(UUID=uuid, Enabled=False)
    try:
        client.update_event_source_mapping(UUID=uuid, Enabled=True)
        meanwhile = "taken"
        quietly(client.update_event_source_mapping, UUID=uuid, Enabled=False)
    except ClientError as error:
        meanwhile = f"refused with {code_of(error)}"
        expect(code_of(error) == "ResourceInUseException", f"a second change is {meanwhile}")

    def disabled() -> bool:
        if state(account, uuid) == "Disabled":
            return True
        # Where the second change was taken, the disabling has to be asked for again.
        quietly(client.update_event_source_mapping, UUID=uuid, Enabled=False)
        return False

    account.until(disabled, 240, "the mapping is disabled", every=5)
    took = account.clock() - began
    return f"disabled after {took:.0f} s; a change meanwhile {meanwhile}; both limits: {both}"
