"""Which errors of AWS prove that a call had no effect."""

from __future__ import annotations

from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from deadletter.aws.errors import is_throttle, surely_refused
from tests.each_row import each_row


def answered(status: int | None, retries: int | None = 0) -> ClientError:
    metadata: dict[str, Any] = {"HTTPStatusCode": status, "RetryAttempts": retries}
    given = {name: value for name, value in metadata.items() if value is not None}
    return ClientError({"Error": {"Code": "Any"}, "ResponseMetadata": given}, "SendMessageBatch")


@each_row("status", [400, 403, 404, 429, 499])
def test_a_4xx_answer_to_the_first_try_is_a_refusal(status: int) -> None:
    assert surely_refused(answered(status))
    assert surely_refused(answered(status, retries=None))


@pytest.mark.parametrize("status", [400, 403, 429])
def test_a_4xx_after_a_retry_says_nothing_of_the_earlier_tries(status: int) -> None:
    assert not surely_refused(answered(status, retries=1))


@each_row(
    "error",
    [
        answered(500),
        answered(503),
        answered(399),
        answered(None),
        ClientError({}, "SendMessageBatch"),
        ReadTimeoutError(endpoint_url="sqs"),
        ConnectTimeoutError(endpoint_url="sqs"),
    ],
)
def test_any_other_answer_or_none_may_have_had_its_effect(error: Any) -> None:
    assert not surely_refused(error)


def named(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code}}, "SendMessageBatch")


@each_row(
    "code",
    [
        "RequestThrottled",
        "AWS.SimpleQueueService.RequestThrottled",
        "Throttling",
        "ThrottlingException",
        "TooManyRequestsException",
    ],
)
def test_a_throttled_call_may_succeed_later(code: str) -> None:
    assert is_throttle(named(code))


@pytest.mark.parametrize(
    "error",
    [
        named("AccessDenied"),
        named("AWS.SimpleQueueService.NonExistentQueue"),
        named("InternalError"),
        ReadTimeoutError(endpoint_url="sqs"),
    ],
)
def test_any_other_error_is_no_throttle(error: Any) -> None:
    assert not is_throttle(error)
