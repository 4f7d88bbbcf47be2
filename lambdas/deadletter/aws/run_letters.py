"""The letters of replay runs in DynamoDB: those that they put into the waiting room, made of
originals or back, and what became of each.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import Conflict, ours
from deadletter.aws.replay_tickets import facts_of, ticket_key
from deadletter.aws.rows import decoded, whole
from deadletter.aws.table import PARTITION, SORT, Change, Key, absent, begins, equals
from deadletter.contract import DAY, REPORT_DAYS, ROWS_KEPT, Partition, run_lane
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay.manifest import DIGITS, PartStatus, StatusUnavailable, merged
from deadletter.replay.run import bad_run_row
from deadletter.replay.ticket import ReplayOutcome, Ticket

if TYPE_CHECKING:
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom

_IS_NEW = absent(PARTITION)

_KEPT = 2 * REPORT_DAYS * DAY
"""Seconds that a letter is on record as restored: longer than any copy is kept."""


@dataclass(eq=False, repr=False)
class DynamoDBPlacedLetters(PipelineRows):
    """The letters that are made for a run, and those that it threw away and that are back.

    one write:  letters that are made ─ the gate of their run, while it is open
    one write:  a letter that is back ─ the row that it is ─ the ticket of the restoring run

    The freeze, and the end of the run, close its gate: a pass that was paused writes nothing. The
    gate is a row beside the run's tickets, not the run's own: a person's hold meets no transaction.
    A second restore finds the row, and changes nothing.
    """

    run: str
    clock: Callable[[], float]
    room: DynamoDBWaitingRoom

    @property
    def _gate(self) -> Key:
        return (Partition.RUN.of(self.pipeline, self.run, "made"), "gate")

    def place(self, received: ReceivedLetter) -> tuple[str, str]:
        return self.room.key(received)

    def held(self, places: Sequence[tuple[str, str]]) -> Collection[tuple[str, str]]:
        return self.room.held(run_lane(self.run), places)

    def put(self, orders: Sequence[Order]) -> None:
        now = int(self.clock())
        noted = {"at": now, "ttl": int(now + ROWS_KEPT)}
        if not self.room.admit_with(orders, [Change(self._gate, noted, absent("closed"))]):
            raise RoomUnavailable("the run takes no more messages, or another write was under way")

    def close(self) -> None:
        now = int(self.clock())
        with ours(RoomUnavailable):
            self._table.change(self._gate, {"closed": now, "ttl": int(now + ROWS_KEPT)})

    def back(self, copies: Sequence[str]) -> Collection[str]:
        with ours(RoomUnavailable):
            rows = self._table.get_many([self._restored(copy) for copy in copies])
        return {copy for copy in copies if self._restored(copy) in rows}

    def put_back(self, copy: str, order: Order, ticket: Ticket) -> None:
        now = self.clock()
        noted = {"by": ticket.run, "at": int(now), "ttl": int(now + _KEPT)}
        key = ticket_key(self.pipeline, ticket.run, ticket.origin, ticket.copy)
        facts = {**facts_of(ticket), "ttl": int(now + ROWS_KEPT)}
        changed = [Change(self._restored(copy), noted, _IS_NEW), Change(key, facts, _IS_NEW)]
        if not self.room.admit_with([order], changed) and not self.back([copy]):
            raise RoomUnavailable("a discarded message could not be put back: it is tried again")

    def _restored(self, copy: str) -> Key:
        return (Partition.RUN.of(self.pipeline, self.run, "restored"), copy)


_MOST_CONFLICTS = 5
"""Tries to write a row that another process writes at the same time."""

_DIGITS = frozenset(DIGITS)
_OF_LETTERS = ("outcomes", "returns", "late")
"""The attributes of a row with a character for each letter."""

_OUTCOMES = frozenset(ReplayOutcome)


@dataclass(eq=False, repr=False)
class DynamoDBStatuses(PipelineRows):
    """The rows of one run. The sort key is `<shard>#<part in six digits>`."""

    run: str
    clock: Callable[[], float]

    @property
    def _partition(self) -> str:
        return Partition.RUN.of(self.pipeline, self.run, "status")

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        with ours(StatusUnavailable):
            items = self._table.query(self._partition, begins(SORT, f"{shard}#"))
        return dict(map(self._part, items))

    def _part(self, item: Mapping[str, Any]) -> tuple[int, PartStatus]:
        """The number of a row's part, and its status. Raises BadRunRow."""
        return whole(decoded(_part_in, item, self._table.name), bad_run_row)

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        for part, status in parts.items():
            with ours(StatusUnavailable):
                self._write((self._partition, f"{shard}#{part:06d}"), status)

    def _write(self, key: Key, status: PartStatus) -> None:
        #  row v4 ──a reads 4, writes 5──► 5
        #           └─ b has read 4 too: its write is refused, it reads 5 and merges again
        for _ in range(_MOST_CONFLICTS):
            row = self._table.get_many([key]).get(key, {})
            stored = self._part(row)[1] if row else PartStatus()
            version, after = int(row.get("v", 0)), merged(stored, status)
            if row and after == stored:
                return
            try:
                self._table.put(
                    {
                        PARTITION: key[0],
                        SORT: key[1],
                        **{name: getattr(after, name) for name in _OF_LETTERS},
                        "v": version + 1,
                        "ttl": int(self.clock() + ROWS_KEPT),
                    },
                    equals("v", version) if version else absent("v"),
                )
            except Conflict:
                continue
            return
        raise StatusUnavailable("a status row of the run changes too often at once")


def _part_in(item: Mapping[str, Any]) -> tuple[int, PartStatus]:
    outcomes, returns = item["outcomes"], item["returns"]
    status = PartStatus(outcomes, returns, item.get("late", ""))
    is_known = _OUTCOMES.issuperset(outcomes) and _DIGITS.issuperset(f"{returns}{status.late}")
    if not is_known or int(item["v"]) < 1:
        raise ValueError("no outcomes of messages")
    return int(item[SORT].rpartition("#")[2]), status
