"""Tickets: what stands in place of a letter that a replay run has sent, until its outcome."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Protocol

from deadletter.message.confirmation import Confirmation
from deadletter.replay.run import BadRunRow

TICKET_PARTITIONS = 16
"""Partitions of a run's tickets: one DynamoDB partition takes about 1,000 writes a second."""


class ReplayOutcome(StrEnum):
    """What became of a letter of a run; the value is its letter in the status of a part.

    All but OPEN and SENT are terminal.
    """

    OPEN = " "
    """In the run's lane: not sent yet, or back from a failed try."""
    SENT = "s"
    """Its ticket waits for the outcome."""
    RECOVERED = "r"
    DUPLICATE = "d"
    """Skipped by the consumer: it was processed before."""
    SUPERSEDED = "o"
    """Skipped by the consumer: a later one of its ordering key was processed."""
    DELIVERED = "a"
    """Accepted by a queue or a consumer that tells no outcome."""
    PARKED = "p"
    """Parked by the consumer."""
    QUARANTINED = "q"
    """Parked by the run: out of attempts, unreadable, or stopped by a rule."""
    STOPPED = "h"
    """Left the run for a lane or a dedicated DLQ, as a rule or an open circuit said."""
    EXPIRED = "e"
    UNKNOWN = "u"
    """Sent, and nobody learned its outcome in time."""
    DISCARDED = "x"
    RESTORED = "b"
    """Back in the parking lot: a person had discarded it."""
    LEFT = "l"
    """Left over when the run ended early: parked, or back to the schedule."""
    MISSING = "?"
    """Neither its item nor a ticket is where the manifest says: unaccounted for, the run is
    BROKEN."""


TERMINAL = frozenset(ReplayOutcome) - {ReplayOutcome.OPEN, ReplayOutcome.SENT}

ANSWERED = (
    ReplayOutcome.RECOVERED,
    ReplayOutcome.DUPLICATE,
    ReplayOutcome.SUPERSEDED,
    ReplayOutcome.DELIVERED,
    ReplayOutcome.DISCARDED,
)
"""Outcomes of a letter that its run need not send again, as its destination has said."""


BY_CONSUMER: Mapping[str, ReplayOutcome] = {
    "recovered": ReplayOutcome.RECOVERED,
    "duplicate": ReplayOutcome.DUPLICATE,
    "superseded": ReplayOutcome.SUPERSEDED,
    "parked": ReplayOutcome.PARKED,
}
"""The words of the consumer library for the end of a letter."""


OUTSIDE: frozenset[ReplayOutcome] = frozenset(
    (ReplayOutcome.QUARANTINED, ReplayOutcome.STOPPED, ReplayOutcome.EXPIRED, ReplayOutcome.LEFT)
)
"""The fates of letters that leave the run in another way than by a send to its destination.
Their tickets are put before they are moved: an item that is still there has yet to leave."""


class TicketsUnavailable(Exception):
    """The tickets could not be read or written."""


class BadTicket(TicketsUnavailable, BadRunRow):
    """A ticket cannot be read."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ticket:
    """One send of a letter by a run, or its leaving the run in another way.

    Its key is the letter's origin and the id of the copy that was sent. `shard` and `position`
    say where in the manifest it stands (-1: nowhere), `attempt` is the life that the send began,
    `at` the time (epoch seconds), `fate` what is known since the moment it was made (SENT: its
    outcome is looked up). `returned` is the id of the copy that came back, and `returned_place`
    that copy's place in the waiting room. `generation` is that of the run when it was made.
    """

    run: str
    origin: str
    copy: str
    shard: int
    position: int
    attempt: int
    at: float
    fate: ReplayOutcome = ReplayOutcome.SENT
    returned: str | None = None
    returned_place: str | None = None
    generation: int = 0


def confirmation_by(ticket: Ticket) -> Confirmation:
    """Confirmation that a letter was sent, processed or discarded, as its ticket says.

    Such a ticket is made after the confirmation of the queue, the consumer or the bucket.
    Raises ValueError for the ticket of a letter that has yet to leave.
    """
    if ticket.fate in OUTSIDE:
        raise ValueError(f"a ticket with the fate {ticket.fate.name} confirms no send")
    return Confirmation(ticket.copy, "ticket")


def ticket_partition(origin: str) -> int:
    """The partition of a run's tickets that holds those of one letter."""
    return blake2b(origin.encode(), digest_size=1).digest()[0] % TICKET_PARTITIONS


class Tickets(Protocol):
    """The tickets of one run. Raises TicketsUnavailable."""

    def put(self, tickets: Sequence[Ticket]) -> None:
        """Store tickets; storing one twice has the effect of once, and never removes `returned`."""

    def read(self, keys: Sequence[tuple[str, str]]) -> Mapping[tuple[str, str], Ticket]:
        """The tickets with these keys (origin, copy), read consistently; missing ones left out."""

    def settle(self, ticket: Ticket, fate: ReplayOutcome) -> Ticket:
        """Give up waiting for a ticket's outcome, unless its letter has come back meanwhile.

        Returns the ticket as it is stored then: with `fate`, or with `returned`.
        """
