"""What an AWS error means, and what a row that cannot be read is called.

Tables turn AWS errors into three of ours, and adapters these into their own: by `ours`, but where
they ask for a code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
)
from botocore.parsers import ResponseParserError

AWS_ERRORS = (ClientError, BotoCoreError, ResponseParserError)
"""All errors that a boto3 call raises for reasons of the service or the network."""

AwsError = ClientError | BotoCoreError | ResponseParserError


class IncompleteAnswer(BotoCoreError):
    """An answer without what each answer of its operation has: it says as little as a lost one."""

    fmt = "an answer lacks {member}"


def member(answer: Mapping[str, Any], name: str) -> Any:
    """What each answer of an operation has. Raises IncompleteAnswer, one of AWS_ERRORS."""
    if name not in answer:
        raise IncompleteAnswer(member=name)
    return answer[name]


class Failed(Exception):
    """A call has failed; the text says which, as `refusal` does."""


class NotSent(Failed):
    """A call surely had no effect."""


class Unknown(Failed):
    """A call had no answer that says what came of it: it may have had its effect."""


class Conflict(Exception):
    """A write had no effect, because a row is not as its condition wants it.

    `item` is that row, empty if there is none; None if it is one of several in a transaction, which
    may also have met another one under way.
    """

    def __init__(self, item: Mapping[str, Any] | None) -> None:
        super().__init__("a row is not as a write wants it")
        self.item = item


@contextmanager
def ours(
    unavailable: Callable[[str], Exception], service: str = "", resource: str = ""
) -> Iterator[None]:
    """An adapter's own error in place of that of a call; a table says itself what failed.

    For other calls `service` and `resource` are those of `refusal`. A Conflict that an adapter
    does not look at has failed, too.
    """
    try:
        yield
    except (Failed, Conflict) as error:
        raise unavailable(str(error)) from error
    except AWS_ERRORS as error:
        raise unavailable(refusal(error, service, resource)) from error


def code(error: AwsError) -> str:
    """The error's code, for metrics and messages.

    Messages of the service itself are not used: they may quote what was sent.
    """
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__


_ACTIONS = {
    "ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
    "DeleteMessageBatch": "DeleteMessage",
    "HeadObject": "GetObject",
    "Invoke": "InvokeFunction",
    "ListObjectsV2": "ListBucket",
    "SendMessageBatch": "SendMessage",
    # IAM asks about each member of a transaction: one that updates needs UpdateItem.
    "TransactWriteItems": "PutItem",
}
"""Operations that IAM knows under the name of another one."""


def refusal(error: Exception, service: str, resource: str) -> str:
    """What failed, in the words that an IAM policy or a quota is written in.

    For example `AccessDeniedException for dynamodb:Query on deadletter-messages`. `service` is
    the prefix of its actions, `resource` a name: never a URL with a signature, never content.
    """
    if not isinstance(error, ClientError):
        return f"{type(error).__name__} for {service} on {resource}"
    action = _ACTIONS.get(error.operation_name, error.operation_name)
    return f"{code(error)} for {service}:{action} on {resource}"


def ignore(_refusal: str) -> None:
    """Forget a refusal: for callers that report none."""


def surely_refused(error: AwsError) -> bool:
    """True if the call certainly had no effect: a 4xx answer to the first try.

    After a retry a 4xx says nothing about the earlier tries, whose answers were lost. A 5xx,
    or no answer, says nothing either.
    """
    if not isinstance(error, ClientError):
        return False
    metadata = error.response.get("ResponseMetadata", {})
    status = int(metadata.get("HTTPStatusCode", 0))
    return 400 <= status < 500 and not metadata.get("RetryAttempts")


_BEFORE_A_REQUEST = (
    ConnectTimeoutError,
    CredentialRetrievalError,
    EndpointConnectionError,
    NoCredentialsError,
)
"""Errors that botocore raises while there is no connection yet that a request could leave on."""


def never_left(error: AwsError) -> bool:
    """True if no byte of the request left this machine: no connection, or TLS came to nothing.

    It tells of the last try: ask it only where the client makes one. A connection that ends under
    a request, a kept one too, is another thing: what was written may have arrived.
    """
    if isinstance(error, _BEFORE_A_REQUEST):
        return True
    # A refusal, a time-out or an end while TLS is agreed on has the name of a later one.
    return any(_is_of_handshake(each.__traceback__) for each in _origins(error))


def _origins(error: BaseException) -> Iterator[BaseException]:
    """An error and those that it names as its own.

    An error that was only being handled meanwhile is of another call.
    """
    yield error
    named = getattr(error, "kwargs", {}).get("error")
    for each in (*error.args, error.__cause__, named):
        if isinstance(each, BaseException) and each is not error:
            yield from _origins(each)


def _is_of_handshake(traceback: TracebackType | None) -> bool:
    while traceback is not None:
        if traceback.tb_frame.f_code.co_name == "do_handshake":
            return True
        traceback = traceback.tb_next
    return False


_THROTTLES = frozenset(
    {"RequestThrottled", "Throttling", "ThrottlingException", "TooManyRequestsException"}
)


def is_throttle(error: AwsError) -> bool:
    """True if the service refused the call because of its rate: another try may succeed."""
    return code(error).rpartition(".")[2] in _THROTTLES


NoteRow = Callable[[str], None]
"""Is told the name of a row that cannot be read."""


def row_name(table: str, partition: object, sort: object) -> str:
    """A row as a person finds it: its table, partition and sort key, with spaces between."""
    return f"{table} {partition} {sort}"
