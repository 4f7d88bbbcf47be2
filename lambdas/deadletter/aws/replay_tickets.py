"""The tickets of replay runs in DynamoDB: one row per send, in sixteen partitions of its run.

A run writes and reads its own; the router asks them which letters live runs wait for.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import DynamoDBTable, PipelineRows, plain
from deadletter.aws.errors import Conflict, NoteRow, ignore, ours, row_name
from deadletter.aws.rows import Broken, decoded, whole
from deadletter.aws.table import (
    SORT,
    Change,
    Key,
    absent,
    begins,
    equals,
    kept,
    one_of,
    stored_number,
)
from deadletter.contract import ROWS_KEPT, Partition
from deadletter.message.stamp import Stamp
from deadletter.redrive.concurrency import InParallel
from deadletter.replay.run import LIVE, RunState
from deadletter.replay.ticket import (
    TICKET_PARTITIONS,
    BadTicket,
    ReplayOutcome,
    Ticket,
    TicketsUnavailable,
    ticket_partition,
)
from deadletter.routing.decision import SHARDS
from deadletter.routing.router import RouterUnavailable
from deadletter.routing.selection import CopiesOfRuns

if TYPE_CHECKING:
    from deadletter.redrive.order import Order


def ticket_key(pipeline: str, run: str, origin: str, copy: str) -> Key:
    """The key of a ticket's row."""
    partition = Partition.RUN.of(pipeline, run, str(ticket_partition(origin)))
    return (partition, f"{origin}#{copy}")


@dataclass(eq=False, repr=False)
class DynamoDBTickets(PipelineRows):
    """The tickets of one run. `in_parallel` writes several at the same time."""

    run: str
    clock: Callable[[], float]
    in_parallel: InParallel

    def put(self, tickets: Sequence[Ticket]) -> None:
        self.in_parallel([partial(self._put, ticket) for ticket in tickets])

    def read(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Ticket]:
        with ours(TicketsUnavailable):
            items = self._table.get_many([self._key(*key) for key in keys])
        tickets = map(self._ticket, items.values())
        return {(ticket.origin, ticket.copy): ticket for ticket in tickets}

    @ours(TicketsUnavailable)
    def settle(self, ticket: Ticket, fate: ReplayOutcome) -> Ticket:
        """Give up waiting for a ticket's outcome, unless its letter has come back meanwhile.

        Returns the ticket as it is stored then: with `fate`, or with `returned`.
        """
        try:
            self._table.change(
                self._key(ticket.origin, ticket.copy),
                {"fate": str(fate), "ttl": self._expires()},
                when=one_of("fate", [str(ReplayOutcome.SENT), str(fate)]) & absent("returned"),
            )
        except Conflict as conflict:
            if not conflict.item:
                raise TicketsUnavailable("the ticket is gone") from conflict
            return self._ticket(conflict.item)
        return replace(ticket, fate=fate)

    def all(self) -> Iterator[Ticket]:
        """All tickets of the run, partition by partition."""
        for number in range(TICKET_PARTITIONS):
            partition = Partition.RUN.of(self.pipeline, self.run, str(number))
            with ours(TicketsUnavailable):
                for item in self._table.stored_items(partition):
                    yield self._ticket(plain(item))

    def of(self, origin: str) -> tuple[Ticket, ...]:
        """The tickets of one letter, the earliest first."""
        partition, prefix = self._key(origin, "")
        with ours(TicketsUnavailable):
            items = self._table.query(partition, begins(SORT, prefix))
        return tuple(sorted(map(self._ticket, items), key=lambda ticket: ticket.at))

    def _ticket(self, item: Mapping[str, Any]) -> Ticket:
        return whole(ticket_from_item(item, self.run, self._table.name), _bad_ticket)

    def _put(self, ticket: Ticket) -> None:
        # No put: the redriver may have set `returned` on the same ticket already. The first
        # writer's facts stay: a worker that was paused for long must not change them.
        key, facts = self._key(ticket.origin, ticket.copy), kept(facts_of(ticket))
        with ours(TicketsUnavailable):
            self._table.change(key, {"ttl": self._expires(), **facts})

    def _expires(self) -> int:
        return int(self.clock() + ROWS_KEPT)

    def _key(self, origin: str, copy: str) -> Key:
        return ticket_key(self.pipeline, self.run, origin, copy)


def ticket_from_item(item: Mapping[str, Any], run: str, table: str) -> Ticket | Broken:
    """The ticket in an item given as plain data."""
    return decoded(partial(_ticket, run=run), item, table)


def _ticket(item: Mapping[str, Any], run: str) -> Ticket:
    origin, _, copy = str(item[SORT]).rpartition("#")
    returned, place = item.get("returned"), item.get("returned_place")
    known = (returned, *_place(place)) if "returned" in item else ()
    if not all(isinstance(part, str) for part in known):
        raise ValueError("a copy in the waiting room has an id and a place")
    return Ticket(
        run=run,
        origin=origin,
        copy=copy,
        shard=int(item["shard"]),
        position=int(item["position"]),
        attempt=int(item["attempt"]),
        at=float(item["at"]),
        fate=ReplayOutcome(item["fate"]),
        generation=int(item.get("generation", 0)),
        returned=None if returned is None else str(returned),
        returned_place=None if place is None else str(place),
    )


def _bad_ticket(row: str) -> BadTicket:
    return BadTicket(f"a row cannot be read: {row}")


def _place(text: Any) -> tuple[Any, Any]:
    """The key of the waiting letter that a ticket names."""
    partition, sort = json.loads(text)[:2]
    return partition, sort


def facts_of(ticket: Ticket) -> dict[str, Any]:
    """The attributes of a ticket's row, beside its key and its expiry."""
    return {
        "shard": ticket.shard,
        "position": ticket.position,
        "attempt": ticket.attempt,
        "at": stored_number(ticket.at),
        "fate": str(ticket.fate),
        "generation": ticket.generation,
    }


_LET_GO = frozenset({ReplayOutcome.STOPPED, ReplayOutcome.LEFT})


@dataclass(eq=False, repr=False)
class DynamoDBLiveRuns(PipelineRows):
    """The replay runs of one pipeline, read consistently."""

    note_bad_row: NoteRow = ignore

    def returnable(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        runs = {copy: self._run_key(stamp) for copy, stamp in stamps.items()}
        tickets = {
            copy: self._ticket_key(stamp, stamp.ticket)
            for copy, stamp in stamps.items()
            if stamp.ticket is not None
        }
        items = self._read([*runs.values(), *tickets.values()])

        def is_returnable(copy: str) -> bool | Broken:
            live = self._is_live(runs[copy], items)
            if live is not True:
                return live
            ticket = self._ticket(tickets[copy], items, stamps[copy])
            return ticket if isinstance(ticket, Broken) else _awaits(ticket, copy)

        return self._copies_of(tickets, is_returnable)

    def let_go(self, stamps: Mapping[str, Stamp]) -> CopiesOfRuns:
        keys = {copy: self._ticket_key(stamp, copy) for copy, stamp in stamps.items()}
        items = self._read(list(keys.values()))

        def is_let_go(copy: str) -> bool | Broken:
            ticket = self._ticket(keys[copy], items, stamps[copy])
            return ticket.fate in _LET_GO if isinstance(ticket, Ticket) else ticket or False

        return self._copies_of(keys, is_let_go)

    def _copies_of(
        self, copies: Iterable[str], is_true: Callable[[str], bool | Broken]
    ) -> CopiesOfRuns:
        found = {copy: is_true(copy) for copy in copies}
        broken = {copy: row.name for copy, row in found.items() if isinstance(row, Broken)}
        for name in broken.values():
            self.note_bad_row(name)
        true = frozenset(copy for copy, answer in found.items() if answer is True)
        return CopiesOfRuns(true, frozenset(broken))

    def _is_live(self, key: Key, items: Mapping[Key, Mapping[str, Any]]) -> bool | Broken:
        """Whether a run may still send; one that is unknown has ended."""
        if key not in items:
            return False
        state = items[key].get("state")
        if state not in tuple(RunState):
            return Broken(row_name(self._table.name, *key))
        return state in LIVE

    def _ticket(
        self, key: Key, items: Mapping[Key, Mapping[str, Any]], stamp: Stamp
    ) -> Ticket | Broken | None:
        if key not in items:
            return None
        return ticket_from_item(items[key], stamp.run or "", self._table.name)

    def _run_key(self, stamp: Stamp) -> Key:
        return (Partition.RUNS.of(self.pipeline), stamp.run or "")

    def _ticket_key(self, stamp: Stamp, copy: str) -> Key:
        return ticket_key(self.pipeline, stamp.run or "", stamp.origin, copy)

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


class ReturningLetters:
    """The tickets that some letters come back to, read consistently.

    Raises NotSent and Unknown, as its table does.
    """

    def __init__(self, table: DynamoDBTable, pipeline: str, orders: Sequence[Order]) -> None:
        self._table = table
        self._pipeline = pipeline
        self._tickets: dict[Key, Mapping[str, Any]] = dict(
            table.get_many([self._key(order) for order in orders]) if orders else {}
        )

    def is_back(self, order: Order) -> bool:
        """Whether the ticket notes this copy: then the letter went in before."""
        return self._ticket(order).get("returned") == order.copy

    def is_awaited(self, order: Order) -> bool:
        """Whether the run waits for the outcome of the life that has ended."""
        ticket = self._ticket(order)
        is_sent = ticket.get("fate") == ReplayOutcome.SENT and "returned" not in ticket
        return is_sent and ticket.get("shard") in range(SHARDS)

    def in_its_shard(self, order: Order) -> Order:
        """The order, into the shard of the manifest that the letter came from."""
        shard = int(self._ticket(order)["shard"])
        return replace(order, decision=replace(order.hold, shard=shard))

    def noted(self, order: Order, place: Key) -> Change:
        """The change of the ticket that notes the letter's copy and its place."""
        facts = {"returned": order.copy, "returned_place": json.dumps(place)}
        is_out = equals("fate", str(ReplayOutcome.SENT)) & absent("returned")
        return Change(self._key(order), facts, is_out)

    def note(self, order: Order) -> None:
        """Keep in mind that the ticket is noted: two copies of one life cannot both come back."""
        self._tickets[self._key(order)] = {**self._ticket(order), "returned": order.copy}

    def read_again(self, order: Order) -> None:
        """Read the ticket once more: the answer to our own write may have been lost."""
        key = self._key(order)
        self._tickets[key] = self._table.get_many([key]).get(key, {})

    def _ticket(self, order: Order) -> Mapping[str, Any]:
        return self._tickets.get(self._key(order), {})

    def _key(self, order: Order) -> Key:
        stamp = order.stamp
        return ticket_key(self._pipeline, str(stamp.run), stamp.origin, str(stamp.ticket))
