"""Diagnoses failures: what that takes is loaded with the first failure of a process."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from deadletter.contract import Category
from deadletter.failure.fate import COLLIDED, GIVEN_BACK, Fate

if TYPE_CHECKING:
    from deadletter.contract import Blame
    from deadletter.failure.blame import TeamsWord
    from deadletter.failure.classify import Diagnosis
    from deadletter.failure.foreign import Link
    from deadletter.message.letter import Letter


def diagnose(
    error: BaseException,
    letter: Letter | None,
    *,
    now: float,
    team: TeamsWord | None = None,
    dependency: str = "",
) -> Diagnosis:
    """As `failure.classify.diagnose`; without `team` the team says nothing of its exceptions."""
    from deadletter.failure import blame, classify

    team = blame.SILENT if team is None else team
    return classify.diagnose(error, letter, now=now, team=team, dependency=dependency)


def given_back(fate: Fate) -> Diagnosis:
    """What is recorded of a message that comes back through no fault of its own."""
    from deadletter.failure.classify import Diagnosis

    return Diagnosis(Category.TRANSIENT, str(fate), GIVEN_BACK)


def collided(differences: str) -> Diagnosis:
    """What is recorded of a message whose key belongs to another one: the redriver parks it."""
    from deadletter.failure.classify import Diagnosis

    return Diagnosis(Category.BUSINESS, "Collision", differences, fingerprint=COLLIDED)


def speakers_of(
    error: BaseException, team: TeamsWord | None = None, before: BaseException | None = None
) -> tuple[Sequence[Link], Blame, Sequence[BaseException]]:
    """The chain of an error without what was handled `before`, who is to blame, and who says so."""
    from deadletter.failure import blame, foreign

    earlier = {id(link.error) for link in foreign.chain_of(before)} if before is not None else set()
    chain = [link for link in foreign.chain_of(error) if id(link.error) not in earlier]
    return chain, *blame.blame_and_speakers(chain, blame.SILENT if team is None else team)


def is_throttled(chain: Sequence[Link], blame: Blame, speakers: Sequence[BaseException]) -> bool:
    """As `failure.classify.is_throttled`."""
    from deadletter.failure import classify

    return classify.is_throttled(chain, blame, speakers)
