"""The client that makes hot calls before botocore is loaded, against boto3's."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from threading import Barrier
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.exceptions import BotoCoreError, ClientError, ReadTimeoutError
from botocore.httpsession import where

from deadletter.aws.consumer_clients import CallLimits
from deadletter.aws.wire.connections import Received
from deadletter.aws.wire.quick_client import QuickClient, trusted_certificates
from deadletter.aws.wire.thin_client import ThinClient
from deadletter.aws.wire.whereabouts import Keys, Whereabouts
from tests.aws.wire.test_thin_client import (
    LEFT_OUT,
    MANY,
    NOW,
    OK,
    REFUSED,
    UNAVAILABLE,
    URL,
    Service,
    dated,
    delete,
    service,
)
from tests.each_row import each_row

ONE_TRY = CallLimits(1, 1, tries=1)
THREE_TRIES = CallLimits(1, 1, tries=3)
LOST = ReadTimeoutError(endpoint_url=URL)


class Wire:
    """Takes the requests of a quick client; the thin client's go to the service beside it."""

    def __init__(self, name: str = "sqs", limits: CallLimits = ONE_TRY, trace: str = "") -> None:
        self.requests: list[bytes] = []
        self.answers: list[Received | Exception] = []
        self.made: list[Service] = []
        self.limits = limits
        self.now = NOW
        self.client: Any = QuickClient(
            name,
            Whereabouts(
                "eu-west-1",
                "amazonaws.com",
                Keys("AKID", "secret", "token"),
                {},
                "",
                lambda: self.now,
                lambda: trace,
            ),
            limits,
            lambda: self._make(name),
        )
        self.client._connections = self

    def ask(self, request: bytes) -> Received:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def close(self) -> None:
        self.requests.append(b"closed")

    def _make(self, name: str) -> ThinClient:
        self.made.append(service(name, self.limits.config()))
        self.made[-1].answers = [OK] * 3
        thin: ThinClient = self.made[-1].thin
        return thin


def received(status: int = 200, body: bytes = b"{}", **headers: str) -> Received:
    return Received(status, headers, body)


def head(request: bytes) -> tuple[str, dict[str, str]]:
    """The first line and the headers of a request."""
    first, *lines = request.partition(b"\r\n\r\n")[0].decode().split("\r\n")
    return first, dict(line.split(": ", 1) for line in lines)


@each_row(
    ("name", "method", "arguments"), MANY, ids=[f"{row[1]}-{at}" for at, row in enumerate(MANY)]
)
def test_the_first_request_is_the_one_that_boto3_would_make(
    name: Any, method: str, arguments: dict[str, Any]
) -> None:
    """With its signature, which is over all that matters."""
    boto3s: list[AWSPreparedRequest] = []

    def keep(request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        boto3s.append(request)
        raise LOST

    client: Any = boto3.client(
        name,
        region_name="eu-west-1",
        aws_access_key_id="AKID",
        aws_secret_access_key="secret",
        aws_session_token="token",
        config=Config(retries={"total_max_attempts": 1}),
    )
    client.meta.events.register("before-send.*", keep)
    with pytest.raises(ReadTimeoutError):
        getattr(client, method)(**arguments)
    theirs = {
        key.lower(): value.decode() if isinstance(value, bytes) else str(value)
        for key, value in boto3s[0].headers.items()
    }
    wire = Wire(name)
    moment = datetime.strptime(f"{theirs['x-amz-date']}+0000", "%Y%m%dT%H%M%SZ%z")
    wire.now = moment.replace(tzinfo=None)
    wire.answers = [received()]
    getattr(wire.client, method)(**arguments)
    line, ours = head(wire.requests[0])
    assert line == f"POST {boto3s[0].url.partition('.com')[2] or '/'} HTTP/1.1"
    assert ours.pop("host") == boto3s[0].url.split("/")[2]
    assert ours.pop("user-agent") == "deadletter"
    del theirs["user-agent"]
    assert ours == {key: value for key, value in theirs.items() if key not in LEFT_OUT}
    body = boto3s[0].body
    assert wire.requests[0].partition(b"\r\n\r\n")[2] == (
        body.encode() if isinstance(body, str) else body
    )


def test_successes_need_no_other_client() -> None:
    wire = Wire()
    wire.answers = [
        Received(200, {"x-amzn-requestid": "7"}, b'{"Successful": [{"Id": "0"}]}'),
        received(),
        received(),
    ]
    answer = delete(wire.client)
    assert answer["Successful"] == [{"Id": "0"}]
    assert answer["ResponseMetadata"] == {
        "RequestId": "7",
        "HTTPStatusCode": 200,
        "HTTPHeaders": {"x-amzn-requestid": "7"},
        "RetryAttempts": 0,
    }
    wire.client.receive_message(QueueUrl=URL)
    wire.client.get_queue_attributes(QueueUrl=URL, AttributeNames=["All"])
    assert not wire.made


def test_the_trace_of_a_function_is_passed_on_unsigned() -> None:
    wire = Wire(trace="Root=1-a")
    wire.answers = [received()]
    delete(wire.client)
    headers = head(wire.requests[0])[1]
    assert headers["x-amzn-trace-id"] == "Root=1-a"
    assert "trace" not in headers["authorization"]


@each_row(
    "fault",
    [LOST, received(503), received(500), received(200, b"{"), received(200, b"[]")],
    ids=["no answer", "unavailable", "failed", "cut off", "something else"],
)
def test_what_has_one_try_is_one_request(fault: Received | Exception) -> None:
    """A send whose answer is lost may not be sent again."""
    wire = Wire()
    wire.answers = [fault]
    with pytest.raises((BotoCoreError, ClientError)) as ours:
        delete(wire.client)
    [made] = wire.made
    assert not made.requests
    # As the thin client says it, and so boto3.
    theirs = service()
    theirs.answers = [OK]
    delete(theirs.thin)
    theirs.answers = [
        fault if isinstance(fault, Exception) else (fault.status, dict(fault.headers), fault.body)
    ]
    with pytest.raises(type(ours.value)) as expected:
        delete(theirs.thin)
    if isinstance(expected.value, ClientError):
        assert ours.value.response["Error"] == expected.value.response["Error"]
        assert ours.value.response["ResponseMetadata"]["RetryAttempts"] == 0


def test_a_refusal_is_the_one_that_boto3_raises() -> None:
    status, headers, body = REFUSED
    wire = Wire()
    wire.answers = [Received(status, headers, str(body).replace("'", '"').encode())]
    with pytest.raises(ClientError) as caught:
        delete(wire.client)
    assert caught.value.response["Error"]["Code"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert type(caught.value) is wire.client.exceptions.QueueDoesNotExist


def test_the_first_try_counts_among_the_others() -> None:
    wire = Wire(limits=THREE_TRIES)
    wire.answers = [LOST]

    def two_more(made: Service) -> None:
        made.answers = [UNAVAILABLE, UNAVAILABLE]

    make = wire._make

    def prepared(name: str) -> ThinClient:
        thin = make(name)
        two_more(wire.made[-1])
        return thin

    wire.client._make = lambda: prepared("sqs")
    with pytest.raises(ClientError) as caught:
        delete(wire.client)
    assert len(wire.requests) + len(wire.made[0].requests) == 3
    assert caught.value.response["ResponseMetadata"]["RetryAttempts"] == 2


def test_a_clock_that_is_wrong_is_corrected_at_the_first_call() -> None:
    status, headers, body = dated(NOW + timedelta(hours=2))
    wire = Wire()
    wire.answers = [Received(status, headers, str(body).replace("'", '"').encode())]
    answer = delete(wire.client)
    assert answer["ResponseMetadata"]["RetryAttempts"] == 0
    assert wire.made[0].header("x-amz-date") == "20261123T213000Z"


def test_after_trouble_the_other_client_makes_all_calls() -> None:
    wire = Wire()
    wire.answers = [LOST]
    with pytest.raises(ReadTimeoutError):
        delete(wire.client)
    assert delete(wire.client)["Successful"]
    assert len(wire.requests) == len(wire.made) == len(wire.made[0].requests) == 1


def test_what_is_not_known_is_boto3s() -> None:
    wire = Wire()
    assert wire.client.meta.region_name == "eu-west-1"
    wire.client.list_queues()
    functions = Wire("lambda")
    functions.client.invoke(FunctionName="f", Qualifier="live", Payload=b"{}")
    for made in (*wire.made, *functions.made):
        assert len(made.requests) == 1
    assert not [*wire.requests, *functions.requests]


def test_threads_make_one_other_client() -> None:
    wire = Wire()
    both = Barrier(2)

    def ask(_: bytes) -> Received:
        both.wait(timeout=10)
        raise LOST

    wire.ask = ask  # type: ignore[method-assign]

    def call(_: int) -> str:
        try:
            delete(wire.client)
        except ReadTimeoutError:
            return "lost"
        return "deleted"

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(call, range(2))) == ["lost", "lost"]
    assert len(wire.made) == 1


def test_a_closed_client_stays_of_use() -> None:
    wire = Wire()
    wire.client.close()
    assert wire.requests == [b"closed"]
    assert not wire.made
    wire.answers = [received()]
    delete(wire.client)


def test_botocores_certificates_are_trusted() -> None:
    assert trusted_certificates() == where()
