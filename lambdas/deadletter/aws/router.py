"""The router as a Lambda function."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code
from deadletter.message.letter import compact_json
from deadletter.routing.router import Question, RouterAnswer, RouterUnavailable
from deadletter.routing.wire import answer_from_json, question_to_json

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient


class LambdaRouter:
    """Asks the router's function. An incomplete answer raises RouterUnavailable."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        letters = [question_to_json(question) for question in questions]
        return answer_from_json(self._ask({"letters": letters}))

    def releasable_lanes(self, lanes: Sequence[str]) -> Sequence[str]:
        answer = self._ask({"lanes": list(lanes)})
        releasable = answer.get("open") if isinstance(answer, dict) else None
        if not isinstance(releasable, list):
            raise RouterUnavailable("the router did not say which lanes are releasable")
        return [lane for lane in lanes if lane in releasable]

    def _ask(self, question: dict[str, Any]) -> Any:
        try:
            answer = self._client.invoke(
                FunctionName=self._function, Payload=compact_json(question)
            )
            payload = answer["Payload"].read()
        except AWS_ERRORS as error:
            raise RouterUnavailable(code(error)) from error
        if answer.get("FunctionError"):
            raise RouterUnavailable(f"the router's function failed: {answer['FunctionError']}")
        try:
            return json.loads(payload)
        except ValueError as error:
            raise RouterUnavailable("the router's answer is not JSON") from error
