"""Errors that end a run: how they are counted, and the reason in the report."""

from __future__ import annotations

import pytest

from deadletter.circuit.state import CircuitsUnavailable
from deadletter.message.queue import QueueUnavailable, TooManyInFlight
from deadletter.redrive.journal import ClaimLost, JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunStopped
from deadletter.redrive.turns import ENDS_A_RUN, stop_reason
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterUnavailable
from tests.each_row import each_row

REASONS: list[tuple[Exception, str, dict[str, int]]] = [
    (RunStopped("the deadline is near"), "the deadline is near", {}),
    (
        CircuitsUnavailable("denied"),
        "the circuits cannot be read: hold: denied",
        {"CircuitsUnavailable": 1},
    ),
    (LeaseUnavailable("denied"), "the lease cannot be read: denied", {"LeaseUnavailable": 1}),
    (QueueUnavailable("denied"), "a queue gave no answer: denied", {"QueueUnavailable": 1}),
    (TooManyInFlight("OverLimit"), "a queue gave no answer: OverLimit", {"QueueUnavailable": 1}),
    (RouterUnavailable("denied"), "the router gave no answer: denied", {"RouterUnavailable": 1}),
    (RoomUnavailable(), "the waiting room gave no answer", {"RoomUnavailable": 1}),
    (JournalUnavailable("denied"), "the journal gave no answer: denied", {"JournalUnavailable": 1}),
]


@each_row(("error", "reason", "counts"), REASONS)
def test_an_error_that_ends_a_run_has_a_reason_and_counts_once(
    error: Exception, reason: str, counts: dict[str, int]
) -> None:
    tally = Tally()
    assert isinstance(error, ENDS_A_RUN)
    assert stop_reason(error, tally) == reason
    report = tally.report("orders", "dlq", reason)
    assert report.counts == counts
    assert report.ended_well is isinstance(error, RunStopped)


def test_the_trouble_of_a_run_is_what_the_first_adapter_said() -> None:
    tally = Tally()
    stop_reason(JournalUnavailable("AccessDeniedException for dynamodb:Query on messages"), tally)
    stop_reason(RoomUnavailable("later"), tally)
    report = tally.report("orders", "dlq", "why")
    assert report.trouble == "AccessDeniedException for dynamodb:Query on messages"
    assert report.to_json()["trouble"] == report.trouble
    assert report.to_json()["ended_well"] is False


def test_every_error_that_ends_a_run_has_a_reason_here() -> None:
    assert set(ENDS_A_RUN) == {type(error) for error, _, _ in REASONS} - {TooManyInFlight}


@pytest.mark.parametrize("error", [ClaimLost("slot"), ValueError("a bug")])
def test_any_other_error_is_raised_again(error: Exception) -> None:
    assert not isinstance(error, ENDS_A_RUN)
    with pytest.raises(type(error)):
        stop_reason(error, Tally())
