"""The outcomes that one process has counted, and when they are written to the circuit."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import TYPE_CHECKING

from deadletter.circuit.state import (
    BUCKETS,
    FEW_TENANTS,
    Circuit,
    CircuitPolicy,
    OutcomeBucket,
    OutcomeCounts,
)
from deadletter.pace.pace import KEPT_CALLS, CallCount, calls_number

if TYPE_CHECKING:
    from deadletter.pace.kinds import KindCount, Seen

SECONDS_BETWEEN_WRITES = 1.0
"""At most one write for each key and process in this time."""

MOST_WRITES = 120.0
"""Writes a second of all processes together, about: the larger a process's part of the calls, the
more often it writes. DynamoDB takes 1,000 of one item."""

MOST_SECONDS_BETWEEN_WRITES = 10.0
"""However small its part is: later, the outcomes would be old."""

SECONDS_BETWEEN_CALM_WRITES = 60.0
"""The same where nothing fails: no judgement waits for a success, and where messages come one by
one a write for each would cost half as much as its claim. With the first failure in the row all
write as before, from their next batch on."""

MOST_CALM = 5
"""Calls after which a process writes all the same. Of a thousand messages a second ten fail within
a tenth of a second where a tenth of them fails: with fewer successes in between they look like a
row."""

SECONDS_BETWEEN_PACED_WRITES = 2.0
"""The same while the circuit is paced, beside requests for calls."""

STREAK_TO_REPORT = 3
"""A process that fails so often in a row reports at once: ten of them are then told apart from an
outage before each has tried more than a few messages. Where so many processes write that each
waits longer than a second, some of them report in each hundredth of one."""

MOST_TENANTS = 16
"""Hashes of tenants that succeeded, and as many of those that failed, in one bucket: enough to
tell a few among many. Processes that write at once may add some more."""

MOST_STALE = 2 * BUCKETS
"""Stale buckets that an item may hold; more are removed by a write of their own.
It keeps the item, and so each write, within one unit of 1 KB."""


@dataclass(frozen=True, slots=True)
class OutcomesWrite:
    """One write of outcomes to a circuit.

    buckets        the outcomes to add, bucket by bucket
    streak         failures in a row: added to the circuit's streak, or its new value if
                   `resets_streak`
    streak_tenants hashes of tenants whose calls failed in it, to add
    streak_at      when the first of these failures was counted (epoch seconds)
    resets_streak  there was a success, which ended the circuit's streak
    good_at        when the call that succeeded began: a streak that began later goes on; None
                   if that is unknown
    stale          buckets that the same write removes; none of them is in `buckets`
    calls          all calls to add, retries too, while a pace may be set by them
    stale_calls    counts of calls that the same write removes
    kinds          votes to add by the kinds of their messages, once one has failed
    stale_kinds    counts of kinds that the same write removes
    called, failed, refused  what the circuit's totals grow by
    """

    buckets: tuple[OutcomeBucket, ...]
    streak: int
    streak_tenants: frozenset[int]
    streak_at: float
    resets_streak: bool
    good_at: float | None
    stale: tuple[int, ...]
    calls: tuple[CallCount, ...] = ()
    stale_calls: tuple[int, ...] = ()
    kinds: tuple[KindCount, ...] = ()
    stale_kinds: tuple[KindCount, ...] = ()
    called: int = 0
    failed: int = 0
    refused: int = 0

    @property
    def says_anything(self) -> bool:
        """Whether it adds or changes anything."""
        return bool(self.buckets or self.calls or self.resets_streak)

    @property
    def total(self) -> int:
        """How many outcomes it adds."""
        return sum(bucket.good + bucket.bad for bucket in self.buckets)


@dataclass(slots=True)
class _Pending:
    """The outcomes of one key that are not written yet, and the buckets known to be stale.

    `failing` counts this process's failures since its last success, written or not.
    """

    last_write: float = 0.0
    counts: dict[int, OutcomeCounts] = field(default_factory=dict)
    streak: int = 0
    streak_tenants: frozenset[int] = frozenset()
    streak_at: float = 0.0
    any_good: bool = False
    good_at: float | None = None
    failing: int = 0
    stale: tuple[int, ...] = ()
    calls: dict[int, CallCount] = field(default_factory=dict)
    kinds: dict[int, Seen] = field(default_factory=dict)
    called: int = 0
    failed: int = 0
    refused: int = 0


@dataclass(slots=True)
class _Known:
    """What this process knows of one key.

    good      tenants whose calls succeeded last, each with the bucket, the latest at the end
    circuit   the circuit as the last write left it
    between   seconds between two writes at least
    calm      the same where nothing fails: the first of them tell soon how many processes there are
    """

    good: dict[int, int] = field(default_factory=dict)
    circuit: Circuit | None = None
    between: float = SECONDS_BETWEEN_WRITES
    calm: float = MOST_SECONDS_BETWEEN_WRITES

    def written(self, circuit: Circuit, called: int) -> None:
        """Learn from a write of so many calls how much of all calls they are.

        However the calls are spread, the processes write MOST_WRITES a second together.
        """
        before, self.circuit = self.circuit, circuit
        if before is not None and called:
            of_all = (circuit.total_calls - before.total_calls) / called
            least, most = SECONDS_BETWEEN_WRITES, MOST_SECONDS_BETWEEN_WRITES
            self.between = min(most, max(least, of_all / MOST_WRITES))
            self.calm = SECONDS_BETWEEN_CALM_WRITES

    def succeeded(self, tenants: Iterable[int], number: int) -> None:
        """Remember that calls of these tenants succeeded in bucket `number`."""
        for tenant in sorted(tenants):
            self.good.pop(tenant, None)
            self.good[tenant] = number
        for tenant in list(self.good)[: -MOST_TENANTS or None]:
            del self.good[tenant]

    def bucket(self, number: int) -> OutcomeBucket:
        """The bucket of that number, as far as it is known."""
        buckets = self.circuit.buckets if self.circuit else ()
        return next((known for known in buckets if known.number == number), OutcomeBucket(number))

    def in_trouble(self, policy: CircuitPolicy, now: float) -> bool:
        """Whether the circuit counted failures in its window."""
        window = self.circuit.in_window(policy, now) if self.circuit else ()
        return any(bucket.bad for bucket in window)


class PendingOutcomes:
    """The outcomes of one process, by the circuit's key, until they are due to be written.

    Times are epoch seconds.
    """

    def __init__(self, policy: CircuitPolicy) -> None:
        self._policy = policy
        self._pending: dict[str, _Pending] = {}
        self._known: dict[str, _Known] = {}

    def add(
        self,
        key: str,
        outcomes: OutcomeCounts,
        now: float,
        *,
        paced: bool = False,
        at_once: bool = False,
        calm: bool = False,
        counted: Sequence[KindCount] = (),
    ) -> OutcomesWrite | None:
        """Add outcomes; returns the write that is due now, if any.

        `counted` are the counts of kinds in the row, as they were last read, and the circuit was
        `calm` then: see `Circuit.is_calm`.

        While the circuit is `paced` all calls are written, else only failures and what is
        throttled. With `at_once` a write is due, whatever it holds.

        What comes less than `seconds_between` after the last write goes with the next, unless it
        is older than the window by then. Each third failure in a row does not wait, where few
        processes write.
        A write is returned once: if it fails, its outcomes are lost, because a throttled table
        needs fewer writes, not later ones.
        """
        calls = CallCount(
            calls_number(now),
            outcomes.good + outcomes.retried_good,
            outcomes.bad + outcomes.retried_bad,
            outcomes.throttled,
        )
        pending = self._pending.setdefault(key, _Pending())
        pending.called += calls.total
        pending.failed += calls.failed + calls.throttled
        pending.refused += outcomes.refused
        if not calls.total and not at_once:
            return None
        number = self._policy.bucket_of(now)
        if calls.total:
            before = pending.calls.get(calls.number, CallCount(calls.number))
            pending.calls[calls.number] = before.and_also(calls)
        for old in [each for each in pending.calls if each <= calls.number - KEPT_CALLS]:
            del pending.calls[old]
        if outcomes.total:
            pending.counts[number] = pending.counts.get(number, OutcomeCounts()).then(outcomes)
        if outcomes.any_good:
            pending.any_good, pending.good_at = True, outcomes.good_at
            pending.streak = pending.failing = 0
            pending.streak_tenants = frozenset()
            self._known_of(key).succeeded(outcomes.good_tenants, number)
        streak = outcomes.streak
        if paced and not outcomes.any_good:
            streak += outcomes.retried_bad
        failing = pending.failing + streak
        is_urgent = failing // STREAK_TO_REPORT > pending.failing // STREAK_TO_REPORT
        pending.failing = failing
        if not pending.streak:
            pending.streak_at = now
        pending.streak += streak
        if outcomes.streak:
            pending.streak_tenants |= outcomes.bad_tenants
        for old in [bucket for bucket in pending.counts if bucket <= number - BUCKETS]:
            del pending.counts[old]
        if outcomes.kinds:
            from deadletter.pace.kinds import both, number_of

            at = number_of(now)
            pending.kinds[at] = both(pending.kinds.get(at, {}), outcomes.kinds)
        # The next request for calls takes them along.
        known = self._known_of(key)
        least = max(known.between, SECONDS_BETWEEN_PACED_WRITES if paced else 0.0)
        is_calm = calm and not pending.failed and pending.called < MOST_CALM
        if is_calm and not any(each.slow for each in pending.counts.values()):
            least = max(least, known.calm)
        is_late = abs(now - pending.last_write) >= least
        is_urgent = is_urgent and known.between <= SECONDS_BETWEEN_WRITES
        if not is_late and not is_urgent and not at_once:
            return None
        tells_calls = paced or any(each.failed or each.throttled for each in pending.calls.values())
        self._pending[key] = _Pending(last_write=now, failing=failing)
        circuit = known.circuit
        streak_tenants = circuit.streak_tenants if circuit and not pending.any_good else frozenset()
        kinds, stale_kinds = _kinds_to_write(pending.kinds, counted, now)
        return OutcomesWrite(
            self._buckets(pending.counts, known, now),
            pending.streak,
            _more(pending.streak_tenants, streak_tenants, FEW_TENANTS),
            pending.streak_at,
            pending.any_good,
            pending.good_at,
            tuple(bucket for bucket in pending.stale if bucket not in pending.counts),
            tuple(each for each in pending.calls.values() if each.total) if tells_calls else (),
            tuple(
                each.number
                for each in (circuit.calls if circuit else ())
                if abs(each.number - calls.number) > KEPT_CALLS and each.number not in pending.calls
            ),
            kinds,
            stale_kinds,
            pending.called,
            pending.failed,
            pending.refused,
        )

    def _buckets(
        self, counts: Mapping[int, OutcomeCounts], known: _Known, now: float
    ) -> tuple[OutcomeBucket, ...]:
        """The outcomes by bucket, with tenants only if there are failures.

        The first failures are written with those tenants whose calls succeeded before: without
        them, one tenant's failures would look like everybody's.
        """
        fails = any(count.bad for count in counts.values())
        tells_tenants = fails or known.in_trouble(self._policy, now)
        buckets = []
        for number, count in counts.items():
            bucket = OutcomeBucket(number, count.good, count.bad, count.slow)
            if tells_tenants:
                before = known.bucket(number)
                good = set(count.good_tenants)
                if fails and number == self._policy.bucket_of(now):
                    good |= {tenant for tenant, at in known.good.items() if at > number - BUCKETS}
                bucket = replace(
                    bucket,
                    good_tenants=_more(good, before.good_tenants, MOST_TENANTS),
                    bad_tenants=_more(count.bad_tenants, before.bad_tenants, MOST_TENANTS),
                )
            buckets.append(bucket)
        return tuple(buckets)

    def _known_of(self, key: str) -> _Known:
        return self._known.setdefault(key, _Known())

    def seconds_between(self, key: str) -> float:
        """Seconds between two writes of a key at least, where nothing is urgent."""
        return self._known_of(key).between

    def written(self, key: str, circuit: Circuit, now: float, called: int = 0) -> tuple[int, ...]:
        """Remember which buckets of the circuit are stale after a write at `now` of so many calls.

        The next write removes them. Returns them if there are more than MOST_STALE: then
        they need a write of their own, confirmed by `swept`.
        """
        self._known_of(key).written(circuit, called)
        stale = stale_buckets(circuit, self._policy.bucket_of(now))
        self._pending.setdefault(key, _Pending()).stale = stale
        return stale if len(stale) > MOST_STALE else ()

    def swept(self, key: str) -> None:
        """Forget the stale buckets of a circuit: they have been removed."""
        self._pending.setdefault(key, _Pending()).stale = ()


def _more(tenants: Collection[int], known: Collection[int], most: int) -> frozenset[int]:
    """Those tenants to add to the known ones, so that they are about `most` at the most."""
    return frozenset(sorted(set(tenants) - set(known))[: max(0, most - len(known))])


def _kinds_to_write(
    seen: Mapping[int, Seen], counted: Sequence[KindCount], now: float
) -> tuple[tuple[KindCount, ...], tuple[KindCount, ...]]:
    if not seen and not counted:
        return (), ()
    from deadletter.pace.kinds import to_write

    return to_write(seen, counted, now)


def hash_of_tenant(tenant: str) -> int:
    """24 bits that stand for a tenant in a circuit's row."""
    text = tenant.encode("utf-8", "surrogatepass")
    return int.from_bytes(blake2b(text, digest_size=3).digest())


def stale_buckets(circuit: Circuit, number: int) -> tuple[int, ...]:
    """The circuit's buckets that are in no process's window, while bucket `number` is counted.

    A bucket may also lie far ahead: it was counted under another length of bucket.
    """
    return tuple(
        bucket.number
        for bucket in circuit.buckets
        if not -BUCKETS <= bucket.number - number <= BUCKETS
    )
