"""Which letters may go through the main queue as a canary, and how they are sent."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import Blame, Category
from deadletter.failure.failure import Failure
from deadletter.failure.fate import GIVEN_BACK
from deadletter.failure.ledger import AboutLetter, LedgerRow, LedgerUnavailable
from deadletter.message.envelope import QueueTraits
from deadletter.message.queue import ReceivedLetter
from deadletter.message.stamp import Stamp, attribute
from deadletter.outage.canaries import BlamelessLetters, waiting_for
from deadletter.outage.queue_canary import MainQueueSender, QueueCanary, SendableLetters
from deadletter.redrive.order import Order
from deadletter.routing.decision import Decision, Hold, Redrive
from deadletter.routing.router import Question, RouterAnswer, Verdict
from tests.each_row import each_row
from tests.samples import NOW, letter, received

KEY = "orders"
WAITS = Hold("circuit:orders", NOW, "the circuit is open")
AGED = 1_000.0
"""Seconds since the sample letter was sent."""


@dataclass
class OneDecision:
    """A router that decides about each letter alike."""

    decision: Decision = WAITS
    stamp: Stamp = field(default_factory=lambda: Stamp("first", 2, 1, rule="r", reason="POISON"))
    questions: list[Question] = field(default_factory=list)

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self.questions += questions
        return RouterAnswer(
            tuple(
                Verdict(question.letter.message_id, self.decision, self.stamp)
                for question in questions
            )
        )


@dataclass
class Rows:
    """A ledger with at most one row."""

    row: LedgerRow | None = None
    down: bool = False

    def rows(self, origins: Sequence[str]) -> dict[str, LedgerRow]:
        if self.down:
            raise LedgerUnavailable("throttled")
        return {} if self.row is None else dict.fromkeys(origins, self.row)


@dataclass
class Main:
    """The main queue's limits."""

    traits: QueueTraits = field(default_factory=QueueTraits)


def as_any(double: Any) -> Any:
    return double


def choice(
    router: OneDecision | None = None,
    rows: Rows | None = None,
    *,
    aside: float = 600.0,
    main: Main | None = None,
) -> SendableLetters:
    any_router: Any = router or OneDecision()
    ledger: Any = rows or Rows()
    any_main: Any = main or Main()
    return SendableLetters(
        pipeline=KEY,
        router=any_router,
        ledger=ledger,
        main=any_main,
        aside_seconds=aside,
        clock=lambda: NOW,
    )


def accepts(letters: SendableLetters) -> bool:
    return letters(received(letter()), KEY) is not None


def test_the_router_is_asked_as_if_the_letters_delay_were_over() -> None:
    router = OneDecision()
    assert choice(router)(received(letter(), home="orders-dlq"), KEY)
    assert router.questions == [Question(letter(), served=True, home="orders-dlq")]


@pytest.mark.parametrize(
    ("decision", "accepted"),
    [(WAITS, True), (replace(WAITS, lane="circuit:endpoint-7"), False), (Redrive(0, "now"), False)],
)
def test_a_letter_that_does_not_wait_for_the_circuit_is_no_canary(
    decision: Decision, accepted: bool
) -> None:
    router: Any = OneDecision(decision)
    assert accepts(choice(router)) is accepted
    assert (waiting_for(router, received(letter()), KEY) is not None) is accepted


@each_row(
    ("row", "accepted"),
    [
        (None, True),
        (LedgerRow(), True),
        (LedgerRow(unreadable=True), False),
        (LedgerRow(recovered_at=0.0), False),
        (LedgerRow(recovered_at=NOW), False),
    ],
)
def test_a_letter_whose_end_the_ledger_would_not_record_is_no_canary(
    row: LedgerRow | None, accepted: bool
) -> None:
    assert accepts(choice(rows=Rows(row))) is accepted


@pytest.mark.parametrize(("blame", "accepted"), [(Blame.DEPENDENCY, True), (Blame.NEITHER, False)])
def test_a_letter_that_failed_by_its_own_fault_is_no_canary(blame: Blame, accepted: bool) -> None:
    failure = Failure(at=1.0, attempt=2, category=Category.TRANSIENT, blame=blame)
    assert accepts(choice(rows=Rows(LedgerRow((failure,))))) is accepted


@pytest.mark.parametrize(
    ("endpoint", "message", "accepted"),
    [
        ("hook", "refused", False),
        # Given back untried, it has not failed.
        ("hook", GIVEN_BACK, True),
        ("", "refused", True),
        (KEY, "refused", True),
    ],
)
def test_a_letter_whose_endpoint_failed_says_nothing_of_the_pipelines_circuit(
    endpoint: str, message: str, accepted: bool
) -> None:
    """It would be posted to a dead endpoint again and again."""
    failure = Failure(
        at=1.0,
        attempt=2,
        category=Category.TRANSIENT,
        error_type="RefusedWhileOpen",
        message=message,
        http_status=503,
        blame=Blame.DEPENDENCY,
    )
    rows = Rows(LedgerRow((failure,), about=AboutLetter(endpoint=endpoint)))
    assert accepts(choice(rows=rows)) is accepted
    router, ledger = as_any(OneDecision()), as_any(rows)
    blameless = BlamelessLetters(KEY, router, ledger, recorded=True)
    assert (blameless(received(letter()), KEY) is not None) is accepted


@pytest.mark.parametrize(
    ("canary", "aside", "accepted"),
    [
        ("permit", AGED - 1, True),
        ("permit", AGED, True),
        ("permit", AGED + 1, False),
        (None, AGED + 1, True),
    ],
)
def test_a_letter_that_was_a_canary_rests_for_as_long_as_it_is_set_aside(
    canary: str | None, aside: float, accepted: bool
) -> None:
    router = OneDecision(stamp=Stamp("first", 2, 1, canary=canary))
    assert accepts(choice(router, aside=aside)) is accepted


def test_a_canary_whose_send_time_is_unknown_was_sent_long_ago() -> None:
    router = OneDecision(stamp=Stamp("first", 2, 1, canary="permit"))
    timeless = received(letter(SentTimestamp=""))
    assert choice(router, aside=NOW)(timeless, KEY)
    assert not choice(router, aside=NOW + 1)(timeless, KEY)


def canary_of(chosen: Verdict | None, permit: str) -> QueueCanary:
    """The canary of a permit, out of a source that gives this letter."""
    sent = sender([Source(received(letter()), chosen)], Counter()).take(KEY, permit, 110.0)
    assert sent is not None
    return sent


def test_a_letter_needs_room_for_the_mark_of_a_permit_of_64_characters() -> None:
    chosen = choice()(received(letter()), KEY)
    mark = attribute(canary_of(chosen, "p" * 64).order.stamp)
    # SQS counts the name, the type and the value of an attribute.
    size = len('{"tenantId": "a"}' + "Redrive" + mark.data_type + str(mark.value))
    assert accepts(choice(main=Main(QueueTraits(max_bytes=size))))
    assert not accepts(choice(main=Main(QueueTraits(max_bytes=size - 1))))


def test_a_canary_is_a_redrive_of_the_next_attempt_under_the_permit() -> None:
    order = canary_of(choice()(received(letter()), KEY), "permit").order
    assert order.decision == Redrive(0, "tries circuit orders")
    assert order.stamp == Stamp(
        "first",
        3,
        1,
        decision="REDRIVE",
        because="tries circuit orders",
        canary="permit",
    )


# How it is taken and sent.


@dataclass
class Source:
    """A source with at most one letter, which is its own canary."""

    received: ReceivedLetter | None = None
    verdict: Verdict | None = field(default_factory=lambda: Verdict("m1", WAITS, Stamp("first", 2)))
    moves: bool = True
    locks: list[float] = field(default_factory=list)
    moved: list[Order] = field(default_factory=list)
    given_back: int = 0

    def take(self, key: str, lock_seconds: float) -> Any:
        self.locks.append(lock_seconds)
        return None if self.received is None else self

    def move(self, order: Order) -> bool:
        self.moved.append(order)
        return self.moves

    def give_back(self) -> None:
        self.given_back += 1


def sender(
    sources: Sequence[Source], metrics: Counter[str], rows: Rows | None = None
) -> MainQueueSender:
    return MainQueueSender(
        pipeline=KEY,
        sources=sources,
        ledger=as_any(rows or Rows()),
        count_metric=lambda name, number: metrics.update({name: number}),
    )


def test_the_first_source_with_a_letter_gives_the_canary() -> None:
    sources = [Source(), Source(received(letter())), Source(received(letter(message_id="m2")))]
    canary = sender(sources, Counter()).take(KEY, "permit", 110.0)
    assert canary is not None
    assert (canary.origin, canary.attempt) == ("first", 3)
    assert [source.locks for source in sources] == [[110.0], [110.0], []]
    assert sender([Source()], Counter()).take(KEY, "permit", 110.0) is None


@pytest.mark.parametrize("moves", [True, False])
def test_a_canary_is_moved_once_under_its_permit_and_given_back_if_it_stays(moves: bool) -> None:
    source = Source(received(letter()), moves=moves)
    canary = sender([source], Counter()).take(KEY, "permit", 110.0)
    assert canary is not None
    assert canary.send() is moves
    [order] = source.moved
    assert (order.copy, order.stamp.canary) == ("m1", "permit")
    assert source.given_back == (not moves)


def test_a_canary_that_is_given_back_stays_in_its_source() -> None:
    source = Source(received(letter()))
    canary = sender([source], Counter()).take(KEY, "permit", 110.0)
    assert canary is not None
    canary.give_back()
    assert (source.given_back, source.moved) == (1, [])


def test_a_ledger_without_an_answer_is_counted_and_gives_no_verdict() -> None:
    metrics = Counter[str]()
    assert sender([], metrics, Rows(down=True)).verdict("first", 3, KEY) is None
    assert metrics == {"LedgerUnavailable": 1}


def test_the_verdict_is_that_of_the_letters_row() -> None:
    processed = Rows(LedgerRow(recovered_at=NOW))
    assert sender([], Counter(), processed).verdict("first", 3, KEY) is CanaryVerdict.SUCCESS
    assert sender([], Counter()).verdict("first", 3, KEY) is None
