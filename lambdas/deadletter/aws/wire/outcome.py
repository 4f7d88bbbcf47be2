"""What came of one request."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from botocore.exceptions import BotoCoreError, HTTPClientError

from deadletter.aws.wire.connections import Received
from deadletter.aws.wire.hot_calls import Answer, HotCall

_REFUSED = 300
"""The first HTTP status that is no success."""


class RequestOutcome(NamedTuple):
    """What came of one request: an answer that reads well, a refusal, or an error."""

    received: Received | None
    answer: Answer | None
    error: Exception | None


def outcome(call: HotCall, send: Callable[[], Received]) -> RequestOutcome:
    """Send a request once, and read its answer."""
    try:
        received = send()
    except BotoCoreError as error:
        return RequestOutcome(None, None, error)
    if received.status >= _REFUSED:
        return RequestOutcome(received, None, None)
    try:
        return RequestOutcome(received, call.read(received), None)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        # An answer that cannot be read says as little as a lost one.
        return RequestOutcome(None, None, HTTPClientError(error=error))


def metadata(received: Received, tries: int) -> dict[str, Any]:
    """An answer's ResponseMetadata, as boto3 has it."""
    said = {
        "HTTPStatusCode": received.status,
        "HTTPHeaders": received.headers,
        "RetryAttempts": tries - 1,
    }
    request_id = received.headers.get("x-amzn-requestid")
    return said if request_id is None else {"RequestId": request_id, **said}
