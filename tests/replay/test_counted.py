"""The list of letters that a person has counted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.aws import replay_runs
from deadletter.aws.replay_runs import DynamoDBReplayPlans, packed, read_counted
from deadletter.replay.names import CountedOrigins
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import BadRunRow, RunsUnavailable
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.tables import LETTERS, create_messages_table

_origins = st.lists(st.uuids().map(str) | st.text(max_size=5), max_size=40)


@given(_origins, _origins)
def test_what_was_counted_is_in_the_list_and_nothing_else(
    some: list[str], others: list[str]
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(replay_runs, "MOST_COUNTED", 7)
        listed = CountedOrigins(list(packed(some)))
    assert len(listed) == len(set(some))
    assert all(origin in listed for origin in some)
    assert not any(origin in listed for origin in set(others) - set(some))


def test_nothing_counted_is_nothing_allowed() -> None:
    assert "a" not in CountedOrigins([])
    assert "a" not in CountedOrigins([b""])


def test_a_row_that_is_cut_off_is_refused() -> None:
    with pytest.raises(ValueError, match="cut off"):
        CountedOrigins([b"x" * 17])


def stored(origins: list[str] | None, counted: int | None = None) -> tuple[Any, ReplayPlan]:
    clock = Clock()
    if counted is None and origins is not None:
        counted = len(origins)
    dynamodb: Any = MemoryDynamoDB(clock)
    create_messages_table(dynamodb)
    plan = ReplayPlan(pipeline="orders", counted=counted)
    DynamoDBReplayPlans(dynamodb, LETTERS, "orders", clock).store(plan, origins)
    return dynamodb, plan


def test_the_list_is_read_as_the_command_line_stores_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_runs, "MOST_COUNTED", 7)
    origins = [f"m{number}" for number in range(100)]
    dynamodb, plan = stored(origins)
    counted = read_counted(dynamodb, LETTERS, "orders", plan)
    assert all(origin in counted for origin in origins)
    assert "m100" not in counted


def test_a_list_of_which_a_row_is_missing_is_no_list() -> None:
    """Read as it is, it would leave letters out of the run that the person has seen."""
    dynamodb, plan = stored(["a", "b"], counted=3)
    with pytest.raises(RunsUnavailable, match="2 of 3 counted messages"):
        read_counted(dynamodb, LETTERS, "orders", plan)
    key = {"pk": {"S": f"orders#run#{plan.run_id}#plan"}, "sk": {"S": "counted#000001"}}
    dynamodb.put_item(TableName=LETTERS, Item={**key, "keys": {"B": b"cut off"}})
    with pytest.raises(BadRunRow, match=f"{plan.run_id}#plan counted#"):
        read_counted(dynamodb, LETTERS, "orders", plan)
