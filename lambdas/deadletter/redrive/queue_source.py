"""Letters of a queue, chunk after chunk, each under its lock."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from deadletter.contract import MINUTE
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import MAX_BATCH, ReceivedLetter
from deadletter.redrive.draining import BatchPart, SentBefore
from deadletter.redrive.journal import MAX_PLANS, Slot
from deadletter.redrive.known_intents import MOMENT, KnownIntents
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.redrive.receiving import ChunkReceiver, LettersInHand
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import Wait
from deadletter.routing.decision import Hold, Redrive
from deadletter.signals.figures import Count

MOST_LEFT = 20_000
"""Letters that a run leaves in place before it ends: their handles are kept in memory, and
all of them are made visible at its end."""

WAITS_IN_PLACE = 5.0 * MINUTE
"""Seconds that the letters of a FIFO group wait in their queue for a backoff to end, and are
received by each run meanwhile."""


class QueueSource:
    """The queue of one of several workers that drain it, each with its own journal slot.

    It begins with the letters `received`. What is `known` of intents is shared with the other
    workers of the run.
    """

    served = False
    admitted: str | None = None
    rests_until = 0.0

    def __init__(
        self,
        setup: RedriverSetup,
        run: RunLimits,
        number: int,
        received: Sequence[ReceivedLetter] = (),
        *,
        known: KnownIntents,
    ) -> None:
        self._in_hand = LettersInHand(received)
        self._run = run
        self.store = setup.dlq
        self._main_arn = setup.main_arn
        self._fifo = setup.pipeline.fifo
        self._receiver = ChunkReceiver(
            setup.dlq, run, setup.tally, setup.in_parallel, fifo=setup.pipeline.fifo
        )
        self._known = known
        self._room = setup.room
        self._mover = setup.mover
        self._tally = setup.tally
        self._slot = Slot(setup.journal, f"{run.owner}.{number}", run.owner, home=setup.home)
        self._stopped_groups: set[str] = set()
        # Of the present chunk: what is not judged yet, what intents of earlier runs name, and what
        # went back to the main queue.
        self._unjudged: Sequence[ReceivedLetter] = ()
        self._on_record: set[str] = set()
        self._redriven = 0

    @property
    def is_done(self) -> bool:
        """Whether the queue is empty, as far as the polls of the run's workers can tell."""
        return self._run.queue_is_empty and not self._in_hand

    @contextmanager
    def take(self, most: int) -> Iterator[int]:
        run = self._run
        if len(run.left) >= MOST_LEFT:
            raise RunStopped(f"{len(run.left)} messages had to be left in place")
        with run.chunk():
            granted = run.permission(min(MAX_PLANS, most))
            self._receiver.fill(self._in_hand, granted, whole_receives=granted > MAX_BATCH)
            chunk = self._in_hand.take(granted)
            run.note_chunk_bytes(self._in_hand.taken_bytes)
            # SQS may show a letter to two workers of the run at once.
            copies = [received.letter.message_id for received in chunk]
            # Without a letter it waits for no other worker that reads the journal.
            mine = self._known.take(copies) if copies else set()
            self._unjudged = [each for each in chunk if each.letter.message_id in mine]
            self._redriven = 0
            try:
                yield len(chunk)
            except BaseException:
                self._release(self._unjudged)
                raise
            finally:
                if mine:
                    self._known.put_back(mine)
        run.give_back(granted - self._redriven)
        # After the move: the next letters of its FIFO groups may only be visible now.
        run.note_chunk(len(chunk))

    def parts(self) -> Iterator[BatchPart]:
        """One part, without letters that another worker may be sending and those that stay.

        Such letters keep their locks: made visible, they would only be received again.
        """
        chunk = self._unjudged
        if not chunk:
            return
        reading = later = self._known.recent()
        early = {
            copy: reading.of_queue(copy) for copy in (each.letter.message_id for each in chunk)
        }
        in_room: Mapping[str, Confirmation] = {}
        if any(record.maybe_sent or record.maybe_stored for record in early.values()):
            maybe_stored = [each for each in chunk if early[each.letter.message_id].maybe_stored]
            in_room = self._room.find(maybe_stored) if maybe_stored else {}
            # A letter not found there may have left the room since the journal was read.
            has_left = len(in_room) < len(maybe_stored)
            later = self._known.fresh() if has_left else self._known.recent(MOMENT)
        self._on_record = {copy for copy, record in early.items() if record.is_named}
        unmoved: list[ReceivedLetter] = []
        maybe_sent: dict[str, bool] = {}
        sent: list[SentBefore] = []
        for received in chunk:
            copy = received.letter.message_id
            first = early[copy]
            last = first if later is reading else later.of_queue(copy)
            confirmation = last.mark or in_room.get(copy) or self._mover.confirmation_of(copy)
            was_stored_since = last.maybe_stored and not first.maybe_stored
            if confirmation is not None:
                sent.append(SentBefore(received, confirmation, last))
            elif first.is_busy or last.is_busy or was_stored_since or self._mover.is_unknown(copy):
                self._keep_locked([received])
            elif self._is_foreign(received) or self._group_of(received) in self._stopped_groups:
                self._leave([received])
            else:
                if first.maybe_sent or last.maybe_sent:
                    maybe_sent[copy] = not (first.had_no_answer or last.had_no_answer)
                unmoved.append(received)
        yield BatchPart(self._slot, sent, unmoved, maybe_sent)

    def requests(self, letters: Sequence[ReceivedLetter]) -> Iterator[Sequence[ReceivedLetter]]:
        """All at once: a chunk fits into a request."""
        if letters:
            yield letters

    def waits(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Wait] | None:
        if not self._fifo:
            return None
        groups = {each.letter.group for each in letters if each.letter.group is not None}
        return self._room.waits(sorted(groups), letters[0].home)

    def going(self, letters: Sequence[ReceivedLetter], judged: Sequence[Order]) -> Sequence[Order]:
        found, share = {order.copy for order in judged}, self._run.delay_share
        self._leave([each for each in letters if each.letter.message_id not in found])
        if self._fifo:
            judged = self._without_waiting(judged)
        if share < 1:
            judged = [replace(order, decision=order.shortened(share)) for order in judged]
        self._unjudged = ()
        return judged

    def _without_waiting(self, judged: Sequence[Order]) -> Sequence[Order]:
        """The orders without the groups whose first letter soon may go: they wait where they are.

        The waiting room would keep each of them for six write units, and a later run receives them
        again for a tenth of a request.
        """
        soon = self._run.clock() + WAITS_IN_PLACE
        waiting: set[str | None] = set()
        going: list[Order] = []
        for order in judged:
            hold = order.decision
            if isinstance(hold, Hold) and hold.left and hold.due <= soon:
                waiting.add(order.group)
            if order.group not in waiting:
                going.append(order)
        staying = [order.received for order in judged if order not in going]
        # They are not due.
        self._tally.count_tried(-len(staying))
        self._leave(staying)
        return going

    def move(self, orders: Sequence[Order], slot: Slot) -> Left:
        return self._mover.move(orders, slot, queue=self.store)

    def moved(self, letters: Sequence[ReceivedLetter], gone: Sequence[Order], left: Left) -> None:
        self._leave(left.stayed)
        self._keep_locked(left.unknown)
        self._redriven = sum(isinstance(order.decision, Redrive) for order in gone)

    def note_gone(self, copies: Iterable[str]) -> None:
        self._known.note_gone(copies)

    def close(self) -> None:
        self._slot.close()

    def release(self) -> None:
        """Give back the letters in hand."""
        self._release([*self._in_hand])
        self._in_hand.clear()

    def _group_of(self, received: ReceivedLetter) -> str | None:
        """The letter's FIFO group; a standard queue's groups are tenants and keep no order."""
        return received.letter.group if self._fifo else None

    def _is_foreign(self, received: ReceivedLetter) -> bool:
        """Whether SQS says that this letter died in another queue than this pipeline's."""
        died_in = received.letter.source_arn
        foreign = bool(died_in and self._main_arn and died_in != self._main_arn)
        if foreign:
            self._tally.count(Count.FOREIGN_MESSAGE)
        return foreign

    def _leave(self, letters: Sequence[ReceivedLetter]) -> None:
        """Leave letters in place; those that no intent names are made visible after the run."""
        self._keep_locked(letters)
        self._run.left.extend(
            received.handle
            for received in letters
            if received.letter.message_id not in self._on_record
        )

    def _keep_locked(self, letters: Sequence[ReceivedLetter]) -> None:
        """Leave letters in place, without making them visible before their locks end."""
        self._tally.count(Count.LEFT_IN_PLACE, len(letters))
        self._tally.note_left(received.letter.sent_ms for received in letters)
        # A later letter of the group may not overtake these in this run.
        groups = map(self._group_of, letters)
        self._stopped_groups.update(group for group in groups if group is not None)

    def _release(self, letters: Sequence[ReceivedLetter]) -> None:
        """Have letters made visible at the end of the run."""
        self._run.left.extend(received.handle for received in letters)
        self._tally.note_left(received.letter.sent_ms for received in letters)
