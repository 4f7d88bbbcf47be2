"""The waiting room in DynamoDB, with bodies too large for an item in S3."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import groupby
from typing import TYPE_CHECKING, Any

from deadletter.aws.errors import AWS_ERRORS, code, condition_failed
from deadletter.aws.table import PARTITION, SORT, Key, StillUnprocessed, Table, parts
from deadletter.contract import LANES, Partition, body_object, lane_partition
from deadletter.message import stamp as stamps
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import NotALetter, compact_json, from_json, to_json
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import (
    INLINE_BYTES,
    SHARDS,
    Lane,
    RoomContents,
    RoomUnavailable,
    Wait,
    WaitingRoomEntry,
    shard_of,
)

if TYPE_CHECKING:
    from mypy_boto3_dynamodb import DynamoDBClient
    from mypy_boto3_s3 import S3Client

_ERRORS = (*AWS_ERRORS, StillUnprocessed)
# Who may not list a bucket is refused a key that is not there.
_GONE = frozenset({"NoSuchKey", "AccessDenied"})
_LONE = "letter"
"""Sort key of a letter that belongs to no FIFO group."""


class DynamoDBLanes:
    """The lanes of one pipeline's waiting room, and how many letters wait in each.

    `lanes` of the index are `<pipeline>|<lane>|<shard>`.
    """

    def __init__(self, dynamodb: DynamoDBClient, table: str, pipeline: str) -> None:
        self._table = Table(dynamodb, table)
        self._pipeline = pipeline

    def lanes(self) -> Sequence[Lane]:
        try:
            items = self._table.query("pk = :p", {":p": Partition.LANES.of(self._pipeline)})
        except _ERRORS as error:
            raise RoomUnavailable from error
        return [Lane(item[SORT], float(item.get("touched", 0))) for item in items]

    def count(self, lane: str) -> int:
        """Letters in a lane, over all its shards; the index may lag by seconds."""
        try:
            return sum(
                self._table.count(
                    "lane = :lane", {":lane": self._lane(lane, shard)}, IndexName=LANES.name
                )
                for shard in range(SHARDS)
            )
        except _ERRORS as error:
            raise RoomUnavailable from error

    def _lane(self, lane: str, shard: int) -> str:
        return lane_partition(self._pipeline, lane, shard)

    def _lane_name(self, stored: str) -> str:
        return stored.removeprefix(lane_partition(self._pipeline, "")).rpartition("|")[0]


class DynamoDBWaitingRoom(DynamoDBLanes):
    """The waiting room of one pipeline.

    A letter's item is keyed by its copy's id, on FIFO by its group and then by its
    place in the queue, so that a group is read in order and consistently. `lanes` of
    the index are `<pipeline>|<lane>|<shard>`.
    """

    def __init__(
        self,
        *,
        dynamodb: DynamoDBClient,
        table: str,
        s3: S3Client,
        bucket: str,
        pipeline: str,
        fifo: bool,
        clock: Callable[[], float],
    ) -> None:
        super().__init__(dynamodb, table, pipeline)
        self._s3 = s3
        self._bucket = bucket
        self._fifo = fifo
        self._clock = clock
        self._registered: set[str] = set()

    def retire(self, lane: Lane) -> None:
        try:
            self._table.delete(
                (Partition.LANES.of(self._pipeline), lane.name),
                "touched = :touched",
                {":touched": int(lane.touched)},
            )
        except AWS_ERRORS as error:
            if not condition_failed(error):
                raise RoomUnavailable from error

    def admit(self, orders: Sequence[Order]) -> Mapping[str, Confirmation]:
        try:
            # A lane that nobody knows of is never looked into: it is named first.
            for lane in sorted({order.hold.lane for order in orders}):
                self._register(lane)
        except _ERRORS as error:
            raise RoomUnavailable from error
        safe: dict[str, Confirmation] = {}
        stopped: set[str | None] = set()
        # Of a batch DynamoDB may store any part: a FIFO group goes in one by one.
        for part in parts(orders, 1 if self._fifo else 25):
            going = [one for one in part if self._group_of(one) not in stopped]
            items = {one: item for one in going if (item := self._kept(one)) is not None}
            stopped |= {self._group_of(one) for one in going if one not in items} - {None}
            try:
                self._table.write_many(puts=list(items.values()))
            except _ERRORS:
                stopped |= {self._group_of(one) for one in items} - {None}
                continue
            for one in items:
                copy = one.received.letter.message_id
                safe[copy] = Confirmation(copy, "waiting room")
        return safe

    def _group_of(self, one: Order) -> str | None:
        return one.received.letter.group if self._fifo else None

    def _kept(self, one: Order) -> dict[str, Any] | None:
        """The letter's item, its body safe in S3 if it is large; None if it could not be."""
        try:
            return self._item(one)
        except AWS_ERRORS:
            return None

    def find(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Confirmation]:
        keys = {one.letter.message_id: self._key(one) for one in letters}
        try:
            found = self._table.get_many(list(keys.values()))
        except _ERRORS as error:
            raise RoomUnavailable from error
        return {
            copy: Confirmation(copy, "waiting room") for copy, key in keys.items() if key in found
        }

    def due(self, lane: str, shard: int, until: float, most: int) -> Sequence[WaitingRoomEntry]:
        try:
            items = self._table.query(
                "lane = :lane AND due <= :until",
                {":lane": self._lane(lane, shard), ":until": int(until)},
                IndexName=LANES.name,
                Limit=most,
            )
        except _ERRORS as error:
            raise RoomUnavailable from error
        return [
            WaitingRoomEntry(
                copy=_copy_of(item),
                place=_place((item[PARTITION], item[SORT])),
                lane=lane,
                shard=shard,
                due=float(item["due"]),
                group=item[PARTITION] if self._fifo else None,
            )
            for item in items
        ]

    def read(self, seats: Sequence[WaitingRoomEntry], locked_until: float) -> RoomContents:
        try:
            items = self._read_groups(seats) if self._fifo else self._read_lone(seats)
            letters = []
            broken: set[str] = set()
            for item in items:
                partition = item[PARTITION]
                if self._fifo and partition in broken:
                    continue
                taken = self._taken(item, locked_until)
                if taken is None:
                    broken.add(partition)
                else:
                    letters.append(taken)
            return RoomContents(letters, len(broken))
        except _ERRORS as error:
            raise RoomUnavailable from error

    def postpone(self, order: Order) -> None:
        key, _ = _read_place(order.received.handle)
        hold = order.hold
        try:
            self._register(hold.lane)
            self._table.change(
                key,
                {
                    "lane": self._lane(hold.lane, shard_of(order.received.letter, self._fifo)),
                    "due": int(hold.due),
                    "stamp": stamps.attribute(order.stamp).value,
                    "because": hold.because,
                },
                condition="attribute_exists(pk)",
            )
        except _ERRORS as error:
            raise RoomUnavailable from error

    def waits(self, groups: Collection[str], home: str) -> Mapping[str, Wait]:
        waiting: dict[str, Wait] = {}
        try:
            for group in groups:
                items = self._table.query(
                    "pk = :group",
                    {":group": self._group(group, home)},
                    ConsistentRead=True,
                    ScanIndexForward=False,
                    Limit=1,
                )
                for item in items:
                    waiting[group] = Wait(self._lane_name(item["lane"]), float(item["due"]))
        except _ERRORS as error:
            raise RoomUnavailable from error
        return waiting

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> Sequence[ReceivedLetter]:
        left: list[ReceivedLetter] = []
        for taken, proof in letters:
            if proof.copy != taken.letter.message_id:
                raise ValueError("this proof is another letter's")
        for part in parts([taken for taken, _ in letters], 25):
            places = [_read_place(one.handle) for one in part]
            try:
                self._table.write_many(deletes=[key for key, _ in places])
            except _ERRORS:
                left.extend(part)
                continue
            for _, object_key in places:
                if object_key is not None:
                    self._forget(object_key)
        return left

    def _fetch(self, object_key: str) -> bytes:
        """The body in S3; raises KeyError if it is gone."""
        try:
            answer = self._s3.get_object(Bucket=self._bucket, Key=object_key)
        except AWS_ERRORS as error:
            if code(error) in _GONE:
                raise KeyError(object_key) from error
            raise
        return answer["Body"].read()

    def _forget(self, object_key: str) -> None:
        try:
            self._s3.delete_object(Bucket=self._bucket, Key=object_key)
        except AWS_ERRORS:
            # Nothing names the object any more; the bucket's lifecycle takes it.
            return

    def _register(self, lane: str) -> None:
        if lane in self._registered:
            return
        self._table.change(
            (Partition.LANES.of(self._pipeline), lane), {"touched": int(self._clock())}
        )
        self._registered.add(lane)

    def _item(self, one: Order) -> dict[str, Any]:
        letter = one.received.letter
        partition, sort = self._key(one.received)
        item: dict[str, Any] = {
            PARTITION: partition,
            SORT: sort,
            "copy": letter.message_id,
            "lane": self._lane(one.hold.lane, shard_of(letter, self._fifo)),
            "due": int(one.hold.due),
            "home": one.received.home,
            "stamp": stamps.attribute(one.stamp).value,
            "because": one.hold.because,
        }
        data = compact_json(to_json(letter))
        if len(data) <= INLINE_BYTES:
            return {**item, "letter": data}
        object_key = body_object(self._pipeline, letter.message_id)
        self._s3.put_object(Bucket=self._bucket, Key=object_key, Body=data)
        return {**item, "object": object_key}

    def _taken(self, item: Mapping[str, Any], locked_until: float) -> ReceivedLetter | None:
        """The letter of an item; None if it is not there whole, which is not what we wrote."""
        object_key = item.get("object")
        try:
            data = bytes(item["letter"]) if object_key is None else self._fetch(object_key)
            letter = from_json(json.loads(data))
        except (KeyError, TypeError, ValueError, NotALetter):
            return None
        key = (item[PARTITION], item[SORT])
        return ReceivedLetter(letter, _place(key, object_key), locked_until, str(item.get("home")))

    def _read_lone(self, seats: Sequence[WaitingRoomEntry]) -> list[dict[str, Any]]:
        found = self._table.get_many([_read_place(one.place)[0] for one in seats])
        items = []
        for seat in seats:
            item = found.get(_read_place(seat.place)[0])
            if item is not None and item["lane"] == self._lane(seat.lane, seat.shard):
                items.append(item)
        return items

    def _read_groups(self, seats: Sequence[WaitingRoomEntry]) -> list[dict[str, Any]]:
        """Of each group its letters in order, up to the first that has no seat: it comes first."""
        wanted = {one.copy for one in seats}
        items: list[dict[str, Any]] = []
        for partition, group in groupby(sorted(seats, key=_group_of), key=_group_of):
            lanes = {self._lane(one.lane, one.shard) for one in group}
            for item in self._table.query("pk = :g", {":g": partition}, ConsistentRead=True):
                if item["copy"] not in wanted or item["lane"] not in lanes:
                    break
                items.append(item)
        return items

    def _key(self, taken: ReceivedLetter) -> Key:
        letter = taken.letter
        if self._fifo and letter.group is not None:
            # A sequence number orders the messages of one queue only.
            place = letter.system.get("SequenceNumber", "").zfill(32)
            return (self._group(letter.group, taken.home), f"{place}#{letter.message_id}")
        return (Partition.LETTER.of(self._pipeline, letter.message_id), _LONE)

    def _group(self, group: str, home: str) -> str:
        digest = hashlib.sha256(group.encode()).hexdigest()[:32]
        return Partition.GROUP.of(self._pipeline, home, digest)


def _group_of(seat: WaitingRoomEntry) -> str:
    return seat.group or ""


def _copy_of(item: Mapping[str, Any]) -> str:
    return str(item[SORT] if item[SORT] != _LONE else item[PARTITION]).rpartition("#")[2]


def _place(key: Key, object_key: str | None = None) -> str:
    return json.dumps([*key, object_key])


def _read_place(place: str) -> tuple[Key, str | None]:
    partition, sort, object_key = json.loads(place)
    return (partition, sort), object_key
