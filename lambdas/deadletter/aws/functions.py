"""Our own functions, as they call one another: the router is asked, and runs are started."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import member, ours
from deadletter.message.letter import compact_json
from deadletter.routing import wire
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable

if TYPE_CHECKING:
    from mypy_boto3_lambda import LambdaClient

    from deadletter.routing.selection import Pick, Selection


class LambdaRouter:
    """Asks the router's function. An incomplete answer raises RouterUnavailable."""

    def __init__(self, client: LambdaClient, function: str) -> None:
        self._client = client
        self._function = function

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        letters = b",".join(wire.encoded_question(question) for question in questions)
        return wire.answer_from_json(self._ask(b'{"letters":[%b]}' % letters))

    def select(
        self, questions: Sequence[Question], selection: Selection, *, release: bool = False
    ) -> Sequence[Pick]:
        return wire.picks_from_json(
            self._ask(compact_json(wire.selection_request(questions, selection, release=release)))
        )

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        return wire.lanes_from_json(self._ask(compact_json({"lanes": list(lanes)})), lanes)

    def _ask(self, question: bytes) -> Any:
        with ours(RouterUnavailable, "lambda", self._function):
            answer = self._client.invoke(FunctionName=self._function, Payload=question)
            payload = member(answer, "Payload").read()
        if answer.get("FunctionError"):
            raise RouterUnavailable(f"function {self._function} failed: {_failure(payload)}")
        try:
            return json.loads(payload)
        except ValueError as error:
            raise RouterUnavailable("the router's answer is not JSON") from error


def _failure(payload: bytes) -> str:
    """Why the router's function failed.

    The text of RouterUnavailable is ours. That of another error may quote a letter, so that
    only the error's type is used.
    """
    try:
        failure = json.loads(payload)
        kind, text = str(failure["errorType"]), str(failure["errorMessage"])
    except (ValueError, TypeError, KeyError):
        return "no reason given"
    return text if kind == RouterUnavailable.__name__ else kind


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
