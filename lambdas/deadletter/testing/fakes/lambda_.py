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

from deadletter.testing.fakes.errors import Declined, Exceptions, operation

# Bytes, all four as Lambda's own error messages give them.
_LARGEST_REQUEST = 6_291_456
_LARGEST_EVENT = 1_048_576
_LARGEST_RESPONSE = 6_291_556
_LARGEST_CLIENT_CONTEXT = 3_583

_ARN = "arn:aws:lambda:us-east-1:123456789012:function:"

Function = Callable[[Any, Any], Any]


@dataclass(frozen=True, slots=True)
class ClientContext:
    """What the caller of a function sent along."""

    custom: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Context:
    """As much of Lambda's context as a handler asks for; `deadline` is in epoch seconds."""

    clock: Callable[[], float]
    deadline: float
    client_context: ClientContext | None = None
    function_name: str = "consumer"
    function_version: str = "$LATEST"
    memory_limit_in_mb: int = 128
    invoked_function_arn: str = "arn:aws:lambda:us-east-1:123456789012:function:consumer"
    aws_request_id: str = "00000000-0000-4000-8000-000000000000"

    def get_remaining_time_in_millis(self) -> int:
        return max(0, int((self.deadline - self.clock()) * 1000))


class MemoryLambda:
    """A `boto3.client("lambda")` that can do one thing: invoke what was registered.

    `clock` returns epoch seconds, `ids` a new request id at each call. `timeout` (seconds) only
    shows in the context's remaining time; nothing is interrupted. An asynchronous invocation runs
    at once and its outcome is lost, as it is to its caller at AWS; it isn't tried again.
    """

    exceptions = Exceptions()

    def __init__(
        self, clock: Callable[[], float], ids: Callable[[], str], *, timeout: float = 300.0
    ) -> None:
        self._clock = clock
        self._ids = ids
        self._timeout = timeout
        self._functions: dict[str, Function] = {}

    def register(self, function_name: str, function: Function) -> str:
        """Make a handler `(event, context)` invocable. Returns the function's ARN."""
        self._functions[function_name] = function
        return _ARN + function_name

    @operation
    def invoke(
        self,
        *,
        FunctionName: str,
        InvocationType: str = "RequestResponse",
        Payload: bytes | str = b"",
        ClientContext: str = "",
    ) -> dict[str, Any]:
        """A handler that raises is a 200 with `FunctionError`; the payload then tells what."""
        name = FunctionName.removeprefix(_ARN)
        function = self._functions.get(name)
        if function is None:
            text = f"Function not found: {_ARN}{name}"
            raise Declined("ResourceNotFoundException", text, status=404)
        octets = Payload.encode() if isinstance(Payload, str) else bytes(Payload)
        is_event = InvocationType == "Event"
        if len(octets) > (largest := _LARGEST_EVENT if is_event else _LARGEST_REQUEST):
            # The service model calls it RequestTooLargeException; this code is what really comes.
            text = f"{len(octets)} byte payload is too large (limit {largest} bytes)"
            raise Declined("RequestEntityTooLargeException", text, status=413)
        context = Context(
            self._clock,
            self._clock() + self._timeout,
            _decoded(ClientContext) if ClientContext and not is_event else None,
            function_name=name,
            invoked_function_arn=_ARN + name,
            aws_request_id=self._ids(),
        )
        payload, failed = _run(function, _loaded(octets or b"{}"), context)
        if is_event:
            return {"StatusCode": 202, "Payload": _stream(b"")}
        error = {"FunctionError": "Unhandled"} if failed else {}
        return {"StatusCode": 200, "Payload": _stream(payload), **error}


def _run(function: Function, event: object, context: Context) -> tuple[bytes, bool]:
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


def _loaded(text: bytes) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        raise Declined(
            "InvalidRequestContentException", "Could not parse request body into json"
        ) from None


def _decoded(text: str) -> ClientContext:
    try:
        if len(text) > _LARGEST_CLIENT_CONTEXT:
            raise ValueError(text)
        return ClientContext(json.loads(base64.b64decode(text, validate=True))["custom"])
    except (ValueError, LookupError, TypeError):
        raise Declined(
            "InvalidRequestContentException",
            f"Client context is not base64 of a JSON object, or has more than"
            f" {_LARGEST_CLIENT_CONTEXT} bytes",
        ) from None


def _stream(octets: bytes) -> StreamingBody:
    return StreamingBody(io.BytesIO(octets), len(octets))
