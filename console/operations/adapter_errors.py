"""Errors of the library's AWS adapters, as errors that `aws.explain` has a sentence for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from .problem import Cause, Problem


@contextmanager
def aws_errors() -> Iterator[None]:
    """Raises the AWS error that an adapter's error comes from, or else a Problem."""
    try:
        yield
    except Exception as error:
        from deadletter.aws.errors import AWS_ERRORS

        is_ours = type(error).__module__.startswith("deadletter.")
        if not (is_ours and isinstance(error, _of_adapters())):
            raise
        cause: BaseException | None = error
        while cause is not None:
            if isinstance(cause, AWS_ERRORS):
                raise cause from error
            cause = cause.__cause__
        raise Problem(f"Try again: {error}.", Cause.UNREACHABLE) from error


def _of_adapters() -> tuple[type[Exception], ...]:
    """The errors of the adapters; imported once one is met, for they take a twentieth second."""
    from deadletter.aws.errors import Failed
    from deadletter.circuit.state import CircuitsUnavailable
    from deadletter.failure.causes import CausesUnavailable
    from deadletter.failure.ledger import LedgerUnavailable
    from deadletter.processing.idempotency import ClaimsUnavailable
    from deadletter.redrive.lease import LeaseUnavailable
    from deadletter.redrive.observed import ObservedUnavailable
    from deadletter.redrive.waiting_room import RoomUnavailable
    from deadletter.replay.manifest import StatusUnavailable
    from deadletter.replay.objects import ObjectsUnavailable
    from deadletter.replay.run import BadRunRow, RunsUnavailable
    from deadletter.replay.ticket import TicketsUnavailable
    from deadletter.routing.router import RouterUnavailable

    return (
        *(CausesUnavailable, CircuitsUnavailable, ClaimsUnavailable, LeaseUnavailable),
        *(LedgerUnavailable, ObjectsUnavailable, ObservedUnavailable, RoomUnavailable),
        *(RouterUnavailable, RunsUnavailable, BadRunRow, StatusUnavailable, TicketsUnavailable),
        Failed,
    )
