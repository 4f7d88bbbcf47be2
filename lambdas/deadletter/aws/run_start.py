"""Starts further runs of the redriver's function beside the present one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import ours
from deadletter.message.letter import compact_json
from deadletter.redrive.shards import RunNotStarted

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaRunStarter:
    """Invokes the redriver's function asynchronously.

    `client` makes the client: most runs start no other one and need none.
    """

    def __init__(self, client: Callable[[], LambdaClient], function: str) -> None:
        self._client = client
        self._function = function

    def start(self, event: Mapping[str, Any]) -> None:
        with ours(RunNotStarted, "lambda", self._function):
            self._client().invoke(
                FunctionName=self._function, InvocationType="Event", Payload=compact_json(event)
            )
