"""Bugs planted on purpose: a proof that does not catch them proves nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

from botocore.exceptions import BotoCoreError

from deadletter.aws import queue
from deadletter.aws.claims import DynamoDBClaims
from deadletter.aws.dynamodb import DynamoDBTable
from deadletter.aws.errors import ignore
from deadletter.aws.journal import DynamoDBJournal
from deadletter.aws.queue import SqsQueue
from deadletter.aws.table import Compared, Condition, differs
from deadletter.aws.waiting_room import DynamoDBWaitingRoom
from deadletter.contract import END_OF_TIME
from deadletter.failure.fate import Fate
from deadletter.failure.ledger import LedgerRow
from deadletter.message import envelope
from deadletter.message import stamp as stamps
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import SendResult
from deadletter.processing import collisions, guard, idempotency, parking, result
from deadletter.processing.idempotency import ClaimsUnavailable, Standing
from deadletter.redrive import (
    draining,
    fifo,
    journal,
    journal_sweep,
    openings,
    router_client,
    sending,
)
from deadletter.redrive.journal import Slot
from deadletter.redrive.known_intents import KnownIntents
from deadletter.redrive.lane_claim import LaneClaim
from deadletter.redrive.mover import Mover
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import LOCK_PAST_DEADLINE
from deadletter.routing import direct_router, judgement
from deadletter.routing.decision import Hold
from tests.simulation import simulator
from tests.simulation.planting import Bugs, on_record, replaced, rewritten

BUGS = Bugs()
bug = BUGS.plant


@bug("the letter is deleted before it is sent")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def move(self: Any, orders: Any, slot: Any, *, queue: Any = None, lane: Any = None) -> Any:
            if queue is not None:
                moved = [(order.received, Confirmation(order.copy, "hope")) for order in orders]
                queue.delete(moved)
            return original(self, orders, slot, queue=queue, lane=lane)

        return move

    with replaced(Mover, "move", make):
        yield


@bug("what never left counts as a lost answer")
def _() -> Iterator[None]:
    with patch.object(queue, "never_left", lambda error: False):
        yield


@bug("a lost answer counts as never left")
def _() -> Iterator[None]:
    with patch.object(queue, "never_left", lambda error: isinstance(error, BotoCoreError)):
        yield


@bug("the letter is marked as sent before it is sent")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def intend(self: Any, plans: Any, expires: float) -> None:
            original(self, plans, expires)
            current = self._current
            self._current = replace(current, sent=(1 << len(plans)) - 1)
            self._journal.mark(self._current)

        return intend

    with replaced(Slot, "intend", make):
        yield


@bug("a mark in the journal is not looked at")
def _() -> Iterator[None]:
    with on_record(mark=None):
        yield


@bug("a letter that another worker is sending is sent as well")
def _() -> Iterator[None]:
    with on_record(is_busy=False):
        yield


@bug("nobody looks at the lock before sending")
def _() -> Iterator[None]:
    with patch.object(sending, "LAST_SEND", -1e9):
        yield


@bug("letters are locked for the queue's default time only")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def receive(self: Any, most: int, lock_seconds: int, wait_seconds: int) -> Any:
            found = original(self, most, 30, wait_seconds)
            longer = self.clock() + lock_seconds
            return [replace(entry, locked_until=longer) for entry in found]

        return receive

    with replaced(SqsQueue, "receive", make):
        yield


@bug("attempts are read from the letter alone")
def _() -> Iterator[None]:
    with (
        patch.object(direct_router, "_counted", lambda mark, row, spared: mark),
        patch.object(direct_router, "_with_ledger", lambda letter, reading, rows: reading),
    ):
        yield


@bug("the origin id is not carried on")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def verdict(question: Any, case: Any, decision: Any, book: Any) -> Any:
            found = original(question, case, decision, book)
            return replace(found, stamp=replace(found.stamp, origin=found.message_id))

        return verdict

    with replaced(direct_router, "_counted_verdict", make):
        yield


@bug("there is no limit to the attempts")
def _() -> Iterator[None]:
    rest = tuple(judge for judge in judgement.JUDGEMENTS if judge is not judgement.exhausted)
    with patch.object(judgement, "JUDGEMENTS", rest):
        yield


@bug("the attempt is not counted on")
def _() -> Iterator[None]:
    with patch.object(judgement.Case, "attempts_used", property(lambda self: 1)):
        yield


@bug("a life that was tried uses no attempt")
def _() -> Iterator[None]:
    with patch.object(LedgerRow, "used_attempt", lambda self, life: False):
        yield


@bug("what SQS refused is deleted with the rest")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def send(self: Any, batch: Any) -> SendResult:
            found = original(self, batch)
            everything = {message.copy: Confirmation(message.copy, "hope") for message in batch}
            return SendResult(confirmed={**everything, **found.confirmed})

        return send

    with replaced(SqsQueue, "send", make):
        yield


@bug("a send without an answer counts as refused")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def send(self: Any, batch: Any) -> SendResult:
            found = original(self, batch)
            return SendResult(
                found.confirmed, {**found.refused, **dict.fromkeys(found.unknown, "?")}
            )

        return send

    with replaced(SqsQueue, "send", make):
        yield


@bug("a finished intent is overwritten though copies of it are left")
def _() -> Iterator[None]:
    with patch.object(Slot, "keep", lambda self, copies: None):
        yield


@bug("abandoned intents are thrown away")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def read(self: Any) -> Any:
            found = original(self)
            for intent in found:
                if self_clock(self) > intent.expires + journal.GRACE:
                    self.erase(intent)
            return [entry for entry in found if self_clock(self) <= entry.expires + journal.GRACE]

        return read

    def self_clock(self: Any) -> float:
        # The journal has no clock of its own; the fake table's is the true one.
        return float(self._table.client._real._clock())

    with replaced(DynamoDBJournal, "read", make):
        yield


@bug("the waiting room says that it has what it could not store")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def admit(self: Any, letters: Any) -> Any:
            original(self, letters)
            copies = [letter.received.letter.message_id for letter in letters]
            return {copy: Confirmation(copy, "hope") for copy in copies}

        return admit

    with replaced(DynamoDBWaitingRoom, "admit", make):
        yield


@bug("a letter leaves the waiting room before it is sent")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def move(self: Any, orders: Any, slot: Any, *, queue: Any = None, lane: Any = None) -> Any:
            leaving = [order for order in orders if not isinstance(order.decision, Hold)]
            if queue is None:
                self._room.delete(
                    [(letter.received, Confirmation(letter.copy, "hope")) for letter in leaving]
                )
            return original(self, orders, slot, queue=queue, lane=lane)

        return move

    with replaced(Mover, "move", make):
        yield


@bug("a body in S3 is deleted as soon as it is read")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def received_letter(self: Any, item: Any, *arguments: Any) -> Any:
            received = original(self, item, *arguments)
            if item.get("object"):
                self._delete_body(item["object"])
            return received

        return received_letter

    with replaced(DynamoDBWaitingRoom, "_received_letter", make):
        yield


@bug("two workers empty one shard of the waiting room")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def claim(self: Any, intents: Any) -> Any:
            owner = self._owner()
            return Slot(self._journal, f"{self._name}@{owner}", owner)

        return claim

    with (
        replaced(LaneClaim, "_claim", make),
        on_record(is_busy=False),
    ):
        yield


@bug("who takes a shard over forgets what was sent from it")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def claim(self: Any, intents: Any) -> Any:
            found = next((intent for intent in intents if intent.slot == self._name), None)
            if found is not None and self._clock() < found.expires + journal.GRACE:
                return None
            return Slot(self._journal, self._name, self._owner(), found)

        return claim

    with (
        replaced(LaneClaim, "_claim", make),
        on_record(mark=None),
    ):
        yield


@bug("an intent that put a letter into the room takes it out again")
def _() -> Iterator[None]:
    with patch.object(journal.Intent, "is_of_room", property(lambda self: True)):
        yield


@bug("a letter that is in the room already is judged anew")
def _() -> Iterator[None]:
    with patch.object(DynamoDBWaitingRoom, "find", lambda self, letters: {}):
        yield


@bug("attributes are not copied")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def seal(letter: Any, *rest: Any, **named: Any) -> Any:
            return original(replace(letter, attributes={}), *rest, **named)

        return seal

    with replaced(sending, "seal", make):
        yield


@bug("the deduplication id is the origin's")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def seal(letter: Any, stamp: Any, queue: Any, *rest: Any, **named: Any) -> Any:
            found = original(letter, stamp, queue, *rest, **named)
            token = envelope.deduplication_id(stamp.origin)
            return replace(found, deduplication_id=token) if queue.fifo else found

        return seal

    with replaced(sending, "seal", make):
        yield


@bug("a FIFO group goes out in one batch with its own later letters")
def _() -> Iterator[None]:
    with patch.object(sending, "waves", lambda going, fifo: iter([going[::-1]])):
        yield


@bug("a letter overtakes its group in the waiting room")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda letters, verdicts, *_, **__: dict(verdicts)

    with replaced(draining, "as_groups", make):
        yield


@bug("a forged stamp is believed")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def read(letter: Any, trusted: Any) -> Any:
            return original(letter, trusted | {letter.sender})

        return read

    with replaced(stamps, "read", make):
        yield


@bug("a letter that cannot be read stops its batch")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def decide(self: Any, questions: Any) -> Any:
            if any(not question.letter.body.endswith("}") for question in questions):
                raise direct_router.RouterUnavailable("a body that cannot be read")
            return original(self, questions)

        return decide

    with replaced(direct_router.DirectRouter, "decide", make):
        yield


@bug("a delay starts over when it has been served")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def delayed(case: Any) -> Any:
            return original(replace(case, served=False))

        return delayed

    fresh = make(judgement.delayed)
    with patch.object(judgement, "JUDGEMENTS", (*judgement.JUDGEMENTS[:-1], fresh)):
        yield


# Of time, and of what comes between a send and its mark.


@bug("a run sends until its very deadline")
def _() -> Iterator[None]:
    with patch.object(sending, "LAST_SEND", LOCK_PAST_DEADLINE):
        yield


@bug("the journal is read between sends and their mark")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def mark(self: Any, *rest: Any) -> None:
            with contextlib.suppress(journal.JournalUnavailable):
                self._journal.read()
            original(self, *rest)

        return mark

    with replaced(Slot, "mark", make):
        yield


@bug("a possible duplicate is counted at the end of its run")
def _() -> Iterator[None]:
    with patch.object(Tally, "count_now", Tally.count):
        yield


@bug("letters of which SQS says that they failed count as possible duplicates")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def send(self: Any, batch: Any) -> SendResult:
            found = original(self, batch)
            rest = {message.copy for message in batch} - found.confirmed.keys()
            return SendResult(found.confirmed, unknown=frozenset(rest))

        return send

    with replaced(SqsQueue, "send", make):
        yield


@bug("a call that sends is tried twice")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def configured() -> Any:
            found = dict(original())
            client = found["sending"]
            patience = replace(client.patience, tries=2)
            return {**found, "sending": replace(client, patience=patience)}

        return configured

    with replaced(simulator, "configured", make):
        yield


@bug("what could not be marked is not deleted")
def _() -> Iterator[None]:
    unmarked: set[str] = set()

    def make_mark(original: Any) -> Any:
        def mark(self: Any, copies: Any, *rest: Any) -> None:
            try:
                original(self, copies, *rest)
            except journal.JournalUnavailable:
                unmarked.update(copies)
                raise

        return mark

    def make_delete(original: Any) -> Any:
        def delete(self: Any, letters: Any) -> Any:
            found = [pair for pair in letters if pair[0].letter.message_id not in unmarked]
            return original(self, found)

        return delete

    with replaced(Slot, "mark", make_mark), replaced(SqsQueue, "delete", make_delete):
        yield


@bug("the journal is read as it was a while ago")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def pages(self: Any, partition: str, *rest: Any, **options: Any) -> Any:
            lagging = {"lagging": True} if partition.endswith("#journal") else {}
            return original(self, partition, *rest, **options, **lagging)

        return pages

    with replaced(DynamoDBTable, "_pages", make):
        yield


@bug("letters in the room are read as they were a while ago")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def get_many(self: Any, keys: Any, **options: Any) -> Any:
            return original(self, keys, **{**options, "lagging": True})

        return get_many

    with replaced(DynamoDBTable, "get_many", make):
        yield


@bug("only the first page of an answer is read")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def pages(self: Any, *asked: Any, **options: Any) -> Any:
            yield next(original(self, *asked, **options))

        return pages

    with replaced(DynamoDBTable, "_pages", make):
        yield


@bug("an intent lives for a minute")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def init(
            self: Any, client: Any, table: str, pipeline: str, keep_seconds: float,
            note_bad_row: Any = ignore, clock: Any = lambda: END_OF_TIME,
        ) -> None:  # fmt: skip
            original(self, client, table, pipeline, 60.0, note_bad_row, clock)

        return init

    with replaced(DynamoDBJournal, "__init__", make):
        yield


# Of what stands in the journal.


@bug("an intent that has ended leaves the journal at once")
def _() -> Iterator[None]:
    def everything(self: KnownIntents) -> set[bytes]:
        return {key for intent in self.last.ended() for key in intent.packed.keys()}  # noqa: SIM118

    with patch.object(KnownIntents, "left_queue", property(everything)):
        yield


@contextlib.contextmanager
def merged_at_once() -> Iterator[None]:
    """Merges as soon as two intents stand."""
    with (
        patch.object(journal_sweep, "MOST_STANDING", 1),
        patch.object(journal_sweep, "MOST_OF_TODAY", 1),
    ):
        yield


@bug("a merge forgets the marks")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda *rest: replace(original(*rest), sent=0)

    with merged_at_once(), replaced(journal_sweep, "merged", make):
        yield


@bug("a merge erases and puts nothing")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, parts, into: original(self, parts, None)

    with merged_at_once(), replaced(DynamoDBJournal, "merge", make):
        yield


@bug("what is kept of an intent loses its marks")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, keys, slot: replace(original(self, keys, slot), sent=0)

    with replaced(journal.Intent, "only", make):
        yield


@bug("a reading of the journal is used by later runs")
def _() -> Iterator[None]:
    readings: list[Any] = []

    def make(original: Any) -> Any:
        def recent(self: Any, *rest: Any) -> Any:
            if not readings:
                readings.append(original(self, *rest))
            return readings[0]

        return recent

    with replaced(KnownIntents, "recent", make):
        yield


# Of rescues.


@bug("a rescue deletes a letter before the waiting room has it")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def move(self: Any, orders: Any, slot: Any, *, queue: Any = None, lane: Any = None) -> Any:
            rescued = [order for order in orders if "rescued" in (order.decision.because or "")]
            if queue is not None:
                moved = [(order.received, Confirmation(order.copy, "hope")) for order in rescued]
                queue.delete(moved)
            return original(self, orders, slot, queue=queue, lane=lane)

        return move

    with replaced(Mover, "move", make):
        yield


@bug("a parked letter is rescued into the lane of delays")
def _() -> Iterator[None]:
    with (
        patch.object(router_client, "is_parking", lambda source: False),
        patch.object(router_client, "dedicated_lane", lambda id_: "due"),
    ):
        yield


@bug("the lane of parked letters opens for the main DLQ's runs")
def _() -> Iterator[None]:
    with patch.object(openings, "_belongs_to", lambda lane, home: home == "dlq"):
        yield


@bug("a parked letter that is rescued gets a stamp of its own")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def verdict(self: Any, letter: Any, now: float) -> Any:
            found = original(self, letter, now)
            return replace(found, stamp=replace(found.stamp, reason=None, because="rescued"))

        return verdict

    with replaced(router_client.RescueVerdicts, "_verdict", make):
        yield


@bug("a parked FIFO letter that is rescued waits with its group")
def _() -> Iterator[None]:
    with patch.object(fifo, "_is_parked", lambda verdict: False):
        yield


# Of the consumer.


@bug("a letter is acknowledged though the parking lot did not confirm it")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def park(self: Any, *rest: Any) -> bool:
            original(self, *rest)
            return True

        return park

    with replaced(parking.Parking, "_park", make):
        yield


@bug("a message is done before its effect")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def claim(self: Any, *claimed: Any) -> Any:
            found = original(self, *claimed)
            if found.standing is Standing.MINE:
                self.done("", found)
            return found

        return claim

    with replaced(guard.Guard, "claim", make):
        yield


@bug("a claim has no lease")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        return lambda self, key, owner, until: original(self, key, owner, 1e10)

    with replaced(DynamoDBClaims, "claim", make):
        yield


@bug("anybody may take over a claim at once")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def put(self: Any, claim: Any, key: Any, now: float) -> Any:
            return original(self, claim, key, 1e9 + now)

        return put

    with replaced(DynamoDBClaims, "_put", make):
        yield


def whoever_owns_it(condition: Condition) -> Condition | None:
    """A condition that names an owner, and holds for each other one too."""

    def change(part: Condition) -> Condition:
        is_of_owner = isinstance(part, Compared) and part.path == "own"
        return part | differs("own", part.values[0]) if is_of_owner else part

    return rewritten(condition, change)


def whatever_the_owner(status: str) -> Any:
    def make(original: Any) -> Any:
        def change(self: Any, claim: Any, sets: Any, when: Any) -> Any:
            if sets.get("status") == status:
                when = whoever_owns_it(when)
            return original(self, claim, sets, when)

        return change

    return replaced(DynamoDBClaims, "_change", make)


@bug("a zombie releases the claim of another")
def _() -> Iterator[None]:
    with whatever_the_owner("RELEASED"):
        yield


@bug("a zombie ends the claim of another")
def _() -> Iterator[None]:
    with whatever_the_owner("DONE"):
        yield


@bug("a withdrawal deletes the claim")
def _() -> Iterator[None]:
    def withdraw(self: Any, claim: Any, *, tried: bool = True) -> bool:
        self._table.write_many(deletes=[(self._partition(claim), "claim")])
        return True

    with patch.object(DynamoDBClaims, "withdraw", withdraw):
        yield


@bug("the same key is the same message, whatever it says")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def claim(self: Any, key: Any, owner: str, until: float) -> Any:
            return original(self, replace(key, compared=False), owner, until)

        return claim

    with replaced(DynamoDBClaims, "claim", make):
        yield


@bug("a message with the key of a processed one is processed too")
def _() -> Iterator[None]:
    with patch.object(collisions.Collisions, "parks", lambda self: False):
        yield


@bug("a message with the key of a processed one is skipped")
def _() -> Iterator[None]:
    with patch.object(idempotency.BusinessKey, "differences", lambda self, payload, content: ()):
        yield


@bug("a message that somebody else holds is acknowledged")
def _() -> Iterator[None]:
    with patch.object(result, "ACKNOWLEDGED", result.ACKNOWLEDGED | {Fate.BUSY}):
        yield


@bug("without an answer from the claims a message is processed all the same")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def claim(self: Any, *claimed: Any) -> Any:
            try:
                return original(self, *claimed)
            except ClaimsUnavailable:
                return None

        return claim

    with replaced(guard.Guard, "claim", make):
        yield


def _is_resumed(condition: Any) -> bool:
    """Whether a condition is that an owner has the claim already."""
    parts = getattr(condition, "parts", ())
    return {getattr(part, "path", "") for part in parts} == {"own", "status"}


@bug("a claim that the SDK made twice is taken for another's, and acknowledged")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def found(self: Any, claim: Any, row: Any, key: Any) -> Any:
            if row is not None and row["own"] == claim.owner:
                return replace(claim, standing=Standing.DUPLICATE)
            return original(self, claim, row, key)

        return found

    def refusing(original: Any) -> Any:
        def change(self: Any, key: Any, sets: Any, *, when: Any = None, **options: Any) -> Any:
            if "payload" in sets:
                when = rewritten(when, lambda part: None if _is_resumed(part) else part)
            return original(self, key, sets, when=when, **options)

        return change

    with (
        replaced(DynamoDBClaims, "_with_standing", make),
        replaced(DynamoDBTable, "change", refusing),
    ):
        yield


@bug("the key of a message is the id of its copy")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def key_of(self: Any, letter: Any, *rest: Any) -> Any:
            return replace(original(self, letter, *rest), text=f"origin:{letter.message_id}")

        return key_of

    with replaced(idempotency.Identity, "key_of", make):
        yield


@bug("what failed is acknowledged with the rest")
def _() -> Iterator[None]:
    with patch.object(result, "ACKNOWLEDGED", result.ACKNOWLEDGED | {Fate.FAILED}):
        yield


@bug("the consumer parks a letter without its attributes")
def _() -> Iterator[None]:
    def make(original: Any) -> Any:
        def seal(letter: Any, *rest: Any, **named: Any) -> Any:
            return original(replace(letter, attributes={}), *rest, **named)

        return seal

    with replaced(parking, "seal", make):
        yield
