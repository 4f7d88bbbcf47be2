"""The pace of a run holds over all workers, and a grant is short-lived."""

from __future__ import annotations

import heapq
import itertools
from collections.abc import Callable, Generator
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from deadletter.aws.replay_runs import DynamoDBReplayRuns
from deadletter.replay.limiter import (
    GRANT_SECONDS,
    Bid,
    BidAnswer,
    RunLimiter,
    SendGrant,
    SendingEnded,
    bid_for,
    granted,
    most_letters,
    why_not,
)
from deadletter.replay.run import BadRunRow, ReplayRun, RunState, held, moved_to
from deadletter.testing.clock import Clock
from deadletter.testing.fakes import MemoryDynamoDB
from tests.each_row import each_row
from tests.tables import LETTERS, create_messages_table

NOW = 1_800_000_000.0
RUN = ReplayRun(id="run", pipeline="orders", state=RunState.RUNNING, rate=10.0, burst=20)


@dataclass
class Store:
    """A run in a table, and a limiter on it."""

    run: ReplayRun
    clock: Clock = field(default_factory=lambda: Clock(NOW))

    def __post_init__(self) -> None:
        dynamodb = MemoryDynamoDB(self.clock)
        create_messages_table(dynamodb)
        self.runs = DynamoDBReplayRuns(dynamodb, LETTERS, "orders", self.clock)
        self.runs.create(self.run)
        self.tokens = itertools.count()

    def limiter(
        self, clock: Callable[[], float] | None = None, wait: Callable[[float], None] | None = None
    ) -> RunLimiter:
        return RunLimiter(
            bids=self.runs,
            run=self.run,
            clock=clock or self.clock,
            wait=wait or self.clock.advance,
            new_token=lambda: f"token {next(self.tokens)}",
        )


def test_a_grant_ends_two_seconds_after_its_request_began() -> None:
    store = Store(RUN)
    assert store.limiter().take(10, NOW + 60) == SendGrant(10, NOW + GRANT_SECONDS)


def test_a_grant_does_not_outlive_its_intent() -> None:
    grant = Store(RUN).limiter().take(10, NOW + 1.5)
    assert grant is not None
    assert grant.until == NOW + 1.5


def test_a_grant_whose_answer_took_long_is_late_at_once() -> None:
    store = Store(RUN)

    class Slow:
        def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer | None:
            answer = store.runs.bid(run, bid)
            store.clock.advance(3.0)
            return answer

    limiter = RunLimiter(
        bids=Slow(), run=RUN, clock=store.clock, wait=store.clock.advance, new_token=lambda: "a"
    )
    grant = limiter.take(1, NOW + 60)
    assert grant is not None
    assert store.clock() > grant.until


def test_a_row_that_still_refuses_at_the_very_moment_is_asked_again_a_little_later() -> None:
    """A time is stored rounded: without time that passes it would refuse for ever."""
    store = Store(RUN)
    asked: list[float] = []

    class Rounded:
        def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer | None:
            asked.append(store.clock())
            assert len(asked) < 9
            if store.clock() < NOW + 0.001:
                return BidAnswer(is_granted=False, run=run, at=store.clock())
            return store.runs.bid(run, bid)

    limiter = RunLimiter(
        bids=Rounded(), run=RUN, clock=store.clock, wait=store.clock.advance, new_token=lambda: "a"
    )
    assert limiter.take(1, NOW + 60) is not None
    assert asked == [NOW, pytest.approx(NOW + 0.005)]


def test_no_more_letters_are_granted_than_the_burst_allows_with_slack() -> None:
    assert most_letters(replace(RUN, burst=10, rate=5)) == 9
    assert most_letters(replace(RUN, burst=10, rate=100)) == 5
    assert most_letters(replace(RUN, burst=1, rate=1)) == 1
    assert most_letters(replace(RUN, burst=100, rate=100)) == 10


def test_the_limiter_waits_for_the_pace_and_gives_up_before_the_intent_ends() -> None:
    store = Store(replace(RUN, burst=10, rate=1.0))
    limiter = store.limiter()
    assert limiter.take(9, NOW + 60) == SendGrant(9, NOW + GRANT_SECONDS)
    assert limiter.take(9, NOW + 60) is None
    assert limiter.seconds_until(9) == pytest.approx(8.0)
    store.clock.advance(7.5)
    assert limiter.take(9, store.clock() + 0.3) is None
    assert limiter.take(9, store.clock() + 60) is not None
    assert store.clock() == pytest.approx(NOW + 8.0, abs=0.01)


def test_a_held_run_ends_the_sending_and_says_why() -> None:
    store = Store(RUN)
    limiter = store.limiter()
    store.runs.change(RUN, held(RUN, at=NOW, by="ann", because="2 of 5 failed"))
    with pytest.raises(SendingEnded, match="HELD: 2 of 5 failed"):
        limiter.take(1, NOW + 60)


def test_a_run_without_a_rate_sends_nothing() -> None:
    """A row that says so was written by a person, or the run has not begun."""
    with pytest.raises(SendingEnded, match="no rate yet"):
        Store(replace(RUN, rate=0.0)).limiter().take(1, NOW + 60)


def test_a_run_that_moved_on_is_learned_from_the_refusal() -> None:
    store = Store(RUN)
    limiter = store.limiter()
    store.runs.change(RUN, replace(moved_to(RUN, RunState.RUNNING, at=NOW, by="x"), rate=20.0))
    assert limiter.take(10, NOW + 60) is not None
    assert limiter.run.rate == 20.0


def test_a_canary_that_has_sent_its_letters_ends_the_sending() -> None:
    canary = replace(RUN, state=RunState.CANARY, allowance=2)
    limiter = Store(canary).limiter()
    grant = limiter.take(10, NOW + 60)
    assert grant is not None
    assert grant.letters == 2
    with pytest.raises(SendingEnded, match="canary step"):
        limiter.take(1, NOW + 60)


def test_one_write_pays_for_letters_of_other_shards_too() -> None:
    store = Store(RUN)
    limiter = store.limiter()
    assert limiter.take(4, NOW + 60, further=5) == SendGrant(4, NOW + GRANT_SECONDS)
    store.clock.advance(0.5)
    assert limiter.take(3, NOW + 60) == SendGrant(3, NOW + GRANT_SECONDS)
    # Two of five are left: the write for the third letter is a grant of its own.
    assert limiter.take(3, NOW + 60) == SendGrant(3, NOW + GRANT_SECONDS)
    assert [next(store.tokens), store.runs.read("run").paid] == [2, NOW - 1.0]  # type: ignore[union-attr]


def test_letters_that_were_paid_ahead_are_lost_two_seconds_later() -> None:
    store = Store(RUN)
    limiter = store.limiter()
    limiter.take(4, NOW + 60, further=5)
    store.clock.advance(GRANT_SECONDS)
    assert limiter.take(3, NOW + 60) == SendGrant(3, NOW + 2 * GRANT_SECONDS)
    assert next(store.tokens) == 2


def test_letters_that_were_paid_ahead_are_not_sent_once_the_run_is_seen_held() -> None:
    store = Store(RUN)
    limiter = store.limiter()
    limiter.take(4, NOW + 60, further=5)
    store.runs.change(store.runs.read("run"), held(RUN, at=NOW, by="ann", because="lunch"))  # type: ignore[arg-type]
    with pytest.raises(SendingEnded, match="lunch"):
        limiter.look(store.runs)
    limiter.saw(store.runs.read("run"), NOW)  # type: ignore[arg-type]
    with pytest.raises(SendingEnded, match="lunch"):
        limiter.take(3, NOW + 60)


def test_nothing_is_paid_ahead_that_the_pace_does_not_allow_now_or_that_a_canary_has() -> None:
    slow = Store(replace(RUN, burst=6, rate=1.0))
    limiter = slow.limiter()
    limiter.take(4, NOW + 60, further=6)
    assert slow.runs.read("run").paid == NOW - 1.0  # type: ignore[union-attr]
    assert limiter.seconds_until(1) == 0.0
    canary = Store(replace(RUN, state=RunState.CANARY, allowance=5))
    canary.limiter().take(1, NOW + 60, further=4)
    assert canary.runs.read("run").allowance == 4  # type: ignore[union-attr]


def test_an_unknown_run_ends_the_sending() -> None:
    store = Store(RUN)
    limiter = RunLimiter(
        bids=store.runs,
        run=replace(RUN, id="another"),
        clock=store.clock,
        wait=store.clock.advance,
        new_token=lambda: "a",
    )
    with pytest.raises(SendingEnded, match="unknown"):
        limiter.take(1, NOW + 60)


def test_a_run_that_is_unknown_or_held_ends_a_look_and_a_run_that_sends_is_noted() -> None:
    store = Store(RUN)
    limiter = store.limiter()
    store.clock.advance(0.5)
    later = replace(RUN, paid=NOW)
    store.runs.change(RUN, later)
    assert limiter.look(store.runs).paid == limiter.run.paid == NOW
    assert limiter.seen_at == NOW + 0.5
    limiter.run = replace(RUN, id="another")
    with pytest.raises(SendingEnded, match="the run is unknown"):
        limiter.look(store.runs)


@each_row(("ahead", "is_bad"), [(3_600.0, False), (3_601.0, True)])
def test_a_row_that_is_paid_for_more_than_an_hour_ahead_is_a_bad_row(
    ahead: float, is_bad: bool
) -> None:
    limiter = Store(RUN).limiter()
    wrong = replace(RUN, paid=NOW + ahead)
    with pytest.raises(BadRunRow) if is_bad else nullcontext():
        limiter.saw(wrong, NOW)
    assert (limiter.run == wrong) is not is_bad


@each_row(
    ("fields", "why"),
    [
        ({}, None),
        ({"state": RunState.CANARY, "allowance": 1}, None),
        ({"state": RunState.CANARY}, "the canary step has sent its messages"),
        ({"rate": 0.0}, "the run has no rate yet"),
        ({"state": RunState.HELD}, "the run is HELD"),
        ({"state": RunState.HELD, "because": "lunch"}, "the run is HELD: lunch"),
    ],
)
def test_a_run_that_allows_no_sends_says_why(fields: dict[str, Any], why: str | None) -> None:
    assert why_not(replace(RUN, **fields)) == why
    assert why_not(None) == "the run is unknown"


@each_row(
    ("rate", "burst", "most"),
    [(10.0, 20, 10), (20.0, 10, 9), (20.1, 10, 8), (100.0, 10, 5), (100.0, 5, 1), (1.0, 1, 1)],
)
def test_one_grant_leaves_the_pace_of_the_time_that_its_request_takes(
    rate: float, burst: int, most: int
) -> None:
    assert most_letters(replace(RUN, rate=rate, burst=burst)) == most


@each_row(
    ("paid", "letters", "after"),
    [
        # A full bucket: what was saved beyond its burst is lost.
        (0.0, 5, NOW - 2.0 + 0.5),
        (NOW - 2.0, 5, NOW - 2.0 + 0.5),
        (NOW - 1.0, 5, NOW - 1.0 + 0.5),
        (NOW - 0.5, 5, NOW),
        (NOW - 0.4, 5, None),
        (NOW + 9.0, 1, None),
    ],
)
def test_a_bid_takes_effect_while_its_letters_are_saved(
    paid: float, letters: int, after: float | None
) -> None:
    run = replace(RUN, paid=paid)
    bid = bid_for(run, letters, NOW, "token")
    assert (bid.token, bid.letters, bid.generation, bid.now) == ("token", letters, 0, NOW)
    assert bid.allowance == 0
    assert (run.paid <= bid.latest) is (after is not None)
    if after is not None:
        assert granted(run, bid).paid == pytest.approx(after, abs=1e-6)
        assert bid.is_idle is (paid <= NOW - 2.0)
    limiter = Store(run).limiter()
    needed = 0.0 if after is not None else paid + letters / 10.0 - NOW
    assert limiter.seconds_until(letters) == pytest.approx(needed, abs=1e-6)


def test_a_bid_of_a_canary_uses_up_its_allowance() -> None:
    canary = replace(RUN, state=RunState.CANARY, allowance=5)
    bid = bid_for(canary, 3, NOW, "token")
    assert (bid.allowance, granted(canary, bid).allowance) == (3, 2)


def test_a_run_without_a_rate_is_not_waited_for() -> None:
    assert Store(replace(RUN, rate=0.0)).limiter().seconds_until(5) == 0.0


def test_letters_that_are_paid_for_need_no_time() -> None:
    store = Store(replace(RUN, burst=12))
    limiter = store.limiter()
    limiter.take(6, NOW + 60, further=4)
    assert limiter.seconds_until(4) == 0.0
    # Two more than are kept, of two that the burst still has; three are one too many.
    assert limiter.seconds_until(6) == 0.0
    assert limiter.seconds_until(7) == pytest.approx(0.1, abs=1e-6)


def test_a_kept_grant_ends_with_the_intent_that_uses_it() -> None:
    limiter = Store(RUN).limiter()
    limiter.take(4, NOW + 60, further=5)
    assert limiter.take(3, NOW + 0.5) == SendGrant(3, NOW + 0.5)
    assert limiter.take(1, NOW + 60) == SendGrant(1, NOW + GRANT_SECONDS)


def test_a_kept_grant_is_used_alone_while_the_pace_allows_no_more() -> None:
    store = Store(replace(RUN, burst=6, rate=1.0))
    limiter = store.limiter()
    limiter.take(4, NOW + 60, further=1)
    assert limiter.take(5, NOW + 1.5) == SendGrant(1, NOW + 1.5)


def test_a_grant_that_is_waited_for_longer_than_a_second_is_given_up() -> None:
    store = Store(replace(RUN, paid=NOW + 0.8))
    limiter = store.limiter()
    assert limiter.take(2, NOW + 60) is None
    assert store.clock() == NOW
    assert limiter.take(1, NOW + 60) == SendGrant(1, pytest.approx(NOW + 2.9, abs=0.01))
    assert store.clock() == pytest.approx(NOW + 0.9, abs=0.01)


def test_a_worker_whose_clock_is_slow_goes_by_the_fastest_that_it_has_seen() -> None:
    """Else it would find the pace never idle, and the others would take it all."""
    store = Store(RUN)
    store.limiter().take(10, NOW + 60)
    slow = store.limiter(lambda: store.clock() - 1.5)
    asked: list[float] = []

    class Noted:
        def bid(self, run: ReplayRun, bid: Bid) -> BidAnswer | None:
            asked.append(bid.now)
            return store.runs.bid(run, bid)

    slow._bids = Noted()
    slow.take(1, NOW + 60)
    first, *others = asked
    assert first == NOW - 1.5
    assert min(others) >= NOW


@dataclass
class SkewedWorker:
    """A worker of its own clock: asks for letters, sends them, and takes its time for each call."""

    store: Store
    skew: float
    random: Random
    busy: float
    sent: list[tuple[float, int]] = field(default_factory=list)

    def steps(self) -> Generator[float]:
        """The seconds until the worker acts again, one after the other."""
        pause = 0.0

        def wait(seconds: float) -> None:
            nonlocal pause
            pause = seconds
            raise _Paused

        limiter = self.store.limiter(lambda: self.store.clock() + self.skew, wait)
        while True:
            try:
                grant = limiter.take(10, self.store.clock() + self.skew + 60)
            except _Paused:
                yield pause + self.random.uniform(0.001, 0.004)
                continue
            yield self.random.uniform(0.005, 0.02)
            if grant is None:
                yield 0.05
                continue
            if self.store.clock() + self.skew < grant.until:
                self.sent.append((self.store.clock(), grant.letters))
            yield self.random.uniform(0.5, 1.5) * self.busy


class _Paused(Exception):
    """The worker waits."""


def work(
    rate: float, burst: int, seconds: float, seed: int, busy: float
) -> list[tuple[float, int]]:
    """What five workers send whose clocks differ by up to two seconds."""
    store = Store(replace(RUN, rate=rate, burst=burst))
    random = Random(seed)
    workers = [
        SkewedWorker(store, skew, Random(random.random()), busy) for skew in (-1, -0.5, 0, 0.5, 1)
    ]
    agenda = [(NOW + random.random() / 10, at, worker.steps()) for at, worker in enumerate(workers)]
    heapq.heapify(agenda)
    while agenda[0][0] < NOW + seconds:
        at, number, steps = heapq.heappop(agenda)
        store.clock.now = at
        heapq.heappush(agenda, (at + next(steps), number, steps))
    return sorted(sent for worker in workers for sent in worker.sent)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("rate", "burst", "busy"),
    # The last one needs several workers: one alone sends ten letters in 0.35 s.
    [(5.0, 10, 0.1), (50.0, 20, 0.1), (100.0, 40, 0.35)],
)
def test_five_workers_with_skewed_clocks_use_the_rate_and_never_exceed_it(
    rate: float, burst: int, busy: float, seed: int
) -> None:
    seconds, skew = 60.0, 1.0
    sends = work(rate, burst, seconds, seed, busy)
    total = sum(letters for _, letters in sends)
    assert total >= 0.95 * rate * seconds
    for first in range(0, len(sends), 3):
        letters = 0
        for at, number in sends[first:]:
            letters += number
            window = at - sends[first][0]
            assert letters <= rate * window + burst + rate * 2 * skew
