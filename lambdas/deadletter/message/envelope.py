"""A letter as it leaves: what is sent in its place, and whether it can carry our stamp."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass

from deadletter.message import stamp as stamps
from deadletter.message.letter import MAX_ATTRIBUTES, MAX_BYTES, Attribute, Letter, size_of
from deadletter.message.stamp import Stamp

UNMARKED_DELAY = 5
"""Seconds an unmarked letter is kept back at least, so that the ledger knows of it first."""

# Of the trace header only what joins a trace. The lineage counts hops for Lambda's
# loop detection; copied verbatim it would end a re-driven chain after about 16 hops.
_TRACE_PARTS_KEPT = ("Root", "Parent", "Sampled")


@dataclass(frozen=True, slots=True)
class QueueTraits:
    """What a queue demands of messages, and how many seconds it keeps them (`retention`)."""

    fifo: bool = False
    max_bytes: int = MAX_BYTES
    retention: float = 345_600.0


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message about to be sent; `copy` is the id of the one that it replaces.

    `delay` is seconds (0 to 900; None on FIFO queues, which allow none per message);
    `marked` says whether it carries its stamp.
    """

    copy: str
    body: str
    attributes: Mapping[str, Attribute]
    stamp: Stamp
    marked: bool
    trace_header: str | None = None
    group: str | None = None
    deduplication_id: str | None = None
    delay: int | None = None

    @property
    def size(self) -> int:
        """Bytes as SQS counts them."""
        return size_of(self.body, self.attributes)


def seal(
    letter: Letter, stamp: Stamp, queue: QueueTraits, delay: int = 0, *, consumed: bool = True
) -> Envelope:
    """The letter as it goes to `queue`: body and attributes untouched, our stamp added.

    Where the stamp finds no room (ten attributes already, or the queue's size limit)
    the letter goes without it and has to be recorded in the ledger under its new id;
    if a consumer takes it from there (`consumed`), it is kept back until it is.
    """
    # An older stamp never goes along: from us it would be believed, whoever wrote it.
    theirs = {name: one for name, one in letter.attributes.items() if name != stamps.NAME}
    attributes = {**theirs, stamps.NAME: stamps.attribute(stamp)}
    marked = (
        len(attributes) <= MAX_ATTRIBUTES and size_of(letter.body, attributes) <= queue.max_bytes
    )
    if not marked:
        attributes = theirs
        delay = max(delay, UNMARKED_DELAY) if consumed else delay
    return Envelope(
        copy=letter.message_id,
        body=letter.body,
        attributes=attributes,
        stamp=stamp,
        marked=marked,
        trace_header=trace_without_lineage(letter.system.get("AWSTraceHeader")),
        group=letter.group,
        deduplication_id=deduplication_id(letter.message_id) if queue.fifo else None,
        delay=None if queue.fifo else delay,
    )


def deduplication_id(copy: str) -> str:
    """One copy moved twice is one message to SQS; another copy of the same letter never is."""
    return hashlib.sha256(copy.encode()).hexdigest()


def trace_without_lineage(header: str | None) -> str | None:
    """The X-Ray header without the part that Lambda counts hops by."""
    if not header:
        return None
    parts = [part.strip() for part in header.split(";")]
    kept = [part for part in parts if part.partition("=")[0] in _TRACE_PARTS_KEPT]
    return ";".join(kept) or None
