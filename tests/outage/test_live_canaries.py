"""A live message is tried at most once, and probing lets none die."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from deadletter.circuit.transitions import CanaryVerdict
from deadletter.contract import Reason
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import Depth, ReceivedLetter
from deadletter.message.stamp import initial_stamp
from deadletter.outage.canaries import REST_SECONDS, CanaryResult, MainQueueCanaries, NotInLaneYet
from deadletter.routing.decision import Decision, Hold, Park, Redrive
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable, Verdict
from tests.outage.test_canary_places import LetterQueue, handles
from tests.samples import letter, received

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
class Moves:
    """Keeps what is moved into a lane; `works` is False where the mover fails."""

    works: bool = True
    moved: list[tuple[str, str]] = field(default_factory=list)

    def move(self, queue: Any, received: ReceivedLetter, verdict: Verdict, key: str) -> bool:
        self.moved.append((received.letter.message_id, key))
        return self.works


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
    """A main queue; without `moves` nothing may be moved."""

    queue: LiveQueue
    moves: Moves | None = field(default_factory=Moves)
    router: OneDecision = field(default_factory=OneDecision)
    fifo: bool = False

    def source(self) -> MainQueueCanaries:
        queue: Any = self.queue
        mover: Any = self.moves
        return MainQueueCanaries(
            queue=queue,
            arn="arn:main",
            fifo=self.fifo,
            keys=lambda key: key == KEY,
            mover=mover,
            router=self.router,
        )

    def settle(self, result: CanaryResult) -> bool:
        source = self.source()
        source.take(KEY, 80)
        return source.settle(received(letter()), result)

    def take(self) -> str | None:
        canary = self.source().take(KEY, 80)
        return canary.letter.message_id if canary else None


def received_before(name: str, times: int) -> Letter:
    return letter(message_id=name, ApproximateReceiveCount=str(times))


def test_one_message_is_locked_for_the_whole_seconds_that_were_asked() -> None:
    scene = Scene(LiveQueue([letter(message_id="a"), letter(message_id="b")]))
    canary = scene.source().take(KEY, 79.2)
    assert canary is not None
    assert canary.letter.message_id == "a"
    # A short poll, of 0 seconds, may miss a message that is there.
    assert scene.queue.receives == [(1, 80, 2)]
    assert Scene(LiveQueue()).take() is None


def test_the_circuit_of_a_single_key_gets_no_live_message_and_counts_no_receive() -> None:
    scene = Scene(LiveQueue([letter()]))
    assert scene.source().take("endpoint-7", 80) is None
    assert scene.queue.receives == []


def test_no_record_can_be_kept_of_a_live_message() -> None:
    assert not Scene(LiveQueue()).source().record(received(letter()))


@pytest.mark.parametrize(
    "result", [FAILED, CanaryResult(CanaryVerdict.NEUTRAL), CanaryResult(CanaryVerdict.SUCCESS)]
)
def test_a_message_that_failed_moves_into_the_circuits_lane(result: CanaryResult) -> None:
    scene = Scene(LiveQueue())
    assert not scene.settle(result)
    assert scene.moves is not None
    assert scene.moves.moved == [("m1", KEY)]
    assert (scene.queue.waits, scene.queue.deleted) == ([], [])


def test_a_message_without_an_answer_stays_locked() -> None:
    """The consumer may still be at work on it."""
    scene = Scene(LiveQueue())
    assert not scene.settle(CanaryResult(CanaryVerdict.NO_ANSWER))
    assert scene.moves == Moves()
    assert scene.queue.waits == []


@pytest.mark.parametrize(("deletes", "deleted"), [(True, ["m1"]), (False, [])])
def test_a_message_is_gone_only_once_it_is_deleted(deletes: bool, deleted: list[str]) -> None:
    scene = Scene(LiveQueue(deletes=deletes))
    assert scene.settle(PROCESSED) is deletes
    assert scene.queue.deleted == deleted
    assert scene.moves == Moves()


@pytest.mark.parametrize(
    "scene",
    [
        Scene(LiveQueue(), moves=Moves(works=False)),
        Scene(LiveQueue(), moves=None),
        # The circuit has closed meanwhile.
        Scene(LiveQueue(), router=OneDecision(Redrive(0, "closed"))),
    ],
)
def test_a_message_that_cannot_be_moved_is_visible_at_once(scene: Scene) -> None:
    assert not scene.settle(FAILED)
    assert scene.queue.waits == handles("m1")


def test_without_the_router_a_message_stays_locked() -> None:
    scene = Scene(LiveQueue(), router=OneDecision(down=True))
    with pytest.raises(RouterUnavailable):
        scene.settle(FAILED)
    assert scene.queue.deleted == []


@pytest.mark.parametrize(
    ("fifo", "moves", "most_tried"),
    [(False, Moves(), 4), (True, Moves(), 2), (False, None, 1), (True, None, 1)],
)
def test_a_message_needs_receives_left_to_be_tried(
    fifo: bool, moves: Moves | None, most_tried: int
) -> None:
    """Without an answer it comes back, and looking at it has cost a receive as well."""
    for times in range(1, MOST_RECEIVES + 1):
        scene = Scene(LiveQueue([received_before("a", times)]), moves=moves, fifo=fifo)
        with suppress(NotInLaneYet):
            assert scene.take() == ("a" if times <= most_tried else None)
            continue
        assert times == MOST_RECEIVES
        assert moves is not None


def test_a_message_at_its_last_receive_is_moved_before_it_dies() -> None:
    scene = Scene(LiveQueue([received_before("a", MOST_RECEIVES), received_before("b", 1)]))
    with pytest.raises(NotInLaneYet):
        scene.take()
    assert scene.moves == Moves(moved=[("a", KEY)])
    assert scene.queue.waits == []


def test_a_message_with_few_receives_left_rests() -> None:
    """Each look at it is a receive."""
    scene = Scene(LiveQueue([received_before("a", 4)]), fifo=True)
    assert scene.take() is None
    assert scene.queue.waits == [("handle of a", REST_SECONDS)]
    assert scene.moves == Moves()


def test_a_probe_looks_at_three_messages_at_most() -> None:
    scene = Scene(LiveQueue([received_before(name, 4) for name in "abcd"]), moves=None)
    assert scene.take() is None
    assert len(scene.queue.receives) == 3


def test_a_queue_without_a_dlq_lets_no_message_die() -> None:
    assert Scene(LiveQueue([received_before("a", 900)], most=None)).take() == "a"


def test_a_message_that_was_not_tried_is_visible_at_once() -> None:
    scene = Scene(LiveQueue())
    scene.source().give_back(received(letter()))
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
    assert scene.moves == Moves()


def test_one_at_its_last_receive_moves_into_the_lane_of_its_endpoint() -> None:
    """It is no candidate there, so the next message is looked at."""
    last = [received_before("a", MOST_RECEIVES), received_before("b", MOST_RECEIVES)]
    scene = Scene(LiveQueue(last), router=held_by("hook"))
    assert scene.take() is None
    assert scene.moves == Moves(moved=[("a", "hook"), ("b", "hook")])
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
