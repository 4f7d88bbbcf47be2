"""Whether a message may be processed now, and whether it has been processed already."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from hashlib import sha256
from itertools import chain
from typing import Any, Protocol

import jmespath
from jmespath.exceptions import JMESPathError
from jmespath.parser import ParsedResult

from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, utf8
from deadletter.message.stamp import Stamp
from deadletter.settings.json_fields import BadSettings

# Attributes that tracing libraries set anew at each send (W3C, B3, Jaeger, X-Ray, Datadog,
# New Relic, Sentry): a producer's second send of one message differs in nothing else.
_TRACING = frozenset(
    {
        *("traceparent", "tracestate", "baggage", "b3", "uber-trace-id", "awstraceheader"),
        *("x-b3-traceid", "x-b3-spanid", "x-b3-parentspanid", "x-b3-sampled", "x-b3-flags"),
        *("x-amzn-trace-id", "_datadog", "newrelic", "sentry-trace"),
    }
)


class Standing(StrEnum):
    """The result of a claim: the message is MINE to process, a DUPLICATE of one that was
    processed, or BUSY because another process has claimed it."""

    MINE = "mine"
    DUPLICATE = "duplicate"
    BUSY = "busy"


class ClaimsUnavailable(Exception):
    """The claims table gave no answer. An effect that cannot be guarded is not risked."""


@dataclass(frozen=True, slots=True)
class BusinessKey:
    """Identifies a message across all its sends and receives.

    `text` is the producer's key or the origin id; it may be personal data and leaves this
    object as a hash only. `payload` is a hash of body and attributes: the same text with
    another payload is another message.
    """

    text: str = field(repr=False)
    payload: str

    @property
    def digest(self) -> str:
        """The key as it is stored: 64 hexadecimal digits."""
        return _digest(utf8(self.text))

    @property
    def digest_with_payload(self) -> str:
        """The key of a message whose text is already used by another message."""
        return _digest(utf8(self.text), utf8(self.payload))


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt to claim a message; its standing holds until `until` (epoch seconds).

    `key` is the hash that was claimed, `owner` the token of the claim. `collision` says that
    another message had the same business key before, `taken_over` that an earlier owner has
    neither finished nor withdrawn its claim: its effect may have happened.
    """

    key: str
    owner: str
    until: float
    standing: Standing
    collision: bool
    taken_over: bool


class Claims(Protocol):
    """Stores the claims; raises ClaimsUnavailable if it gives no answer.

    A claim that is neither done nor withdrawn ends at its `until`: then the message may be
    processed again.
    """

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        """Claim the message; `owner` must be a token that was never used before."""

    def done(self, claim: Claim) -> bool:
        """Mark the message as processed. Returns False if a newer owner has claimed it."""

    def withdraw(self, claim: Claim) -> bool:
        """Let the next receive process the message.

        Returns False if a newer owner has claimed it, or if it is done.
        """


def key_of(
    letter: Letter, stamp: Stamp, path: str | None, document: Mapping[str, Any]
) -> BusinessKey:
    """The key of a letter: the value of `path`, a JMESPath expression, in the rules' document.

    The origin id is the key if there is no path, or if the value is neither a number nor a
    non-empty text. A letter that its producer sends twice is then processed twice. It is never
    confused with another letter. Raises BadSettings for an invalid path.
    """
    value = None if path is None else _value_at(compiled(path), document)
    # The prefix keeps a producer's key from being the origin id of another letter.
    text = f"origin:{stamp.origin}" if value is None else f"key:{value}"
    return BusinessKey(text, payload_of(letter))


def payload_of(letter: Letter) -> str:
    """A hash of all that the producer sent: body and attributes with their types.

    It leaves out stamps, ours or copied along by a sender, and the attributes that tracing
    libraries add. A producer's own attribute `Redrive` counts under one name in all lives.
    """
    attributes = []
    for name, attribute in letter.attributes.items():
        reserved = stamps.is_reserved(name)
        if name.lower() in _TRACING or (reserved and stamps.parse(attribute.value) is not None):
            continue
        content = attribute.value
        value = content if isinstance(content, bytes) else utf8(content)
        hashed_name = utf8(stamps.KEPT_NAME if reserved else name)
        attributes.append((hashed_name, utf8(attribute.data_type), value))
    return _digest(utf8(letter.body), *chain.from_iterable(sorted(attributes)))


def compiled(path: str) -> ParsedResult:
    """The compiled expression of a pipeline's setting; raises BadSettings if it is invalid."""
    try:
        return jmespath.compile(path)
    except JMESPathError as error:
        raise BadSettings(f"idempotency_key: {path!r} is not a JMESPath expression") from error


def _value_at(path: ParsedResult, document: Mapping[str, Any]) -> str | None:
    # The message may hold any JSON, which JMESPath's functions may refuse; see document.py.
    try:
        value = path.search(document)
    except (JMESPathError, TypeError, ValueError, ArithmeticError, RecursionError):
        return None
    # A boolean identifies no message: the path is wrong.
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return None
    text = str(value)
    return text if text.strip() else None


def _digest(*pieces: bytes) -> str:
    """A hash of the pieces and of their lengths: "ab", "c" differs from "a", "bc"."""
    digest = sha256()
    for piece in pieces:
        digest.update(len(piece).to_bytes(8, "big"))
        digest.update(piece)
    return digest.hexdigest()
