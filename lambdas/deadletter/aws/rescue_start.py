"""Starts the redriver to rescue letters."""

from __future__ import annotations

from typing import TYPE_CHECKING

from deadletter.aws.errors import ours
from deadletter.message.letter import compact_json
from deadletter.watch.watch import RescueUnavailable

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


def start_rescue(client: LambdaClient, function: str, source: str) -> None:
    """Start a run that moves everything out of `source`; its end is not waited for.

    Raises RescueUnavailable.
    """
    with ours(RescueUnavailable, "lambda", function):
        client.invoke(
            FunctionName=function,
            InvocationType="Event",
            Payload=compact_json({"source": source, "rescue": True}),
        )
