"""The copy of a discarded letter: all of it, where it was parked, who discarded it and why."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from typing import Any

from deadletter.contract import DEFAULT_PARKING, DISCARDED, parking_source
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, NotALetter, compact_json, from_json, to_json
from deadletter.message.stamp import Stamp
from deadletter.redrive.rescue import is_parking

_PARKED = "PARK"


class NotADiscardedLetter(ValueError):
    """The object is no copy of a discarded letter."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DiscardedLetter:
    """A letter that a person has thrown away.

    home     where it came from: "parking:<id>", for a letter that was parked
    stamp    the one that it had in the run
    at       when it was discarded (epoch seconds)
    by, because  who did it, and the reason given
    """

    letter: Letter
    home: str
    stamp: Stamp
    at: int
    by: str
    because: str

    def to_bytes(self) -> bytes:
        """The object that keeps it; `discarded_letter` is its inverse."""
        return compact_json(
            {
                "letter": to_json(self.letter),
                "home": self.home,
                "stamp": stamps.to_data(self.stamp),
                "discarded": {"at": self.at, "by": self.by, "because": self.because},
            }
        )

    @property
    def parked_in(self) -> str:
        """The parking queue that it belongs to; one that was never parked goes to the first."""
        return self.home if is_parking(self.home) else parking_source(DEFAULT_PARKING)

    @property
    def parked_stamp(self) -> Stamp:
        """The stamp that it had while it was parked, as far as it is known.

        The run has kept the reason. Rule, time and sentence are in the letter's own stamp, which is
        believed where it says the same.
        """
        parked = replace(
            self.stamp,
            run=None,
            ticket=None,
            canary=None,
            rule=None,
            decision=_PARKED,
            because=None,
            at=None,
        )
        own = self._own_stamp()
        if own is None or (own.origin, own.reason) != (parked.origin, parked.reason):
            return parked
        return replace(parked, rule=own.rule, because=own.because, at=own.at)

    def _own_stamp(self) -> Stamp | None:
        attribute = self.letter.attributes.get(stamps.NAME)
        own = None if attribute is None else stamps.parse(attribute.value)
        return own if own is not None and own.decision == _PARKED else None


def discarded_name(copy: str) -> str:
    """The name of the object within its run."""
    return f"{DISCARDED}{copy}.json"


def discarded_letter(name: str, data: bytes) -> DiscardedLetter:
    """The letter in an object of that name. Raises NotADiscardedLetter."""
    try:
        found: Any = json.loads(data)
        letter, stamp = from_json(found["letter"]), stamps.from_data(found["stamp"])
        facts = found["discarded"]
        if stamp is None or discarded_name(letter.message_id) != name:
            raise ValueError("it keeps another message, or one without a stamp")
        return DiscardedLetter(
            letter=letter,
            home=str(found.get("home", "")),
            stamp=stamp,
            at=int(facts["at"]),
            by=str(facts["by"]),
            because=str(facts["because"]),
        )
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, NotALetter) as error:
        raise NotADiscardedLetter(f"{name} is no discarded message") from error
