"""Receives letters from a queue, chunk after chunk, and has them moved."""

from __future__ import annotations

from collections.abc import Sequence

from deadletter.contract import Metric
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import MAX_BATCH, ReceivedLetter, TooManyInFlight
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.journal import (
    MAX_PLANS,
    OUT_OF_ROOM,
    ROOM,
    JournalUnavailable,
    Slot,
    open_intents,
)
from deadletter.redrive.letters_in_hand import LettersInHand
from deadletter.redrive.order import Order
from deadletter.redrive.redriver_setup import RedriverSetup
from deadletter.redrive.router_client import RouterClient, VerdictSource, orders
from deadletter.redrive.run_limits import RunLimits
from deadletter.routing.decision import Redrive

ENOUGH_EMPTY_POLLS = 2
"""A poll may return nothing from a queue that is not empty."""


class QueueWorker:
    """One of several workers that drain a queue in parallel, each with its own journal slot.

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
        verdict_source: VerdictSource | None = None,
    ) -> None:
        self.taken = 0
        self._empty_polls = 0
        self._in_hand = LettersInHand(received)
        self._run = run
        self._dlq = setup.dlq
        self._main_arn = setup.main_arn
        self._fifo = setup.pipeline.fifo
        self._journal = setup.journal
        self._room = setup.room
        self._mover = setup.mover
        self._tally = setup.tally
        self._verdict_source = verdict_source or RouterClient(
            router=setup.router, tally=setup.tally
        )
        self._slot = Slot(setup.journal, f"{run.owner}.{number}", run.owner, home=setup.home)
        self._stopped_groups: set[str] = set()

    @property
    def is_done(self) -> bool:
        """Whether the queue is empty, as far as polls can tell."""
        return self._empty_polls >= ENOUGH_EMPTY_POLLS

    def take_turn(self, letters: int) -> None:
        """Receive and move up to so many letters. Raises the errors of ENDS_A_RUN."""
        end = self.taken + letters
        while not self.is_done and self.taken < end:
            granted = self._run.permission(min(MAX_PLANS, end - self.taken))
            chunk = self.receive_chunk(granted, self._in_hand)
            self.taken += len(chunk)
            sent = self._move(chunk) if chunk else 0
            self._run.give_back(granted - sent)
            self._empty_polls = 0 if chunk else self._empty_polls + 1

    def release(self) -> None:
        """Give back the letters in hand."""
        self._release(list(self._in_hand))
        self._in_hand.clear()

    def close(self) -> None:
        """Remove the last intent, unless it has to stay: all its letters are accounted for."""
        try:
            self._slot.close()
        except JournalUnavailable:
            # A finished intent that stays names only letters that are gone.
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)

    def receive_chunk(self, most: int, in_hand: LettersInHand) -> list[ReceivedLetter]:
        """Up to `most` letters that fit into one router request; the rest stays in `in_hand`."""
        while len(in_hand) < most and not in_hand.fill_a_request:
            wanted = min(MAX_BATCH, most - len(in_hand))
            # Long polling only with an empty hand: otherwise letters wait to be moved.
            wait_seconds = 0 if in_hand else 1
            try:
                polled = self._dlq.receive(wanted, self._run.lock_seconds, wait_seconds)
            except TooManyInFlight:
                if not in_hand:
                    raise
                break
            self._tally.count(Metric.RECEIVED, len(polled))
            in_hand.add(polled)
            if not polled:
                break
        return in_hand.take(most)

    def _move(self, chunk: Sequence[ReceivedLetter]) -> int:
        """Move one chunk; returns how many letters went back to the main queue."""
        try:
            judged = self._judge(self._unmoved(chunk))
        except BaseException:
            self._release(chunk)
            raise
        left = self._mover.move_from_queue(self._dlq, judged, self._slot)
        unmoved = {received.letter.message_id for received in (*left.stayed, *left.unknown)}
        moved = {order.copy for order in judged} - unmoved
        self._leave(left.stayed)
        self._keep_locked(left.unknown)
        return sum(order.copy in moved and isinstance(order.decision, Redrive) for order in judged)

    def _unmoved(self, chunk: Sequence[ReceivedLetter]) -> list[ReceivedLetter]:
        """The letters that are still to be moved; copies that were sent before are deleted.

        The journal is read after the letters were received: a mark that was written
        before their last lock ended is in it.
        """
        intents = open_intents(self._journal.read(), self._run.clock())
        targets = {
            received.letter.message_id: intents.unknown_target(received.letter.message_id)
            for received in chunk
        }
        maybe_in_room = [
            received
            for received in chunk
            if targets[received.letter.message_id] in (ROOM, OUT_OF_ROOM)
        ]
        in_room = self._room.find(maybe_in_room) if maybe_in_room else {}
        if len(in_room) < len(maybe_in_room):
            # A letter not found there may have left the room since the journal was read.
            intents = open_intents(self._journal.read(), self._run.clock())
        unmoved: list[ReceivedLetter] = []
        sent: list[tuple[ReceivedLetter, Confirmation]] = []
        for received in chunk:
            copy = received.letter.message_id
            confirmation = (
                intents.confirmation_of(copy)
                or in_room.get(copy)
                or self._mover.confirmation_of(copy)
            )
            if confirmation is not None:
                sent.append((received, confirmation))
            elif (
                intents.is_busy(copy)
                or self._mover.is_unknown(copy)
                or self._is_foreign(received)
                or self._group_of(received) in self._stopped_groups
            ):
                self._leave([received])
            else:
                maybe_sent = targets[copy] not in (None, ROOM)
                self._tally.count_now(Metric.POSSIBLE_DUPLICATE, int(maybe_sent))
                unmoved.append(received)
        self._tally.count_tried(len(sent) + len(unmoved))
        if sent:
            self._tally.count(Metric.ALREADY_SENT, len(sent))
            undeleted = self._dlq.delete(sent)
            self._tally.count(Metric.UNDELETED, len(undeleted))
            self._tally.count_gone(len(sent) - len(undeleted))
            self._tally.count_futile(len(undeleted))
        return unmoved

    def _group_of(self, received: ReceivedLetter) -> str | None:
        """The letter's FIFO group; a standard queue's groups are tenants and keep no order."""
        return received.letter.group if self._fifo else None

    def _is_foreign(self, received: ReceivedLetter) -> bool:
        """Whether SQS says that this letter died in another queue than this pipeline's."""
        died_in = received.letter.source_arn
        foreign = bool(died_in and self._main_arn and died_in != self._main_arn)
        self._tally.count(Metric.FOREIGN_LETTER, int(foreign))
        return foreign

    def _judge(self, letters: Sequence[ReceivedLetter]) -> list[Order]:
        verdicts = self._verdict_source.verdicts(letters, served=False)
        if self._fifo and letters:
            groups = {
                received.letter.group for received in letters if received.letter.group is not None
            }
            waits = self._room.waits(sorted(groups), letters[0].home)
            verdicts = as_groups(letters, verdicts, waits)
        self._leave(
            [received for received in letters if received.letter.message_id not in verdicts]
        )
        return orders(letters, verdicts)

    def _leave(self, letters: Sequence[ReceivedLetter]) -> None:
        self._keep_locked(letters)
        self._run.left.extend(received.handle for received in letters)

    def _keep_locked(self, letters: Sequence[ReceivedLetter]) -> None:
        """Leave letters in place, without making them visible before their locks end."""
        self._tally.count(Metric.LEFT_IN_PLACE, len(letters))
        self._tally.note_left(received.letter.sent_ms for received in letters)
        # A later letter of the group may not overtake these in this run.
        groups = map(self._group_of, letters)
        self._stopped_groups.update(group for group in groups if group is not None)

    def _release(self, letters: Sequence[ReceivedLetter]) -> None:
        """Have letters made visible at the end of the run."""
        self._run.left.extend(received.handle for received in letters)
        self._tally.note_left(received.letter.sent_ms for received in letters)
