"""Letters that come back to their replay run: each is noted on its ticket as it goes in."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.replay_tickets import ticket_key
from deadletter.aws.table import Change, Key, absent, equals
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.ticket import ReplayOutcome


class ReturningLetters:
    """The tickets that some letters come back to, read consistently.

    Raises what boto3 raises, and StillUnprocessed.
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
        return Change(
            self._key(order),
            {"returned": order.copy, "returned_place": json.dumps(place)},
            equals("fate", str(ReplayOutcome.SENT)) & absent("returned"),
        )

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
