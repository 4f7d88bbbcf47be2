"""The thin client against the boto3 client that it stands for."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import boto3
import pytest
from botocore.awsrequest import AWSPreparedRequest, AWSResponse
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    HTTPClientError,
    ReadTimeoutError,
)
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from deadletter.aws.wire.connections import Connections
from deadletter.aws.wire.thin_client import ThinClient
from tests.each_row import each_row

NOW = datetime(2026, 11, 23, 19, 30, tzinfo=UTC).replace(tzinfo=None)
URL = "https://sqs.eu-west-1.amazonaws.com/111122223333/orders"
ENTRIES = [{"Id": "0", "ReceiptHandle": "handle"}]
ONE_TRY = Config(retries={"total_max_attempts": 1})
THREE_TRIES = Config(retries={"total_max_attempts": 3, "mode": "standard"})

Answer = tuple[int, dict[str, str], Any]


class Service:
    """Answers the requests of a client, boto3's own and the thin one's, and keeps them."""

    def __init__(self, client: Any, credentials: Any, now: Any = lambda: NOW) -> None:
        self.requests: list[AWSPreparedRequest] = []
        self.answers: list[Answer | Exception] = []
        self.waits: list[float] = []
        self.boto3 = client
        self.thin: Any = ThinClient(client, credentials, now, self.waits.append, "none")
        name = client.meta.service_model.service_id.hyphenize()
        client.meta.events.register(f"before-send.{name}", self._answer)

    def _answer(self, request: AWSPreparedRequest, **_: Any) -> AWSResponse:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        status, headers, body = answer
        content = body if isinstance(body, bytes) else json.dumps(body).encode()
        known: Any = _Headers(headers)
        return AWSResponse(request.url, status, known, _Body(content))

    def header(self, name: str, at: int = -1) -> str:
        value = self.requests[at].headers.get(name, "")
        return value.decode() if isinstance(value, bytes) else str(value)


class _Headers(dict[str, str]):
    """Headers of an answer, with names in small letters."""


class _Body:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self, **_: Any) -> Iterator[bytes]:
        yield self._content


def service(name: Any = "sqs", config: Config = ONE_TRY, **options: Any) -> Service:
    credentials = options.pop("credentials", Credentials("AKID", "secret", "token"))
    client = boto3.client(
        name,
        region_name=options.pop("region", "eu-west-1"),
        aws_access_key_id="AKID",
        aws_secret_access_key="secret",
        aws_session_token="token",
        config=config,
        **{key: options.pop(key) for key in ("endpoint_url",) if key in options},
    )
    return Service(client, credentials, **options)


def taught(name: Any = "sqs", config: Config = ONE_TRY, **options: Any) -> Service:
    """A service whose next delete is the thin client's own."""
    made = service(name, config, **options)
    made.answers = [OK]
    made.thin.delete_message_batch(QueueUrl=URL, Entries=ENTRIES)
    assert made.thin._learned
    return made


OK: Answer = (200, {"x-amzn-requestid": "7"}, {"Successful": [{"Id": "0"}]})
REFUSED: Answer = (
    400,
    {"x-amzn-query-error": "AWS.SimpleQueueService.NonExistentQueue;Sender"},
    {"__type": "com.amazonaws.sqs#QueueDoesNotExist", "message": "no queue"},
)
UNAVAILABLE: Answer = (503, {}, {"__type": "ServiceUnavailable"})


def delete(client: Any) -> Any:
    return client.delete_message_batch(QueueUrl=URL, Entries=ENTRIES)


# Requests


MANY: Sequence[tuple[str, str, dict[str, Any]]] = (
    ("sqs", "receive_message", {"QueueUrl": URL, "MaxNumberOfMessages": 10}),
    (
        "sqs",
        "send_message_batch",
        {
            "QueueUrl": URL,
            "Entries": [
                {
                    "Id": "0",
                    "MessageBody": "ü\n",
                    "MessageAttributes": {
                        "b": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
                        "s": {"DataType": "String", "StringValue": "😀"},
                    },
                }
            ],
        },
    ),
    ("sqs", "delete_message_batch", {"QueueUrl": URL, "Entries": ENTRIES}),
    (
        "sqs",
        "change_message_visibility_batch",
        {"QueueUrl": URL, "Entries": [{**ENTRIES[0], "VisibilityTimeout": 0}]},
    ),
    ("sqs", "get_queue_attributes", {"QueueUrl": URL, "AttributeNames": ["All"]}),
    ("dynamodb", "get_item", {"TableName": "t", "Key": {"pk": {"S": "ü"}}, "ConsistentRead": True}),
    (
        "dynamodb",
        "put_item",
        {"TableName": "t", "Item": {"b": {"B": b"\xff"}, "l": {"L": [{"BS": [b"", b"\x01"]}]}}},
    ),
    (
        "dynamodb",
        "update_item",
        {
            "TableName": "t",
            "Key": {"pk": {"S": "a"}},
            "UpdateExpression": "SET #a = :a",
            "ExpressionAttributeNames": {"#a": "a"},
            "ExpressionAttributeValues": {":a": {"B": bytearray(b"\x02")}},
        },
    ),
    ("dynamodb", "delete_item", {"TableName": "t", "Key": {"pk": {"S": "a"}}}),
    ("dynamodb", "query", {"TableName": "t", "KeyConditionExpression": "pk = :p"}),
    ("dynamodb", "batch_get_item", {"RequestItems": {"t": {"Keys": [{"pk": {"S": "a"}}]}}}),
    (
        "dynamodb",
        "batch_write_item",
        {"RequestItems": {"t": [{"DeleteRequest": {"Key": {"pk": {"B": b"a"}}}}]}},
    ),
    ("lambda", "invoke", {"FunctionName": "f", "Payload": '{"ü": 1}'}),
    (
        "lambda",
        "invoke",
        {
            "FunctionName": "arn:aws:lambda:eu-west-1:111122223333:function:f",
            "InvocationType": "Event",
            "Payload": b"{}",
        },
    ),
)

# Of one request, or of one try: the thin client needs none of them.
LEFT_OUT = {"amz-sdk-invocation-id", "amz-sdk-request"}
# What differs whenever the time does, or the headers that are signed.
OF_THE_MOMENT = {"authorization", "x-amz-date"}


@each_row(
    ("name", "method", "arguments"), MANY, ids=[f"{row[1]}-{at}" for at, row in enumerate(MANY)]
)
def test_a_request_is_the_one_that_boto3_makes(
    name: str, method: str, arguments: dict[str, Any]
) -> None:
    aws = service(name)
    aws.answers = [(200, {}, b"{}")] * 2
    getattr(aws.thin, method)(**arguments)
    getattr(aws.thin, method)(**arguments)
    theirs, ours = aws.requests
    assert aws.thin._learned
    assert "amz-sdk-invocation-id" not in _plain(ours)
    assert (ours.method, ours.url) == (theirs.method, theirs.url)
    body = theirs.body.encode() if isinstance(theirs.body, str) else theirs.body
    assert ours.body == body
    expected = _plain(theirs)
    expected.setdefault("host", ours.url.split("/")[2])
    assert _without(_plain(ours)) == _without(expected)


def _plain(request: AWSPreparedRequest) -> dict[str, str]:
    return {
        name.lower(): value.decode() if isinstance(value, bytes) else str(value)
        for name, value in request.headers.items()
    }


def _without(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name not in LEFT_OUT | OF_THE_MOMENT}


@each_row(
    ("options", "host"),
    [
        ({}, "sqs.eu-west-1.amazonaws.com"),
        ({"region": "cn-north-1"}, "sqs.cn-north-1.amazonaws.com.cn"),
        (
            {"region": "us-gov-west-1", "config": Config(use_fips_endpoint=True)},
            "sqs.us-gov-west-1.amazonaws.com",
        ),
        (
            {"region": "us-east-1", "config": Config(use_fips_endpoint=True)},
            "sqs-fips.us-east-1.amazonaws.com",
        ),
        ({"endpoint_url": "http://127.0.0.1:4566"}, "127.0.0.1:4566"),
    ],
)
def test_the_endpoint_is_the_one_that_boto3_finds(options: dict[str, Any], host: str) -> None:
    aws = taught(**options)
    aws.answers = [OK]
    delete(aws.thin)
    assert aws.header("host") == host
    assert aws.requests[-1].url == aws.requests[0].url


def test_another_queue_and_another_function_are_learned_anew() -> None:
    aws = taught()
    aws.answers = [OK]
    aws.thin.delete_message_batch(QueueUrl=URL + "-dlq", Entries=ENTRIES)
    assert aws.header("amz-sdk-invocation-id")


def test_renewed_credentials_sign_the_next_request() -> None:
    class Renewed:
        def __init__(self) -> None:
            self.now = ReadOnlyCredentials("AKID", "secret", "token")

        def get_frozen_credentials(self) -> ReadOnlyCredentials:
            return self.now

    credentials = Renewed()
    aws = taught(credentials=credentials)
    credentials.now = ReadOnlyCredentials("RENEWED", "other", "fresh")
    aws.answers = [OK]
    delete(aws.thin)
    assert "Credential=RENEWED/" in aws.header("authorization")
    assert aws.header("x-amz-security-token") == "fresh"


def test_the_trace_of_a_function_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Lambda finds loops by it."""
    aws = taught()
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "redrive")
    for trace in ("Root=1-a", "Root=1-b"):
        monkeypatch.setenv("_X_AMZN_TRACE_ID", trace)
        aws.answers = [OK]
        delete(aws.thin)
        assert aws.header("x-amzn-trace-id") == trace
        assert "x-amzn-trace-id" not in aws.header("authorization")


def test_a_trace_is_not_learned(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "redrive")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1-a")
    aws = taught()
    assert aws.header("x-amzn-trace-id") == "Root=1-a"
    monkeypatch.delenv("_X_AMZN_TRACE_ID")
    aws.answers = [OK]
    delete(aws.thin)
    assert not aws.header("x-amzn-trace-id")


@pytest.mark.parametrize(
    "options",
    [
        {"credentials": Credentials("AKID", "another secret", "token")},
        {"credentials": None},
        {"config": Config(proxies={"https": "http://proxy:3128"})},
        {"config": Config(signature_version="bearer")},
    ],
    ids=["credentials", "no credentials", "proxy", "signature"],
)
def test_what_is_not_sent_in_the_usual_way_stays_with_boto3(options: dict[str, Any]) -> None:
    aws = service(**options)
    aws.answers = [OK, OK]
    try:
        delete(aws.thin)
        delete(aws.thin)
    except Exception:
        assert not aws.requests
    assert not aws.thin._learned
    assert all("amz-sdk-invocation-id" in _plain(request) for request in aws.requests)


def test_a_proxy_of_the_environment_is_boto3s_business(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy:3128")
    monkeypatch.delenv("NO_PROXY", raising=False)
    monkeypatch.delenv("no_proxy", raising=False)
    aws = service()
    aws.answers = [OK, OK]
    delete(aws.thin)
    delete(aws.thin)
    assert not aws.thin._learned


def test_other_calls_are_boto3s() -> None:
    aws = taught()
    aws.answers = [(200, {}, {"QueueUrls": [URL]})]
    assert aws.thin.list_queues()["QueueUrls"] == [URL]
    assert aws.thin.exceptions is aws.boto3.exceptions


# Answers


def message(body: str, digest: str, **attributes: Any) -> dict[str, Any]:
    return {"MessageId": "m", "ReceiptHandle": "r", "Body": body, "MD5OfBody": digest, **attributes}


EMPTY = "d41d8cd98f00b204e9800998ecf8427e"


def test_a_message_that_did_not_arrive_whole_is_left_out() -> None:
    aws = service()
    answer = (200, {}, {"Messages": [message("", EMPTY), message("{}", EMPTY), message("", EMPTY)]})
    aws.answers = [answer, answer]
    assert len(aws.thin.receive_message(QueueUrl=URL)["Messages"]) == 3
    messages = aws.thin.receive_message(QueueUrl=URL)["Messages"]
    assert [item["Body"] for item in messages] == ["", ""]


def test_a_message_is_read_as_boto3_reads_it() -> None:
    attributes = {
        "b": {"DataType": "Binary", "BinaryValue": base64.b64encode(b"\x00\xff").decode()},
        "s": {"DataType": "String", "StringValue": "ü"},
    }
    answer = {"Messages": [message("", EMPTY, MessageAttributes=attributes, Attributes={"a": "1"})]}
    aws = service()
    aws.answers = [(200, {"x-amzn-requestid": "7"}, answer)] * 2 + [(200, {}, b"{}")]
    theirs, ours = (aws.thin.receive_message(QueueUrl=URL) for _ in range(2))
    assert ours == theirs
    assert ours["Messages"][0]["MessageAttributes"]["b"]["BinaryValue"] == b"\x00\xff"
    assert "Messages" not in aws.thin.receive_message(QueueUrl=URL)


values: Any = st.recursive(
    st.one_of(
        st.fixed_dictionaries({"S": st.text(max_size=5)}),
        st.fixed_dictionaries({"N": st.integers().map(str)}),
        st.fixed_dictionaries({"BOOL": st.booleans()}),
        st.just({"NULL": True}),
        st.fixed_dictionaries({"B": st.binary(max_size=5).map(base64.b64encode).map(bytes.decode)}),
        st.fixed_dictionaries({"SS": st.lists(st.text(max_size=3), max_size=3)}),
        st.fixed_dictionaries({"BS": st.lists(st.just("AQI="), max_size=2)}),
    ),
    lambda inner: st.one_of(
        st.fixed_dictionaries({"L": st.lists(inner, max_size=3)}),
        # Names that are types too.
        st.fixed_dictionaries(
            {"M": st.dictionaries(st.sampled_from(["S", "B", "M", "x"]), inner, max_size=3)}
        ),
    ),
    max_leaves=8,
)
items = st.dictionaries(st.sampled_from(["pk", "B", "x"]), values, max_size=3)


@pytest.fixture(scope="module")
def table() -> Service:
    return service("dynamodb")


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows=st.lists(items, max_size=3))
@pytest.mark.parametrize(
    ("method", "answer"),
    [
        ("get_item", lambda rows: {"Item": rows[0]} if rows else {}),
        ("put_item", lambda rows: {"Attributes": rows[0]} if rows else {}),
        (
            "query",
            lambda rows: {"Items": rows, "Count": len(rows), "LastEvaluatedKey": (rows or [{}])[0]},
        ),
        (
            "batch_get_item",
            lambda rows: {"Responses": {"t": rows}, "UnprocessedKeys": {"t": {"Keys": rows}}},
        ),
        (
            "batch_write_item",
            lambda rows: {
                "UnprocessedItems": {
                    "t": [
                        *({"PutRequest": {"Item": row}} for row in rows),
                        *({"DeleteRequest": {"Key": row}} for row in rows),
                    ]
                }
            },
        ),
    ],
    ids=["get", "put", "query", "batch get", "batch write"],
)
def test_items_are_read_as_boto3_reads_them(
    table: Service, method: str, answer: Any, rows: list[Any]
) -> None:
    arguments: dict[str, Any] = {
        "get_item": {"TableName": "t", "Key": {}},
        "put_item": {"TableName": "t", "Item": {}},
        "query": {"TableName": "t"},
        "batch_get_item": {"RequestItems": {"t": {"Keys": [{}]}}},
        "batch_write_item": {"RequestItems": {"t": [{"DeleteRequest": {"Key": {}}}]}},
    }[method]
    table.answers = [(200, {}, answer(rows))] * 3
    getattr(table.thin, method)(**arguments)
    ours = getattr(table.thin, method)(**arguments)
    theirs = getattr(table.boto3, method)(**arguments)
    assert ours == theirs


def test_an_invocation_is_read_as_boto3_reads_it() -> None:
    aws = service("lambda")
    headers = {"x-amz-function-error": "Unhandled", "content-length": "4"}
    aws.answers = [(200, headers, b"null")] * 2
    theirs, ours = (aws.thin.invoke(FunctionName="f", Payload=b"{}") for _ in range(2))
    assert ours["Payload"].read() == b"null"
    assert ours["FunctionError"] == "Unhandled"
    assert {**ours, "Payload": 0} == {**theirs, "Payload": 0}


@each_row("body", [b"", b"{", b"[]", b'"text"', b'{"Successful'])
def test_an_answer_that_cannot_be_read_is_a_lost_one(body: bytes) -> None:
    """A send whose answer is lost is unknown: it must not count as refused."""
    aws = taught()
    aws.answers = [(200, {}, body)]
    if body:
        with pytest.raises(HTTPClientError):
            delete(aws.thin)
    else:
        assert "Successful" not in delete(aws.thin)


# Errors


@each_row(
    "refusal",
    [
        REFUSED,
        UNAVAILABLE,
        (400, {}, {"__type": "com.amazonaws.sqs#RequestThrottled", "message": "slow"}),
        (403, {}, {"__type": "ExpiredTokenException", "Message": "old"}),
        (500, {}, b"<html>"),
        (502, {}, b""),
        (301, {}, b"{}"),
    ],
)
def test_an_error_is_the_one_that_boto3_raises(refusal: Answer) -> None:
    aws = taught()
    aws.answers = [refusal, refusal]
    raised = []
    for client in (aws.boto3, aws.thin):
        with pytest.raises(ClientError) as caught:
            delete(client)
        raised.append(caught.value)
    theirs, ours = raised
    assert type(ours) is type(theirs)
    assert ours.response["Error"] == theirs.response["Error"]
    assert ours.operation_name == theirs.operation_name
    for key in ("HTTPStatusCode", "RetryAttempts"):
        assert ours.response["ResponseMetadata"][key] == theirs.response["ResponseMetadata"][key]


def test_the_item_that_did_not_meet_a_condition_is_told() -> None:
    aws = service("dynamodb")
    refusal = (
        400,
        {},
        {
            "__type": "com.amazonaws.dynamodb.v20120810#ConditionalCheckFailedException",
            "Message": "no",
            "Item": {"own": {"B": "AQI="}},
        },
    )
    aws.answers = [(200, {}, b"{}"), refusal]
    aws.thin.put_item(TableName="t", Item={})
    with pytest.raises(aws.thin.exceptions.ConditionalCheckFailedException) as caught:
        aws.thin.put_item(TableName="t", Item={})
    assert caught.value.response["Item"] == {"own": {"B": b"\x01\x02"}}


# Tries


LOST = (
    ReadTimeoutError(endpoint_url=URL),
    ConnectionClosedError(endpoint_url=URL),
    UNAVAILABLE,
    (500, {}, b""),
)


@pytest.mark.parametrize("fault", LOST)
def test_what_has_one_try_is_one_request(fault: Any) -> None:
    aws = taught()
    aws.requests.clear()
    aws.answers = [fault, OK]
    with pytest.raises((ClientError, ReadTimeoutError, ConnectionClosedError)):
        delete(aws.thin)
    assert len(aws.requests) == 1
    assert not aws.waits


@pytest.mark.parametrize("fault", LOST)
def test_what_may_be_tried_again_is_tried_as_often_as_boto3_would(fault: Any) -> None:
    aws = taught(config=THREE_TRIES)
    aws.requests.clear()
    aws.answers = [fault, fault, OK]
    answer = delete(aws.thin)
    assert answer["ResponseMetadata"]["RetryAttempts"] == 2
    assert len(aws.requests) == 3
    assert len(aws.waits) <= 2
    aws.answers = [fault] * 3
    with pytest.raises((ClientError, ReadTimeoutError, ConnectionClosedError)):
        delete(aws.thin)
    assert not aws.answers


def test_a_refusal_is_not_tried_again() -> None:
    aws = taught(config=THREE_TRIES)
    aws.answers = [REFUSED, OK]
    with pytest.raises(ClientError):
        delete(aws.thin)
    assert aws.answers == [OK]


def test_successes_pay_for_later_retries() -> None:
    """botocore grants retries from a quota of 500, of which each takes 5 or more."""
    aws = taught(config=THREE_TRIES)
    for _ in range(300):
        aws.answers = [UNAVAILABLE, OK]
        delete(aws.thin)
        assert not aws.answers


# Clocks


def dated(moment: datetime, code: str = "InvalidSignatureException") -> Answer:
    date = format_datetime(moment.replace(tzinfo=UTC), usegmt=True)
    return (403, {"date": date}, {"__type": code, "message": "Signature expired"})


def test_a_clock_that_is_wrong_is_corrected_by_that_of_aws() -> None:
    aws = taught()
    theirs = NOW + timedelta(hours=2)
    aws.answers = [dated(theirs), OK, OK]
    answer = delete(aws.thin)
    assert aws.header("x-amz-date") == "20261123T213000Z"
    # The refused request had no effect, so that a send is still at its first try.
    assert answer["ResponseMetadata"]["RetryAttempts"] == 0
    delete(aws.thin)
    assert aws.header("x-amz-date") == "20261123T213000Z"


def test_a_wrong_clock_is_corrected_at_the_very_first_call() -> None:
    aws = service()
    aws.answers = [dated(NOW - timedelta(hours=1)), OK]
    assert delete(aws.thin)["Successful"]
    assert aws.header("x-amz-date") == "20261123T183000Z"


@pytest.mark.parametrize(
    "refusal",
    [
        dated(NOW + timedelta(minutes=3)),
        dated(NOW + timedelta(hours=2), "AccessDeniedException"),
        (403, {"date": "today"}, {"__type": "InvalidSignatureException"}),
        (403, {}, {"__type": "InvalidSignatureException"}),
    ],
    ids=["small", "another refusal", "no date", "without"],
)
def test_a_signature_that_is_refused_for_another_reason_is_not_repeated(refusal: Answer) -> None:
    aws = taught()
    aws.requests.clear()
    aws.answers = [refusal, OK]
    with pytest.raises(ClientError):
        delete(aws.thin)
    assert len(aws.requests) == 1


def test_a_clock_is_corrected_once_a_call() -> None:
    aws = taught()
    aws.requests.clear()
    aws.answers = [dated(NOW + timedelta(hours=hours)) for hours in (1, 2, 3)]
    with pytest.raises(ClientError):
        delete(aws.thin)
    assert len(aws.requests) == 2


# Connections


def test_a_closed_client_closes_its_connections_and_stays_of_use() -> None:
    aws = taught()
    closed = []

    class Closing(Connections):
        def close(self) -> None:
            closed.append(True)

    connections = Closing(
        "http://x", connect_timeout=1, read_timeout=1, idle=1, bundle="", now=lambda: NOW
    )
    aws.thin._connections["http://x"] = connections
    aws.thin.close()
    assert closed
    aws.answers = [OK]
    assert delete(aws.thin)["Successful"]
