"""Errors of AWS and of the library's AWS adapters, as sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from enum import Enum, auto
from typing import Any


class Cause(Enum):
    """The kind of a problem."""

    INPUT = auto()
    """The caller asked for something that is not possible."""
    FAILED = auto()
    """It was tried and failed or was refused, or needs a person."""
    UNREACHABLE = auto()
    """AWS is out of reach, or the credentials are missing, expired or refused."""
    ABSENT = auto()
    """What the caller named is not in this account and region."""
    BUG = auto()
    """An error in this program."""


class Problem(Exception):
    """Why an operation failed: a sentence that ends with what to do about it."""

    def __init__(self, says: str, cause: Cause) -> None:
        super().__init__(says)
        self.says = says
        self.cause = cause


class Denied(Problem):
    """AWS refuses a call for want of a permission."""


_EXPIRED = {"ExpiredToken", "ExpiredTokenException", "RequestExpired", "TokenRefreshRequired"}
_NOT_ACCEPTED = {
    "AuthFailure",
    "IncompleteSignature",
    "InvalidAccessKeyId",
    "InvalidClientTokenId",
    "InvalidSignatureException",
    "MissingAuthenticationToken",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
}
REFUSED = {"AccessDenied", "AccessDeniedException", "UnauthorizedOperation"}
_GONE = {
    "AWS.SimpleQueueService.NonExistentQueue",
    "QueueDoesNotExist",
    "ResourceNotFoundException",
}
_THROTTLED = {
    "ProvisionedThroughputExceededException",
    "RequestLimitExceeded",
    "RequestThrottled",
    "Throttling",
    "ThrottlingException",
    "TooManyRequestsException",
}

_SIGN_IN = "sign in again (with SSO: aws sso login), or pass another --profile"


@contextmanager
def aws_errors() -> Iterator[None]:
    """Raises the AWS error that an adapter's error comes from, or else a Problem."""
    try:
        yield
    except Exception as error:
        from deadletter.aws.errors import AWS_ERRORS

        if not _is_of_adapter(error):
            raise
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AWS_ERRORS):
                raise cause from error
            cause = cause.__cause__
        raise Problem(f"Try again: {error}.", Cause.UNREACHABLE) from error


def _is_of_adapter(error: Exception) -> bool:
    """Whether an adapter has raised it: where the library's port gives up, the error says so."""
    from deadletter.aws.errors import Failed
    from deadletter.replay.run import BadRunRow

    ours = [kind for kind in type(error).__mro__ if kind.__module__.startswith("deadletter.")]
    named = any(kind.__name__.endswith("Unavailable") for kind in ours)
    return named or isinstance(error, Failed | BadRunRow)


def error_code(error: Exception) -> str:
    """The error code from AWS; "" for any other error."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


# Characters of a function's own error that are shown: enough for a sentence.
_MAX_ERROR = 300


def failure(payload: Any) -> str:
    """Why a Lambda function failed, from its decoded payload."""
    error = payload if isinstance(payload, dict) else {}
    kind, message = str(error.get("errorType", "")), str(error.get("errorMessage", ""))
    return ": ".join(part for part in (kind, message[:_MAX_ERROR]) if part) or "it did not say why"


def read_json(text: str | bytes) -> Any:
    """What others wrote as JSON; None if it is malformed."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def explain(error: Exception) -> Problem | None:
    """An error of AWS, or of reaching it, in a sentence; None for any other error."""
    from botocore import exceptions

    if isinstance(error, Problem):
        return error
    if isinstance(error, exceptions.ClientError):
        kind = Denied if error_code(error) in REFUSED else Problem
        return kind(_answered(error), _ending(error_code(error)))
    says: str
    match error:
        case exceptions.ProfileNotFound():
            says = f"{error}: pass another --profile, or see `aws configure list-profiles`."
        case exceptions.NoCredentialsError() | exceptions.PartialCredentialsError():
            says = "No AWS credentials found: pass --profile, or set AWS_PROFILE."
        case exceptions.NoRegionError():
            says = "No AWS region is set: pass --region, or set AWS_REGION."
        case (
            exceptions.SSOError()
            | exceptions.TokenRetrievalError()
            | exceptions.CredentialRetrievalError()
        ):
            says = f"The AWS credentials can't be renewed: {_SIGN_IN}."
        case exceptions.HTTPClientError() | exceptions.ConnectionError():
            says = (
                f"Can't reach AWS ({type(error).__name__}): check the network, VPN or proxy, "
                "--region, and AWS_ENDPOINT_URL if it is set."
            )
        case exceptions.BotoCoreError():
            says = f"The AWS SDK gave up: {error}."
        case _:
            return None
    return Problem(says, Cause.UNREACHABLE)


def _answered(error: Any) -> str:
    code = error_code(error)
    operation = error.operation_name
    message = str(error.response.get("Error", {}).get("Message", "")).rstrip(".")
    if code in _EXPIRED:
        return f"The AWS credentials have expired: {_SIGN_IN}."
    if code in _NOT_ACCEPTED:
        return f"AWS does not accept these credentials ({code}): {_SIGN_IN}."
    if code in REFUSED:
        return f"AWS refuses {operation}: {message or code}; pass a --profile that is allowed to."
    if code in _THROTTLED:
        return f"AWS is throttling {operation}: try again in a minute."
    if code in _GONE:
        return (
            f"{operation} finds nothing there any more ({message or code}): "
            "was it deleted after the last deployment?"
        )
    return f"AWS answered {operation} with {code}: {message}; --debug shows where."


def _ending(code: str) -> Cause:
    return Cause.ABSENT if code in _GONE else Cause.UNREACHABLE
