"""Starts further runs of the redriver's function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import ours
from deadletter.message.letter import compact_json

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaRunStarter:
    """Invokes the redriver's function asynchronously, for runs beside the present one.

    `client` makes the client: most runs start no other one and need none.
    """

    def __init__(self, client: Callable[[], LambdaClient], function: str) -> None:
        self._client = client
        self._function = function

    def start(self, event: Mapping[str, Any]) -> None:
        from deadletter.redrive.redriver_setup import RunNotStarted

        with ours(RunNotStarted, "lambda", self._function):
            _start(self._client(), self._function, event)


def start_rescue(client: LambdaClient, function: str, source: str) -> None:
    """Start a run that moves everything out of `source`; its end is not waited for.

    Raises RescueUnavailable.
    """
    from deadletter.watch.watch import RescueUnavailable

    with ours(RescueUnavailable, "lambda", function):
        _start(client, function, {"source": source, "rescue": True})


def _start(client: LambdaClient, function: str, event: Mapping[str, Any]) -> None:
    client.invoke(FunctionName=function, InvocationType="Event", Payload=compact_json(event))
