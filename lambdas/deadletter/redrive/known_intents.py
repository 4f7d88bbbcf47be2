"""The intents on record, as the workers of one run know them."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from deadletter.redrive.journal import Journal, OpenIntents, open_intents

REUSED_FOR = 30.0
"""Seconds for which a reading of the journal is used again for letters from a queue. An intent
is written at least 70 s before the locks of its letters end: whatever a letter that was received
now has been through stood on record 30 s ago (ADR 16)."""


class KnownIntents:
    """The journal, read for all workers of a run at once. Raises JournalUnavailable."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        self._journal = journal
        self._clock = clock
        self._lock = threading.Lock()
        self._read_at = -math.inf
        self._open = open_intents([], 0)

    def recent(self) -> OpenIntents:
        """The intents as they were at most REUSED_FOR seconds ago; for letters from a queue."""
        with self._lock:
            if self._clock() - self._read_at >= REUSED_FOR:
                self._read()
            return self._open

    def fresh(self) -> OpenIntents:
        """The intents as they are now."""
        with self._lock:
            self._read()
            return self._open

    def _read(self) -> None:
        now = self._clock()
        self._open = open_intents(self._journal.read(), now)
        self._read_at = now
