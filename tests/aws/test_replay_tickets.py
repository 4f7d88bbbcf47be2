"""The tickets of a replay run keep their promises on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.replay_tickets import DynamoDBTickets, ticket_key
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable
from tests.aws.backends import Aws
from tests.tables import LETTERS, create_messages_table

NOW = 1_800_000_000.0
TICKET = Ticket(run="run1", origin="o1", copy="c1", shard=3, position=501, attempt=2, at=NOW)
KEY = ("o1", "c1")


def one_by_one(calls: Sequence[Callable[[], Any]]) -> list[Any]:
    return [call() for call in calls]


@pytest.fixture
def table(aws: Aws) -> DynamoDBTable:
    create_messages_table(aws.dynamodb)
    return DynamoDBTable(aws.dynamodb, LETTERS)


@pytest.fixture
def tickets(aws: Aws, table: DynamoDBTable) -> DynamoDBTickets:
    return DynamoDBTickets(
        aws.dynamodb,
        table.name,
        pipeline="orders",
        run="run1",
        clock=lambda: NOW,
        in_parallel=one_by_one,
    )


def come_back(table: DynamoDBTable, ticket: Ticket) -> None:
    """What the redriver writes when the letter of a ticket dies again."""
    key = ticket_key("orders", "run1", ticket.origin, ticket.copy)
    table.change(key, {"returned": "c2", "returned_place": '["pk", "sk", null]'})


def test_a_ticket_reads_as_it_was_put(tickets: DynamoDBTickets) -> None:
    other = replace(TICKET, origin="o2", copy="c9", fate=ReplayOutcome.QUARANTINED)
    tickets.put([TICKET, other])
    assert tickets.read([KEY, ("o2", "c9"), ("o3", "c1")]) == {KEY: TICKET, ("o2", "c9"): other}
    assert sorted(ticket.copy for ticket in tickets.all()) == ["c1", "c9"]


def test_a_second_put_neither_takes_a_return_back_nor_changes_a_fact(
    tickets: DynamoDBTickets, table: DynamoDBTable
) -> None:
    tickets.put([TICKET])
    come_back(table, TICKET)
    tickets.put([replace(TICKET, attempt=9, at=NOW + 99, fate=ReplayOutcome.QUARANTINED)])
    back = tickets.read([KEY])[KEY]
    assert back == replace(TICKET, returned="c2", returned_place='["pk", "sk", null]')


def test_the_wait_for_an_outcome_is_given_up_once_and_for_good(tickets: DynamoDBTickets) -> None:
    tickets.put([TICKET])
    for _again in range(2):
        settled = tickets.settle(TICKET, ReplayOutcome.UNKNOWN)
        assert settled.fate is ReplayOutcome.UNKNOWN
    assert tickets.read([KEY])[KEY].fate is ReplayOutcome.UNKNOWN


def test_a_letter_that_came_back_is_not_given_up(
    tickets: DynamoDBTickets, table: DynamoDBTable
) -> None:
    tickets.put([TICKET])
    come_back(table, TICKET)
    settled = tickets.settle(TICKET, ReplayOutcome.UNKNOWN)
    assert (settled.fate, settled.returned) == (ReplayOutcome.SENT, "c2")


def test_an_outcome_of_a_ticket_that_is_missing_is_no_outcome(tickets: DynamoDBTickets) -> None:
    with pytest.raises(TicketsUnavailable):
        tickets.settle(TICKET, ReplayOutcome.UNKNOWN)
    assert tickets.read([KEY]) == {}


def test_a_malformed_ticket_is_no_ticket(tickets: DynamoDBTickets, table: DynamoDBTable) -> None:
    table.change(ticket_key("orders", "run1", *KEY), {"fate": "?"})
    with pytest.raises(TicketsUnavailable, match="orders#run#run1#"):
        tickets.read([KEY])
