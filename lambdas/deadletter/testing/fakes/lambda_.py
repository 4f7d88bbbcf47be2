"""Lambda functions that are Python callables in this process."""

# ruff: noqa: N803 - the arguments are spelled as boto3 spells them

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from botocore.response import StreamingBody

from deadletter.testing.fakes.errors import Exceptions, answered, client_error

# Bytes, all four as Lambda's own error messages give them.
_LARGEST_REQUEST = 6_291_456
_LARGEST_EVENT = 1_048_576
_LARGEST_RESPONSE = 6_291_556
_LARGEST_CLIENT_CONTEXT = 3_583

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class InvocationClientContext:
    """What the caller passed along, decoded."""

    custom: Mapping[str, str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class InvocationContext:
    """The second argument of a handler."""

    function_name: str
    aws_request_id: str
    invoked_function_arn: str
    client_context: InvocationClientContext | None
    memory_limit_in_mb: int
    remaining: Callable[[], float]

    @property
    def function_version(self) -> str:
        return "$LATEST"

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int(self.remaining() * 1000))


class MemoryLambda:
    """A `boto3.client("lambda")` that can do one thing: invoke what was registered.

    `clock` returns epoch seconds, `ids` a new request id at each call. `timeout` (seconds) only
    shows in the context's remaining time; nothing is interrupted. An asynchronous invocation runs
    at once and its outcome is lost, as it is to its caller at AWS; it isn't tried again.
    """

    exceptions = Exceptions(
        "InvalidRequestContentException RequestTooLargeException ResourceNotFoundException "
        "ServiceException TooManyRequestsException"
    )

    def __init__(
        self,
        clock: Callable[[], float],
        ids: Callable[[], str],
        *,
        timeout: float = 300.0,
        region: str = "us-east-1",
        account_id: str = "123456789012",
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._timeout = timeout
        self._arn = f"arn:aws:lambda:{region}:{account_id}:function:"
        self._functions: dict[str, Function] = {}

    def register(self, function_name: str, function: Function) -> str:
        """Make a handler `(event, context)` invocable. Returns the function's ARN."""
        self._functions[function_name] = function
        return self._arn + function_name

    def invoke(
        self,
        *,
        FunctionName: str,
        InvocationType: str = "RequestResponse",
        Payload: bytes | str = b"",
        ClientContext: str = "",
    ) -> dict[str, Any]:
        """A handler that raises is a 200 with `FunctionError`; the payload then tells what."""
        name = FunctionName.removeprefix(self._arn)
        function = self._functions.get(name)
        if function is None:
            raise client_error(
                "Invoke",
                "ResourceNotFoundException",
                f"Function not found: {self._arn}{name}",
                status=404,
            )
        octets = Payload.encode() if isinstance(Payload, str) else bytes(Payload)
        _check_size(octets, InvocationType)
        try:
            event = json.loads(octets or b"{}")
        except ValueError:
            raise client_error(
                "Invoke",
                "InvalidRequestContentException",
                "Could not parse request body into json",
            ) from None
        request_id = self._ids()
        if InvocationType == "DryRun":
            return {"StatusCode": 204, "ResponseMetadata": answered(204)}
        deadline = self._clock() + self._timeout
        context = InvocationContext(
            function_name=name,
            aws_request_id=request_id,
            invoked_function_arn=self._arn + name,
            client_context=_decoded(ClientContext) if InvocationType != "Event" else None,
            memory_limit_in_mb=512,
            remaining=lambda: deadline - self._clock(),
        )
        payload, failed = _run(function, event, context)
        if InvocationType == "Event":
            return {"StatusCode": 202, "Payload": _stream(b""), "ResponseMetadata": answered(202)}
        answer: dict[str, Any] = {
            "StatusCode": 200,
            "ExecutedVersion": "$LATEST",
            "Payload": _stream(payload),
            "ResponseMetadata": answered(),
        }
        if failed:
            answer["FunctionError"] = "Unhandled"
        return answer


def _run(function: Function, event: object, context: InvocationContext) -> tuple[bytes, bool]:
    """What the function answers, and whether that is an error."""
    try:
        payload = json.dumps(function(event, context)).encode()
    # Whatever a function raises, Lambda makes an answer of it.
    except Exception as error:
        return _error(str(error), type(error).__name__), True
    if len(payload) > _LARGEST_RESPONSE:
        message = (
            f"Response payload size exceeded maximum allowed payload size "
            f"({_LARGEST_RESPONSE} bytes)."
        )
        return _error(message, "Function.ResponseSizeTooLarge"), True
    return payload, False


def _error(message: str, kind: str) -> bytes:
    return json.dumps({"errorMessage": message, "errorType": kind}).encode()


def _check_size(octets: bytes, invocation_type: str) -> None:
    # The service model calls it RequestTooLargeException; this code is what really comes.
    if len(octets) > _LARGEST_REQUEST:
        raise client_error(
            "Invoke",
            "RequestEntityTooLargeException",
            f"Request must be smaller than {_LARGEST_REQUEST} bytes for the InvokeFunction "
            "operation",
            status=413,
        )
    if invocation_type == "Event" and len(octets) > _LARGEST_EVENT:
        raise client_error(
            "Invoke",
            "RequestEntityTooLargeException",
            f"{len(octets)} byte payload is too large for the Event invocation type "
            f"(limit {_LARGEST_EVENT} bytes)",
            status=413,
        )


def _decoded(text: str) -> InvocationClientContext | None:
    if not text:
        return None
    if len(text) > _LARGEST_CLIENT_CONTEXT:
        raise client_error(
            "Invoke", "InvalidRequestContentException", "Client context is too large"
        )
    try:
        members = json.loads(base64.b64decode(text, validate=True))
        return InvocationClientContext(members.get("custom", {}), members.get("env", {}))
    except (ValueError, AttributeError):
        raise client_error(
            "Invoke",
            "InvalidRequestContentException",
            "Client context must be a valid Base64-encoded JSON object.",
        ) from None


def _stream(octets: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(octets), len(octets))
