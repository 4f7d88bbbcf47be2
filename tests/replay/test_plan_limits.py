"""What a run's plan makes of the router's decisions, and what the tickets say of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deadletter.contract import KeyPolicy, Reason
from deadletter.message.stamp import Stamp
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run_source import Fates, PlannedMove, is_own_circuit, is_send, within
from deadletter.replay.ticket import ReplayOutcome
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from tests.each_row import each_row

PLAN = ReplayPlan(pipeline="orders", attempts=3)
REDRIVE = Redrive(0, "again")
STOPS = {"ordered": True, "on_failure": KeyPolicy.STOP}
RUN = f"run {PLAN.run_id}"


def stamp(tries: int = 0) -> Stamp:
    """The stamp of a letter with two attempts before the run, and so many tries in it before."""
    return Stamp("o", attempt=3 + tries, base=2, run="r", ticket="t", rule="rule", reason="POISON")


def move(tries: int = 0, plan: dict[str, Any] | None = None, **case: Any) -> PlannedMove:
    terms = {"key_stops": False, "let_go": False, "forgiven": False, "too_old": False, **case}
    return within(REDRIVE, stamp(tries), replace(PLAN, **plan or {}), **terms)


def parked_because(moved: PlannedMove) -> str:
    """The words behind the run's name; empty for a letter that is not parked."""
    return moved.decision.because.partition(": ")[2] if isinstance(moved.decision, Park) else ""


@each_row(
    "decision", [Park(Reason.POISON, "poison"), Hold("lane", 0.0, "wait"), Divert("slow", "")]
)
def test_what_the_router_does_not_send_is_its_own_decision(decision: Decision) -> None:
    terms = {"key_stops": True, "let_go": True, "forgiven": False, "too_old": True}
    assert within(decision, stamp(9), PLAN, **terms) == PlannedMove(decision, stamp(9))


@each_row(
    ("plan", "is_sent"),
    [
        ({"destination": "main"}, True),
        ({"destination": "deliver"}, True),
        ({"destination": "discard"}, True),
        ({"destination": "slow"}, False),
    ],
)
def test_a_letter_goes_to_the_destination_of_the_plan(plan: dict[str, Any], is_sent: bool) -> None:
    moved = move(plan=plan)
    if is_sent:
        assert moved == PlannedMove(REDRIVE, stamp())
        return
    because = f"run {replace(PLAN, **plan).run_id}"
    assert moved.decision == Divert("slow", because)
    # It is of no run any more, and its next consumer counts no try that was none.
    assert moved.stamp == replace(
        stamp(), attempt=2, run=None, ticket=None, decision="DIVERT", because=because
    )


def test_a_letter_that_its_ticket_lets_go_is_parked_and_not_sent() -> None:
    moved = move(let_go=True)
    because = f"{RUN}: it had left the run"
    assert moved.decision == Park(Reason.RETRIES_EXHAUSTED, because)
    assert moved.stamp == replace(
        stamp(),
        attempt=2,
        ticket=None,
        rule=None,
        decision="PARK",
        reason="RETRIES_EXHAUSTED",
        because=because,
    )


@each_row(
    ("plan", "expires"),
    [
        ({}, True),
        ({"destination": "deliver"}, True),
        ({"source": "parking:default"}, False),
        ({"source": "lane:parked"}, False),
        ({"source": "lane:due"}, True),
        ({"destination": "slow"}, False),
        ({"destination": "discard"}, False),
    ],
)
def test_a_letter_older_than_the_ttl_reaches_no_consumer_unless_a_person_releases_it(
    plan: dict[str, Any], expires: bool
) -> None:
    moved = move(plan=plan, too_old=True)
    assert parked_because(moved) == ("older than the message TTL" if expires else "")
    if expires:
        assert isinstance(moved.decision, Park)
        assert (moved.decision.reason, moved.stamp.reason) == (Reason.EXPIRED, "EXPIRED")


@each_row(
    ("tries", "plan", "case", "because"),
    [
        (2, {}, {}, ""),
        (3, {}, {}, "it failed in each of 3 tries"),
        (3, {}, {"excused": 1}, ""),
        (4, {}, {"excused": 1}, "it failed in each of 3 tries"),
        (3, {}, {"excused": -5}, "it failed in each of 3 tries"),
        (3, {}, {"forgiven": True}, "it failed in each of 3 tries"),
        (3, {"destination": "discard"}, {}, ""),
        (3, {"destination": "slow"}, {}, "it failed in each of 3 tries"),
        # Only an ordered key that stops waits, and only behind a letter that has one.
        (3, STOPS, {"key_stops": False}, "it failed in each of 3 tries"),
        (3, {**STOPS, "ordered": False}, {"key_stops": True}, "it failed in each of 3 tries"),
        (3, {"ordered": True}, {"key_stops": True}, "it failed in each of 3 tries"),
        (3, STOPS, {"key_stops": True}, ""),
        (1_199, {}, {"excused": 1_199}, ""),
        (1_200, {}, {"excused": 1_200}, "it failed in each of 1200 tries"),
        (1_200, STOPS, {"key_stops": True}, "it failed in each of 1200 tries"),
        (1_200, {"destination": "discard"}, {}, "it failed in each of 1200 tries"),
    ],
)
def test_a_letter_out_of_tries_is_parked(
    tries: int, plan: dict[str, Any], case: dict[str, Any], because: str
) -> None:
    assert parked_because(move(tries, plan, **case)) == because


@each_row(("tries", "forgiven", "waits"), [(2, False, False), (3, False, True), (3, True, False)])
def test_a_key_that_stops_waits_in_front_of_its_letter_until_a_person_resumes_the_run(
    tries: int, forgiven: bool, waits: bool
) -> None:
    moved = move(tries, STOPS, key_stops=True, forgiven=forgiven)
    assert moved == PlannedMove(REDRIVE, stamp(tries), waits=waits)


@each_row(
    ("decision", "destination", "sends"),
    [
        (REDRIVE, "main", True),
        (REDRIVE, "slow", True),
        (Divert("slow", ""), "slow", True),
        (Divert("other", ""), "slow", False),
        (Park(Reason.POISON, ""), "main", False),
        (Hold("lane", 0.0, ""), "main", False),
    ],
)
def test_what_goes_to_the_destination_needs_a_grant(
    decision: Decision, destination: str, sends: bool
) -> None:
    assert is_send(decision, replace(PLAN, destination=destination)) is sends


@each_row(
    ("decision", "is_own"),
    [
        (Hold("circuit:orders", 0.0, ""), True),
        (Hold("circuit:other", 0.0, ""), False),
        (Hold("due", 0.0, ""), False),
        (REDRIVE, False),
    ],
)
def test_a_letter_that_waits_for_the_pipelines_circuit_lets_the_run_wait(
    decision: Decision, is_own: bool
) -> None:
    assert is_own_circuit(decision, "orders") is is_own


SENT, DELIVERED = ReplayOutcome.SENT, ReplayOutcome.DELIVERED


@each_row(
    ("destination", "library", "sent", "found_sent"),
    [
        ("main", True, SENT, SENT),
        ("main", False, DELIVERED, DELIVERED),
        ("deliver", True, DELIVERED, SENT),
        ("deliver", False, DELIVERED, DELIVERED),
        ("slow", True, DELIVERED, DELIVERED),
        ("discard", True, ReplayOutcome.DISCARDED, ReplayOutcome.DISCARDED),
    ],
)
def test_a_ticket_says_where_the_outcome_of_its_letter_is_known(
    destination: str, library: bool, sent: ReplayOutcome, found_sent: ReplayOutcome
) -> None:
    fates = Fates(replace(PLAN, destination=destination), library)
    assert (fates.sent, fates.found_sent) == (sent, found_sent)
    assert fates.of(REDRIVE) is sent
    assert fates.of(Park(Reason.POISON, "")) is ReplayOutcome.QUARANTINED
    assert fates.of(Park(Reason.EXPIRED, "")) is ReplayOutcome.EXPIRED
    assert fates.of(Hold("lane", 0.0, "")) is ReplayOutcome.STOPPED
    assert fates.of(Divert("elsewhere", "")) is ReplayOutcome.STOPPED
