"""Letters that an earlier run has sent, and their facts if it was killed before it wrote them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from deadletter.message.confirmation import Confirmation
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp
from deadletter.redrive.draining import SentBefore, Settling
from deadletter.redrive.journal import Intent, OpenIntents, Plan, key_of
from deadletter.redrive.report import Tally
from deadletter.routing.decision import Redrive
from deadletter.routing.router import Question, RouterAnswer
from deadletter.signals.figures import Count
from tests.samples import letter, received, verdict

NEW_ID = "0e7ea9ae-9b17-4a3e-8c5a-4f4e4f1bb1a1"


class Asked:
    """A router that decides some letters, a mover that writes facts, and a place of letters."""

    def __init__(self, *decided: str, writes: bool = True, stays: str = "") -> None:
        self._stays = stays
        self.questions: list[str] = []
        self.facts: dict[str, Stamp] = {}
        self._decided, self._writes = decided, writes

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self.questions += [question.letter.message_id for question in questions]
        # The letter was sent: it asks for its facts, and has served no delay in the room.
        assert not any(question.served for question in questions)
        return RouterAnswer([verdict(copy, Redrive(0, "again"), 9) for copy in self._decided])

    def record(self, stamps: Mapping[str, Stamp]) -> bool:
        self.facts.update(stamps)
        return self._writes

    def delete(
        self, letters: Sequence[tuple[ReceivedLetter, Confirmation]]
    ) -> list[ReceivedLetter]:
        return [each for each, _ in letters if each.letter.message_id in self._stays]


def settle(
    asked: Any, *copies: str, target: str = "main", attempt: int = 3
) -> tuple[set[str], Tally]:
    """The copies that are gone; "a" was sent under NEW_ID and without a stamp."""
    plans = [Plan(key_of(copy), target, attempt) for copy in ("a", "b")]
    sent = Intent("s", "run", 1, 0, plans).marked(["a", "b"], {"a": NEW_ID})
    tally = Tally()
    letters = [received(letter(message_id=copy)) for copy in copies]
    intents = OpenIntents([sent], 1e9)
    before = [
        SentBefore(each, Confirmation(copy, "elsewhere"), intents.record_of(copy))
        for copy, each in zip(copies, letters, strict=True)
    ]
    return Settling(asked, asked, tally).settle(before, asked), tally


def test_the_facts_are_written_with_the_attempt_of_the_plan() -> None:
    asked = Asked("a")
    gone, tally = settle(asked, "a", "b", "c")
    assert gone == {"a", "b", "c"}
    assert asked.questions == ["a"]
    [(new_id, stamp)] = asked.facts.items()
    assert new_id == NEW_ID
    assert (stamp.attempt, stamp.decision) == (3, "REDRIVE")
    assert tally.count_of(Count.REDRIVE_UNRECORDED) == 0


def test_the_attempt_of_a_letter_from_the_room_is_the_routers() -> None:
    asked = Asked("a")
    settle(asked, "a", target="", attempt=0)
    assert asked.facts[NEW_ID].attempt == 9


def test_a_letter_whose_facts_are_not_written_is_not_deleted_yet() -> None:
    for asked in (Asked(), Asked("a", writes=False)):
        gone, tally = settle(asked, "a", "b")
        assert gone == {"b"}
        assert tally.count_of(Count.REDRIVE_UNRECORDED) == 1


def test_the_router_is_not_asked_when_nothing_is_missing() -> None:
    asked = Asked()
    assert settle(asked, "b")[0] == {"b"}
    assert asked.questions == []


def test_what_stays_is_counted() -> None:
    gone, tally = settle(Asked("a", stays="b"), "a", "b", "c")
    assert gone == {"a", "c"}
    assert (tally.count_of(Count.ALREADY_SENT), tally.count_of(Count.UNDELETED)) == (3, 1)
    assert tally.futile == 1
