"""AWS says no with a ClientError whose `Error.Code` is what callers decide by."""

from functools import cache
from typing import Any

from botocore.exceptions import ClientError, ParamValidationError


@cache
def _named(name: str) -> type[ClientError]:
    return type(name, (ClientError,), {})


class Exceptions:
    """The `client.exceptions` of one service: `except client.exceptions.ResourceInUseException`.

    A name that the service doesn't have is an AttributeError, as with boto3.
    """

    def __init__(self, names: str) -> None:
        self._names = frozenset(names.split())

    def __getattr__(self, name: str) -> type[ClientError]:
        if name == "ClientError":
            return ClientError
        if name.startswith("_") or name not in self._names:
            raise AttributeError(f"no such exception: {name}")
        return _named(name)


def client_error(
    operation: str,
    code: str,
    message: str,
    *,
    status: int = 400,
    shape: str | None = None,
    **members: Any,
) -> ClientError:
    """The error that boto3 raises when `operation` (`SendMessage`, …) is answered with `code`.

    `shape` is the exception's name in the service model where it differs from the code (SQS, which
    once spoke another protocol, has both). `members` are further members of the response, such as
    `Item` and `CancellationReasons`. A simulator may raise throttles and faults with this.
    """
    error: dict[str, Any] = {"Code": code, "Message": message}
    if shape is not None:
        error["QueryErrorCode"] = shape
        error["Type"] = "Sender" if status < 500 else "Receiver"
    response: Any = {"Error": error, "ResponseMetadata": answered(status), **members}
    return _named(shape or code)(response, operation)


def malformed(report: str) -> ParamValidationError:
    """boto3 itself refuses arguments of the wrong shape; nothing is sent."""
    return ParamValidationError(report=report)


def answered(status: int = 200) -> dict[str, Any]:
    """The `ResponseMetadata` that every boto3 answer carries."""
    return {"RequestId": "memory", "HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
