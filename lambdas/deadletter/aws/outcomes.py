"""Outcomes in the circuits table: added up, and the trip when they are bad."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from threading import Lock
from typing import TYPE_CHECKING, Any

from deadletter.aws.circuits import (
    COUNTED_SINCE,
    KEEP_SECONDS,
    KEPT_UNTIL,
    OF_BUCKETS,
    OF_CALLS,
    OF_KINDS,
    PACE,
    SICK,
    STREAK_AT,
    STREAK_TENANTS,
    TOTALS,
    circuit_from_item,
    counter_names,
    fields_of,
    of_kind,
)
from deadletter.aws.dynamodb import PipelineRows
from deadletter.aws.errors import Conflict, Failed
from deadletter.aws.table import (
    Condition,
    OrElse,
    absent,
    at_most,
    equals,
    every,
    kept,
    stored_number,
)
from deadletter.circuit.outcomes import OutcomesWrite, PendingOutcomes
from deadletter.circuit.state import (
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    OutcomeCounts,
    Outcomes,
    State,
)
from deadletter.contract import CIRCUITS, is_config_key
from deadletter.pace.pace import (
    FLOOR,
    CallPace,
    PaceGrant,
    Wish,
    accepted,
    after_throttling,
    next_pace,
    take,
    throttled_lately,
)
from deadletter.signals.figures import Count

SECONDS_BETWEEN_NOTES = 3.0
"""Between two writes that only note places which were promised."""

MOST_CONFLICTS = 6
"""Tries to take from a pace while other processes take from it."""

if TYPE_CHECKING:
    from deadletter.aws.breaker import DynamoDBBreaker
    from deadletter.outage.executions import OutageExecutions
    from deadletter.pace.kinds import SickKinds


@dataclass(slots=True)
class _Promises:
    """Places that this process has promised since it last noted its promises in the row.

    Each costs a write, and where nothing waits in place each batch asks for some.
    """

    noted_at: float = 0.0
    ptat: float = 0.0
    owed: int = 0

    def promise(self, pace: CallPace, wish: Wish, now: float) -> PaceGrant:
        """Promise places behind all that are known of; the next write notes them."""
        grant = take(replace(pace, ptat=max(pace.ptat, self.ptat)), wish, now)
        self.ptat, self.owed = grant.pace.ptat, self.owed + wish.places
        return grant


@dataclass(eq=False, repr=False, kw_only=True)
class DynamoDBOutcomes(PipelineRows, Outcomes):
    """Adds one process's outcomes to the circuits of a pipeline; never raises.

    `PendingOutcomes` says when to write what: at most one write per batch and key. The write
    answers with the whole circuit, so the trip is judged without a read. Without `outages`,
    or if they give no answer, the watch starts the execution. `count_metric`
    counts a metric by its name.
    """

    policy: CircuitPolicy
    breaker: DynamoDBBreaker
    outages: OutageExecutions | None
    clock: Callable[[], float]
    count_metric: Callable[[str, int], None]

    KEYS = CIRCUITS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._pending = PendingOutcomes(self.policy)
        self._promises: dict[str, _Promises] = {}
        # Several threads may handle the messages of a process.
        self._lock = Lock()

    def report(
        self, key: str, outcomes: OutcomeCounts, known: Circuit | None = None
    ) -> Circuit | None:
        with self._lock:
            now = self.clock()
            before = known or Circuit(key)
            paced, kinds = before.paced(now) is not None, before.kinds
            # Of a circuit that could not be read nothing is known.
            calm = known is not None and known.is_calm(self.policy, now)
            write = self._pending.add(key, outcomes, now, paced=paced, calm=calm, counted=kinds)
            if write is None:
                return None
            written = self._write(before, write, now)
        return None if written is None else written[0]

    def take(
        self, known: Circuit, outcomes: OutcomeCounts, wish: Wish
    ) -> tuple[Circuit, PaceGrant] | None:
        with self._lock:
            now, key = self.clock(), known.key
            promises = self._promises.get(key, _Promises())
            between = max(SECONDS_BETWEEN_NOTES, self._pending.seconds_between(key))
            is_early = not wish.calls and 0 <= now - promises.noted_at < between
            write = self._pending.add(
                key, outcomes, now, paced=True, at_once=not is_early, counted=known.kinds
            )
            if write is None:
                pace = known.paced(now)
                return known, _NOTHING if pace is None else promises.promise(pace, wish, now)
            # Those promised since come first.
            written = self._write(
                known, write, now, replace(wish, places=promises.owed + wish.places)
            )
            if written is None:
                return None
            circuit, grant = written
            if grant is None:
                # No pace limits it any more, or it is open: its reader sees which.
                return circuit, replace(_NOTHING, calls=wish.calls if circuit.is_closed else 0)
            self._promises[key] = _Promises(now, grant.pace.ptat)
            return circuit, replace(grant, waits=grant.waits[promises.owed :])

    def _write(
        self, known: Circuit, write: OutcomesWrite, now: float, wish: Wish | None = None
    ) -> tuple[Circuit, PaceGrant | None] | None:
        """Write outcomes, and what a wish is granted; then judge. None without an answer."""
        try:
            item, grant = self._add(known, write, now, wish)
        except (Failed, Conflict):
            self.count_metric(Count.OUTCOMES_DROPPED, write.total)
            return None
        circuit = circuit_from_item(item)
        stale = self._pending.written(known.key, circuit, now, write.called)
        if stale:
            self._remove_stale(known.key, stale)
        if circuit.is_closed:
            circuit = self._set_pace(self._judge(circuit), now)
            if circuit.kinds:
                circuit = self._find_kinds(circuit, now)
        return circuit, grant

    def _add(
        self, known: Circuit, write: OutcomesWrite, now: float, wish: Wish | None
    ) -> tuple[dict[str, Any], PaceGrant | None]:
        """Write the outcomes; returns the circuit's item as it is then, and what is granted.

        A success ends the streak, unless its call began before the streak did: when an outage
        begins, each process still has successes to report. A grant is for the pace as it was
        read: if another process took meanwhile, it is made anew. After MOST_CONFLICTS all of them
        together have asked for more than there is, and nothing is granted.
        """
        goes_on, key = not write.resets_streak, known.key
        conflicting: dict[str, Any] = {}
        for conflicts in range(MOST_CONFLICTS + 1):
            pace, grant = known.paced(now), None
            if wish is not None and pace is not None:
                grant = take(next_pace(pace, known.calls, now), wish, now)
                if conflicts == MOST_CONFLICTS:
                    grant = replace(grant, pace=pace, calls=0)
                if conflicts and not grant.calls and not grant.waits and not write.says_anything:
                    return conflicting, grant
            taken = grant if grant is not None and grant.pace != pace else None
            last = conflicts == MOST_CONFLICTS
            try:
                item = self._update(
                    key, write, now, goes_on=goes_on or last, before=known, taken=taken
                )
            except Conflict as conflict:
                if last:
                    raise
                conflicting = dict(conflict.item or {})
                # A row that was deleted: nothing is known of a pace.
                known = circuit_from_item(conflicting) if conflicting else Circuit(key)
                goes_on = goes_on or _began_before(write, conflicting)
                continue
            return item, grant
        raise AssertionError("the last try has no condition")

    def _update(
        self,
        key: str,
        write: OutcomesWrite,
        now: float,
        *,
        goes_on: bool,
        before: Circuit,
        taken: PaceGrant | None = None,
    ) -> dict[str, Any]:
        """Add the outcomes to the item; `goes_on` adds to the streak, else it begins anew."""
        sets: dict[str, Any] = {
            "ttl": OrElse(KEPT_UNTIL, int(now + KEEP_SECONDS)),
            **kept({"state": str(State.CLOSED), COUNTED_SINCE: int(now)}),
        }
        adds = _counted(TOTALS, "", write.called, write.failed, write.refused)
        removes = counter_names(OF_BUCKETS, write.stale)
        for bucket in write.buckets:
            tenants = set(bucket.good_tenants), set(bucket.bad_tenants)
            votes = bucket.good, bucket.bad, bucket.slow
            adds |= _counted(OF_BUCKETS, bucket.number, *votes, *tenants)
        streak_at = {STREAK_AT: stored_number(write.streak_at)}
        failing = set(write.streak_tenants)
        if goes_on:
            adds |= {"streak": write.streak, STREAK_TENANTS: failing}
            sets |= kept(streak_at) if write.streak else {}
        else:
            sets |= {"streak": write.streak, **streak_at} if write.streak else {}
            sets |= {STREAK_TENANTS: failing} if failing else {}
            removes += [] if write.streak else ["streak", STREAK_AT]
            removes += [] if failing else [STREAK_TENANTS]
        for calls in write.calls:
            adds |= _counted(OF_CALLS, calls.number, calls.ok, calls.failed, calls.throttled)
        removes += counter_names(OF_CALLS, write.stale_calls)
        for kinds in write.kinds:
            adds |= _counted(OF_KINDS, of_kind(kinds), kinds.failed, kinds.good)
        removes += counter_names(OF_KINDS, map(of_kind, write.stale_kinds))
        conditions: list[Condition] = []
        if not goes_on and write.good_at is not None:
            began = at_most(STREAK_AT, stored_number(write.good_at))
            conditions.append(absent(STREAK_AT) | began)
        if taken is not None and before.pace is not None:
            sets[PACE] = fields_of(taken.pace)
            conditions += [_in_turn(PACE, before.pace.turn), _of_generation(before)]
        return self._table.change(
            (self.pipeline, key),
            sets,
            adds={name: added for name, added in adds.items() if added},
            removes=removes,
            when=every(conditions) if conditions else None,
            shown="ALL_NEW",
        )

    def _set_pace(self, circuit: Circuit, now: float) -> Circuit:
        """Begin a pace, or change its limit, if what was counted says so.

        Of several processes that see the same counts, one writes; without an answer the next
        report tries again. Returns the circuit as it is then.
        """
        if not circuit.is_closed or not circuit.calls or is_config_key(circuit.key):
            return circuit
        pace = circuit.paced(now)
        if pace is not None:
            due = next_pace(pace, circuit.calls, now)
        elif throttled_lately(circuit.calls, now):
            rate = max(accepted(circuit.calls, now), _accepted(circuit, self.policy, now))
            due = after_throttling(circuit.rate, rate, circuit.pace, now)
        else:
            return circuit
        if due == pace:
            return circuit
        turn = 0 if circuit.pace is None else circuit.pace.turn
        is_same = _in_turn(PACE, turn)
        if circuit.pace is None:
            is_same |= absent(PACE)
        try:
            self._table.change(
                (self.pipeline, circuit.key),
                {PACE: fields_of(due)},
                when=_of_generation(circuit) & is_same,
            )
        except (Failed, Conflict):
            return circuit
        return replace(circuit, pace=due)

    def slow(
        self, known: Circuit, change: Callable[[SickKinds], SickKinds | None]
    ) -> tuple[Circuit, bool] | None:
        from deadletter.pace.kinds import NONE_SICK

        for _ in range(MOST_CONFLICTS):
            before = known.sick or NONE_SICK
            after = change(before)
            if after is None:
                return known, False
            heals = len(after.kinds) < len(before.kinds)
            try:
                self._write_sick(known, after, heals=heals)
            except Failed:
                return None
            except Conflict as conflict:
                item = conflict.item
                stored_now = circuit_from_item(item) if item else Circuit(known.key)
                if stored_now.sick == known.sick:
                    # Malformed: it slows no message.
                    return stored_now, False
                known = stored_now
                continue
            sick = after if after.kinds else None
            return replace(known, sick=sick, kinds=() if heals else known.kinds), True
        return known, False

    def _write_sick(self, known: Circuit, after: SickKinds, *, heals: bool) -> None:
        """Write which kinds are sick, if they are still as known.

        A kind that is well again ends the counts as well: they would find it again.
        """
        kinds = {
            kind.kind: {"next_try": stored_number(kind.next_try), "good": kind.good}
            for kind in after.kinds
        }
        counted = known.kinds[:_MOST_FORGOTTEN] if heals else ()
        removes = counter_names(OF_KINDS, map(of_kind, counted))
        self._table.change(
            (self.pipeline, known.key),
            {SICK: {"turn": after.turn, "kinds": kinds}} if kinds else {},
            removes=removes if kinds else [SICK, *removes],
            when=absent(SICK) if known.sick is None else _in_turn(SICK, known.sick.turn),
        )

    def _find_kinds(self, circuit: Circuit, now: float) -> Circuit:
        """Slow the kinds that the counts show to be sick; the circuit as it is then."""
        from deadletter.pace.kinds import found

        kinds = found(circuit.kinds, circuit.closed_at, now)
        slowed = self.slow(circuit, lambda sick: sick.and_found(kinds, now)) if kinds else None
        return circuit if slowed is None else slowed[0]

    def _judge(self, circuit: Circuit) -> Circuit:
        """Trip the circuit if it counts too many failures, and start the outage's execution.

        Of several processes that see the same counts, the one whose trip is written starts it.
        Returns the circuit as it is then.
        """
        if not _has_failures(circuit):
            return circuit
        # Loaded with the first failure: a process that has none starts sooner without them.
        from deadletter.circuit.transitions import Reported
        from deadletter.outage.executions import ExecutionsUnavailable

        try:
            result = self.breaker.apply_to(circuit, Reported())
        except CircuitsUnavailable:
            # Still closed: the next report finds the same, and more.
            self.count_metric(Count.CIRCUIT_NOT_TRIPPED, 1)
            return circuit
        if result.refused is not None:
            return result.circuit
        self.count_metric(Count.CIRCUIT_TRIPPED, 1)
        opened = result.circuit
        if self.outages is not None:
            try:
                self.outages.start(opened.key, opened.outage, opened.restart)
            except ExecutionsUnavailable:
                self.count_metric(Count.OUTAGE_NOT_STARTED, 1)
        return opened

    def _remove_stale(self, key: str, stale: Sequence[int]) -> None:
        """Remove the counters of stale buckets. After a failure the next report tries again."""
        try:
            self._table.change((self.pipeline, key), {}, removes=counter_names(OF_BUCKETS, stale))
        except Failed:
            return
        self._pending.swept(key)


def _began_before(write: OutcomesWrite, item: Mapping[str, Any]) -> bool:
    """Whether the call that succeeded began before the streak in the item."""
    began = item.get(STREAK_AT)
    if write.good_at is None or not isinstance(began, Decimal | int):
        return False
    return float(began) > write.good_at + _ROUNDING


def _in_turn(name: str, turn: int) -> Condition:
    """The condition that a map, which counts its changes in `turn`, is still the same."""
    return equals((name, "turn"), turn)


def _of_generation(circuit: Circuit) -> Condition:
    """The condition that a circuit is still of its generation; one that is missing is 0."""
    return equals("generation", circuit.generation) | absent("generation")


_MOST_FORGOTTEN = 40
"""Counts of kinds that one write removes: DynamoDB takes 4 KB of an expression."""

_ROUNDING = 0.001
"""A time is stored in thousandths."""


def _accepted(circuit: Circuit, policy: CircuitPolicy, now: float) -> float:
    """Successes a second before anything was throttled: first receives, in the window."""
    buckets = [bucket for bucket in circuit.in_window(policy, now) if bucket.good]
    start = min((bucket.number for bucket in buckets), default=0) * policy.bucket
    good = sum(bucket.good for bucket in buckets)
    return good / max(policy.bucket, now - start) if buckets else 0.0


_NOTHING = PaceGrant(
    CallPace(limit=FLOOR, normal=0.0, since=0.0, changed=0.0), calls=0, waits=(), until=0.0
)
"""What is granted of a circuit that no pace limits."""


def _has_failures(circuit: Circuit) -> bool:
    """Whether anything is counted that could trip the circuit."""
    if any(count.failed for count in circuit.calls):
        return True
    return circuit.streak > 0 or any(bucket.bad or bucket.slow for bucket in circuit.buckets)


def _counted(prefixes: Sequence[str], of: object, *counts: Any) -> dict[str, Any]:
    """What is added to the counters with these prefixes, in their order."""
    return dict(zip(counter_names(prefixes, [of]), counts, strict=True))
