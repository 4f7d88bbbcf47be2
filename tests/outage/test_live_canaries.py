"""A live message is tried at most once, and probing lets none die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import Mode, Reason
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import Depth
from deadletter.message.stamp import initial_stamp
from deadletter.outage.canaries import REST_SECONDS, CanaryResult, MainQueueCanaries, NotInLaneYet
from deadletter.redrive.journal import ROOM, Plan, Slot, key_of
from deadletter.redrive.mover import Left
from deadletter.redrive.order import Order
from deadletter.routing.decision import Decision, Hold, Park, Redrive
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable, Verdict
from deadletter.settings.pipeline import Pipeline
from tests.outage.test_canary_places import LetterQueue, handles
from tests.outage.test_canary_sources import MemoryJournal, canary_setup
from tests.samples import NOW, letter, received

KEY = "orders"
PROCESSED = CanaryResult(CanaryVerdict.SUCCESS, Confirmation("m1", "consumer"))
FAILED = CanaryResult(CanaryVerdict.FAILURE)
MOST_RECEIVES = 5


@dataclass
class LiveQueue(LetterQueue):
    """A queue whose messages die after `most` receives."""

    most: int | None = MOST_RECEIVES

    in_flight: int = 0

    def max_receives(self) -> int | None:
        return self.most

    def depth(self) -> Depth:
        return Depth(5, self.in_flight, 5)


@dataclass
class OneDecision:
    """A router that decides the same about every letter."""

    decision: Decision = field(default_factory=lambda: Hold("circuit:orders", 0.0, "open"))
    down: bool = False

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        if self.down:
            raise RouterUnavailable("down")
        return RouterAnswer(
            tuple(
                Verdict(asked.letter.message_id, self.decision, initial_stamp(asked.letter))
                for asked in questions
            )
        )

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        return LaneAnswer([])


@dataclass
class Scene:
    """A main queue, and a mover whose message ends in `left`."""

    queue: LiveQueue
    router: OneDecision = field(default_factory=OneDecision)
    fifo: bool = False
    mode: Mode = Mode.ENFORCE
    left: Left = field(default_factory=Left)
    undeleted: bool = False
    now: float = NOW
    moved: list[tuple[str, str]] = field(default_factory=list)
    metrics: Counter[str] = field(default_factory=Counter)

    def source(self) -> MainQueueCanaries:
        queue: Any = self.queue
        setup = canary_setup(
            MemoryJournal(),
            pipeline=Pipeline(KEY, fifo=self.fifo, mode=self.mode),
            router=self.router,
            mover_for=lambda _: self,
            clock=lambda: self.now,
            count_metric=lambda name, number: self.metrics.update({name: number}),
        )
        return MainQueueCanaries(setup, queue)

    def move(self, orders: Sequence[Order], slot: Slot, *, queue: object = None) -> Left:
        """As a mover. Where it may be here still, the journal is told."""
        assert queue is self.queue
        [order] = orders
        self.moved.append((order.copy, order.hold.lane.removeprefix("circuit:")))
        slot.intend([Plan(key_of(order.copy), ROOM, 0)], NOW + 60)
        if self.undeleted or self.left.unknown:
            slot.keep([order.copy])
        return self.left

    def settle(self, result: CanaryResult) -> bool:
        self.queue.letters = [letter()]
        canary = self.source().take(KEY, 80)
        assert canary is not None
        return canary.settle(result)

    def take(self) -> str | None:
        canary = self.source().take(KEY, 80)
        return canary.copy if canary else None


def received_before(name: str, times: int) -> Letter:
    return letter(message_id=name, ApproximateReceiveCount=str(times))


def test_one_message_is_locked_for_the_whole_seconds_that_were_asked() -> None:
    scene = Scene(LiveQueue([letter(message_id="a"), letter(message_id="b")]))
    canary = scene.source().take(KEY, 79.2)
    assert canary is not None
    assert (canary.copy, canary.arn) == ("a", "arn:main")
    # A short poll, of 0 seconds, may miss a message that is there.
    assert scene.queue.receives == [(1, 80, 2)]
    assert Scene(LiveQueue()).take() is None


def test_the_circuit_of_a_single_key_gets_no_live_message_and_counts_no_receive() -> None:
    scene = Scene(LiveQueue([letter()]))
    assert scene.source().take("endpoint-7", 80) is None
    assert scene.queue.receives == []


def test_no_record_can_be_kept_of_a_live_message() -> None:
    canary = Scene(LiveQueue([letter()])).source().take(KEY, 80)
    assert canary is not None
    assert not canary.record()


@pytest.mark.parametrize(
    "result", [FAILED, CanaryResult(CanaryVerdict.NEUTRAL), CanaryResult(CanaryVerdict.SUCCESS)]
)
def test_a_message_that_failed_moves_into_the_circuits_lane(result: CanaryResult) -> None:
    scene = Scene(LiveQueue())
    assert not scene.settle(result)
    assert scene.moved == [("m1", KEY)]
    assert (scene.queue.waits, scene.queue.deleted) == ([], [])
    assert scene.metrics["PossibleDuplicate"] == 0


@pytest.mark.parametrize(
    "scene",
    [
        Scene(LiveQueue(), undeleted=True),
        Scene(LiveQueue(), left=Left(unknown=[received(letter())])),
    ],
)
def test_a_message_that_may_be_in_the_lane_and_in_the_queue_is_counted(scene: Scene) -> None:
    """SQS delivers it again, and a run sends the one in the lane."""
    assert not scene.settle(FAILED)
    assert scene.metrics["PossibleDuplicate"] == 1
    # It keeps its lock.
    assert scene.queue.waits == []


def test_a_message_without_an_answer_stays_locked() -> None:
    """The consumer may still be at work on it."""
    scene = Scene(LiveQueue())
    assert not scene.settle(CanaryResult(CanaryVerdict.NO_ANSWER))
    assert scene.moved == []
    assert scene.queue.waits == []


@pytest.mark.parametrize(("deletes", "deleted"), [(True, ["m1"]), (False, [])])
def test_a_message_is_gone_only_once_it_is_deleted(deletes: bool, deleted: list[str]) -> None:
    scene = Scene(LiveQueue(deletes=deletes))
    assert scene.settle(PROCESSED) is deletes
    assert scene.queue.deleted == deleted
    assert scene.moved == []


def test_a_message_whose_lock_has_ended_may_have_come_back_before_its_delete() -> None:
    assert not Scene(LiveQueue(), now=received(letter()).locked_until).settle(PROCESSED)


@pytest.mark.parametrize(
    "scene",
    [
        Scene(LiveQueue(), left=Left(stayed=[received(letter())])),
        Scene(LiveQueue(), mode=Mode.OBSERVE),
        # The circuit has closed meanwhile.
        Scene(LiveQueue(), router=OneDecision(Redrive(0, "closed"))),
    ],
)
def test_a_message_that_cannot_be_moved_is_visible_at_once(scene: Scene) -> None:
    assert not scene.settle(FAILED)
    assert scene.queue.waits == handles("m1")


def test_without_the_router_a_message_stays_locked() -> None:
    scene = Scene(LiveQueue(), router=OneDecision(down=True))
    # It is tried all the same, and where it goes then is not known.
    with pytest.raises(RouterUnavailable):
        scene.settle(FAILED)
    assert scene.queue.deleted == []


@pytest.mark.parametrize(
    ("fifo", "mode", "most_tried"),
    [
        (False, Mode.ENFORCE, 4),
        (True, Mode.ENFORCE, 2),
        (False, Mode.OBSERVE, 1),
        (True, Mode.OBSERVE, 1),
    ],
)
def test_a_message_needs_receives_left_to_be_tried(fifo: bool, mode: Mode, most_tried: int) -> None:
    """Without an answer it comes back, and looking at it has cost a receive as well."""
    for times in range(1, MOST_RECEIVES + 1):
        scene = Scene(LiveQueue([received_before("a", times)]), mode=mode, fifo=fifo)
        with suppress(NotInLaneYet):
            assert scene.take() == ("a" if times <= most_tried else None)
            continue
        assert times == MOST_RECEIVES
        assert mode is Mode.ENFORCE


def test_a_message_at_its_last_receive_is_moved_before_it_dies() -> None:
    scene = Scene(LiveQueue([received_before("a", MOST_RECEIVES), received_before("b", 1)]))
    with pytest.raises(NotInLaneYet):
        scene.take()
    assert scene.moved == [("a", KEY)]
    assert scene.queue.waits == []


def test_a_message_with_few_receives_left_rests() -> None:
    """Each look at it is a receive."""
    scene = Scene(LiveQueue([received_before("a", 4)]), fifo=True)
    assert scene.take() is None
    assert scene.queue.waits == [("handle of a", REST_SECONDS)]
    assert scene.moved == []


def test_a_probe_looks_at_three_messages_at_most() -> None:
    scene = Scene(LiveQueue([received_before(name, 4) for name in "abcd"]), mode=Mode.OBSERVE)
    assert scene.take() is None
    assert len(scene.queue.receives) == 3


def test_a_queue_without_a_dlq_lets_no_message_die() -> None:
    assert Scene(LiveQueue([received_before("a", 900)], most=None)).take() == "a"


def test_a_message_that_was_not_tried_is_visible_at_once() -> None:
    scene = Scene(LiveQueue([letter()]))
    canary = scene.source().take(KEY, 80)
    assert canary is not None
    canary.give_back()
    assert scene.queue.waits == handles("m1")


@pytest.mark.parametrize(
    ("key", "in_flight", "hides"), [(KEY, 1, True), (KEY, 0, False), ("endpoint-7", 1, False)]
)
def test_messages_under_a_lock_may_be_canaries_later(key: str, in_flight: int, hides: bool) -> None:
    assert Scene(LiveQueue(in_flight=in_flight)).source().hides(key) is hides


def held_by(key: str) -> OneDecision:
    return OneDecision(Hold(f"circuit:{key}", 0.0, "open"))


def test_a_message_that_its_endpoints_circuit_holds_is_not_tried() -> None:
    scene = Scene(LiveQueue([letter(message_id="a")]), router=held_by("hook"))
    assert scene.take() is None
    assert scene.queue.waits == [("handle of a", REST_SECONDS)]
    assert scene.moved == []


def test_one_at_its_last_receive_moves_into_the_lane_of_its_endpoint() -> None:
    """It is no candidate there, so the next message is looked at."""
    last = [received_before("a", MOST_RECEIVES), received_before("b", MOST_RECEIVES)]
    scene = Scene(LiveQueue(last), router=held_by("hook"))
    assert scene.take() is None
    assert scene.moved == [("a", "hook"), ("b", "hook")]
    assert scene.queue.waits == []


@pytest.mark.parametrize(
    "decision", [Redrive(0, "closed"), Hold("rule:r", 0.0, "r"), Park(Reason.POISON, "poison")]
)
def test_what_else_the_router_says_of_a_live_message_does_not_matter(decision: Decision) -> None:
    scene = Scene(LiveQueue([letter(message_id="a")]), router=OneDecision(decision))
    assert scene.take() == "a"


@pytest.mark.parametrize("down", [False, True])
def test_a_message_is_tried_if_the_router_says_nothing_of_it(down: bool) -> None:
    """Else live traffic would stay paused as long as the router is broken."""
    router = OneDecision(down=down)
    if not down:
        router.decide = lambda _: RouterAnswer(())  # type: ignore[method-assign]
    scene = Scene(LiveQueue([letter(message_id="a")]), router=router)
    assert scene.take() == "a"
