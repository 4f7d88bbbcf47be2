"""Moves one chunk of letters so that a crash at any point loses none of them."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from random import Random

from deadletter.contract import parking_for, parking_source
from deadletter.failure.ledger import Records, RecordsConflict, RecordsUnavailable
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import MAX_BATCH, LetterStore, Queue, QueueUnavailable, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.concurrency import InParallel
from deadletter.redrive.fifo import unbroken
from deadletter.redrive.journal import ROOM, ClaimLost, JournalUnavailable, Plan, Slot, key_of
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.report import Tally
from deadletter.redrive.sending import Moves, Sender, end_of_locks, last_moment
from deadletter.redrive.waiting_room import (
    DELETED_AT_ONCE,
    LaneStore,
    RoomUnavailable,
    WaitingRoom,
)
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.signals.figures import Count, Counted, Figure

ENOUGH_MATCHES = 100
"""Matches of one rule that are written at once."""

MOST_SECONDS = 5.0
"""Seconds after which every count is written, however small."""


class MatchCounts:
    """Counts the matches of rules, by `rule_counts_key`. Raises RecordsUnavailable.

    While it `gathers`, a count waits for others. A process that dies then loses the counts of its
    last seconds and no letter. Those of rules with `max_matches` are claimed before.
    """

    def __init__(self, records: Records, clock: Callable[[], float]) -> None:
        self._records = records
        self._clock = clock
        self._lock = threading.Lock()
        self.gathers = False
        self._matched: Counter[str] = Counter()
        self._shadow_matched: Counter[str] = Counter()
        self._since = 0.0

    def add(self, matched: Iterable[str], shadow_matched: Iterable[str]) -> None:
        """Count letters that rules have acted on, or would have acted on."""
        with self._lock:
            now = self._clock()
            if not self._matched and not self._shadow_matched:
                self._since = now
            self._matched.update(matched)
            self._shadow_matched.update(shadow_matched)
            least = ENOUGH_MATCHES
            if not self.gathers or now - self._since >= MOST_SECONDS:
                least = 1
            ready = _taken(self._matched, least), _taken(self._shadow_matched, least)
        self._write(*ready)

    def claim(self, orders: Sequence[Order]) -> Mapping[str, str]:
        """Count, before they are moved, the letters that rules with a limit act on.

        Returns the keys by copy. A letter with a limit and without a key may not be moved: its rule
        has acted on so many by now. One chunk is claimed in one step while the count is below the
        limit, so that a rule acts on at most one chunk, less one letter, more than it may.
        """
        wanted: dict[tuple[str, int], list[str]] = {}
        for order in orders:
            if order.matched is not None and order.limit is not None:
                wanted.setdefault((order.matched, order.limit), []).append(order.copy)
        return {
            copy: key
            for (key, limit), copies in wanted.items()
            if self._records.claim_matches(key, len(copies), limit)
            for copy in copies
        }

    def give_back(self, claimed: Mapping[str, str], stayed: Collection[str]) -> None:
        """Take back the claims of copies that have stayed where they are."""
        unused = Counter(key for copy, key in claimed.items() if copy in stayed)
        self._write({key: -letters for key, letters in unused.items()}, {})

    def _write(self, matched: Mapping[str, int], shadow_matched: Mapping[str, int]) -> None:
        if matched or shadow_matched:
            self._records.count_matches(matched, shadow_matched)


def without_limit(orders: Sequence[Order], claimed: Mapping[str, str]) -> list[Order]:
    """The orders that may be carried out: without a limit, or claimed, and so counted already."""
    return [
        replace(order, matched=None, limit=None) if order.copy in claimed else order
        for order in orders
        if order.matched is None or order.limit is None or order.copy in claimed
    ]


def _taken(counts: Counter[str], least: int) -> dict[str, int]:
    """The counts that are at least so large; they are no longer among the others."""
    return {key: counts.pop(key) for key in [*counts] if counts[key] >= least}


MARGIN = 5.0
"""Seconds before a lock ends after which an answer to a delete is not believed: the call itself
takes time, and the queue's clock is not ours."""

MOST_SENDS = 4
"""Sends of one letter in a move, the first among them, while SQS confirms that it took none. Where
2 % of the entries fail, one letter in six million is left for the next run."""

SEND_PAUSE = 0.4
"""Seconds before the second send at most, and twice as long before each later one; half is by
lot."""

MOST_REMEMBERED = 10_000
"""Copies that a run has moved and remembers: SQS may return one that was deleted just before."""

_METRICS: Mapping[type, Counted] = {
    Redrive: Figure.REDRIVEN,
    Park: Figure.MOVED_TO_PARKING,
    Divert: Figure.DIVERTED,
    Hold: Figure.HELD,
}


@dataclass(frozen=True, slots=True)
class Left:
    """The letters of a move that have no confirmation of another place.

    `stayed` were certainly not sent, and may be made visible again. `unknown` may have been
    sent: each keeps its lock until this ends by itself. Where letters are handed over without a
    queue, those that were `tried` have failed and are where they were, and the receiver wants to be
    left alone for `retry_after` seconds.
    """

    stayed: Sequence[ReceivedLetter] = ()
    unknown: Sequence[ReceivedLetter] = ()
    tried: Sequence[ReceivedLetter] = ()
    retry_after: float = 0.0


class MovedCopies:
    """The confirmations of the last `most` copies that a run has moved, for all its workers."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._lock = threading.Lock()
        self._confirmations: dict[bytes, Confirmation] = {}

    def add(self, confirmations: Sequence[Confirmation]) -> None:
        with self._lock:
            for confirmation in confirmations:
                self._confirmations[key_of(confirmation.copy)] = confirmation
            while len(self._confirmations) > self._most:
                del self._confirmations[next(iter(self._confirmations))]

    def confirmation_of(self, copy: str) -> Confirmation | None:
        return self._confirmations.get(key_of(copy))

    def __len__(self) -> int:
        return len(self._confirmations)


class Mover:
    """Carries out orders for many letters at once: intent, send, mark, delete, in this order.

    Between the first send and the mark there is nothing but sends: a run that ends there has
    its letters sent again, and no other does. `targets` maps "main", "parking:<id>" and
    "dedicated:<id>" to their queues. Where messages are `ordered`, those behind a parked one go on
    by the ledger's word: it is written first, and without it the letter stays. A letter that cannot
    be moved stays where it is, and is counted.
    """

    def __init__(
        self,
        *,
        fifo: bool,
        targets: Mapping[str, Queue],
        parking_queues: Mapping[str, str],
        room: WaitingRoom,
        records: Records,
        clock: Callable[[], float],
        wait: Callable[[float], None],
        random: Random,
        in_parallel: InParallel,
        tally: Tally,
        ordered: bool = False,
    ) -> None:
        self._fifo = fifo
        self._ordered = ordered
        self._targets = targets
        self._parking_queues = parking_queues
        self._room = room
        self._records = records
        self._match_counts = MatchCounts(records, clock)
        self._clock = clock
        self._wait = wait
        self._random = random
        self._in_parallel = in_parallel
        self._tally = tally
        self._sender = Sender(
            fifo=fifo, targets=targets, clock=clock, in_parallel=in_parallel, tally=tally
        )
        # SQS may return a copy that was deleted, when its mark is gone already.
        self._moved = MovedCopies(MOST_REMEMBERED)
        self._unknown: set[bytes] = set()

    def move(
        self,
        orders: Sequence[Order],
        slot: Slot,
        *,
        queue: LetterStore | None = None,
        lane: LaneStore | None = None,
    ) -> Left:
        """Move letters out of a queue, or out of a lane whose shard's intent `slot` holds.

        Returns those without a confirmation of another place. Letters stay on which a rule with
        `max_matches` may act no more. Out of a queue, what is sent comes before what goes into the
        waiting room, each under an intent of its own: bodies may take long to store, and no send
        may wait for its mark meanwhile.
        """
        is_limited = any(order.limit is not None for order in orders)
        claimed = self._claim_matches(orders) if is_limited else {}
        granted = self._granted(orders, claimed) if is_limited else orders
        movable = self._movable(granted)
        sends = Moves([order for order in movable if not _is_hold(order)])
        holds = Moves([order for order in movable if _is_hold(order)])
        if queue is None:
            room = self._room if lane is None else lane
            self._send(room, sends, slot, at_once=DELETED_AT_ONCE)
            self._tally.count_possible_duplicates(holds.pending)
            self._in_parallel([partial(self._postpone, order, room) for order in holds.pending])
        elif sends.pending and not self._intend(sends.pending, slot):
            self._count_untried(holds.pending)
        else:
            unsettled = self._send(queue, sends, slot)
            if self._fifo:
                # A letter that may come back must not find later ones of its group in the room.
                holds.pending = [order for order in holds.pending if order.group not in unsettled]
            self._hold(queue, holds, slot)
        left = self._left(granted, sends, holds)
        return self._with_refused(left, orders, granted, claimed) if is_limited else left

    def _claim_matches(self, orders: Sequence[Order]) -> Mapping[str, str]:
        try:
            return self._match_counts.claim(orders)
        except RecordsUnavailable as error:
            self._note_uncounted(error)
            return {}

    def _granted(self, orders: Sequence[Order], claimed: Mapping[str, str]) -> Sequence[Order]:
        """The orders that no limit stops; on FIFO in unbroken order."""
        granted = without_limit(orders, claimed)
        return unbroken(orders, granted) if self._fifo else granted

    def _with_refused(
        self,
        left: Left,
        orders: Sequence[Order],
        granted: Sequence[Order],
        claimed: Mapping[str, str],
    ) -> Left:
        """What is left, with the letters that a limit stopped; their matches are given back."""
        going = {order.copy for order in granted}
        refused = [order for order in orders if order.copy not in going]
        self._tally.count_futile(len(refused))
        stayed = [*(order.received for order in refused), *left.stayed]
        try:
            self._match_counts.give_back(claimed, {r.letter.message_id for r in stayed})
        except RecordsUnavailable as error:
            # The rule ends early by so many.
            self._note_uncounted(error)
        return Left(stayed, left.unknown)

    @contextmanager
    def counts_gathered(self) -> Iterator[None]:
        """Write what rules have matched for many chunks at once meanwhile, and afterwards the rest.

        Letters do not depend on it: a process that dies has counted some matches too few.
        """
        self._match_counts.gathers = True
        try:
            yield
        finally:
            self._match_counts.gathers = False
            self._count_matches()

    def confirmation_of(self, copy: str) -> Confirmation | None:
        """The confirmation that this run has moved a copy out of a queue."""
        return self._moved.confirmation_of(copy)

    def is_unknown(self, copy: str) -> bool:
        """Whether this run may have sent a copy without a confirmation: it is left alone."""
        return key_of(copy) in self._unknown

    def target_of(self, decision: Decision) -> str:
        """The name of the place that a decision sends a letter to."""
        match decision:
            case Redrive():
                return MAIN
            case Hold():
                return ROOM
            case Divert(queue=queue):
                return f"dedicated:{queue}"
            case Park(reason=reason, category=category):
                return parking_source(parking_for(self._parking_queues, reason, category))

    def _target(self, order: Order) -> str:
        return self.target_of(order.decision)

    def _movable(self, orders: Sequence[Order]) -> list[Order]:
        """Orders whose target exists and answers; on FIFO in unbroken order."""
        targets = {self._target(order) for order in orders} - {ROOM}
        # In one order, whatever the process: a schedule of the simulator is one by its seed.
        reachable = {target for target in sorted(targets) if self._is_reachable(target)} | {ROOM}
        movable = [order for order in orders if self._target(order) in reachable]
        self._count_untried([order for order in orders if self._target(order) not in reachable])
        self._tally.count(Figure.REDRIVE_FAILURE, len(orders) - len(movable))
        if self._ordered:
            movable = self._told(movable)
        if self._fifo:
            movable = unbroken(orders, movable)
        return [] if self._is_too_late(movable) else movable

    def _told(self, orders: Sequence[Order]) -> list[Order]:
        """The orders without those to park of which the ledger could not be told."""
        is_told = self._in_parallel([partial(self._note_one_parked, order) for order in orders])
        told = [order for order, each in zip(orders, is_told, strict=True) if each]
        self._count_untried([order for order in orders if order not in told])
        return told

    def _is_reachable(self, target: str) -> bool:
        """Whether the target queue is one of ours and answers, asked before anything is sent."""
        queue = self._targets.get(target)
        if queue is None:
            return False
        try:
            return bool(queue.traits)
        except QueueUnavailable as error:
            self._tally.count(Count.QUEUE_UNAVAILABLE)
            self._tally.note_trouble(str(error))
            return False

    def _is_too_late(self, orders: Sequence[Order]) -> bool:
        """Whether a step with these letters can't begin any more; they are counted then."""
        if not orders or self._clock() < last_moment(orders):
            return False
        self._tally.count(Count.TOO_LATE_TO_SEND, len(orders))
        self._count_untried(orders)
        return True

    def _intend(self, orders: Sequence[Order], slot: Slot) -> bool:
        """Write the intent to move these letters. Returns False if they have to stay."""
        if self._is_too_late(orders):
            return False
        plans = [
            Plan(key_of(order.copy), self._target(order), order.stamp.attempt) for order in orders
        ]
        try:
            slot.intend(plans, end_of_locks(orders))
        except (JournalUnavailable, ClaimLost) as error:
            self._count_journal(error)
            self._count_untried(orders)
            return False
        return True

    def _send(
        self, store: LetterStore, moves: Moves, slot: Slot, at_once: int = MAX_BATCH
    ) -> set[str | None]:
        """Send, mark and delete; what SQS confirms not to have taken is sent again.

        Returns the groups with a letter that was not sent, or is neither marked nor deleted.
        """
        orders, undeleted, unsettled = list(moves.pending), set[str](), set[str]()
        try:
            for tries in range(MOST_SENDS):
                if not moves.pending or (tries and not self._pause(tries, moves.pending)):
                    break
                going = list(moves.pending)
                try:
                    self._sender.send(moves, self._target)
                finally:
                    is_marked, remaining = self._settle(store, going, slot, moves, at_once)
                    undeleted |= remaining
                if not is_marked:
                    unsettled |= remaining
                    break
        finally:
            self._count(orders, moves, undeleted)
        unsettled |= {order.copy for order in orders if order.copy not in moves.confirmed}
        return {order.group for order in orders if order.copy in unsettled}

    def _pause(self, tries: int, orders: Sequence[Order]) -> bool:
        """Wait before the next try; returns False if there is no time for it."""
        pause = SEND_PAUSE * 2 ** (tries - 1) * self._random.uniform(0.5, 1.0)
        if self._clock() + pause >= last_moment(orders):
            return False
        self._wait(pause)
        return True

    def _hold(self, queue: LetterStore, moves: Moves, slot: Slot) -> None:
        """Put letters into the waiting room: their large bodies first, then an intent."""
        orders = moves.pending
        if not orders:
            return
        stored = self._room.store_bodies(orders, last_moment(orders), self._in_parallel)
        going = [order for order in orders if order.copy in stored]
        if self._fifo:
            going = unbroken(orders, going)
        undeleted: set[str] = set()
        try:
            if len(going) < len(orders):
                self._tally.count(Count.ROOM_UNAVAILABLE)
                self._count_untried([order for order in orders if order not in going])
            if going and self._intend(going, slot):
                self._tally.count_possible_duplicates(going)
                try:
                    self._admit(going, moves)
                finally:
                    _, undeleted = self._settle(queue, going, slot, moves)
        finally:
            self._count(orders, moves, undeleted)

    def _admit(self, orders: Sequence[Order], moves: Moves) -> None:
        copies = {order.copy for order in orders}
        moves.attempted |= copies
        # A write whose answer was lost may have happened: the intent is kept, so that the
        # run that sees the letter again looks into the room first.
        moves.unknown |= copies
        try:
            moves.confirmed.update(self._room.admit(orders))
        except RoomUnavailable as error:
            # Nothing was written yet that names a letter: none of them can be in there.
            moves.unknown -= copies
            self._tally.note_trouble(str(error))
            self._tally.count(Count.ROOM_UNAVAILABLE)
        moves.unknown -= moves.confirmed.keys()

    def _postpone(self, order: Order, lane: LaneStore) -> None:
        if self._is_too_late([order]):
            return
        try:
            lane.postpone(order)
        except RoomUnavailable as error:
            self._tally.count(Count.ROOM_UNAVAILABLE)
            self._tally.note_trouble(str(error))
            self._tally.count_target(ROOM, 1, 0)
        else:
            self._tally.count(Figure.HELD)
            self._tally.count_gone(1)
            self._tally.count_target(ROOM, 1, 1)
            self._note_parked([order])

    def _settle(
        self,
        store: LetterStore,
        orders: Sequence[Order],
        slot: Slot,
        moves: Moves,
        at_once: int = MAX_BATCH,
    ) -> tuple[bool, set[str]]:
        """Mark, record, delete: only letters that are confirmed to be elsewhere.

        Returns whether the mark is written, and the copies that may still be in their place.
        """
        moved = [order for order in orders if order.copy in moves.confirmed]
        unmarked: dict[str, str] = {}
        facts: dict[str, Stamp] = {}
        for order in moved:
            envelope, new_id = moves.envelopes.get(order.copy), moves.confirmed[order.copy].new_id
            if envelope is not None and not envelope.marked and new_id is not None:
                unmarked[order.copy] = new_id
                facts[new_id] = envelope.stamp
        is_marked = self._mark(moved, unmarked, slot)
        self._tally.count(Figure.REDRIVE_UNMARKED, len(unmarked))
        # The letter is on its way; sending it again would not bring its stamp back.
        self._tally.count(Count.REDRIVE_UNRECORDED, self._unrecorded(facts))
        self._moved.add([moves.confirmed[order.copy] for order in moved])
        pairs = [(order.received, moves.confirmed[order.copy]) for order in moved]
        batches = [pairs[at : at + at_once] for at in range(0, len(pairs), at_once)]
        remaining = self._in_parallel([partial(store.delete, batch) for batch in batches])
        undeleted = {received.letter.message_id for left in remaining for received in left}
        self._tally.count(Count.UNDELETED, len(undeleted))
        self._tally.count_gone(len(moved) - len(undeleted))
        # After the lock's end another receiver may hold the copy: SQS accepts our old
        # handle then, and leaves the copy where it is.
        if moved and self._clock() >= end_of_locks(moved) - MARGIN:
            undeleted |= {order.copy for order in moved}
        slot.keep(undeleted | {order.copy for order in orders if order.copy in moves.unknown})
        self._note_parked(moved)
        return is_marked, undeleted

    def _note_parked(self, moved: Sequence[Order]) -> None:
        """Write for people what was parked, if it is not on record yet. The letters are safe."""
        parked = [order for order in moved if order.parked_as is not None and not self._ordered]
        self._in_parallel([partial(self._note_one_parked, order) for order in parked])

    def _note_one_parked(self, order: Order) -> bool:
        """Write that a letter is parked; False if that failed. Any other needs no word."""
        if order.parked_as is None:
            return True
        now, stamp = self._clock(), order.stamp
        rule = order.decision.rule or stamp.rule or ""
        # The letters behind it are more important than a note.
        if now < last_moment([order]):
            try:
                self._records.note_parked(stamp.origin, now, str(order.parked_as), rule)
            except RecordsUnavailable as error:
                self._tally.note_trouble(str(error))
            else:
                return True
        self._tally.count(Count.LEDGER_UNAVAILABLE)
        return False

    def _mark(self, moved: Sequence[Order], new_ids: Mapping[str, str], slot: Slot) -> bool:
        if not moved:
            return True
        try:
            slot.mark([order.copy for order in moved], new_ids)
        except (JournalUnavailable, ClaimLost) as error:
            # The letters are safe elsewhere whether or not the mark is written.
            self._count_journal(error)
            return False
        return True

    def record(self, stamps: Mapping[str, Stamp]) -> bool:
        """Write the facts of letters that were sent without a stamp, by their new ids.

        Returns whether all are written; what is not, is counted by the caller.
        """
        return not self._unrecorded(stamps)

    def _unrecorded(self, stamps: Mapping[str, Stamp]) -> int:
        """Write facts; returns how many could not be written."""
        try:
            if stamps:
                self._records.store_stamps(stamps)
        except RecordsConflict:
            each = [partial(self._unrecorded, {id_: stamp}) for id_, stamp in stamps.items()]
            return sum(self._in_parallel(each))
        except RecordsUnavailable as error:
            self._tally.note_trouble(str(error))
            return len(stamps)
        return 0

    def _left(self, orders: Sequence[Order], *parts: Moves) -> Left:
        confirmed, maybe_sent = set[str](), set[str]()
        for moves in parts:
            confirmed |= moves.confirmed.keys()
            maybe_sent |= moves.unknown
        stayed: list[ReceivedLetter] = []
        unknown: list[ReceivedLetter] = []
        for order in orders:
            if order.copy in confirmed:
                continue
            if order.copy in maybe_sent:
                self._unknown.add(key_of(order.copy))
                unknown.append(order.received)
            else:
                stayed.append(order.received)
        return Left(stayed, unknown)

    def _count_untried(self, orders: Sequence[Order]) -> None:
        """Count letters that nothing was sent of, for no fault of their own."""
        for target, letters in Counter(map(self._target, orders)).items():
            self._tally.count_target(target, letters, 0)

    def _count_journal(self, error: Exception) -> None:
        self._tally.count(Count.JOURNAL_UNAVAILABLE)
        if isinstance(error, JournalUnavailable):
            self._tally.note_trouble(str(error))

    def _count(self, orders: Sequence[Order], moves: Moves, undeleted: Collection[str]) -> None:
        moved = [order for order in orders if order.copy in moves.confirmed]
        tried, gone = Counter[str](), Counter[str]()
        for order in orders:
            copy = order.copy
            if copy in moves.attempted:
                target = self._target(order)
                tried[target] += 1
                gone[target] += copy in moves.confirmed and copy not in undeleted
        for target, letters in tried.items():
            self._tally.count_target(target, letters, gone[target])
        self._tally.count(Figure.REDRIVE_FAILURE, len(orders) - len(moved))
        for metric, letters in Counter(_METRICS[type(order.decision)] for order in moved).items():
            self._tally.count(metric, letters)
        # Sent with their own attribute `Redrive` under another name.
        sealed = (moves.envelopes.get(order.copy) for order in moved)
        renamed = sum(envelope is not None and envelope.kept_as is not None for envelope in sealed)
        self._tally.count(Count.ATTRIBUTE_RENAMED, renamed)
        self._count_matches(
            (order.matched for order in moved if order.matched is not None),
            (key for order in moved for key in order.shadow_matched),
        )

    def _count_matches(
        self, matched: Iterable[str] = (), shadow_matched: Iterable[str] = ()
    ) -> None:
        """Add to the counts; without matches, write those that were gathered."""
        try:
            self._match_counts.add(matched, shadow_matched)
        except RecordsUnavailable as error:
            self._note_uncounted(error)

    def _note_uncounted(self, error: RecordsUnavailable) -> None:
        self._tally.note_trouble(str(error))
        self._tally.count(Count.REDRIVE_UNRECORDED)


def _is_hold(order: Order) -> bool:
    return isinstance(order.decision, Hold)
