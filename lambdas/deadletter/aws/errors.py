"""What an AWS error means. Adapters turn AWS errors into domain errors by it."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

AWS_ERRORS = (ClientError, BotoCoreError)
"""All errors that a boto3 call raises for reasons of the service or the network."""


def code(error: ClientError | BotoCoreError) -> str:
    """The error's code, for metrics and messages.

    Messages of the service itself are not used: they may quote what was sent.
    """
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__


def surely_refused(error: ClientError | BotoCoreError) -> bool:
    """True if the call certainly had no effect: a 4xx answer to the first try.

    After a retry a 4xx says nothing about the earlier tries, whose answers were lost. A 5xx,
    or no answer, says nothing either.
    """
    if not isinstance(error, ClientError):
        return False
    metadata = error.response.get("ResponseMetadata", {})
    status = int(metadata.get("HTTPStatusCode", 0))
    return 400 <= status < 500 and not metadata.get("RetryAttempts")


def condition_failed(error: ClientError | BotoCoreError) -> bool:
    """True if a conditional write failed because its condition did not hold."""
    return code(error) == "ConditionalCheckFailedException"
