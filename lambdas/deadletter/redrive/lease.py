"""One run at a time sends for a queue, and each leaves what it knows of it to the next."""

from __future__ import annotations

from typing import Protocol

from deadletter.pace.run import RunPaid
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import UNKNOWN, Drain, SourceMemory


class LeaseUnavailable(Exception):
    """The lease could not be read or written."""


class Lease(Protocol):
    """The right to drain a queue. It keeps rate and cost; safety does not depend on it.

    Each method raises LeaseUnavailable.
    """

    def read(self) -> SourceMemory:
        """What the runs so far have left; UNKNOWN before the first one."""

    def acquire(self, owner: str, now: float, until: float) -> RunPaid | None:
        """What the last run left of the rate, or None while another run holds the lease.

        A first run may send a whole burst.
        """

    def record_drain(self, drain: Drain) -> None:
        """Store the drain of which this run is the owner."""

    def of_shard(self, number: int) -> Lease:
        """The lease of one shard of a drain of the same queue."""

    def give_back(self, owner: str, paid: RunPaid, report: Report, now: float) -> None:
        """End the lease, and keep what is paid and the report.

        Does nothing if another run holds the lease now.
        """

    def record(self, memory: SourceMemory, before: SourceMemory = UNKNOWN) -> None:
        """Store the fields that differ from `before`, the memory as this run has read it.

        Needs no lease: what another run has stored meanwhile in other fields stays.
        """
