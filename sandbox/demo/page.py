"""The demo's report as one page of HTML: no script, and nothing from other hosts.

Its picture has messages by place over time, and below it the circuit of each tenant. What is drawn
where is said in shares of the plot: 0 is its left end or its top.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from console.web.page import render
from sandbox.alarms import SHORT_MINUTE
from sandbox.demo import person
from sandbox.demo.beside import ASSUMPTIONS, COUNTED, LATE_AFTER

Report = Mapping[str, Any]
"""What `sandbox.demo.run` writes."""

# What has to be zero, with what it is called.
_ZERO = {
    "waiting": "still on its way",
    "lost": "lost",
    "strangers": "bodies that were never sent",
    "altered": "attributes changed",
    "astray": "another end than planned",
    "unrecorded": "healed, without a failure record",
}


def write(report: Report, file: Path) -> None:
    """Write the page to *file*."""
    file.write_text(page(report), encoding="utf-8")


def page(report: Report) -> str:
    """The page. All texts are escaped; bodies are not in it.

    What a demo that was broken off or went wrong does not have is left out.
    """
    samples, tenants = report.get("samples", ()), report.get("tenants", ())
    names = {each["name"]: f"{each['name']} ({each['role']})" for each in tenants}
    picture = None
    if len(samples) > 1:
        picture = picture_of(samples, report.get("outage") or {}, names)
    return render(
        "demo.html",
        report=report,
        picture=picture,
        places=PLACES,
        edge=EDGE,
        zero=_ZERO,
        parked=sum(report["parked_by_reason"].values()),
        at_once=report["delivered"] - report["healed"],
        counted=COUNTED,
        assumptions=ASSUMPTIONS,
        assumed=person.ASSUMED,
        late_after=LATE_AFTER,
        minute=SHORT_MINUTE,
    )


# The picture.

Sample = Mapping[str, Any]
Spell = tuple[float, float, str]

Line = Sequence[tuple[float, float]]
"""Points from left to right."""

# The lines' top has so much room above it.
_ROOM = 0.08

_MOST_TICKS = 6
# A label in the middle of its tick would be cut off so near to an end.
EDGE = 0.04
_STEPS_SECONDS = (1, 2, 5, 10, 15, 20, 30, 60, 120, 300, 600, 1800)

PLACES: Mapping[str, str] = {
    "delivered": "delivered",
    "main": "main queue",
    "dlq": "DLQ",
    "waiting_room": "waiting",
    "parking_lot": "parked",
}
"""The lines: a place as samples call it, and its name."""

# The states of a circuit that are drawn: all that is not is closed.
_DRAWN = ("OPEN", "HALF_OPEN")


@dataclass(frozen=True, slots=True)
class TenantLane:
    """When the circuit of a tenant was not closed: from, to, state."""

    name: str
    says: str
    spells: Sequence[Spell]


@dataclass(frozen=True, slots=True)
class Picture:
    """What is drawn of a demo.

    most    messages at the height of the top line of the grid
    outage  from where to where it was; None without one
    ticks   seconds, and where they are
    """

    says: str
    most: int
    grid: Sequence[float]
    lines: Mapping[str, Line]
    outage: tuple[float, float] | None
    lanes: Sequence[TenantLane]
    ticks: Mapping[float, float]


def picture_of(
    samples: Sequence[Sample], outage: Mapping[str, float], tenants: Mapping[str, str]
) -> Picture:
    """Of two samples at least, with the outage; *tenants* have the names that are shown."""
    last = samples[-1]
    axis = Axis(samples[0]["at"], last["at"])
    most = max(max(sample[name] for name in PLACES) for sample in samples) or 1

    def top(number: float) -> float:
        return 1 - number / most * (1 - _ROOM)

    lines = {
        name: [(axis.share(each["at"]), top(each[name])) for each in samples] for name in PLACES
    }
    shade = None
    if outage:
        shade = axis.share(outage["began"]), axis.share(outage.get("ended", last["at"]))
    return Picture(
        says=_told(last, outage),
        most=most,
        grid=[top(0), top(most / 2), top(most)],
        lines=lines,
        outage=shade,
        lanes=[_lane(samples, axis, tenant, name) for tenant, name in tenants.items()],
        ticks={at: axis.share(at) for at in axis.ticks()},
    )


@dataclass(frozen=True, slots=True)
class Axis:
    """Where the seconds from *first* to *last* are drawn."""

    first: float
    last: float

    def share(self, at: float) -> float:
        """From 0 at the left end to 1 at the right one."""
        inside = min(max(at, self.first), self.last)
        return (inside - self.first) / ((self.last - self.first) or 1)

    def ticks(self) -> Iterator[float]:
        """Round numbers of seconds, a few of them."""
        span = self.last - self.first
        steps = (step for step in _STEPS_SECONDS if span / step <= _MOST_TICKS)
        step = next(steps, _STEPS_SECONDS[-1])
        tick = -(-self.first // step) * step
        while tick <= self.last - span * EDGE:
            yield tick
            tick += step


def _told(last: Sample, outage: Mapping[str, float]) -> str:
    """The picture in words."""
    ends = ", ".join(f"{last[name]:,} {title}" for name, title in PLACES.items())
    end = f"to {outage['ended']:.0f} seconds" if "ended" in outage else "on, without an end"
    when = f" The outage was from {outage['began']:.0f} {end}." if outage else ""
    return f"Messages by place over time. At the end: {ends}.{when}"


def _lane(samples: Sequence[Sample], axis: Axis, tenant: str, name: str) -> TenantLane:
    states = [(each["at"], each["circuits"].get(tenant, "CLOSED")) for each in samples]
    drawn = [spell for spell in spells(states) if spell[2] in _DRAWN]
    spoken = [
        f"{state.replace('_', ' ').lower()} from {began:.0f} to {ended:.0f} seconds"
        for began, ended, state in drawn
    ]
    return TenantLane(
        name,
        f"{name}: circuit {', '.join(spoken) or 'closed all the time'}",
        [(axis.share(began), axis.share(ended), state) for began, ended, state in drawn],
    )


def spells(states: Sequence[tuple[float, str]]) -> Sequence[Spell]:
    """From when to when it was in which state, by looks at it; one lasts until the next look."""
    found: list[Spell] = []
    for (at, state), (until, _) in pairwise(states):
        if found and found[-1][2] == state:
            found[-1] = (found[-1][0], until, state)
        else:
            found.append((at, until, state))
    return found
