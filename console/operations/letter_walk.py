"""Every letter of a queue or of a lane of the waiting room, with its body."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, TypeVar

from deadletter.contract import DISCARDED
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, NotALetter, from_api
from deadletter.message.stamp import Stamp

from .deadline import side_by_side
from .errors import aws_errors
from .session import Here, Session

if TYPE_CHECKING:
    from mypy_boto3_sqs import SQSClient
    from mypy_boto3_sqs.type_defs import MessageTypeDef

    from deadletter.redrive.waiting_room import WaitingRoomEntry
    from deadletter.replay.objects import DiscardedLetter

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A letter, and where it is: in the queue `home`, or in a lane, where it came from `home`.

    `stamp` is the one beside a letter of lane `parked`: it says why it is there, and the letter
    itself may say something older, or nothing. Else it is the one that the letter carries, if one
    of our roles wrote it.
    """

    letter: Letter
    home: str
    lane: str | None = None
    stamp: Stamp | None = None

    @property
    def is_forged(self) -> bool:
        """Whether a sender that is not trusted wrote the stamp that it carries."""
        return self.stamp is None and stamps.NAME in self.letter.attributes

    @property
    def ids(self) -> frozenset[str]:
        """The ids that a person may name it by: of this copy, and of its first life."""
        stamp = self.stamp
        return frozenset({self.letter.message_id, stamp.origin if stamp else ""} - {""})


def believed(letter: Letter, trusted: Collection[str]) -> Stamp | None:
    """The stamp that a letter carries, if one of the roles with these ids wrote it."""
    reading = stamps.read(letter, frozenset(trusted))
    return reading.stamp if stamps.NAME in letter.attributes and not reading.forged else None


See = Callable[[FoundLetter], None]

# A look into a queue that takes nothing out of it. SQS can't be read without receiving: messages
# are hidden for a short time and given back, also when the look is interrupted.

HIDDEN = 30
"""Seconds that a message is hidden from others at most, even if giving it back fails."""

# A poll this long asks all of SQS's servers; a shorter one may find nothing in a
# queue that is not empty.
POLL_SECONDS = 1

# A single empty poll can be wrong.
_EMPTY_POLLS = 2

MOST = 500
"""Messages that a look receives at most."""


@dataclass(frozen=True, slots=True)
class Reach:
    """How far a look goes: for so many `seconds` at most, over so many messages.

    `hidden` is how long a message stays hidden at most, in seconds. It is longer than the look:
    the first message must not become visible, and be seen twice, while the last are received.
    """

    seconds: float
    most: int
    hidden: int


SAMPLE = Reach(seconds=20, most=MOST, hidden=HIDDEN)
"""A look for a person who waits."""

# SQS lets about 120,000 messages of a queue be in flight.
WHOLE_QUEUE = Reach(seconds=600, most=100_000, hidden=660)
"""A look that counts all messages of a queue."""


@dataclass(frozen=True, slots=True)
class Peeked:
    """How many messages were looked at, and how many of them stay hidden for a while.

    `is_whole` says that the look ended because the queue seemed empty.
    """

    looked_at: int
    not_given_back: int
    is_whole: bool = True


def look_into_queue(
    session: Session,
    url: str,
    home: str,
    see: See,
    *,
    reach: Reach = WHOLE_QUEUE,
    missing: Callable[[], int] = lambda: 10,
    visible: int | None = None,
    trusted: Collection[str] = (),
) -> Peeked:
    """Calls `see` with each letter of a queue once, and always gives all messages back.

    Before each receive `missing` says how many are still wanted. The look ends when it says 0, when
    the queue seems empty, or at the end of its reach. `visible` is SQS's estimate of the messages
    in the queue: once so many have been seen, a single empty poll ends the look, and it does not
    wait. Stamps of the `trusted` senders are believed.
    """
    sqs = session.aws.sqs
    hidden: dict[str, str] = {}
    until, empty = session.clock() + reach.seconds, 0

    def seen_all() -> bool:
        return visible is not None and len(hidden) >= visible

    def seems_empty() -> bool:
        return empty >= (1 if seen_all() else _EMPTY_POLLS)

    try:
        while (
            (most := min(10, missing())) > 0
            and len(hidden) < reach.most
            and not seems_empty()
            and session.clock() < until
        ):
            # An estimate of 0 lags behind the first messages: that poll asks all servers.
            wait = 0 if hidden and seen_all() else POLL_SECONDS
            messages = _receive(sqs, url, most, reach.hidden, wait)
            empty = 0 if messages else empty + 1
            for message in messages:
                new = message["MessageId"] not in hidden
                hidden[message["MessageId"]] = message["ReceiptHandle"]
                if new:
                    with suppress(NotALetter):
                        letter = from_api(message)
                        see(FoundLetter(letter, home, stamp=believed(letter, trusted)))
    finally:
        kept = _give_back(sqs, url, list(hidden.values()))
    return Peeked(len(hidden), kept, seems_empty())


def _receive(
    sqs: SQSClient, url: str, most: int, hidden: int, wait: int
) -> Sequence[MessageTypeDef]:
    return sqs.receive_message(
        QueueUrl=url,
        MaxNumberOfMessages=most,
        VisibilityTimeout=hidden,
        WaitTimeSeconds=wait,
        MessageAttributeNames=["All"],
        MessageSystemAttributeNames=["All"],
    ).get("Messages", [])


def _give_back(sqs: SQSClient, url: str, handles: Sequence[str]) -> int:
    """Makes received messages visible again; returns how many stay hidden for a while."""
    from botocore.exceptions import BotoCoreError, ClientError

    kept = 0
    for begin in range(0, len(handles), 10):
        batch = handles[begin : begin + 10]
        try:
            answer = sqs.change_message_visibility_batch(
                QueueUrl=url,
                Entries=[
                    {"Id": str(number), "ReceiptHandle": handle, "VisibilityTimeout": 0}
                    for number, handle in enumerate(batch)
                ],
            )
            kept += len(answer.get("Failed", []))
        except (BotoCoreError, ClientError):
            # They come back by themselves; the messages seen are worth more than this error.
            kept += len(batch)
    return kept


# Each letter of a queue or of a lane.

# Entries of a shard's index that are kept in memory: some 200 bytes each.
_MOST_IN_SHARD = 100_000
_CHUNK = 100

# Copies of discarded letters in memory at once: each may have a mebibyte.
_TOGETHER = 50


def letters_of_lane(
    here: Here, lane: str, broken: Callable[[int], None] = lambda _: None
) -> Iterator[FoundLetter]:
    """Each letter of a lane. Nothing is claimed and nothing is counted as received.

    Calls `broken` with the number of items that hold no whole letter.
    """
    from deadletter.redrive.waiting_room import FOREVER, SHARDS

    room = here.room
    for shard in range(SHARDS):
        with aws_errors():
            entries = room.due(lane, shard, FOREVER, _MOST_IN_SHARD)
        # A FIFO group is read whole: its letters stay side by side.
        entries = sorted(entries, key=lambda entry: entry.group or "")
        for part in _parts(entries):
            with aws_errors():
                contents = room.read(part, 0.0)
            if contents.broken:
                broken(contents.broken)
            for received in contents.letters:
                # An item of another lane keeps the letter as it came, with any stamp on it.
                stamp = received.stamp or believed(received.letter, here.pipeline.trusted_senders)
                yield FoundLetter(received.letter, received.home, lane, stamp)


def discarded(here: Here, run: str, damaged: list[str]) -> Iterator[DiscardedLetter]:
    """What a run has discarded, by the copies that are kept; adds to `damaged` what is no copy."""
    from deadletter.replay.objects import NotADiscardedLetter, discarded_letter

    objects = here.objects(run)
    with aws_errors():
        names = [stored.name for stored in objects.listed(DISCARDED)]
    for part in in_parts(names, _TOGETHER):
        with side_by_side() as start:
            reads = [(name, start(partial(objects.get, name))) for name in part]
            copies = [(name, read.answer("A discarded message")) for name, read in reads]
        for name, data in copies:
            try:
                if data is not None:
                    yield discarded_letter(name, data)
            except NotADiscardedLetter:
                damaged.append(f"{run}/{name}")


def as_parked(discarded: DiscardedLetter) -> FoundLetter:
    """A discarded letter as it was parked."""
    return FoundLetter(discarded.letter, discarded.parked_in, stamp=discarded.parked_stamp)


def in_parts(found: Iterable[T], size: int) -> Iterator[list[T]]:
    """What is found, so many at a time."""
    left = iter(found)
    while part := list(islice(left, size)):
        yield part


def _parts(entries: Sequence[WaitingRoomEntry]) -> Iterator[Sequence[WaitingRoomEntry]]:
    """The entries in runs of about a hundred; a FIFO group is never split."""
    part: list[WaitingRoomEntry] = []
    for entry in entries:
        if len(part) >= _CHUNK and (entry.group is None or entry.group != part[-1].group):
            yield part
            part = []
        part.append(entry)
    if part:
        yield part
