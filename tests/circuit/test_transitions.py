"""What each event makes of a circuit, and what it cannot make of it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.circuit.state import Circuit, CircuitPolicy, Override, Pause, Permit, State
from deadletter.circuit.transitions import (
    CLOCK_SKEW,
    SHORTEST_COOLDOWN,
    CanaryAnswered,
    CanaryLost,
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
    bounces,
    transition,
)

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
    found = after(circuit, event, now, policy)
    assert isinstance(found, Circuit), found
    return found


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
    def test_enough_failures_in_the_window_open_it(self) -> None:
        policy = replace(POLICY, consecutive=0)
        circuit = become(CLOSED, Reported(10, 9), NOW, policy)
        assert circuit.is_closed
        opened = become(circuit, Reported(0, 1), NOW + 5, policy)
        assert opened.state is State.OPEN
        assert opened.opened_at == opened.started == NOW + 5

    def test_a_few_failures_are_too_few_whatever_their_rate(self) -> None:
        policy = replace(POLICY, consecutive=0)
        assert become(CLOSED, Reported(0, POLICY.minimum - 1), NOW, policy).is_closed

    def test_failures_that_have_left_the_window_do_not_open_it(self) -> None:
        policy = replace(POLICY, consecutive=0)
        circuit = become(CLOSED, Reported(0, 19), NOW, policy)
        assert become(circuit, Reported(0, 19), NOW + 2 * POLICY.window, policy).is_closed

    def test_failures_in_a_row_open_it_however_few_others_there_were(self) -> None:
        circuit = become(CLOSED, Reported(100, 0))
        assert become(circuit, Reported(0, 9)).is_closed
        assert become(become(circuit, Reported(0, 9)), Reported(0, 1)).state is State.OPEN

    def test_nothing_but_good_outcomes_never_opens_it(self) -> None:
        strict = CircuitPolicy(failure_rate=0.0, minimum=0)
        assert become(CLOSED, Reported(5, 0), NOW, strict).is_closed

    def test_what_stands_in_the_circuit_can_be_judged_without_a_new_outcome(self) -> None:
        assert after(CLOSED, Reported()) is Refusal.HEALTHY
        assert become(CLOSED.counted(0, 10, POLICY, NOW), Reported()).state is State.OPEN

    def test_an_open_circuit_does_not_trip_again(self) -> None:
        assert after(OPEN, Tripped()) is Refusal.NOT_CLOSED
        assert become(OPEN, Reported(0, 50)).generation == OPEN.generation

    def test_a_trip_begins_an_outage_that_its_generation_names(self) -> None:
        assert OPEN.outage == OPEN.generation == CLOSED.generation + 1
        assert OPEN.restart == 0

    def test_a_circuit_that_opens_soon_after_it_closed_stays_open_longer(self) -> None:
        closed = replace(OPEN, state=State.CLOSED, closed_at=NOW, cooldown=80.0, trips=3)
        soon = become(closed, Tripped(), NOW + POLICY.settle - 1)
        assert (soon.cooldown, soon.trips) == (160.0, 4)
        settled = become(closed, Tripped(), NOW + POLICY.settle)
        assert (settled.cooldown, settled.trips) == (POLICY.cooldown, 1)


class TestBounces:
    def test_letters_that_come_back_are_failures_of_what_was_sent(self) -> None:
        assert bounces(100, 30, POLICY) == (70, 30)
        assert bounces(0, 30, POLICY) == (0, 30)

    def test_a_handful_of_poisonous_letters_opens_no_circuit(self) -> None:
        assert bounces(0, POLICY.minimum - 1, POLICY) == (0, 0)


class TestPermit:
    def test_nobody_probes_before_the_cooldown_is_over(self) -> None:
        assert after(OPEN, PermitTaken("me"), OPEN.open_until - 0.1) is Refusal.COOLING

    def test_nobody_probes_a_closed_circuit(self) -> None:
        assert after(CLOSED, PermitTaken("me")) is Refusal.NOT_OPEN

    def test_one_gets_the_permit_and_has_it_for_the_lease(self) -> None:
        assert HALF_OPEN.state is State.HALF_OPEN
        assert HALF_OPEN.permit == Permit("me", LATER + POLICY.lease)
        assert HALF_OPEN.generation == OPEN.generation + 1

    def test_more_calls_than_permitted_at_the_transition_are_refused(self) -> None:
        """resilience4j #1432: who arrives while it is half open."""
        for owner in ("you", "him", "her"):
            assert after(HALF_OPEN, PermitTaken(owner), LATER) is Refusal.PERMIT_TAKEN

    def test_the_owner_himself_gets_no_second_permit(self) -> None:
        """A prober that is started again does not know whether its first canary still runs."""
        assert after(HALF_OPEN, PermitTaken("me"), LATER + 1) is Refusal.PERMIT_TAKEN

    def test_a_lease_is_over_for_others_only_when_it_is_by_every_clock(self) -> None:
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until
        assert after(HALF_OPEN, PermitTaken("you"), end + CLOCK_SKEW) is Refusal.PERMIT_TAKEN
        assert (
            after(HALF_OPEN, CanaryLost(HALF_OPEN.generation), end + CLOCK_SKEW)
            is Refusal.PERMIT_TAKEN
        )
        assert after(HALF_OPEN, PermitTaken("you"), end + CLOCK_SKEW + 1) is Refusal.LEASE_ENDED


class TestCanary:
    def test_two_successes_close_it_and_one_does_not(self) -> None:
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

    def test_a_neutral_outcome_gives_the_permit_back_and_judges_nothing(self) -> None:
        """resilience4j #544: the permit never returned on an ignored outcome."""
        once = become(HALF_OPEN, answer(CanaryVerdict.SUCCESS), LATER + 1)
        again = become(once, PermitTaken("you"), LATER + 2)
        neutral = become(again, answer(CanaryVerdict.NEUTRAL, again, "you"), LATER + 3)
        assert (neutral.state, neutral.permit, neutral.successes) == (State.HALF_OPEN, None, 1)
        assert become(neutral, PermitTaken("him"), LATER + 3).permit is not None

    def test_a_canary_that_never_answers_does_not_jam_the_circuit(self) -> None:
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

    @pytest.mark.parametrize("verdict", list(CanaryVerdict))
    def test_a_result_of_an_older_generation_changes_nothing(self, verdict: CanaryVerdict) -> None:
        assert HALF_OPEN.permit is not None
        end = HALF_OPEN.permit.until + CLOCK_SKEW + 1
        opened = become(HALF_OPEN, CanaryLost(HALF_OPEN.generation), end)
        again = become(opened, PermitTaken("you"), opened.open_until)
        for circuit in (CLOSED, OPEN, opened, again):
            assert after(circuit, answer(verdict), opened.open_until) is Refusal.STALE

    @pytest.mark.parametrize("verdict", list(CanaryVerdict))
    def test_a_result_of_another_owner_changes_nothing(self, verdict: CanaryVerdict) -> None:
        assert after(HALF_OPEN, answer(verdict, owner="you"), LATER) is Refusal.NOT_OWNER

    def test_cooldowns_grow_and_never_pass_the_cap(self) -> None:
        circuit, now, waits = OPEN, NOW, [OPEN.open_until - NOW]
        for number in range(12):
            now = circuit.open_until
            circuit = become(circuit, PermitTaken(f"{number}"), now)
            verdict = answer(CanaryVerdict.FAILURE, circuit, f"{number}")
            found = transition(circuit, verdict, POLICY, now, Random(number))
            assert isinstance(found, Circuit)
            circuit = found
            waits.append(circuit.open_until - now)
        growing = [wait for wait in waits if wait < POLICY.cooldown_cap * SHORTEST_COOLDOWN]
        assert growing == sorted(growing)
        assert len(set(waits)) == len(waits), "jitter"
        assert all(wait <= POLICY.cooldown_cap for wait in waits)
        assert min(waits[-3:]) >= POLICY.cooldown_cap * SHORTEST_COOLDOWN


class TestRestart:
    @pytest.mark.parametrize("circuit", [OPEN, HALF_OPEN], ids=lambda one: str(one.state))
    def test_a_restart_neither_resets_nor_postpones_the_state(self, circuit: Circuit) -> None:
        """pybreaker #24, #26, #36."""
        lost = ExecutionLost(circuit.generation, circuit.restart)
        again = become(circuit, lost, NOW + 500)
        assert again == replace(circuit, restart=circuit.restart + 1, started=NOW + 500)

    def test_two_sweeps_restart_once(self) -> None:
        lost = ExecutionLost(OPEN.generation, OPEN.restart)
        assert after(become(OPEN, lost), lost) is Refusal.STALE

    def test_a_circuit_that_moved_meanwhile_has_somebody_who_runs_it(self) -> None:
        assert after(HALF_OPEN, ExecutionLost(OPEN.generation, OPEN.restart)) is Refusal.STALE

    def test_a_closed_circuit_has_nothing_to_run(self) -> None:
        assert after(CLOSED, ExecutionLost(CLOSED.generation, 0)) is Refusal.NOT_OPEN


class TestForce:
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

    def test_a_canary_on_its_way_changes_nothing_once_a_person_has_spoken(self) -> None:
        for state in (State.OPEN, State.CLOSED):
            held = become(HALF_OPEN, hold(state), LATER + 1)
            assert held.permit is None
            assert after(held, answer(CanaryVerdict.SUCCESS), LATER + 2) is Refusal.STALE
            assert after(held, answer(CanaryVerdict.FAILURE), LATER + 2) is Refusal.STALE

    def test_an_expiry_that_has_passed_is_none(self) -> None:
        assert after(CLOSED, hold(State.OPEN, NOW)) is Refusal.EXPIRED

    def test_a_circuit_left_to_itself_is_tried_at_once(self) -> None:
        released = become(become(CLOSED, hold(State.OPEN)), OverrideEnded(), NOW + 60)
        assert (released.state, released.open_until) == (State.OPEN, NOW + 60)
        assert become(released, PermitTaken("me"), NOW + 60).state is State.HALF_OPEN
        assert become(become(OPEN, hold(State.CLOSED)), OverrideEnded()).is_closed
        assert after(OPEN, OverrideEnded()) is Refusal.NOT_FORCED

    def test_a_persons_word_takes_the_outage_from_an_execution_that_may_sleep(
        self,
    ) -> None:
        held = become(CLOSED, hold(State.OPEN))
        for event in (OverrideEnded(), hold(State.CLOSED), hold(State.OPEN)):
            spoken = become(held, event, NOW + 60)
            assert spoken.restart == held.restart + 1
            assert spoken.started == 0.0

    def test_forcing_open_twice_stays_one_outage(self) -> None:
        held = become(OPEN, hold(State.OPEN))
        assert (held.outage, held.opened_at) == (OPEN.outage, OPEN.opened_at)

    def test_a_circuit_that_was_closed_all_along_does_not_ramp_when_it_is_held_closed(self) -> None:
        assert become(CLOSED, hold(State.CLOSED)).admitted_share(POLICY, NOW) == 1.0


class TestUnreadable:
    GARBAGE = Circuit("orders", State.OPEN, unreadable=True)

    @pytest.mark.parametrize(
        "event",
        [
            *(Reported(0, 99), Tripped(), PermitTaken("me"), CanaryLost(0), ExecutionLost(0, 0)),
            *(answer(CanaryVerdict.SUCCESS), MappingPaused("m", None), MappingPutBack("m")),
        ],
        ids=lambda one: type(one).__name__,
    )
    def test_nothing_but_a_person_changes_what_nobody_understands(self, event: Event) -> None:
        assert after(self.GARBAGE, event) is Refusal.UNREADABLE

    def test_a_person_can_begin_it_anew_and_nothing_old_fits_into_it(self) -> None:
        closed = become(self.GARBAGE, hold(State.CLOSED))
        assert closed.is_closed
        assert not closed.unreadable
        assert closed.generation > 1_000_000_000
        released = become(self.GARBAGE, OverrideEnded())
        assert (released.state, released.open_until) == (State.OPEN, NOW)


class TestMapping:
    def test_what_is_changed_stands_in_the_circuit_until_it_is_put_back(self) -> None:
        paused = become(OPEN, MappingPaused("m", 20))
        assert paused.paused == Pause("m", 20, NOW)
        assert paused.generation == OPEN.generation
        assert after(paused, MappingPutBack("m")) is Refusal.NOT_CLOSED
        closed = become(paused, hold(State.CLOSED))
        assert closed.paused == Pause("m", 20, NOW)
        assert become(closed, MappingPutBack("m")).paused is None

    def test_what_it_was_like_is_written_down_the_first_time(self) -> None:
        paused = become(OPEN, MappingPaused("m", 20))
        assert become(paused, MappingPaused("m", 2), NOW + 60) is paused
        assert after(paused, MappingPaused("another", 2)) is Refusal.ANOTHER_MAPPING

    def test_the_consumer_of_a_closed_circuit_is_not_paused(self) -> None:
        assert after(CLOSED, MappingPaused("m", None)) is Refusal.NOT_OPEN

    def test_putting_back_what_has_been_put_back_does_nothing(self) -> None:
        assert after(CLOSED, MappingPutBack("m")) is CLOSED
        paused = replace(CLOSED, paused=Pause("m", None, NOW))
        assert after(paused, MappingPutBack("another")) is Refusal.ANOTHER_MAPPING


def events() -> st.SearchStrategy[Callable[[Circuit], Event]]:
    """Events as they come, some of them fitting the circuit that they meet."""

    def fitting(verdict: CanaryVerdict) -> Callable[[Circuit], Event]:
        return lambda one: CanaryAnswered(
            one.generation, one.permit.owner if one.permit else "", verdict
        )

    always: list[Event] = [
        *(Reported(1, 0), Reported(0, 6), Tripped(), PermitTaken("me"), OverrideEnded()),
        *(
            CanaryAnswered(3, "me", CanaryVerdict.SUCCESS),
            MappingPaused("m", None),
            MappingPutBack("m"),
        ),
        *(hold(State.OPEN), hold(State.CLOSED)),
    ]
    return st.one_of(
        st.sampled_from([lambda one, event=event: event for event in always]),
        st.sampled_from([fitting(verdict) for verdict in CanaryVerdict]),
        st.just(lambda one: CanaryLost(one.generation)),
        st.just(lambda one: ExecutionLost(one.generation, one.restart)),
    )


@given(st.lists(st.tuples(events(), st.floats(0, 400)), max_size=30), st.integers())
def test_whatever_happens_a_circuit_keeps_its_promises(
    steps: list[tuple[Callable[[Circuit], Event], float]], seed: int
) -> None:
    circuit, now, random = Circuit("orders"), NOW, Random(seed)
    for make, seconds in steps:
        now += seconds
        event = make(circuit)
        found = transition(circuit, event, POLICY, now, random)
        if isinstance(found, Refusal):
            continue
        assert found.generation in (circuit.generation, circuit.generation + 1)
        assert found.state is circuit.state or found.generation > circuit.generation
        assert (found.permit is not None) <= (found.state is State.HALF_OPEN)
        assert 0 <= found.successes < POLICY.successes
        assert found.cooldown <= POLICY.cooldown_cap
        if found.permit not in (None, circuit.permit):
            assert circuit.permit is None
            assert now >= circuit.open_until
        if found.is_closed and not circuit.is_closed and not isinstance(event, OverrideBegun):
            assert circuit.successes == POLICY.successes - 1
        circuit = found
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
