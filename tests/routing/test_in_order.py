"""A letter that would go back waits while an earlier one of its ordering key is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from deadletter.failure.fate import GIVEN_BACK, Fate
from deadletter.failure.ledger import LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import DUE, Decision, Hold, Park, Redrive
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.judgement import FAR, NEAR, SHORTEST_BEHIND
from deadletter.routing.line import KeyLine, LinesUnavailable
from deadletter.routing.ordering import KeyPlace, Ordering, line_of
from deadletter.routing.router import Question, RouterUnavailable
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from tests.routing.test_router import Books, rule
from tests.samples import NOW, REDRIVER, failed, letter

PIPELINE = Pipeline(
    "orders",
    context={"tenantId": "body.tenantId"},
    consumer_library=True,
    policy=RetryPolicy(Backoff(base=0, floor=0), max_attempts=3),
    ordering_key="body.account",
    sequence="body.version",
)


@dataclass
class StubLines:
    """Lines in which these messages are open, by the key."""

    open: Mapping[str, Sequence[KeyPlace]] = field(default_factory=dict)
    is_whole: bool = True
    broken: bool = False
    asked: list[KeyPlace] = field(default_factory=list)

    def read(
        self, places: Sequence[KeyPlace], *, most: int = 1, lagging: bool = False
    ) -> Mapping[str, KeyLine]:
        if self.broken:
            raise LinesUnavailable("no answer")
        assert lagging, "the library asks again before a message is handled"
        self.asked += places
        open_ = {line_of(key): tuple(places) for key, places in self.open.items()}
        return {
            place.line: KeyLine(open=open_.get(place.line, ()), is_whole=self.is_whole)
            for place in places
        }

    def take(self, place: KeyPlace, token: str, line: KeyLine) -> bool:
        raise AssertionError("a router takes nothing")

    def add(self, place: KeyPlace) -> None:
        raise AssertionError("a router lists nothing")


def message(account: str, version: int, **about: Any) -> Letter:
    body = f'{{"tenantId": "a", "account": "{account}", "version": {version}}}'
    return letter(body, message_id=f"{account}{version}", **about)


def place(account: str, version: int) -> KeyPlace:
    number = Ordering(PIPELINE).sequence(
        message(account, version), Stamp("x"), _document(account, version)
    )
    return KeyPlace(line_of(account), number, f"{account}{version}")


def _document(account: str, version: int) -> Any:
    from deadletter.rules.document import DocumentBuilder

    return DocumentBuilder(PIPELINE).build(message(account, version), Stamp("x"), None, NOW)


def decide(lines: StubLines, *letters: Letter, books: Books | None = None) -> list[Decision]:
    """What is decided of these, and of each of them alone."""
    decisions = decide_alone(lines, *letters, books=books)
    for each, decision in zip(letters, decisions, strict=True):
        [alone] = decide_alone(lines, each, books=books)
        assert alone == decision
    return decisions


def decide_alone(lines: StubLines, *letters: Letter, books: Books | None = None) -> list[Decision]:
    books = books or Books(rows_={each.message_id: LedgerRow((failed(),)) for each in letters})
    router = DirectRouter(
        pipeline=PIPELINE,
        rules=books,
        ledger=books,
        circuits=books,
        trusted_senders=frozenset({REDRIVER}),
        clock=lambda: NOW,
        random=Random(1),
        lines=lines,
    )
    verdicts = router.decide([Question(each) for each in letters]).verdicts
    if len(letters) == 1:
        assert router.explain(Question(letters[0]))[0].decision == verdicts[0].decision
    return [verdict.decision for verdict in verdicts]


def test_it_waits_in_the_lane_of_what_is_due_and_says_for_which() -> None:
    lines = StubLines({"a": [place("a", 1)]})
    behind, first, other = decide(lines, message("a", 2), message("a", 1), message("b", 2))
    assert isinstance(behind, Hold)
    assert behind.lane == DUE
    assert behind.because == "behind message a1 of its ordering key"
    assert NOW + SHORTEST_BEHIND <= behind.due < NOW + SHORTEST_BEHIND + 2 * NEAR
    assert isinstance(first, Redrive)
    assert isinstance(other, Redrive)


def test_those_of_a_key_wait_in_one_shard_the_older_ones_first() -> None:
    lines = StubLines({"a": [place("a", 1)]})
    letters = [
        message("a", version, SentTimestamp=str(int(NOW - 60 * (9 - version)) * 1_000))
        for version in range(2, 9)
    ]
    held = [decision for decision in decide(lines, *letters) if isinstance(decision, Hold)]
    assert len({hold.shard for hold in held}) == 1
    assert [hold.due for hold in held] == sorted(hold.due for hold in held)
    assert held[0].due < held[-1].due
    assert len({int(hold.due // NEAR) for hold in held}) == 1


def test_one_far_behind_is_looked_at_less_often() -> None:
    lines = StubLines({"a": [place("a", 1), place("a", 2)]}, is_whole=False)
    near, far = decide(lines, message("a", 2), message("a", 5))
    assert isinstance(near, Hold)
    assert isinstance(far, Hold)
    assert near.due < NOW + SHORTEST_BEHIND + 2 * NEAR
    assert far.due // FAR > NOW // FAR


UNTRIED = failed(error_type=Fate.BEHIND, message=GIVEN_BACK)


def untried(*letters: Letter) -> Books:
    """What is on record of messages that were given back each time."""
    return Books(rows_={each.message_id: LedgerRow((UNTRIED,)) for each in letters})


def test_those_that_were_not_tried_go_one_right_after_the_other() -> None:
    lines = StubLines({"a": [place("a", version) for version in (1, 2, 3)]})
    letters = [message("a", version) for version in (3, 1, 2, 4)]
    third, first, second, last = decide_alone(lines, *letters, books=untried(*letters))
    goes = (first, second, third, last)
    assert [each.delay for each in goes if isinstance(each, Redrive)] == [0, 1, 2, 3]


def test_nothing_goes_right_after_one_that_has_failed() -> None:
    lines = StubLines({"a": [place("a", version) for version in (1, 2, 3)]})
    letters = [message("a", version) for version in (1, 2, 3)]
    books = untried(letters[0], letters[2])
    books.rows_["a2"] = LedgerRow((failed(),))
    goes = decide_alone(lines, *letters, books=books)
    assert [isinstance(each, Redrive) for each in goes] == [True, True, False]


def test_what_is_missing_among_them_is_waited_for() -> None:
    """It may be in the main queue, or in another request."""
    lines = StubLines({"a": [place("a", version) for version in (1, 2, 3)]})
    letters = [message("a", version) for version in (1, 3)]
    goes = decide_alone(lines, *letters, books=untried(*letters))
    assert [isinstance(each, Redrive) for each in goes] == [True, False]


def test_beyond_what_was_read_of_a_line_all_wait() -> None:
    lines = StubLines({"a": [place("a", 1)]}, is_whole=False)
    letters = [message("a", version) for version in (1, 2)]
    goes = decide_alone(lines, *letters, books=untried(*letters))
    assert [isinstance(each, Redrive) for each in goes] == [True, False]


def test_it_is_parked_or_held_as_any_other() -> None:
    lines = StubLines({"a": [place("a", 1)]})
    [parked] = decide(lines, message("a", 2), books=Books([rule("q", "QUARANTINE")]))
    assert isinstance(parked, Park)
    assert lines.asked == []


def test_a_letter_of_a_replay_run_waits_for_none() -> None:
    lines = StubLines({"a": [place("a", 1)]})
    attributes = {stamps.NAME: stamps.attribute(Stamp("a2", 1, 1_789_999_000_000, run="r"))}
    sent = message("a", 2, attributes=attributes, SenderId=f"{REDRIVER}:run")
    decide(lines, sent)
    assert lines.asked == []


def test_without_the_lines_nothing_is_decided() -> None:
    with pytest.raises(RouterUnavailable, match="no answer"):
        decide(StubLines(broken=True), message("a", 2))
