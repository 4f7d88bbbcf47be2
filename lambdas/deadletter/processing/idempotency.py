"""Who may process a message now, and whether it has been processed already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from typing import Any, Protocol

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, utf8
from deadletter.message.stamp import Stamp
from deadletter.settings.json_fields import BadSettings

# Attributes that tracing libraries add anew at each send (W3C, B3, Jaeger, X-Ray, Datadog,
# New Relic, Sentry): a producer's second send of one message differs in nothing else.
_TRACING = frozenset(
    {
        *("traceparent", "tracestate", "baggage", "b3", "uber-trace-id", "awstraceheader"),
        *("x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"),
        *("x-amzn-trace-id", "_datadog", "newrelic", "sentry-trace"),
    }
)


class Standing(StrEnum):
    """What a claim found: the message is MINE to process, a DUPLICATE of one that was
    processed, or BUSY in somebody else's hands."""

    MINE = "mine"
    DUPLICATE = "duplicate"
    BUSY = "busy"


class ClaimsUnavailable(Exception):
    """The claims gave no answer. An effect that cannot be guarded is not risked."""


@dataclass(frozen=True, slots=True)
class BusinessKey:
    """What makes a message the same message, however often it is sent or received.

    `text` is what the producer calls it, or its origin id; it may be personal data and
    leaves this object as a hash only. `payload` is a hash of body and attributes: the same
    text with another payload is another message.
    """

    text: str = field(repr=False)
    payload: str

    @property
    def digest(self) -> str:
        """The key as it is stored: 64 hexadecimal digits."""
        return _digest(utf8(self.text))

    @property
    def digest_with_payload(self) -> str:
        """The key of a message whose text another message has already."""
        return _digest(utf8(self.text), utf8(self.payload))


@dataclass(frozen=True, slots=True)
class Claim:
    """One try at taking a message: how it stands until `until` (epoch seconds).

    `key` is the hash under which it was taken, `owner` the token that it was taken with.
    `collision` says that another message had the same business key before it.
    """

    key: str
    owner: str
    until: float
    standing: Standing
    collision: bool = False


class Claims(Protocol):
    """Where claims are kept; raises ClaimsUnavailable when it cannot answer.

    A claim that is neither done nor released ends at its `until`: then the message may be
    processed again.
    """

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        """Take the message; `owner` must be a token that no other claim was ever made with."""

    def done(self, claim: Claim) -> bool:
        """Remember that the message was processed; False if a newer owner has it."""

    def withdraw(self, claim: Claim) -> bool:
        """Let the next receive process the message; False if a newer owner has it, or it
        is done."""


def key_of(
    letter: Letter, stamp: Stamp, path: str | None, document: Mapping[str, Any]
) -> BusinessKey:
    """The key of a letter: what `path`, a JMESPath expression, finds in the rules' document.

    Without a path, or if it finds nothing, or anything but text or a number, the origin id
    is the key: such a letter may be processed twice if its producer sends it twice, and is
    never taken for another. Raises BadSettings for a path that is none.
    """
    found = None if path is None else _found(compiled(path), document)
    # What a producer writes can't become the origin id of another letter.
    text = f"origin:{stamp.origin}" if found is None else f"key:{found}"
    return BusinessKey(text, payload_of(letter))


def payload_of(letter: Letter) -> str:
    """A hash of all that the producer sent: body and attributes with their types.

    Neither our own stamp, nor what tracing libraries add, is part of it.
    """
    pieces = [utf8(letter.body)]
    for name, one in sorted(letter.attributes.items()):
        if name == stamps.NAME or name.lower() in _TRACING:
            continue
        value = one.value if isinstance(one.value, bytes) else utf8(one.value)
        pieces += [utf8(name), utf8(one.data_type), value]
    return _digest(*pieces)


def compiled(path: str) -> ParsedResult:
    """The expression of a pipeline's setting; raises BadSettings for a bad one."""
    try:
        return jmespath.compile(path)
    except JMESPathError as error:
        raise BadSettings(f"idempotency_key: {path!r} is not a JMESPath expression") from error


def _found(path: ParsedResult, document: Mapping[str, Any]) -> str | None:
    # The expression meets whatever the message holds; see document.py.
    try:
        found = path.search(document)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    # True and False name no message; they are what a wrong path finds.
    if isinstance(found, bool) or not isinstance(found, str | int | float):
        return None
    text = str(found)
    return text if text.strip() else None


def _digest(*pieces: bytes) -> str:
    """A hash in which the end of each piece counts: "ab", "c" is not "a", "bc"."""
    whole = sha256()
    for piece in pieces:
        whole.update(len(piece).to_bytes(8, "big"))
        whole.update(piece)
    return whole.hexdigest()
