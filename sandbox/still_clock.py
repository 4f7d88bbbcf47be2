"""A clock that stands still, for an emulator whose tests let time pass."""

import asyncio
import time

# Takes a number of seconds by which the time of SQS goes on; answers with epoch seconds.
CLOCK_PATH = "/_sandbox/clock"


class StillClock:
    """Epoch seconds that pass only when they are told to; it begins with the present."""

    def __init__(self) -> None:
        self.now = float(int(time.time()))

    def time(self) -> float:
        return self.now

    async def sleep(self, seconds: float) -> None:
        """Let the time pass that a long poll would wait, and let others have their turn."""
        self.now += seconds
        await asyncio.sleep(0)
