"""The consumer's function, invoked with letters as SQS invokes it with a batch.

A canary is one letter; a replay run delivers several, and is told their fates.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, never_left, surely_refused
from deadletter.contract import RESPONSE
from deadletter.message.letter import Letter, compact_json, to_event
from deadletter.processing.lambda_event import PERMIT, REPLAY_RUN

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from deadletter.message.queue import ReceivedLetter
    from deadletter.outage.canaries import CanaryResult
    from deadletter.replay.carriers import DirectAnswer, DirectFate

_HANDLE = "replay"
"""In place of a receipt handle: such a letter lies in no queue."""

THROTTLED_PAUSE = 5.0
"""Seconds for which a function is left alone that Lambda does not invoke now, or that no request
reaches."""


class _NoEffect(Exception):
    """The function surely did not see the letters; the text is the error's code."""


class _NoAnswer(Exception):
    """Nothing is known of what became of the letters."""


def _invoked(
    client: Any, function: str, custom: Mapping[str, str], records: Iterable[Any]
) -> bytes | None:
    """The function's answer to a batch; None if it failed. Raises _NoEffect and _NoAnswer.

    `client` must wait as long as the consumer may take, and must not retry: each letter is sent
    once, and a possible duplicate has to be counted.
    """
    context = json.dumps({"custom": custom}).encode()
    try:
        answer = client.invoke(
            FunctionName=function,
            ClientContext=base64.b64encode(context).decode(),
            Payload=compact_json({"Records": list(records)}),
        )
        payload: bytes = member(answer, "Payload").read()
    except AWS_ERRORS as error:
        if surely_refused(error) or never_left(error):
            raise _NoEffect(code(error)) from error
        raise _NoAnswer from error
    return None if answer.get("FunctionError") else payload


class LambdaConsumer:
    """A consumer that is a Lambda function, and takes a canary. See `_invoked` for `client`."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def process(
        self, received: ReceivedLetter, source_arn: str, permit: str, key: str
    ) -> CanaryResult:
        # Only the probe has them.
        from deadletter.circuit.transitions import CanaryVerdict
        from deadletter.outage.canaries import CanaryResult, judge_answer
        from deadletter.outage.prober import ConsumerUnavailable

        record = to_event(received.letter, receipt_handle=received.handle, source_arn=source_arn)
        try:
            payload = _invoked(self._client, self._function, {PERMIT: permit}, [record])
        except _NoEffect as error:
            raise ConsumerUnavailable(str(error)) from error
        except _NoAnswer:
            return CanaryResult(CanaryVerdict.NO_ANSWER)
        if payload is None:
            return CanaryResult(CanaryVerdict.FAILURE)
        return judge_answer(payload, received.letter.message_id, key)


@dataclass(eq=False, repr=False)
class LambdaDelivery:
    """A consumer that is a Lambda function, and takes the letters of a replay run.

    `client` is that of `_invoked`, and `timeout` the seconds that it waits. `sender` is the id of a
    trusted role: the consumer believes the stamp of a record by its SenderId. `source_arn` is the
    main queue's.
    """

    client: LambdaClient
    function: str
    source_arn: str
    sender: str
    timeout: float

    def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
        # Only replay runs have them.
        from deadletter.replay.carriers import DirectAnswer, DirectFate

        copies = [letter.message_id for letter in letters]
        try:
            records = map(self._record, letters)
            payload = _invoked(self.client, self.function, {REPLAY_RUN: run}, records)
        except _NoEffect:
            return DirectAnswer(dict.fromkeys(copies, DirectFate.UNTRIED), THROTTLED_PAUSE)
        except _NoAnswer:
            return DirectAnswer()
        if payload is None:
            return DirectAnswer(dict.fromkeys(copies, DirectFate.FAILED))
        return fates_in(payload, copies)

    def _record(self, letter: Letter) -> dict[str, Any]:
        ours = replace(letter, system={**letter.system, "SenderId": self.sender})
        return to_event(ours, receipt_handle=_HANDLE, source_arn=self.source_arn)


def fates_in(payload: bytes, copies: Sequence[str]) -> DirectAnswer:
    """What a consumer's response says of these letters.

    With the library it names each letter's fate. Without it, only those that failed are named:
    the others are ACCEPTED. What cannot be read says nothing.
    """
    from deadletter.replay.carriers import DirectAnswer, DirectFate

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
    from deadletter.replay.carriers import DirectFate

    failures = response.get("batchItemFailures") or []
    try:
        failed = {failure["itemIdentifier"] for failure in failures}
    except (KeyError, TypeError):
        failed = set(copies)
    if not failed <= set(copies):
        # Lambda then takes the whole batch for failed.
        failed = set(copies)
    return {copy: DirectFate.FAILED if copy in failed else DirectFate.ACCEPTED for copy in copies}
