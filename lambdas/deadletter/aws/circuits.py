"""The circuits table: one item a dependency."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deadletter.aws.answers import AWS_ERRORS
from deadletter.aws.table import MOST_TRIES, parts, plain
from deadletter.circuit import Circuit, Circuits, CircuitsUnavailable, State

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class DynamoDBCircuits(Circuits):
    """The circuits of one pipeline, read consistently."""

    def __init__(self, client: DynamoDBClient, table: str, pipeline: str) -> None:
        self._client: Any = client
        self._table = table
        self._pipeline = pipeline

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        found = {key: Circuit(key) for key in keys}
        try:
            for part in parts(sorted(found), 100):
                for item in self._get(part):
                    found[item["circuit_key"]] = _circuit(item)
        except AWS_ERRORS as error:
            raise CircuitsUnavailable from error
        return found

    def _get(self, keys: Sequence[str]) -> list[dict[str, Any]]:
        wanted: Any = {
            self._table: {
                "Keys": [
                    {"pipeline": {"S": self._pipeline}, "circuit_key": {"S": key}} for key in keys
                ],
                "ConsistentRead": True,
            }
        }
        items: list[dict[str, Any]] = []
        for _ in range(MOST_TRIES):
            answer = self._client.batch_get_item(RequestItems=wanted)
            items += [plain(one) for one in answer.get("Responses", {}).get(self._table, [])]
            wanted = answer.get("UnprocessedKeys")
            if not wanted:
                return items
        raise CircuitsUnavailable("the circuits table is throttling")


def _circuit(item: Mapping[str, Any]) -> Circuit:
    """The circuit in an item; a state that is none means that nobody may send: hold."""
    state = item.get("state")
    if not isinstance(state, str) or state not in set(State):
        state = State.OPEN
    return Circuit(item["circuit_key"], State(state))
