"""Receives letters from a queue, chunk after chunk, and has them moved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import MAX_BATCH, ReceivedLetter
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.journal import MAX_PLANS, JournalUnavailable, Slot
from deadletter.redrive.known_intents import MOMENT, KnownIntents
from deadletter.redrive.letters_in_hand import LettersInHand
from deadletter.redrive.mover import MARGIN
from deadletter.redrive.order import Order
from deadletter.redrive.receiving import ChunkReceiver
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.router_client import MAX_REQUEST, RouterClient, VerdictSource, orders
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.sending import UnfilledBatches
from deadletter.redrive.settling import SentBefore, Settling
from deadletter.routing.decision import Redrive
from deadletter.signals.figures import Count

MOST_LEFT = 20_000
"""Letters that a run leaves in place before it ends: their handles are kept in memory, and
all of them are made visible at its end."""


MOST_BYTES = 4 * MAX_REQUEST
"""Bytes of the letters of all chunks under way, beyond which there are no more than at first: each
is in memory several times, as it came, in a request, and as it goes."""


class QueueWorker:
    """One of several workers that drain a queue in parallel, each with its own journal slot.
    What is `known` of intents is shared with the other workers of the run.

    It begins with the letters that it has `received`, and asks the router what to do with
    letters unless it is given another `verdict_source`.
    """

    def __init__(
        self,
        setup: RedriverSetup,
        run: RunLimits,
        number: int,
        received: Sequence[ReceivedLetter] = (),
        *,
        known: KnownIntents,
        verdict_source: VerdictSource | None = None,
    ) -> None:
        self.taken = 0
        self._in_hand = LettersInHand(received)
        self._run = run
        self._dlq = setup.dlq
        self._main_arn = setup.main_arn
        self._fifo = setup.pipeline.fifo
        self._receiver = ChunkReceiver(
            setup.dlq, run, setup.tally, setup.in_parallel, fifo=setup.pipeline.fifo
        )
        self._known = known
        self._settling = Settling(setup.router, setup.mover, setup.tally)
        self._room = setup.room
        self._mover = setup.mover
        self._tally = setup.tally
        self._verdict_source = verdict_source or RouterClient(
            router=setup.router, tally=setup.tally
        )
        self._slot = Slot(setup.journal, f"{run.owner}.{number}", run.owner, home=setup.home)
        self._stopped_groups: set[str] = set()
        # The letters of the present chunk that intents of earlier runs name.
        self._on_record: set[str] = set()
        self._unfilled = UnfilledBatches(run.clock, setup.mover.target_of)
        self._letters_come = False
        self._is_warm = False

    @property
    def rests_until(self) -> float:
        return 0.0

    @property
    def is_done(self) -> bool:
        """Whether the queue is empty, as far as the polls of the run's workers can tell."""
        return self._run.queue_is_empty and not self._in_hand and not self._unfilled

    def take_turn(self, letters: int) -> None:
        """Receive and move up to so many letters. Raises the errors of ENDS_A_RUN."""
        end = self.taken + letters
        while not self.is_done and self.taken < end:
            if len(self._run.left) >= MOST_LEFT:
                raise RunStopped(f"{len(self._run.left)} messages had to be left in place")
            if self._run.queue_is_empty and not self._in_hand:
                self._move(())
                continue
            granted = self._run.permission(min(MAX_PLANS, end - self.taken))
            began, under_way = self._run.clock(), self._run.chunks.chunks
            chunk = self.receive_chunk(granted, self._in_hand)
            self.taken += len(chunk)
            paid_before = self._paid
            sent = self._move(chunk) if chunk or self._unfilled else 0
            # What waits for its batch keeps its permission.
            self._run.give_back(granted - sent - self._paid + paid_before)
            # After the move: the next letters of its FIFO groups may only be visible now.
            self._run.note_chunk(len(chunk))
            if len(chunk) == MAX_PLANS:
                self._note_full_chunk(self._run.clock() - began, under_way)

    def _note_full_chunk(self, seconds: float, under_way: int) -> None:
        chunks, size = self._run.chunks, self._in_hand.taken_bytes
        if under_way * size > MOST_BYTES:
            chunks.fall_back()
        elif self._is_warm:
            fits = 2 * under_way * size <= MOST_BYTES
            may_grow = fits and self._run.has_enough_for_more
            chunks.note(seconds, of=under_way, may_grow=may_grow)
        # The first chunk of a worker pays for connections.
        self._is_warm = True

    def release(self) -> None:
        """Give back the letters in hand."""
        waiting = [order.received for order in self._unfilled.orders]
        self._release([*self._in_hand, *waiting])
        self._in_hand.clear()
        self._unfilled.clear()

    @property
    def _paid(self) -> int:
        """The letters that wait for their batch, and that the pace has permitted."""
        return sum(isinstance(order.decision, Redrive) for order in self._unfilled.orders)

    def _may_wait(self, order: Order) -> bool:
        """Whether a letter may wait for its batch: more come soon, and it has no past."""
        copy = order.copy
        return self._letters_come and not order.maybe_sent and copy not in self._on_record

    def close(self) -> None:
        """Remove the last intent, unless it has to stay: all its letters are accounted for."""
        try:
            self._slot.close()
        except JournalUnavailable:
            # A finished intent that stays names only letters that are gone.
            self._tally.count(Count.JOURNAL_UNAVAILABLE)

    def receive_chunk(self, most: int, in_hand: LettersInHand) -> list[ReceivedLetter]:
        """Up to `most` letters that fit into one router request; the rest stays in `in_hand`."""
        self._receiver.fill(
            in_hand, most, whole_receives=in_hand is self._in_hand and most > MAX_BATCH
        )
        return in_hand.take(most)

    def _move(self, chunk: Sequence[ReceivedLetter]) -> int:
        """Move one chunk; returns how many letters went back to the main queue."""
        # SQS may show a letter to two workers of the run at once.
        mine = self._known.take(received.letter.message_id for received in chunk)
        in_hand = mine | {order.copy for order in self._unfilled.orders}
        self._letters_come = not self._fifo and bool(chunk) and self._run.has_enough_to_wait
        try:
            return self._move_taken(
                [received for received in chunk if received.letter.message_id in mine]
            )
        finally:
            self._known.put_back(in_hand - {order.copy for order in self._unfilled.orders})

    def _move_taken(self, chunk: Sequence[ReceivedLetter]) -> int:
        try:
            unmoved, maybe_sent = self._unmoved(chunk)
            judged = self._judge(unmoved, maybe_sent)
        except BaseException:
            self._release(chunk)
            raise
        judged = self._unfilled.take(judged, self._may_wait, MAX_PLANS)
        left = self._mover.move(judged, self._slot, queue=self._dlq)
        stayed = {received.letter.message_id for received in (*left.stayed, *left.unknown)}
        self._leave(left.stayed)
        self._keep_locked(left.unknown)
        moved = [order for order in judged if order.copy not in stayed]
        # Those that may still be in the queue are kept on record.
        self._known.note_gone(order.copy for order in moved if not self._slot.keeps(order.copy))
        return sum(isinstance(order.decision, Redrive) for order in moved)

    def _unmoved(
        self, chunk: Sequence[ReceivedLetter]
    ) -> tuple[list[ReceivedLetter], Mapping[str, bool]]:
        """The letters that are still to be moved, and which of them may have been sent before:
        True where that run was killed, False where its send had no answer.

        Copies that were sent are deleted. Those that another worker may be sending keep their
        locks: made visible, they would only be received again.
        """
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
        self._tally.count_tried(len(sent) + len(unmoved))
        if sent:
            self._settle(sent)
        return unmoved, maybe_sent

    def _settle(self, sent: Sequence[SentBefore]) -> None:
        gone = self._settling.settle(sent, self._dlq)
        # After its lock's end, the delete of a letter may be answered and have no effect.
        in_time = self._run.clock() + MARGIN
        self._known.note_gone(
            each.copy for each in sent if each.copy in gone and in_time < each.received.locked_until
        )

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

    def _judge(
        self, letters: Sequence[ReceivedLetter], maybe_sent: Mapping[str, bool]
    ) -> list[Order]:
        verdicts = self._verdict_source.verdicts(letters, served=False)
        if self._fifo and letters:
            groups = {
                received.letter.group for received in letters if received.letter.group is not None
            }
            waits = self._room.waits(sorted(groups), letters[0].home)
            verdicts = as_groups(letters, verdicts, waits, maybe_sent, now=self._run.clock())
        self._leave(
            [received for received in letters if received.letter.message_id not in verdicts]
        )
        share = self._run.delay_share
        return [
            replace(
                order,
                decision=order.shortened(share),
                maybe_sent=order.copy in maybe_sent,
                after_kill=maybe_sent.get(order.copy, False),
            )
            if share < 1 or order.copy in maybe_sent
            else order
            for order in orders(letters, verdicts)
        ]

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
