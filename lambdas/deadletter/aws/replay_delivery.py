"""The consumer's function as a replay run invokes it: with letters, and for their fates."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, member, never_left, surely_refused
from deadletter.contract import RESPONSE
from deadletter.message.letter import Letter, compact_json, to_event
from deadletter.processing.lambda_event import REPLAY_RUN
from deadletter.replay.delivering import DirectAnswer, DirectFate

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

_HANDLE = "replay"
"""In place of a receipt handle: such a letter lies in no queue."""

THROTTLED_PAUSE = 5.0
"""Seconds for which a function is left alone that Lambda does not invoke now, or that no request
reaches."""


class LambdaDelivery:
    """A consumer that is a Lambda function.

    `client` must wait as long as the consumer may take (`timeout` seconds), and must not retry:
    a possible duplicate has to be counted. `sender` is the id of a trusted role: the consumer
    believes the stamp of a record by its SenderId. `source_arn` is the main queue's.
    """

    def __init__(
        self, client: LambdaClient, function: str, *, source_arn: str, sender: str, timeout: float
    ) -> None:
        self.timeout = timeout
        self._client: Any = client
        self._function = function
        self._source_arn = source_arn
        self._sender = sender

    def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
        context = json.dumps({"custom": {REPLAY_RUN: run}}).encode()
        copies = [letter.message_id for letter in letters]
        try:
            answer = self._client.invoke(
                FunctionName=self._function,
                ClientContext=base64.b64encode(context).decode(),
                Payload=compact_json({"Records": [self._record(letter) for letter in letters]}),
            )
            payload = member(answer, "Payload").read()
        except AWS_ERRORS as error:
            if surely_refused(error) or never_left(error):
                return DirectAnswer(dict.fromkeys(copies, DirectFate.UNTRIED), THROTTLED_PAUSE)
            return DirectAnswer()
        if answer.get("FunctionError"):
            return DirectAnswer(dict.fromkeys(copies, DirectFate.FAILED))
        return fates_in(payload, copies)

    def _record(self, letter: Letter) -> dict[str, Any]:
        ours = replace(letter, system={**letter.system, "SenderId": self._sender})
        return to_event(ours, receipt_handle=_HANDLE, source_arn=self._source_arn)


def fates_in(payload: bytes, copies: Sequence[str]) -> DirectAnswer:
    """What a consumer's response says of these letters.

    With the library it names each letter's fate. Without it, only those that failed are named:
    the others are ACCEPTED. What cannot be read says nothing.
    """
    try:
        response = json.loads(payload or b"null")
    except (ValueError, RecursionError):
        return DirectAnswer()
    if response is None:
        return DirectAnswer(dict.fromkeys(copies, DirectFate.ACCEPTED))
    if not isinstance(response, Mapping):
        return DirectAnswer()
    ours = response.get(RESPONSE)
    if isinstance(ours, Mapping) and isinstance(ours.get("outcomes"), Mapping):
        pause = ours.get("retry_after", 0)
        is_number = isinstance(pause, int | float) and not isinstance(pause, bool)
        return DirectAnswer(
            {
                copy: DirectFate(fate)
                for copy, fate in ours["outcomes"].items()
                if copy in copies and fate in set(DirectFate)
            },
            max(0.0, float(pause)) if is_number else 0.0,
        )
    return DirectAnswer(_without_library(response, copies))


def _without_library(response: Mapping[str, Any], copies: Sequence[str]) -> dict[str, DirectFate]:
    failures = response.get("batchItemFailures") or []
    try:
        failed = {failure["itemIdentifier"] for failure in failures}
    except (KeyError, TypeError):
        failed = set(copies)
    if not failed <= set(copies):
        # Lambda then takes the whole batch for failed.
        failed = set(copies)
    return {copy: DirectFate.FAILED if copy in failed else DirectFate.ACCEPTED for copy in copies}
