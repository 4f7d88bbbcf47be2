"""How many letters the rules have acted on: gathered, and written for many letters at once."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

from deadletter.failure.ledger import Records

ENOUGH_MATCHES = 100
"""Matches of one rule that are written at once: a rule with `max_matches` may act on so many more
letters than without gathering, about one chunk."""

MOST_SECONDS = 5.0
"""Seconds after which every count is written, however small."""


class MatchCounts:
    """Counts the matches of rules, by `rule_counts_key`. Raises RecordsUnavailable.

    While it `gathers`, a count waits for others. A process that dies then loses the counts of its
    last seconds and no letter: rules with `max_matches` act on so many more.
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

    def _write(self, matched: Mapping[str, int], shadow_matched: Mapping[str, int]) -> None:
        if matched or shadow_matched:
            self._records.count_matches(matched, shadow_matched)


def _taken(counts: Counter[str], least: int) -> dict[str, int]:
    """The counts that are at least so large; they are no longer among the others."""
    return {key: counts.pop(key) for key in [*counts] if counts[key] >= least}
