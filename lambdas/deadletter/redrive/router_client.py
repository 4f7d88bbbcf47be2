"""Asking the router: one retry, one verdict a letter, and never a guess in its place."""

from __future__ import annotations

from collections.abc import Sequence

from deadletter.contract import Metric
from deadletter.message.letter import compact_json
from deadletter.message.queue import ReceivedLetter
from deadletter.redrive.order import Order
from deadletter.redrive.report import Tally
from deadletter.redrive.run_limits import RunStopped
from deadletter.routing.decision import Redrive
from deadletter.routing.router import (
    Question,
    Router,
    RouterAnswer,
    RouterUnavailable,
    Verdict,
    usable_verdicts,
)
from deadletter.routing.wire import question_to_json

MAX_REQUEST = 4_500_000
"""Bytes of one router request: Lambda refuses more than 6 MB, and one letter always fits."""


def request_bytes(taken: ReceivedLetter) -> int:
    """What a letter adds to a router request, its comma included."""
    return (
        len(compact_json(question_to_json(Question(taken.letter, served=True, home=taken.home))))
        + 1
    )


class RouterClient:
    """Gets verdicts on letters from the router, and counts what is odd about them."""

    def __init__(self, *, router: Router, tally: Tally) -> None:
        self._router = router
        self._tally = tally

    def verdicts(self, letters: Sequence[ReceivedLetter], *, served: bool) -> dict[str, Verdict]:
        """One verdict for each letter that the router clearly spoke about.

        Raises Stop if the router does not answer twice: it will be asked again by
        the next run, and nobody decides in its place.
        """
        if not letters:
            return {}
        questions = [Question(one.letter, served, one.home) for one in letters]
        answer = self._ask(questions)
        verdicts = usable_verdicts(answer, [one.letter.message_id for one in questions])
        self._tally.count(Metric.UNDECIDED, len(letters) - len(verdicts))
        self._tally.count(Metric.FORGED_STAMP, sum(one.forged for one in verdicts.values()))
        self._tally.noticed(
            {one.rule_id: one.why for one in answer.refused_rules},
            answer.shadow_matches,
            answer.limited_rules,
        )
        self._tally.failed(answer.failures, of=len(letters))
        for verdict in verdicts.values():
            self._tally.decided(verdict.decision)
        if not served:
            self._tally.count(
                Metric.REDRIVE_BOUNCED, sum(_came_back(one) for one in verdicts.values())
            )
        return verdicts

    def _ask(self, questions: Sequence[Question]) -> RouterAnswer:
        for _ in range(2):
            try:
                return self._router.decide(questions)
            except RouterUnavailable:
                self._tally.count(Metric.ROUTER_UNAVAILABLE)
        raise RunStopped("the router gave no answer")


def _came_back(verdict: Verdict) -> bool:
    """Whether the letter had been re-driven before; the stamp counts what is decided now."""
    now = 1 if isinstance(verdict.decision, Redrive) else 0
    return verdict.stamp.attempt - now >= 1


def orders(letters: Sequence[ReceivedLetter], verdicts: dict[str, Verdict]) -> list[Order]:
    """The letters that have a verdict, with it, in their order."""
    return [
        Order(received, verdict.decision, verdict.stamp)
        for received in letters
        if (verdict := verdicts.get(received.letter.message_id)) is not None
    ]


def one_request(
    letters: Sequence[ReceivedLetter], most: int
) -> tuple[list[ReceivedLetter], list[ReceivedLetter]]:
    """The letters that go into the next router request, at most `most`, and the rest."""
    size = 0
    for count, one in enumerate(letters):
        size += request_bytes(one)
        if count == most or (count and size > MAX_REQUEST):
            return list(letters[:count]), list(letters[count:])
    return list(letters), []
