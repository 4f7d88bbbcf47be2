"""A consumer and its dependency as a drain sees them, second by second, and the drain itself.

The rate is chosen by the product's own rules; queue, consumer and breaker are a model: letters
come back with the product's delays, a call that fails is tried again as the library does it, and
a circuit opens and closes by the product's policy. The time is virtual, and one seed is one run.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from deadletter.circuit.state import Circuit, CircuitPolicy, State
from deadletter.pace.auto_rate import (
    DEEP,
    AutoRate,
    RateBounds,
    Signs,
    at_start,
    delay_share,
    fresh_outcomes,
    latest_outcomes,
    next_rate,
    seconds_to_next_look,
)
from deadletter.pace.run import RunPaid, rate_of
from deadletter.redrive.shards import ENOUGH_LETTERS, SAVED_SECONDS
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import RETRY

# A run of 55 s begins no chunk in its last ten. It starts once a minute, or when the one before
# has ended and the queue is still deep.
RUN_SENDS = 45
FIRST, MOST, BACKLOG = 50.0, 500.0, 10_000
RECEIVES = 5
DAY = 86_400


@dataclass(frozen=True)
class Downstream:
    """What the consumer's dependency bears, as functions of the seconds since the drain began.

    works    calls a second that the consumer makes at most
    live     messages a second of its producers
    fails    the share of calls that fail, given the second and the calls in it
    """

    works: Callable[[int], float]
    live: Callable[[int], float] = lambda _second: 0.0
    fails: Callable[[int, float], float] = lambda _second, _calls: 0.0


@dataclass
class Drain:
    """What became of a drain: seconds until the last letter was processed, calls, failures."""

    seconds: int = 0
    calls: int = 0
    failed: int = 0
    opened: int = 0
    longest_queue: int = 0
    rates: list[AutoRate] = field(default_factory=list)

    @property
    def failure_share(self) -> float:
        return self.failed / self.calls


@dataclass
class _Model:
    downstream: Downstream
    letters: int
    seed: int
    is_auto: bool
    engine: float = 2_000.0
    outcomes_age: int = 0

    def __post_init__(self) -> None:
        self.random = Random(self.seed)
        self.policy = CircuitPolicy()
        self.circuit = Circuit("orders")
        self.bounds = RateBounds(first=FIRST, most=MOST, backlog=BACKLOG)
        self.paid = RunPaid(rate_of(FIRST), -1e3)
        self.rate = at_start(None, self.bounds, 0.0)
        self.drain = Drain(rates=[self.rate])
        # Messages by the second in which they become visible, and by their receives so far.
        self.later: dict[int, Counter[int]] = {}
        self.delayed = 0
        self.visible: Counter[int] = Counter()
        self.in_dlq = self.letters
        self.sent = 0
        self.ends = 0
        self.deep = False
        self.seen = self.circuit
        # The first one is what the redriver can read now.
        self.circuits = deque([self.circuit], self.outcomes_age + 1)
        self.looked: int | None = None
        self.since: tuple[int, int] | None = None
        self.credit = 0.0

    def run(self) -> Drain:
        backoff = Backoff()
        for second in range(DAY):
            self._arrive(second)
            self._consume(second)
            if self._begins(second):
                self.ends = second + RUN_SENDS
                self.deep = self.is_auto and self.in_dlq >= DEEP
                self.looked = self.since = None
            if second < self.ends and self.circuit.is_closed and self.in_dlq:
                self._send(second, backoff)
            self._break(second)
            self.circuits.append(self.circuit)
            ours = self.in_dlq + self.delayed + sum(self.visible.values())
            if not ours or (not self.in_dlq and self._only_live_is_left(second)):
                self.drain.seconds = second
                return self.drain
        raise AssertionError("the drain did not end within a day")

    def _begins(self, second: int) -> bool:
        goes_on = self.circuit.is_closed and self.in_dlq >= ENOUGH_LETTERS
        return second >= self.ends and (second % 60 == 0 or (second == self.ends and goes_on))

    def _only_live_is_left(self, second: int) -> bool:
        return not self.delayed and sum(self.visible.values()) <= 2 * self.downstream.live(second)

    def _arrive(self, second: int) -> None:
        ripe = self.later.pop(second, Counter())
        self.delayed -= ripe[0]
        self.visible += ripe
        live = self.downstream.live(second)
        self.visible[0] += int(live) + (self.random.random() < live % 1)

    def _consume(self, second: int) -> None:
        waiting = sum(self.visible.values())
        self.drain.longest_queue = max(self.drain.longest_queue, waiting)
        if not self.circuit.is_closed:
            return
        works = self.downstream.works(second)
        if (share := self.circuit.admitted_share(self.policy, float(second))) < 1:
            # After an outage the library admits a growing part of the rate of before.
            works = min(works, self.circuit.rate * share)
        self.credit = min(self.credit, 1.0) + works
        calls = min(waiting, int(self.credit))
        self.credit -= calls
        if not calls:
            return
        share = self.downstream.fails(second, calls)
        bad = 0
        for receives in sorted(self.visible, reverse=True):
            taken = min(self.visible[receives], calls - self._taken)
            self._taken += taken
            self.visible[receives] -= taken
            failed = sum(self.random.random() < share for _ in range(taken)) if share else 0
            bad += failed
            for _ in range(failed):
                if receives + 1 >= RECEIVES:
                    self.in_dlq += 1
                    continue
                delay = max(1, round(RETRY.delay(receives + 1, self.random)))
                self.later.setdefault(second + delay, Counter())[receives + 1] += 1
        self._taken = 0
        self.visible = +self.visible
        self.drain.calls += calls
        self.drain.failed += bad
        self.circuit = self.circuit.with_outcomes(calls - bad, bad, self.policy, float(second))

    _taken = 0

    def _send(self, second: int, backoff: Backoff) -> None:
        waiting = sum(self.visible.values())
        if self.is_auto:
            self._look(second, waiting)
        if waiting > BACKLOG:
            return
        rate, paid = self.paid.rate, self.paid.paid
        letters = min(rate.whole(paid, float(second)), self.in_dlq, int(self.engine))
        self.paid = RunPaid(rate, rate.after(paid, letters, float(second)))
        self.in_dlq -= letters
        self.delayed += letters
        self.sent += letters
        share = delay_share(self.rate.rate) if self.deep else 1.0
        for _ in range(letters):
            delay = max(1, round(backoff.delay(1, self.random) * share))
            self.later.setdefault(second + delay, Counter())[0] += 1

    def _look(self, second: int, waiting: int) -> None:
        pause = seconds_to_next_look(self.rate.rate, FIRST)
        if self.looked is not None and second - self.looked < pause:
            return
        sent, seconds = None, 0.0
        if self.since is not None:
            seconds = second - self.since[0]
            sent = self.sent - self.since[1]
        self.looked = second
        now = float(second)
        circuit = self.circuits[0] if self.outcomes_age else self.circuit
        if circuit.closed_at != self.circuit.closed_at:
            circuit = self.circuit
        seen, self.seen = self.seen, circuit
        signs = Signs(
            now=now,
            waiting=waiting,
            delayed=self.delayed,
            sent=sent,
            seconds=seconds,
            outcomes=fresh_outcomes(circuit, self.policy, self.rate, now),
            latest=latest_outcomes(circuit, seen, self.policy, now),
            opened=self.circuit.closed_at > self.rate.changed_at,
        )
        before, self.rate = self.rate, next_rate(self.rate, signs, self.bounds)
        if self.since is None or self.rate.changed_at != before.changed_at:
            self.since = (second, self.sent)
        self.drain.rates.append(self.rate)
        self.paid = self.paid.at(rate_of(self.rate.rate, SAVED_SECONDS), now)

    def _break(self, second: int) -> None:
        """The circuit opens as the policy says, and closes when a canary a cooldown later works."""
        now = float(second)
        if self.circuit.is_closed:
            window = self.circuit.in_window(self.policy, now)
            good, bad = sum(each.good for each in window), sum(each.bad for each in window)
            enough = good + bad >= self.policy.minimum
            in_a_row = self.circuit.streak >= self.policy.consecutive
            if in_a_row or (enough and bad / (good + bad) >= self.policy.failure_rate):
                self.drain.opened += 1
                rate = good / self.policy.window
                self.circuit = Circuit("orders", State.OPEN, opened_at=now, rate=rate)
        elif now - self.circuit.opened_at >= self.policy.cooldown and (
            self.random.random() >= self.downstream.fails(second, 1.0)
        ):
            self.circuit = Circuit("orders", closed_at=now, rate=self.circuit.rate)


def drained(
    downstream: Downstream,
    letters: int,
    *,
    auto: bool,
    seed: int = 1,
    engine: float = 2_000.0,
    outcomes_age: int = 0,
) -> Drain:
    """Drain so many letters; `engine` is the letters a second that runs can send at most.

    `outcomes_age` are the seconds until an outcome can be read in the circuit's row.
    """
    return _Model(downstream, letters, seed, auto, engine, outcomes_age).run()
