"""The consumer's function, invoked with one letter as SQS invokes it with a batch."""

from __future__ import annotations

import base64
import json
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, member, never_left, surely_refused
from deadletter.circuit.transitions import CanaryVerdict
from deadletter.message.letter import compact_json, to_event
from deadletter.message.queue import ReceivedLetter
from deadletter.outage.canary_sources import CanaryResult, judge_answer
from deadletter.outage.prober import CanaryConsumer, ConsumerUnavailable
from deadletter.processing.lambda_event import PERMIT

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaConsumer(CanaryConsumer):
    """A consumer that is a Lambda function.

    `client` must wait as long as the consumer may take, and must not retry: a canary is
    sent once.
    """

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client: Any = client
        self._function = function

    def process(
        self, received: ReceivedLetter, source_arn: str, permit: str, key: str
    ) -> CanaryResult:
        record = to_event(received.letter, receipt_handle=received.handle, source_arn=source_arn)
        context = json.dumps({"custom": {PERMIT: permit}}).encode()
        try:
            answer = self._client.invoke(
                FunctionName=self._function,
                ClientContext=base64.b64encode(context).decode(),
                Payload=compact_json({"Records": [record]}),
            )
            payload = member(answer, "Payload").read()
        except AWS_ERRORS as error:
            if surely_refused(error) or never_left(error):
                raise ConsumerUnavailable(code(error)) from error
            return CanaryResult(CanaryVerdict.NO_ANSWER)
        if answer.get("FunctionError"):
            return CanaryResult(CanaryVerdict.FAILURE)
        return judge_answer(payload, received.letter.message_id, key)
