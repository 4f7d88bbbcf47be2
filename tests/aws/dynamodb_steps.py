"""Steps of a scene on DynamoDB: what a test does, and what has to come of it, a line each.

A step acts on the table `letters` and on the item with KEY, unless its arguments name others.
Its conditions and changes are values, which a table in memory takes as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError

from deadletter.aws.dynamodb import worded
from deadletter.aws.table import Condition
from tests.aws.backends import Aws

KB = 1024
VALIDATION = "ValidationException"
CONDITION = "ConditionalCheckFailedException"

Step = Callable[[Aws], Any]


def s(value: str) -> dict[str, Any]:
    return {"S": value}


def n(value: object) -> dict[str, Any]:
    return {"N": str(value)}


KEY = {"pk": s("p"), "sk": s("s")}
ON_ITEM = {"TableName": "messages", "Key": KEY}
PUT = {"TableName": "messages", "Item": KEY}

# What an operation acts on if its arguments name nothing else.
TARGETS: dict[str, dict[str, Any]] = {
    "put_item": PUT,
    "get_item": ON_ITEM,
    "update_item": ON_ITEM,
    "delete_item": ON_ITEM,
    "query": {"TableName": "messages"},
    "scan": {"TableName": "messages"},
}


def keys(count: int) -> list[dict[str, Any]]:
    """Keys of one partition, with the sort keys 0, 1, 2 and so on."""
    return [{"pk": s("p"), "sk": s(str(number))} for number in range(count)]


def play(aws: Aws, steps: Sequence[Step]) -> None:
    """Do all steps in turn; the error of one says which it is."""
    for number, step in enumerate(steps, start=1):
        try:
            step(aws)
        except BaseException as error:
            error.add_note(f"Step {number} of {len(steps)}")
            raise


# Calls.


def call(operation: str, **arguments: Any) -> Step:
    """A call, and its answer."""
    request = {**TARGETS.get(operation, {}), **arguments}

    def send(aws: Aws) -> Any:
        spoken = request if aws.backend == "memory" else worded(request)
        return getattr(aws.dynamodb, operation)(**spoken)

    return send


def put(**attributes: Any) -> Step:
    return call("put_item", Item={**KEY, **attributes})


def update(sets: Any = None, adds: Any = None, removes: Any = (), **arguments: Any) -> Step:
    changes = {"Sets": sets or {}, "Adds": adds or {}, "Removes": removes}
    return call("update_item", **changes, **arguments)


def delete(**arguments: Any) -> Step:
    return call("delete_item", **arguments)


def query(where: Condition, **arguments: Any) -> Step:
    return call("query", Where=where, **arguments)


def action(kind: str, **arguments: Any) -> dict[str, Any]:
    """One action of a transaction."""
    return {kind: {**(PUT if kind == "Put" else ON_ITEM), **arguments}}


def transact(*actions: dict[str, Any]) -> Step:
    return call("transact_write_items", TransactItems=list(actions))


def batch_write(*items: dict[str, Any], deletes: Sequence[dict[str, Any]] = ()) -> Step:
    """A batch that puts some items and deletes others."""
    requests = [
        *({"PutRequest": {"Item": item}} for item in items),
        *({"DeleteRequest": {"Key": key}} for key in deletes),
    ]
    return call("batch_write_item", RequestItems={"messages": requests})


def batch_get(wanted: Sequence[dict[str, Any]], **arguments: Any) -> Step:
    return call("batch_get_item", RequestItems={"messages": {"Keys": wanted, **arguments}})


# What has to come of them.


def answers(step: Step, **members: Any) -> Step:
    """A call's answer has these members; None says that it has no such member."""

    def compare(aws: Aws) -> None:
        answer = step(aws)
        assert {name: answer.get(name) for name in members} == members

    return compare


def holds(step: Step, condition: Callable[[Any], object]) -> Step:
    """Something is true of a call's answer."""

    def compare(aws: Aws) -> None:
        assert condition(step(aws))

    return compare


def shows(step: Step, sort_keys: str, **members: Any) -> Step:
    """A call shows the items with these sort keys, in this order; see `answers` for the others."""

    def compare(aws: Aws) -> None:
        answer = step(aws)
        assert [item["sk"]["S"] for item in answer.get("Items", [])] == sort_keys.split()
        assert {name: answer.get(name) for name in members} == members

    return compare


def reads(expected: dict[str, Any] | None, **arguments: Any) -> Step:
    """A consistent read finds this item, or none; the members of its sets have no order."""
    read = call("get_item", ConsistentRead=True, **arguments)

    def compare(aws: Aws) -> None:
        assert _in_order(read(aws).get("Item")) == _in_order(expected)

    return compare


def _in_order(attributes: dict[str, Any] | None) -> Any:
    return attributes and {
        name: {
            kind: sorted(value) if kind in ("SS", "NS", "BS") else value
            for kind, value in typed.items()
        }
        for name, typed in attributes.items()
    }


def refused(step: Step, code: str = VALIDATION, **members: Any) -> Step:
    """A call is refused with this code; the error has these members, as in `answers`."""

    def refuse(aws: Aws) -> None:
        with pytest.raises(ClientError) as caught:
            step(aws)
        response: Any = caught.value.response
        assert response["Error"]["Code"] == code
        assert {name: response.get(name) for name in members} == members

    return refuse


def raises(name: str, step: Step) -> Step:
    """A call fails with the exception of this name that the client has."""

    def fail(aws: Aws) -> None:
        with pytest.raises(getattr(aws.dynamodb.exceptions, name)):
            step(aws)

    return fail


def canceled(step: Step, *codes: str) -> Step:
    """A transaction is canceled for these reasons, one for each action."""

    def refuse(aws: Aws) -> None:
        with pytest.raises(aws.dynamodb.exceptions.TransactionCanceledException) as caught:
            step(aws)
        given = caught.value.response["CancellationReasons"]
        assert [reason["Code"] for reason in given] == list(codes)

    return refuse
