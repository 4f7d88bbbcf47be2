"""Each event, the circuit that it leads to, and the events that are refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.state import (
    NO_END,
    Circuit,
    CircuitPolicy,
    OutcomeBucket,
    Override,
    Pause,
    Permit,
    State,
)
from deadletter.circuit.transitions import (
    CLOCK_SKEW,
    SHORTEST_COOLDOWN,
    CanaryAnswered,
    CanaryLost,
    CanarySent,
    CanaryVerdict,
    Event,
    ExecutionLost,
    MappingPaused,
    MappingPutBack,
    OverrideBegun,
    OverrideEnded,
    PermitTaken,
    Refusal,
    Reported,
    Tripped,
    transition,
)
from deadletter.pace.pace import CallCount, CallPace, after_outage, calls_number
from tests.each_row import each_row

NOW = 1_800_000_000.0
POLICY = CircuitPolicy()
CLOSED = Circuit("orders", generation=4)


def after(
    circuit: Circuit, event: Event, now: float = NOW, policy: CircuitPolicy = POLICY
) -> object:
    return transition(circuit, event, policy, now, Random(1))


def become(
    circuit: Circuit, event: Event, now: float = NOW, policy: CircuitPolicy = POLICY
) -> Circuit:
    result = after(circuit, event, now, policy)
    assert isinstance(result, Circuit), result
    return result


OPEN = become(CLOSED, Tripped())
HALF_OPEN = become(OPEN, PermitTaken("me"), OPEN.open_until)
LATER = OPEN.open_until


def answer(
    verdict: CanaryVerdict, circuit: Circuit = HALF_OPEN, owner: str = "me"
) -> CanaryAnswered:
    return CanaryAnswered(circuit.generation, owner, verdict)


def hold(state: State, until: float = NOW + 3_600) -> OverrideBegun:
    return OverrideBegun(Override(state, "ada", "maintenance", until))


class TestTripping:
    def test_enough_failures_in_the_window_open_a_circuit(self) -> None:
        policy = replace(POLICY, consecutive=0)
        circuit = become(CLOSED, Reported(10, 9), NOW, policy)
        assert circuit.is_closed
        opened = become(circuit, Reported(0, 1), NOW + 5, policy)
        assert opened.state is State.OPEN
        assert opened.opened_at == opened.started == NOW + 5

    def test_fewer_failures_than_the_minimum_do_not_open_it_at_any_rate(self) -> None:
        policy = replace(POLICY, consecutive=0)
        assert become(CLOSED, Reported(0, POLICY.minimum - 1), NOW, policy).is_closed

    def test_failures_that_have_left_the_window_do_not_open_it(self) -> None:
        policy = replace(POLICY, consecutive=0)
        circuit = become(CLOSED, Reported(0, 19), NOW, policy)
        assert become(circuit, Reported(0, 19), NOW + 2 * POLICY.window, policy).is_closed

    def test_consecutive_failures_open_it_below_the_minimum(self) -> None:
        circuit = become(CLOSED, Reported(100, 0))
        assert become(circuit, Reported(0, 9)).is_closed
        assert become(become(circuit, Reported(0, 9)), Reported(0, 1)).state is State.OPEN

    def test_good_outcomes_never_open_it(self) -> None:
        strict = CircuitPolicy(failure_rate=0.0, minimum=0)
        assert become(CLOSED, Reported(5, 0), NOW, strict).is_closed

    def test_the_counts_in_a_circuit_can_be_judged_without_a_new_outcome(self) -> None:
        assert after(CLOSED, Reported()) is Refusal.HEALTHY
        assert become(CLOSED.with_outcomes(0, 10, POLICY, NOW), Reported()).state is State.OPEN

    def test_an_open_circuit_does_not_trip_again(self) -> None:
        assert after(OPEN, Tripped()) is Refusal.NOT_CLOSED
        assert become(OPEN, Reported(0, 50)).generation == OPEN.generation

    def test_a_trip_begins_an_outage_named_by_its_generation(self) -> None:
        assert OPEN.outage == OPEN.generation == CLOSED.generation + 1
        assert OPEN.restart == 0

    def test_a_circuit_that_opens_soon_after_it_closed_stays_open_longer(self) -> None:
        closed = replace(OPEN, state=State.CLOSED, closed_at=NOW, cooldown=20.0, trips=3)
        soon = become(closed, Tripped(), NOW + POLICY.settle - 1)
        assert (soon.cooldown, soon.trips) == (40.0, 4)
        settled = become(closed, Tripped(), NOW + POLICY.settle)
        assert (settled.cooldown, settled.trips) == (POLICY.cooldown, 1)

    @pytest.mark.parametrize(
        ("good", "bad", "before", "because"),
        [
            (9, 11, CLOSED, "11 of 20 calls failed in 120 s"),
            (0, 10, CLOSED, "10 of 10 calls failed in 120 s, 10 failed in a row"),
        ],
    )
    def test_it_says_what_has_opened_it(
        self, good: int, bad: int, before: Circuit, because: str
    ) -> None:
        assert become(before, Reported(good, bad)).because == because

    def test_it_says_who_opened_it_also_when_the_override_has_ended(self) -> None:
        free = become(become(CLOSED, hold(State.OPEN)), OverrideEnded())
        assert (free.state, free.because) == (State.OPEN, "ada opened it: maintenance")

    def test_an_override_of_an_open_circuit_leaves_why_it_opened(self) -> None:
        opened = become(CLOSED, Reported(9, 11))
        assert become(opened, hold(State.OPEN)).because == opened.because

    def test_the_next_outage_has_a_reason_of_its_own(self) -> None:
        closed = become(become(CLOSED, hold(State.OPEN)), hold(State.CLOSED))
        again = become(become(closed, OverrideEnded()), Reported(9, 11), NOW + 5)
        assert again.because == "11 of 20 calls failed in 120 s"


def window(**fields: Any) -> Circuit:
    """A closed circuit with one bucket."""
    return replace(CLOSED, buckets=(OutcomeBucket(POLICY.bucket_of(NOW), **fields),))


def tenants(*names: int) -> frozenset[int]:
    return frozenset(names)


FAST = CallPace(limit=6.0, normal=7.0, since=NOW, changed=NOW, cap=12.0)


class TestTenants:
    """One tenant's failures do not open the circuit of all."""

    @each_row(
        ("failing", "succeeding", "opens"),
        [
            # Unknown.
            ((), (), True),
            ((), (1, 2, 3), True),
            # The only tenants there are.
            ((1,), (), True),
            ((1,), (1,), True),
            ((1, 2), (1, 2), True),
            # Few of many.
            ((1,), (2,), False),
            ((1,), (1, 2), False),
            ((1, 2), (3, 4, 5), False),
            ((1, 2), (3,), False),
            # Three, but fewer than half.
            ((1, 2, 3), (4, 5, 6, 7), False),
            # Three, and half.
            ((1, 2, 3), (4, 5, 6), True),
            ((1, 2, 3), (1, 2, 3, 4, 5, 6), True),
        ],
    )
    def test_a_rate_opens_it_only_if_at_least_half_of_the_tenants_fail_and_three(
        self, failing: tuple[int, ...], succeeding: tuple[int, ...], opens: bool
    ) -> None:
        circuit = window(
            good=10, bad=20, good_tenants=tenants(*succeeding), bad_tenants=tenants(*failing)
        )
        outcome = after(circuit, Reported())
        assert outcome is not Refusal.HEALTHY if opens else outcome is Refusal.HEALTHY

    @each_row(
        ("failing", "succeeding", "opens"),
        [
            ((), (1, 2, 3), True),
            ((1,), (), True),
            ((1,), (1,), True),
            ((1,), (2,), False),
            ((1, 2), (3,), False),
            ((1, 2), (1, 2), True),
            ((1, 2, 3), tuple(range(4, 7)), True),
            ((1, 2, 3), tuple(range(4, 20)), False),
        ],
    )
    def test_failures_in_a_row_open_it_only_if_they_are_three_tenants(
        self, failing: tuple[int, ...], succeeding: tuple[int, ...], opens: bool
    ) -> None:
        circuit = window(
            good=100, bad=10, good_tenants=tenants(*succeeding), bad_tenants=tenants(*failing)
        )
        circuit = replace(circuit, streak=10, streak_tenants=tenants(*failing))
        outcome = after(circuit, Reported())
        assert outcome is not Refusal.HEALTHY if opens else outcome is Refusal.HEALTHY

    @each_row(
        ("failing", "before", "opens"),
        [
            # All at once, one after the other: the others had no turn to fail.
            (5, 0, True),
            (5, 9, True),
            (4, 0, False),
            # They fail for a while, and others do not: half of all.
            (5, 10, False),
            (10, 10, True),
        ],
    )
    def test_failures_in_a_row_are_asked_for_the_share_of_tenants_too(
        self, failing: int, before: int, opens: bool
    ) -> None:
        everybody = tenants(*range(20))
        circuit = window(
            good=90,
            bad=10 + before,
            good_tenants=everybody,
            bad_tenants=tenants(*range(failing)),
        )
        circuit = replace(circuit, streak=10, streak_tenants=tenants(1, 2, 3))
        outcome = after(circuit, Reported())
        assert outcome is not Refusal.HEALTHY if opens else outcome is Refusal.HEALTHY

    def test_tenants_seen_in_earlier_parts_of_the_window_count(self) -> None:
        number = POLICY.bucket_of(NOW)
        before = OutcomeBucket(number - 1, good=9, good_tenants=tenants(2, 3))
        present = OutcomeBucket(number, bad=20, bad_tenants=tenants(1))
        assert after(replace(CLOSED, buckets=(before, present)), Reported()) is Refusal.HEALTHY
        old = replace(before, number=number - 6)
        assert after(replace(CLOSED, buckets=(old, present)), Reported()) is not Refusal.HEALTHY

    def test_more_outcomes_leave_the_tenants_known(self) -> None:
        circuit = window(bad=1, bad_tenants=tenants(1), good_tenants=tenants(2))
        circuit = replace(circuit, streak=1, streak_tenants=tenants(1))
        circuit = become(circuit, Reported(0, 1))
        [bucket] = circuit.buckets
        assert (bucket.bad, bucket.bad_tenants, bucket.good_tenants) == (2, {1}, {2})
        assert circuit.streak_tenants == {1}
        assert become(circuit, Reported(1, 0)).streak_tenants == frozenset()

    def test_a_circuit_that_closes_forgets_them(self) -> None:
        half_open = replace(HALF_OPEN, successes=1, streak=9, streak_tenants=tenants(1))
        closed = become(half_open, answer(CanaryVerdict.SUCCESS, half_open), LATER)
        assert closed.is_closed
        assert closed.streak_tenants == frozenset()


class TestSlowCalls:
    def test_when_half_of_the_calls_are_slow_it_opens(self) -> None:
        assert become(window(good=20, slow=10), Reported()).state is State.OPEN
        assert become(window(good=12, bad=7, slow=10), Reported(0, 1)).state is State.OPEN
        assert after(window(good=20, slow=9), Reported()) is Refusal.HEALTHY

    def test_fewer_than_the_minimum_do_not(self) -> None:
        assert after(window(good=19, slow=19), Reported()) is Refusal.HEALTHY

    def test_one_slow_call_may_be_enough(self) -> None:
        policy = replace(POLICY, minimum=1, slow_call=1.0)
        assert become(window(good=1, slow=1), Reported(), NOW, policy).state is State.OPEN

    def test_the_share_is_that_of_failures(self) -> None:
        policy = replace(POLICY, failure_rate=0.25)
        assert become(window(good=20, slow=5), Reported(), NOW, policy).state is State.OPEN
        assert after(window(good=20, slow=4), Reported(), NOW, policy) is Refusal.HEALTHY

    def test_good_outcomes_that_are_not_slow_never_open_it(self) -> None:
        strict = replace(POLICY, failure_rate=0.0)
        assert after(window(good=20), Reported(), NOW, strict) is Refusal.HEALTHY


class TestRate:
    """The successes per second before a trip, which are admitted when the circuit comes back."""

    def test_it_is_that_of_the_best_bucket_in_the_window(self) -> None:
        circuit = CLOSED
        for seconds, good in ((0, 40), (20, 100), (40, 60), (60, 1)):
            circuit = become(circuit, Reported(good, 0), NOW + seconds)
        assert become(circuit, Tripped(), NOW + 62).rate == 100 / POLICY.bucket

    def test_what_has_left_the_window_counts_no_longer(self) -> None:
        circuit = become(CLOSED, Reported(100, 0), NOW)
        circuit = become(circuit, Reported(20, 0), NOW + POLICY.window)
        assert become(circuit, Tripped(), NOW + POLICY.window).rate == 1.0

    def test_without_a_success_it_is_unknown(self) -> None:
        assert become(CLOSED, Reported(0, 50)).rate == 0
        assert (CLOSED.rate, CLOSED.pace) == (0, None)
        assert become(CLOSED, Tripped()).rate == 0

    def test_a_circuit_that_had_just_closed_keeps_the_higher_one(self) -> None:
        """It was still coming back, and a part of the rate succeeded."""
        back = replace(CLOSED, closed_at=NOW - 60, rate=5.0)
        back = become(back, Reported(40, 0))
        assert become(back, Tripped()).rate == 5.0
        assert become(become(back, Reported(160, 0)), Tripped()).rate == 10.0
        settled = replace(back, closed_at=NOW - POLICY.settle)
        assert become(settled, Tripped()).rate == 2.0

    def test_a_person_who_opens_a_circuit_leaves_its_rate_known(self) -> None:
        circuit = become(CLOSED, Reported(100, 0))
        assert become(circuit, hold(State.OPEN)).rate == 5.0
        # It was open before: nothing is known that is newer.
        assert become(replace(OPEN, rate=7.0), hold(State.OPEN)).rate == 7.0

    def test_a_circuit_that_closes_keeps_it_and_begins_a_pace(self) -> None:
        half_open = replace(HALF_OPEN, rate=7.0, calls=(CallCount(1, 9),), successes=1)
        closed = become(half_open, answer(CanaryVerdict.SUCCESS, half_open), LATER)
        assert closed.is_closed
        assert (closed.rate, closed.pace, closed.calls) == (
            7.0,
            after_outage(7.0, None, LATER),
            (),
        )

    def test_a_circuit_that_is_closed_by_hand_keeps_the_pace_it_has(self) -> None:
        pace = replace(after_outage(7.0, None, NOW) or FAST, limit=6.0)
        assert become(replace(CLOSED, pace=pace), hold(State.CLOSED)).pace == pace
        opened = become(replace(CLOSED, rate=7.0, pace=pace), hold(State.OPEN))
        assert opened.paced(NOW) is None
        again = become(opened, hold(State.CLOSED), LATER).pace
        assert again is not None
        assert (again.since, again.utat, again.turn) == (LATER, LATER, pace.turn + 1)

    def test_a_circuit_for_configuration_has_no_pace(self) -> None:
        half_open = replace(HALF_OPEN, key="orders#config", rate=7.0)
        assert become(half_open, answer(CanaryVerdict.SUCCESS, half_open), LATER).pace is None

    def test_the_rate_of_before_is_kept_while_it_is_paced(self) -> None:
        pace = replace(FAST, waited=NOW)
        circuit = replace(window(good=40), rate=7.0, pace=pace)
        assert become(circuit, Tripped()).rate == 7.0
        assert become(replace(circuit, pace=None), Tripped()).rate == 2.0


class TestPaced:
    """A circuit that is paced opens only if its dependency is dead."""

    @each_row(
        ("ok", "failed", "votes", "streak", "opens"),
        [
            # Half of the votes fail, and less than half of all calls.
            (21, 20, 20, 10, False),
            (20, 20, 20, 10, True),
            # Retries alone, which do not vote: twice as many in a row, whatever succeeded before.
            (40, 20, 0, 20, True),
            (40, 20, 0, 19, False),
            (1, 40, 0, 9, False),
        ],
    )
    def test_it_opens_if_half_of_its_last_calls_failed_or_many_in_a_row(
        self, ok: int, failed: int, votes: int, streak: int, opens: bool
    ) -> None:
        circuit = replace(
            window(bad=votes),
            streak=streak,
            pace=FAST,
            calls=(CallCount(calls_number(NOW), ok=ok, failed=failed),),
        )
        outcome = after(circuit, Reported())
        assert outcome is not Refusal.HEALTHY if opens else outcome is Refusal.HEALTHY


class TestConfiguration:
    """A circuit for configuration waits for a person."""

    def test_it_is_tried_once_a_minute_and_never_less_often(self) -> None:
        circuit = become(Circuit("orders#config"), Reported(0, 10))
        for _ in range(3):
            assert circuit.state is State.OPEN
            assert circuit.cooldown == 60
            now = circuit.open_until
            circuit = become(circuit, PermitTaken("me"), now)
            circuit = become(circuit, answer(CanaryVerdict.FAILURE, circuit), now)

    def test_one_success_closes_it(self) -> None:
        circuit = become(Circuit("orders#config"), Tripped())
        now = circuit.open_until
        circuit = become(circuit, PermitTaken("me"), now)
        assert become(circuit, answer(CanaryVerdict.SUCCESS, circuit), now).is_closed


class TestPermit:
    def test_no_permit_is_given_before_the_cooldown_is_over(self) -> None:
        assert after(OPEN, PermitTaken("me"), OPEN.open_until - 0.1) is Refusal.COOLING

    def test_a_closed_circuit_gives_no_permit(self) -> None:
        assert after(CLOSED, PermitTaken("me")) is Refusal.NOT_OPEN

    def test_one_prober_gets_the_permit_for_the_lease(self) -> None:
        assert HALF_OPEN.state is State.HALF_OPEN
        assert HALF_OPEN.permit == Permit("me", LATER + POLICY.lease)
        assert HALF_OPEN.generation == OPEN.generation + 1

    def test_further_probers_are_refused_while_it_is_half_open(self) -> None:
        """resilience4j #1432: more calls than permitted at the transition."""
        for owner in ("you", "him", "her"):
            assert after(HALF_OPEN, PermitTaken(owner), LATER) is Refusal.PERMIT_TAKEN

    def test_the_owner_gets_no_second_permit(self) -> None:
        """A restarted prober does not know whether its first canary still runs."""
        assert after(HALF_OPEN, PermitTaken("me"), LATER + 1) is Refusal.PERMIT_TAKEN

    def test_a_lease_is_over_for_others_only_by_every_machines_clock(self) -> None:
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until
        assert after(HALF_OPEN, PermitTaken("you"), end + CLOCK_SKEW) is Refusal.PERMIT_TAKEN
        assert (
            after(HALF_OPEN, CanaryLost(HALF_OPEN.generation), end + CLOCK_SKEW)
            is Refusal.PERMIT_TAKEN
        )
        assert after(HALF_OPEN, PermitTaken("you"), end + CLOCK_SKEW + 1) is Refusal.LEASE_ENDED


class TestCanary:
    def test_two_successes_close_it_and_a_single_one_does_not(self) -> None:
        """pybreaker #96: one success closing a flapping circuit."""
        once = become(HALF_OPEN, answer(CanaryVerdict.SUCCESS), LATER + 1)
        assert (once.state, once.successes, once.permit) == (State.HALF_OPEN, 1, None)
        again = become(once, PermitTaken("you"), LATER + 2)
        closed = become(again, answer(CanaryVerdict.SUCCESS, again, "you"), LATER + 3)
        assert closed.state is State.CLOSED
        assert closed.closed_at == LATER + 3
        assert closed.permit is None
        assert closed.buckets == ()
        assert closed.streak == closed.successes == 0

    @pytest.mark.parametrize("verdict", [CanaryVerdict.FAILURE, CanaryVerdict.NO_ANSWER])
    def test_any_failure_reopens_it_for_longer(self, verdict: CanaryVerdict) -> None:
        once = become(HALF_OPEN, answer(CanaryVerdict.SUCCESS), LATER + 1)
        again = become(once, PermitTaken("you"), LATER + 2)
        opened = become(again, answer(verdict, again, "you"), LATER + 3)
        assert (opened.state, opened.permit, opened.successes) == (State.OPEN, None, 0)
        assert opened.open_until - (LATER + 3) > OPEN.open_until - NOW
        assert (opened.outage, opened.restart) == (OPEN.outage, OPEN.restart)
        assert opened.opened_at == OPEN.opened_at

    def test_a_neutral_result_returns_the_permit_and_changes_no_count(self) -> None:
        """resilience4j #544: the permit never returned on an ignored outcome."""
        once = become(HALF_OPEN, answer(CanaryVerdict.SUCCESS), LATER + 1)
        again = become(once, PermitTaken("you"), LATER + 2)
        neutral = become(again, answer(CanaryVerdict.NEUTRAL, again, "you"), LATER + 3)
        assert (neutral.state, neutral.permit, neutral.successes) == (State.HALF_OPEN, None, 1)
        assert become(neutral, PermitTaken("him"), LATER + 3).permit is not None

    def test_a_canary_without_an_answer_does_not_block_the_circuit(self) -> None:
        """OmniRoute #13836, Hystrix #1621: six days in half open."""
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until + CLOCK_SKEW + 1
        opened = become(HALF_OPEN, CanaryLost(HALF_OPEN.generation), end)
        assert opened.state is State.OPEN
        assert opened.open_until > end
        assert become(opened, PermitTaken("you"), opened.open_until).state is State.HALF_OPEN

    def test_a_canary_is_lost_once(self) -> None:
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until + CLOCK_SKEW + 1
        opened = become(HALF_OPEN, CanaryLost(HALF_OPEN.generation), end)
        assert after(opened, CanaryLost(HALF_OPEN.generation), end) is Refusal.STALE

    @each_row("verdict", list(CanaryVerdict))
    def test_a_result_of_an_older_generation_changes_nothing(self, verdict: CanaryVerdict) -> None:
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until + CLOCK_SKEW + 1
        opened = become(HALF_OPEN, CanaryLost(HALF_OPEN.generation), end)
        again = become(opened, PermitTaken("you"), opened.open_until)
        for circuit in (CLOSED, OPEN, opened, again):
            assert after(circuit, answer(verdict), opened.open_until) is Refusal.STALE

    @each_row("verdict", list(CanaryVerdict))
    def test_a_result_of_another_owner_changes_nothing(self, verdict: CanaryVerdict) -> None:
        assert after(HALF_OPEN, answer(verdict, owner="you"), LATER) is Refusal.NOT_OWNER

    def test_cooldowns_grow_up_to_the_cap(self) -> None:
        circuit, now, waits = OPEN, NOW, [OPEN.open_until - NOW]
        for number in range(12):
            now = circuit.open_until
            circuit = become(circuit, PermitTaken(f"{number}"), now)
            verdict = answer(CanaryVerdict.FAILURE, circuit, f"{number}")
            result = transition(circuit, verdict, POLICY, now, Random(number))
            assert isinstance(result, Circuit)
            circuit = result
            waits.append(circuit.open_until - now)
        growing = [wait for wait in waits if wait < POLICY.cooldown_cap * SHORTEST_COOLDOWN]
        assert growing == sorted(growing)
        assert len(set(waits)) == len(waits), "jitter"
        assert all(wait <= POLICY.cooldown_cap for wait in waits)
        assert min(waits[-3:]) >= POLICY.cooldown_cap * SHORTEST_COOLDOWN

    def test_a_canary_that_will_be_sent_is_named_in_its_permit(self) -> None:
        sent = CanarySent(HALF_OPEN.generation, "me", "letter-7", 3)
        named = become(HALF_OPEN, sent, LATER + 1)
        assert HALF_OPEN.permit is not None
        assert named.permit == replace(
            HALF_OPEN.permit, origin="letter-7", attempt=3, sent_at=LATER + 1
        )
        assert replace(named, permit=HALF_OPEN.permit) == HALF_OPEN

    def test_a_canary_of_another_generation_or_owner_is_not_named(self) -> None:
        old = CanarySent(HALF_OPEN.generation - 1, "me", "letter-7", 3)
        assert after(HALF_OPEN, old, LATER) is Refusal.STALE
        other = CanarySent(HALF_OPEN.generation, "you", "letter-7", 3)
        assert after(HALF_OPEN, other, LATER) is Refusal.NOT_OWNER

    def test_the_answer_of_a_canary_without_a_permit_changes_nothing(self) -> None:
        returned = replace(HALF_OPEN, permit=None)
        assert after(returned, answer(CanaryVerdict.SUCCESS, returned), LATER) is Refusal.NOT_OWNER


class TestGeneration:
    """A change of state or permit is one generation: events of the one before are stale."""

    @each_row(
        ("circuit", "event"),
        [
            (CLOSED, Tripped()),
            (CLOSED, Reported(0, 100)),
            (CLOSED, hold(State.OPEN)),
            (CLOSED, hold(State.CLOSED)),
            (OPEN, PermitTaken("me")),
            (OPEN, hold(State.CLOSED, LATER + 60)),
            (OPEN, hold(State.OPEN, LATER + 60)),
            (HALF_OPEN, answer(CanaryVerdict.SUCCESS)),
            (replace(HALF_OPEN, successes=POLICY.successes - 1), answer(CanaryVerdict.SUCCESS)),
            (HALF_OPEN, answer(CanaryVerdict.NEUTRAL)),
            (HALF_OPEN, answer(CanaryVerdict.FAILURE)),
            (HALF_OPEN, hold(State.CLOSED, LATER + 60)),
            (become(CLOSED, hold(State.OPEN)), OverrideEnded()),
            (become(CLOSED, hold(State.CLOSED)), OverrideEnded()),
        ],
    )
    def test_a_change_is_the_next_generation(self, circuit: Circuit, event: Event) -> None:
        assert become(circuit, event, LATER).generation == circuit.generation + 1


class TestEdges:
    """The smallest counts that matter, and what a new circuit starts from."""

    def test_one_failure_opens_a_circuit_whose_policy_asks_for_one(self) -> None:
        rate = CircuitPolicy(minimum=1, consecutive=0)
        assert become(CLOSED, Reported(0, 1), NOW, rate).state is State.OPEN
        in_a_row = CircuitPolicy(minimum=100, consecutive=1)
        assert become(CLOSED, Reported(0, 1), NOW, in_a_row).state is State.OPEN

    def test_two_of_three_are_enough_for_a_rate_of_two_thirds_and_no_less(self) -> None:
        policy = CircuitPolicy(failure_rate=2 / 3, minimum=1, consecutive=0)
        assert become(CLOSED, Reported(1, 2), NOW, policy).state is State.OPEN
        assert become(CLOSED, Reported(2, 2), NOW, policy).is_closed

    def test_a_policy_without_a_minimum_needs_an_outcome_all_the_same(self) -> None:
        policy = CircuitPolicy(failure_rate=0.5, minimum=0, consecutive=0)
        assert after(CLOSED, Reported(0, 0), NOW, policy) is Refusal.HEALTHY

    def test_a_first_trip_starts_from_the_policys_cooldown(self) -> None:
        assert (OPEN.cooldown, OPEN.trips, OPEN.successes) == (POLICY.cooldown, 1, 0)
        assert NOW < OPEN.open_until <= NOW + POLICY.cooldown

    def test_a_circuit_that_closes_or_is_held_open_starts_without_successes(self) -> None:
        tried = replace(HALF_OPEN, successes=1)
        assert become(tried, hold(State.OPEN, LATER + 60), LATER).successes == 0
        assert become(tried, hold(State.CLOSED, LATER + 60), LATER).successes == 0

    def test_a_closed_circuit_has_no_time_until_which_it_is_open(self) -> None:
        assert become(OPEN, hold(State.CLOSED)).open_until == 0.0

    def test_the_execution_of_a_circuit_that_a_person_opens_is_not_started_yet(self) -> None:
        held = become(CLOSED, hold(State.OPEN))
        assert held.started == 0.0
        assert held.cooldown == POLICY.cooldown
        grown = replace(OPEN, cooldown=7 * POLICY.cooldown)
        assert become(grown, hold(State.OPEN)).cooldown == 7 * POLICY.cooldown

    def test_clocks_may_differ_by_ten_seconds_before_a_lease_is_over(self) -> None:
        """The simulator's clocks differ by five seconds each way."""
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until
        lost = CanaryLost(HALF_OPEN.generation)
        assert after(HALF_OPEN, lost, end + 10) is Refusal.PERMIT_TAKEN
        assert become(HALF_OPEN, lost, end + 10.1).state is State.OPEN


class TestRestart:
    @pytest.mark.parametrize("circuit", [OPEN, HALF_OPEN], ids=lambda circuit: str(circuit.state))
    def test_a_restart_neither_resets_nor_postpones_the_state(self, circuit: Circuit) -> None:
        """pybreaker #24, #26, #36."""
        lost = ExecutionLost(circuit.generation, circuit.restart)
        again = become(circuit, lost, NOW + 500)
        assert again == replace(circuit, restart=circuit.restart + 1, started=NOW + 500)

    def test_two_reports_of_one_lost_execution_restart_it_once(self) -> None:
        lost = ExecutionLost(OPEN.generation, OPEN.restart)
        assert after(become(OPEN, lost), lost) is Refusal.STALE

    def test_a_circuit_that_changed_meanwhile_is_not_restarted(self) -> None:
        assert after(HALF_OPEN, ExecutionLost(OPEN.generation, OPEN.restart)) is Refusal.STALE

    def test_a_closed_circuit_is_not_restarted(self) -> None:
        assert after(CLOSED, ExecutionLost(CLOSED.generation, 0)) is Refusal.NOT_OPEN


class TestOverride:
    def test_a_circuit_held_open_admits_no_canary_until_its_expiry(self) -> None:
        held = become(CLOSED, hold(State.OPEN))
        assert held.state is State.OPEN
        assert held.open_until == NOW + 3_600
        assert after(held, PermitTaken("me"), NOW + 3_599) is Refusal.FORCED
        canary = become(held, PermitTaken("me"), NOW + 3_600)
        assert (canary.state, canary.forced) == (State.HALF_OPEN, None)

    def test_a_circuit_held_closed_does_not_trip_until_its_expiry(self) -> None:
        held = become(OPEN, hold(State.CLOSED))
        assert held.is_closed
        assert after(held, Tripped(), NOW + 3_599) is Refusal.FORCED
        assert become(held, Reported(0, 100), NOW + 3_599).is_closed
        assert become(held, Tripped(), NOW + 3_600).state is State.OPEN

    def test_the_result_of_an_earlier_canary_does_not_end_an_override(self) -> None:
        for state in (State.OPEN, State.CLOSED):
            held = become(HALF_OPEN, hold(state), LATER + 1)
            assert held.permit is None
            assert after(held, answer(CanaryVerdict.SUCCESS), LATER + 2) is Refusal.STALE
            assert after(held, answer(CanaryVerdict.FAILURE), LATER + 2) is Refusal.STALE

    def test_a_circuit_held_open_without_an_end_is_held_until_a_person_ends_it(self) -> None:
        held = become(CLOSED, hold(State.OPEN, NO_END))
        for years in (1, 10, 100, 1_000):
            moment = NOW + years * 365 * 86_400
            assert held.is_forced(moment)
            assert after(held, PermitTaken("me"), moment) is Refusal.FORCED
        released = become(held, OverrideEnded(), NOW + 86_400)
        assert (released.forced, released.held_since) == (None, None)
        assert released.open_until == NOW + 86_400
        assert become(held, hold(State.CLOSED), NOW + 60).is_closed

    def test_a_circuit_held_closed_without_an_end_never_trips_and_ramps_as_ever(self) -> None:
        held = become(OPEN, hold(State.CLOSED, NO_END))
        for years in (1, 10, 100, 1_000):
            moment = NOW + years * 365 * 86_400
            assert become(held, Reported(0, 100), moment).is_closed
            assert after(held, Tripped(), moment) is Refusal.FORCED
        assert held.admitted_share(POLICY, NOW) == 0.2
        assert held.admitted_share(POLICY, NOW + POLICY.ramp) == 1.0

    def test_an_override_keeps_when_it_began(self) -> None:
        timed = become(CLOSED, hold(State.OPEN), NOW + 5)
        assert timed.forced is not None
        assert timed.forced.begun == NOW + 5
        assert timed.held_since is None
        endless = become(timed, hold(State.OPEN, NO_END), NOW + 60)
        assert endless.held_since == NOW + 60

    def test_an_override_with_a_past_expiry_is_refused(self) -> None:
        assert after(CLOSED, hold(State.OPEN, NOW)) is Refusal.EXPIRED

    @pytest.mark.parametrize("again", [False, True])
    def test_no_canary_is_sent_beside_one_that_was_under_way_before_the_override(
        self, again: bool
    ) -> None:
        """A person opens the circuit for a moment, while a canary waits for its answer."""
        half_open = become(OPEN, PermitTaken("a"), OPEN.open_until)
        assert half_open.permit is not None
        moment = OPEN.open_until + 1
        held = become(half_open, hold(State.OPEN), moment)
        if again:
            held = become(held, hold(State.OPEN, moment + 5), moment + 1)
        released = become(held, OverrideEnded(), moment + 2)
        ended = half_open.permit.until + CLOCK_SKEW
        for circuit in (released, held) if again else (released,):
            assert after(circuit, PermitTaken("b"), ended - 1) is Refusal.COOLING
            assert become(circuit, PermitTaken("b"), ended).state is State.HALF_OPEN

    def test_a_circuit_is_tried_at_once_when_its_override_ends(self) -> None:
        released = become(become(CLOSED, hold(State.OPEN)), OverrideEnded(), NOW + 60)
        assert (released.state, released.open_until) == (State.OPEN, NOW + 60)
        assert become(released, PermitTaken("me"), NOW + 60).state is State.HALF_OPEN
        assert become(become(OPEN, hold(State.CLOSED)), OverrideEnded()).is_closed
        assert after(OPEN, OverrideEnded()) is Refusal.NOT_FORCED

    def test_an_override_takes_the_outage_from_a_waiting_execution(
        self,
    ) -> None:
        held = become(CLOSED, hold(State.OPEN))
        for event in (OverrideEnded(), hold(State.CLOSED), hold(State.OPEN)):
            spoken = become(held, event, NOW + 60)
            assert spoken.restart == held.restart + 1
            assert spoken.started == 0.0

    def test_an_answer_about_another_circuit_closes_only_what_a_person_opened(self) -> None:
        released = become(become(CLOSED, hold(State.OPEN)), OverrideEnded(), NOW + 60)
        for opened, closes in ((released, True), (OPEN, False)):
            circuit = opened
            for owner in ("a", "b"):
                circuit = become(circuit, PermitTaken(owner), LATER + 60)
                word = answer(CanaryVerdict.ELSEWHERE, circuit, owner)
                circuit = become(circuit, word, LATER + 60)
                assert circuit.permit is None
            assert circuit.is_closed is closes
            assert not circuit.by_hand

    @pytest.mark.parametrize("verdict", [CanaryVerdict.FAILURE, CanaryVerdict.NO_ANSWER])
    def test_what_a_person_opened_is_an_outage_after_a_failed_canary(
        self, verdict: CanaryVerdict
    ) -> None:
        released = become(become(CLOSED, hold(State.OPEN)), OverrideEnded(), NOW + 60)
        assert released.by_hand
        half_open = become(released, PermitTaken("me"), NOW + 60)
        assert half_open.by_hand
        failed = become(half_open, answer(verdict, half_open), NOW + 61)
        assert (failed.state, failed.by_hand) == (State.OPEN, False)

    def test_a_person_who_holds_an_outage_open_has_not_opened_it(self) -> None:
        assert not become(OPEN, hold(State.OPEN)).by_hand
        assert not become(OPEN, hold(State.CLOSED)).by_hand
        closed = become(become(CLOSED, hold(State.OPEN)), hold(State.CLOSED), NOW + 5)
        assert not become(become(closed, OverrideEnded(), NOW + 6), Tripped(), NOW + 7).by_hand

    def test_two_overrides_to_open_are_one_outage(self) -> None:
        held = become(OPEN, hold(State.OPEN))
        assert (held.outage, held.opened_at) == (OPEN.outage, OPEN.opened_at)

    def test_an_override_to_closed_starts_no_ramp_if_the_circuit_was_closed(self) -> None:
        assert become(CLOSED, hold(State.CLOSED)).admitted_share(POLICY, NOW) == 1.0


class TestUnreadable:
    GARBAGE = Circuit("orders", State.OPEN, unreadable=True)

    @each_row(
        "event",
        [
            *(Reported(0, 99), Tripped(), PermitTaken("me"), CanaryLost(0), ExecutionLost(0, 0)),
            *(answer(CanaryVerdict.SUCCESS), MappingPaused("m", None), MappingPutBack("m")),
        ],
        ids=lambda event: type(event).__name__,
    )
    def test_only_a_person_changes_an_unreadable_circuit(self, event: Event) -> None:
        assert after(self.GARBAGE, event) is Refusal.UNREADABLE

    def test_an_override_replaces_an_unreadable_circuit_and_no_old_event_fits_it(self) -> None:
        closed = become(self.GARBAGE, hold(State.CLOSED))
        assert closed.is_closed
        assert not closed.unreadable
        assert closed.generation > 1_000_000_000
        released = become(self.GARBAGE, OverrideEnded())
        assert (released.state, released.open_until) == (State.OPEN, NOW)


class TestMapping:
    def test_a_pause_is_recorded_until_the_mapping_is_restored(self) -> None:
        paused = become(OPEN, MappingPaused("m", 20))
        assert paused.paused == Pause("m", 20, NOW)
        assert paused.generation == OPEN.generation
        assert after(paused, MappingPutBack("m")) is Refusal.NOT_CLOSED
        closed = become(paused, hold(State.CLOSED))
        assert closed.paused == Pause("m", 20, NOW)
        assert become(closed, MappingPutBack("m")).paused is None

    def test_the_first_record_of_a_mapping_is_kept(self) -> None:
        paused = become(OPEN, MappingPaused("m", 20))
        assert become(paused, MappingPaused("m", 2), NOW + 60) is paused
        assert after(paused, MappingPaused("another", 2)) is Refusal.ANOTHER_MAPPING

    def test_the_consumer_of_a_closed_circuit_is_not_paused(self) -> None:
        assert after(CLOSED, MappingPaused("m", None)) is Refusal.NOT_OPEN

    def test_restoring_a_restored_mapping_does_nothing(self) -> None:
        assert after(CLOSED, MappingPutBack("m")) is CLOSED
        paused = replace(CLOSED, paused=Pause("m", None, NOW))
        assert after(paused, MappingPutBack("another")) is Refusal.ANOTHER_MAPPING


def events() -> st.SearchStrategy[Callable[[Circuit], Event]]:
    """Random events; some of them fit the circuit that they are applied to."""

    def fitting(verdict: CanaryVerdict) -> Callable[[Circuit], Event]:
        return lambda circuit: CanaryAnswered(
            circuit.generation, circuit.permit.owner if circuit.permit else "", verdict
        )

    always: list[Event] = [
        *(Reported(1, 0), Reported(0, 6), Tripped(), PermitTaken("me"), OverrideEnded()),
        *(
            CanaryAnswered(3, "me", CanaryVerdict.SUCCESS),
            MappingPaused("m", None),
            MappingPutBack("m"),
        ),
        *(hold(State.OPEN), hold(State.CLOSED)),
        *(hold(State.OPEN, NO_END), hold(State.CLOSED, NO_END)),
    ]
    return st.one_of(
        st.sampled_from([lambda _circuit, event=event: event for event in always]),
        st.sampled_from([fitting(verdict) for verdict in CanaryVerdict]),
        st.just(lambda circuit: CanaryLost(circuit.generation)),
        st.just(lambda circuit: ExecutionLost(circuit.generation, circuit.restart)),
    )


@given(st.lists(st.tuples(events(), st.floats(0, 400)), max_size=30), st.integers())
def test_the_invariants_of_a_circuit_hold_after_any_events(
    steps: list[tuple[Callable[[Circuit], Event], float]], seed: int
) -> None:
    circuit, now, random = Circuit("orders"), NOW, Random(seed)
    for make, seconds in steps:
        now += seconds
        event = make(circuit)
        result = transition(circuit, event, POLICY, now, random)
        if isinstance(result, Refusal):
            continue
        assert result.generation in (circuit.generation, circuit.generation + 1)
        assert result.state is circuit.state or result.generation > circuit.generation
        assert (result.permit is not None) <= (result.state is State.HALF_OPEN)
        assert 0 <= result.successes < POLICY.successes
        assert result.cooldown <= POLICY.cooldown_cap
        if result.permit not in (None, circuit.permit):
            assert circuit.permit is None
            assert now >= circuit.open_until
        if result.is_closed and not circuit.is_closed and not isinstance(event, OverrideBegun):
            assert circuit.successes == POLICY.successes - 1
        circuit = result
    # However it has come to stand, it closes once the dependency answers.
    if not isinstance(transition(circuit, OverrideEnded(), POLICY, now, random), Refusal):
        circuit = become(circuit, OverrideEnded(), now)
    now = max(now, circuit.open_until)
    if circuit.permit is not None:
        now = circuit.permit.until + CLOCK_SKEW + 1
        circuit = become(circuit, CanaryLost(circuit.generation), now)
        now = circuit.open_until
    for number in range(POLICY.successes):
        if not circuit.is_closed:
            circuit = become(circuit, PermitTaken(f"{number}"), now)
            circuit = become(circuit, answer(CanaryVerdict.SUCCESS, circuit, f"{number}"), now)
    assert circuit.is_closed
