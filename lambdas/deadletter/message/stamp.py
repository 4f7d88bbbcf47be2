"""The one message attribute of ours: where a letter comes from and what was last decided."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from typing import Any

from deadletter.message.letter import Attribute, Letter

NAME = "Redrive"
"""The message attribute's name."""

_MAX_BECAUSE = 200  # characters: the stamp has to leave room for the letter


@dataclass(frozen=True, slots=True)
class Stamp:
    """What a letter carries through all its lives.

    `origin` is the MessageId of the first life, `first_sent` its SentTimestamp
    (epoch milliseconds), `sender` its SenderId; `attempt` counts re-drives since a
    person last released the letter; the rest says what was decided last, and when
    (epoch seconds). `canary` is the permit under which this life tries an open circuit.
    """

    origin: str
    attempt: int = 0
    first_sent: int = 0
    sender: str = ""
    rule: str | None = None
    run: str | None = None
    decision: str | None = None
    reason: str | None = None
    because: str | None = None
    at: int | None = None
    canary: str | None = None

    def age(self, now: float) -> float:
        """Seconds since the first send; 0 if nobody knows when, or if its clock is ahead."""
        return max(0.0, now - self.first_sent / 1000) if self.first_sent else 0.0


_KINDS: Mapping[str, tuple[type, ...]] = {
    "origin": (str,),
    "attempt": (int,),
    "first_sent": (int,),
    "sender": (str,),
    "rule": (str, type(None)),
    "run": (str, type(None)),
    "decision": (str, type(None)),
    "reason": (str, type(None)),
    "because": (str, type(None)),
    "at": (int, type(None)),
    "canary": (str, type(None)),
}


@dataclass(frozen=True, slots=True)
class StampReading:
    """A letter's stamp, and whether somebody tried to forge one."""

    stamp: Stamp
    forged: bool = False


def initial_stamp(letter: Letter) -> Stamp:
    """The stamp of a letter that we never moved."""
    return Stamp(letter.message_id, 0, letter.sent_ms or 0, letter.sender)


def read(letter: Letter, trusted_senders: frozenset[str]) -> StampReading:
    """The letter's stamp, believed only if one of our own roles sent the letter.

    A SenderId is `<unique id of the role>:<session>` or an account id; producers
    choose their attributes but not their SenderId. An attribute of ours that
    somebody else wrote is ignored and reported as forged.
    """
    attribute = letter.attributes.get(NAME)
    if attribute is None:
        return StampReading(initial_stamp(letter))
    ours = letter.sender in trusted_senders or letter.sender.partition(":")[0] in trusted_senders
    stamp = parse(attribute.value) if ours else None
    if stamp is None:
        return StampReading(initial_stamp(letter), forged=True)
    return StampReading(stamp)


def parse(value: str | bytes) -> Stamp | None:
    """The stamp in the attribute's text; None if it is not one that we wrote."""
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return from_data(data)


def from_data(data: object) -> Stamp | None:
    """The stamp in decoded JSON; None if a field is missing, of another type or negative."""
    if not isinstance(data, dict) or not isinstance(data.get("origin"), str):
        return None
    known = {key: value for key, value in data.items() if key in _KINDS}
    for key, value in known.items():
        if isinstance(value, bool) or not isinstance(value, _KINDS[key]):
            return None
    stamp = Stamp(**known)
    return stamp if stamp.attempt >= 0 and stamp.first_sent >= 0 and stamp.origin else None


def to_data(stamp: Stamp) -> dict[str, Any]:
    """The stamp as JSON-ready data, without the fields that say nothing."""
    return {
        one.name: value
        for one in fields(stamp)
        if (value := getattr(stamp, one.name)) not in (None, "")
    }


def attribute(stamp: Stamp) -> Attribute:
    """The stamp as the message attribute that carries it.

    ASCII-only JSON, so that no character of it can be outside the set SQS accepts.
    """
    because = stamp.because[:_MAX_BECAUSE] if stamp.because else None
    short = replace(stamp, because=because)
    return Attribute("String", json.dumps(to_data(short), separators=(",", ":")))
