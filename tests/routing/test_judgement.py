"""The order of the judgements, and those that no rule can override."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import combinations
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.state import Circuit, State
from deadletter.contract import Blame, Body, Category, Reason
from deadletter.failure.causes import CauseHold, Causes
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import LedgerRow
from deadletter.message.stamp import Stamp
from deadletter.pace.pace import CallPace
from deadletter.routing import judgement
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.routing.judgement import JUDGEMENTS, Case, Judgement, judge
from deadletter.rules.document import Document
from deadletter.rules.rule import Action, Rule
from deadletter.rules.rulebook import Match
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.each_row import each_row
from tests.samples import NOW, failed

TTL = 10_000.0
SENT = NOW - 1_000
EXPIRES = SENT + TTL
DAY = 86_400.0
PIPELINE = Pipeline(
    "orders",
    message_ttl=TTL,
    policy=RetryPolicy(Backoff(base=100, factor=1, cap=100, floor=100), max_attempts=3),
    policies={"patient": RetryPolicy(Backoff(base=500, factor=1, cap=500, floor=500), 9)},
    poison_lives=3,
    dedicated=("slow",),
)
PLAIN_CASE = Case(
    PIPELINE, Stamp("o", 1, int(SENT * 1_000)), NOW, Random(1), row=LedgerRow((failed(),))
)


def ruled(case: Case, action: Action, **more: Any) -> Case:
    return replace(case, match=Match(Rule("r1", "orders", action, {}, **more)))


def pipelined(case: Case, **changes: Any) -> Case:
    return replace(case, pipeline=replace(case.pipeline, **changes))


def quarantined(case: Case) -> Case:
    return ruled(case, Action.QUARANTINE)


def unreadable(case: Case) -> Case:
    return replace(case, document=Document({}, "not JSON at line 1 column 1"))


def old(case: Case) -> Case:
    return replace(case, now=EXPIRES)


def suddenly(case: Case) -> Case:
    hold = CauseHold(NOW - 60, EXPIRES + 60)
    *earlier, last = case.row.failures
    refused = replace(last, category=Category.SCHEMA)
    return replace(
        case,
        row=replace(case.row, failures=(*earlier, refused)),
        causes=Causes(holds={"f1": hold, "other": hold}),
    )


def schema_failed(case: Case) -> Case:
    last = failed(category=Category.SCHEMA, fingerprint="other")
    return replace(case, row=LedgerRow((*case.row.failures, last)))


def poisonous(case: Case) -> Case:
    lives = tuple(failed(attempt=number) for number in range(3))
    return replace(case, row=LedgerRow((*lives, *case.row.failures)))


def unrecorded(case: Case) -> Case:
    return pipelined(replace(case, row=LedgerRow()), consumer_library=True)


def used_up(case: Case) -> Case:
    return replace(case, stamp=replace(case.stamp, attempt=3))


def circuit_down(case: Case) -> Case:
    return replace(case, circuits=(Circuit("orders", State.OPEN),))


def awaited(case: Case) -> Case:
    return replace(replayed_before(case), run_shard=5)


def replayed_before(case: Case) -> Case:
    return replace(case, stamp=replace(case.stamp, run="r9", ticket="c1"))


def slowed(case: Case) -> Case:
    return ruled(case, Action.THROTTLE, rate=5.0)


def unchanged(case: Case) -> Case:
    return case


# The policy, in order: the judgement, a change that makes it decide, and its decision.
ORDER: list[tuple[Judgement, Callable[[Case], Case], Decision]] = [
    (
        judgement.of_live_run,
        awaited,
        Hold("run:r9", EXPIRES, "run r9 is live", shard=5),
    ),
    (
        judgement.stopped_by_rule,
        quarantined,
        Park(Reason.QUARANTINED, "rule r1 says QUARANTINE", "r1"),
    ),
    (
        judgement.malformed,
        unreadable,
        Park(Reason.MALFORMED, "the body cannot be read: not JSON at line 1 column 1"),
    ),
    (
        judgement.of_ended_run,
        replayed_before,
        Park(
            Reason.RUN_FAILED,
            "it came back from run r9, which no longer waits for it",
            category="transient",
        ),
    ),
    (
        judgement.expired,
        old,
        Park(
            Reason.EXPIRED,
            "older than 10000 seconds; it last failed with KeyError",
            category="transient",
        ),
    ),
    (
        judgement.permanent,
        schema_failed,
        Park(
            Reason.PERMANENT,
            "last failure was of category schema; it last failed with KeyError",
            category="schema",
        ),
    ),
    (
        judgement.poison,
        poisonous,
        Park(
            Reason.POISON,
            "the same failure in 3 lives; it last failed with KeyError",
            category="transient",
        ),
    ),
    (judgement.silent, unrecorded, Park(Reason.CRASH, "came back without any recorded failure")),
    (
        judgement.exhausted,
        used_up,
        Park(
            Reason.RETRIES_EXHAUSTED,
            "3 of 3 attempts used; it last failed with KeyError",
            category="transient",
        ),
    ),
    (
        judgement.circuit_open,
        circuit_down,
        Hold("circuit:orders", EXPIRES, "circuit orders is OPEN"),
    ),
    (
        judgement.throttled,
        slowed,
        Hold("rule:r1", NOW + 100, "at most 5 messages a second by rule r1", "r1"),
    ),
    (judgement.delayed, unchanged, Redrive(100, "attempt 2, backoff of 100 s")),
]


def name(value: Any) -> str | None:
    return getattr(value, "__name__", None)


def test_the_policy_is_this_list() -> None:
    assert [judgement for judgement, _, _ in ORDER] == list(JUDGEMENTS)


@each_row(("decides", "make", "decision"), ORDER, ids=name)
def test_each_judgement_can_decide_alone(
    decides: Judgement, make: Callable[[Case], Case], decision: Decision
) -> None:
    case = make(PLAIN_CASE)
    assert decides(case) == judge(case) == decision
    undecided = {judgement for judgement in JUDGEMENTS if judgement(case) is None}
    assert undecided == set(JUDGEMENTS) - {decides, judgement.delayed}


def pairs() -> list[Any]:
    """Each two judgements that can decide on one letter.

    What is permanent or poison needs failures and silent none. A run is live or has ended.
    """
    of_failures = {judgement.permanent, judgement.poison}
    exclusive = {(earlier, judgement.silent) for earlier in of_failures}
    exclusive.add((judgement.of_live_run, judgement.of_ended_run))
    # A letter has one rule.
    exclusive.add((judgement.stopped_by_rule, judgement.throttled))
    return [
        pytest.param(*pair, id=f"{name(pair[0][0])} before {name(pair[1][0])}")
        for pair in combinations(ORDER, 2)
        if (pair[0][0], pair[1][0]) not in exclusive
    ]


@each_row(("earlier", "later"), pairs())
def test_of_two_judgements_that_decide_the_earlier_wins(
    earlier: tuple[Judgement, Callable[[Case], Case], Decision],
    later: tuple[Judgement, Callable[[Case], Case], Decision],
) -> None:
    case = earlier[1](later[1](PLAIN_CASE))
    assert earlier[0](case) is not None
    assert later[0](case) is not None
    assert judge(case) == earlier[0](case)


@pytest.mark.parametrize(("wait", "holds"), [(239, False), (241, True), (1e9, False)])
def test_a_letter_waits_while_a_pace_has_more_than_it_lets_through_in_minutes(
    wait: float, holds: bool
) -> None:
    """In the main queue it would use up its receives, and die again."""
    pace = CallPace(2.0, 2.0, since=NOW, changed=NOW, utat=NOW, ptat=NOW + wait)
    case = replace(PLAIN_CASE, circuits=(Circuit("orders", pace=pace),))
    held = Hold("circuit:orders", EXPIRES, "circuit orders is paced, and messages wait long")
    assert judgement.circuit_open(case) == (held if holds else None)


def test_a_letter_that_the_rate_lets_go_leaves() -> None:
    case = replace(slowed(PLAIN_CASE), served=True)
    assert judge(case) == Hold("rule:r1", NOW, "at most 5 messages a second by rule r1", "r1")
    assert judge(replace(case, admitted="other")) == judge(case)
    assert judge(replace(case, admitted="r1")) == Redrive(0, "attempt 2, its delay is served", "r1")


def test_the_backoff_of_a_letter_counts_from_when_it_began_to_wait_for_its_turn() -> None:
    decision = judge(replace(slowed(PLAIN_CASE), waited=40.0))
    assert decision == Hold("rule:r1", NOW + 60, "at most 5 messages a second by rule r1", "r1")


@each_row(
    ("at", "attempt", "left"),
    [
        (NOW - 30, 1, 70),
        (NOW - 100, 1, 0),
        (NOW - 1e9, 1, 0),
        # Its row is of an earlier life, or its consumer's clock is ahead.
        (NOW - 30, 0, 100),
        (NOW + 30, 1, 100),
    ],
)
def test_the_backoff_of_a_letter_counts_from_its_death(at: float, attempt: int, left: int) -> None:
    case = replace(PLAIN_CASE, row=LedgerRow((failed(at=at, attempt=attempt),)))
    assert judge(case) == Redrive(left, "attempt 2, backoff of 100 s")
    # What it has waited in a lane lies behind its death too.
    assert judge(replace(case, waited=20.0)) == Redrive(
        min(left, 80), "attempt 2, backoff of 100 s"
    )
    because = "at most 5 messages a second by rule r1"
    assert judge(slowed(case)) == Hold("rule:r1", NOW + left, because, "r1")


def test_the_delay_of_a_rule_counts_from_the_judgement() -> None:
    row = LedgerRow((failed(at=NOW - 30, attempt=1),))
    case = ruled(replace(PLAIN_CASE, row=row), Action.DELAYED_REDRIVE, delay_seconds=60.0)
    assert judge(case) == Redrive(60, "attempt 2, delay of 60 s by rule r1", "r1")


@each_row("served", [False, True])
@each_row(
    "rule",
    [
        {"action": Action.DEFAULT},
        {"action": Action.DELAYED_REDRIVE, "delay_seconds": 0.0},
        {"action": Action.DELAYED_REDRIVE, "delay_seconds": 60.0},
    ],
    ids=lambda rule: str(rule["action"]),
)
@each_row(("decides", "make", "decision"), [ORDER[0], *ORDER[2:-2]], ids=name)
def test_no_rule_sends_a_letter_that_another_judgement_stops(
    decides: Judgement,
    make: Callable[[Case], Case],
    decision: Decision,
    rule: dict[str, Any],
    served: bool,
) -> None:
    case = replace(ruled(make(PLAIN_CASE), **rule), served=served)
    assert judge(case) == decision


@pytest.mark.parametrize("action", [Action.QUARANTINE, Action.HOLD, Action.DEDICATED_DLQ])
def test_a_stopping_rule_stops_a_letter_that_has_served_its_delay(action: Action) -> None:
    queue = "slow" if action is Action.DEDICATED_DLQ else None
    decision = judge(replace(ruled(PLAIN_CASE, action, queue=queue), served=True))
    assert not isinstance(decision, Redrive)
    assert decision.rule == "r1"


def test_a_rule_diverts_a_letter_to_its_queue() -> None:
    case = ruled(PLAIN_CASE, Action.DEDICATED_DLQ, queue="slow")
    assert judge(case) == Divert("slow", "rule r1 says DEDICATED_DLQ", "r1")


@each_row(
    ("ends", "now", "due"),
    [
        (None, NOW, NOW + DAY),
        (NOW + 60, NOW, NOW + 60),
        (NOW + 10 * DAY, NOW, NOW + DAY),
        # After its own expiry a held letter is judged daily, not each minute.
        (None, EXPIRES + 5, EXPIRES + 5 + DAY),
        (EXPIRES + 60, EXPIRES + 5, EXPIRES + 60),
    ],
)
def test_a_hold_lasts_to_the_end_of_its_rule(ends: float | None, now: float, due: float) -> None:
    case = replace(ruled(PLAIN_CASE, Action.HOLD, expires_at=ends), now=now)
    assert judge(case) == Hold("rule:r1", due, "rule r1 says HOLD", "r1")


def test_a_hold_lasts_until_the_letter_expires_if_that_is_more_than_a_day() -> None:
    case = pipelined(ruled(PLAIN_CASE, Action.HOLD), message_ttl=5 * DAY)
    decision = judge(case)
    assert isinstance(decision, Hold)
    assert decision.due == SENT + 5 * DAY


def test_an_opaque_body_need_not_be_json() -> None:
    assert isinstance(judge(pipelined(unreadable(PLAIN_CASE), body=Body.OPAQUE)), Redrive)


@pytest.mark.parametrize(("now", "expired"), [(EXPIRES - 0.1, False), (EXPIRES, True)])
def test_a_letter_expires_at_its_time_to_live(now: float, expired: bool) -> None:
    assert isinstance(judge(replace(PLAIN_CASE, now=now)), Park) is expired


def test_a_letter_whose_first_send_is_unknown_does_not_expire() -> None:
    case = replace(PLAIN_CASE, stamp=Stamp("o", 1, 0), now=NOW + 1e9)
    assert isinstance(judge(case), Redrive)


@pytest.mark.parametrize("category", list(Category))
def test_failures_of_schema_and_business_are_permanent(category: Category) -> None:
    decision = judge(replace(PLAIN_CASE, row=LedgerRow((failed(category=category),))))
    assert isinstance(decision, Park) is (category in (Category.SCHEMA, Category.BUSINESS))


def test_only_the_last_failure_can_be_permanent() -> None:
    row = LedgerRow((failed(category=Category.SCHEMA, at=NOW - 90), failed(at=NOW - 60)))
    assert isinstance(judge(replace(PLAIN_CASE, row=row)), Redrive)


@pytest.mark.parametrize(
    ("library", "attempt", "silent"),
    [(True, 0, False), (True, 1, True), (False, 1, False)],
)
def test_a_second_return_without_a_recorded_failure_is_silent(
    library: bool, attempt: int, silent: bool
) -> None:
    case = pipelined(replace(PLAIN_CASE, row=LedgerRow()), consumer_library=library)
    decision = judge(replace(case, stamp=replace(PLAIN_CASE.stamp, attempt=attempt)))
    assert isinstance(decision, Park) is silent


@each_row(
    "excuse",
    [
        {"http_status": 503},
        {"http_status": 429},
        {"error_type": "Timeout"},
        {"error_type": "ConnectionRefused"},
        {"dependency_down": True},
        # What somebody else can repair: an endpoint that is missing, or refuses every request.
        {"category": Category.INTEGRATION},
        {"category": Category.INTEGRATION, "http_status": 410},
    ],
    ids=str,
)
def test_a_failure_that_the_dependency_explains_is_never_poison(excuse: dict[str, Any]) -> None:
    lives = tuple(failed(attempt=number, **excuse) for number in range(3))
    case = replace(PLAIN_CASE, row=LedgerRow(lives), stamp=replace(PLAIN_CASE.stamp, attempt=2))
    assert isinstance(judge(case), Redrive)
    last = replace(case, stamp=replace(PLAIN_CASE.stamp, attempt=3))
    decision = judge(last)
    assert isinstance(decision, Park)
    assert decision.reason is Reason.RETRIES_EXHAUSTED
    assert decision.because.startswith("3 of 3 attempts used; it last failed with ")


@each_row(
    ("facts", "words"),
    [
        ({"message": "the tenant has no such endpoint", "error_type": "EndpointUnfit"},
         "EndpointUnfit: the tenant has no such endpoint"),
        ({"error_type": "HTTPError", "http_status": 410}, "HTTPError, HTTP 410"),
        ({"error_type": "", "http_status": 410}, "HTTP 410"),
        ({"error_type": "E", "message": "x" * 900}, f"E: {'x' * 107}"),
    ],
)  # fmt: skip
@each_row(
    ("give_up", "because"),
    [
        (used_up, "3 of 3 attempts used"),
        (old, "older than 10000 seconds"),
        (poisonous, "the same failure in 4 lives"),
        (schema_failed, "last failure was of category schema"),
    ],
)
def test_a_parked_letter_carries_the_words_of_its_last_failure(
    give_up: Callable[[Case], Case], because: str, facts: dict[str, Any], words: str
) -> None:
    case = give_up(PLAIN_CASE)
    last = case.row.failures[-1]
    last = replace(last, attempt=max(last.attempt, 3), **facts)
    case = replace(case, row=LedgerRow((*case.row.failures, last)))
    decision = judge(case)
    assert isinstance(decision, Park)
    assert decision.because == f"{because}; it last failed with {words}"


def ends_by_itself(case: Case, at: float) -> Case:
    return replace(case, document=Document({}, expires=at))


def test_a_letter_past_its_own_expiry_is_parked_however_young_it_is() -> None:
    case = replace(PLAIN_CASE, row=LedgerRow())
    assert judge(ends_by_itself(case, NOW)) == Park(Reason.EXPIRED, "past its own expiry")
    assert isinstance(judge(ends_by_itself(case, NOW + 101)), Redrive)
    # It does not make a letter younger.
    late = ends_by_itself(replace(old(case)), EXPIRES + 100)
    assert judge(late) == Park(Reason.EXPIRED, "older than 10000 seconds")


@pytest.mark.parametrize("own", [True, False])
def test_no_letter_is_delayed_in_the_queue_past_its_expiry(own: bool) -> None:
    """It would be delivered after it: it waits outside, and is parked there when its time comes."""
    case = replace(PLAIN_CASE, row=LedgerRow())
    case = ends_by_itself(case, NOW + 60) if own else replace(case, now=EXPIRES - 60)
    decision = judge(case)
    assert isinstance(decision, Hold)
    assert (decision.lane, decision.due) == ("due", case.now + 60)
    assert judge(replace(case, now=decision.due, served=True)) == Park(
        Reason.EXPIRED, "past its own expiry" if own else "older than 10000 seconds"
    )


def test_a_parked_letter_without_a_recorded_failure_says_the_reason_alone() -> None:
    decision = judge(replace(old(PLAIN_CASE), row=LedgerRow()))
    assert decision == Park(Reason.EXPIRED, "older than 10000 seconds")


@pytest.mark.parametrize(("attempt", "parked"), [(0, False), (2, False), (3, True), (4, True)])
def test_a_letter_is_parked_when_its_attempts_are_used(attempt: int, parked: bool) -> None:
    decision = judge(replace(PLAIN_CASE, stamp=replace(PLAIN_CASE.stamp, attempt=attempt)))
    assert isinstance(decision, Park) is parked


def test_a_policy_without_attempts_parks_at_once() -> None:
    case = pipelined(PLAIN_CASE, policy=RetryPolicy(max_attempts=0))
    decision = judge(replace(case, stamp=replace(PLAIN_CASE.stamp, attempt=0)))
    assert decision == Park(
        Reason.RETRIES_EXHAUSTED,
        "0 of 0 attempts used; it last failed with KeyError",
        category="transient",
    )


def test_a_rule_may_name_another_policy() -> None:
    case = ruled(used_up(PLAIN_CASE), Action.DEFAULT, policy="patient")
    assert judge(case) == Redrive(500, "attempt 4, backoff of 500 s", "r1")


@pytest.mark.parametrize("state", [State.OPEN, State.HALF_OPEN])
def test_a_circuit_that_is_not_closed_holds_its_letters(state: State) -> None:
    case = replace(PLAIN_CASE, circuits=(Circuit("orders"), Circuit("https://a", state)))
    expected = Hold("circuit:https://a", EXPIRES, f"circuit https://a is {state}")
    assert judge(case) == expected
    assert isinstance(judge(replace(PLAIN_CASE, circuits=(Circuit("orders"),))), Redrive)


# The delay.

LATER = "delay:r1"


@each_row(
    ("fifo", "seconds", "expected"),
    [
        (False, 0.0, Redrive(0, "attempt 2, delay of 0 s by rule r1", "r1")),
        (False, 0.4, Redrive(0, "attempt 2, delay of 0.4 s by rule r1", "r1")),
        (False, 899.6, Redrive(900, "attempt 2, delay of 899.6 s by rule r1", "r1")),
        (False, 900.0, Redrive(900, "attempt 2, delay of 900 s by rule r1", "r1")),
        (
            False,
            900.1,
            Hold(LATER, NOW + 900.1, "attempt 2, delay of 900.1 s by rule r1", "r1"),
        ),
        (
            False,
            5_000.0,
            Hold(LATER, NOW + 5_000, "attempt 2, delay of 5000 s by rule r1", "r1"),
        ),
        (
            False,
            50_000.0,
            Hold(LATER, EXPIRES, "attempt 2, delay of 50000 s by rule r1", "r1"),
        ),
        (True, 0.0, Redrive(0, "attempt 2, delay of 0 s by rule r1", "r1")),
        (True, 1.0, Hold(LATER, NOW + 1, "attempt 2, delay of 1 s by rule r1", "r1")),
    ],
)
def test_a_delay_is_spent_in_sqs_if_sqs_can_and_else_in_the_waiting_room(
    fifo: bool, seconds: float, expected: Decision
) -> None:
    case = ruled(PLAIN_CASE, Action.DELAYED_REDRIVE, delay_seconds=seconds)
    assert judge(pipelined(case, fifo=fifo)) == expected


def test_of_a_fifo_letters_wait_less_is_left_at_each_look_if_it_began_with_a_death_on_record() -> (
    None
):
    case = pipelined(PLAIN_CASE, fifo=True, policy=RetryPolicy(Backoff(base=1e6, floor=1e6), 3))
    died = replace(case, row=LedgerRow((failed(at=NOW - 10, attempt=case.stamp.attempt),)))
    delayed = ruled(died, Action.DELAYED_REDRIVE, delay_seconds=60.0)
    holds = [
        decision for decision in map(judge, (case, died, delayed)) if isinstance(decision, Hold)
    ]
    assert [hold.left for hold in holds] == [False, True, False]


def test_a_delay_is_shorter_by_what_the_letter_has_waited_of_it() -> None:
    case = ruled(PLAIN_CASE, Action.DELAYED_REDRIVE, delay_seconds=5_000.0)
    because = "attempt 2, delay of 5000 s by rule r1"
    waited = {seconds: judge(replace(case, waited=seconds)) for seconds in (1e3, 4.9e3, 6e3)}
    assert waited == {
        1e3: Hold(LATER, NOW + 4_000, because, "r1"),
        4.9e3: Redrive(100, because, "r1"),
        6e3: Redrive(0, because, "r1"),
    }


@pytest.mark.parametrize("fifo", [False, True])
def test_a_delay_that_was_served_does_not_start_over(fifo: bool) -> None:
    case = replace(ruled(PLAIN_CASE, Action.DELAYED_REDRIVE, delay_seconds=5_000.0), served=True)
    expected = Redrive(0, "attempt 2, its delay is served", "r1")
    assert judge(pipelined(case, fifo=fifo)) == expected


@given(
    st.floats(0, 1e5),
    st.integers(0, 2),
    st.integers(),
    st.booleans(),
    st.booleans(),
    st.floats(NOW, EXPIRES, exclude_max=True),
)
def test_a_delay_fits_into_sqs_and_a_wait_ends_before_the_letter_expires(
    base: float, attempt: int, seed: int, fifo: bool, served: bool, now: float
) -> None:
    case = pipelined(PLAIN_CASE, policy=RetryPolicy(Backoff(base=base), 3), fifo=fifo)
    stamp = replace(PLAIN_CASE.stamp, attempt=attempt)
    decision = judge(replace(case, stamp=stamp, random=Random(seed), served=served, now=now))
    if isinstance(decision, Redrive):
        assert 0 <= decision.delay <= (0 if fifo or served else 900)
    else:
        assert isinstance(decision, Hold)
        assert not served
        assert now <= decision.due <= EXPIRES


def test_a_letter_without_a_failure_is_no_poison_however_few_lives_are_allowed() -> None:
    case = pipelined(replace(PLAIN_CASE, row=LedgerRow()), poison_lives=1)
    assert judgement.poison(case) is None
    assert judgement.poison(replace(case, row=LedgerRow((failed(),)))) is not None


def test_a_case_is_of_an_honest_letter_in_the_main_dlq_that_has_not_waited() -> None:
    assert (PLAIN_CASE.served, PLAIN_CASE.diverted, PLAIN_CASE.forged) == (False, False, False)


def given_back(**changes: Any) -> Failure:
    return failed(error_type=str(Fate.REFUSED), message=GIVEN_BACK, fingerprint="", **changes)


CONFIGURATION = {"blame": Blame.CONFIGURATION, "category": Category.INTEGRATION}


@each_row(
    ("failures", "tried", "free"),
    [
        ((), None, False),
        ((given_back(attempt=3),), None, True),
        ((given_back(attempt=3), given_back(attempt=3, receive=2)), 2, True),
        ((given_back(attempt=3), failed(attempt=3, receive=2)), 3, False),
        # The receive that was tried is no longer in the row.
        ((given_back(attempt=3), given_back(attempt=3, receive=2)), 3, False),
        ((failed(attempt=3, **CONFIGURATION),), None, True),
        ((failed(attempt=3, http_status=503),), None, False),
        # Of another life.
        ((given_back(attempt=2),), None, False),
    ],
)
def test_a_life_in_which_the_letter_was_not_tried_uses_no_attempt(
    failures: tuple[Failure, ...], tried: int | None, free: bool
) -> None:
    row = LedgerRow(failures, tried=tried)
    case = replace(PLAIN_CASE, row=row, stamp=replace(PLAIN_CASE.stamp, attempt=3))
    assert isinstance(judge(case), Redrive) is free


def test_backoff_goes_on_through_lives_that_use_no_attempt() -> None:
    policy = RetryPolicy(Backoff(base=10, factor=2, cap=900, floor=10), max_attempts=3)
    stamp = replace(PLAIN_CASE.stamp, attempt=5, base=5)
    case = pipelined(replace(PLAIN_CASE, stamp=stamp, row=LedgerRow((given_back(attempt=5),))))
    longest = policy.backoff.ceiling(6)
    delays = {
        judge(pipelined(replace(case, random=Random(seed)), policy=policy)).delay  # type: ignore[union-attr]
        for seed in range(200)
    }
    assert longest / 2 < max(delays) <= longest


@each_row(("alike", "lives", "parks"), [(0, 2, False), (2, 2, False), (3, 2, True), (3, 1, False)])
def test_two_lives_are_enough_for_each_letter_of_a_row_of_poison(
    alike: int, lives: int, parks: bool
) -> None:
    failures = tuple(failed(attempt=number) for number in range(lives))
    case = replace(PLAIN_CASE, row=LedgerRow(failures), alike=alike)
    assert isinstance(judge(case), Park) is parks
    # Others in the row are no reason to park a letter that failed otherwise, or by no fault.
    others = tuple(replace(failure, fingerprint="f2") for failure in failures)
    mixed = LedgerRow((*others, replace(failed(attempt=lives), at=NOW)))
    assert not isinstance(judge(replace(case, row=mixed)), Park)
    excused = tuple(failed(attempt=n, blame=Blame.DEPENDENCY) for n in range(lives))
    assert not isinstance(judge(replace(case, row=LedgerRow(excused))), Park)
    held = Causes(holds={"f1": CauseHold(NOW - 60, NOW + 60)})
    assert not isinstance(judge(replace(case, causes=held)), Park)


def test_a_pipeline_that_parks_poison_earlier_does_so_in_a_row_too() -> None:
    case = replace(PLAIN_CASE, row=LedgerRow((failed(),)), alike=3)
    assert isinstance(judge(pipelined(case, poison_lives=1)), Park)


def test_a_letter_whose_lives_were_never_tried_is_not_silent() -> None:
    stamp = replace(PLAIN_CASE.stamp, attempt=2, base=2)
    case = pipelined(replace(PLAIN_CASE, stamp=stamp, row=LedgerRow()), consumer_library=True)
    assert isinstance(judge(case), Redrive)


DOMINATES = "its cause suddenly dominates, again after"


def test_a_letter_whose_cause_dominates_is_tried_again_and_again_and_uses_no_attempt() -> None:
    case = schema_failed(PLAIN_CASE)
    causes = Causes(holds={"other": CauseHold(NOW - 60, NOW + 60)})
    held = replace(case, causes=causes, stamp=replace(case.stamp, attempt=0))
    delays = set()
    for seed in range(50):
        decision = judge(replace(held, random=Random(seed)))
        assert isinstance(decision, Redrive)
        delays.add(decision.delay)
        # It failed a minute ago.
        assert decision.because == f"no attempt used, {DOMINATES} {decision.delay + 60} s"
    assert 90 <= min(delays) < 100 < 140 < max(delays) <= 150
    # It was still in the DLQ when the hold ended.
    assert judge(replace(held, now=NOW + 60)) == Redrive(0, "no attempt used, backoff of 100 s")
    later = failed(category=Category.SCHEMA, fingerprint="other", at=NOW + 61)
    fails_again = replace(held, now=NOW + 90, row=LedgerRow((later,)))
    assert judge(fails_again) == Park(
        Reason.PERMANENT,
        "last failure was of category schema; it last failed with KeyError",
        category="schema",
    )


@each_row("category", [Category.SCHEMA, Category.TRANSIENT])
@each_row("at", [NOW - 1, NOW - 5_000])
def test_no_letter_is_parked_while_its_cause_dominates(category: Category, at: float) -> None:
    """Whenever it failed, and however often: all its attempts are used."""
    lives = tuple(failed(attempt=number, at=at, category=category) for number in range(4))
    case = replace(used_up(PLAIN_CASE), row=LedgerRow(lives))
    assert isinstance(judge(case), Park)
    held = replace(case, causes=Causes(holds={"f1": CauseHold(NOW - 60, NOW + 60)}))
    assert isinstance(judge(held), Redrive)
    assert isinstance(judge(pipelined(replace(held, now=NOW + 59), fifo=True)), Hold | Redrive)


@pytest.mark.parametrize(
    "change", [{"blame": Blame.DEPENDENCY}, {"blame": Blame.CONFIGURATION}, {"fingerprint": "x"}]
)
def test_only_letters_whose_last_failure_is_the_cause_are_spared(change: dict[str, Any]) -> None:
    case = suddenly(PLAIN_CASE)
    last = failed(category=Category.SCHEMA, **change)
    decision = judge(replace(case, row=LedgerRow((*case.row.failures, last))))
    assert DOMINATES not in decision.because


def test_a_letter_that_may_succeed_goes_back_as_one_that_may_not_while_its_cause_dominates() -> (
    None
):
    case = suddenly(PLAIN_CASE)
    row = replace(PLAIN_CASE.row, failures=tuple(failed(attempt=n, at=NOW) for n in range(3)))
    decision = judge(replace(case, row=row))
    assert isinstance(decision, Redrive)
    assert decision.because.startswith(f"attempt 2, {DOMINATES}")
    free = judge(replace(case, row=row, stamp=replace(case.stamp, attempt=2)))
    assert free.because.startswith(f"no attempt used, {DOMINATES}")


def spared(case: Case) -> Case:
    """The case of a letter whose lives up to the last one failed for a cause that dominated."""
    stamp = replace(case.stamp, attempt=3, spared=4)
    return replace(case, stamp=stamp, row=replace(case.row, failures=case.row.failures))


@pytest.mark.parametrize("make", [schema_failed, poisonous, used_up], ids=name)
def test_what_failed_while_its_cause_dominated_is_tried_once_more(
    make: Callable[[Case], Case],
) -> None:
    case = make(PLAIN_CASE)
    assert isinstance(judge(case), Park)
    tried_again = judge(spared(case))
    assert isinstance(tried_again, Redrive)
    assert tried_again.because == "no attempt used, backoff of 100 s"


def test_a_letter_that_fails_once_more_after_it_was_spared_is_parked_as_ever() -> None:
    last = failed(category=Category.SCHEMA, fingerprint="bad", attempt=4)
    case = spared(replace(PLAIN_CASE, row=LedgerRow((failed(attempt=3), last))))
    case = replace(case, stamp=replace(case.stamp, attempt=4, base=4))
    assert judge(case) == Park(
        Reason.PERMANENT,
        "last failure was of category schema; it last failed with KeyError",
        category="schema",
    )
