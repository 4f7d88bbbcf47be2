"""A drain that finds its rate, beside one at a fixed 50 letters a second, for the same consumer.

Both are played on the model of `downstream`: same letters, same delays, same breaker.
"""

from __future__ import annotations

import pytest

from deadletter.circuit.state import OutcomeCounts
from deadletter.pace import auto_rate
from deadletter.pace.auto_rate import AutoRate, Direction
from tests.scenarios import downstream
from tests.scenarios.downstream import BACKLOG, MOST, Downstream, Drain, drained
from tests.scenarios.figures import Figures

LETTERS = 150_000
MINUTE = 60

# More than any rate here.
ENOUGH = 2_000.0


def both(downstream: Downstream, letters: int = LETTERS, seed: int = 1) -> tuple[Drain, Drain]:
    """The drain at the fixed rate, and the one that finds its own."""
    fixed = drained(downstream, letters, auto=False, seed=seed)
    return fixed, drained(downstream, letters, auto=True, seed=seed)


def note(figures: Figures, case: str, fixed: Drain, auto: Drain) -> None:
    figures.least("auto against 50 a second: times faster", case, fixed.seconds / auto.seconds, "x")
    points = 100 * (auto.failure_share - fixed.failure_share)
    figures.worst("auto against 50 a second: more failures", case, points, "points")
    figures.worst("auto: longest main queue", case, auto.longest_queue, "messages")


def healthy() -> Downstream:
    return Downstream(works=lambda _: ENOUGH)


def brown_out(share: float, begins: int, lasts: int) -> Downstream:
    """A share of all calls fails for some minutes."""
    spell = range(begins * MINUTE, (begins + lasts) * MINUTE)
    return Downstream(
        works=lambda _: ENOUGH, fails=lambda second, _: share if second in spell else 0.0
    )


@pytest.mark.parametrize(
    "seed", [1, *(pytest.param(seed, marks=pytest.mark.nightly) for seed in (2, 3))]
)
def test_a_healthy_consumer_is_drained_five_times_faster(figures: Figures, seed: int) -> None:
    fixed, auto = both(healthy(), seed=seed)
    note(figures, "healthy", fixed, auto)
    assert fixed.seconds / auto.seconds >= 5
    assert (auto.failed, auto.opened) == (0, 0)
    assert max(rate.rate for rate in auto.rates) == MOST


def test_a_small_backlog_is_drained_faster_too(figures: Figures) -> None:
    fixed, auto = both(healthy(), 20_000)
    note(figures, "healthy, 20,000 letters", fixed, auto)
    assert fixed.seconds / auto.seconds >= 5


@pytest.mark.parametrize("works", [80, pytest.param(200, marks=pytest.mark.nightly)])
def test_a_slow_consumer_gets_about_what_it_works_off(figures: Figures, works: int) -> None:
    fixed, auto = both(Downstream(works=lambda _: works))
    note(figures, f"slow consumer: {works} a second", fixed, auto)
    assert fixed.seconds / auto.seconds >= 0.9 * works / 50
    assert auto.longest_queue < BACKLOG


def test_a_consumer_slower_than_the_first_rate_is_not_flooded(figures: Figures) -> None:
    fixed, auto = both(Downstream(works=lambda _: 20))
    note(figures, "slow consumer: 20 a second", fixed, auto)
    assert fixed.longest_queue > BACKLOG
    assert auto.longest_queue < BACKLOG / 5
    assert auto.seconds / fixed.seconds <= 1.05


@pytest.mark.nightly
@pytest.mark.parametrize("lasts", [3, 5, 10])
@pytest.mark.parametrize("begins", [2, 4, 5, 7])
@pytest.mark.parametrize("share", [0.1, 0.3])
def test_a_brown_out_fails_no_more_than_two_points_more(
    figures: Figures, share: float, begins: int, lasts: int
) -> None:
    fixed, auto = both(brown_out(share, begins, lasts))
    note(figures, f"brown-out: {share:.0%} fail", fixed, auto)
    assert auto.failure_share - fixed.failure_share <= 0.02
    assert fixed.seconds / auto.seconds >= 1.5


def test_in_a_brown_out_the_rate_falls_and_says_why() -> None:
    auto = drained(brown_out(0.3, 5, 10), LETTERS, auto=True)
    [first] = [rate for rate in auto.rates if rate.direction is Direction.FALLEN][:1]
    assert first.looked_at <= 5 * MINUTE + 2 * auto_rate.LOOK_SECONDS
    assert first.because.startswith("failures ")
    within = [rate for rate in auto.rates if 7 * MINUTE < rate.looked_at < 15 * MINUTE]
    assert {rate.rate for rate in within} == {auto_rate.LEAST_RATE}
    # And it comes back.
    assert auto.rates[-1].rate > 200


def serves(calls_a_second: int) -> Downstream:
    """It serves so many calls a second and answers 503 to the rest."""
    return Downstream(lambda _: ENOUGH, fails=lambda _, calls: max(0, 1 - calls_a_second / calls))


@pytest.mark.parametrize(
    ("most", "faster"),
    [
        (70, 1.1),
        *(pytest.param(*pair, marks=pytest.mark.nightly) for pair in ((100, 1.4), (150, 1.8))),
        (400, 4),
    ],
)
def test_a_dependency_that_fails_what_is_too_much_is_found_out_in_time(
    figures: Figures, most: int, faster: float
) -> None:
    fixed, auto = both(serves(most))
    note(figures, f"serves {most} a second, fails the rest", fixed, auto)
    assert auto.failure_share - fixed.failure_share <= 0.02
    assert fixed.seconds / auto.seconds >= faster


def breaks_down(to: int, begins: int) -> Downstream:
    """It bears everything, and from a second on, for five minutes, so many calls a second."""
    spell = range(begins, begins + 5 * MINUTE)
    return Downstream(
        works=lambda _: ENOUGH,
        fails=lambda second, calls: max(0, 1 - to / calls) if second in spell else 0.0,
    )


@pytest.mark.parametrize(
    "begins", [300, *(pytest.param(second, marks=pytest.mark.nightly) for second in (60, 150, 215))]
)
@pytest.mark.parametrize("to", [20, pytest.param(60, marks=pytest.mark.nightly)])
def test_a_dependency_that_breaks_down_in_mid_drain_fails_no_more_than_two_points_more(
    figures: Figures, to: int, begins: int
) -> None:
    """At the fixed 50 a second, 60 calls are enough for all; at 500, few letters are on the way."""
    fixed, auto = both(breaks_down(to, begins))
    note(figures, f"breaks down to {to} a second for 5 min", fixed, auto)
    assert auto.failure_share - fixed.failure_share <= 0.02
    assert fixed.seconds / auto.seconds >= 2


@pytest.mark.nightly
@pytest.mark.parametrize(("age", "points"), [(1, 4), (2, 5)])
def test_outcomes_that_are_read_late_cost_more_failures(
    figures: Figures, age: int, points: int
) -> None:
    """At 500 a second, each second in which nobody knows is 440 failures, and those of retries."""
    fixed = drained(breaks_down(60, 300), LETTERS, auto=False)
    auto = drained(breaks_down(60, 300), LETTERS, auto=True, outcomes_age=age)
    note(figures, f"breaks down to 60 a second, outcomes {age} s old", fixed, auto)
    assert 100 * (auto.failure_share - fixed.failure_share) <= points


def test_in_an_outage_the_circuit_stops_both_alike(figures: Figures) -> None:
    fixed, auto = both(brown_out(1.0, 5, 5))
    note(figures, "outage of 5 min", fixed, auto)
    assert fixed.opened == auto.opened == 1
    assert auto.failure_share - fixed.failure_share <= 0.02
    assert fixed.seconds / auto.seconds >= 2.5


def test_live_traffic_keeps_its_consumer(figures: Figures) -> None:
    """Producers need 200 of the consumer's 300 a second, and nearly all of it for ten minutes."""
    busy = range(3 * MINUTE, 13 * MINUTE)
    for case, live in (("steady", 200), ("rising", 290)):
        downstream = Downstream(
            works=lambda _: 300, live=lambda second, live=live: live if second in busy else 200
        )  # fmt: skip
        fixed, auto = both(downstream)
        note(figures, f"live traffic, {case}", fixed, auto)
        assert auto.longest_queue < fixed.longest_queue or auto.longest_queue < BACKLOG / 2
        assert fixed.seconds / auto.seconds >= 1.2


def test_failures_that_were_always_there_make_it_hardly_slower_than_a_fixed_rate() -> None:
    """Its burst is smaller, and with it what a run sends that begins after a pause."""
    fixed, auto = both(Downstream(lambda _: ENOUGH, fails=lambda *_: 0.06), 50_000)
    assert auto.seconds <= 1.03 * fixed.seconds
    assert max(rate.rate for rate in auto.rates) == 50


def test_a_rate_that_runs_cannot_reach_is_not_raised() -> None:
    auto = drained(healthy(), 50_000, auto=True, engine=120.0)
    assert max(rate.rate for rate in auto.rates) == 200
    assert "fewer messages went back than it allows" in {rate.because for rate in auto.rates}


def _no_waiting(rate: AutoRate, signs: auto_rate.Signs) -> bool:
    return signs.sent is None


@pytest.mark.nightly
def test_without_waiting_for_delayed_letters_too_much_would_fail(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The planted fault: a rise is judged before its letters have arrived."""
    monkeypatch.setattr(auto_rate, "_is_too_early", _no_waiting)
    assert drained(serves(150), LETTERS, auto=True).failure_share > 0.02


@pytest.mark.nightly
def test_without_a_look_at_failures_too_much_would_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = drained(brown_out(0.3, 5, 5), LETTERS, auto=True)
    monkeypatch.setattr(auto_rate, "TROUBLE_SHARE", 2.0)
    monkeypatch.setattr(auto_rate, "SEVERE_SHARE", 2.0)
    blind = drained(brown_out(0.3, 5, 5), LETTERS, auto=True)
    assert blind.failure_share - looks.failure_share > 0.02


@pytest.mark.nightly
def test_without_a_look_at_the_queue_it_would_be_flooded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(auto_rate, "OVERRUN_SECONDS", 1e9)
    monkeypatch.setattr(auto_rate, "FULL_SHARE", 1e9)
    assert drained(Downstream(works=lambda _: 20), 50_000, auto=True).longest_queue > BACKLOG


def _not_shortened(_rate: float) -> float:
    return 1.0


@pytest.mark.nightly
def test_with_whole_delays_too_much_would_fail_when_a_dependency_breaks_down(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(downstream, "delay_share", _not_shortened)
    assert drained(breaks_down(60, 300), LETTERS, auto=True).failure_share > 0.02


def _unseen(*_seen: object) -> OutcomeCounts:
    return OutcomeCounts()


@pytest.mark.nightly
def test_without_the_outcomes_since_the_last_look_a_breakdown_would_be_seen_late(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(downstream, "latest_outcomes", _unseen)
    assert drained(breaks_down(60, 300), LETTERS, auto=True).failure_share > 0.02
