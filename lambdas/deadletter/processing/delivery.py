"""One message as its consumer receives it, and the fields of its Lambda record."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, from_event, whole_number
from deadletter.message.stamp import Stamp
from deadletter.processing.idempotency import BusinessKey, Identity
from deadletter.rules.document import Document, DocumentBuilder
from deadletter.settings.pipeline import Pipeline

if TYPE_CHECKING:
    from deadletter.routing.ordering import KeyPlace, Ordering

Record = Mapping[str, Any]
"""One record of the event by which Lambda hands over messages of SQS."""


@dataclass(frozen=True, slots=True)
class Delivery:
    """One receive of a letter; `record` is the unchanged record of the Lambda event.

    `forged` says that it carries a `Redrive` attribute that none of our roles wrote. `tries` is
    which try of its message this is, from 1, over all its lives. `place` is its place within its
    ordering key; None if it has none.
    """

    record: Record
    letter: Letter
    stamp: Stamp
    key: BusinessKey
    document: Document
    forged: bool
    tries: int = 1
    place: KeyPlace | None = None

    @property
    def was_dead(self) -> bool:
        """Whether it has been in the DLQ: re-driven, released, or just received from there."""
        another_copy = self.stamp.origin != self.letter.message_id
        return self.stamp.attempt >= 1 or another_copy or self.letter.source_arn is not None

    @property
    def may_have_been_dead(self) -> bool:
        """Whether it has been in the DLQ, or may have lost the stamp that would say so."""
        return self.was_dead or self.may_have_lost_its_stamp

    @property
    def may_have_lost_its_stamp(self) -> bool:
        """Whether it carries no trusted stamp, and may have had no room for one."""
        carries = stamps.NAME in self.letter.attributes and not self.forged
        return not carries and stamps.has_no_room(self.letter)


class Reader:
    """Reads the records of one pipeline; `clock` gives epoch seconds.

    Raises BadSettings for an invalid expression of the pipeline, before any message is read.
    """

    def __init__(
        self, pipeline: Pipeline, trusted_senders: frozenset[str], clock: Callable[[], float]
    ) -> None:
        self._pipeline = pipeline
        self._documents = DocumentBuilder(pipeline)
        self._trusted = trusted_senders
        self._clock = clock
        self._identity = Identity(pipeline)
        self._ordering: Ordering | None = None
        if pipeline.ordering_key is not None:
            # Loaded where messages have an order.
            from deadletter.routing.ordering import Ordering

            self._ordering = Ordering(pipeline)

    def read(self, record: Record) -> Delivery:
        """The delivery in a record; raises NotALetter. A body that is not JSON is a letter."""
        letter = from_event(record)
        reading = stamps.read(letter, self._trusted)
        document = self._documents.build(letter, reading.stamp, None, self._clock())
        key = self._identity.key_of(letter, reading.stamp, document.value)
        place = None
        if self._ordering is not None:
            place = place_of(self._ordering, letter, reading.stamp, document, key)
        return Delivery(record, letter, reading.stamp, key, document, reading.forged, place=place)


def place_of(
    ordering: Ordering, letter: Letter, stamp: Stamp, document: Document, key: BusinessKey
) -> KeyPlace | None:
    """The place of a letter in the line of its ordering key, claimed under its business key."""
    place = ordering.place(letter, stamp, document)
    return place and replace(place, claim=key.digest, by=key.origin, same=key.same)


def id_of(record: Any) -> str:
    """The record's message id; empty if it has none: then the whole batch must come back."""
    return _text(record, "messageId")


def handle_of(record: Any) -> str:
    """The record's receipt handle; empty if it has none."""
    return _text(record, "receiptHandle")


def queue_of(record: Any) -> str:
    """The name of the queue that the record came from; empty if it names none."""
    return _text(record, "eventSourceARN").rpartition(":")[2]


def group_of(record: Any) -> str:
    """The FIFO group, or the tenant of a fair queue; empty if it has neither."""
    return _text(_within(record, "attributes"), "MessageGroupId")


def receive_of(record: Any) -> int:
    """The number of this receive within the message's life, from 1."""
    count = whole_number(_within(_within(record, "attributes"), "ApproximateReceiveCount"))
    return max(1, count or 1)


def _within(data: Any, name: str) -> Any:
    return data.get(name) if isinstance(data, Mapping) else None


def _text(data: Any, name: str) -> str:
    value = _within(data, name)
    return value if isinstance(value, str) else ""
