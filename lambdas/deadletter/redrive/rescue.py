"""Rescue from retention: letters move into the waiting room before their queue drops them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from deadletter.contract import MAIN_DLQ, PARKED_LANE, dedicated_lane, parking_source
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.report import Tally
from deadletter.redrive.waiting_room import never
from deadletter.routing.decision import DUE, Hold
from deadletter.routing.router import Verdict

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
        for verdict in verdicts.values():
            self.tally.count_decision(verdict.decision)
        return verdicts

    def _verdict(self, letter: Letter, now: float) -> Verdict:
        reading = stamps.read(letter, self.trusted_senders)
        decision = rescue_of(letter, self.source, now)
        return Verdict(letter.message_id, decision, reading.stamp, reading.forged)
