"""What AWS means when it does not simply say yes."""

from __future__ import annotations

from botocore.exceptions import BotoCoreError, ClientError

AWS_ERRORS = (ClientError, BotoCoreError)
"""Everything that a boto3 call raises for the service's or the network's sake."""


def code(error: ClientError | BotoCoreError) -> str:
    """The error's code, for counting and for messages; never the service's own sentence,
    which may quote what was sent."""
    if isinstance(error, ClientError):
        return str(error.response.get("Error", {}).get("Code", "Unknown"))
    return type(error).__name__


def surely_refused(error: ClientError | BotoCoreError) -> bool:
    """Whether the call certainly had no effect.

    A 4xx at the first try was refused. After a retry it says nothing about the tries
    before it, whose answers were lost; no answer at all, or a 5xx, says nothing either.
    """
    if not isinstance(error, ClientError):
        return False
    metadata = error.response.get("ResponseMetadata", {})
    status = int(metadata.get("HTTPStatusCode", 0))
    return 400 <= status < 500 and not metadata.get("RetryAttempts")


def condition_failed(error: ClientError | BotoCoreError) -> bool:
    """Whether a conditional write found something else than it demanded."""
    return code(error) == "ConditionalCheckFailedException"
