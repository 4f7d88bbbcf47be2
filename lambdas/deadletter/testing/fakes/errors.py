"""AWS says no with a ClientError whose `Error.Code` is what callers decide by."""

from collections.abc import Callable
from functools import cache, wraps
from typing import Any, TypeVar, cast

from botocore.exceptions import ClientError, ParamValidationError

Method = TypeVar("Method", bound=Callable[..., Any])


@cache
def _named(name: str) -> type[ClientError]:
    return type(name, (ClientError,), {})


class Exceptions:
    """The `client.exceptions` of a service: `except client.exceptions.ResourceInUseException`."""

    def __getattr__(self, name: str) -> type[ClientError]:
        if name.startswith("_"):
            raise AttributeError(name)
        return ClientError if name == "ClientError" else _named(name)


class Declined(Exception):
    """A service turns down a request, or one entry of a batch.

    `members` are further members of the response, such as `Item` and `CancellationReasons`.
    """

    def __init__(self, code: str, message: str, *, status: int = 400, **members: Any) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.status = status
        self.members = members


def operation(method: Method) -> Method:
    """One call of a client: its answer has metadata, and what is refused is a ClientError."""
    name = method.__name__.title().replace("_", "")

    @wraps(method)
    def call(client: Any, **request: Any) -> Any:
        try:
            answer = method(client, **request)
        except Declined as refused:
            code, message, status = refused.code, refused.message, refused.status
            raise client_error(name, code, message, status=status, **refused.members) from None
        answer.setdefault("ResponseMetadata", answered())
        return answer

    return cast(Method, call)


def client_error(
    operation: str, code: str, message: str, *, status: int = 400, **members: Any
) -> ClientError:
    """The error that boto3 raises when `operation` (`SendMessage`, …) is answered with `code`.

    `members` are those of Declined. A simulator may raise throttles and faults with this.
    """
    error = {"Code": code, "Message": message}
    response: Any = {"Error": error, "ResponseMetadata": answered(status), **members}
    return _named(code)(response, operation)


def malformed(report: str) -> ParamValidationError:
    """boto3 itself refuses arguments of the wrong shape; nothing is sent."""
    return ParamValidationError(report=report)


def answered(status: int = 200) -> dict[str, Any]:
    """The `ResponseMetadata` that every boto3 answer carries."""
    return {"RequestId": "memory", "HTTPStatusCode": status, "HTTPHeaders": {}, "RetryAttempts": 0}
