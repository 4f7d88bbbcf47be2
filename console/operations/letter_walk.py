"""Every letter of a queue or of a lane of the waiting room, with its body."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter, NotALetter, from_api
from deadletter.message.stamp import Stamp

from .adapter_errors import aws_errors
from .app import App, DeployedPipeline
from .peek import WHOLE_QUEUE, Peeked, Reach, peek
from .session import Session

if TYPE_CHECKING:
    from mypy_boto3_sqs.type_defs import MessageTypeDef

    from deadletter.aws.waiting_room import DynamoDBWaitingRoom
    from deadletter.redrive.waiting_room import WaitingRoomEntry

# Entries of a shard's index that are kept in memory: some 200 bytes each.
_MOST_IN_SHARD = 100_000
_CHUNK = 100


@dataclass(frozen=True, slots=True)
class FoundLetter:
    """A letter, and where it is: in the queue `home`, or in a lane, where it came from `home`.

    `kept` is the stamp beside a letter of lane `parked`: it says why it is there, and the letter
    itself may say something older, or nothing.
    """

    letter: Letter
    home: str
    lane: str | None = None
    kept: Stamp | None = None

    @property
    def stamp(self) -> Stamp | None:
        """The stamp of a parked letter, or the one that it carries, whoever wrote it."""
        if self.kept is not None:
            return self.kept
        attribute = self.letter.attributes.get(stamps.NAME)
        return None if attribute is None else stamps.parse(attribute.value)

    @property
    def ids(self) -> frozenset[str]:
        """The ids that a person may name it by: of this copy, and of its first life."""
        stamp = self.stamp
        return frozenset({self.letter.message_id, stamp.origin if stamp else ""} - {""})


See = Callable[[FoundLetter], None]


def look_into_queue(
    session: Session,
    url: str,
    home: str,
    see: See,
    *,
    reach: Reach = WHOLE_QUEUE,
    wanted: Callable[[], bool] = lambda: True,
) -> Peeked:
    """Calls `see` with each letter of a queue while letters are `wanted`; gives all back."""

    def seen(message: MessageTypeDef) -> None:
        try:
            see(FoundLetter(from_api(message), home))
        except NotALetter:
            return

    return peek(
        session.aws.sqs,
        url,
        missing=lambda: 10 if wanted() else 0,
        see=seen,
        now=session.clock,
        reach=reach,
    )


def waiting_room(session: Session, app: App, pipeline: DeployedPipeline) -> DynamoDBWaitingRoom:
    """The waiting room of a pipeline, for reading."""
    from deadletter.aws.waiting_room import DynamoDBWaitingRoom

    return DynamoDBWaitingRoom(
        dynamodb=session.aws.dynamodb,
        table=app.letters_table,
        s3=session.aws.s3,
        bucket=app.letters_bucket,
        pipeline=pipeline.name,
        fifo=pipeline.fifo,
        clock=session.clock,
    )


def letters_of_lane(
    session: Session,
    app: App,
    pipeline: DeployedPipeline,
    lane: str,
    broken: Callable[[int], None] = lambda _: None,
) -> Iterator[FoundLetter]:
    """Each letter of a lane. Nothing is claimed and nothing is counted as received.

    Calls `broken` with the number of items that hold no whole letter.
    """
    from deadletter.redrive.waiting_room import FOREVER, SHARDS

    room = waiting_room(session, app, pipeline)
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
                yield FoundLetter(received.letter, received.home, lane, received.stamp)


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
