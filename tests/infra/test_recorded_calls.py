"""Each function may do what it does, and does all that it may.

What the functions ask IAM for in the scenes of `recorded` is compared with the table of permissions
and with the statements of their roles, both ways.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase

import pytest

from tests.infra.recorded import record
from tests.infra.templates import Synthesis
from tests.infra.test_permissions import CONFINED, GRANTED, SHARED, noun, role_of, statements
from tests.judge import Asked, allows
from tests.scenarios.conftest import clients_in_memory

Calls = Mapping[str, Sequence[Asked]]

Permission = tuple[str, str, str]
"""A function, what it reaches, and an action there, or a partition of a table."""

NO_FUNCTION = {"starter"}
"""Schedules and state machines have it; the machines themselves say what they start."""

BY_LAMBDA = ("logs:", "xray:")
"""What begins so is done by the runtime of a function."""

_MAPPING = "the event source mapping does it, in the function's name"
_LOT = "the settings may send any reason of the consumer to any parking queue"

UNSEEN: Mapping[Permission, str] = {
    ("consumer", "queue main", "sqs:ReceiveMessage"): _MAPPING,
    ("consumer", "queue main", "sqs:DeleteMessage"): _MAPPING,
    ("consumer", "queue parking_quarantine", "sqs:SendMessage"): _LOT,
    ("consumer", "queue parking_quarantine", "sqs:GetQueueAttributes"): _LOT,
    ("probe", "table Messages", "orders#group#*"): "where letters of FIFO pipelines wait",
    ("check-rules", "parameters pipelines/*", "ssm:GetParametersByPath"): "IAM may ask for either",
    ("check-rules", "queue of failures", "sqs:SendMessage"): _MAPPING,
    ("check-rules", "*", "dynamodb:ListStreams"): _MAPPING,
    **{
        ("check-rules", f"stream of {table}", f"dynamodb:{action}"): _MAPPING
        for table in ("Rules", "Endpoints")
        for action in ("DescribeStream", "GetRecords", "GetShardIterator")
    },
}


@pytest.fixture(scope="module")
def calls(app: Synthesis) -> Iterator[Calls]:
    """What each function asks IAM for."""
    with pytest.MonkeyPatch.context() as patch, clients_in_memory(patch):
        yield record(app, patch)


def permissions(function: str) -> Iterator[Permission]:
    """What the table lets a function do."""
    for reached, actions in GRANTED[function].items():
        for action in actions:
            if not action.startswith(BY_LAMBDA):
                yield function, reached, action
    for reached, partitions in CONFINED[function].items():
        for partition in partitions:
            yield function, reached, partition


def needs(asked: Asked, permission: Permission) -> bool:
    """Whether a question is about what a permission allows."""
    _, reached, allowed = permission
    partitions = asked.context.get("dynamodb:LeadingKeys", ())
    return fnmatchcase(noun(asked.resource), reached) and (
        asked.action == allowed or any(fnmatchcase(each, allowed) for each in partitions)
    )


def unused(calls: Calls) -> set[Permission]:
    """The permissions of the table that no call needs."""
    return {
        permission
        for function in GRANTED.keys() - NO_FUNCTION
        for permission in permissions(function)
        if not any(needs(asked, permission) for asked in calls[function])
    }


def test_every_permission_is_used(calls: Calls) -> None:
    found = unused(calls)
    assert found - UNSEEN.keys() == set(), "granted, and no call needs it"
    assert UNSEEN.keys() - found == set(), "a reason for what is seen, or not granted"


def denied(calls: Calls, app: Synthesis) -> list[tuple[str, Asked]]:
    """The calls that the role of their function does not allow."""
    return [
        (function, asked)
        for function, of_function in calls.items()
        for said in [statements(role_of(app[stack_of(function)], function))]
        for asked in of_function
        if not allows(said, asked)
    ]


def stack_of(function: str) -> str:
    return "Deadletter-Shared" if function in SHARED else "Deadletter-Orders"


def test_every_call_is_allowed(calls: Calls, app: Synthesis) -> None:
    assert calls.keys() == GRANTED.keys() - NO_FUNCTION
    assert denied(calls, app) == []


@pytest.mark.parametrize("function", sorted(GRANTED.keys() - NO_FUNCTION))
def test_every_call_is_in_the_table_of_its_function(calls: Calls, function: str) -> None:
    """Two functions with one role: none does what only the table of the other one says."""
    assert [asked for asked in calls[function] if not is_in_table(function, asked)] == []


def is_in_table(function: str, asked: Asked) -> bool:
    what = noun(asked.resource)
    confined = CONFINED[function].get(what, ["*"])
    return any(
        asked.action in actions and fnmatchcase(what, reached)
        for reached, actions in GRANTED[function].items()
    ) and all(
        any(fnmatchcase(key, each) for each in confined)
        for key in asked.context.get("dynamodb:LeadingKeys", ())
    )
