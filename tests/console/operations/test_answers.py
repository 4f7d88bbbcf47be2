"""Operations return the values that the command line prints."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest

from console.cli.output import plain
from console.operations import aws, circuits, rules, status
from console.operations.list import ListRequest, read
from console.operations.session import Answer, Session

OPERATIONS: dict[str, Callable[[Session], Answer]] = {
    "status": lambda session: status.read(session, ()),
    "list --look": lambda session: read(session, ListRequest(look=True)),
    "circuit list": lambda session: circuits.list_circuits(session, ()),
    "rules list": lambda session: rules.list_rules(session, rules.RulesRequest()),
}


def without_times_and_receives(value: Any) -> Any:
    """The answer without what differs between two calls."""
    match value:
        case dict():
            return {
                key: without_times_and_receives(member)
                for key, member in value.items()
                if key not in ("at", "received", "monitor_ran_at")
            }
        case [*_]:
            return [without_times_and_receives(member) for member in value]
        case _:
            return value


@pytest.mark.parametrize("command", OPERATIONS)
def test_an_operation_returns_what_the_command_prints(
    cloud: Any, dlq: Any, functions: Any, command: str
) -> None:
    cloud.deploy("orders", context=["tenantId"])
    cloud.park("orders", "POISON")
    cloud.waiting("orders", "due", 1)
    cloud.letter('{"tenantId": "a"}')
    cloud.rule("r", action="HOLD", tenantId="a")
    functions.configure("orders", context={"tenantId": "body.tenantId"})
    functions.report = {"stopped": "the source is empty", "moved": 1}
    session = Session(partial(aws.connect, None, None), "deadletter")
    answer = OPERATIONS[command](session)
    assert type(answer).__dataclass_params__.frozen  # type: ignore[attr-defined]  # of dataclasses
    assert dataclasses.is_dataclass(answer)
    printed = json.loads(dlq(*command.split(), "--json").stdout)
    del printed["schema"]
    assert without_times_and_receives(plain(answer)) == without_times_and_receives(printed)
