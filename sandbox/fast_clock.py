"""A clock that can run faster than the machine's: an outage of half an hour is over in minutes.

It is one clock for all: the emulator, the functions in it and the command line. SQS hides,
delays and drops by it, schedules start by it, alarms judge minutes of it, and a `time.sleep`
is as much shorter. Nothing of the app is set to shorter times.

Timeouts of sockets and locks keep the machine's seconds. So does `datetime.now()`, by which
requests are signed; nothing of the app reads it.

The workers of Lambda functions run this file's text, so it imports the standard library only.
"""

import mmap
import os
import struct
import time
from pathlib import Path

VARIABLE = "SANDBOX_CLOCK"
"""The environment variable with the file of the clock, which all processes read."""

# A moment of the machine, the same moment of the app, both in epoch seconds, and the speed.
_LAYOUT = struct.Struct("<3d")

# The file: which of two such records holds now, then both. Others read while one is written.
_RECORDS = 1

_machine_time, _machine_sleep = time.time, time.sleep


class FastClock:
    """Epoch seconds that pass `speed` times as fast as the machine's, by the file that says so."""

    def __init__(self, file: Path) -> None:
        with file.open("r+b") as opened:
            self._shared = mmap.mmap(opened.fileno(), _RECORDS + 2 * _LAYOUT.size)

    @classmethod
    def begin(cls, file: Path) -> "FastClock":
        """Make the file of a clock that shows the machine's time, at its speed."""
        now = _machine_time()
        file.write_bytes(b"\0" + 2 * _LAYOUT.pack(now, now, 1.0))
        return cls(file)

    def time(self) -> float:
        machine, app, speed = self._record()
        return float(app + (_machine_time() - machine) * speed)

    def sleep(self, seconds: float) -> None:
        _, _, speed = self._record()
        _machine_sleep(seconds / speed)

    def hurry(self, speed: float) -> None:
        """Let time pass so many times as fast from now on."""
        app, machine = self.time(), _machine_time()
        other = 1 - self._shared[0]
        _LAYOUT.pack_into(self._shared, _RECORDS + other * _LAYOUT.size, machine, app, speed)
        self._shared[0] = other

    def _record(self) -> tuple[float, float, float]:
        return _LAYOUT.unpack_from(self._shared, _RECORDS + self._shared[0] * _LAYOUT.size)


def install() -> None:
    """Put the clock that the environment names in the place of this process's own, if it does."""
    named = os.environ.get(VARIABLE)
    if named:
        clock = FastClock(Path(named))
        time.time = clock.time
        time.sleep = clock.sleep  # type: ignore[assignment]  # seconds are numbers here
