"""What became of every event: delivered, parked, waiting, or lost."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deadletter.letter import Attribute
from sandbox.demo.events import Event

# Endings of an event beside the reasons that letters are parked for.
DELIVERED = "delivered"
WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class Parked:
    """One letter of the parking lot, known by its body; *attributes* without our own."""

    digest: str
    reason: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Found:
    """What lay at every end, each body by its digest.

    *delivered* has one entry a delivery that an endpoint accepted, *waiting* one a
    letter in the waiting room, the main queue or the DLQ.
    """

    delivered: Sequence[str] = ()
    parked: Sequence[Parked] = ()
    waiting: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Every event once: *sent* = delivered + parked + waiting + lost.

    An event in two places counts at the better one, and once more in *duplicates*.
    *strangers* are bodies that nobody sent, so also events whose body was changed;
    *altered* came through with other attributes, *astray* ended otherwise than planned.
    """

    sent: int
    delivered: int
    parked_by_reason: Mapping[str, int]
    waiting: int
    lost: tuple[str, ...]
    duplicates: int
    strangers: int
    altered: tuple[str, ...]
    astray: tuple[str, ...]

    @property
    def passed(self) -> bool:
        """Whether every event is accounted for, unchanged, and where it belongs.

        Duplicates do not count against it: SQS delivers at least once.
        """
        return not (self.lost or self.waiting or self.strangers or self.altered or self.astray)


def reconcile(sent: Sequence[Event], found: Found) -> Reconciliation:
    """Account for every event of *sent*, whose bodies all differ."""
    by_digest = {event.digest: event for event in sent}
    # From the worst ending to the best: the last word on an event is the best it came to.
    endings = {
        **dict.fromkeys(found.waiting, WAITING),
        **{one.digest: one.reason for one in found.parked},
        **dict.fromkeys(found.delivered, DELIVERED),
    }
    sightings = Counter(
        [*found.delivered, *(one.digest for one in found.parked), *found.waiting]
    )
    known = {key: ending for key, ending in endings.items() if key in by_digest}
    numbers = Counter(known.values())
    return Reconciliation(
        sent=len(sent),
        delivered=numbers.pop(DELIVERED, 0),
        waiting=numbers.pop(WAITING, 0),
        parked_by_reason=dict(sorted(numbers.items())),
        lost=_ids(event for event in sent if event.digest not in known),
        duplicates=sum(sightings[key] - 1 for key in known),
        strangers=sum(sightings[key] for key in endings.keys() - by_digest.keys()),
        altered=_ids(
            by_digest[one.digest]
            for one in found.parked
            if one.digest in known and one.attributes != by_digest[one.digest].attributes
        ),
        astray=_ids(
            event
            for event in sent
            if known.get(event.digest, WAITING) not in (WAITING, event.parked_as or DELIVERED)
        ),
    )


def _ids(events: Iterable[Event]) -> tuple[str, ...]:
    return tuple(event.event_id for event in events)
