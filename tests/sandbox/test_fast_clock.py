"""All time in a fast sandbox passes as much faster: queues, schedules, functions, commands."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from sandbox import fast_clock
from sandbox.fast_clock import FastClock
from sandbox.faults import denied_key, throttled_table
from sandbox.progress import until
from sandbox.server import ACCOUNT, Sandbox, SandboxError
from tests.sandbox.test_server import make_function

SPEED = 20.0

# Says what time it is, and calls as itself.
CALLING = """
import time, boto3
from botocore.exceptions import ClientError
def handler(event, context):
    before = time.time()
    time.sleep(2)
    answer = {"at": before, "slept": time.time() - before}
    try:
        getattr(boto3.client(event["service"]), event["call"])(**event["request"])
    except ClientError as error:
        status = error.response["ResponseMetadata"]["HTTPStatusCode"]
        return {**answer, "code": error.response["Error"]["Code"], "status": status}
    return answer
"""


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sandbox]:
    with Sandbox(tmp_path_factory.mktemp("sandbox"), own_clock=True) as running:
        assert abs(running.time() - time.time()) < 1
        running.hurry(SPEED)
        yield running


@pytest.fixture(scope="module")
def queue(sandbox: Sandbox) -> str:
    return str(sandbox.client("sqs").create_queue(QueueName="messages")["QueueUrl"])


@pytest.fixture(scope="module")
def call(sandbox: Sandbox, queue: str) -> Any:
    functions = make_function(sandbox, "caller", CALLING)
    sandbox.client("dynamodb").create_table(
        TableName="messages",
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}],
        AttributeDefinitions=[{"AttributeName": "pk", "AttributeType": "S"}],
        BillingMode="PAY_PER_REQUEST",
    )
    may = {"Effect": "Allow", "Action": ["sqs:*", "dynamodb:*"], "Resource": "*"}
    sandbox.client("iam").put_role_policy(
        RoleName="caller",
        PolicyName="may",
        PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [may]}),
    )

    def invoke(service: str, call: str, **request: Any) -> dict[str, Any]:
        event = {"service": service, "call": call, "request": request}
        answer = functions.invoke(FunctionName="caller", Payload=json.dumps(event))
        returned: dict[str, Any] = json.loads(answer["Payload"].read())
        return returned

    return invoke


def test_the_clock_begins_with_the_machines_and_hurries_when_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    now, slept = SimpleNamespace(at=1000.0), list[float]()
    monkeypatch.setattr(fast_clock, "_machine_time", lambda: now.at)
    monkeypatch.setattr(fast_clock, "_machine_sleep", slept.append)
    clock = FastClock.begin(tmp_path / "clock")
    other_process = FastClock(tmp_path / "clock")
    now.at += 6
    assert clock.time() == other_process.time() == 1006.0
    clock.hurry(10.0)
    assert clock.time() == other_process.time() == 1006.0
    now.at += 6
    assert clock.time() == other_process.time() == 1066.0
    other_process.sleep(60)
    assert slept == [6.0]


def test_a_sandbox_without_a_clock_of_its_own_does_not_hurry(tmp_path: Path) -> None:
    with pytest.raises(SandboxError, match="has the machine's time"):
        Sandbox(tmp_path).hurry(10.0)


def test_a_process_without_a_clock_in_its_environment_keeps_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv(fast_clock.VARIABLE, raising=False)
    before = dict(vars(time))
    fast_clock.install()
    assert vars(time) == before


def test_a_message_is_hidden_and_ages_by_the_fast_clock(sandbox: Sandbox, queue: str) -> None:
    sqs = sandbox.client("sqs")
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=60)
    began = time.monotonic()
    until(lambda: sqs.receive_message(QueueUrl=queue).get("Messages"), "the delay is over")
    assert 60 / SPEED - 1 < time.monotonic() - began < 30
    sqs.purge_queue(QueueUrl=queue)


def test_a_function_lives_by_the_fast_clock(sandbox: Sandbox, queue: str, call: Any) -> None:
    before = sandbox.time()
    answer = call("sqs", "receive_message", QueueUrl=queue)
    assert before < answer["at"] < sandbox.time()
    assert 2 <= answer["slept"] < 2 * SPEED
    assert "code" not in answer


def test_a_throttled_table_fails_for_the_callers_that_it_is_throttled_for(
    sandbox: Sandbox, call: Any
) -> None:
    def get() -> dict[str, Any]:
        answer: dict[str, Any] = call(
            "dynamodb", "get_item", TableName="messages", Key={"pk": {"S": "a"}}
        )
        return answer

    sandbox.fail(throttled_table("call*", "messages"))
    answer = get()
    assert (answer["code"], answer["status"]) == ("ThrottlingException", 400)
    throttles = sandbox.client("cloudwatch").list_metrics(Namespace="AWS/DynamoDB")["Metrics"]
    assert [(metric["MetricName"], metric["Dimensions"]) for metric in throttles] == [
        ("ReadThrottleEvents", [{"Name": "TableName", "Value": "messages"}])
    ]
    # Root is in no role.
    sandbox.client("dynamodb").get_item(TableName="messages", Key={"pk": {"S": "a"}})
    for other in (throttled_table("other", "messages"), throttled_table("caller", "rules")):
        sandbox.fail(other)
        assert "code" not in get()
    sandbox.fail()
    assert "code" not in get()


def test_a_queue_whose_key_is_denied_answers_as_sqs_does(
    sandbox: Sandbox, queue: str, call: Any
) -> None:
    sandbox.fail(denied_key("caller", "messages"))
    answer = call("sqs", "receive_message", QueueUrl=queue)
    assert (answer["code"], answer["status"]) == ("KMS.AccessDeniedException", 400)
    # It is the key of the content: the queue's own figures need none.
    names = {"QueueUrl": queue, "AttributeNames": ["All"]}
    assert "code" not in call("sqs", "get_queue_attributes", **names)
    sandbox.fail()


def test_what_iam_refuses_is_not_answered_by_a_fault(sandbox: Sandbox, call: Any) -> None:
    deny = {"Effect": "Deny", "Action": "sqs:ReceiveMessage", "Resource": "*"}
    policy = {"RoleName": "caller", "PolicyName": "deny"}
    sandbox.client("iam").put_role_policy(
        **policy, PolicyDocument=json.dumps({"Version": "2012-10-17", "Statement": [deny]})
    )
    sandbox.fail(denied_key("caller", "messages"))
    answer = call("sqs", "receive_message", QueueUrl=f"{sandbox.endpoint}/{ACCOUNT}/letters")
    assert (answer["code"], answer["status"]) == ("AccessDenied", 403)
    sandbox.client("iam").delete_role_policy(**policy)
    sandbox.fail()
