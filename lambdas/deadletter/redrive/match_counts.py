"""How many letters the rules have acted on: gathered, and written for many letters at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace

from deadletter.failure.ledger import Records
from deadletter.redrive.order import Order

ENOUGH_MATCHES = 100
"""Matches of one rule that are written at once."""

MOST_SECONDS = 5.0
"""Seconds after which every count is written, however small."""


class MatchCounts:
    """Counts the matches of rules, by `rule_counts_key`. Raises RecordsUnavailable.

    While it `gathers`, a count waits for others. A process that dies then loses the counts of its
    last seconds and no letter. Those of rules with `max_matches` are claimed before.
    """

    def __init__(self, records: Records, clock: Callable[[], float]) -> None:
        self._records = records
        self._clock = clock
        self._lock = threading.Lock()
        self.gathers = False
        self._matched: Counter[str] = Counter()
        self._shadow_matched: Counter[str] = Counter()
        self._since = 0.0

    def add(self, matched: Iterable[str], shadow_matched: Iterable[str]) -> None:
        """Count letters that rules have acted on, or would have acted on."""
        with self._lock:
            now = self._clock()
            if not self._matched and not self._shadow_matched:
                self._since = now
            self._matched.update(matched)
            self._shadow_matched.update(shadow_matched)
            least = ENOUGH_MATCHES
            if not self.gathers or now - self._since >= MOST_SECONDS:
                least = 1
            ready = _taken(self._matched, least), _taken(self._shadow_matched, least)
        self._write(*ready)

    def claim(self, orders: Sequence[Order]) -> Mapping[str, str]:
        """Count, before they are moved, the letters that rules with a limit act on.

        Returns the keys by copy. A letter with a limit and without a key may not be moved: its rule
        has acted on so many by now. One chunk is claimed in one step while the count is below the
        limit, so that a rule acts on at most one chunk, less one letter, more than it may.
        """
        wanted: dict[tuple[str, int], list[str]] = {}
        for order in orders:
            if order.matched is not None and order.limit is not None:
                wanted.setdefault((order.matched, order.limit), []).append(order.copy)
        return {
            copy: key
            for (key, limit), copies in wanted.items()
            if self._records.claim_matches(key, len(copies), limit)
            for copy in copies
        }

    def give_back(self, claimed: Mapping[str, str], stayed: Collection[str]) -> None:
        """Take back the claims of copies that have stayed where they are."""
        unused = Counter(key for copy, key in claimed.items() if copy in stayed)
        self._write({key: -letters for key, letters in unused.items()}, {})

    def _write(self, matched: Mapping[str, int], shadow_matched: Mapping[str, int]) -> None:
        if matched or shadow_matched:
            self._records.count_matches(matched, shadow_matched)


def without_limit(orders: Sequence[Order], claimed: Mapping[str, str]) -> list[Order]:
    """The orders that may be carried out: without a limit, or claimed, and so counted already."""
    return [
        replace(order, matched=None, limit=None) if order.copy in claimed else order
        for order in orders
        if order.matched is None or order.limit is None or order.copy in claimed
    ]


def _taken(counts: Counter[str], least: int) -> dict[str, int]:
    """The counts that are at least so large; they are no longer among the others."""
    return {key: counts.pop(key) for key in [*counts] if counts[key] >= least}
