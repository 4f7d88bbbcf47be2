"""The stamp: our one message attribute, with the letter's origin and the last decision."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from deadletter.message.letter import MAX_ATTRIBUTES, MAX_BYTES, Attribute, Letter

NAME = "Redrive"
"""The message attribute's name. It is reserved: see `kept_name` for a producer's own."""

KEPT_NAME = "Redrive-original"
"""The name under which a producer's own attribute `Redrive` is sent on."""

AGAIN = "again:"
"""What `accept` begins with if a person has given the letter a new idempotency key; the run that
repeats it follows. Within that run it is one message."""

_SHORT_NAME = "Redriv"
"""With a digit it is as long as NAME, so it fits wherever NAME did."""

_MAX_BECAUSE = 200  # characters: the stamp has to leave room for the letter

_STAMP_BYTES = 1_024
"""A letter with less room than this may have been sent without its stamp."""


@dataclass(frozen=True, slots=True)
class Stamp:
    """The data that a letter carries through all its lives.

    `origin` is the MessageId of the first life, `first_sent` its SentTimestamp
    (epoch milliseconds), `sender` its SenderId; `attempt` counts re-drives since a
    person last released the letter, `base` those of them that used no attempt because
    the life before was not tried or did not fail by the letter's fault. Failures of the
    lives before `spared` do not park the letter: they had a cause that suddenly dominated.
    The other fields hold the last decision and its time (`at`, epoch seconds). `canary`
    is the permit under which this life tries an open circuit. `accept` is what a person who
    released the letter accepts of it: "collision", that another message with its idempotency
    key was processed; or AGAIN and a run, that it is processed once more. `run` is the replay run
    that sent this life, and `ticket` the id of the copy that it sent: with the origin it is the key
    of the run's ticket. `sequence` is the SequenceNumber of the first life on a FIFO queue: it
    tells letters apart that were sent in the same millisecond, and each later life has another one.
    `key` is a hash of the business key that the redriver found, for consumers without the library;
    no code of ours believes it.
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
    base: int = 0
    spared: int = 0
    accept: str | None = None
    ticket: str | None = None
    sequence: str = ""
    key: str = ""

    @property
    def again(self) -> str:
        """What its idempotency key begins with if a person has given it a new one, else empty.

        No key of a producer begins so: it has a prefix of its own.
        """
        return f"{self.accept}:" if self.accept and self.accept.startswith(AGAIN) else ""

    @property
    def attempts_used(self) -> int:
        """Re-drives that count against the policy's `max_attempts`."""
        return max(0, self.attempt - self.base)

    def too_old_at(self, ttl: float, now: float) -> float:
        """Epoch seconds at which its first send is `ttl` ago; one that is unknown counts as now."""
        return (self.first_sent / 1000 if self.first_sent else now) + ttl

    def age(self, now: float) -> float:
        """Seconds since the first send; 0 if that time is unknown or in the future."""
        return max(0.0, now - self.first_sent / 1000) if self.first_sent else 0.0


_KINDS: Mapping[Any, tuple[type, ...]] = {
    "str": (str,),
    "int": (int,),
    "str | None": (str, type(None)),
    "int | None": (int, type(None)),
}
_TYPES = {item.name: _KINDS[item.type] for item in fields(Stamp)}

_MANY = 2**53
"""More than any count or clock of ours shows: a double may not hold it, and arithmetic raises."""

_KEY = re.compile(r"([0-9a-f]{64})?")

_LEFT_OUT_AT_ZERO = frozenset({"base", "spared"})


@dataclass(frozen=True, slots=True)
class StampReading:
    """A letter's stamp; `forged` is True if the letter has a stamp that is not ours.

    `foreign` are the stamps that it carries, under any name, where it carries none to believe.
    """

    stamp: Stamp
    forged: bool = False
    foreign: int = 0


def initial_stamp(letter: Letter) -> Stamp:
    """The stamp of a letter in its first life, which we have not moved yet."""
    number = letter.system.get("SequenceNumber", "")
    return Stamp(letter.message_id, 0, letter.sent_ms or 0, letter.sender, sequence=number)


def read(letter: Letter, trusted_senders: frozenset[str]) -> StampReading:
    """The letter's stamp, believed only if one of our own roles sent the letter.

    A SenderId is `<unique id of the role>:<session>` or an account id; producers
    choose their attributes but not their SenderId. A stamp from any other sender is
    ignored and reported as forged.
    """
    attribute = letter.attributes.get(NAME)
    if attribute is not None and _is_ours(letter, trusted_senders):
        stamp = parse(attribute.value)
        if stamp is not None:
            return StampReading(stamp)
    foreign = sum(
        is_reserved(name) and parse(other.value) is not None
        for name, other in letter.attributes.items()
    )
    return StampReading(initial_stamp(letter), attribute is not None, foreign)


def may_be_in_ledger(letter: Letter, trusted_senders: frozenset[str]) -> bool:
    """Whether we may have sent this copy without room for its stamp, which the ledger keeps.

    True if one of our roles sent it, or if it has no room for a stamp; never for a letter that
    carries its stamp.
    """
    ours = _is_ours(letter, trusted_senders)
    attribute = letter.attributes.get(NAME)
    if ours and attribute is not None and parse(attribute.value) is not None:
        return False
    return ours or has_no_room(letter)


def has_no_room(letter: Letter) -> bool:
    """Whether the letter may have had no room for its stamp."""
    full = len(letter.attributes) >= MAX_ATTRIBUTES
    return full or letter.size > MAX_BYTES - _STAMP_BYTES


def _is_ours(letter: Letter, trusted_senders: frozenset[str]) -> bool:
    """Whether one of our roles sent this copy."""
    sender = letter.sender
    return sender in trusted_senders or sender.partition(":")[0] in trusted_senders


def is_replaced(attribute: Attribute, stamp: Stamp) -> bool:
    """Whether an attribute `Redrive` is the letter's stamp as it was before this one.

    Both name the same origin. Any other is a producer's own: a letter with a stamp that is
    not believed is its own origin, whose id its producer cannot know before it is sent.
    """
    before = parse(attribute.value)
    return before is not None and before.origin == stamp.origin


def kept_name(letter: Letter, stamp: Stamp, max_bytes: int = MAX_BYTES) -> str | None:
    """The name under which the producer's own attribute `Redrive` is sent on.

    None if the letter has no such attribute. If KEPT_NAME is taken, or the letter would no
    longer fit into `max_bytes`, it is the first free name as long as NAME: no attribute is
    ever dropped.
    """
    attribute = letter.attributes.get(NAME)
    if attribute is None or is_replaced(attribute, stamp):
        return None
    fits = letter.size + len(KEPT_NAME) - len(NAME) <= max_bytes
    # With at most ten attributes, one of ten names is free.
    short = (f"{_SHORT_NAME}{number}" for number in range(len(letter.attributes)))
    names = (KEPT_NAME, *short) if fits else short
    return next(name for name in names if name not in letter.attributes)


def producer_attributes(letter: Letter, kept_as: str | None) -> dict[str, Attribute]:
    """The letter's attributes without our stamp; `kept_as` is the `kept_name` of its own."""
    renamed = {name: name for name in letter.attributes if name != NAME}
    if kept_as is not None:
        renamed[NAME] = kept_as
    return {renamed[name]: letter.attributes[name] for name in renamed}


def is_reserved(name: str) -> bool:
    """Whether a producer's own attribute `Redrive` may have this name in one of its lives."""
    short = len(name) == len(NAME) and name.startswith(_SHORT_NAME) and name[-1].isdigit()
    return name in (NAME, KEPT_NAME) or short


def parse(value: str | bytes) -> Stamp | None:
    """The stamp in the attribute's text; None if it is not in the form that we write."""
    try:
        data = json.loads(value)
    except (ValueError, RecursionError):
        return None
    return from_data(data)


def from_data(data: object) -> Stamp | None:
    """The stamp in decoded JSON; None if `origin` is missing or a field is invalid."""
    if not isinstance(data, dict) or not isinstance(data.get("origin"), str):
        return None
    values = {key: value for key, value in data.items() if key in _TYPES}
    # A bool is an int.
    if any(
        isinstance(each, bool) or not isinstance(each, _TYPES[key]) for key, each in values.items()
    ):
        return None
    stamp = Stamp(**values)
    is_valid = 0 <= stamp.attempt < _MANY and 0 <= stamp.first_sent < _MANY and stamp.origin
    # A life can end unused before the re-drive that would count it.
    has_valid_lives = all(0 <= life <= stamp.attempt + 1 for life in (stamp.base, stamp.spared))
    # A consumer puts it into a table of its own: nothing else is ever passed on.
    has_valid_key = _KEY.fullmatch(stamp.key)
    is_dated = abs(stamp.at or 0) < _MANY
    return stamp if is_valid and is_dated and has_valid_lives and has_valid_key else None


def to_data(stamp: Stamp) -> dict[str, Any]:
    """The stamp as JSON-ready data, without empty fields."""
    return {
        name: value
        for name in _TYPES
        if (value := getattr(stamp, name)) or (value == 0 and name not in _LEFT_OUT_AT_ZERO)
    }


_encode = json.JSONEncoder(separators=(",", ":"), check_circular=False).encode


def attribute(stamp: Stamp) -> Attribute:
    """The message attribute that carries the stamp.

    ASCII-only JSON: every character is in the set that SQS accepts.
    """
    data = to_data(stamp)
    if stamp.because:
        data["because"] = stamp.because[:_MAX_BECAUSE]
    return Attribute("String", _encode(data))
