"""The stores of one replay run in memory, without DynamoDB: each act is one step of the world."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

from deadletter.circuit.state import Circuit, CircuitsUnavailable, State
from deadletter.failure.ledger import LedgerRow, LedgerUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.envelope import Envelope, QueueTraits
from deadletter.message.letter import Letter
from deadletter.message.queue import Depth, QueueUnavailable, ReceivedLetter, SendResult
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import ClaimLost, Intent, JournalUnavailable
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomContents, RoomUnavailable, WaitingRoomEntry
from deadletter.replay.limiter import Bid, BidAnswer, granted
from deadletter.replay.manifest import PartStatus, StatusUnavailable, merged
from deadletter.replay.names import Name
from deadletter.replay.objects import ObjectsUnavailable
from deadletter.replay.run import SENDING, ReplayRun, RunRefused, RunsUnavailable
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable
from deadletter.routing.router import RouterUnavailable

TicketKey = tuple[str, str]


@dataclass(eq=False, slots=True)
class LaneItem:
    """A letter in the waiting room."""

    letter: Letter
    place: str
    lane: str
    shard: int
    stamp: Stamp
    home: str = "dlq"


class MemoryRuns:
    """The item of one run, and its limiter."""

    def __init__(self, run: ReplayRun) -> None:
        self.run = run
        self.on_change: Callable[[], None] = lambda: None
        self._token = ""
        self._at = 0.0

    def read(self, run: str) -> ReplayRun | None:
        return self.run if run == self.run.id else None

    def change(self, before: ReplayRun, after: ReplayRun) -> None:
        names = {
            field.name
            for field in fields(after)
            if getattr(before, field.name) != getattr(after, field.name)
        }
        if (before.step, before.step_began) != (after.step, after.step_began):
            names |= {"allowance", "rate", "burst"}
        changed = {name: getattr(after, name) for name in names}
        if self.run.generation == before.generation:
            self.run = replace(self.run, **changed)
            self.on_change()
        elif any(getattr(self.run, name) != value for name, value in changed.items()):
            raise RunRefused(f"run {before.id} was changed meanwhile: it is {self.run.state}")

    def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer | None:
        now, before = self.run, self._at
        allowed = (
            now.generation == bid.generation
            and now.state in SENDING
            and now.paid <= bid.latest
            and bid.token != self._token
            and (bid.is_idle or now.paid > bid.full)
            and (not bid.allowance or now.allowance >= bid.allowance)
        )
        if not allowed:
            return BidAnswer(self._token == bid.token, now, before)
        self.run, self._token, self._at = granted(now, bid), bid.token, bid.now
        self.on_change()
        return BidAnswer(True, self.run, before)


class MemoryTickets:
    """The tickets of one run."""

    def __init__(self, tickets: Mapping[TicketKey, Ticket] = {}) -> None:
        self.stored = dict(tickets)

    def put(self, tickets: Sequence[Ticket]) -> None:
        for ticket in tickets:
            self.stored.setdefault((ticket.origin, ticket.copy), ticket)

    def read(self, keys: Sequence[TicketKey]) -> Mapping[TicketKey, Ticket]:
        return {key: self.stored[key] for key in keys if key in self.stored}

    def settle(self, ticket: Ticket, fate: ReplayOutcome) -> Ticket:
        key = (ticket.origin, ticket.copy)
        stored = self.stored[key]
        if stored.returned is None and stored.fate in (ReplayOutcome.SENT, fate):
            stored = self.stored[key] = replace(stored, fate=fate)
        return stored

    def all(self) -> Iterable[Ticket]:
        return list(self.stored.values())


class MemoryStatuses:
    """The status rows of one run."""

    def __init__(self, rows: Mapping[int, Mapping[int, PartStatus]] = {}) -> None:
        self.rows = {shard: dict(parts) for shard, parts in rows.items()}

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        return dict(self.rows.get(shard, {}))

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        rows = self.rows.setdefault(shard, {})
        for number, status in parts.items():
            rows[number] = merged(rows.get(number, PartStatus()), status)


class MemoryLedger:
    """The rows that the consumer writes; as Records it takes what the mover writes."""

    def __init__(self) -> None:
        self.stored: dict[str, LedgerRow] = {}

    def rows(self, origins: Sequence[str]) -> Mapping[str, LedgerRow]:
        return {origin: self.stored[origin] for origin in origins if origin in self.stored}

    def store_stamps(self, stamps: Mapping[str, Stamp]) -> None:
        raise AssertionError("each letter here has room for its stamp")

    def count_matches(self, matches: Mapping[str, int]) -> None:
        return

    def claim_matches(self, key: str, letters: int, limit: int) -> bool:
        return True

    def note_discarded(self, origin: str, at: float) -> None:
        return

    def leave_index(self, origin: str) -> None:
        return

    def note_parked(self, origin: str, at: float, reason: str, rule: str) -> None:
        return


class MemoryJournal:
    """The intents of the pipeline, by their slot."""

    def __init__(self) -> None:
        self.slots: dict[str, Intent] = {}

    def read(self) -> Sequence[Intent]:
        return list(self.slots.values())

    def write(self, intent: Intent, replacing: Intent | None) -> None:
        # A number of seconds is whole in the item.
        intent = replace(intent, expires=float(int(intent.expires)))
        present = self.slots.get(intent.slot)
        if _identity(present) != _identity(replacing) and present != intent:
            raise ClaimLost(intent.slot)
        self.slots[intent.slot] = intent

    def mark(self, intent: Intent) -> None:
        present = self.slots.get(intent.slot)
        if present is None or _identity(present) != _identity(intent):
            raise ClaimLost(intent.slot)
        self.slots[intent.slot] = replace(present, sent=intent.sent, new_ids=intent.new_ids)

    def erase(self, intent: Intent) -> None:
        if _identity(self.slots.get(intent.slot)) == _identity(intent):
            del self.slots[intent.slot]


def _identity(intent: Intent | None) -> tuple[str, int] | None:
    return None if intent is None else (intent.owner, intent.sequence)


class MemoryRoom:
    """The letters that wait; only what a worker and leaving ask of the room."""

    def __init__(self, items: Mapping[str, LaneItem]) -> None:
        self.items = dict(items)
        self.on_delete: Callable[[str], None] = lambda copy: None
        self.on_move: Callable[[LaneItem, str], None] = lambda item, before: None

    def read(self, entries: Sequence[WaitingRoomEntry], locked_until: float) -> RoomContents:
        letters = []
        for entry in entries:
            item = self.items.get(entry.copy)
            if item is not None and item.lane == entry.lane:
                letters.append(
                    ReceivedLetter(
                        item.letter,
                        item.place,
                        locked_until,
                        item.home,
                        spared=item.stamp.spared,
                        stamp=item.stamp,
                    )
                )
        return RoomContents(letters, 0)

    def due(
        self,
        lane: str,
        shard: int,
        until: float,
        most: int,
        after: WaitingRoomEntry | None = None,
    ) -> Sequence[WaitingRoomEntry]:
        entries = sorted(
            (item.place, copy)
            for copy, item in self.items.items()
            if item.lane == lane and item.shard == shard
        )
        return [
            WaitingRoomEntry(copy, place, lane, shard, 0.0)
            for place, copy in entries
            if after is None or (place, copy) > (after.place, after.copy)
        ][:most]

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        for received, confirmation in letters:
            copy = received.letter.message_id
            assert confirmation.copy == copy
            if copy in self.items:
                self.on_delete(copy)
                del self.items[copy]
        return []

    def postpone(self, order: Order) -> None:
        item = self.items.get(order.copy)
        if item is None:
            raise RoomUnavailable("the item is gone")
        before, hold = item.lane, order.hold
        item.lane, item.stamp, item.home = hold.lane, order.stamp, order.received.home
        item.shard = item.shard if hold.shard is None else hold.shard
        self.on_move(item, before)


class MemoryManifest:
    """The parts of a manifest."""

    def __init__(self, shards: Mapping[int, Sequence[Name]], size: int) -> None:
        self._shards = shards
        self._size = size

    def part(self, shard: int, part: int) -> Sequence[Name]:
        return self._shards[shard][part * self._size : (part + 1) * self._size]


class MemoryObjects:
    """The objects of one run."""

    def __init__(self) -> None:
        self.stored: dict[str, bytes] = {}

    def put(self, name: str, data: bytes) -> None:
        self.stored[name] = data

    def delete(self, names: Sequence[str]) -> None:
        for name in names:
            self.stored.pop(name, None)


class MemoryCircuits:
    """The pipeline's circuit: OPEN or CLOSED."""

    def __init__(self) -> None:
        self.is_open = False

    def read(self, keys: Sequence[str]) -> Mapping[str, Circuit]:
        state = State.OPEN if self.is_open else State.CLOSED
        return {key: Circuit(key, state) for key in keys}


class MemoryQueue:
    """A queue that takes what is sent; `on_accept` hears of each envelope."""

    def __init__(self, on_accept: Callable[[Envelope], None]) -> None:
        self._on_accept = on_accept
        self._traits = QueueTraits()
        self.waiting = 0

    @property
    def traits(self) -> QueueTraits:
        return self._traits

    def send(self, batch: Sequence[Envelope]) -> SendResult:
        for envelope in batch:
            self._on_accept(envelope)
        return SendResult({each.copy: Confirmation(each.copy, "queue") for each in batch})

    def depth(self) -> Depth:
        return Depth(self.waiting, 0, 0)


Unavailable = Mapping[str, type[Exception]]

REFUSALS: Mapping[str, type[Exception]] = {
    "runs": RunsUnavailable,
    "tickets": TicketsUnavailable,
    "statuses": StatusUnavailable,
    "ledger": LedgerUnavailable,
    "journal": JournalUnavailable,
    "room": RoomUnavailable,
    "manifest": ObjectsUnavailable,
    "objects": ObjectsUnavailable,
    "circuits": CircuitsUnavailable,
    "router": RouterUnavailable,
    "main": QueueUnavailable,
    "parking": QueueUnavailable,
}
"""What each store raises if it gives no answer."""


def unanswered(store: str, name: str, arguments: Sequence[Any], *, applied: bool) -> Any:
    """What the caller gets of a call that was refused, or whose answer was lost."""
    if store in ("main", "parking") and name == "send":
        copies = [envelope.copy for envelope in arguments[0]]
        if applied:
            return SendResult(unknown=frozenset(copies))
        return SendResult(failed=dict.fromkeys(copies, "InternalError"))
    if store == "room" and name == "delete":
        return [received for received, _ in arguments[0]]
    raise REFUSALS[store](f"{store}.{name}: no answer")


class Store:
    """A store as one process calls it: `call` is told of every call."""

    def __init__(self, store: str, real: Any, call: Callable[..., Any]) -> None:
        self._store = store
        self._real = real
        self._call = call

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if not callable(method):
            return method
        store, call = self._store, self._call

        def act(*arguments: Any) -> Any:
            return call(store, name, method, arguments)

        self.__dict__[name] = act
        return act


def copies_in(items: Mapping[str, LaneItem], lane: str) -> Collection[str]:
    """The copies in a lane."""
    return [copy for copy, item in items.items() if item.lane == lane]
