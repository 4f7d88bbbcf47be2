"""One run at a time sends for a queue."""

from __future__ import annotations

from typing import Protocol

from deadletter.redrive.report import Report
from deadletter.redrive.token_bucket import TokenBucket


class LeaseUnavailable(Exception):
    """The lease could not be read or written."""


class Lease(Protocol):
    """The right to drain a queue. It keeps rate and cost; safety does not depend on it."""

    def acquire(self, owner: str, now: float, until: float) -> TokenBucket | None:
        """The bucket that the last run left, or None while another run holds the lease.

        A first run gets a full bucket. Raises LeaseUnavailable.
        """

    def give_back(self, owner: str, bucket: TokenBucket, report: Report, now: float) -> None:
        """End the lease and keep bucket and report. Does nothing if another run holds it now."""
