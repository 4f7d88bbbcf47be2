"""Who says what is done with letters: the router, or a rescue from the retention of their queue."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from deadletter.contract import MAIN_DLQ, PARKED_LANE, dedicated_lane, parking_source
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import MAX_REQUEST
from deadletter.redrive.waiting_room import never
from deadletter.routing.decision import DUE, Hold, Redrive
from deadletter.routing.router import (
    Router,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
    question_about,
    usable,
)
from deadletter.routing.wire import question_bytes
from deadletter.signals.figures import Count, Figure


def request_bytes(received: ReceivedLetter) -> int:
    """Bytes that a letter adds to a router request, its comma included."""
    question = question_about(received, served=True, admitted=received.held_by)
    return question_bytes(question) + 1


class VerdictSource(Protocol):
    """Says what to do with letters: the router, or a constant answer that needs no router."""

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """At most one verdict for each letter, by message id; without one it stays.

        `served` says that the letters have waited for their delay. Raises the errors of
        ENDS_A_RUN.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class RouterClient:
    """Gets verdicts on letters from the router, and counts what is unusual about them.

    `admitted` is the THROTTLE rule whose rate lets these letters go.
    """

    router: Router
    tally: Tally
    admitted: str | None = None

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """One verdict for each letter that the router gave exactly one, by message id.

        Raises RouterUnavailable if the router does not answer twice: the next run asks again.
        """
        if not letters:
            return {}
        questions = [
            question_about(
                received, served=served and not received.is_rescued, admitted=self.admitted
            )
            for received in letters
        ]
        try:
            answer = self.router.decide(questions)
        except RouterUnavailable:
            self.tally.count(Count.ROUTER_UNAVAILABLE)
            answer = self.router.decide(questions)
        verdicts = usable(answer.verdicts, [question.letter.message_id for question in questions])
        self._count(answer, list(verdicts.values()), asked=len(letters))
        if not served:
            self.tally.count(Count.REDRIVE_BOUNCED, sum(map(_came_back, verdicts.values())))
        return verdicts

    def _count(self, answer: RouterAnswer, verdicts: Sequence[Verdict], *, asked: int) -> None:
        self.tally.count(Count.UNDECIDED, asked - len(verdicts))
        self.tally.count(Figure.FORGED_STAMP, sum(verdict.forged for verdict in verdicts))
        self.tally.count(Count.UNREADABLE_EXPIRY, sum(verdict.undated for verdict in verdicts))
        self.tally.add_rule_notes(
            {rule.rule_id: rule.why for rule in answer.refused_rules},
            answer.shadow_matches,
            answer.limited_rules,
            answer.costly_rules,
            unnamed_refused=answer.unnamed_refused,
            unnamed_limited=answer.unnamed_limited,
        )
        self.tally.note_bad_rows(answer.bad_rows)
        self.tally.count_failures(answer.failures, of=asked)
        self.tally.count_decisions(verdict.decision for verdict in verdicts)


def _came_back(verdict: Verdict) -> bool:
    """Whether the letter was re-driven before; its new stamp counts a re-drive decided now too."""
    decided_now = 1 if isinstance(verdict.decision, Redrive) else 0
    return verdict.stamp.attempt - decided_now >= 1


def orders(
    letters: Sequence[ReceivedLetter],
    verdicts: Mapping[str, Verdict],
    maybe_sent: Mapping[str, bool],
) -> list[Order]:
    """An order for each letter that has a verdict, in the order of the letters.

    `maybe_sent` are those that may have been sent before: True where that run was killed.
    """
    return [
        Order(
            received,
            verdict.decision,
            verdict.stamp,
            maybe_sent=verdict.message_id in maybe_sent,
            after_kill=maybe_sent.get(verdict.message_id, False),
            matched=verdict.matched,
            shadow_matched=verdict.shadow_matched,
            limit=verdict.limit,
        )
        for received in letters
        if (verdict := verdicts.get(received.letter.message_id)) is not None
    ]


def next_request(
    letters: Sequence[ReceivedLetter], most: int
) -> tuple[list[ReceivedLetter], list[ReceivedLetter]]:
    """The letters that go into the next router request, at most `most`, and the rest."""
    size = 0
    for count, received in enumerate(letters[:most]):
        size += request_bytes(received)
        if count and size > MAX_REQUEST:
            return list(letters[:count]), list(letters[count:])
    return list(letters[:most]), list(letters[most:])


LEASE_PAUSE = 2.0
"""Seconds between two tries of a rescue to get the lease of its source."""

_BECAUSE = "rescued from its queue's retention"


def is_parking(source: str) -> bool:
    """Whether a source is a parking queue: its letters wait for a person, no run judges them."""
    return source.startswith(parking_source(""))


def rescue_of(letter: Letter, source: str, now: float) -> Hold:
    """Where a letter of a source goes when it is rescued at `now` (epoch seconds).

    A letter of the DLQ is due at once, to be judged in the waiting room. One of a parking
    queue or a dedicated DLQ goes into a lane that no time opens.
    """
    if source == MAIN_DLQ:
        return Hold(DUE, now, _BECAUSE)
    if is_parking(source):
        return Hold(PARKED_LANE, never(letter), _BECAUSE)
    return Hold(dedicated_lane(source), never(letter), _BECAUSE)


@dataclass(frozen=True, slots=True, kw_only=True)
class RescueVerdicts:
    """The same verdict on each letter of a source, without a router.

    A letter keeps its stamp as it is, with its attempts, its reason and its rule: nothing
    was decided about it. `trusted_senders` are the roles whose stamps are believed.
    """

    source: str
    trusted_senders: frozenset[str]
    clock: Callable[[], float]
    tally: Tally

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        now = self.clock()
        verdicts = {
            received.letter.message_id: self._verdict(received.letter, now) for received in letters
        }
        self.tally.count_decisions(verdict.decision for verdict in verdicts.values())
        return verdicts

    def _verdict(self, letter: Letter, now: float) -> Verdict:
        reading = stamps.read(letter, self.trusted_senders)
        decision = rescue_of(letter, self.source, now)
        return Verdict(letter.message_id, decision, reading.stamp, reading.forged)
