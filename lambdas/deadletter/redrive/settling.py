"""Deletes letters that were sent before, once the ledger has all facts of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import LetterStore, ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import OnRecord, Plan
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN
from deadletter.redrive.report import Tally
from deadletter.routing.router import Router, Verdict, question_about, usable_verdicts
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


class Settling:
    """Settles what earlier runs have sent, in queues and lanes.

    A run that was killed after its mark could not write the facts of letters that it sent without
    a stamp. The router reads the ledger: its verdict on the old copy gives the letter's origin and
    age, and the journal the attempt.
    """

    def __init__(self, router: Router, mover: Mover, tally: Tally) -> None:
        self._router = router
        self._mover = mover
        self._tally = tally

    def settle(self, sent: Sequence[SentBefore], store: LetterStore) -> set[str]:
        """Delete these letters from their place; returns the copies that are surely gone.

        One whose facts can't be written stays. Raises RouterUnavailable, and deletes nothing then.
        """
        if not sent:
            return set()
        self._tally.count(Count.ALREADY_SENT, len(sent))
        incomplete = self._write_missing([each for each in sent if each.record.unrecorded])
        whole = [each for each in sent if each.copy not in incomplete]
        undeleted = store.delete([(each.received, each.confirmation) for each in whole])
        gone = {each.copy for each in whole} - {each.letter.message_id for each in undeleted}
        self._tally.count(Count.UNDELETED, len(undeleted))
        self._tally.count_gone(len(gone))
        self._tally.count_futile(len(sent) - len(gone))
        return gone

    def _write_missing(self, sent: Sequence[SentBefore]) -> set[str]:
        """Write facts to the ledger; returns the copies of which some are missing still."""
        if not sent:
            return set()
        questions = [question_about(each.received, served=False) for each in sent]
        copies = [each.copy for each in sent]
        verdicts = usable_verdicts(self._router.decide(questions), copies)
        stamps: dict[str, Stamp] = {}
        for each in sent:
            if each.copy in verdicts and each.record.unrecorded is not None:
                new_id, plan = each.record.unrecorded
                stamps[new_id] = _stamp(verdicts[each.copy], plan)
        incomplete = set(copies)
        if stamps and self._mover.record(stamps):
            incomplete -= verdicts.keys()
        self._tally.count(Count.REDRIVE_UNRECORDED, len(incomplete))
        return incomplete


def _stamp(verdict: Verdict, plan: Plan) -> Stamp:
    """The stamp that a letter was sent with, as far as it is known.

    The attempt of a letter from the waiting room is not in the journal.
    """
    stamp = replace(verdict.stamp, attempt=plan.attempt or verdict.stamp.attempt)
    if plan.target != MAIN:
        return stamp
    return replace(stamp, decision="REDRIVE", reason=None, rule=None, because=None)
