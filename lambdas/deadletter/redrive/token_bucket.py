"""The rate at which letters go back: a token bucket shared by the workers of a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class TokenBucket:
    """`tokens` letters may go at the moment `at` (epoch seconds), `rate` more each second.

    There are never more than `burst` tokens. A run leaves the bucket to the next one, so
    that a restart is no new burst.
    """

    rate: float
    burst: float
    tokens: float
    at: float

    def at_moment(self, now: float) -> TokenBucket:
        """The bucket at `now` (epoch seconds). A clock that went backwards adds nothing."""
        gained = max(0.0, now - self.at) * self.rate
        tokens = min(self.burst, self.tokens + gained)
        return replace(self, tokens=tokens, at=max(now, self.at))

    def slowed(self, share: float) -> TokenBucket:
        """The bucket at a share (0 to 1) of its rate and burst; one letter always fits."""
        burst = max(1.0, self.burst * share)
        return replace(self, rate=self.rate * share, burst=burst, tokens=min(self.tokens, burst))

    def paced(self, rate: float, burst: float) -> TokenBucket:
        """The bucket at another rate and burst; what it holds beyond the burst is lost."""
        return replace(self, rate=rate, burst=burst, tokens=min(self.tokens, burst))

    def less(self, tokens: float) -> TokenBucket:
        return replace(self, tokens=self.tokens - tokens)


class RateLimiter:
    """A token bucket that several workers take from.

    `delay_share` (0 to 1) is the part of their first backoff that letters are delayed.
    """

    def __init__(self, bucket: TokenBucket, clock: Callable[[], float]) -> None:
        self.delay_share = 1.0
        self._bucket = bucket
        self._clock = clock
        self._lock = threading.Lock()

    def take(self, most: int, least: int = 1) -> int:
        """Spend up to `most` tokens, or none if there are fewer than `least`.

        Returns how many letters may go now.
        """
        now = self._clock()
        with self._lock:
            bucket = self._bucket.at_moment(now)
            granted = min(most, int(bucket.tokens))
            granted = granted if granted >= least else 0
            self._bucket = bucket.less(granted)
        return granted

    def give_back(self, unused: int) -> None:
        """Return what was granted and not sent."""
        with self._lock:
            self._bucket = self._bucket.less(-unused)

    def pace(self, paced: Callable[[TokenBucket], TokenBucket]) -> None:
        """Go on with the bucket at another pace; what it has gained so far is kept."""
        now = self._clock()
        with self._lock:
            self._bucket = paced(self._bucket.at_moment(now))

    @property
    def bucket(self) -> TokenBucket:
        with self._lock:
            return self._bucket

    @property
    def now(self) -> TokenBucket:
        """The bucket as it is at this moment."""
        return self.bucket.at_moment(self._clock())

    def seconds_until(self, letters: int) -> float:
        """Seconds until so many letters may go, or as many as the burst allows."""
        bucket = self.now
        missing = min(letters, bucket.burst) - bucket.tokens
        return max(0.0, missing / bucket.rate)
