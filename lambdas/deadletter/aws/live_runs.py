"""What the router asks about replay runs, in DynamoDB."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import NoteRow, ignore, ours, row_name
from deadletter.aws.replay_tickets import ticket_from_item, ticket_key
from deadletter.aws.table import Key
from deadletter.contract import Partition
from deadletter.message.stamp import Stamp
from deadletter.replay.run import LIVE, RunState
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable
from deadletter.routing.router import RouterUnavailable
from deadletter.routing.selection import CopiesOfRuns

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient


class _Unreadable(Exception):
    """The row with this key cannot be read."""


_LET_GO = frozenset({ReplayOutcome.STOPPED, ReplayOutcome.LEFT})


class DynamoDBLiveRuns:
    """The replay runs of one pipeline, read consistently."""

    def __init__(
        self,
        client: DynamoDBClient,
        table: str,
        pipeline: str,
        note_bad_row: NoteRow = ignore,
    ) -> None:
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._note_bad_row = note_bad_row

    def returnable(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        runs = {copy: self._run_key(stamp) for copy, stamp in stamps.items()}
        tickets = {
            copy: self._ticket_key(stamp, stamp.ticket)
            for copy, stamp in stamps.items()
            if stamp.ticket is not None
        }
        items = self._read([*runs.values(), *tickets.values()])
        return self._copies_of(
            tickets,
            lambda copy: (
                self._is_live(runs[copy], items)
                and _awaits(self._ticket(tickets[copy], items, stamps[copy]), copy)
            ),
        )

    def let_go(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        keys = {copy: self._ticket_key(stamp, copy) for copy, stamp in stamps.items()}
        items = self._read(list(keys.values()))

        def is_let_go(copy: str) -> bool:
            ticket = self._ticket(keys[copy], items, stamps[copy])
            return ticket is not None and ticket.fate in _LET_GO

        return self._copies_of(keys, is_let_go)

    def _copies_of(self, copies: Iterable[str], is_true: Callable[[str], bool]) -> CopiesOfRuns:
        true, unreadable = set(), set()
        for copy in copies:
            try:
                if is_true(copy):
                    true.add(copy)
            except _Unreadable as error:
                self._note_bad_row(row_name(self._table.name, *error.args))
                unreadable.add(copy)
        return CopiesOfRuns(frozenset(true), frozenset(unreadable))

    def _is_live(self, key: Key, items: Mapping[Key, Mapping[str, Any]]) -> bool:
        """Whether a run may still send; one that is unknown has ended."""
        if key not in items:
            return False
        state = items[key].get("state")
        if state not in tuple(RunState):
            raise _Unreadable(*key)
        return state in LIVE

    def _ticket(
        self, key: Key, items: Mapping[Key, Mapping[str, Any]], stamp: Stamp
    ) -> Ticket | None:
        if key not in items:
            return None
        try:
            return ticket_from_item(items[key], stamp.run or "")
        except TicketsUnavailable as error:
            raise _Unreadable(*key) from error

    def _run_key(self, stamp: Stamp) -> Key:
        return (Partition.RUNS.of(self._pipeline), stamp.run or "")

    def _ticket_key(self, stamp: Stamp, copy: str) -> Key:
        return ticket_key(self._pipeline, stamp.run or "", stamp.origin, copy)

    def _read(self, keys: list[Key]) -> Mapping[Key, Mapping[str, Any]]:
        with ours(RouterUnavailable):
            return self._table.get_many(keys)


def _awaits(ticket: Ticket | None, copy: str) -> bool:
    """Whether a live run waits for the copy.

    Without its ticket it does: the worker was killed after its send, and the next one writes the
    ticket. Until then the letter stays where it is, because the room takes none without a ticket.
    """
    if ticket is None:
        return True
    return ticket.fate is ReplayOutcome.SENT and ticket.returned in (None, copy)
