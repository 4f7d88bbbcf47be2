"""The waiting room: letters wait outside SQS, each in one lane."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from deadletter.contract import END_OF_TIME, PARKED_LANE, dedicated_lane, run_lane
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import LetterStore, ReceivedLetter
from deadletter.pace.lane import LanePaid
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.order import Order
from deadletter.routing.decision import SHARDS as SHARDS

DELETED_AT_ONCE = 25
"""Letters that one request takes out of the room: as many as DynamoDB deletes in a batch."""


class RoomUnavailable(Exception):
    """The waiting room gave no answer: letters on their way in stay where they are."""


@dataclass(frozen=True, slots=True)
class WaitingRoomEntry:
    """The place of a letter in the room: enough to fetch it, without its content.

    `place` is the room's own key; `lane`, `shard` and `due` come from an index that may
    lag: read the letter before sending it.
    """

    copy: str
    place: str
    lane: str
    shard: int
    due: float
    group: str | None = None


@dataclass(frozen=True, slots=True)
class HeldItem:
    """An item in a run's lane: its key, its shard and, if they were asked for, the texts in it.

    `letter` and `stamp` are JSON as it is stored; without them the item holds no whole letter.
    """

    place: tuple[str, str]
    shard: int
    home: str = ""
    stamp: str = ""
    letter: bytes | None = None


@dataclass(frozen=True, slots=True)
class RoomContents:
    """Letters read from the room; `broken` is the number of items that hold no whole letter.

    Broken items stay in the room for a person to look at.
    """

    letters: Sequence[ReceivedLetter]
    broken: int


@dataclass(frozen=True, slots=True)
class LaneReview:
    """How far the letters of a lane were judged again by one edition of the rules.

    All times are epoch seconds.

    edition   the edition; empty before the first review
    since     when a run first saw it
    began     when the pass began that is under way; 0 between two passes
    finished  the shards that this pass has been through
    reached   the last entry that it has looked at in each of the others
    is_done   whether no further pass is needed for this edition
    at        when a run last worked on it
    """

    edition: str = ""
    since: float = 0.0
    began: float = 0.0
    finished: frozenset[int] = frozenset()
    reached: Mapping[int, WaitingRoomEntry] = field(default_factory=dict)
    is_done: bool = False
    at: float = 0.0


NOT_REVIEWED = LaneReview()
"""The review of a lane that no run has looked at."""


@dataclass(frozen=True, slots=True)
class LaneLook:
    """When all of a lane was looked into, and when its first letter is due (both epoch seconds).

    `first_due` is infinite if there was none.
    """

    at: float
    first_due: float


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane that has held letters, and when the last ones were put in (epoch seconds).

    They may have come up to a minute later than `touched`. `look` is what a run has found since.
    """

    name: str
    touched: float
    review: LaneReview = NOT_REVIEWED
    look: LaneLook | None = None


@dataclass(frozen=True, slots=True)
class LaneCount:
    """How many letters a lane holds; `is_at_least` if there are more than were counted."""

    messages: int
    is_at_least: bool = False


@dataclass(frozen=True, slots=True)
class OpenShard:
    """A shard of a lane whose letters may leave if they are due at or before `until`.

    `rate` is the rate of the whole lane in letters per second, if a rule gives it one.
    """

    lane: str
    shard: int
    until: float
    rate: float | None = None


@dataclass(frozen=True, slots=True)
class Wait:
    """The wait that a whole FIFO group shares."""

    lane: str
    due: float


class LaneStore(LetterStore, Protocol):
    """A lane that letters leave: by a send, or for another lane."""

    def postpone(self, order: Order) -> None:
        """Give a letter in the room the lane and the due time of its new hold.

        Raises RoomUnavailable.
        """


class WaitingRoom(LaneStore, Protocol):
    """The waiting room of one pipeline. Raises RoomUnavailable when it cannot answer.

    Its letters may be judged again before they are due, and a lane may have a rate that all workers
    and runs share.
    """

    def lanes(self) -> Sequence[Lane]:
        """The lanes that have held letters and are not retired."""

    def retire(self, lane: Lane) -> None:
        """Remove a lane from `lanes`, unless a letter has been put into it since it was read."""

    def note_look(self, lane: Lane, look: LaneLook) -> None:
        """Keep what a look found, unless letters have been put into the lane since it was read."""

    def store_bodies(
        self, orders: Sequence[Order], until: float, in_parallel: InParallel
    ) -> Collection[str]:
        """Store what is too large for an item, side by side; returns the copies to admit.

        Storing a body twice has the effect of once. No body is begun after `until` (epoch
        seconds), and none after bodies were refused twice in this run.
        """

    def admit(self, orders: Sequence[Order]) -> Mapping[str, Confirmation]:
        """Put letters in; returns the confirmation of each copy that is now in the room.

        Every decision must be a Hold. Putting a copy in twice has the effect of once. The
        letter's own bytes are stored before its item names them, here unless `store_bodies`
        has stored them. No letter of a FIFO group
        goes in before an earlier one. Raises RoomUnavailable only while no item is
        written; a copy without a confirmation may be in the room or not.
        """

    def find(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Confirmation]:
        """Confirmations of the letters that are already in the room, read consistently."""

    def key(self, received: ReceivedLetter) -> tuple[str, str]:
        """The room's key of a letter, whether it is in the room or not."""

    def due(
        self,
        lane: str,
        shard: int,
        until: float,
        most: int,
        after: WaitingRoomEntry | None = None,
    ) -> Sequence[WaitingRoomEntry]:
        """Letters of a shard that are due at or before `until`, the earliest first.

        `after` is the last one of an earlier answer: those behind it are listed.
        """

    def read(self, entries: Sequence[WaitingRoomEntry], locked_until: float) -> RoomContents:
        """The letters of these entries that are still in their lane, read consistently."""

    def waits(self, groups: Collection[str], home: str) -> Mapping[str, Wait]:
        """The wait of each of these FIFO groups of the DLQ `home` that has letters in the room."""

    def read_in_parts(
        self, entries: Sequence[WaitingRoomEntry], locked_until: float, in_parallel: InParallel
    ) -> Iterable[RoomContents]:
        """What `read` returns in parts, in order: no more large letters than memory can take.

        The items are read at once, and large bodies when their part's turn comes.
        """

    def paid(self, lane: str) -> LanePaid | None:
        """What a lane with a rate has paid, read consistently; None if it has had none so far."""

    def note_paid(self, lane: str, before: LanePaid | None, after: LanePaid) -> bool:
        """Keep what a lane has paid; False if it has changed since `before`."""

    def note_review(self, lane: str, before: LaneReview, after: LaneReview) -> None:
        """Keep how far a lane is reviewed, unless another run has kept its own since `before`."""

    def reschedule(self, received: ReceivedLetter, lane: str, due: float) -> None:
        """Change when a letter that was read from a lane is due, if it is still in that lane.

        On FIFO, all letters of its group in the lane get the same due time.
        """


def shard_of(letter: Letter, fifo: bool) -> int:
    """The shard of a lane that a letter waits in; a FIFO group waits together.

    In the lane of a replay run the hold says the shard: letters of one ordering key wait together.
    """
    key = letter.group if fifo and letter.group else letter.message_id
    return hashlib.blake2b(key.encode(), digest_size=1).digest()[0] % SHARDS


FOREVER = 2 * END_OF_TIME
"""Epoch seconds later than the due time of rescued letters too."""


def never(letter: Letter) -> float:
    """The due time of a letter in a lane that no time opens; such letters are kept by age."""
    return END_OF_TIME + (letter.sent_ms or 0) / 1000


def is_shut(lane: str) -> bool:
    """Whether no time, circuit or rule opens a lane.

    It holds letters rescued from retention, or those in the custody of a replay run.
    """
    return lane == PARKED_LANE or lane.startswith(dedicated_lane("")) or is_of_run(lane)


def is_of_run(lane: str) -> bool:
    """Whether a lane holds the letters in the custody of a replay run."""
    return lane.startswith(run_lane(""))
