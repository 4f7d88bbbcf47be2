"""The waiting room in DynamoDB; bodies that are too large for an item are in S3."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import groupby, islice
from typing import TYPE_CHECKING, Any

from deadletter.aws.dynamodb import PipelineRows, number_in, plain
from deadletter.aws.errors import (
    AWS_ERRORS,
    Conflict,
    Failed,
    NoteRow,
    code,
    ignore,
    member,
    ours,
    refusal,
    row_name,
)
from deadletter.aws.rows import (
    NO_GROUP,
    Broken,
    MetRows,
    decoded,
    is_own_letter,
    key_of_row,
    readable,
    waiting_copy,
)
from deadletter.aws.table import (
    PARTITION,
    SORT,
    Change,
    Condition,
    Key,
    above,
    absent,
    at_most,
    begins,
    equals,
    parts,
    present,
    stored_number,
)
from deadletter.contract import (
    DUE_LANE,
    END_OF_TIME,
    HOUR,
    LANES,
    MINUTE,
    PARKED_LANE,
    WAITING_FIGURES,
    Partition,
    body_object,
    lane_partition,
    run_lane,
)
from deadletter.message import stamp as stamps
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter, NotALetter, compact_json, from_json, to_json
from deadletter.message.queue import ReceivedLetter, check_confirmations
from deadletter.message.stamp import Stamp
from deadletter.pace.lane import LanePaid
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import (
    FOREVER,
    NOT_REVIEWED,
    SHARDS,
    HeldItem,
    Lane,
    LaneCount,
    LaneLook,
    LaneReview,
    RoomContents,
    RoomUnavailable,
    Wait,
    WaitingRoomEntry,
    is_of_run,
    is_shut,
    never,
    shard_of,
)

if TYPE_CHECKING:
    from mypy_boto3_s3 import S3Client

    from deadletter.aws.replay_tickets import ReturningLetters

# Without permission to list the bucket, S3 answers AccessDenied for a missing key.
_GONE = frozenset({"NoSuchKey", "AccessDenied"})
INLINE_BYTES = 4096
"""Letters up to this size are kept in the item itself, larger ones in S3 under a name in it."""

_FRONT = 10
"""Items of a FIFO group read at once at least: parked ones may stand before the first."""

MOST_BODIES = 10
"""Large letters held in memory at once: each may have a mebibyte, and is encoded for the router."""

MOST_BODIES_REFUSED = 2
"""Calls that S3 may refuse or leave unanswered in a run before it is not asked again."""

_PLACE = "waiting room"
"""The place that the room's confirmations name."""

_SHARD_NAMES = frozenset(map(str, range(SHARDS)))
_EXISTS = present(PARTITION)
_CLOSED = "a message came back to a run that does not wait for it any more"


@dataclass(frozen=True, slots=True)
class WaitingLetter:
    """A letter of a lane, as people look at it: nothing is claimed and nothing is counted.

    `letter` is None if it was not asked for, or is too large for its item: then it is in S3.
    `due` is epoch seconds, and `because` why it waits.
    """

    copy: str
    home: str
    stamp: Stamp | None
    letter: Letter | None
    lane: str = ""
    due: float = 0.0
    because: str = ""
    key: Key | None = None


_MOST_FOREIGN = 10
"""Foreign rows of a shard that are named: a person sees from fewer what is going on."""


MOST_PAGES = 4
"""Answers of a mebibyte that are read to count one shard: some 16,000 letters. A look at a lane of
millions must end, and costs what it reads."""


@dataclass(eq=False, repr=False)
class DynamoDBLanes(PipelineRows):
    """The lanes of one pipeline's waiting room, and how many letters wait in each.

    In the index a shard of a lane is `<pipeline>|<lane>|<shard>`. `foreign` are the rows in there
    that are no waiting letters of the pipeline: `note_foreign` is told each of them once.
    """

    note_bad_row: NoteRow = ignore
    note_foreign: Callable[[Key], None] = lambda key: None

    def __post_init__(self) -> None:
        super().__post_init__()
        self.foreign = MetRows(self.note_foreign)

    def lanes(self) -> Sequence[Lane]:
        with ours(RoomUnavailable):
            items = self._table.query(Partition.LANES.of(self.pipeline), lagging=True)
        for item in filter(_is_bad_lane, items):
            self._note_bad(item)
        return [
            Lane(item[SORT], _touched(item), _review_of(item), _look_of(item)) for item in items
        ]

    def count(self, lane: str) -> LaneCount:
        """The letters in a lane, over all its shards. The index may lag by seconds."""
        with ours(RoomUnavailable):
            counts = [self._count_shard(lane, shard) for shard in range(SHARDS)]
        letters, cut = zip(*counts, strict=True)
        return LaneCount(sum(letters), any(cut))

    def _count_shard(self, lane: str, shard: int) -> tuple[int, bool]:
        """The letters in a shard, and whether there are more; the foreign rows in it are noted."""
        partition, own, pages = self._lane(lane, shard), self._own_key, MOST_PAGES
        letters, rows, is_cut = self._table.count(partition, index=LANES, keep=own, pages=pages)
        if letters < rows:
            others = self._table.stored_items(partition, index=LANES, keep=~own, pages=pages)
            for row in islice(others, _MOST_FOREIGN):
                self._is_own(plain(row))
        return letters, is_cut

    @property
    def _own_key(self) -> Condition:
        """The condition that the key of a row begins as those of waiting letters do."""
        kinds = (Partition.LETTER, Partition.GROUP)
        letter, group = (begins(PARTITION, kind.of(self.pipeline, "")) for kind in kinds)
        return letter | group

    def _is_own(self, row: Mapping[str, Any]) -> bool:
        """Whether the key of a row is that of a waiting letter of the pipeline; notes another."""
        key = key_of_row(row)
        is_own = waiting_copy(self.pipeline, key) is not None
        if not is_own:
            self.foreign.add(key)
        return is_own

    def _listed(
        self,
        lane: str,
        shard: int,
        most: int,
        due: Condition | None = None,
        after: Mapping[str, Any] | None = None,
    ) -> Sequence[Mapping[str, Any]]:
        """At most so many entries of a shard in the index, those that are due first."""
        asked = {"index": LANES, "after": after}
        rows = self._table.query(self._lane(lane, shard), due, limit=most, **asked)
        own = [row for row in rows if self._is_own(row)]
        if len(own) == len(rows):
            return own
        # However many foreign rows are due first, letters behind them are found.
        behind = self._table.stored_items(self._lane(lane, shard), due, keep=self._own_key, **asked)
        return [*islice(filter(self._is_own, map(plain, behind)), most)]

    def _note_bad(self, item: Mapping[str, Any]) -> None:
        self.note_bad_row(row_name(self._table.name, item[PARTITION], item[SORT]))

    def look(self, lane: str, most: int, *, bodies: bool = False) -> Sequence[WaitingLetter]:
        """At most so many letters of a lane, those that are due first.

        Without `bodies` nothing is read of the letters themselves.
        """
        keys = [*map(key_of_row, self._first(lane, most))]
        with ours(RoomUnavailable):
            items = self._table.get_many(keys, only=() if bodies else WAITING_FIGURES)
        found = [items[key] for key in keys if key in items]
        seen = [self._seen(item) for item in found]
        return [letter for letter in seen if letter.lane == lane]

    def waiting(self, copy: str) -> WaitingLetter | None:
        """The letter that waits under the id of its copy, without the letter itself; None for
        one of a FIFO group.
        """
        key = (Partition.LETTER.of(self.pipeline, copy), NO_GROUP)
        with ours(RoomUnavailable):
            item = self._table.get_many([key], only=WAITING_FIGURES).get(key)
        return None if item is None else self._seen(item)

    def first_due(self, lane: str) -> float | None:
        """When the first letter of a lane is due (epoch seconds); None if it is empty."""
        entries = self._first(lane, 1)
        return float(entries[0]["due"]) if entries else None

    def _first(self, lane: str, most: int) -> Sequence[Mapping[str, Any]]:
        """At most so many entries of a lane in the index, those that are due first."""
        with ours(RoomUnavailable):
            entries = [
                entry for shard in range(SHARDS) for entry in self._listed(lane, shard, most)
            ]
        return sorted(entries, key=lambda entry: entry["due"])[:most]

    def _seen(self, item: Mapping[str, Any]) -> WaitingLetter:
        return WaitingLetter(
            copy=str(item.get("copy")),
            home=str(item.get("home")),
            stamp=stamps.parse(str(item.get("stamp"))),
            letter=_inline(item),
            lane=self._lane_name(str(item.get("lane", ""))),
            due=float(item.get("due", 0)),
            because=str(item.get("because", "")),
            key=key_of_row(item),
        )

    def _lane_key(self, lane: str) -> Key:
        """The key of a lane's own row, in the list of lanes."""
        return (Partition.LANES.of(self.pipeline), lane)

    def _lane(self, lane: str, shard: int | None = None) -> str:
        return lane_partition(self.pipeline, lane, shard)

    def _in_lane(self, lane: str) -> Condition:
        """The condition that a letter is in some shard of a lane."""
        return begins("lane", f"{self._lane(lane)}|")

    def _lane_name(self, partition: str) -> str:
        return partition.removeprefix(lane_partition(self.pipeline, "")).rpartition("|")[0]


@dataclass(eq=False, repr=False, kw_only=True)
class DynamoDBWaitingRoom(DynamoDBLanes):
    """The waiting room of one pipeline.

    The key of a letter's item is its copy's id. On FIFO it is the group and then the place
    in the queue, so that a group can be read in order and consistently. `note_refusal` is
    told what AWS refused where a method goes on without an error.
    """

    s3: S3Client
    bucket: str
    fifo: bool
    clock: Callable[[], float]
    note_refusal: Callable[[str], None] = ignore

    def __post_init__(self) -> None:
        super().__post_init__()
        self._registered: dict[str, float] = {}
        self._bodies_refused = 0
        self._with_body: set[str] = set()
        self._bad_paid: dict[str, Any] = {}

    def content(self, waiting: WaitingLetter) -> Letter | None:
        """A letter that waits, as a person has edited it, from S3 if it is there.

        None if it has left meanwhile, or is incomplete.
        """
        if waiting.key is None:
            return None
        item = self._table.get_many([waiting.key]).get(waiting.key)
        return None if item is None else readable(self._letter, item, None)

    def _letter(self, item: Mapping[str, Any]) -> Letter:
        return self._read_letter(item, self._bodies([item]))

    @ours(RoomUnavailable)
    def retire(self, lane: Lane) -> None:
        with suppress(Conflict):
            self._table.delete(self._lane_key(lane.name), equals("touched", int(lane.touched)))

    @ours(RoomUnavailable)
    def note_look(self, lane: Lane, look: LaneLook) -> None:
        first_due = look.first_due if math.isfinite(look.first_due) else None
        self._table.changed(
            self._lane_key(lane.name),
            {"look": json.dumps([look.at, first_due])},
            when=equals("touched", int(lane.touched)),
        )

    @ours(RoomUnavailable)
    def note_review(self, lane: str, before: LaneReview, after: LaneReview) -> None:
        # A review that could not be read is replaced.
        is_first = before == NOT_REVIEWED
        is_known = _EXISTS & equals("review", _review_text(before))
        self._table.changed(
            self._lane_key(lane),
            {"review": _review_text(after)},
            when=_EXISTS if is_first else is_known,
        )

    def paid(self, lane: str) -> LanePaid | None:
        with ours(RoomUnavailable):
            key = self._lane_key(lane)
            item = self._table.get_many([key]).get(key, {})
        paid = _paid_of(item)
        if "paid" in item and paid is None:
            # The next note replaces it.
            self._bad_paid[lane] = item["paid"]
        return paid

    @ours(RoomUnavailable)
    def note_paid(self, lane: str, before: LanePaid | None, after: LanePaid) -> bool:
        known = None if before is None else _paid_text(before)
        if before is None:
            known = self._bad_paid.pop(lane, None)
        is_known = absent("paid") if known is None else equals("paid", known)
        return self._table.changed(
            self._lane_key(lane), {"paid": _paid_text(after)}, when=_EXISTS & is_known
        )

    def reschedule(self, received: ReceivedLetter, lane: str, due: float) -> None:
        key = _read_place(received.handle)[0]
        with ours(RoomUnavailable):
            keys = self._keys_of_group(key[0], lane) if self.fifo else [key]
            # A review looks at the first letter of a group, and comes back while that one is not
            # due as it should be: changed last, it vouches for those behind it.
            for each in reversed(keys):
                self._reschedule(each, lane, due)

    def _keys_of_group(self, partition: str, lane: str) -> Sequence[Key]:
        return [*map(key_of_row, self._table.query(partition, keep=self._in_lane(lane)))]

    def recall(self, entry: WaitingRoomEntry, due: float) -> bool:
        """Change when a letter is due, as a person does; False if it has left its lane."""
        with ours(RoomUnavailable):
            return self._reschedule(_read_place(entry.place)[0], entry.lane, due)

    def _reschedule(self, key: Key, lane: str, due: float) -> bool:
        """Change when an item is due, unless it has left its lane.

        One that is due already never waits again: a person may just have called it back.
        """
        now = self.clock()
        self._register(lane)
        in_lane = self._in_lane(lane)
        waits = in_lane & above("due", int(now)) if due > now else in_lane
        return self._table.changed(key, {"due": int(due)}, when=waits)

    def store_bodies(
        self, orders: Sequence[Order], until: float, in_parallel: InParallel
    ) -> Collection[str]:
        large = {order.copy: data for order in orders if (data := _too_large(order)) is not None}

        def store(copy: str) -> bool:
            return self.clock() < until and self._store_body(copy, large[copy])

        stored = in_parallel([partial(store, copy) for copy in large]) if large else []
        missing = {copy for copy, is_stored in zip(large, stored, strict=True) if not is_stored}
        self._with_body |= large.keys() - missing
        return {order.copy for order in orders} - missing

    def admit(self, orders: Sequence[Order]) -> Mapping[str, Confirmation]:
        with ours(RoomUnavailable):
            # Runs look only into registered lanes: register first, then put letters in.
            for lane in sorted({order.hold.lane for order in orders}):
                self._register(lane)
        returning = self._returning(orders)
        confirmations: dict[str, Confirmation] = {}
        stopped: set[str | None] = set()
        for part in self._parts(orders):
            going = [order for order in part if self._group_of(order) not in stopped]
            stored: Sequence[Order] = []
            try:
                if any(map(_is_return, going)):
                    stored = [order for order in going if self._take_back(order, returning)]
                else:
                    stored = self._put(going)
            except Failed as error:
                self.note_refusal(str(error))
            for order in stored:
                confirmations[order.copy] = Confirmation(order.copy, _PLACE)
            stopped |= {self._group_of(order) for order in going if order not in stored} - {None}
        return confirmations

    @ours(RoomUnavailable)
    def admit_with(self, orders: Sequence[Order], changed: Sequence[Change]) -> bool:
        """Put letters in and set attributes of other items, each on its condition: all or nothing.

        At most 100 of both together. Returns False if nothing was written, because a condition did
        not hold or another write was under way. Raises RoomUnavailable.
        """
        try:
            for lane in sorted({order.hold.lane for order in orders}):
                self._register(lane)
            items = [item for order in orders if (item := self._item(order)) is not None]
            if len(items) < len(orders):
                raise RoomUnavailable("the bucket does not take the body of a message")
            self._table.together(changes=changed, puts=[(item, None) for item in items])
        except Conflict:
            return False
        return True

    def _parts(self, orders: Sequence[Order]) -> Iterator[Sequence[Order]]:
        """The orders in parts that are stored by one call each.

        DynamoDB may store any part of a batch: letters of a FIFO group go in one by one, and so
        does a letter that returns to its run.
        """
        if self.fifo:
            yield from parts(orders, 1)
            return
        yield from parts([order for order in orders if not _is_return(order)], 25)
        yield from parts([order for order in orders if _is_return(order)], 1)

    def _put(self, orders: Sequence[Order]) -> Sequence[Order]:
        """Put letters in; returns those that are in the room now."""
        items = {order: item for order in orders if (item := self._item(order)) is not None}
        if items:
            self._table.write_many(puts=list(items.values()))
        return list(items)

    def _returning(self, orders: Sequence[Order]) -> ReturningLetters:
        # Few letters come back to a run: a cold start does without.
        from deadletter.aws.replay_tickets import ReturningLetters

        with ours(RoomUnavailable):
            return ReturningLetters(self._table, self.pipeline, list(filter(_is_return, orders)))

    def _take_back(self, order: Order, returning: ReturningLetters) -> bool:
        """Put a letter into its run's lane and note it on its ticket, both or none.

        Returns False if the run does not wait for it any more: it stays where it is.
        """
        if returning.is_back(order):
            return True
        if not returning.is_awaited(order):
            self.note_refusal(_CLOSED)
            return False
        item = self._item(returning.in_its_shard(order))
        if item is None:
            return False
        change = returning.noted(order, (item[PARTITION], item[SORT]))
        try:
            self._table.together(changes=[change], puts=[(item, None)])
        except Conflict:
            returning.read_again(order)
            return returning.is_back(order)
        returning.note(order)
        return True

    def _is_parked(self, item: Mapping[str, Any]) -> bool:
        return self._lane_name(item.get("lane", "")) == PARKED_LANE

    def _shard(self, order: Order) -> int:
        shard = order.hold.shard
        return shard_of(order.received.letter, self.fifo) if shard is None else shard

    def _group_of(self, order: Order) -> str | None:
        return order.received.letter.group if self.fifo else None

    def find(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Confirmation]:
        keys = {received.letter.message_id: self.key(received) for received in letters}
        with ours(RoomUnavailable):
            items = self._table.get_many(list(keys.values()))
        return {
            copy: Confirmation(copy, _PLACE)
            for copy, key in keys.items()
            if key in items and self._is_whole(items[key])
        }

    def _is_whole(self, item: Mapping[str, Any]) -> bool:
        """Whether an item is a letter of the pipeline, with its content here or in S3.

        Its key alone proves nothing: an update that says only when a row is due makes a row.
        """
        return is_own_letter(self.pipeline, item) and ("message" in item or "object" in item)

    def due(
        self,
        lane: str,
        shard: int,
        until: float,
        most: int,
        after: WaitingRoomEntry | None = None,
    ) -> Sequence[WaitingRoomEntry]:
        # A time that no letter of ours is due at hides none from those who want all of a lane.
        is_any = until >= (FOREVER if is_shut(lane) else END_OF_TIME)
        behind: dict[str, Any] | None = None
        if after is not None and after.due >= FOREVER:
            return []
        if after is not None:
            partition, sort = _read_place(after.place)[0]
            behind = {
                PARTITION: partition,
                SORT: sort,
                "lane": self._lane(lane, shard),
                "due": stored_number(after.due),
            }
        with ours(RoomUnavailable):
            due = None if is_any else at_most("due", int(until))
            items = self._listed(lane, shard, most, due, behind)
        return [
            WaitingRoomEntry(
                copy=_copy_of(item),
                place=_place(key_of_row(item)),
                lane=lane,
                shard=shard,
                due=min(max(0.0, float(item["due"])), FOREVER),
                group=item[PARTITION] if self.fifo else None,
            )
            for item in items
        ]

    def read(self, entries: Sequence[WaitingRoomEntry], locked_until: float) -> RoomContents:
        contents = [*self.read_in_parts(entries, locked_until)]
        letters = [received for part in contents for received in part.letters]
        return RoomContents(letters, sum(part.broken for part in contents))

    def read_in_parts(
        self,
        entries: Sequence[WaitingRoomEntry],
        locked_until: float,
        in_parallel: InParallel | None = None,
    ) -> Iterator[RoomContents]:
        with ours(RoomUnavailable):
            alone = [each for each in entries if not self.fifo or _is_read_alone(each.lane)]
            grouped = [each for each in entries if self.fifo and not _is_read_alone(each.lane)]
            items = [*self._group_items(grouped, in_parallel), *self._single_items(alone)]
            broken: set[str] = set()
            for part in _parts_in_memory(items):
                bodies = self._bodies(part, in_parallel)
                yield self._contents(part, bodies, locked_until, broken)

    def _contents(
        self,
        items: Sequence[Mapping[str, Any]],
        bodies: Mapping[str, bytes],
        locked_until: float,
        broken: set[str],
    ) -> RoomContents:
        """The letters of items; on FIFO without those behind a `broken` one of their group."""
        letters = []
        known = len(broken)
        for item in items:
            partition = item[PARTITION]
            if self.fifo and partition in broken and not self._is_given_up(item):
                continue
            read = partial(self._received_letter, locked_until=locked_until, bodies=bodies)
            received = decoded(read, item, self._table.name)
            if isinstance(received, Broken):
                self.note_bad_row(received.name)
                broken.add(partition)
            else:
                letters.append(received)
        return RoomContents(letters, len(broken) - known)

    def held(self, lane: str, places: Sequence[Key]) -> Mapping[Key, int]:
        """The shards of those items with these keys that are in a lane, read consistently."""
        with ours(RoomUnavailable):
            # Without their content: it may be megabytes.
            items = self._in_shards(lane, places, only=(PARTITION, SORT, "lane"))
        return {key_of_row(item): shard for item, shard in items}

    def _in_shards(
        self, lane: str, places: Sequence[Key], *, only: Sequence[str] = ()
    ) -> list[tuple[Mapping[str, Any], int]]:
        """Those of the items with these keys that are in a lane, each with its shard."""
        prefix = f"{self._lane(lane)}|"
        items = self._table.get_many(self._own_places(places), only=only).values()
        return [
            (item, int(shard))
            for item in items
            if (shard := str(item.get("lane", "")).removeprefix(prefix)) in _SHARD_NAMES
        ]

    def contents(
        self, lane: str, places: Sequence[Key], in_parallel: InParallel | None = None
    ) -> Iterator[HeldItem]:
        """The items that `held` finds, with what they hold; few large ones in memory at once.

        DynamoDB bills an item whole, whichever of its attributes a request names. One that is not
        as we write it is held, and has no content.
        """
        with ours(RoomUnavailable):
            found = self._in_shards(lane, places)
            shards = {key_of_row(item): shard for item, shard in found}
            for part in _parts_in_memory([item for item, _ in found]):
                bodies = self._bodies(part, in_parallel)
                for item in part:
                    yield self._held_item(item, shards[key_of_row(item)], bodies)

    def _held_item(
        self, item: Mapping[str, Any], shard: int, bodies: Mapping[str, bytes]
    ) -> HeldItem:
        """The letter of an item as it is stored; if it is incomplete, it is noted."""
        key = key_of_row(item)

        def read(item: Mapping[str, Any]) -> HeldItem:
            name = _body_in_s3(item)
            if not is_own_letter(self.pipeline, item):
                raise ValueError("a row that is no message of the pipeline")
            letter = bodies[name] if name is not None else _text_of(item)
            return HeldItem(key, shard, str(item["home"]), str(item["stamp"]), letter)

        held = decoded(read, item, self._table.name)
        if isinstance(held, Broken):
            self.note_bad_row(held.name)
            return HeldItem(key, shard)
        return held

    def postpone(self, order: Order) -> None:
        key = _read_place(order.received.handle)[0]
        with ours(RoomUnavailable):
            self._register(order.hold.lane)
            if not _is_return(order):
                self._table.change(key, self._changed(order), when=_EXISTS)
                return
            # A letter that was rescued from its queue is judged in here.
            returning = self._returning([order])
            if not returning.is_awaited(order):
                raise RoomUnavailable(_CLOSED)
            changed = self._changed(returning.in_its_shard(order))
            note = returning.noted(order, key)
            self._table.together(changes=[Change(key, changed, _EXISTS), note])

    def _changed(self, order: Order) -> dict[str, Any]:
        """What an item says of the hold of its letter."""
        return {
            "lane": self._lane(order.hold.lane, self._shard(order)),
            "due": _due(order),
            # A letter that a run leaves to the parking lot belongs there from now on.
            "home": order.received.home,
            "stamp": stamps.attribute(order.stamp).value,
            "because": order.hold.because,
        }

    def waits(self, groups: Collection[str], home: str) -> Mapping[str, Wait]:
        waiting: dict[str, Wait] = {}
        with ours(RoomUnavailable):
            for group in groups:
                item = self._last_waiting(self._group_partition(group, home))
                if item is not None:
                    waiting[group] = self._shared_wait(item)
        return waiting

    def _shared_wait(self, item: Mapping[str, Any]) -> Wait:
        """The wait of a letter, which its group shares; if it can't be read, it is asked again."""
        if "lane" not in item or "due" not in item:
            self._note_bad(item)
            return Wait(DUE_LANE, self.clock() + HOUR)
        return Wait(self._lane_name(item["lane"]), float(item["due"]))

    def _last_waiting(self, partition: str) -> Mapping[str, Any] | None:
        """The last letter of a group; its group does not wait for a parked one."""
        items = self._table.query(partition, backwards=True, limit=1)
        if items and self._is_parked(items[0]):
            parked = self._in_lane(PARKED_LANE)
            items = self._table.query(partition, backwards=True, keep=~parked)
        return items[0] if items else None

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        check_confirmations(letters)
        remaining: list[ReceivedLetter] = []
        for part in parts([received for received, _ in letters], 25):
            places = [_read_place(received.handle) for received in part]
            try:
                self._table.write_many(deletes=[key for key, _ in places])
            except Failed as error:
                self.note_refusal(str(error))
                remaining.extend(part)
                continue
            for name in (name for _, names in places for name in names):
                self._delete_body(name)
        return remaining

    def _bodies(
        self, items: Sequence[Mapping[str, Any]], in_parallel: InParallel | None = None
    ) -> Mapping[str, bytes]:
        """The bodies of these items that are in S3, by name; one that is missing is left out.

        So is one that an item names and that is not its letter's: it is not even asked for.
        """
        own = (item for item in items if is_own_letter(self.pipeline, item))
        names = [name for item in own if (name := _body_in_s3(item)) is not None]
        reads = [partial(self._read_body, name) for name in names]
        bodies = in_parallel(reads) if in_parallel and reads else [read() for read in reads]
        return {name: body for name, body in zip(names, bodies, strict=True) if body is not None}

    def _read_body(self, object_key: str) -> bytes | None:
        """The body in S3; None if it is missing."""
        try:
            answer = self.s3.get_object(Bucket=self.bucket, Key=object_key)
        except AWS_ERRORS as error:
            if code(error) in _GONE:
                return None
            raise RoomUnavailable(refusal(error, "s3", self.bucket)) from error
        return bytes(member(answer, "Body").read())

    def _delete_body(self, object_key: str) -> None:
        if self._bodies_refused >= MOST_BODIES_REFUSED:
            return
        try:
            self.s3.delete_object(Bucket=self.bucket, Key=object_key)
        except AWS_ERRORS:
            self._bodies_refused += 1
            # No item names the object any more: the redriver deletes it, weeks later.
            return

    def _register(self, lane: str) -> None:
        """Have runs look into a lane, once a minute: what they found before is not all of it."""
        now = self.clock()
        if now - self._registered.get(lane, -math.inf) < MINUTE:
            return
        self._table.change(self._lane_key(lane), {"touched": int(now)})
        self._registered[lane] = now

    def _item(self, order: Order) -> dict[str, Any] | None:
        """The letter's item, with a large body stored in S3. None if S3 did not store it."""
        copy, letter = order.copy, order.received.letter
        partition, sort = self.key(order.received)
        item: dict[str, Any] = {
            PARTITION: partition,
            SORT: sort,
            "copy": copy,
            "home": order.received.home,
            **self._changed(order),
        }
        if copy not in self._with_body:
            data = compact_json(to_json(letter))
            if len(data) <= INLINE_BYTES:
                return {**item, "message": data}
            if not self._store_body(copy, data):
                return None
        self._with_body.discard(copy)
        return {**item, "object": body_object(self.pipeline, copy)}

    def _store_body(self, copy: str, data: bytes) -> bool:
        """Put a letter into S3. Returns False if S3 does not take it, or did not take others."""
        # S3 that hangs would use up the time of the run: the next run asks it again.
        if self._bodies_refused >= MOST_BODIES_REFUSED:
            return False
        key = body_object(self.pipeline, copy)
        try:
            self.s3.put_object(Bucket=self.bucket, Key=key, Body=data)
        except AWS_ERRORS as error:
            self._bodies_refused += 1
            self.note_refusal(refusal(error, "s3", self.bucket))
            return False
        return True

    def _received_letter(
        self, item: Mapping[str, Any], locked_until: float, bodies: Mapping[str, bytes]
    ) -> ReceivedLetter:
        letter, stamp = self._read_letter(item, bodies), _stamp_of(item)
        objects = [str(item[name]) for name in ("object", "edit_object") if name in item]
        # A letter may have gone in with the stamp that it had: no hold was decided.
        is_held = stamp.decision == "HOLD"
        return ReceivedLetter(
            letter,
            _place(key_of_row(item), *objects),
            locked_until,
            str(item["home"]),
            is_rescued=not is_held,
            spared=stamp.spared,
            stamp=stamp if self._is_given_up(item) else None,
            held_by=stamp.rule if is_held else None,
            held_since=stamp.at if is_held else None,
        )

    def _read_letter(self, item: Mapping[str, Any], bodies: Mapping[str, bytes]) -> Letter:
        """The letter of an item, as a person has edited it.

        An edit that cannot be read is an error: the letter as it was must not be sent in its
        place. Neither must one of which only a part is known: it may have been sent before.
        """
        if not is_own_letter(self.pipeline, item):
            self.foreign.add(key_of_row(item))
            raise NotALetter("the item names another message")
        if not isinstance(item["home"], str):
            raise ValueError("a row without a home")
        # Without its stamp nothing says how often it was tried.
        _stamp_of(item)
        name = _body_in_s3(item)
        data = bodies[name] if name is not None else _text_of(item)
        letter, copy = from_json(json.loads(data)), str(item["copy"])
        return letter if letter.message_id == copy else replace(letter, message_id=copy)

    def _is_given_up(self, item: Mapping[str, Any]) -> bool:
        """Whether the schedule is done with an item: only a replay run takes it out."""
        return _is_read_alone(self._lane_name(item["lane"]))

    def _single_items(self, entries: Sequence[WaitingRoomEntry]) -> list[dict[str, Any]]:
        """The items of these entries that are still in the lane of their entry."""
        keys = {entry: _read_place(entry.place)[0] for entry in entries}
        stored = self._table.get_many(self._own_places([*keys.values()]))
        return [
            stored[key]
            for entry, key in keys.items()
            if key in stored and stored[key].get("lane") == self._lane(entry.lane, entry.shard)
        ]

    def _own_places(self, places: Sequence[Key]) -> Sequence[Key]:
        """Those of these keys that waiting letters of the pipeline have; notes the others.

        A place may have come from a row that somebody else wrote.
        """
        return [key for key in places if self._is_own({PARTITION: key[0], SORT: key[1]})]

    def _group_items(
        self, entries: Sequence[WaitingRoomEntry], in_parallel: InParallel | None
    ) -> list[dict[str, Any]]:
        """The items of each group in order, up to the first without an entry.

        That item waits, and a later letter of its group must not overtake it. For a parked
        letter, left over from a replay run, its group does not wait.
        """
        groups = groupby(sorted(entries, key=_partition_of), key=_partition_of)
        reads = [partial(self._front_of, partition, [*group]) for partition, group in groups]
        found = in_parallel(reads) if in_parallel and reads else [read() for read in reads]
        return [item for items in found for item in items]

    def _front_of(
        self, partition: str, entries: Sequence[WaitingRoomEntry]
    ) -> list[dict[str, Any]]:
        """The items of these entries of one group; behind the last of them nothing is read."""
        wanted = {entry.copy for entry in entries}
        lanes = {self._lane(entry.lane, entry.shard) for entry in entries}
        items: list[dict[str, Any]] = []
        stored_items = self._table.stored_items(partition, limit=max(len(wanted), _FRONT))
        for item in filter(self._is_own, map(plain, stored_items)):
            if _copy_of(item) in wanted and item.get("lane") in lanes:
                items.append(item)
                if len(items) == len(wanted):
                    break
            elif not self._is_parked(item):
                break
        return items

    def key(self, received: ReceivedLetter) -> Key:
        """Partition and sort key of a letter's item, whether it is in the room or not."""
        if received.handle.startswith(_PLACE_BEGINS):
            # A letter that a run has left may belong to another queue than its item's key names.
            return _read_place(received.handle)[0]
        letter = received.letter
        if self.fifo and letter.group is not None:
            # Sequence numbers are comparable within one queue only: `home` is in the partition.
            sequence = letter.system.get("SequenceNumber", "").zfill(32)
            partition = self._group_partition(letter.group, received.home)
            return (partition, f"{sequence}#{letter.message_id}")
        return (Partition.LETTER.of(self.pipeline, letter.message_id), NO_GROUP)

    def _group_partition(self, group: str, home: str) -> str:
        digest = hashlib.sha256(group.encode()).hexdigest()[:32]
        return Partition.GROUP.of(self.pipeline, home, digest)


def _body_in_s3(item: Mapping[str, Any]) -> str | None:
    """The name under which an item's letter is in S3, as a person has edited it; None if it is
    in the item.
    """
    for inline, in_s3 in (("edit", "edit_object"), ("message", "object")):
        if inline in item or in_s3 in item:
            return None if inline in item else str(item[in_s3])
    return None


def _text_of(item: Mapping[str, Any]) -> bytes:
    """The letter that is in the item itself, as a person has edited it."""
    return bytes(item["edit"] if "edit" in item else item["message"])


def _parts_in_memory(items: Sequence[Mapping[str, Any]]) -> Iterator[Sequence[Mapping[str, Any]]]:
    """The items in runs with at most MOST_BODIES whose letters are in S3."""
    part: list[Mapping[str, Any]] = []
    large = 0
    for item in items:
        is_large = _body_in_s3(item) is not None
        if is_large and large == MOST_BODIES:
            yield part
            part, large = [], 0
        part.append(item)
        large += is_large
    if part:
        yield part


def _inline(item: Mapping[str, Any]) -> Letter | None:
    """The letter in an item; None if it is in S3, or malformed."""
    return readable(lambda item: from_json(json.loads(bytes(item["message"]))), item, None)


def _is_read_alone(lane: str) -> bool:
    """Whether letters of a lane are read one by one on FIFO too: the manifest has the order."""
    return is_of_run(lane) or lane == PARKED_LANE


def _due(order: Order) -> int:
    """When a letter is due; no time opens the lane of a replay run, whatever the hold says."""
    hold = order.hold
    return int(never(order.received.letter) if is_of_run(hold.lane) else hold.due)


def _too_large(order: Order) -> bytes | None:
    """The letter as S3 stores it, or None if it fits into its item."""
    data = compact_json(to_json(order.received.letter))
    return data if len(data) > INLINE_BYTES else None


def _partition_of(entry: WaitingRoomEntry) -> str:
    return entry.group or ""


def _copy_of(item: Mapping[str, Any]) -> str:
    return str(item[SORT] if item[SORT] != NO_GROUP else item[PARTITION]).rpartition("#")[2]


_PLACE_BEGINS = "["
"""A place is a JSON list, which no receipt handle of SQS is."""


def _place(key: Key, *objects: str) -> str:
    """The item's key and the names of its objects in S3, as one text."""
    return json.dumps([*key, *objects])


def _read_place(place: str) -> tuple[Key, Sequence[str]]:
    """The item's key, and the names of its objects."""
    partition, sort, *objects = json.loads(place)
    return (partition, sort), objects


def _is_return(order: Order) -> bool:
    """Whether a letter comes back to the replay run that sent it."""
    stamp = order.stamp
    has_ticket = stamp.run is not None and stamp.ticket is not None
    return has_ticket and order.hold.lane == run_lane(str(stamp.run))


def _review_text(review: LaneReview) -> str:
    """The text of a review in the row of its lane; `_review_of` reads it."""
    reached = {shard: [entry.place, entry.due] for shard, entry in review.reached.items()}
    return json.dumps({**asdict(review), "finished": sorted(review.finished), "reached": reached})


def _paid_text(paid: LanePaid) -> str:
    return json.dumps([*map(float, (paid.saved, paid.quick))])


def _paid_of(item: Mapping[str, Any]) -> LanePaid | None:
    """What a lane has paid by its row; what is malformed counts as never written."""
    return readable(_paid_in, item, None)


def _paid_in(item: Mapping[str, Any]) -> LanePaid | None:
    saved, quick = map(float, json.loads(str(item["paid"])))
    is_plausible = all(abs(moment) < END_OF_TIME for moment in (saved, quick))
    return LanePaid(saved, quick) if is_plausible else None


def _review_of(item: Mapping[str, Any]) -> LaneReview:
    """The review in a lane's row; with a malformed one the lane is reviewed anew."""
    return readable(_review_in, item, NOT_REVIEWED)


def _review_in(item: Mapping[str, Any]) -> LaneReview:
    lane, data = str(item[SORT]), json.loads(str(item["review"]))
    pipeline = str(item[PARTITION]).removesuffix(Partition.LANES.of(""))
    reached = {
        int(shard): WaitingRoomEntry("", str(place), lane, int(shard), float(due))
        for shard, (place, due) in data.pop("reached").items()
    }
    for entry in reached.values():
        # The next look at the index begins behind it.
        key = _read_place(entry.place)[0]
        if waiting_copy(pipeline, key) is None or not abs(entry.due) <= FOREVER:
            return NOT_REVIEWED
    return LaneReview(
        edition=str(data["edition"]),
        since=float(data["since"]),
        began=float(data["began"]),
        finished=frozenset(map(int, data["finished"])),
        reached=reached,
        is_done=data["is_done"] is True,
        at=float(data["at"]),
    )


def _look_of(item: Mapping[str, Any]) -> LaneLook | None:
    """What `note_look` has written; None if it is not readable, and a run looks again."""
    return readable(_look_in, item, None)


def _look_in(item: Mapping[str, Any]) -> LaneLook:
    at, first_due = json.loads(item["look"])
    return LaneLook(float(at), math.inf if first_due is None else float(first_due))


def _is_bad_lane(item: Mapping[str, Any]) -> bool:
    """Whether a lane's row has an attribute that is not as runs write it."""
    return (
        ("review" in item and _review_of(item) == NOT_REVIEWED)
        or ("paid" in item and _paid_of(item) is None)
        or ("look" in item and _look_of(item) is None)
        or _touched(item) == math.inf
    )


def _stamp_of(item: Mapping[str, Any]) -> Stamp:
    """The stamp that a letter waits with. Raises ValueError without one."""
    stamp = stamps.parse(str(item.get("stamp", "")))
    if stamp is None:
        raise ValueError("a row without a stamp")
    return stamp


def _touched(item: Mapping[str, Any]) -> float:
    """When a letter was last put into a lane; a malformed time keeps the lane in the list."""
    touched = number_in({"touched": 0, **item}, "touched")
    return math.inf if touched is None or touched < 0 else touched
