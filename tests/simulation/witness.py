"""Sees every call that took effect, and says at once when a promise is broken.

The promises: every message is in a durable place or processed; a copy whose send is
marked is not sent again; nothing is sent under a lock that has ended; attempts never go
back and never pass the maximum; a letter arrives whole; a FIFO group keeps its order;
automation leaves a parked letter parked, as it was parked, and an isolated one to the runs of
its own DLQ.
"""

from __future__ import annotations

import json
import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from botocore.exceptions import ClientError

from deadletter.contract import PARKED_LANE, dedicated_lane
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, from_json
from deadletter.redrive.journal import GRACE, key_of
from deadletter.testing.fakes import MemoryDynamoDB, MemoryS3, MemorySqs
from tests.simulation.effects import Broken as Broken
from tests.simulation.effects import Effects
from tests.simulation.scheduler import Process, Scheduler
from tests.tables import BUCKET, LETTERS

_PLAN_BYTES = 18

FORGED = "forged-origin"
"""The origin that forged stamps name."""


# What a process has read of a copy in the journal.
SENT, BUSY, UNKNOWN = "sent", "busy", "unknown"


class Entry(dict[str, Any]):
    """An entry of a send that remembers which copy it continues: no message says so."""

    continues: str = ""


@dataclass(frozen=True, slots=True)
class Held:
    """One copy in the hands of a process: what it carried, and when the process took it."""

    copy: str
    origin: str
    attempt: int
    sequence: str
    locked_until: float
    faults: int
    taken_at: float
    from_room: bool
    lane: str = ""


@dataclass(frozen=True, slots=True)
class Send:
    """One copy that was sent on by a process which had so many faults when it took it."""

    process: Process
    faults: int


@dataclass(slots=True)
class Message:
    """What is known of one message that a producer, or a person, sent."""

    body: str
    attributes: Mapping[str, Any]
    origins: set[str]
    done: bool = False


def uid_of(body: str) -> str:
    """The name that the simulation gives each message, found in any body, readable or not."""
    return body.split("~", 2)[1]


class Witness:
    """Keeps book of the whole world beside the system that is being tested."""

    def __init__(
        self,
        scheduler: Scheduler,
        sqs: MemorySqs,
        dynamodb: MemoryDynamoDB,
        s3: MemoryS3,
        *,
        main: str,
        dlq: str,
        parking: str,
        max_attempts: int,
        fifo: bool,
        keyed: bool,
    ) -> None:
        self._scheduler = scheduler
        self._sqs = sqs
        self._dynamodb = dynamodb
        self._s3 = s3
        self._main = main
        self._dlq = dlq
        self._parking = parking
        self._max_attempts = max_attempts
        self._fifo = fifo
        self.effects = Effects(scheduler, dynamodb, keyed=keyed)
        self.messages: dict[str, Message] = {}
        self.sends: defaultdict[str, list[Send]] = defaultdict(list)
        self.marked: dict[bool, dict[bytes, float]] = {False: {}, True: {}}
        self.revived: set[str] = set()
        self._last_of_group: dict[str, str] = {}
        self._attempts: dict[str, int] = {}
        self.suspected: set[bytes] = set()
        self._late: set[str] = set()
        self.duplicates = 0
        self.rescued: Counter[str] = Counter()
        scheduler.before_call = self._before
        scheduler.after_call = self._after

    def produced(self, uid: str, message_id: str, body: str, attributes: Mapping[str, Any]) -> None:
        """A producer's send was confirmed, or a person's."""
        known = self.messages.get(uid)
        if known is None:
            self.messages[uid] = Message(body, dict(attributes), {message_id})
        else:
            known.origins.add(message_id)

    def processed(self, uid: str) -> None:
        """A handler has had its effect, or reported that it has nothing to do."""
        self.messages[uid].done = True

    # What a process intends: seen when the call begins, before any pause.

    def _before(
        self, process: Process, service: str, name: str, options: Mapping[str, Any]
    ) -> None:
        if service == "sqs" and name == "send_message_batch" and process.holds:
            for entry in options["Entries"]:
                self._intended(process, entry)

    def _intended(self, process: Process, entry: Entry) -> None:
        uid = uid_of(entry["MessageBody"])
        held = self._held(process, entry)
        if held is None:
            raise Broken(f"{process.name} sends {uid} without having taken it")
        copy = held.copy
        if held.lane == PARKED_LANE:
            raise Broken(f"{process.name} sends {uid}, which is parked")
        if held.lane.startswith(dedicated_lane("")) and "slow" not in process.name:
            raise Broken(f"{process.name} sends {uid}, which is isolated")
        if self._scheduler.now >= held.locked_until:
            raise Broken(f"{process.name} sends {uid} after its lock has ended")
        read = process.journal.get((key_of(copy), True)) or (
            None if held.from_room else process.journal.get((key_of(copy), False))
        )
        if read is SENT:
            raise Broken(f"{process.name} sends {uid} though it has read the mark")
        if read is BUSY:
            raise Broken(f"{process.name} sends {uid} though it has read that another does")
        if copy in self.revived:
            return
        if not held.from_room and process.looked_at < held.taken_at:
            raise Broken(f"{process.name} sends {uid} and has not looked into the journal since")
        # A mark that comes after the look is one that somebody wrote long after his lock.
        # A letter that was put into the room is marked too: there it may still be sent.
        marks = (self.marked[True],) if held.from_room else self.marked.values()
        if any(mark.get(key_of(copy), math.inf) <= process.looked_at for mark in marks):
            raise Broken(f"{process.name} sends {uid} though its copy is marked as sent")
        if held.from_room and copy in self._late:
            # Put into the room by a process that was held up past its lock in the very
            # call: by then another may have sent it.
            return
        for earlier in self.sends[copy]:
            if earlier.process.faults == earlier.faults:
                raise Broken(f"{process.name} sends {uid} again, and no fault explains it")
            if earlier.process is not process and key_of(copy) not in self.suspected:
                raise Broken(f"{process.name} sends {uid} again and does not know it")

    def _held(self, process: Process, entry: Entry) -> Held | None:
        """The copy that an entry continues, as the process took it last."""
        candidates: list[Held] = process.holds.get(uid_of(entry["MessageBody"]), [])
        return next(
            (candidate for candidate in reversed(candidates) if candidate.copy == entry.continues),
            None,
        )

    # What took effect.

    def _after(
        self,
        process: Process,
        service: str,
        name: str,
        options: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        if service == "sqs":
            if name == "receive_message":
                self._taken(process, options, answer)
            elif name == "send_message_batch":
                self._sent(process, options, answer)
            elif name == "delete_message_batch":
                self.check_conservation()
        elif service == "dynamodb":
            if name in ("batch_get_item", "query"):
                self._read_from_room(process, answer)
                self._read_from_journal(process, options, answer)
            elif name in ("update_item", "put_item"):
                self._journaled(options)
                self.effects.claimed(process, name, options)
            elif name in ("batch_write_item", "delete_item"):
                self._put_into_room(process, options)
                self.effects.claimed(process, name, options)
                self.check_conservation()
        elif name in ("delete_object", "delete_objects"):
            self.check_conservation()

    def _taken(
        self, process: Process, options: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        lock = options.get("VisibilityTimeout", 30)
        for message in answer.get("Messages", ()):
            uid = uid_of(message["Body"])
            carried = _stamp_of(message.get("MessageAttributes", {}))
            if carried is not None and carried.origin == FORGED:
                carried = None
            held = Held(
                copy=message["MessageId"],
                origin=carried.origin if carried else message["MessageId"],
                attempt=carried.attempt if carried else 0,
                sequence=message["Attributes"].get("SequenceNumber", "")
                if options["QueueUrl"] == self._dlq
                else "",
                locked_until=self._scheduler.now + lock,
                faults=process.faults,
                taken_at=self._scheduler.now,
                from_room=False,
                lane=PARKED_LANE if options["QueueUrl"] == self._parking else "",
            )
            process.holds.setdefault(uid, []).append(held)

    def _read_from_room(self, process: Process, answer: Mapping[str, Any]) -> None:
        found = answer.get("Items") or answer.get("Responses", {}).get(LETTERS, ())
        for item in found:
            if "copy" in item and ("letter" in item or "object" in item):
                uid = uid_of(self._letter_of(item))
                # In the room the claim is the lock; its end stands in the intent.
                mark = stamps.parse(item["stamp"]["S"])
                assert mark is not None
                held = Held(
                    copy=item["copy"]["S"],
                    origin=mark.origin,
                    attempt=mark.attempt,
                    sequence=item["sk"]["S"].partition("#")[0][-20:]
                    if item["home"]["S"] == "dlq"
                    else "",
                    locked_until=float("inf"),
                    faults=process.faults,
                    taken_at=self._scheduler.now,
                    from_room=True,
                    lane=_lane_of(item),
                )
                process.holds.setdefault(uid, []).append(held)

    def _put_into_room(self, process: Process, options: Mapping[str, Any]) -> None:
        for request in options.get("RequestItems", {}).get(LETTERS, ()):
            item = request.get("PutRequest", {}).get("Item", {})
            if "copy" in item:
                held = process.holds[uid_of(self._letter_of(item))][-1]
                self.rescued[_lane_of(item)] += "rescue" in process.name
                if PARKED_LANE in (held.lane, _lane_of(item)) and held.lane != _lane_of(item):
                    raise Broken(f"{process.name} moves parked letters out, or others in")
                if self._scheduler.now >= held.locked_until:
                    self._late.add(item["copy"]["S"])

    def _read_from_journal(
        self, process: Process, options: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """What a process has learnt of intents, and when it looked."""
        partition = options.get("ExpressionAttributeValues", {}).get(":p", {}).get("S", "")
        if not partition.endswith("#journal"):
            return
        process.looked_at = self._scheduler.now
        now = self._scheduler.now + process.skew
        for item in answer.get("Items", ()):
            if "plans" not in item:
                continue
            expired = now >= float(item["expires"]["N"]) + GRACE
            of_room = item["sk"]["S"].startswith("room:")
            sent = int.from_bytes(item["sent"]["B"], "little")
            for position, key in enumerate(_keys(item["plans"]["B"])):
                state = UNKNOWN if expired else BUSY
                process.journal[key, of_room] = SENT if sent >> position & 1 else state
                if expired:
                    self.suspected.add(key)

    def _sent(
        self, process: Process, options: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        entries = {entry["Id"]: entry for entry in options["Entries"]}
        for success in answer.get("Successful", ()):
            entry = entries[success["Id"]]
            if process.name.startswith("consumer"):
                mark = _stamp_of(entry["MessageAttributes"])
                self.effects.parked(process, entry.continues, mark)
                continue
            uid = uid_of(entry["MessageBody"])
            held = self._held(process, entry)
            if held is None:
                continue
            if self.sends[held.copy]:
                self.duplicates += 1
            elif self._fifo and options["QueueUrl"] == self._main and held.sequence:
                self._in_order(process, held, entry["MessageGroupId"])
            self.sends[held.copy].append(Send(process, held.faults))
            if options["QueueUrl"] == self._main:
                self._redriven(process, uid, entry, held.attempt)

    def _in_order(self, process: Process, held: Held, group: str) -> None:
        """Letters of a group that go back to the main queue do so in the order they died in."""
        if held.sequence < self._last_of_group.get(group, ""):
            raise Broken(f"{process.name} sends {held.copy} after a later one of its group")
        self._last_of_group[group] = held.sequence

    def _redriven(self, process: Process, uid: str, entry: Mapping[str, Any], carried: int) -> None:
        attribute = entry["MessageAttributes"].get(stamps.NAME)
        if attribute is None:
            return
        mark = stamps.parse(attribute["StringValue"])
        message = self.messages[uid]
        if mark is None or mark.origin not in message.origins:
            raise Broken(f"{process.name} sends {uid} under another key")
        if mark.attempt > self._max_attempts:
            raise Broken(f"{process.name} sends {uid} as attempt {mark.attempt}")
        # Of a copy that is behind the others the ledger knows that it is.
        latest = max(carried, self._attempts.get(mark.origin, 0))
        if not carried < mark.attempt <= latest + 1 and "ten" not in uid:
            raise Broken(f"{process.name} sends {uid} as attempt {mark.attempt} after {carried}")
        self._attempts[mark.origin] = max(latest, mark.attempt)

    def _journaled(self, options: Mapping[str, Any]) -> None:
        key = options.get("Key") or options.get("Item") or {}
        if not key.get("pk", {}).get("S", "").endswith("#journal"):
            return
        place = {"pk": key["pk"], "sk": key["sk"]}
        item = self._dynamodb.get_item(TableName=LETTERS, Key=place).get("Item")
        if item is None:
            return
        sent = int.from_bytes(item["sent"]["B"], "little")
        of_room = item["sk"]["S"].startswith("room:")
        for position, copy in enumerate(_keys(item["plans"]["B"])):
            if sent >> position & 1:
                self.marked[of_room].setdefault(copy, self._scheduler.now)

    # The promises that hold at every moment, and at the end.

    def _letter_of(self, item: Mapping[str, Any]) -> str:
        return str(self._letter_data(item)["body"])

    def _letter_data(self, item: Mapping[str, Any]) -> dict[str, Any]:
        if "letter" in item:
            data = item["letter"]["B"]
        else:
            try:
                answer = self._s3.get_object(Bucket=BUCKET, Key=item["object"]["S"])
            except ClientError as error:
                raise Broken(f"the body of {item['copy']['S']} is gone") from error
            data = answer["Body"].read()
        letter: dict[str, Any] = json.loads(data)
        return letter

    def in_room(self) -> set[str]:
        """The messages in the waiting room, each with its whole letter."""
        return {
            uid_of(self._letter_of(item))
            for item in self._dynamodb.items(LETTERS)
            if "copy" in item
        }

    def lanes(self) -> set[str]:
        """The lanes of the waiting room that have letters in them."""
        return {_lane_of(item) for item in self._dynamodb.items(LETTERS) if "copy" in item}

    def check_conservation(self) -> None:
        """Every message that is not processed is in at least one durable place."""
        missing = {uid for uid, message in self.messages.items() if not message.done}
        for letter in self._sqs.snapshot():
            missing.discard(uid_of(letter.body))
            if not missing:
                return
        missing -= self.in_room()
        if missing:
            raise Broken(f"lost: {sorted(missing)}")

    def check_whole(self) -> None:
        """Every message is, our stamp aside, byte for byte what was sent; in the room too."""
        for letter in self._sqs.snapshot():
            self._check_letter(letter.body, letter.attributes)
        for item in self._dynamodb.items(LETTERS):
            if "copy" not in item:
                continue
            kept = from_json(self._letter_data(item))
            attributes = {name: _api_value(value) for name, value in kept.attributes.items()}
            self._check_letter(kept.body, attributes)
            carried = _stamp_of(attributes)
            if carried not in (None, stamps.parse(item["stamp"]["S"])):
                raise Broken(f"the stamp of {uid_of(kept.body)} has changed where it is parked")

    def _check_letter(self, body: str, attributes: Mapping[str, Any]) -> None:
        uid = uid_of(body)
        message = self.messages.get(uid)
        if message is None or body != message.body:
            raise Broken(f"the body of {uid} has changed")
        theirs = {k: v for k, v in attributes.items() if k != stamps.NAME}
        sent = {k: v for k, v in message.attributes.items() if k != stamps.NAME}
        if theirs != sent and not (len(message.origins) > 1 and not theirs):
            raise Broken(f"the attributes of {uid} have changed")


def _keys(packed: bytes) -> list[bytes]:
    """The keys of the copies that an intent names, in order."""
    return [bytes(packed[at : at + 16]) for at in range(0, len(packed), _PLAN_BYTES)]


def _lane_of(item: Mapping[str, Any]) -> str:
    """The lane of a letter's item, whose key in the index is `<pipeline>|<lane>|<shard>`."""
    return str(item["lane"]["S"]).partition("|")[2].rpartition("|")[0]


def _api_value(attribute: Attribute) -> Mapping[str, Any]:
    kind = "BinaryValue" if isinstance(attribute.value, bytes) else "StringValue"
    return {"DataType": attribute.data_type, kind: attribute.value}


def _stamp_of(attributes: Mapping[str, Any]) -> stamps.Stamp | None:
    """The stamp that a letter carries, believed as it is."""
    if stamps.NAME not in attributes:
        return None
    return stamps.parse(attributes[stamps.NAME]["StringValue"])
