"""Discarded letters go back into the waiting room in DynamoDB, each once."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, StillUnprocessed, refusal
from deadletter.aws.replay_tickets import facts_of, ticket_key
from deadletter.aws.table import PARTITION, DynamoDBTable, Key
from deadletter.contract import DAY, REPORT_DAYS, ROWS_KEPT, Partition
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay.ticket import Ticket

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.aws.returning_letters import Change
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom

_IS_NEW = f"attribute_not_exists({PARTITION})"

_KEPT = 2 * REPORT_DAYS * DAY
"""Seconds that a letter is on record as restored: longer than any copy is kept."""


class DynamoDBRestoredLetters:
    """The letters that were thrown away by the run `of` and are back.

    one write:  the letter's item ─ the row that it is back ─ the ticket of the restoring run
                └ a second restore finds the row, and changes nothing
    """

    def __init__(
        self,
        room: DynamoDBWaitingRoom,
        client: DynamoDBClient,
        table: str,
        *,
        pipeline: str,
        of: str,
        clock: Callable[[], float],
    ) -> None:
        self._room = room
        self._table = DynamoDBTable(client, table)
        self._pipeline = pipeline
        self._of = of
        self._clock = clock

    def back(self, copies: Sequence[str]) -> Collection[str]:
        try:
            rows = self._table.get_many([self._key(copy) for copy in copies])
        except (*AWS_ERRORS, StillUnprocessed) as error:
            raise RoomUnavailable(refusal(error, "dynamodb", self._table.name)) from error
        return {copy for copy in copies if self._key(copy) in rows}

    def put_back(self, copy: str, order: Order, ticket: Ticket) -> None:
        now = self._clock()
        key = ticket_key(self._pipeline, ticket.run, ticket.origin, ticket.copy)
        changed: list[Change] = [
            (
                self._key(copy),
                {"by": ticket.run, "at": int(now), "ttl": int(now + _KEPT)},
                _IS_NEW,
                {},
            ),
            (key, {**facts_of(ticket), "ttl": int(now + ROWS_KEPT)}, _IS_NEW, {}),
        ]
        if not self._room.admit_with([order], changed) and not self.back([copy]):
            raise RoomUnavailable("a discarded letter could not be put back: it is tried again")

    def _key(self, copy: str) -> Key:
        return (Partition.RUN.of(self._pipeline, self._of, "restored"), copy)
