"""One loop of receives: what it deletes, keeps hidden and gives back."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any

import pytest

from deadletter.failure.fate import Fate
from deadletter.processing.poller import (
    DELETES,
    HELD_SECONDS,
    LONGEST_PAUSE,
    InHand,
    Poller,
    Record,
    SourceUnavailable,
)
from deadletter.processing.result import BatchResult, MessageResult
from deadletter.testing.clock import Clock
from tests.each_row import each_row


@dataclass
class Queue:
    """A source: what it hands out, and the calls that it got."""

    receives: list[Any] = field(default_factory=list)
    asked: list[tuple[int, int, int]] = field(default_factory=list)
    hidden: list[list[tuple[str, int]]] = field(default_factory=list)
    deleted: list[list[str]] = field(default_factory=list)
    undeletable: dict[str, int] = field(default_factory=dict)
    on_receive: Callable[[], object] = lambda: None

    def receive(self, most: int, *, hidden: int, wait: int) -> Sequence[Record]:
        self.asked.append((most, hidden, wait))
        self.on_receive()
        answer = self.receives.pop(0) if self.receives else []
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    def hide(self, waits: Sequence[tuple[str, int]]) -> int:
        self.hidden.append(list(waits))
        return 0

    def delete(self, handles: Sequence[str]) -> Sequence[str]:
        self.deleted.append(list(handles))
        left = [handle for handle in handles if self.undeletable.get(handle, 0) > 0]
        for handle in left:
            self.undeletable[handle] -= 1
        return left


@dataclass
class Flag:
    """Whether polling ends, and for how long it was waited."""

    set: bool = False
    waited: list[float] = field(default_factory=list)

    def is_set(self) -> bool:
        return self.set

    def wait(self, timeout: float) -> bool:
        self.waited.append(timeout)
        return self.set


@dataclass
class Place:
    """A poller with its ports; `fates` says what becomes of each message."""

    queue: Queue = field(default_factory=Queue)
    stop: Flag = field(default_factory=Flag)
    clock: Clock = field(default_factory=Clock)
    fates: dict[str, MessageResult] = field(default_factory=dict)
    during: Callable[[InHand], object] = lambda _: None
    settled: list[tuple[BatchResult, int]] = field(default_factory=list)
    troubles: list[str] = field(default_factory=list)
    at_once: int = 1

    def __post_init__(self) -> None:
        self.in_hand = InHand(self.queue, self.clock)
        self.poller = Poller(
            source=self.queue,
            in_hand=self.in_hand,
            process=self._process,
            settled=lambda result, undeleted: self.settled.append((result, undeleted)),
            troubled=lambda error: self.troubles.append(str(error)),
            stop=self.stop,
            clock=self.clock,
            random=Random(1),
            at_once=self.at_once,
            longest=300.0,
            wait=10,
        )

    def _process(self, records: Sequence[Record], in_hand: InHand) -> BatchResult:
        self.during(in_hand)
        processed = Fate.PROCESSED
        return BatchResult(
            tuple(
                self.fates.get(record["messageId"], MessageResult(record["messageId"], processed))
                for record in records
            )
        )


def messages(*names: str) -> list[Record]:
    return [{"messageId": name, "receiptHandle": f"handle of {name}"} for name in names]


def test_exactly_the_acknowledged_messages_are_deleted() -> None:
    place = Place(Queue([messages("m1", "m2", "m3")]))
    place.fates = {
        "m2": MessageResult("m2", Fate.FAILED, wait=10.0),
        "m3": MessageResult("m3", Fate.PARKED),
    }
    place.poller.turn()
    assert place.queue.deleted == [["handle of m1", "handle of m3"]]
    assert place.queue.hidden == []


@each_row("fate", Fate)
def test_no_message_is_deleted_that_a_response_would_name(fate: Fate) -> None:
    place = Place(Queue([messages("m1")]), fates={"m1": MessageResult("m1", fate)})
    place.poller.turn()
    named = place.settled[0][0].failed
    assert place.queue.deleted == ([] if named else [["handle of m1"]])


def test_a_message_that_could_not_be_deleted_is_tried_again_and_counted() -> None:
    place = Place(Queue([messages("m1", "m2", "m3")]))
    place.queue.undeletable = {"handle of m2": 1, "handle of m3": 100}
    place.poller.turn()
    assert place.queue.deleted == [
        ["handle of m1", "handle of m2", "handle of m3"],
        ["handle of m2", "handle of m3"],
        *[["handle of m3"]] * (DELETES - 2),
    ]
    assert [undeleted for _, undeleted in place.settled] == [1]


def test_messages_are_kept_hidden_while_they_are_processed() -> None:
    place = Place(Queue([messages("m1", "m2")]))
    place.during = lambda in_hand: in_hand.beat()
    place.poller.turn()
    place.in_hand.beat()
    assert place.queue.asked == [(1, HELD_SECONDS, 10)]
    held = [("handle of m1", HELD_SECONDS), ("handle of m2", HELD_SECONDS)]
    assert place.queue.hidden == [held]


def test_a_message_is_kept_hidden_no_longer_than_a_batch_may_take() -> None:
    place = Place(Queue([messages("m1")]))

    def during(in_hand: InHand) -> None:
        place.clock.advance(299)
        in_hand.beat()
        place.clock.advance(2)
        in_hand.beat()

    place.during = during
    place.poller.turn()
    assert len(place.queue.hidden) == 1


def test_a_heartbeat_does_not_shorten_what_the_library_hides() -> None:
    place = Place(Queue([messages("m1", "m2")]))

    def during(in_hand: InHand) -> None:
        assert in_hand.hide([("handle of m1", 900)]) == 0
        in_hand.beat()

    place.during = during
    place.poller.turn()
    assert place.queue.hidden == [[("handle of m1", 900)], [("handle of m2", HELD_SECONDS)]]


def test_many_messages_are_kept_hidden_ten_at_a_time() -> None:
    queue = Queue()
    in_hand = InHand(queue, Clock())
    in_hand.hold(messages(*(f"m{number}" for number in range(25))), until=1e12)
    in_hand.beat()
    assert [len(call) for call in queue.hidden] == [10, 10, 5]


def test_what_arrives_with_the_end_is_given_back_unprocessed() -> None:
    place = Place(Queue([messages("m1", "m2")]))
    place.queue.on_receive = lambda: setattr(place.stop, "set", True)
    place.poller.run()
    assert place.queue.hidden == [[("handle of m1", 0), ("handle of m2", 0)]]
    assert place.settled == []
    assert len(place.queue.asked) == 1


def test_what_is_left_at_the_end_is_given_back_and_what_waits_goes_on_waiting() -> None:
    place = Place(Queue([messages("m1", "m2", "m3")]))
    place.fates = {
        "m1": MessageResult("m1", Fate.UNFINISHED),
        "m2": MessageResult("m2", Fate.FAILED, wait=60.0),
    }
    place.during = lambda _: setattr(place.stop, "set", True)
    place.poller.run()
    assert place.queue.deleted == [["handle of m3"]]
    assert place.queue.hidden == [[("handle of m1", 0)]]


def test_receives_that_fail_are_made_less_and_less_often() -> None:
    place = Place(Queue([SourceUnavailable("throttled")] * 12))
    for _ in range(12):
        place.poller.turn()
    assert place.stop.waited[0] <= 2
    assert LONGEST_PAUSE / 2 <= place.stop.waited[-1] <= LONGEST_PAUSE
    assert place.troubles == ["throttled"] * 12
    place.queue.receives = [messages("m1"), SourceUnavailable("throttled")]
    place.poller.turn()
    place.poller.turn()
    assert place.stop.waited[-1] <= 2


def test_a_defect_of_the_library_deletes_nothing_and_ends_no_polling() -> None:
    place = Place(Queue([messages("m1"), messages("m2")]))

    def broken(_: InHand) -> None:
        place.during = lambda _: None
        raise ZeroDivisionError("ours")

    place.during = broken
    place.poller.turn()
    assert place.queue.deleted == []
    assert place.troubles == ["ours"]
    place.poller.turn()
    assert place.queue.deleted == [["handle of m2"]]
    place.in_hand.beat()
    assert place.queue.hidden == []


def test_an_interrupt_ends_polling_and_lets_the_messages_go() -> None:
    def interrupted(_: InHand) -> None:
        raise KeyboardInterrupt

    place = Place(Queue([messages("m1")]), during=interrupted)
    with pytest.raises(KeyboardInterrupt):
        place.poller.run()
    place.in_hand.beat()
    assert place.queue.hidden == []


@pytest.mark.parametrize(
    ("at_once", "seconds", "then"), [(1, 0.0, 10), (1, 1.0, 5), (1, 60.0, 1), (4, 60.0, 4)]
)
def test_no_more_is_received_than_is_handled_soon(at_once: int, seconds: float, then: int) -> None:
    place = Place(Queue([messages("m1")]), at_once=at_once)
    place.during = lambda _: place.clock.advance(seconds)
    place.poller.turn()
    place.poller.turn()
    assert [most for most, _, _ in place.queue.asked] == [at_once, then]
