"""What was told and seen while the demo ran, for its report; the screen gets it at once."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sandbox.alarms import SHORT_MINUTE
from sandbox.demo.events import TENANTS
from sandbox.demo.live import Screen
from sandbox.demo.look import Look

# More are not seen in a picture.
MOST_SAMPLES = 400

Sample = Mapping[str, Any]


class Chronicle:
    """Passes on to *display* what it writes down; *clock* gives seconds since the demo began."""

    def __init__(self, display: Screen, clock: Callable[[], float]) -> None:
        self._display = display
        self._clock = clock
        self.timeline: list[Mapping[str, Any]] = []
        self.samples: list[Sample] = []
        self.outage: dict[str, float] = {}

    def tell(self, text: str) -> None:
        """Say what has happened."""
        self.timeline.append({"at": round(self._clock(), 1), "text": text})
        self._display.tell(text)

    def person_did(self, text: str) -> None:
        """Say what a person has done by hand."""
        self.timeline.append({"at": round(self._clock(), 1), "text": text, "person": True})
        self._display.tell(text)

    def saw(self, look: Look) -> None:
        """Show the figures of a look."""
        self.samples.append(sample(look))
        self._display.show(look)

    def outage_began(self) -> None:
        self.outage["began"] = round(self._clock(), 1)

    def outage_ended(self) -> None:
        self.outage["ended"] = round(self._clock(), 1)

    @property
    def outage_minutes(self) -> float:
        """How long the outage was, in the minutes that the sandbox's alarms and its watch have."""
        ended = self.outage.get("ended", self._clock())
        return (ended - self.outage.get("began", ended)) / SHORT_MINUTE


def sample(look: Look) -> Sample:
    """The figures of a look, with the keys of the report."""
    return {
        "at": round(look.at, 1),
        "main": look.main,
        "dlq": look.dlq,
        "waiting_room": len(look.seated),
        "parking_lot": look.parked,
        "delivered": look.delivered,
        "circuits": {tenant: str(look.circuit_of(tenant).state) for tenant in TENANTS},
    }


def thinned(samples: Sequence[Sample], most: int = MOST_SAMPLES) -> Sequence[Sample]:
    """At most so many of them, evenly, the first and the last among them."""
    if len(samples) <= most:
        return samples
    last = len(samples) - 1
    return [samples[round(place * last / (most - 1))] for place in range(most)]


def open_times(samples: Sequence[Sample], tenant: str) -> Sequence[Mapping[str, float]]:
    """When the tenant's circuit was seen to be anything but CLOSED, from look to look."""
    times: list[dict[str, float]] = []
    was_closed = True
    for each in samples:
        is_closed = each["circuits"][tenant] == "CLOSED"
        if not is_closed and was_closed:
            times.append({"from": each["at"], "to": each["at"]})
        elif not was_closed:
            times[-1]["to"] = each["at"]
        was_closed = is_closed
    return times
