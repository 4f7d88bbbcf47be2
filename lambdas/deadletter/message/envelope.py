"""A letter ready to be sent: its body and attributes, with our stamp if there is room."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from deadletter.message import stamp as stamps
from deadletter.message.letter import MAX_ATTRIBUTES, MAX_BYTES, Attribute, Letter, size_of
from deadletter.message.stamp import Stamp

UNMARKED_DELAY = 5
"""Minimum delay in seconds of an unmarked letter, so that the ledger records it first."""

_RUN_GROUP = re.compile(r"replay:[0-9a-f]{16}")
"""The group that a replay run gives to letters without one, on a standard queue."""

# The parts that join a trace. The lineage counts hops for Lambda's loop detection: copied
# verbatim, it would end a re-driven chain after about 16 hops.
_TRACE_PARTS_KEPT = ("Root", "Parent", "Sampled")


@dataclass(frozen=True, slots=True)
class QueueTraits:
    """The limits a queue sets on messages, and how many seconds it keeps them (`retention`)."""

    fifo: bool = False
    max_bytes: int = MAX_BYTES
    retention: float = 345_600.0


@dataclass(frozen=True, slots=True)
class Envelope:
    """A message ready to be sent; `copy` is the id of the copy that it replaces.

    `delay` is seconds (0 to 900; None on FIFO queues, which allow no delay per message);
    `marked` is True if it carries its stamp; `kept_as` is the new name of the producer's own
    attribute `Redrive`, if it has one.
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
    kept_as: str | None = None
    size: int = field(init=False, repr=False, compare=False)
    """Bytes as SQS counts them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "size", size_of(self.body, self.attributes))


def seal(
    letter: Letter, stamp: Stamp, queue: QueueTraits, delay: int = 0, *, consumed: bool = True
) -> Envelope:
    """The envelope for `queue`: body and attributes unchanged, our stamp added.

    A producer's own attribute with the stamp's name goes under another one: an attribute
    `Redrive` that we send is believed, although it may be forged.

    If there is no room for the stamp (ten attributes already, or the queue's size limit),
    the letter is sent without it, and the caller has to record it in the ledger under its
    new id. If a consumer reads from `queue` (`consumed`), such a letter is delayed by at
    least UNMARKED_DELAY, so that it is recorded first.

    On a standard queue that is consumed, the letters of a replay run that have no group get one
    together: SQS's fair queues then serve live messages first.
    """
    kept_as = stamps.kept_name(letter, stamp, queue.max_bytes)
    original = letter.attributes
    if stamps.NAME in original:
        original = stamps.producer_attributes(letter, kept_as)
    marked = Envelope(
        copy=letter.message_id,
        body=letter.body,
        attributes={**original, stamps.NAME: stamps.attribute(stamp)},
        stamp=stamp,
        marked=True,
        trace_header=trace_without_lineage(letter.system.get("AWSTraceHeader")),
        group=letter.group if queue.fifo else _fair_group(letter.group, stamp, consumed),
        deduplication_id=deduplication_id(letter.message_id) if queue.fifo else None,
        delay=None if queue.fifo else delay,
        kept_as=kept_as,
    )
    if len(marked.attributes) <= MAX_ATTRIBUTES and marked.size <= queue.max_bytes:
        return marked
    if consumed and not queue.fifo:
        delay = max(delay, UNMARKED_DELAY)
    return replace(marked, attributes=original, marked=False, delay=None if queue.fifo else delay)


def _fair_group(group: str | None, stamp: Stamp, consumed: bool) -> str | None:
    """The letter's group on a standard queue; a group that an earlier run gave it is dropped."""
    if group is not None and not _RUN_GROUP.fullmatch(group):
        return group
    return f"replay:{stamp.run}" if consumed and stamp.run is not None else None


def deduplication_id(copy: str) -> str:
    """The SQS deduplication id: equal for two sends of one copy, different for another copy."""
    return hashlib.sha256(copy.encode()).hexdigest()


def trace_without_lineage(header: str | None) -> str | None:
    """The X-Ray header without the lineage, in which Lambda counts hops."""
    if not header:
        return None
    parts = [part.strip() for part in header.split(";")]
    trace = [part for part in parts if part.partition("=")[0] in _TRACE_PARTS_KEPT]
    return ";".join(trace) or None
