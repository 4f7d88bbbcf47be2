"""The tag on a mapping that we paused: it tells so when the circuit's row is gone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from deadletter.circuit.state import Pollers

PAUSE_TAG = "deadletter:paused"
"""The key of the tag."""

_VALUE = re.compile(
    r"g=(?P<generation>\d{1,15})/c=(?P<concurrency>\d{1,6}|-)"
    r"/p=(?P<pollers>\d{1,6}-\d{1,6}|-)/t=(?P<at>\d{1,15})",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a mapping: `pollers` in provisioned mode, else `concurrency`.

    Lambda refuses both at once. None: no limit.
    """

    concurrency: int | None = None
    pollers: Pollers | None = None


@dataclass(frozen=True, slots=True)
class PauseTag:
    """A pause as its tag records it: the circuit's generation, the limits to restore, the time.

    `at` is when the tag was written, in epoch seconds, just before the mapping was disabled.
    """

    generation: int
    limits: Limits
    at: float

    def to_value(self) -> str:
        """The tag's value: AWS takes letters, digits, spaces and `_.:/=+-@`, so no JSON."""
        concurrency, pollers = self.limits.concurrency, self.limits.pollers
        limit = "-" if concurrency is None else concurrency
        both = "-" if pollers is None else f"{pollers.minimum}-{pollers.maximum}"
        return f"g={self.generation}/c={limit}/p={both}/t={int(self.at)}"


def tag_from_value(value: str) -> PauseTag | None:
    """The pause in a tag's value, or None if no version of ours has written it."""
    match = _VALUE.fullmatch(value)
    if match is None:
        return None
    limit, both = match["concurrency"], match["pollers"]
    limits = Limits(
        None if limit == "-" else int(limit),
        None if both == "-" else Pollers(*map(int, both.split("-"))),
    )
    return PauseTag(int(match["generation"]), limits, float(match["at"]))
