"""Letters that a replay run puts into the waiting room in DynamoDB: made of originals, or back."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import ours
from deadletter.aws.replay_tickets import facts_of, ticket_key
from deadletter.aws.table import PARTITION, Change, Key, absent
from deadletter.contract import DAY, REPORT_DAYS, ROWS_KEPT, Partition, run_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay.ticket import Ticket

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.aws.waiting_room import DynamoDBWaitingRoom

_IS_NEW = absent(PARTITION)

_KEPT = 2 * REPORT_DAYS * DAY
"""Seconds that a letter is on record as restored: longer than any copy is kept."""


class DynamoDBPlacedLetters:
    """The letters that are made for a run, and those that it threw away and that are back.

    one write:  letters that are made ─ the gate of their run, while it is open
    one write:  a letter that is back ─ the row that it is ─ the ticket of the restoring run

    The freeze, and the end of the run, close its gate: a pass that was paused writes nothing. The
    gate is a row beside the run's tickets, not the run's own: a person's hold meets no transaction.
    A second restore finds the row, and changes nothing.
    """

    def __init__(
        self,
        room: DynamoDBWaitingRoom,
        client: DynamoDBClient,
        table: str,
        *,
        pipeline: str,
        run: str,
        clock: Callable[[], float],
    ) -> None:
        self._room = room
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._run = run
        self._gate: Key = (Partition.RUN.of(pipeline, run, "made"), "gate")
        self._clock = clock

    def place(self, received: ReceivedLetter) -> tuple[str, str]:
        return self._room.key(received)

    def held(self, places: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        return self._room.held(run_lane(self._run), places)

    def put(self, orders: Sequence[Order]) -> None:
        now = int(self._clock())
        noted = {"at": now, "ttl": int(now + ROWS_KEPT)}
        if not self._room.admit_with(orders, [Change(self._gate, noted, absent("closed"))]):
            raise RoomUnavailable("the run takes no more messages, or another write was under way")

    def close(self) -> None:
        now = int(self._clock())
        with ours(RoomUnavailable):
            self._table.change(self._gate, {"closed": now, "ttl": int(now + ROWS_KEPT)})

    def back(self, copies: Sequence[str]) -> Collection[str]:
        with ours(RoomUnavailable):
            rows = self._table.get_many([self._restored(copy) for copy in copies])
        return {copy for copy in copies if self._restored(copy) in rows}

    def put_back(self, copy: str, order: Order, ticket: Ticket) -> None:
        now = self._clock()
        noted = {"by": ticket.run, "at": int(now), "ttl": int(now + _KEPT)}
        key = ticket_key(self._pipeline, ticket.run, ticket.origin, ticket.copy)
        facts = {**facts_of(ticket), "ttl": int(now + ROWS_KEPT)}
        changed = [
            Change(self._restored(copy), noted, _IS_NEW),
            Change(key, facts, _IS_NEW),
        ]
        if not self._room.admit_with([order], changed) and not self.back([copy]):
            raise RoomUnavailable("a discarded message could not be put back: it is tried again")

    def _restored(self, copy: str) -> Key:
        return (Partition.RUN.of(self._pipeline, self._run, "restored"), copy)
