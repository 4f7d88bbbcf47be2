"""Takes letters from a queue, chunk after chunk, and has them moved."""

from __future__ import annotations

from collections.abc import Sequence

from deadletter.contract import Metric
from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import (
    MAX_BATCH,
    Queue,
    QueueUnavailable,
    ReceivedLetter,
    TooManyInFlight,
)
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.journal import (
    MAX_PLANS,
    OUT_OF_ROOM,
    ROOM,
    Journal,
    JournalUnavailable,
    Slot,
    open_intents,
)
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import (
    MAX_REQUEST,
    RouterClient,
    one_request,
    orders,
    request_bytes,
)
from deadletter.redrive.run_limits import RunLimits, RunStopped
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoom
from deadletter.routing.decision import Redrive

ENOUGH_EMPTY_POLLS = 2
"""A poll may return nothing from a queue that is not empty."""


class QueueWorker:
    """One of several that drain a queue side by side; each has its own slot in the journal."""

    def __init__(
        self,
        *,
        run: RunLimits,
        number: int,
        source: Queue,
        main_arn: str,
        fifo: bool,
        journal: Journal,
        room: WaitingRoom,
        asker: RouterClient,
        mover: Mover,
        tally: Tally,
    ) -> None:
        self._run = run
        self._source = source
        self._main_arn = main_arn
        self._fifo = fifo
        self._journal = journal
        self._room = room
        self._asker = asker
        self._mover = mover
        self._tally = tally
        self._slot = Slot(journal, f"{run.owner}.{number}", run.owner)
        self._stopped: set[str] = set()

    def work(self, carried: Sequence[ReceivedLetter] = ()) -> None:
        """Drain until the queue is empty or the run has to end; `carried` is in hand already."""
        hand = list(carried)
        empty_polls = 0
        try:
            while empty_polls < ENOUGH_EMPTY_POLLS:
                granted = self._run.permission(MAX_PLANS)
                chunk = self.take_chunk(granted, hand)
                sent = self._handle(chunk) if chunk else 0
                self._run.give_back(granted - sent)
                empty_polls = 0 if chunk else empty_polls + 1
        except RunStopped as stop:
            self._run.stop(str(stop))
        except QueueUnavailable as error:
            self._tally.count(Metric.QUEUE_UNAVAILABLE)
            self._run.stop(f"the queue gave no answer: {error}")
        except RoomUnavailable:
            self._tally.count(Metric.ROOM_UNAVAILABLE)
            self._run.stop("the waiting room gave no answer")
        except JournalUnavailable:
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)
            self._run.stop("the journal gave no answer")
        finally:
            self._run.left.extend(one.handle for one in hand)
        try:
            self._slot.close()
        except JournalUnavailable:
            # A finished intent that stays speaks only of letters that are gone.
            self._tally.count(Metric.JOURNAL_UNAVAILABLE)

    def take_chunk(self, most: int, hand: list[ReceivedLetter]) -> list[ReceivedLetter]:
        """Up to `most` letters that fit into one router request; the rest stays in `hand`."""
        while len(hand) < most and sum(map(request_bytes, hand)) < MAX_REQUEST:
            wanted = min(MAX_BATCH, most - len(hand))
            try:
                # Only an empty hand waits for letters: others are waiting in a full one.
                found = self._source.receive(wanted, self._run.lock_seconds, 0 if hand else 1)
            except TooManyInFlight:
                if not hand:
                    raise
                break
            self._tally.count(Metric.RECEIVED, len(found))
            hand[:] = _latest([*hand, *found])
            if not found:
                break
        chunk, hand[:] = one_request(hand, most)
        return chunk

    def _handle(self, chunk: Sequence[ReceivedLetter]) -> int:
        """Move one chunk; returns how many letters went back to the main queue."""
        try:
            judged = self._judge(self._unmoved(chunk))
        except BaseException:
            self._run.left.extend(one.handle for one in chunk)
            raise
        left = self._mover.move_from_queue(self._source, judged, self._slot)
        moved = {one.copy for one in judged} - {one.letter.message_id for one in left}
        self._leave(left)
        return sum(1 for one in judged if one.copy in moved and isinstance(one.decision, Redrive))

    def _unmoved(self, chunk: Sequence[ReceivedLetter]) -> list[ReceivedLetter]:
        """The letters still to be moved: those that somebody has sent already are deleted.

        The journal is read after the letters were taken: a mark that was written
        before their last lock ended is in it.
        """
        opens = open_intents(self._journal.read(), self._run.clock())
        targets = {
            one.letter.message_id: opens.unknown_target(one.letter.message_id) for one in chunk
        }
        roomy = [one for one in chunk if targets[one.letter.message_id] in (ROOM, OUT_OF_ROOM)]
        in_room = self._room.find(roomy) if roomy else {}
        if len(in_room) < len(roomy):
            # What is not in the room may have been let out since the journal was read.
            opens = open_intents(self._journal.read(), self._run.clock())
        fresh: list[ReceivedLetter] = []
        sent: list[tuple[ReceivedLetter, Confirmation]] = []
        for one in chunk:
            copy = one.letter.message_id
            proof = (
                opens.confirmation_of(copy)
                or in_room.get(copy)
                or self._mover.confirmation_of(copy)
            )
            if proof is not None:
                sent.append((one, proof))
            elif (
                opens.is_busy(copy) or self._is_foreign(one) or self._group_of(one) in self._stopped
            ):
                self._leave([one])
            else:
                maybe_sent = targets[copy] not in (None, ROOM)
                self._tally.count(Metric.POSSIBLE_DUPLICATE, 1 if maybe_sent else 0)
                fresh.append(one)
        if sent:
            self._tally.count(Metric.ALREADY_SENT, len(sent))
            self._tally.count(Metric.UNDELETED, len(self._source.delete(sent)))
        return fresh

    def _group_of(self, taken: ReceivedLetter) -> str | None:
        """The letter's FIFO group; a standard queue's groups are tenants and keep no order."""
        return taken.letter.group if self._fifo else None

    def _is_foreign(self, taken: ReceivedLetter) -> bool:
        """Whether SQS says that this letter died in another queue than this pipeline's."""
        source = taken.letter.source_arn
        foreign = bool(source and self._main_arn and source != self._main_arn)
        self._tally.count(Metric.FOREIGN_LETTER, 1 if foreign else 0)
        return foreign

    def _judge(self, letters: Sequence[ReceivedLetter]) -> list[Order]:
        verdicts = self._asker.verdicts(letters, served=False)
        if self._fifo and letters:
            groups = {one.letter.group for one in letters if one.letter.group is not None}
            verdicts = as_groups(
                letters, verdicts, self._room.waits(sorted(groups), letters[0].home)
            )
        judged = orders(letters, verdicts)
        self._leave([one for one in letters if one.letter.message_id not in verdicts])
        return judged

    def _leave(self, letters: Sequence[ReceivedLetter]) -> None:
        self._tally.count(Metric.LEFT_IN_PLACE, len(letters))
        self._run.left.extend(one.handle for one in letters)
        # A group that cannot go on with these does not go on with the next in this run.
        self._stopped.update(group for one in letters if (group := self._group_of(one)) is not None)


def _latest(letters: Sequence[ReceivedLetter]) -> list[ReceivedLetter]:
    """Each letter once: SQS may hand a copy out twice, and only its last handle deletes it."""
    return list({one.letter.message_id: one for one in letters}.values())
