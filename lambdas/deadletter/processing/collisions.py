"""Whether a message that collides is parked: not in a pipeline's first day, and not while many do.

Two messages collide if they have one idempotency key and differ. One of them is a mistake of its
producer, and a person decides. If many collide, the mistake is in the settings: the payload has a
part that each publishing writes anew, and `idempotency_payload` does not leave it out.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from threading import Lock
from typing import Protocol

from deadletter.circuit.state import CircuitsUnavailable
from deadletter.contract import DAY, MINUTE
from deadletter.processing.idempotency import Claim, Standing
from deadletter.processing.payload import MOST_NAMED
from deadletter.signals.figures import Count

WINDOW = 10.0 * MINUTE
"""Seconds in which collisions are counted, and for which parking stops after they were many."""

LEAST = 20
"""Collisions in a window that are many, if they are also more than SHARE of its messages."""

SHARE = 0.05

FIRST_DAY = float(DAY)
"""Seconds after a pipeline's first batch in which nothing is parked: paths are tried out."""

BETWEEN_WRITES = 10.0
"""Seconds between two writes of a process, while it need not know at once."""

BETWEEN_CALM_WRITES = WINDOW / 2
"""The same while no message of the window collides, as far as it knows."""

MOST_UNTOLD = 3
"""Collisions that are not written yet: with so many, a process asks how many there are in all."""

BETWEEN_STOPS = 60.0
"""Seconds between two writes that let parking stay stopped."""

Counts = Mapping[int, tuple[int, int]]
"""Messages, and those of them that collided, by minute (epoch)."""


class CollisionsUnavailable(CircuitsUnavailable):
    """The counts of collisions could not be written."""


@dataclass(frozen=True, slots=True)
class KnownCollisions:
    """What is known of a pipeline's collisions; times are epoch seconds.

    `since` is its first batch. Nothing is parked for a collision until `stopped_until`. `paths`
    are those in which messages differed most often. `bad_claim` names the last claim that a
    consumer could not read, and `bad_claim_at` is when it met it.
    """

    since: float
    counts: Counts = field(default_factory=dict)
    stopped_until: float = 0.0
    paths: tuple[str, ...] = ()
    bad_claim: str = ""
    bad_claim_at: float = 0.0

    def in_window(self, now: float) -> tuple[int, int]:
        """The messages of the window that ends now, and those that collided."""
        return _in_window(self.counts, now)

    def is_stopped(self, now: float) -> bool:
        """Whether nothing is parked because many messages collide, or did within a window."""
        return now < self.stopped_until


class CollisionStore(Protocol):
    """Stores the collisions of one pipeline; raises CollisionsUnavailable."""

    def count(self, counts: Counts, paths: tuple[str, ...], now: float) -> KnownCollisions:
        """Add counts; returns what is known then. The first write begins the first day."""

    def stop(self, until: float, now: float) -> bool:
        """Stop parking until then. Returns True if it had not been stopped."""


class Collisions:
    """Counts the collisions of one process, and says whether one is parked.

    `count_metric` counts a metric by its name. It never raises for a store that gives no answer:
    without one nothing is parked.
    """

    def __init__(
        self,
        store: CollisionStore,
        clock: Callable[[], float],
        count_metric: Callable[[str, int], None],
    ) -> None:
        self._store = store
        self._clock = clock
        self._count_metric = count_metric
        self._known: KnownCollisions | None = None
        self._pending: dict[int, tuple[int, int]] = {}
        self._paths: Counter[str] = Counter()
        self._untold = 0
        self._last_write: float | None = None
        self._was_refused = False
        # The messages of one batch may be processed side by side.
        self._lock = Lock()

    def seen(self, claim: Claim) -> None:
        """Count a message by its claim."""
        if claim.standing is Standing.BUSY:
            return
        # A message that was processed apart has been counted when it was.
        collided = claim.standing is Standing.MINE and bool(claim.differences)
        minute = int(self._clock() // MINUTE)
        with self._lock:
            messages, collisions = self._pending.get(minute, (0, 0))
            self._pending[minute] = messages + 1, collisions + collided
            if collided:
                self._untold += 1
                self._paths.update(claim.differences or ())

    def parks(self) -> bool:
        """Whether a message that collides now is parked. If not, it is processed."""
        self.report()
        now = self._clock()
        with self._lock:
            known = self._known
            if (known is not None and known.is_stopped(now)) or self._are_many(now):
                self._count_metric(Count.MANY_COLLISIONS, 1)
                return False
            return known is not None and now - known.since >= FIRST_DAY

    def report(self) -> None:
        """Write what was counted, if it is due."""
        now = self._clock()
        with self._lock:
            if not self._is_due(now):
                return
            self._last_write = now
            oldest = int((now - WINDOW) // MINUTE)
            self._pending = {key: n for key, n in self._pending.items() if key >= oldest}
            paths = tuple(path for path, _ in self._paths.most_common(MOST_NAMED))
            try:
                self._known = self._store.count(self._pending, paths, now)
                self._pending, self._untold = {}, 0
                self._was_refused = False
                if self._are_many(now):
                    self._stop(self._known, now)
            except CollisionsUnavailable:
                self._was_refused = True

    def _stop(self, known: KnownCollisions, now: float) -> None:
        until = now + WINDOW
        if known.stopped_until < until - BETWEEN_STOPS:
            self._store.stop(until, now)
            self._known = KnownCollisions(known.since, known.counts, until, known.paths)

    def _are_many(self, now: float) -> bool:
        """Whether many messages of the window collide, as far as this process knows."""
        pending = _in_window(self._pending, now)
        known = (0, 0) if self._known is None else self._known.in_window(now)
        messages, collisions = (a + b for a, b in zip(pending, known, strict=True))
        return collisions >= LEAST and collisions > SHARE * messages

    def _is_due(self, now: float) -> bool:
        if self._last_write is None:
            return True
        since = abs(now - self._last_write)
        _, collided = (0, 0) if self._known is None else self._known.in_window(now)
        if since >= (BETWEEN_WRITES if collided or self._untold else BETWEEN_CALM_WRITES):
            return bool(self._pending)
        stopped = self._known is not None and self._known.is_stopped(now)
        return self._untold >= MOST_UNTOLD and not self._was_refused and not stopped


def _in_window(counts: Counts, now: float) -> tuple[int, int]:
    oldest = int((now - WINDOW) // MINUTE) + 1
    recent = [counted for minute, counted in counts.items() if minute >= oldest]
    return sum(messages for messages, _ in recent), sum(collided for _, collided in recent)
