"""Which errors end a run in good order, how they are counted, and what its report says."""

from __future__ import annotations

from deadletter.circuit.state import CircuitsUnavailable
from deadletter.message.queue import QueueUnavailable
from deadletter.redrive.journal import JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunStopped
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterUnavailable
from deadletter.signals.figures import Count, Counted

_UNAVAILABLE: tuple[tuple[type[Exception], Counted, str], ...] = (
    (CircuitsUnavailable, Count.CIRCUITS_UNAVAILABLE, "the circuits cannot be read: hold"),
    (LeaseUnavailable, Count.LEASE_UNAVAILABLE, "the lease cannot be read"),
    (QueueUnavailable, Count.QUEUE_UNAVAILABLE, "a queue gave no answer"),
    (RouterUnavailable, Count.ROUTER_UNAVAILABLE, "the router gave no answer"),
    (RoomUnavailable, Count.ROOM_UNAVAILABLE, "the waiting room gave no answer"),
    (JournalUnavailable, Count.JOURNAL_UNAVAILABLE, "the journal gave no answer"),
)

ENDS_A_RUN: tuple[type[Exception], ...] = (RunStopped, *(kind for kind, _, _ in _UNAVAILABLE))
"""Errors that end a run in good order: a letter that was not moved stays where it is."""


def stop_reason(error: Exception, tally: Tally) -> str:
    """The reason in the report of a run that `error` ends; counts the error under its metric.

    A run that something unavailable ends has not ended well, and its trouble is the error's
    text.

    Raises an error again that is not in ENDS_A_RUN.
    """
    for kind, metric, reason in _UNAVAILABLE:
        if isinstance(error, kind):
            tally.count(metric)
            tally.fail(str(error) or reason)
            return f"{reason}: {error}" if str(error) else reason
    if isinstance(error, RunStopped):
        return str(error)
    raise error
