"""Letters that a replay run makes of originals go into its lane in DynamoDB, until it is closed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import TYPE_CHECKING

from deadletter.aws.errors import AWS_ERRORS, refusal
from deadletter.aws.table import DynamoDBTable, Key
from deadletter.contract import ROWS_KEPT, Partition, run_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomUnavailable

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient

    from deadletter.aws.returning_letters import Change
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom


class DynamoDBMadeLetters:
    """The letters that are made for one run.

    one write:  the letters' items ─ the gate, while it is open
    the freeze, and the end of the run, close the gate ──► a pass that was paused writes nothing

    The gate is a row beside the run's tickets, not the run's own: a person's hold meets no
    transaction.
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
        is_open: Change = (self._gate, noted, "attribute_not_exists(closed)", {})
        if not self._room.admit_with(orders, [is_open]):
            raise RoomUnavailable("the run takes no more letters, or another write was under way")

    def close(self) -> None:
        now = int(self._clock())
        try:
            self._table.change(self._gate, {"closed": now, "ttl": int(now + ROWS_KEPT)})
        except AWS_ERRORS as error:
            raise RoomUnavailable(refusal(error, "dynamodb", self._table.name)) from error
