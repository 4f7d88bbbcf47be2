"""A letter that would go back waits while an earlier one of its ordering key is open."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pytest

from deadletter.failure.ledger import LedgerRow
from deadletter.message import stamp as stamps
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import DUE, Decision, Hold, Park, Redrive
from deadletter.routing.direct_router import DirectRouter
from deadletter.routing.judgement import BEHIND
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
    """Lines in which these messages come first, by the key."""

    first: Mapping[str, KeyPlace] = field(default_factory=dict)
    broken: bool = False
    asked: list[KeyPlace] = field(default_factory=list)

    def read(self, places: Sequence[KeyPlace], *, lagging: bool = False) -> Mapping[str, KeyLine]:
        if self.broken:
            raise LinesUnavailable("no answer")
        assert lagging, "the library asks again before a message is handled"
        self.asked += places
        first = {line_of(key): place for key, place in self.first.items()}
        return {place.line: KeyLine(first=first.get(place.line)) for place in places}

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
    for verdict, each in zip(verdicts, letters, strict=True):
        assert router.explain(Question(each))[0].decision == verdict.decision
    return [verdict.decision for verdict in verdicts]


def test_it_waits_in_the_lane_of_what_is_due_and_says_for_which() -> None:
    lines = StubLines({"a": place("a", 1)})
    behind, first, other = decide(lines, message("a", 2), message("a", 1), message("b", 2))
    assert isinstance(behind, Hold)
    assert behind.lane == DUE
    assert behind.because == "behind message a1 of its ordering key"
    assert NOW + BEHIND[0] <= behind.due <= NOW + BEHIND[1]
    assert isinstance(first, Redrive)
    assert isinstance(other, Redrive)


def test_the_wait_grows_with_the_time_since_its_death_and_has_an_end() -> None:
    lines = StubLines({"a": place("a", 1)})
    for since, wait in ((0, 30), (400, 100), (90_000, 300)):
        books = Books(rows_={"a2": LedgerRow((replace(failed(), at=NOW - since),))})
        [held] = decide(lines, message("a", 2), books=books)
        assert isinstance(held, Hold)
        assert held.due == NOW + wait


def test_it_is_parked_or_held_as_any_other() -> None:
    lines = StubLines({"a": place("a", 1)})
    [parked] = decide(lines, message("a", 2), books=Books([rule("q", "QUARANTINE")]))
    assert isinstance(parked, Park)
    assert lines.asked == []


def test_a_letter_of_a_replay_run_waits_for_none() -> None:
    lines = StubLines({"a": place("a", 1)})
    attributes = {stamps.NAME: stamps.attribute(Stamp("a2", 1, 1_789_999_000_000, run="r"))}
    sent = message("a", 2, attributes=attributes, SenderId=f"{REDRIVER}:run")
    decide(lines, sent)
    assert lines.asked == []


def test_without_the_lines_nothing_is_decided() -> None:
    with pytest.raises(RouterUnavailable, match="no answer"):
        decide(StubLines(broken=True), message("a", 2))
