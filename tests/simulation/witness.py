"""Sees every call that took effect, and says at once when a promise is broken.

The promises: every message is in a durable place or processed; a copy whose send is
marked is not sent again; nothing is sent under a lock that has ended; attempts never go
back and never pass the maximum; a letter arrives whole; a FIFO group keeps its order;
automation leaves a parked letter parked, as it was parked, and an isolated one to the runs of
its own DLQ.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from deadletter.contract import PARKED_LANE, dedicated_lane
from deadletter.failure.fate import GIVEN_BACK
from deadletter.message import stamp as stamps
from deadletter.message.letter import Attribute, from_json
from deadletter.redrive.journal import GRACE, key_of
from deadletter.signals.figures import Figure
from deadletter.testing.fakes import MemoryDynamoDB, MemoryS3, MemorySqs
from tests.simulation.effects import Broken as Broken
from tests.simulation.effects import Effects, wanted
from tests.simulation.scheduler import Process, Scheduler, Strike
from tests.tables import BUCKET, LETTERS

_PLAN_BYTES = 18

FORGED = "forged-origin"
"""The origin that forged stamps name."""


SEND_AND_MARK = 10.0
"""Seconds before its deadline after which a run sends nothing: it could not live to mark it.
Production keeps ten from the end of a lock, which is asked for in whole seconds, rounded down."""


# Why a copy may be delivered once more.
CAUSES = LOST_ANSWER, KILLED, NEITHER, HELD_UP = (
    "its send had no answer",
    "its process was killed before the mark",
    "neither the mark nor the delete succeeded",
    "its process was held up until its intent had ended",
)

# What is counted of a schedule.
EXTRA = "extra deliveries by us"
PUBLISHED = "possible duplicates published"
BY_SQS = "extra deliveries by SQS"


class Entry(dict[str, Any]):
    """An entry of a send that remembers which copy it continues, as its process held it and under
    which chunk, whether the copy was then known as one that may have been sent, and how many
    possible duplicates its process had published before: no message says so."""

    continues: str = ""
    held: Held | None = None
    chunk: Chunk | None = None
    is_in_doubt: bool = False
    published: int = 0


@dataclass(frozen=True, slots=True)
class Held:
    """One copy in the hands of a process: what it carried, and when its lock ends."""

    copy: str
    origin: str
    attempt: int
    sequence: str
    locked_until: float
    from_room: bool
    lane: str = ""


@dataclass(eq=False, slots=True)
class Chunk:
    """The letters of one intent, and what befell their process between their sends and the mark.

    Keys are of copies, as in the journal; the intent ends at `ends`. It takes letters out of the
    waiting room (`of_room`) or out of a queue. A cause explains one more delivery of each copy.
    """

    process: Process
    keys: frozenset[bytes]
    ends: float
    of_room: bool
    is_sending: bool = False
    was_killed: bool = False
    is_mark_struck: bool = False
    unanswered: set[str] = field(default_factory=set)
    marked: set[bytes] = field(default_factory=set)
    spent: set[str] = field(default_factory=set)

    def cause(self, copy: str, now: float) -> str | None:
        """Why a copy that was sent with this chunk may be sent once more by a process on whose
        clock it is `now`; None if it may not."""
        if copy in self.spent or key_of(copy) in self.marked:
            return None
        if copy in self.unanswered:
            return LOST_ANSWER
        if self.was_killed:
            return KILLED
        if self.is_mark_struck and copy in self.process.undeleted:
            return NEITHER
        # A process that is not killed in time may sleep until others take its letters over.
        if self.is_sending and self.process.pauses and now >= self.ends + GRACE:
            return HELD_UP
        return None


@dataclass(frozen=True, slots=True)
class Delivery:
    """One copy that a target queue has accepted.

    `published` are the possible duplicates that its process had counted when it sent it.
    """

    process: Process
    chunk: Chunk
    message_id: str
    published: int = 0


@dataclass(frozen=True, slots=True)
class Reading:
    """What a process has read of one copy in the journal."""

    is_sent: bool
    expires: float
    owner: str


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
        parks_collisions: bool,
        workers: int = 1,
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
        self.effects = Effects(scheduler, dynamodb, keyed=keyed, parks_collisions=parks_collisions)
        self.messages: dict[str, Message] = {}
        self.deliveries: defaultdict[str, list[Delivery]] = defaultdict(list)
        self.revived: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self.rescued: Counter[str] = Counter()
        # The messages in the order in which they were processed first.
        self.order: list[str] = []
        self._workers = workers
        self._is_troubled = False
        self._chunks: dict[tuple[Process, bool, bytes], Chunk] = {}
        self._unmarked: dict[tuple[Process, object], set[str]] = {}
        self._marking: dict[tuple[Process, object], set[str]] = {}
        self._owners: dict[str, Process] = {}
        self._admitted_by: dict[str, Process] = {}
        self._admitted_in_doubt: set[str] = set()
        self._places: dict[tuple[str, str], str] = {}
        self._last_of_group: dict[str, str] = {}
        self._attempts: dict[str, int] = {}
        self._bases: dict[str, int] = {}
        self._untried: set[tuple[str, int]] = set()
        scheduler.before_call = self._before
        scheduler.after_call = self._after
        scheduler.on_answer = self._answered
        scheduler.on_strike = self._struck

    def produced(self, uid: str, message_id: str, body: str, attributes: Mapping[str, Any]) -> None:
        """A producer's send was confirmed, or a person's."""
        known = self.messages.get(uid)
        if known is None:
            self.messages[uid] = Message(body, dict(attributes), {message_id})
        else:
            known.origins.add(message_id)

    def processed(self, uid: str) -> None:
        """A handler has had its effect, or reported that it has nothing to do."""
        if not self.messages[uid].done:
            self.order.append(uid)
        self.messages[uid].done = True

    def published(self, process: Process, metric: str, number: int) -> None:
        """A redriver has counted a metric where it outlives the process."""
        if metric == Figure.POSSIBLE_DUPLICATE and not process.dead:
            process.published += number
            self.counts[PUBLISHED] += number

    # What a process intends: seen when the call begins, before any pause.

    def _before(
        self, process: Process, service: str, name: str, options: Mapping[str, Any]
    ) -> None:
        if process.name.startswith("consumer"):
            return
        if service == "sqs" and name == "send_message_batch":
            if self._scheduler.now > process.ends - SEND_AND_MARK:
                raise Broken(f"{process.name} sends what it cannot live to mark")
            for entry in options["Entries"]:
                self._intended(process, entry)
            return
        worker = (process, self._scheduler.worker())
        self._marking[worker] = unmarked = self._unmarked.pop(worker, set())
        if unmarked and not any(_is_of_journal(key) for key in written(name, options)):
            raise Broken(f"{process.name} does {name} between its sends and their mark")

    def _intended(self, process: Process, entry: Entry) -> None:
        uid = uid_of(entry["MessageBody"])
        copy, key = entry.continues, key_of(entry.continues)
        chunk = process.open.get(self._scheduler.worker())
        if chunk is None or key not in chunk.keys:
            raise Broken(f"{process.name} sends {uid} without an intent")
        held = self._held(process, uid, copy, from_room=chunk.of_room)
        if held is None:
            raise Broken(f"{process.name} sends {uid} without having taken it")
        if held.lane == PARKED_LANE:
            raise Broken(f"{process.name} sends {uid}, which is parked")
        if held.lane.startswith(dedicated_lane("")) and "slow" not in process.name:
            raise Broken(f"{process.name} sends {uid}, which is isolated")
        if self._scheduler.now >= held.locked_until:
            raise Broken(f"{process.name} sends {uid} after its lock has ended")
        reading = process.journal.get((key, True)) or (
            None if held.from_room else process.journal.get((key, False))
        )
        # Where SQS shows a letter twice, another worker may have read the journal since.
        if reading is not None and not (self._workers > 1 and self.revived[copy]):
            self._check_reading(process, uid, reading)
        chunk.is_sending = True
        entry.held, entry.chunk = held, chunk
        entry.is_in_doubt = self._is_in_doubt(process, held)
        entry.published = process.published

    def _check_reading(self, process: Process, uid: str, reading: Reading) -> None:
        if self._owners.get(reading.owner) is process:
            return
        if reading.is_sent:
            raise Broken(f"{process.name} sends {uid} though it has read the mark")
        if self._scheduler.now + process.skew < reading.expires + GRACE:
            raise Broken(f"{process.name} sends {uid} though it has read that another does")

    def _is_in_doubt(self, process: Process, held: Held) -> bool:
        """Whether an intent tells the process, or told who put the letter into the room, that the
        copy may have been sent. Only such a copy is counted."""
        key = key_of(held.copy)
        if held.from_room:
            return (key, True) in process.doubts or held.copy in self._admitted_in_doubt
        return bool({(key, True), (key, False)} & process.doubts)

    def _held(self, process: Process, uid: str, copy: str, *, from_room: bool) -> Held | None:
        """A copy as the process took it last from there: another worker of the process may hold
        the one that still lies in the queue, or the one that is in the room by now."""
        holds: list[Held] = process.holds.get(uid, [])
        return next(
            (held for held in reversed(holds) if (held.copy, held.from_room) == (copy, from_room)),
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
            elif name in ("update_item", "put_item", "transact_write_items"):
                self._journaled(process, name, options)
                self._given_back(options)
                self._postponed(process, options)
                self.effects.claimed(process, name, options)
            elif name in ("batch_write_item", "delete_item"):
                self._journaled(process, name, options)
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
                from_room=False,
                lane=PARKED_LANE if options["QueueUrl"] == self._parking else "",
            )
            process.holds.setdefault(uid, []).append(held)

    def _read_from_room(self, process: Process, answer: Mapping[str, Any]) -> None:
        found = answer.get("Items") or answer.get("Responses", {}).get(LETTERS, ())
        for item in found:
            if "copy" in item and ("message" in item or "object" in item):
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
                    from_room=True,
                    lane=lane_of(item),
                )
                process.holds.setdefault(uid, []).append(held)
                self._places[item["pk"]["S"], item["sk"]["S"]] = held.copy

    def _put_into_room(self, process: Process, options: Mapping[str, Any]) -> None:
        for request in options.get("RequestItems", {}).get(LETTERS, ()):
            item = request.get("PutRequest", {}).get("Item", {})
            if "copy" in item:
                uid, copy = uid_of(self._letter_of(item)), item["copy"]["S"]
                held = self._held(process, uid, copy, from_room=False)
                if held is None:
                    raise Broken(f"{process.name} puts {uid} into the room without having taken it")
                self.rescued[lane_of(item)] += "rescue" in process.name
                self._check_lanes(process, held, lane_of(item))
                self._admitted_by[copy] = process
                if self._is_in_doubt(process, held):
                    self._admitted_in_doubt.add(copy)

    def _postponed(self, process: Process, options: Mapping[str, Any]) -> None:
        """A letter waits on. Its doubt ends with the intent under which it is looked at, so a
        process that knows of it has counted it.
        """
        key = options.get("Key", {})
        copy = self._places.get((key.get("pk", {}).get("S", ""), key.get("sk", {}).get("S", "")))
        if (
            copy is not None
            and "lane" in options.get("Sets", {})
            and (key_of(copy), True) in process.doubts
        ):
            self._admitted_by[copy] = process
            self._admitted_in_doubt.add(copy)

    def _check_lanes(self, process: Process, held: Held, lane: str) -> None:
        if PARKED_LANE in (held.lane, lane) and held.lane != lane:
            raise Broken(f"{process.name} moves parked letters out, or others in")

    def _read_from_journal(
        self, process: Process, options: Mapping[str, Any], answer: Mapping[str, Any]
    ) -> None:
        """What a process has learnt of intents, and when it looked."""
        partition = wanted(options.get("Where")).get("pk", "")
        if not partition.endswith("#journal"):
            return
        if "ExclusiveStartKey" not in options:
            process.journal, process.doubts = {}, set()
        for item in answer.get("Items", ()):
            if "plans" not in item:
                continue
            of_room = item["sk"]["S"].startswith("room:")
            sent = int.from_bytes(item["sent"]["B"], "little")
            expires, owner = float(item["expires"]["N"]), item["own"]["S"]
            for position, key in enumerate(_keys(item["plans"]["B"])):
                reading = Reading(bool(sent >> position & 1), expires, owner)
                self._is_troubled |= self._has_run_out(reading)
                is_over = self._scheduler.now + process.skew >= expires + GRACE
                if is_over and not reading.is_sent:
                    process.doubts.add((key, of_room))
                known = process.journal.get((key, of_room))
                if known is None or not known.is_sent:
                    process.journal[key, of_room] = reading

    def _has_run_out(self, reading: Reading) -> bool:
        """Whether an intent ended unmarked while its process was held up: nothing says whether it
        has sent the letter."""
        owner = self._owners.get(reading.owner)
        is_over = self._scheduler.now >= reading.expires + GRACE
        return is_over and not reading.is_sent and owner is not None and owner.pauses > 0

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
            held = entry.held
            if held is None or entry.chunk is None:
                continue
            deliveries, new_id = self.deliveries[held.copy], success["MessageId"]
            if any(delivery.message_id == new_id for delivery in deliveries):
                # Swallowed by the deduplication of a FIFO queue.
                continue
            self.counts["deliveries"] += 1
            if deliveries:
                self._explain(process, uid, held, entry, deliveries)
            elif self._fifo and options["QueueUrl"] == self._main and held.sequence:
                self._in_order(process, held, entry["MessageGroupId"])
            deliveries.append(Delivery(process, entry.chunk, new_id, entry.published))
            if options["QueueUrl"] == self._main:
                self._redriven(process, uid, entry, held.attempt)

    def _explain(
        self, process: Process, uid: str, held: Held, entry: Entry, before: Sequence[Delivery]
    ) -> None:
        """An extra delivery has a cause of its own, and its own count before it; or it is SQS's.

        A sender that no intent tells of an earlier send has counted another letter: SQS brought
        this one back after its intent had gone, whatever befell the earlier sender by then. If SQS
        explained the delivery before, the cause of an earlier one may still be unspent. A sender
        that slept meanwhile comes second: the process that took over has counted it.
        """
        copy, chunk = held.copy, before[-1].chunk
        now = self._scheduler.now + process.skew
        cause = chunk.cause(copy, now)
        payer, other = self._payers(process, entry, held)
        unspent = [delivery.chunk for delivery in before if delivery.chunk.cause(copy, now)]
        other_sender, counted = before[-1].process, before[-1].published
        slept = entry.chunk.cause(copy, self._scheduler.now)
        if cause is not None and payer is not None and entry.is_in_doubt:
            self._spend(chunk, copy, cause, payer, other)
        elif self.revived[copy] > 0:
            self.revived[copy] -= 1
            self.counts[BY_SQS] += 1
        elif unspent and payer is not None:
            last = unspent[-1]
            self._spend(last, copy, last.cause(copy, now), payer, other)
        elif slept == HELD_UP and other_sender.can_pay(counted):
            self._spend(entry.chunk, copy, slept, other_sender, None)
        elif key_of(copy) in chunk.marked:
            raise Broken(f"{process.name} sends {uid} though its copy is marked as sent")
        elif cause is None:
            raise Broken(f"{process.name} sends {uid} again, and no fault explains it")
        else:
            raise Broken(f"{process.name} sends {uid} again and has not said so before ({cause})")

    def _spend(
        self, chunk: Chunk, copy: str, cause: str | None, payer: Process, other: Process | None
    ) -> None:
        """A cause explains one delivery, and so does a count; `other` could have paid as well."""
        self.counts[EXTRA] += 1
        self.counts[f"  {cause}"] += 1
        chunk.spent.add(copy)
        payer.pay(payer.asked or payer.published)
        if other is not None:
            payer.paid_beside.append(other)

    def _payers(
        self, process: Process, entry: Entry, held: Held
    ) -> tuple[Process | None, Process | None]:
        """Who published the possible duplicate, and who else may have.

        It is the sender, or who put the letter into the room.
        """
        admitter = self._admitted_by.get(held.copy) if held.from_room else None
        if admitter is process:
            admitter = None
        if process.can_pay(entry.published):
            return process, admitter
        if admitter is not None and admitter.can_pay(admitter.published):
            return admitter, process
        return None, None

    def _answered(
        self,
        process: Process,
        service: str,
        name: str,
        options: Mapping[str, Any],
        answer: Mapping[str, Any],
    ) -> None:
        if name != "send_message_batch" or process.name.startswith("consumer"):
            return
        entries = {entry["Id"]: entry for entry in options["Entries"]}
        worker = (process, self._scheduler.worker())
        for success in answer.get("Successful", ()):
            unmarked = self._unmarked.setdefault(worker, set())
            unmarked.add(entries[success["Id"]].continues)

    def _struck(
        self, process: Process, strike: Strike, name: str, options: Mapping[str, Any]
    ) -> None:
        """What a fault explains: the copies whose send, mark or delete it struck."""
        if process.name.startswith("consumer"):
            return
        # An entry that SQS confirms as failed, or that never left, was not sent: nobody need be
        # told of it.
        is_known = strike in (Strike.PARTLY, Strike.NOT_TAKEN)
        self._is_troubled |= not is_known or name != "send_message_batch"
        if strike is Strike.KILLED:
            for chunk in process.open.values():
                chunk.was_killed = chunk.is_sending
        elif name == "send_message_batch":
            if strike is Strike.NO_ANSWER:
                for entry in options["Entries"]:
                    entry.chunk.unanswered.add(entry.continues)
        elif name == "delete_message_batch":
            handles = (entry["ReceiptHandle"] for entry in options["Entries"])
            process.undeleted.update(handle.rpartition(":")[2] for handle in handles)
        else:
            for place in written(name, options):
                if place in self._places:
                    process.undeleted.add(self._places[place])
                elif _is_of_journal(place):
                    chunk = process.open.get(self._scheduler.worker())
                    if chunk is not None and chunk.is_sending:
                        chunk.is_mark_struck = True

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
        self._check_attempts(process, uid, mark)
        # Of a copy that is behind the others the ledger knows that it is.
        latest = max(carried, self._attempts.get(mark.origin, 0))
        if not carried < mark.attempt <= latest + 1 and "ten" not in uid:
            raise Broken(f"{process.name} sends {uid} as attempt {mark.attempt} after {carried}")
        self._attempts[mark.origin] = max(latest, mark.attempt)

    def _check_attempts(self, process: Process, uid: str, mark: stamps.Stamp) -> None:
        if mark.attempts_used > self._max_attempts:
            raise Broken(f"{process.name} sends {uid} as attempt {mark.attempts_used}")
        before = self._bases.get(mark.origin, 0)
        if mark.base > before and (mark.origin, mark.attempt - 1) not in self._untried:
            raise Broken(f"{process.name} counts a life of {uid} that was tried as none")
        self._bases[mark.origin] = max(before, mark.base)

    def _given_back(self, options: Mapping[str, Any]) -> None:
        """A consumer records that it gave a letter back untried: that life uses no attempt."""
        origin = options.get("Key", {}).get("pk", {}).get("S", "").rpartition("#ledger#")[2]
        for failure in options.get("Sets", {}).values():
            if isinstance(failure, Mapping) and failure.get("message") == GIVEN_BACK:
                self._untried.add((origin, int(failure["attempt"])))

    def _journaled(self, process: Process, name: str, options: Mapping[str, Any]) -> None:
        """An intent or a mark was written."""
        for partition, sort in written(name, options):
            if not _is_of_journal((partition, sort)):
                continue
            place = {"pk": {"S": partition}, "sk": {"S": sort}}
            item = self._dynamodb.get_item(TableName=LETTERS, Key=place, ConsistentRead=True)
            if "plans" in item.get("Item", {}):
                self._intent_written(process, item["Item"])

    def _intent_written(self, process: Process, item: Mapping[str, Any]) -> None:
        sent = int.from_bytes(item["sent"]["B"], "little")
        keys = _keys(item["plans"]["B"])
        self._owners.setdefault(item["own"]["S"], process)
        is_standing, of_room = "~" in item["sk"]["S"], item["sk"]["S"].startswith("room:")
        if not sent and not is_standing:
            chunk = Chunk(process, frozenset(keys), float(item["expires"]["N"]), of_room)
            process.open[self._scheduler.worker()] = chunk
            self._chunks.update(((process, of_room, key), chunk) for key in keys)
        marked = {key for position, key in enumerate(keys) if sent >> position & 1}
        for key in marked:
            if (process, of_room, key) in self._chunks:
                self._chunks[process, of_room, key].marked.add(key)
        to_mark = self._marking.pop((process, self._scheduler.worker()), set())
        if not marked.issuperset(map(key_of, to_mark)):
            raise Broken(f"{process.name} marks fewer letters than it has sent")

    # The promises that hold at every moment, and at the end.

    def _letter_of(self, item: Mapping[str, Any]) -> str:
        return str(self._letter_data(item)["body"])

    def _letter_data(self, item: Mapping[str, Any]) -> dict[str, Any]:
        if "message" in item:
            data = item["message"]["B"]
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
        return {self.uid_in(item) for item in self._dynamodb.items(LETTERS) if "copy" in item}

    def uid_in(self, item: Mapping[str, Any]) -> str:
        """The name of the message in an item of the waiting room."""
        return uid_of(self._letter_of(item))

    def longest_group(self) -> int:
        """The letters of the FIFO group that has most, but for those in the parking lot."""
        parking = self._parking.rpartition("/")[2]
        groups = Counter(letter.group for letter in self._sqs.snapshot() if letter.queue != parking)
        groups.update(
            from_json(self._letter_data(item)).group
            for item in self._dynamodb.items(LETTERS)
            if "copy" in item and lane_of(item) != PARKED_LANE
        )
        return max(groups.values(), default=0)

    def places(self) -> dict[str, list[str]]:
        """Where each message is: queues, lanes, and "done" if it was processed."""
        places = {uid: ["done"] * message.done for uid, message in self.messages.items()}
        for letter in self._sqs.snapshot():
            places[uid_of(letter.body)].append(letter.queue)
        for item in self._dynamodb.items(LETTERS):
            if "copy" in item:
                places[self.uid_in(item)].append(lane_of(item))
        return {uid: sorted(found) for uid, found in places.items()}

    def lanes(self) -> set[str]:
        """The lanes of the waiting room that have letters in them."""
        return {lane_of(item) for item in self._dynamodb.items(LETTERS) if "copy" in item}

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

    def check_counts(self) -> None:
        """As many possible duplicates are published as there are, and none without trouble."""
        published = self.counts[PUBLISHED]
        if published < self.counts[EXTRA]:
            raise Broken("more extra deliveries than were published")
        if published and not self._is_troubled and not self.revived:
            raise Broken("possible duplicates are published and nothing has happened")

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
            if not self._is_stamp_kept(item, _stamp_of(attributes)):
                raise Broken(f"the stamp of {uid_of(kept.body)} has changed where it is parked")

    def _is_stamp_kept(self, item: Mapping[str, Any], carried: stamps.Stamp | None) -> bool:
        """Whether a letter in the room has the stamp that it carries."""
        return carried in (None, stamps.parse(item["stamp"]["S"]))

    def _check_letter(self, body: str, attributes: Mapping[str, Any]) -> None:
        uid = uid_of(body)
        message = self.messages.get(uid)
        if message is None or body != message.body:
            raise Broken(f"the body of {uid} has changed")
        sent = message.attributes
        theirs = {k: v for k, v in attributes.items() if k != stamps.NAME}
        if stamps.KEPT_NAME in theirs:
            theirs[stamps.NAME] = theirs.pop(stamps.KEPT_NAME)
        elif stamps.NAME in sent and attributes.get(stamps.NAME) == sent[stamps.NAME]:
            # No redriver of ours has had it yet.
            theirs[stamps.NAME] = sent[stamps.NAME]
        if theirs != sent and not (len(message.origins) > 1 and not theirs):
            raise Broken(f"the attributes of {uid} have changed")


def written(name: str, options: Mapping[str, Any]) -> list[tuple[str, str]]:
    """The partition and sort keys of the messages table that a call writes."""
    if "RequestItems" in options and name == "batch_write_item":
        requests = options["RequestItems"].get(LETTERS, ())
        keys = [
            request["DeleteRequest"]["Key"]
            if "DeleteRequest" in request
            else request["PutRequest"]["Item"]
            for request in requests
        ]
    elif "TransactItems" in options:
        acts = [act for item in options["TransactItems"] for act in item.values()]
        keys = [act.get("Key") or act["Item"] for act in acts]
    elif name in ("put_item", "update_item", "delete_item"):
        keys = [options.get("Key") or options["Item"]]
    else:
        keys = []
    return [(key["pk"]["S"], key["sk"]["S"]) for key in keys if "sk" in key]


def _is_of_journal(place: tuple[str, str]) -> bool:
    return place[0].endswith("#journal")


def _keys(packed: bytes) -> list[bytes]:
    """The keys of the copies that an intent names, in order."""
    return [bytes(packed[at : at + 16]) for at in range(0, len(packed), _PLAN_BYTES)]


def lane_of(item: Mapping[str, Any]) -> str:
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
