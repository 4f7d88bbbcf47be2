"""A clock that runs faster than the machine's: an outage of half an hour is over in minutes.

It is one clock for all: the emulator, the functions in it and the command line. SQS hides,
delays and drops by it, schedules start by it, alarms judge minutes of it, and a `time.sleep`
is as much shorter. Nothing of the app is set to shorter times.

Timeouts of sockets and locks keep the machine's seconds. So does `datetime.now()`, by which
requests are signed; nothing of the app reads it.

The workers of Lambda functions run this file's text, so it imports the standard library only.
"""

import os
import time

VARIABLE = "SANDBOX_CLOCK"
"""The environment variable with the clock: where it begins, in epoch seconds, and its speed."""

_machine_time, _machine_sleep = time.time, time.sleep


class FastClock:
    """Epoch seconds that pass `speed` times as fast as the machine's since `began`."""

    def __init__(self, began: float, speed: float) -> None:
        self.began = began
        self.speed = speed

    def time(self) -> float:
        return self.began + (_machine_time() - self.began) * self.speed

    def sleep(self, seconds: float) -> None:
        _machine_sleep(seconds / self.speed)

    @property
    def environment(self) -> dict[str, str]:
        """What a process has to find in its environment for `install`."""
        return {VARIABLE: f"{self.began} {self.speed}"}


def install() -> None:
    """Put the clock that the environment names in the place of this process's own, if it does."""
    named = os.environ.get(VARIABLE)
    if named:
        clock = FastClock(*map(float, named.split()))
        time.time = clock.time
        time.sleep = clock.sleep  # type: ignore[assignment]  # seconds are numbers here
