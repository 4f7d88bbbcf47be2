"""Writes facts that a killed run left out: of letters that were sent without a stamp."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Protocol

from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.journal import Plan
from deadletter.redrive.mover import Mover
from deadletter.redrive.order import MAIN
from deadletter.redrive.report import Tally
from deadletter.routing.router import Router, Verdict, question_about, usable_verdicts
from deadletter.signals.figures import Count


class SentLetters(Protocol):
    """What the journal says of letters that were sent without a stamp."""

    def unrecorded(self, copy: str) -> str | None:
        """The new message id of such a copy; None for any other."""

    def plan_of(self, copy: str) -> Plan:
        """The plan under which such a copy was sent."""


class MissingFacts:
    """Writes to the ledger what a run that was killed after its mark could not write.

    The router reads the ledger: its verdict on the old copy gives the letter's origin and age,
    and the journal the attempt.
    """

    def __init__(self, router: Router, mover: Mover, tally: Tally) -> None:
        self._router = router
        self._mover = mover
        self._tally = tally

    def write(self, sent: Sequence[ReceivedLetter], intents: SentLetters) -> set[str]:
        """Write what is missing. Returns the copies of which nothing is missing any more.

        Raises RouterUnavailable.
        """
        copies = {received.letter.message_id for received in sent}
        missing = [received for received in sent if intents.unrecorded(received.letter.message_id)]
        if not missing:
            return copies
        questions = [question_about(received, served=False) for received in missing]
        incomplete = {question.letter.message_id for question in questions}
        verdicts = usable_verdicts(self._router.decide(questions), list(incomplete))
        stamps: dict[str, Stamp] = {}
        for copy, verdict in verdicts.items():
            new_id = intents.unrecorded(copy)
            if new_id is not None:
                stamps[new_id] = _stamp(verdict, intents.plan_of(copy))
        if stamps and self._mover.record(stamps):
            incomplete -= verdicts.keys()
        self._tally.count(Count.REDRIVE_UNRECORDED, len(incomplete))
        return copies - incomplete


def _stamp(verdict: Verdict, plan: Plan) -> Stamp:
    """The stamp that a letter was sent with, as far as it is known.

    The attempt of a letter from the waiting room is not in the journal.
    """
    stamp = replace(verdict.stamp, attempt=plan.attempt or verdict.stamp.attempt)
    if plan.target != MAIN:
        return stamp
    return replace(stamp, decision="REDRIVE", reason=None, rule=None, because=None)
