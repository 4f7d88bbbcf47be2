"""What became of every event: delivered, parked, waiting, or lost."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from deadletter.message.letter import Attribute
from sandbox.demo.events import Event

# What an event can come to beside the reasons that letters are parked for.
DELIVERED = "delivered"
WAITING = "waiting"


@dataclass(frozen=True, slots=True)
class DeliveredEvent:
    """One delivery that an endpoint accepted; *digest* names the body, here and below."""

    digest: str
    redriven: bool = False


@dataclass(frozen=True, slots=True)
class ParkedEvent:
    """One letter of the parking lot; *attributes* are its producer's, without our own."""

    digest: str
    reason: str
    attributes: Mapping[str, Attribute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class FoundLetters:
    """What lay at every end.

    *waiting* has one digest for each letter still in the waiting room, the main queue
    or the DLQ; *held* those of all that were ever seen in the waiting room, *recovered*
    those of letters that the ledger says were processed after all.
    """

    delivered: Sequence[DeliveredEvent] = ()
    parked: Sequence[ParkedEvent] = ()
    waiting: Sequence[str] = ()
    held: Sequence[str] = ()
    recovered: Sequence[str] = ()

    @property
    def healed(self) -> frozenset[str]:
        """The bodies that an endpoint took after a re-drive."""
        return frozenset(delivery.digest for delivery in self.delivered if delivery.redriven)


@dataclass(frozen=True, slots=True)
class Reconciliation:
    """Every event once: *sent* = *delivered* + *parked_by_reason* + *waiting* + *lost*.

    An event seen at several ends, or several times at one, counts once, at the best of
    them, and each further time in *duplicates*. *strangers* are bodies that were never sent,
    so an event whose body was changed is lost and a stranger. *altered* were parked with
    other attributes than they were sent with, *astray* came to another end than planned,
    *unrecorded* were healed and the ledger does not say so.
    """

    sent: int
    delivered: int
    healed: int
    held: int
    parked_by_reason: Mapping[str, int]
    waiting: int
    lost: tuple[str, ...]
    strangers: int
    altered: tuple[str, ...]
    astray: tuple[str, ...]
    duplicates: int
    recovered: int = 0
    unrecorded: tuple[str, ...] = ()

    @property
    def must_be_zero(self) -> Mapping[str, int]:
        """Everything that is wrong; not duplicates, for SQS delivers at least once."""
        return {
            "waiting": self.waiting,
            "lost": len(self.lost),
            "changed on the way": self.strangers + len(self.altered),
            "another end than planned": len(self.astray),
            "healed, without a failure record": len(self.unrecorded),
        }

    @property
    def wrong(self) -> Mapping[str, Sequence[str]]:
        """The events that went wrong by what did, each kind only if there are any."""
        kinds = {
            "lost": self.lost,
            "altered": self.altered,
            "astray": self.astray,
            "unrecorded": self.unrecorded,
        }
        return {kind: ids for kind, ids in kinds.items() if ids}

    @property
    def passed(self) -> bool:
        """Whether every event is accounted for, unchanged, and where it belongs."""
        return not any(self.must_be_zero.values())


def ends_of(found: FoundLetters) -> Mapping[str, str]:
    """The end that each body came to, the best of those where it was found."""
    # From the worst end to the best: the last word on an event is the best it came to.
    return {
        **dict.fromkeys(found.waiting, WAITING),
        **{letter.digest: letter.reason for letter in found.parked},
        **{delivery.digest: DELIVERED for delivery in found.delivered},
    }


def reconcile(sent: Sequence[Event], found: FoundLetters) -> Reconciliation:
    """Account for every event of *sent*, whose bodies all differ."""
    by_digest = {event.digest: event for event in sent}
    delivered = [delivery.digest for delivery in found.delivered]
    ends = ends_of(found)
    sightings = Counter([*found.waiting, *(letter.digest for letter in found.parked), *delivered])
    known = {item: end for item, end in ends.items() if item in by_digest}
    numbers = Counter(known.values())
    healed = found.healed & known.keys()
    return Reconciliation(
        sent=len(sent),
        delivered=numbers.pop(DELIVERED, 0),
        healed=len(healed),
        held=len(set(found.held) & known.keys()),
        waiting=numbers.pop(WAITING, 0),
        parked_by_reason=dict(sorted(numbers.items())),
        lost=_ids(event for event in sent if event.digest not in known),
        strangers=sum(sightings[key] for key in ends.keys() - known.keys()),
        altered=_ids(
            event
            for letter in found.parked
            if (event := by_digest.get(letter.digest)) and letter.attributes != event.attributes
        ),
        astray=_ids(
            event
            for event in sent
            if known.get(event.digest, WAITING) not in (WAITING, event.parked_as or DELIVERED)
        ),
        duplicates=sum(sightings[key] - 1 for key in known),
        recovered=len(set(found.recovered) & known.keys()),
        unrecorded=_ids(by_digest[key] for key in sorted(healed - set(found.recovered))),
    )


def _ids(events: Iterable[Event]) -> tuple[str, ...]:
    return tuple(event.event_id for event in events)
