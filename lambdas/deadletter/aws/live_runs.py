"""What the router asks about replay runs, in DynamoDB."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, StillUnprocessed, refusal
from deadletter.aws.replay_tickets import ticket_from_item, ticket_key
from deadletter.aws.table import DynamoDBTable, Key
from deadletter.contract import Partition
from deadletter.message.stamp import Stamp
from deadletter.replay.run import LIVE
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable
from deadletter.routing.router import RouterUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

_LET_GO = frozenset({ReplayOutcome.STOPPED, ReplayOutcome.LEFT})


class DynamoDBLiveRuns:
    """The replay runs of one pipeline, read consistently."""

    def __init__(self, client: DynamoDBClient, table: str, pipeline: str) -> None:
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline

    def returnable(self, stamps: Mapping[str, Stamp]) -> frozenset[str]:
        runs = {copy: self._run_key(stamp) for copy, stamp in stamps.items()}
        tickets = {
            copy: self._ticket_key(stamp, stamp.ticket)
            for copy, stamp in stamps.items()
            if stamp.ticket is not None
        }
        items = self._read([*runs.values(), *tickets.values()])
        return frozenset(
            copy
            for copy, key in tickets.items()
            if _is_live(items.get(runs[copy])) and _awaits(items.get(key), stamps[copy], copy)
        )

    def let_go(self, stamps: Mapping[str, Stamp]) -> frozenset[str]:
        keys = {copy: self._ticket_key(stamp, copy) for copy, stamp in stamps.items()}
        items = self._read(list(keys.values()))
        return frozenset(
            copy
            for copy, key in keys.items()
            if key in items and _ticket(items[key], stamps[copy]).fate in _LET_GO
        )

    def _run_key(self, stamp: Stamp) -> Key:
        return (Partition.RUNS.of(self._pipeline), stamp.run or "")

    def _ticket_key(self, stamp: Stamp, copy: str) -> Key:
        return ticket_key(self._pipeline, stamp.run or "", stamp.origin, copy)

    def _read(self, keys: list[Key]) -> Mapping[Key, Mapping[str, Any]]:
        try:
            return self._table.get_many(keys)
        except (*AWS_ERRORS, StillUnprocessed) as error:
            raise RouterUnavailable(refusal(error, "dynamodb", self._table.name)) from error


def _is_live(item: Mapping[str, Any] | None) -> bool:
    """Whether a run may still send; one that is unknown has ended."""
    return item is not None and item.get("state") in LIVE


def _awaits(item: Mapping[str, Any] | None, stamp: Stamp, copy: str) -> bool:
    """Whether a live run waits for the copy.

    Without its ticket it does: the worker was killed after its send, and the next one writes the
    ticket. Until then the letter stays where it is, because the room takes none without a ticket.
    """
    if item is None:
        return True
    ticket = _ticket(item, stamp)
    return ticket.fate is ReplayOutcome.SENT and ticket.returned in (None, copy)


def _ticket(item: Mapping[str, Any], stamp: Stamp) -> Ticket:
    try:
        return ticket_from_item(item, stamp.run or "")
    except TicketsUnavailable as error:
        raise RouterUnavailable(str(error)) from error
