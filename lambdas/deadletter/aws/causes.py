"""The causes of failure of a pipeline: one row of the circuits table, beside its circuits."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from typing import Any

from deadletter.aws.dynamodb import MANY, PipelineRows, counters_in
from deadletter.aws.errors import Conflict, ours
from deadletter.aws.rows import part_of, readable
from deadletter.aws.table import Condition, absent, equals
from deadletter.contract import CAUSES_ROW, CIRCUITS, DAY
from deadletter.failure.causes import (
    BUCKETS,
    NO_CAUSES,
    WINDOW,
    CauseCounts,
    CauseHold,
    Causes,
    CausesUnavailable,
    Second,
    Stretch,
    bucket_of,
)

TOTAL = "n_"
"""Prefix of the counters of outcomes. Each bucket has its own attribute, so that a process that
saw no failure adds to it without a condition."""

_KEEP_SECONDS = 3 * DAY
"""How long the row stays after its last write: longer than anything in it is valid."""

_MOST_CONFLICTS = 5
"""Tries of one write while other processes count failures too."""


@dataclass(frozen=True, slots=True)
class _Row:
    """The causes as they were read, and the token of the write that they come from."""

    causes: Causes = NO_CAUSES
    token: str | None = None


@dataclass(eq=False, repr=False)
class DynamoDBCauses(PipelineRows, CauseCounts):
    """The causes of one pipeline; `new_id` returns a unique text.

    Totals are added; everything else is one text, written on the condition that no other
    process has written it since it was read.
    """

    new_id: Callable[[], str]

    KEYS = CIRCUITS

    def __post_init__(self) -> None:
        super().__post_init__()
        self._key = (self.pipeline, CAUSES_ROW)
        self._row = _Row()

    def read(self) -> Causes:
        with ours(CausesUnavailable):
            item = self._table.get_many([self._key]).get(self._key)
        self._row = _Row() if item is None else _row(item)
        return self._row.causes

    def count(self, seconds: Sequence[Second], now: float) -> tuple[Causes, tuple[str, ...]]:
        totals: dict[int, int] = {}
        for second in seconds:
            number = bucket_of(second.at)
            totals[number] = totals.get(number, 0) + second.total
        if not any(second.failed or second.again for second in seconds):
            self._update(totals, now)
            stretch = self._row.causes.stretch
            if stretch is None or now - stretch.since > WINDOW:
                return self._row.causes, ()
            self._end_lead(seconds, now)
            return self._row.causes, ()
        before = self._change(lambda causes: causes.counting(seconds, now).judged(now), now, totals)
        begun = self._row.causes.held(now).keys() - before.held(now).keys()
        return self._row.causes, tuple(sorted(begun))

    def _end_lead(self, counted: Sequence[Second], now: float) -> None:
        """Count successes, whose totals are written, against the cause in the lead."""

        def change(causes: Causes) -> Causes:
            return replace(causes.counting(counted, now), totals=causes.totals)

        # Without an answer the lead lasts for longer, which only delays a parking.
        with suppress(CausesUnavailable):
            self._change(change, now, {})

    def change(self, change: Callable[[Causes], Causes], now: float) -> Causes:
        """Change the causes as a person decided. Returns them as they are then."""
        self.read()
        self._change(change, now, {})
        return self._row.causes

    def _change(
        self, change: Callable[[Causes], Causes], now: float, totals: Mapping[int, int]
    ) -> Causes:
        """Write the changed causes; returns them as they were before."""
        for _ in range(_MOST_CONFLICTS):
            before = self._row
            if self._update(totals, now, before, change(before.causes)):
                return before.causes
        raise CausesUnavailable("the causes change too often at once")

    @ours(CausesUnavailable)
    def _update(
        self,
        totals: Mapping[int, int],
        now: float,
        before: _Row | None = None,
        after: Causes | None = None,
    ) -> bool:
        """Add totals and, if the row is still the one `before`, write the causes `after`.

        Returns False if another process was first. The row is then known as it is.
        """
        token = self.new_id()
        sets: dict[str, Any] = {"ttl": int(now + _KEEP_SECONDS)}
        is_same: Condition | None = None
        if after is not None:
            sets |= {"causes": to_json(after), "token": token}
            known = None if before is None else before.token
            is_same = absent("token") if known is None else equals("token", known)
        try:
            written = self._table.change(
                self._key,
                sets,
                adds={f"{TOTAL}{number}": n for number, n in totals.items()},
                removes=self._stale(now, totals),
                when=is_same,
                shown="ALL_NEW",
            )
        except Conflict as conflict:
            self._row = _row(conflict.item or {})
            # The SDK repeats a write whose answer was lost: the row may have this write's token.
            return self._row.token == token
        self._row = _row(written)
        return True

    def _stale(self, now: float, totals: Mapping[int, int]) -> list[str]:
        present = bucket_of(now)
        kept = range(present - BUCKETS + 1, present + BUCKETS)
        known = self._row.causes.totals
        return [f"{TOTAL}{n}" for n in sorted(known) if n not in kept and n not in totals]


def to_json(causes: Causes) -> str:
    """The causes without their totals, as the row keeps them."""
    stretch = causes.stretch
    data = {
        "counts": causes.counts,
        "stretch": None
        if stretch is None
        else {**asdict(stretch), "messages": sorted(stretch.messages)},
        "holds": {cause: asdict(hold) for cause, hold in causes.holds.items()},
    }
    return json.dumps({name: value for name, value in data.items() if value})


def _row(item: Mapping[str, Any]) -> _Row:
    """The row in an item. What is malformed counts as empty: it says nothing of any cause."""
    causes = readable(_causes, item, NO_CAUSES)
    token = item.get("token")
    totals = counters_in(item, TOTAL)
    return _Row(replace(causes, totals=totals), token if isinstance(token, str) else None)


def _causes(item: Mapping[str, Any]) -> Causes:
    data = json.loads(item.get("causes", "{}"))
    stretch = data.get("stretch")
    return Causes(
        counts={
            cause: {_count(number): _count(n) for number, n in count.items()}
            for cause, count in data.get("counts", {}).items()
        },
        stretch=None
        if stretch is None
        else part_of(Stretch, stretch, messages=frozenset(map(int, stretch["messages"]))),
        holds={cause: part_of(CauseHold, hold) for cause, hold in data.get("holds", {}).items()},
    )


def _count(value: Any) -> int:
    """A count, or the number of a bucket; ValueError for an impossible one."""
    if not 0 <= (count := int(value)) < MANY:
        raise ValueError("a count must be one of messages")
    return count
