"""The one bucket: the generic cell rate algorithm (ITU-T I.371).

All that is kept of it is one time, `paid`: when the calls let through so far are paid for. A call
costs 1 / limit seconds, and time that passes pays. What is saved is never more than the burst:

    before now - burst / limit    full: it counts as now - burst / limit
    up to now - n / limit         n calls may go, and `paid` grows by what they cost
    later                         n calls wait

In any window no more calls are let through than limit x (window + the clocks' skew) + burst.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

SKEW_SECONDS = 10.0
"""By which the clocks of two machines may differ. A time further ahead is a wrong row's."""

EXACT_SECONDS = 1e-5
"""What sums of epoch seconds, as floats, are exact to: a call that misses so little may go."""

LEAST_SHARE = 0.001
"""What is left of a rate of which nothing is admitted: the next call has a time, far ahead."""


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` calls a second, and `burst` at once. All times are epoch seconds."""

    limit: float
    burst: float

    def free(self, paid: float, now: float) -> float:
        """Calls that may go now; fewer than none if calls were let through by a faster clock."""
        return (now - self.start(paid, now)) * self.limit

    def whole(self, paid: float, now: float) -> int:
        """Whole calls that may go now."""
        exact = self.free(paid, now) + EXACT_SECONDS * self.limit
        return max(0, math.floor(min(exact, self.burst)))

    def after(self, paid: float, calls: float, now: float) -> float:
        """When all is paid for after so many more calls; fewer than 0 are given back."""
        return self.start(paid, now) + self.cost(calls)

    def cost(self, calls: float) -> float:
        """Seconds that so many calls cost."""
        return calls / self.limit

    def latest(self, calls: float, now: float) -> float:
        """The latest `paid` with which so many calls may go now; one fits into any burst."""
        return now - min(calls, max(1.0, self.burst)) / self.limit

    def seconds_until(self, calls: float, paid: float, now: float) -> float:
        """Seconds until so many calls may go, or as many as the burst allows."""
        return max(0.0, self.start(paid, now) - self.latest(calls, now))

    def share(self, share: float) -> Rate:
        """A share (0 to 1) of limit and burst; one call always fits, and none waits for ever."""
        return Rate(self.limit * max(share, LEAST_SHARE), max(1.0, self.burst * share))

    def full(self, now: float) -> float:
        """The `paid` of a bucket that nobody has used for long."""
        return now - self.burst / self.limit

    def start(self, paid: float, now: float) -> float:
        """`paid` without what the burst does not hold.

        A wrong row lets one call through, which writes it anew: it must not stop all calls.
        """
        known = paid if paid <= now + SKEW_SECONDS else self.latest(1, now)
        return max(known, self.full(now))
