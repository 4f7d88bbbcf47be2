"""The loop that takes letters out of a queue or a lane, and the story of a letter in it.

 1. A source takes a batch: from a queue each letter is locked by its visibility, in a lane the
    intent in the shard's slot claims it.
 2. What is on record of each letter is read from the journal, as late as the source needs it.
 3. A letter that was sent before is settled: missing facts are written, and it is deleted.
 4. A letter that another worker may be sending, or that is not ours, stays.
 5. The others are judged; on FIFO the first one that waits takes its group along.
 6. The pace says how many may go. A queue asks before step 1, because a receive hides a letter and
    counts; what is not used is given back.
 7. An intent names each letter with its target, unless the claim does.
 8. A letter that may have been sent before is counted as a possible duplicate.
 9. Each batch is sent once, and none in the last seconds of its locks.
10. What SQS or the waiting room has confirmed is marked.
11. Facts of letters that went without a stamp are written.
12. In the lane of a replay run, a ticket takes the place of each letter.
13. What is confirmed is deleted.
14. What is not surely gone stays on record, for the run that sees it again.

Whatever raises, at each step a letter is in its place or confirmed in another one, and from step 7
to step 14 it is on record. The mover takes steps 7 to 14.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Protocol

from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import LetterStore, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.fifo import as_groups
from deadletter.redrive.journal import JournalUnavailable, OnRecord, Plan, Slot
from deadletter.redrive.mover import MARGIN, Left, Mover
from deadletter.redrive.order import MAIN, Order
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import RouterClient, VerdictSource, orders
from deadletter.redrive.waiting_room import Wait
from deadletter.routing.router import Router, Verdict, question_about, usable
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count


@dataclass(frozen=True, slots=True)
class SentBefore:
    """A letter in its place, the proof that it is elsewhere, and what is on record of it."""

    received: ReceivedLetter
    confirmation: Confirmation
    record: OnRecord

    @property
    def copy(self) -> str:
        return self.received.letter.message_id


@dataclass(frozen=True, slots=True)
class Settling:
    """Settles what earlier runs have sent, in queues and lanes.

    A run that was killed after its mark could not write the facts of letters that it sent without
    a stamp. The router reads the ledger: its verdict on the old copy gives the letter's origin and
    age, and the journal the attempt.
    """

    router: Router
    mover: Mover
    tally: Tally

    def settle(self, sent: Sequence[SentBefore], store: LetterStore) -> set[str]:
        """Delete these letters from their place; returns the copies that are surely gone.

        One whose facts can't be written stays. Raises RouterUnavailable, and deletes nothing then.
        """
        if not sent:
            return set()
        self.tally.count(Count.ALREADY_SENT, len(sent))
        incomplete = self._write_missing([each for each in sent if each.record.unrecorded])
        whole = [each for each in sent if each.copy not in incomplete]
        undeleted = store.delete([(each.received, each.confirmation) for each in whole])
        gone = {each.copy for each in whole} - {each.letter.message_id for each in undeleted}
        self.tally.count(Count.UNDELETED, len(undeleted))
        self.tally.count_gone(len(gone))
        self.tally.count_futile(len(sent) - len(gone))
        return gone

    def _write_missing(self, sent: Sequence[SentBefore]) -> set[str]:
        """Write facts to the ledger; returns the copies of which some are missing still."""
        if not sent:
            return set()
        questions = [question_about(each.received, served=False) for each in sent]
        copies = [each.copy for each in sent]
        verdicts = usable(self.router.decide(questions).verdicts, copies)
        stamps: dict[str, Stamp] = {}
        for each in sent:
            if each.copy in verdicts and each.record.unrecorded is not None:
                new_id, plan = each.record.unrecorded
                stamps[new_id] = _stamp(verdicts[each.copy], plan)
        incomplete = set(copies)
        if stamps and self.mover.record(stamps):
            incomplete -= verdicts.keys()
        self.tally.count(Count.REDRIVE_UNRECORDED, len(incomplete))
        return incomplete


def _stamp(verdict: Verdict, plan: Plan) -> Stamp:
    """The stamp that a letter was sent with, as far as it is known.

    The attempt of a letter from the waiting room is not in the journal.
    """
    stamp = replace(verdict.stamp, attempt=plan.attempt or verdict.stamp.attempt)
    if plan.target != MAIN:
        return stamp
    return replace(stamp, decision="REDRIVE", reason=None, rule=None, because=None)


@dataclass(frozen=True, slots=True)
class BatchPart:
    """Letters of a batch that are in memory together, on record in `slot` when they move.

    Those `sent` before only have to be deleted. Of the others some are `maybe_sent`: True where
    that run was killed, False where its send had no answer.
    """

    slot: Slot
    sent: Sequence[SentBefore]
    letters: Sequence[ReceivedLetter]
    maybe_sent: Mapping[str, bool]

    @classmethod
    def under(
        cls,
        slot: Slot,
        letters: Sequence[ReceivedLetter],
        records: Mapping[str, OnRecord],
        proofs: Mapping[str, Confirmation],
    ) -> BatchPart:
        """Letters under a claim; those with a proof that they are elsewhere were sent."""
        return cls(
            slot,
            [
                SentBefore(received, proofs[copy], records[copy])
                for received in letters
                if (copy := received.letter.message_id) in proofs
            ],
            [received for received in letters if received.letter.message_id not in proofs],
            {copy: not each.had_no_answer for copy, each in records.items() if each.maybe_sent},
        )


class LetterSource(Protocol):
    """A place that letters are taken out of. Raises the errors of ENDS_A_RUN.

    served    whether its letters have waited for their delay
    admitted  the THROTTLE rule whose rate lets its letters go
    """

    served: bool
    admitted: str | None

    @property
    def store(self) -> LetterStore:
        """What deletes its letters."""

    @property
    def is_done(self) -> bool:
        """Whether it can find no more letters in this run."""

    @property
    def rests_until(self) -> float:
        """Epoch seconds before which it may give no letter; 0 without a rate of its own."""

    def take(self, most: int) -> AbstractContextManager[int]:
        """Take up to so many letters in hand, and say how many; they are given up at its end."""

    def parts(self) -> Iterable[BatchPart]:
        """The letters in hand that are free to move, or were sent before."""

    def requests(self, letters: Sequence[ReceivedLetter]) -> Iterable[Sequence[ReceivedLetter]]:
        """The letters that are judged and moved together, one request after the other."""

    def waits(self, letters: Sequence[ReceivedLetter]) -> Mapping[str, Wait] | None:
        """The waits of the FIFO groups of these letters, outside of this place.

        None if its letters have no groups that the first one that waits takes along.
        """

    def going(self, letters: Sequence[ReceivedLetter], judged: Sequence[Order]) -> Sequence[Order]:
        """What moves now, of what was judged; each other letter stays."""

    def move(self, orders: Sequence[Order], slot: Slot) -> Left:
        """Carry out what moves now, out of this place."""

    def moved(self, letters: Sequence[ReceivedLetter], gone: Sequence[Order], left: Left) -> None:
        """Note what is gone, and leave the others."""

    def note_gone(self, copies: Iterable[str]) -> None:
        """These copies are surely deleted: what intents say of them here is explained."""

    def close(self) -> None:
        """Remove the last intent, unless it has to stay. Raises JournalUnavailable."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrainSetup:
    """What is given to each worker that empties a place; `clock` gives epoch seconds."""

    pipeline: Pipeline
    mover: Mover
    router: Router
    tally: Tally
    clock: Callable[[], float]


class Draining:
    """One worker of one place; never used by two threads at once.

    It asks the router what to do with letters unless it is given another `verdict_source`.
    """

    def __init__(
        self,
        setup: DrainSetup,
        source: LetterSource,
        verdict_source: VerdictSource | None = None,
    ) -> None:
        self.taken = 0
        self._source = source
        self._settling = Settling(setup.router, setup.mover, setup.tally)
        self._judge = verdict_source or RouterClient(
            router=setup.router, tally=setup.tally, admitted=source.admitted
        )
        self._tally = setup.tally
        self._clock = setup.clock

    @property
    def is_done(self) -> bool:
        return self._source.is_done

    @property
    def rests_until(self) -> float:
        return self._source.rests_until

    def take_turn(self, letters: int) -> None:
        """Move up to so many letters. Raises the errors of ENDS_A_RUN."""
        source, end = self._source, self.taken + letters
        while not source.is_done and self.taken < end:
            self.take_batch(end - self.taken)
            if source.admitted is not None:
                # The other shards of its lane have their turns at the rate that they share.
                return

    def take_batch(self, most: int) -> None:
        """Move the letters of one batch, up to so many. Raises the errors of its source."""
        with self._source.take(most) as taken:
            self.taken += taken
            for part in self._source.parts():
                if part.sent:
                    self._settle(part.sent)
                for request in self._source.requests(part.letters):
                    self._move(request, part)

    def close(self) -> None:
        """Remove the last intent, unless it has to stay: all its letters are accounted for."""
        try:
            self._source.close()
        except JournalUnavailable:
            # One that stays names only letters that are gone; a shard is free when it ends.
            self._tally.count(Count.JOURNAL_UNAVAILABLE)

    def _settle(self, sent: Sequence[SentBefore]) -> None:
        self._tally.count_tried(len(sent))
        gone = self._settling.settle(sent, self._source.store)
        # After its lock's end, the delete of a letter may be answered and have no effect.
        in_time = self._clock() + MARGIN
        self._source.note_gone(
            each.copy for each in sent if each.copy in gone and in_time < each.received.locked_until
        )

    def _move(self, letters: Sequence[ReceivedLetter], part: BatchPart) -> None:
        self._tally.count_tried(len(letters))
        verdicts = self._judge.verdicts(letters, served=self._source.served)
        waits = self._source.waits(letters)
        if waits is not None:
            verdicts = as_groups(letters, verdicts, waits, part.maybe_sent, now=self._clock())
        going = self._source.going(letters, orders(letters, verdicts, part.maybe_sent))
        left = self._source.move(going, part.slot)
        here = {received.letter.message_id for received in (*left.stayed, *left.unknown)}
        gone = [order for order in going if order.copy not in here]
        self._source.moved(letters, gone, left)
        # Those that may still be in their place are kept on record.
        self._source.note_gone(order.copy for order in gone if not part.slot.keeps(order.copy))
