"""Whether a message may be processed now, and whether it has been processed already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import TYPE_CHECKING, Any, Protocol

from deadletter.contract import EVERYTHING, NOTHING
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, Letter, digest, utf8
from deadletter.message.stamp import Stamp
from deadletter.message.wrappers import lasting, opened
from deadletter.rules.paths import compiled, value_at
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.processing.payload import Content


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
    object as a hash only. `payload` is a hash of body and attributes as they were received,
    and `content` what of them is compared; without it only equal payloads are known to be one
    message. If the payload is not `compared`, the text alone decides. An `apart` key is that of
    a message whose text belongs to another one: text and content together.
    `origin` is the id of the message's first life, for people who know the text, and `attempt` the
    number of this life.
    `missing` says why a message has not the key that its pipeline names; it quotes no message.
    """

    text: str = field(repr=False)
    payload: str
    content: Content | None = None
    compared: bool = True
    apart: bool = False
    missing: str = field(default="", compare=False)
    origin: str = field(default="", compare=False)
    attempt: int = field(default=0, compare=False)

    @property
    def digest(self) -> str:
        """The key as it is stored: 64 hexadecimal digits."""
        if not self.apart:
            return digest(utf8(self.text))
        whole = utf8(self.payload) if self.content is None else self.content.identity
        return digest(utf8(self.text), whole)

    @property
    def same(self) -> str:
        """What all sends of one message have in common, and no other message has: 16 digits."""
        return (replace(self, apart=True) if self.compared else self).digest[:16]

    def differences(self, payload: str, content: bytes | None) -> tuple[str, ...] | None:
        """The paths in which it differs from a message with the same text: none if it is the same.

        None if that cannot be known, because the other one was stored under another setting.
        """
        if not self.compared or payload == self.payload:
            return ()
        if self.content is None or content is None:
            return None
        return self.content.differences(content)

    def beside(self, differences: tuple[str, ...] | None) -> BusinessKey:
        """The key of a message that differs from the one its text belongs to.

        Where the differences are not known, its whole payload sets it apart.
        """
        return replace(self, apart=True, content=None if differences is None else self.content)


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt to claim a message; its standing holds until `until` (epoch seconds).

    `key` is the hash that was claimed, `owner` the token of the claim. A BUSY claim's `until`
    is when the other owner's claim ends. `collision` says that another message with the same
    business key was processed; then `differences` are the paths in which the payloads differ,
    None if they are not known. `taken_over` says that an earlier owner has neither finished nor
    withdrawn its claim: its effect may have happened. `tries` is which try of the message this
    is, from 1, over all its lives. A DUPLICATE of the `same_life` is the message that was processed
    itself: its process ended before the queue or the ledger knew.
    """

    key: str
    owner: str
    until: float
    standing: Standing
    collision: bool
    taken_over: bool
    differences: tuple[str, ...] | None = None
    tries: int = 1
    same_life: bool = False


class Claims(Protocol):
    """Stores the claims; raises ClaimsUnavailable if it gives no answer.

    A claim that is neither done nor withdrawn ends at its `until`: then the message may be
    processed again. Payloads are compared with a message that is done: while another one has
    the key, it is BUSY, and a key whose message was withdrawn belongs to the next.
    """

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        """Claim the message; `owner` is a token that no other claim has.

        A claim that the owner holds already is extended. A message that differs from the one
        that its key belongs to is claimed apart: see `BusinessKey.beside`.
        """

    def done(self, claim: Claim) -> bool:
        """Mark the message as processed. Returns False if a newer owner has claimed it."""

    def withdraw(self, claim: Claim, *, tried: bool = True) -> bool:
        """Let the next receive process the message; it is no try if it was not `tried`.

        Returns False if a newer owner has claimed it, or if it is done.
        """


ACCEPTED = "collision"
"""What a stamp accepts after a person has released a letter that collided."""


class Identity:
    """How the messages of a pipeline are identified; raises BadSettings for an invalid path."""

    def __init__(self, pipeline: Pipeline) -> None:
        key, payload = pipeline.idempotency_key, pipeline.idempotency_payload
        self._key = None if key is None else compiled("idempotency_key", key)
        self._compares = payload != NOTHING
        self._setting = payload
        self._compared = (
            None if payload in (EVERYTHING, NOTHING) else compiled("idempotency_payload", payload)
        )

    def key_of(self, letter: Letter, stamp: Stamp, document: Mapping[str, Any]) -> BusinessKey:
        """The key of a letter: the value of the pipeline's path in the rules' document.

        The origin id is the key if there is no path, or if its value is neither a number nor a
        non-empty text. A letter that its producer sends twice is then processed twice. It is
        never confused with another letter. Never raises.
        """
        payload = payload_of(letter)
        accepted = stamp.accept == ACCEPTED
        # The prefix keeps a producer's key from being the origin id of another letter.
        life: dict[str, Any] = {"origin": stamp.origin, "attempt": stamp.attempt}
        text = f"{stamp.again}origin:{stamp.origin}"
        origin = BusinessKey(text, payload, apart=accepted, **life)
        if self._key is None:
            return origin
        # Loaded where messages have a key.
        from deadletter.rules.business_key import find_key

        found = find_key(self._key, document, letter.body)
        if found.text is None:
            return replace(origin, missing=found.missing)
        content = self._content(letter, found.documents) if self._compares or accepted else None
        text = f"{stamp.again}key:{found.text}"
        return BusinessKey(text, payload, content, self._compares, accepted, **life)

    def _content(self, letter: Letter, documents: Sequence[Mapping[str, Any]]) -> Content:
        from deadletter.processing.payload import content_of

        message = opened(letter.body, exact=True)
        wrappers = [(wrapper.service, wrapper.facts) for wrapper in message.wrappers]
        if self._compared is not None:
            values = (value_at(self._compared, document) for document in documents)
            value = next((value for value in values if not _is_empty(value)), None)
            if value is not None:
                return content_of(self._setting, {"payload": value}, {})
        attributes = {**dict(lasting(message.attributes)), **_sent(letter)}
        # Text that is not JSON is not the same as JSON with that text.
        name = "body" if message.readable else "text"
        return content_of(self._setting, {name: message.body}, attributes, wrappers)


def payload_of(letter: Letter) -> str:
    """A hash of all that was received: body and attributes with their types.

    It leaves out stamps, ours or copied along by a sender, and the attributes that tracing
    libraries add. A producer's own attribute `Redrive` counts under one name in all lives.
    """
    attributes = []
    for name, attribute in _sent_attributes(letter):
        content = attribute.value
        value = content if isinstance(content, bytes) else utf8(content)
        attributes.append((utf8(name), utf8(attribute.data_type), value))
    return digest(utf8(letter.body), *chain.from_iterable(sorted(attributes)))


def _sent_attributes(letter: Letter) -> Iterator[tuple[str, Attribute]]:
    """The producer's own attributes, under names that no life changes."""
    for name, attribute in lasting(letter.attributes):
        reserved = stamps.is_reserved(name)
        if reserved and stamps.parse(attribute.value) is not None:
            continue
        yield stamps.KEPT_NAME if reserved else name, attribute


def _sent(letter: Letter) -> dict[str, Attribute]:
    """Those attributes by name; of two that one life names alike, each counts."""
    named: dict[str, Attribute] = {}
    for name, attribute in sorted(_sent_attributes(letter), key=repr):
        while name in named:
            name += "+"
        named[name] = attribute
    return named


def _is_empty(value: Any) -> bool:
    """Whether a path has found nothing at all: comparing that would make all messages one."""
    if isinstance(value, dict):
        return all(map(_is_empty, value.values()))
    if isinstance(value, list):
        return all(map(_is_empty, value))
    return value is None
