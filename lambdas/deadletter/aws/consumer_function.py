"""The consumer's function, called with one letter as the queue would call it with a batch."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, surely_refused
from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import RESPONSE
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import compact_json, to_event
from deadletter.message.queue import ReceivedLetter
from deadletter.outage.canary_sources import CanaryResult
from deadletter.outage.prober import CanaryConsumer, ConsumerUnavailable
from deadletter.processing.lambda_event import PERMIT

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

PLACE = "consumer"


class LambdaConsumer(CanaryConsumer):
    """A consumer that is a Lambda function.

    `client` must wait as long as the consumer may take, and never try again by itself: a
    canary is one letter, once.
    """

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client: Any = client
        self._function = function

    def give(self, taken: ReceivedLetter, source_arn: str, permit: str) -> CanaryResult:
        record = to_event(taken.letter, receipt_handle=taken.handle, source_arn=source_arn)
        context = json.dumps({"custom": {PERMIT: permit}}).encode()
        try:
            answer = self._client.invoke(
                FunctionName=self._function,
                ClientContext=base64.b64encode(context).decode(),
                Payload=compact_json({"Records": [record]}),
            )
            said = answer["Payload"].read()
        except AWS_ERRORS as error:
            if surely_refused(error):
                raise ConsumerUnavailable(code(error)) from error
            return CanaryResult(CanaryVerdict.NO_ANSWER)
        if answer.get("FunctionError"):
            return CanaryResult(CanaryVerdict.FAILURE)
        return _judged(said, taken.letter.message_id)


def _judged(said: bytes, copy: str) -> CanaryResult:
    """What the answer means, read as Lambda reads that of a batch.

    A consumer without the library says nothing of `deadletter`, and one that does not
    report items says nothing at all: then no error is success.
    """
    try:
        answer = json.loads(said or b"null")
    except (ValueError, RecursionError):
        return CanaryResult(CanaryVerdict.FAILURE)
    fields = answer if isinstance(answer, dict) else {}
    failures = fields.get("batchItemFailures") or []
    # Of one letter any item is this one: Lambda takes an unknown id for the whole batch.
    acknowledged = isinstance(failures, list) and not failures
    about = fields.get(RESPONSE)
    word = about.get("verdict") if isinstance(about, dict) else None
    if word == CanaryVerdict.NEUTRAL:
        return CanaryResult(
            CanaryVerdict.NEUTRAL, Confirmation(copy, PLACE) if acknowledged else None
        )
    if word == CanaryVerdict.FAILURE or not acknowledged:
        return CanaryResult(CanaryVerdict.FAILURE)
    return CanaryResult(CanaryVerdict.SUCCESS, Confirmation(copy, PLACE))
