"""One canary at a time tests whether the dependency works, and no letter is lost by it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from deadletter.circuit.state import (
    NO_END,
    Circuit,
    CircuitPolicy,
    CircuitsUnavailable,
    Override,
    State,
)
from deadletter.circuit.transitions import (
    CanaryVerdict,
    OverrideBegun,
    OverrideEnded,
    PermitTaken,
    Tripped,
)
from deadletter.message.confirmation import Confirmation
from deadletter.message.letter import Letter
from deadletter.message.queue import QueueUnavailable, ReceivedLetter
from deadletter.outage.canaries import CanaryResult, NotInLaneYet
from deadletter.outage.health import Health
from deadletter.outage.prober import (
    EMPTY_PROBES_FOR_SUCCESS,
    EMPTY_PROBES_WHILE_HIDDEN,
    MOST_CANARIES,
    SECONDS_FOR_HIDDEN,
    CanaryConsumer,
    ConsumerUnavailable,
    Prober,
)
from deadletter.outage.steps import (
    LONGEST_WAIT_SECONDS,
    MOST_PROBES,
    SECONDS_BETWEEN_CANARIES,
    CircuitAnnouncer,
    Execution,
    ExecutionStep,
    Next,
)
from deadletter.redrive.journal import JournalUnavailable
from tests.outage.breakers import KEY, Announcements, Circuits

ANSWER = 20.0
WELL = CanaryResult(CanaryVerdict.SUCCESS, Confirmation("a", "test"))
ILL = CanaryResult(CanaryVerdict.FAILURE)


@dataclass
class Letters:
    """A source of letters; `settled` is the result of each letter that was tried.

    It gives the first of `letters`, and the last one again and again. With `keeps_record` a
    journal knows what the consumer is given.
    """

    arn: str = "arn:queue"
    letters: list[str] = field(default_factory=list)
    settled: list[tuple[str, CanaryResult]] = field(default_factory=list)
    fails_to_take: bool = False
    fails_to_settle: bool = False
    keeps_record: bool = True
    fails_to_record: bool = False
    recorded: list[str] = field(default_factory=list)
    locks: list[float] = field(default_factory=list)
    given_back: list[str] = field(default_factory=list)

    def record(self, received: ReceivedLetter) -> bool:
        if self.fails_to_record:
            raise JournalUnavailable("throttled")
        self.recorded.append(received.letter.message_id)
        return self.keeps_record

    def take(self, key: str, lock_seconds: float) -> Any:
        if self.fails_to_take:
            raise QueueUnavailable("throttled")
        assert lock_seconds > ANSWER
        self.locks.append(lock_seconds)
        if not self.letters:
            return None
        return Taken(self, ReceivedLetter(Letter(self.letters[0], "{}"), "handle", lock_seconds))

    def settle(self, received: ReceivedLetter, result: CanaryResult) -> bool:
        if self.fails_to_settle:
            raise QueueUnavailable("throttled")
        self.settled.append((received.letter.message_id, result))
        del self.letters[: len(self.letters) > 1]
        return result.proof is not None

    def give_back(self, received: ReceivedLetter) -> None:
        self.given_back.append(received.letter.message_id)


@dataclass
class Taken:
    """A letter of a source, which is told how the letter ends."""

    source: Letters
    received: ReceivedLetter

    @property
    def copy(self) -> str:
        return self.received.letter.message_id

    @property
    def arn(self) -> str:
        return self.source.arn

    def record(self) -> bool:
        return self.source.record(self.received)

    def settle(self, result: CanaryResult) -> bool:
        return self.source.settle(self.received, result)

    def give_back(self) -> None:
        self.source.give_back(self.received)


@dataclass
class Answers(CanaryConsumer):
    """A consumer that gives these answers in order, and repeats the last one."""

    answers: list[CanaryResult | Exception]
    meanwhile: Callable[[], None] = lambda: None
    asked: list[str] = field(default_factory=list)

    def process(
        self, received: ReceivedLetter, source_arn: str, permit: str, key: str
    ) -> CanaryResult:
        self.asked.append(permit)
        self.meanwhile()
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer


def well() -> str:
    """A dependency's health check that finds nothing."""
    return ""


def down() -> str:
    return "down"


@dataclass
class Scene:
    """An open circuit whose cooldown is over, and its prober."""

    circuits: Circuits
    sources: list[Letters]
    consumer: Answers
    health: Health | None = None
    announced: Announcements = field(default_factory=Announcements)
    hides: Callable[[str], bool] = lambda _: False
    execution: Execution = field(default_factory=lambda: Execution(KEY, 1, 0, said="OPEN"))

    def probe(self) -> ExecutionStep:
        ids = iter(f"id{len(self.circuits.events)}.{number}" for number in range(9))
        prober = Prober(
            pipeline=KEY,
            breaker=self.circuits,
            circuits=self.circuits,
            sources=self.sources,
            consumer=self.consumer,
            answer_seconds=ANSWER,
            health=self.health,
            announcer=CircuitAnnouncer(
                pipeline=KEY, announcer=self.announced, count_metric=self.circuits.count_metric
            ),
            clock=self.circuits.clock,
            new_id=lambda: next(ids),
            count_metric=self.circuits.count_metric,
            hides_messages=self.hides,
        )
        step = prober.probe(self.execution)
        self.execution = replace(
            self.execution, probes=step.probes, empty=step.empty, said=step.said, pause_failed=False
        )
        return step

    @property
    def circuit(self) -> Circuit:
        return self.circuits.held[KEY]

    def cool_down(self) -> None:
        self.circuits.now = max(self.circuits.now, self.circuit.open_until)


@pytest.fixture
def scene() -> Scene:
    circuits = Circuits(CircuitPolicy(lease=60))
    circuits.apply(KEY, Tripped())
    scene = Scene(circuits, [Letters(letters=["a"]), Letters(letters=["b"])], Answers([WELL]))
    scene.cool_down()
    return scene


def test_two_successful_canaries_close_the_circuit(scene: Scene) -> None:
    first, second = scene.probe(), scene.probe()
    assert (first.next, first.state, first.wait_seconds) == (
        Next.PROBE,
        "HALF_OPEN",
        SECONDS_BETWEEN_CANARIES,
    )
    assert (second.next, second.state) == (Next.RESUME, "CLOSED")
    assert [result for _, result in scene.sources[0].settled] == [WELL, WELL]
    assert scene.announced.published == [("OPEN", "HALF_OPEN"), ("HALF_OPEN", "CLOSED")]


def test_a_failed_canary_opens_the_circuit_for_longer_and_stays_in_its_place(scene: Scene) -> None:
    scene.consumer.answers = [ILL]
    cooldown = scene.circuit.cooldown
    step = scene.probe()
    assert (step.next, step.state) == (Next.PROBE, "OPEN")
    assert scene.circuit.cooldown == 2 * cooldown
    assert step.wait_seconds >= scene.circuit.open_until - scene.circuits.now
    assert scene.sources[0].settled == [("a", ILL)]
    assert scene.announced.published == []


def test_a_canary_without_an_answer_is_a_failure_and_stays_locked(scene: Scene) -> None:
    scene.consumer.answers = [CanaryResult(CanaryVerdict.NO_ANSWER)]
    assert scene.probe().state == "OPEN"
    assert scene.sources[0].settled == [("a", CanaryResult(CanaryVerdict.NO_ANSWER))]


NEUTRAL = CanaryResult(CanaryVerdict.NEUTRAL)


SIX = ("a", "b", "c", "d", "e", "f")


def test_a_letter_that_fails_by_its_own_fault_says_nothing_and_the_next_is_tried(
    scene: Scene,
) -> None:
    scene.sources[0].letters = list(SIX)
    scene.consumer.answers = [NEUTRAL, NEUTRAL, WELL]
    assert scene.probe().state == "HALF_OPEN"
    assert (scene.circuit.permit, scene.circuit.successes) == (None, 1)
    assert len(scene.consumer.asked) == 3


def test_a_probe_tries_at_most_five_letters_and_the_cooldown_does_not_grow(scene: Scene) -> None:
    scene.sources[0].letters = list(SIX)
    scene.consumer.answers = [NEUTRAL]
    cooldown = scene.circuit.cooldown
    step = scene.probe()
    assert (step.state, step.wait_seconds) == ("HALF_OPEN", cooldown)
    assert (scene.circuit.permit, scene.circuit.successes) == (None, 0)
    assert len(scene.consumer.asked) == MOST_CANARIES == 5
    assert scene.circuit.cooldown == cooldown


def test_a_failure_after_letters_of_their_own_fault_is_a_failure(scene: Scene) -> None:
    scene.sources[0].letters = list(SIX)
    scene.consumer.answers = [NEUTRAL, ILL]
    assert scene.probe().state == "OPEN"
    assert len(scene.consumer.asked) == 2


def test_no_letter_is_tried_twice_in_one_probe(scene: Scene) -> None:
    """A letter is drawn by lot, and the ledger may not have kept that it failed."""
    scene.consumer.answers = [NEUTRAL]
    scene.probe()
    assert scene.sources[0].settled == [("a", NEUTRAL)]
    assert scene.sources[0].given_back == ["a"]


def test_no_further_letter_is_tried_than_the_permit_lasts_for(scene: Scene) -> None:
    scene.sources[0].letters = list(SIX)
    scene.consumer.answers = [NEUTRAL]
    scene.consumer.meanwhile = lambda: setattr(scene.circuits, "now", scene.circuits.now + 25)
    scene.probe()
    assert len(scene.consumer.asked) == 2
    assert scene.circuit.permit is None


def test_no_further_letter_is_tried_after_a_minute(scene: Scene) -> None:
    """The function ends two minutes after the longest answer."""
    scene.sources[0].letters = list(SIX)
    scene.circuits.policy = replace(scene.circuits.policy, lease=600)
    scene.consumer.answers = [NEUTRAL]
    scene.consumer.meanwhile = lambda: setattr(scene.circuits, "now", scene.circuits.now + 31)
    scene.probe()
    assert len(scene.consumer.asked) == 2


def test_while_the_health_check_says_down_no_letter_is_tried(scene: Scene) -> None:
    scene.health = down
    cooldown = scene.circuit.cooldown
    assert scene.probe().state == "OPEN"
    assert scene.circuit.cooldown == 2 * cooldown
    assert scene.consumer.asked == []
    assert scene.sources[0].locks == []


def test_a_health_check_that_says_well_does_not_outweigh_a_letter_that_fails(scene: Scene) -> None:
    scene.health = well
    scene.consumer.answers = [ILL]
    assert scene.probe().state == "OPEN"
    assert len(scene.consumer.asked) == 1


def test_letters_that_are_not_in_the_lane_yet_are_no_empty_probe(scene: Scene) -> None:
    def take(key: str, lock_seconds: float) -> Any:
        raise NotInLaneYet(key)

    scene.sources[0].take = take  # type: ignore[method-assign]
    step = scene.probe()
    assert (step.state, step.empty) == ("HALF_OPEN", 0)
    assert step.wait_seconds == SECONDS_BETWEEN_CANARIES
    assert scene.circuit.permit is None


def test_each_canary_has_a_permit_of_its_own(scene: Scene) -> None:
    scene.probe()
    scene.probe()
    assert len(set(scene.consumer.asked)) == 2


def test_nothing_is_sent_before_the_cooldown_is_over(scene: Scene) -> None:
    scene.circuits.now = scene.circuit.open_until - 3
    step = scene.probe()
    assert scene.consumer.asked == []
    assert (step.next, step.wait_seconds) == (Next.PROBE, 3)


def test_nothing_is_sent_while_another_canary_is_under_way(scene: Scene) -> None:
    scene.circuits.apply(KEY, PermitTaken("another"))
    step = scene.probe()
    assert scene.consumer.asked == []
    assert step.next is Next.PROBE
    scene.circuits.now += step.wait_seconds
    # The other canary's lease has ended without an answer: that is a failure.
    assert scene.probe().state == "OPEN"
    assert scene.consumer.asked == []


def test_a_permit_that_ends_too_soon_sends_nothing(scene: Scene) -> None:
    dlq = scene.sources[0]
    original = dlq.take

    def slowly(key: str, lock_seconds: float) -> Any:
        scene.circuits.now += scene.circuits.policy.lease - ANSWER + 1
        return original(key, lock_seconds)

    dlq.take = slowly  # type: ignore[method-assign]
    assert scene.probe().state == "HALF_OPEN"
    assert scene.consumer.asked == []
    assert dlq.given_back == ["a"]
    assert scene.circuit.permit is None


def test_sources_are_tried_in_their_order(scene: Scene) -> None:
    scene.sources[0].letters = []
    scene.probe()
    assert [copy for copy, _ in scene.sources[1].settled] == ["b"]


# What happens to the letter and the permit after an error.


def test_a_source_that_fails_gives_the_permit_back(scene: Scene) -> None:
    scene.sources[0].fails_to_take = True
    with pytest.raises(QueueUnavailable):
        scene.probe()
    assert (scene.circuit.state, scene.circuit.permit) == (State.HALF_OPEN, None)


def test_a_consumer_that_was_certainly_not_called_gives_letter_and_permit_back(
    scene: Scene,
) -> None:
    scene.consumer.answers = [ConsumerUnavailable("throttled")]
    with pytest.raises(ConsumerUnavailable):
        scene.probe()
    assert (scene.circuit.state, scene.circuit.permit) == (State.HALF_OPEN, None)
    assert scene.sources[0].given_back == ["a"]


def test_a_letter_that_could_not_be_deleted_is_counted_and_judged(scene: Scene) -> None:
    scene.sources[0].fails_to_settle = True
    scene.probe()
    assert scene.probe().state == "CLOSED"
    assert scene.circuits.metrics["Undeleted"] == 2


def test_an_answer_that_the_store_did_not_confirm_is_written_again(scene: Scene) -> None:
    scene.consumer.meanwhile = lambda: setattr(scene.circuits, "down", 1)
    scene.probe()
    assert scene.probe().state == "CLOSED"


def test_a_store_that_is_down_leaves_the_permit_to_its_lease(scene: Scene) -> None:
    scene.consumer.meanwhile = lambda: setattr(scene.circuits, "down", 2)
    with pytest.raises(CircuitsUnavailable):
        scene.probe()
    assert scene.circuit.permit is not None
    assert [copy for copy, _ in scene.sources[0].settled] == ["a"]
    step = scene.probe()
    assert len(scene.consumer.asked) == 1
    scene.circuits.now += step.wait_seconds
    assert scene.probe().state == "OPEN"


def test_a_result_after_an_override_changes_nothing(scene: Scene) -> None:
    override = Override(State.OPEN, "ada", "looks odd", scene.circuits.now + 600)
    scene.consumer.meanwhile = lambda: scene.circuits.apply(KEY, OverrideBegun(override)) and None
    assert scene.probe().next is Next.HAND_OVER
    assert scene.circuit.is_forced(scene.circuits.now)
    assert scene.circuit.successes == 0


# Canaries that may be processed twice.


NO_ANSWER = CanaryResult(CanaryVerdict.NO_ANSWER)
DUPLICATE = "PossibleDuplicate"


@pytest.fixture
def live(scene: Scene) -> Scene:
    """The canary is a message of the main queue, which SQS delivers again by itself."""
    scene.sources = [Letters(letters=["a"], keeps_record=False)]
    return scene


def test_a_message_without_an_answer_is_counted_before_its_lock_can_end(live: Scene) -> None:
    live.consumer.answers = [NO_ANSWER]
    counted: list[int] = []
    live.sources[0].settle = (  # type: ignore[method-assign]
        lambda received, result: counted.append(live.circuits.metrics[DUPLICATE]) or False
    )
    assert live.probe().state == "OPEN"
    assert counted == [1]
    assert live.circuits.metrics[DUPLICATE] == 1


def test_a_processed_message_that_could_not_be_deleted_is_counted(live: Scene) -> None:
    live.sources[0].fails_to_settle = True
    live.probe()
    assert (live.circuits.metrics["Undeleted"], live.circuits.metrics[DUPLICATE]) == (1, 1)


@pytest.mark.parametrize("result", [WELL, ILL, CanaryResult(CanaryVerdict.NEUTRAL)])
def test_an_answered_message_is_no_possible_duplicate(live: Scene, result: CanaryResult) -> None:
    live.consumer.answers = [result]
    live.probe()
    assert live.circuits.metrics[DUPLICATE] == 0


def test_a_consumer_that_was_certainly_not_called_processed_nothing(live: Scene) -> None:
    live.consumer.answers = [ConsumerUnavailable("throttled")]
    with pytest.raises(ConsumerUnavailable):
        live.probe()
    assert live.circuits.metrics[DUPLICATE] == 0


@pytest.mark.parametrize("result", [NO_ANSWER, WELL])
def test_a_letter_on_record_is_counted_by_the_run_that_sends_it_again(
    scene: Scene, result: CanaryResult
) -> None:
    scene.consumer.answers = [result]
    scene.sources[0].fails_to_settle = True
    scene.probe()
    assert scene.sources[0].recorded == ["a"]
    assert scene.circuits.metrics[DUPLICATE] == 0


class Killed(BaseException):
    """The prober's process ends."""


def killed() -> None:
    raise Killed


def test_a_message_whose_prober_died_is_counted_by_the_next_one_before_its_lock_ends(
    live: Scene,
) -> None:
    live.circuits.policy = replace(live.circuits.policy, lease=600)
    live.consumer.meanwhile = killed
    taken = live.circuits.now
    with pytest.raises(Killed):
        live.probe()
    assert live.circuits.metrics[DUPLICATE] == 0
    while live.circuit.permit is not None:
        live.circuits.now += live.probe().wait_seconds
    assert live.circuits.metrics[DUPLICATE] == 1
    assert live.circuits.now - taken < live.sources[0].locks[0]
    assert len(live.consumer.asked) == 1


def test_a_prober_that_died_before_the_consumer_had_a_letter_leaves_no_duplicate(
    live: Scene,
) -> None:
    live.sources[0].take = lambda key, lock_seconds: killed()  # type: ignore[method-assign]
    with pytest.raises(Killed):
        live.probe()
    live.circuits.now += live.circuits.policy.lease + 60
    assert live.probe().state == "OPEN"
    assert live.circuits.metrics[DUPLICATE] == 0


def test_a_message_that_cannot_be_named_in_the_permit_is_not_tried(live: Scene) -> None:
    original = live.sources[0].take

    def take(key: str, lock_seconds: float) -> Any:
        live.circuits.down = 1
        return original(key, lock_seconds)

    live.sources[0].take = take  # type: ignore[method-assign]
    with pytest.raises(CircuitsUnavailable):
        live.probe()
    assert live.consumer.asked == []
    assert live.sources[0].given_back == ["a"]


def test_a_message_is_not_tried_once_a_person_has_overridden_the_circuit(live: Scene) -> None:
    original = live.sources[0].take

    def take(key: str, lock_seconds: float) -> Any:
        override = Override(State.OPEN, "ada", "looks odd", live.circuits.now + 600)
        live.circuits.apply(KEY, OverrideBegun(override))
        return original(key, lock_seconds)

    live.sources[0].take = take  # type: ignore[method-assign]
    assert live.probe().next is Next.HAND_OVER
    assert live.consumer.asked == []
    assert live.sources[0].given_back == ["a"]


def test_a_letter_that_cannot_be_put_on_record_is_not_tried(scene: Scene) -> None:
    scene.sources[0].fails_to_record = True
    with pytest.raises(JournalUnavailable):
        scene.probe()
    assert scene.consumer.asked == []
    assert scene.sources[0].given_back == ["a"]
    assert (scene.circuit.state, scene.circuit.permit) == (State.HALF_OPEN, None)


# Probes without a letter.


def test_without_a_letter_the_next_probe_waits_the_same_cooldown(scene: Scene) -> None:
    for source in scene.sources:
        source.letters = []
    cooldown = scene.circuit.cooldown
    for number in range(1, EMPTY_PROBES_FOR_SUCCESS):
        step = scene.probe()
        assert (step.next, step.state, step.empty) == (Next.PROBE, "HALF_OPEN", number)
        assert step.wait_seconds == cooldown
    assert scene.circuit.cooldown == cooldown
    assert scene.circuit.successes == 0


def test_several_probes_without_any_letter_close_the_circuit(scene: Scene) -> None:
    for source in scene.sources:
        source.letters = []
    states = [scene.probe().state for _ in range(EMPTY_PROBES_FOR_SUCCESS + 1)]
    assert states == ["HALF_OPEN"] * EMPTY_PROBES_FOR_SUCCESS + ["CLOSED"]


def hidden(_: str) -> bool:
    return True


def unanswered(_: str) -> bool:
    raise QueueUnavailable("throttled")


@pytest.mark.parametrize("hides", [hidden, unanswered])
def test_while_messages_are_hidden_ten_probes_without_a_letter_are_a_success(
    scene: Scene, hides: Callable[[str], bool]
) -> None:
    """On FIFO one hidden message keeps its whole group from us."""
    for source in scene.sources:
        source.letters = []
    scene.hides = hides
    states = [scene.probe().state for _ in range(EMPTY_PROBES_WHILE_HIDDEN + 1)]
    assert states == ["HALF_OPEN"] * 10 + ["CLOSED"]


def test_a_letter_in_between_resets_the_count_of_empty_probes(scene: Scene) -> None:
    scene.sources[1].letters = []
    scene.sources[0].letters = []
    scene.probe()
    scene.sources[0].letters = ["a"]
    assert scene.probe().empty == 0


@pytest.mark.parametrize(("health", "state"), [(well, "CLOSED"), (down, "OPEN")])
def test_without_a_letter_the_health_check_decides(
    scene: Scene, health: Health, state: str
) -> None:
    for source in scene.sources:
        source.letters = []
    scene.health = health
    scene.probe()
    assert scene.probe().state == state


# Which execution runs the outage, and for how long.


def test_an_outage_of_another_execution_is_left_alone(scene: Scene) -> None:
    scene.execution = replace(scene.execution, restart=1)
    before = len(scene.circuits.events)
    assert scene.probe().next is Next.HAND_OVER
    assert len(scene.circuits.events) == before


def test_an_unreadable_circuit_is_handed_over(scene: Scene) -> None:
    scene.circuits.held[KEY] = Circuit(KEY, State.OPEN, unreadable=True)
    assert scene.probe().next is Next.HAND_OVER


def test_an_execution_hands_over_after_its_last_probe(scene: Scene) -> None:
    scene.consumer.answers = [ILL]
    scene.execution = replace(scene.execution, probes=MOST_PROBES - 1)
    assert scene.probe().next is Next.HAND_OVER


def test_the_last_probe_may_still_close_the_circuit(scene: Scene) -> None:
    scene.probe()
    scene.execution = replace(scene.execution, probes=MOST_PROBES - 1)
    assert scene.probe().next is Next.RESUME


def test_a_long_override_is_checked_each_day(scene: Scene) -> None:
    override = Override(
        State.OPEN, "ada", "looks odd", scene.circuits.now + 30 * LONGEST_WAIT_SECONDS
    )
    forced = scene.circuits.apply(KEY, OverrideBegun(override)).circuit
    scene.execution = replace(scene.execution, restart=forced.restart)
    assert scene.probe().wait_seconds == LONGEST_WAIT_SECONDS


def test_an_override_without_an_end_is_checked_each_day_and_admits_no_canary(scene: Scene) -> None:
    override = Override(State.OPEN, "ada", "until I say so", NO_END)
    forced = scene.circuits.apply(KEY, OverrideBegun(override)).circuit
    scene.execution = replace(scene.execution, restart=forced.restart)
    for _ in range(400):
        step = scene.probe()
        assert (step.next, step.state) == (Next.PROBE, "OPEN")
        assert step.wait_seconds == LONGEST_WAIT_SECONDS
        scene.circuits.now += step.wait_seconds
    assert scene.consumer.asked == []


def test_a_consumer_that_was_not_paused_is_counted(scene: Scene) -> None:
    scene.execution = replace(scene.execution, pause_failed=True)
    scene.probe()
    scene.probe()
    assert scene.circuits.metrics["ConsumerNotPaused"] == 1


# Figures that an operator may count on.


def test_a_canary_stays_locked_for_a_minute_after_its_lease_has_ended(scene: Scene) -> None:
    scene.probe()
    assert scene.sources[0].locks == [60 + 60]


def test_a_canary_stays_locked_for_a_minute_after_its_latest_answer(scene: Scene) -> None:
    """Also where a slow source has used up most of the lease."""
    scene.sources[0].letters = []
    original = scene.sources[0].take

    def slowly(key: str, lock_seconds: float) -> Any:
        scene.circuits.now += 50
        return original(key, lock_seconds)

    scene.sources[0].take = slowly  # type: ignore[method-assign]
    scene.probe()
    assert scene.sources[1].locks == [60 + 60]


def test_the_last_moment_in_which_an_answer_fits_into_the_lease_is_used(scene: Scene) -> None:
    original = scene.sources[0].take

    def slowly(key: str, lock_seconds: float) -> Any:
        scene.circuits.now += 60 - 20
        return original(key, lock_seconds)

    scene.sources[0].take = slowly  # type: ignore[method-assign]
    scene.probe()
    assert len(scene.consumer.asked) == 1


def test_the_third_probe_in_a_row_without_a_letter_is_the_first_success(scene: Scene) -> None:
    for source in scene.sources:
        source.letters = []
    successes = []
    for _ in range(3):
        scene.probe()
        successes.append(scene.circuit.successes)
    assert successes == [0, 0, 1]
    assert scene.circuits.metrics["NothingToProbe"] == 3


def test_a_health_check_is_counted_as_a_probe_without_a_letter(scene: Scene) -> None:
    for source in scene.sources:
        source.letters = []
    scene.health = well
    step = scene.probe()
    assert (step.empty, step.wait_seconds) == (0, SECONDS_BETWEEN_CANARIES)
    assert scene.circuits.metrics["NothingToProbe"] == 1


def test_each_probe_is_counted_in_the_execution(scene: Scene) -> None:
    assert [scene.probe().probes, scene.probe().probes] == [1, 2]
    scene.execution = replace(scene.execution, restart=1)
    assert scene.probe().probes == 3


def test_the_499th_probe_is_not_the_last_and_the_500th_is(scene: Scene) -> None:
    scene.consumer.answers = [ILL]
    scene.execution = replace(scene.execution, probes=498)
    assert scene.probe().next is Next.PROBE
    scene.cool_down()
    assert scene.probe().next is Next.HAND_OVER


def test_the_permit_names_the_message_that_the_consumer_is_about_to_receive(live: Scene) -> None:
    names: list[tuple[str | None, int | None]] = []

    def look() -> None:
        permit = live.circuit.permit
        assert permit is not None
        names.append((permit.origin, permit.attempt))

    live.consumer.meanwhile = look
    live.probe()
    assert names == [("a", 0)]


def test_a_lost_permit_without_a_message_is_no_duplicate(scene: Scene) -> None:
    scene.circuits.apply(KEY, PermitTaken("another"))
    scene.circuits.now += 60 + 60
    assert scene.probe().state == "OPEN"
    assert scene.circuits.metrics[DUPLICATE] == 0


def test_a_consumer_that_was_paused_is_not_counted(scene: Scene) -> None:
    scene.probe()
    assert scene.circuits.metrics["ConsumerNotPaused"] == 0


# A circuit that a person has opened, and evidence about other circuits.

ELSEWHERE = CanaryResult(CanaryVerdict.ELSEWHERE)
ENDPOINT = "hook"


@pytest.fixture
def let_go() -> Scene:
    """A circuit that a person has opened, and let go again."""
    circuits = Circuits(CircuitPolicy(lease=60))
    circuits.apply(KEY, OverrideBegun(Override(State.OPEN, "ada", "a rollback", NO_END)))
    circuit = circuits.apply(KEY, OverrideEnded()).circuit
    scene = Scene(circuits, [Letters(letters=list(SIX))], Answers([ELSEWHERE]))
    scene.execution = Execution(KEY, circuit.outage, circuit.restart, said="OPEN")
    return scene


def test_an_answer_about_its_endpoint_closes_what_a_person_opened(let_go: Scene) -> None:
    """One letter a probe is enough, whether its endpoint is well or dead."""
    assert [let_go.probe().state, let_go.probe().state] == ["HALF_OPEN", "CLOSED"]
    assert [name for name, _ in let_go.sources[0].settled] == ["a", "b"]


def test_a_letter_that_fails_by_its_own_fault_closes_what_a_person_opened(let_go: Scene) -> None:
    """Such as that of an endpoint that answers 404: it is posted to no more than needed."""
    let_go.consumer.answers = [NEUTRAL]
    assert [let_go.probe().state, let_go.probe().state] == ["HALF_OPEN", "CLOSED"]
    assert len(let_go.consumer.asked) == 2


def test_a_letter_that_was_not_tried_closes_nothing(let_go: Scene) -> None:
    let_go.consumer.answers = [ConsumerUnavailable("throttled")]
    for _ in range(3):
        with pytest.raises(ConsumerUnavailable):
            let_go.probe()
    assert (let_go.circuit.state, let_go.circuit.successes) == (State.HALF_OPEN, 0)


def test_with_nothing_to_try_what_a_person_opened_closes_at_once(let_go: Scene) -> None:
    let_go.sources[0].letters = []
    first, second = let_go.probe(), let_go.probe()
    assert [first.state, second.state] == ["HALF_OPEN", "CLOSED"]
    assert first.wait_seconds == SECONDS_FOR_HIDDEN


def test_hidden_messages_are_waited_for_though_not_long(let_go: Scene) -> None:
    let_go.sources[0].letters = []
    let_go.hides = lambda _: True
    steps = [let_go.probe() for _ in range(EMPTY_PROBES_FOR_SUCCESS + 1)]
    assert [step.state for step in steps] == ["HALF_OPEN"] * EMPTY_PROBES_FOR_SUCCESS + ["CLOSED"]
    assert sum(step.wait_seconds for step in steps) <= 45


def test_what_a_person_opened_is_an_outage_once_a_canary_fails(let_go: Scene) -> None:
    """It was not paused for: the person had let it go."""
    let_go.consumer.answers = [ILL, ELSEWHERE]
    step = let_go.probe()
    assert (step.next, step.state) == (Next.PAUSE, "OPEN")
    let_go.cool_down()
    step = let_go.probe()
    assert (step.next, step.state, step.empty) == (Next.PROBE, "HALF_OPEN", 1)
    assert let_go.circuit.successes == 0


def test_letters_of_other_circuits_are_no_letters_of_an_outage(scene: Scene) -> None:
    """They show that the consumer works, and nothing of what failed: no more is waited for."""
    scene.sources[0].letters = [str(number) for number in range(99)]
    scene.consumer.answers = [ELSEWHERE]
    cooldown = scene.circuit.cooldown
    for number in (1, 2):
        step = scene.probe()
        assert (step.state, step.empty, step.wait_seconds) == ("HALF_OPEN", number, cooldown)
        assert len(scene.consumer.asked) == number * MOST_CANARIES
    assert scene.circuit.successes == 0
    scene.probe()
    assert scene.probe().state == "CLOSED"


def test_a_letter_of_the_outage_among_those_of_other_circuits_decides(scene: Scene) -> None:
    scene.sources[0].letters = list(SIX)
    scene.consumer.answers = [ELSEWHERE, NEUTRAL, ILL]
    assert scene.probe().state == "OPEN"
    assert len(scene.consumer.asked) == 3


@pytest.mark.parametrize("held", [KEY, f"{KEY}#config", ENDPOINT])
def test_a_circuit_is_not_tried_while_another_holds_all_of_its_letters(
    scene: Scene, held: str
) -> None:
    """Else a held pipeline would close the circuit of a dead endpoint: nothing waits for it."""
    key = f"{ENDPOINT}#config"
    for each in (key, held):
        scene.circuits.held[each] = replace(scene.circuit, key=each)
    if held != KEY:
        del scene.circuits.held[KEY]
    scene.execution = replace(scene.execution, key=key)
    for _ in range(9):
        step = scene.probe()
        assert (step.next, step.state, step.empty) == (Next.PROBE, "OPEN", 0)
        assert step.wait_seconds >= scene.circuits.held[key].cooldown
    assert scene.consumer.asked == []
    del scene.circuits.held[held]
    assert scene.probe().state == "CLOSED"


def test_no_letter_is_tried_if_a_person_opens_the_pipeline_while_one_is_looked_for(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """To fill a lane takes seconds, and what a person stops, stops at once."""
    scene.circuits.held = {ENDPOINT: replace(scene.circuit, key=ENDPOINT)}
    scene.execution = replace(scene.execution, key=ENDPOINT)
    letters, take = scene.sources[0], scene.sources[0].take

    def take_while_a_person_stops_all(key: str, lock_seconds: float) -> Any:
        scene.circuits.held[KEY] = Circuit(KEY, State.OPEN)
        return take(key, lock_seconds)

    monkeypatch.setattr(letters, "take", take_while_a_person_stops_all)
    step = scene.probe()
    assert (step.next, step.state, step.empty) == (Next.PROBE, "HALF_OPEN", 0)
    assert (scene.consumer.asked, letters.given_back, letters.recorded) == ([], ["a"], [])
    assert scene.circuits.held[ENDPOINT].permit is None


def test_a_letter_goes_back_if_the_circuits_cannot_be_read_before_it_is_tried(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    letters, take = scene.sources[0], scene.sources[0].take

    def take_while_the_table_is_down(key: str, lock_seconds: float) -> Any:
        scene.circuits.down = 1
        return take(key, lock_seconds)

    monkeypatch.setattr(letters, "take", take_while_the_table_is_down)
    with pytest.raises(CircuitsUnavailable):
        scene.probe()
    assert (scene.consumer.asked, letters.given_back, letters.recorded) == ([], ["a"], [])


def test_the_pipelines_circuit_does_not_wait_for_an_endpoints(scene: Scene) -> None:
    scene.circuits.held[ENDPOINT] = replace(scene.circuit, key=ENDPOINT)
    assert scene.probe().state == "HALF_OPEN"
    assert len(scene.consumer.asked) == 1
