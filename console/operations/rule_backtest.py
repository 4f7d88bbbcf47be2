"""Letters that a rule is tried on beside those of a queue: the parked and the waiting ones."""

from __future__ import annotations

from enum import StrEnum

from deadletter.message.letter import Letter

from .adapter_errors import aws_errors
from .app import App, DeployedPipeline
from .letter_walk import FoundLetter, letters_of_lane, look_at_parked, waiting_room
from .letters import Sample
from .session import Session


class Against(StrEnum):
    """What a rule is tried on."""

    SAMPLE = "sample"
    PARKED = "parked"
    WAITING = "waiting"
    LEDGER = "ledger"


def kept_letters(
    session: Session, app: App, pipeline: DeployedPipeline, against: Against, limit: int
) -> Sample:
    """Up to `limit` letters that are parked, or wait in any lane. Nothing is moved.

    They count as being in the DLQ: a trial asks what a rule matches, not where a letter goes.
    """
    if against is Against.WAITING:
        waiting = _waiting(session, app, pipeline, limit)
        return Sample(against, waiting, len(waiting))
    return _parked(session, app, pipeline, limit)


def _waiting(session: Session, app: App, pipeline: DeployedPipeline, limit: int) -> list[Letter]:
    with aws_errors():
        lanes = sorted(lane.name for lane in waiting_room(session, app, pipeline).lanes())
    # An index may lag and show a copy in two lanes.
    letters: dict[str, Letter] = {}
    for lane in lanes:
        for found in letters_of_lane(session, app, pipeline, lane):
            letters.setdefault(found.letter.message_id, found.letter)
            if len(letters) >= limit:
                return list(letters.values())
    return list(letters.values())


def _parked(session: Session, app: App, pipeline: DeployedPipeline, limit: int) -> Sample:
    letters: dict[str, Letter] = {}

    def see(found: FoundLetter) -> None:
        if len(letters) < limit:
            letters.setdefault(found.letter.message_id, found.letter)

    walk = look_at_parked(
        session, app, pipeline, see, wanted=lambda: len(letters) < limit, whole=False
    )
    return Sample(Against.PARKED, list(letters.values()), len(letters), walk.not_given_back)
