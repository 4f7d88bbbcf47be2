"""What a whole run does at its edges: nothing to do, nothing allowed, nothing possible."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from types import SimpleNamespace
from typing import Any

import pytest

from deadletter.aws.outcomes import DynamoDBOutcomes
from deadletter.aws.wiring.stores import Stores
from deadletter.circuit.state import OutcomeCounts
from deadletter.contract import Mode
from deadletter.message.queue import Depth, QueueUnavailable
from deadletter.redrive.journal import JournalUnavailable
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.redriver import Redriver
from deadletter.redrive.report import Report
from deadletter.redrive.source_memory import PAST, SourceMemory
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.routing.router import RouterAnswer, RouterUnavailable
from deadletter.settings.pipeline import RetryPolicy
from deadletter.signals.figures import Count, Counted, Figure
from deadletter.testing.fakes import client_error
from tests.simulation.stage import Stage, in_turn

HOUR = 3_600


@pytest.fixture
def stage() -> Stage:
    return Stage()


def redriver(stage: Stage, **changes: Any) -> Redriver:
    """A redriver of the stage, some parts of whose setup are others."""
    return Redriver(replace(stage.redriver()._setup, **changes))


def dead(stage: Stage, letters: int) -> None:
    for _ in range(letters):
        stage.put(url=stage.dlq)


def run(stage: Stage, *, asked: bool = False, dry_run: bool = False, **changes: Any) -> Report:
    made = redriver(stage, **changes)
    return made.run(stage.clock() + 55, asked=asked, dry_run=dry_run)


def memory(stage: Stage) -> SourceMemory:
    return stage.redriver()._setup.lease.read()


def remember(stage: Stage, memory: SourceMemory) -> None:
    stage.redriver()._setup.lease.record(memory)


def visible(stage: Stage) -> int:
    return stage.redriver()._setup.dlq.depth().visible


class Other:
    """Another object, of which some methods are replaced."""

    def __init__(self, real: Any, **methods: Any) -> None:
        self._real = real
        self._methods = methods

    def __getattr__(self, name: str) -> Any:
        return self._methods.get(name) or getattr(self._real, name)


def raising(error: Exception) -> Callable[..., Any]:
    def call(*_: Any, **__: Any) -> Any:
        raise error

    return call


# Looking.


@pytest.mark.parametrize("looks", [0, 1, 3, 4])
def test_an_observing_run_looks_twice_at_each_letter_and_no_more(stage: Stage, looks: int) -> None:
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    dead(stage, 2)
    remember(stage, SourceMemory(looks=looks))
    report = run(stage)
    looked = min(2, 4 - looks)
    assert report.counts.get(Count.LOOKED_AT, 0) == looked
    assert report.counts.get(Count.LEFT_IN_PLACE, 0) == looked
    assert report.counts.get(Figure.RECEIVED, 0) == len(report.ages) == looked
    assert memory(stage).looks == looks + looked
    if looked:
        assert report.stopped == f"looked at {looked} messages, moved none"
    else:
        assert report.stopped.startswith("looked twice at what is there")
    # Each of them is visible again at once.
    assert visible(stage) == 2


def test_a_person_looks_again_at_a_hundred_letters_at_most(stage: Stage) -> None:
    dead(stage, 130)
    remember(stage, SourceMemory(looks=260))
    report = run(stage, dry_run=True, asked=True)
    assert report.stopped == "looked at 100 messages, moved none"
    assert memory(stage).looks == 360
    assert visible(stage) == 130


def test_a_look_that_saw_all_knows_the_oldest_letter_and_whether_the_queue_is_empty(
    stage: Stage,
) -> None:
    remember(stage, SourceMemory(oldest=1.0, looks=5))
    began = stage.clock()
    run(stage, dry_run=True)
    assert (memory(stage).oldest, memory(stage).looks) == (None, 0)
    assert memory(stage).emptied_at == began
    sent = stage.clock()
    dead(stage, 1)
    stage.clock.advance(60)
    dead(stage, 1)
    run(stage, dry_run=True)
    assert (memory(stage).oldest, memory(stage).looks) == (sent, 2)
    assert memory(stage).emptied_at == began


def test_a_look_that_did_not_see_all_keeps_what_was_the_oldest(stage: Stage) -> None:
    dead(stage, 1)
    stage.take(stage.dlq, hide=600)
    dead(stage, 1)
    remember(stage, SourceMemory(oldest=1.0))
    run(stage, dry_run=True)
    assert memory(stage).oldest == 1.0


# Letters that are left alone after fruitless runs.


@pytest.mark.parametrize(
    ("fruitless", "ago", "text"),
    [
        (1, 30, "the last run moved none of its messages: the next try is in 2 minutes"),
        (1, 75, "the last run moved none of its messages: the next try is in a minute"),
        (1, 119, "the last run moved none of its messages: the next try is in a minute"),
        (2, 15, "the last 2 runs moved none of their messages: the next try is in 4 minutes"),
    ],
)
def test_a_run_that_does_not_try_says_when_the_next_one_will(
    stage: Stage, fruitless: int, ago: float, text: str
) -> None:
    dead(stage, 1)
    ended = stage.clock() - ago
    before = SourceMemory(
        fruitless=fruitless, fruitless_at=ended, ended_at=ended, ended_well_at=1.0, trouble="denied"
    )
    remember(stage, before)
    report = run(stage)
    assert report.stopped == f"{text} or with `dlq retry --auto`"
    assert (report.ended_well, report.trouble) == (False, "denied")
    assert report.counts == {}
    assert run(stage, asked=True).moved == 1


def test_a_run_that_waits_after_one_that_ended_well_ends_well_too(stage: Stage) -> None:
    now = stage.clock()
    remember(stage, SourceMemory(fruitless=1, fruitless_at=now, ended_at=now, ended_well_at=now))
    assert run(stage).ended_well


def test_a_run_waits_unless_a_person_asks(stage: Stage) -> None:
    dead(stage, 1)
    remember(stage, SourceMemory(fruitless=2, fruitless_at=stage.clock()))
    assert "the next try is in" in redriver(stage).run(stage.clock() + 55).stopped
    assert redriver(stage).run(stage.clock() + 55, asked=True).moved == 1


def test_a_look_judges_letters_that_have_served_no_delay(stage: Stage) -> None:
    stage.add_rule("later", tenantId="a", action="delayed_redrive", delay_seconds=7_200)
    stage.put()
    stage.fail()
    assert run(stage, dry_run=True).decisions == {"HOLD": 1}


def test_a_look_does_not_wait_for_the_next_try(stage: Stage) -> None:
    dead(stage, 1)
    remember(stage, SourceMemory(fruitless=1, fruitless_at=stage.clock()))
    assert run(stage, dry_run=True).counts[Count.LOOKED_AT] == 1


# The workers.


@pytest.mark.parametrize(
    ("fruitless", "letters", "workers"), [(0, 301, 4), (0, 100, 1), (1, 301, 1)]
)
def test_one_worker_tries_after_fruitless_runs_and_takes_what_is_one_chunk(
    stage: Stage, fruitless: int, letters: int, workers: int
) -> None:
    stage.pipeline = replace(stage.pipeline, workers=4)
    dead(stage, letters)
    remember(stage, SourceMemory(fruitless=fruitless, fruitless_at=1.0))
    at_once: list[int] = []

    def in_parallel(calls: Sequence[Callable[[], Any]]) -> list[Any]:
        at_once.append(len(calls))
        return in_turn(calls)

    assert run(stage, in_parallel=in_parallel).moved
    assert at_once[0] == workers


# A queue whose depth says that it is empty.


def unseen(stage: Stage) -> Any:
    """The DLQ, whose approximate depth misses its letters."""
    return Other(stage.redriver()._setup.dlq, depth=lambda: Depth(0, 0, 0))


def polls_of(stage: Stage, queue: Any, **asked: bool) -> list[int]:
    """The seconds that each poll of a run over this queue waits."""
    waits: list[int] = []

    def receive(most: int, lock_seconds: int, wait_seconds: int) -> Any:
        waits.append(wait_seconds)
        return queue.receive(most, lock_seconds, wait_seconds)

    run(stage, dlq=Other(queue, receive=receive), **asked)
    return waits


def test_an_end_that_the_depth_did_not_foretell_is_waited_for(stage: Stage) -> None:
    dead(stage, 3)
    assert polls_of(stage, unseen(stage)) == [1, 0, 1, 1]
    assert len(stage.bodies(stage.main)) == 3


def test_a_look_at_few_letters_is_one_poll(stage: Stage) -> None:
    dead(stage, 3)
    assert polls_of(stage, stage.redriver()._setup.dlq, dry_run=True) == [1]


def test_a_letter_that_the_depth_misses_is_moved_all_the_same(stage: Stage) -> None:
    dead(stage, 1)
    report = run(stage, dlq=unseen(stage))
    assert (report.moved, report.counts[Figure.RECEIVED]) == (1, 1)


def test_the_first_poll_of_a_queue_that_seems_empty_waits_a_second(stage: Stage) -> None:
    """A short poll asks few of the servers that hold the queue."""
    waits: list[int] = []

    def receive(most: int, lock_seconds: int, wait_seconds: int) -> list[Any]:
        waits.append(wait_seconds)
        return []

    run(stage, dlq=Other(unseen(stage), receive=receive))
    assert waits == [1]


def test_letters_in_hand_are_visible_after_a_run_that_ends_early(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each fills a request of its own; the router fails at the first."""
    monkeypatch.setattr("deadletter.redrive.receiving.MAX_REQUEST", 1)
    dead(stage, 3)
    setup = stage.redriver()._setup
    router = Other(setup.router, decide=raising(RouterUnavailable("down")))
    dlq = Other(setup.dlq, receive=lambda *_: setup.dlq.receive(3, 115, 0))
    report = run(stage, router=router, dlq=dlq)
    assert (report.counts[Figure.RECEIVED], report.moved) == (3, 0)
    assert visible(stage) == 3


def test_a_run_without_the_lease_gives_the_letters_of_its_first_poll_back(stage: Stage) -> None:
    dead(stage, 2)
    stage.redriver()._setup.lease.acquire("another run", stage.clock(), stage.clock() + 60)
    report = run(stage, dlq=unseen(stage))
    assert report.stopped == "another run holds the lease"
    assert report.ended_well
    assert visible(stage) == 2
    assert memory(stage).oldest is not None


def test_a_run_whose_lease_gives_no_answer_gives_its_letters_back(stage: Stage) -> None:
    dead(stage, 2)
    lease = Other(stage.redriver()._setup.lease, acquire=raising(LeaseUnavailable("denied")))
    report = run(stage, dlq=unseen(stage), lease=lease)
    assert report.stopped == "the lease cannot be read: denied"
    assert report.counts[Count.LEASE_UNAVAILABLE] == 1
    assert visible(stage) == 2


def test_a_run_that_cannot_store_its_end_says_so_and_has_still_moved_letters(
    stage: Stage,
) -> None:
    dead(stage, 1)
    lease = Other(stage.redriver()._setup.lease, record=raising(LeaseUnavailable("denied")))
    report = run(stage, lease=lease)
    assert (report.moved, report.counts[Count.LEASE_UNAVAILABLE]) == (1, 1)
    assert (report.ended_well, report.trouble) == (False, "denied")


def test_a_run_gives_its_lease_and_what_is_paid_to_the_next_one(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=1.0)
    dead(stage, 4)
    assert run(stage).moved == 4
    lease = stage.redriver()._setup.lease
    paid = lease.acquire("next", stage.clock(), stage.clock() + 60)
    assert paid is not None
    assert paid.free(stage.clock()) < 10


# Letters that come back.


@dataclass
class Outcomes:
    """What was reported of a circuit's key: successes and failures."""

    reported: list[tuple[str, int, int]] = field(default_factory=list)

    def report(self, key: str, outcomes: OutcomeCounts) -> None:
        self.reported.append((key, outcomes.good, outcomes.bad))


@pytest.mark.parametrize(
    ("back", "new", "reported"),
    [(4, 0, []), (5, 0, [("orders", 0, 5)]), (5, 8, [("orders", 3, 5)])],
)
def test_five_letters_that_come_back_are_reported_with_those_that_did_not(
    stage: Stage, back: int, new: int, reported: list[tuple[str, int, int]]
) -> None:
    dead(stage, back)
    run(stage)
    stage.fail()
    dead(stage, new)
    outcomes = Outcomes()
    report = run(stage, outcomes=outcomes)
    assert report.counts[Count.REDRIVE_BOUNCED] == back
    assert report.counts[Figure.REDRIVEN] == back + new
    assert outcomes.reported == ([("orders", new, back)] if reported else [])


def test_successes_are_never_fewer_than_none(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, policy=replace(stage.pipeline.policy, max_attempts=1))
    dead(stage, 6)
    run(stage)
    stage.fail()
    outcomes = Outcomes()
    assert run(stage, outcomes=outcomes).counts[Figure.MOVED_TO_PARKING] == 6
    assert outcomes.reported == [("orders", 0, 6)]


# The journal is tidied.


@pytest.mark.parametrize(
    ("step", "error", "metric"),
    [
        ("sweeps", JournalUnavailable("denied"), Count.JOURNAL_UNAVAILABLE),
        ("empty_shards", RoomUnavailable("denied"), Count.ROOM_UNAVAILABLE),
    ],
)
def test_a_journal_that_cannot_be_tidied_is_named_and_keeps_no_run_from_its_work(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, step: str, error: Exception, metric: Counted
) -> None:
    monkeypatch.setattr("deadletter.redrive.redriver.empty_shards", lambda *_: frozenset())
    monkeypatch.setattr(f"deadletter.redrive.redriver.{step}", raising(error))
    monkeypatch.setattr("deadletter.redrive.known_intents.Reading.ended", lambda _: ["an intent"])
    dead(stage, 1)
    report = run(stage)
    assert (report.moved, report.counts[metric]) == (1, 1)
    assert (report.ended_well, report.trouble) == (True, "denied")


@pytest.mark.parametrize(
    ("left_queue", "left_room", "reads"),
    [((), (), 0), ((b"key",), (), 1), ((), (b"key",), 1), ((b"key",), (b"key",), 1)],
)
def test_what_a_run_has_explained_is_compared_with_the_journal_as_it_is_now(
    stage: Stage, left_queue: Any, left_room: Any, reads: int
) -> None:
    made = stage.redriver()
    readings: list[float] = []
    last: Any = SimpleNamespace(ended=list)
    known: Any = SimpleNamespace(
        left_queue=left_queue,
        left_room=left_room,
        last=last,
        fresh=lambda: readings.append(stage.clock()),
    )
    made._known = known
    made._sweep_journal(stage.clock() + 55)
    assert len(readings) == reads


def test_the_journal_is_tidied_until_ten_seconds_before_the_deadline(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A step that is cut off costs nothing; the end of a run behind it would be lost."""
    allowed: list[bool] = []

    def carry_out(_steps: object, _journal: object, goes_on: Callable[[], bool]) -> None:
        for seconds in (44.5, 45.0, 45.5):
            stage.clock.now = began + seconds
            allowed.append(goes_on())

    monkeypatch.setattr("deadletter.redrive.redriver.empty_shards", lambda *_: frozenset())
    monkeypatch.setattr("deadletter.redrive.redriver.sweeps", lambda *_: [])
    monkeypatch.setattr("deadletter.redrive.redriver.carry_out", carry_out)
    monkeypatch.setattr("deadletter.redrive.known_intents.Reading.ended", lambda _: ["an intent"])
    began = stage.clock()
    stage.redriver()._sweep_journal(began + 55)
    assert allowed == [True, False, False]


def test_runs_with_nothing_to_do_read_the_journal_once_an_hour(stage: Stage) -> None:
    reads: list[float] = []
    journal = stage.redriver()._setup.journal

    class Noted:
        def __getattr__(self, name: str) -> Any:
            if name == "read":
                reads.append(stage.clock() // 60)
            return getattr(journal, name)

    stage.clock.now = 10 * HOUR - 90.0
    for _ in range(4):
        began = stage.clock()
        assert run(stage, journal=Noted()).stopped == "nothing to do"
        stage.clock.now = began + 60
    assert reads == [598, 600]


def test_intents_are_explained_that_ended_well_before_a_pass_that_emptied_the_queue(
    stage: Stage,
) -> None:
    made = stage.redriver()
    assert made._emptied_before == 0.0
    made._end_pass(10_000.0, emptied=False)
    assert made._emptied_before == 0.0
    made._end_pass(10_000.0, emptied=True)
    assert made._emptied_before == 6_400.0


# The end of a run.


def test_a_run_leaves_no_intent_no_lock_and_the_time_of_its_pass(stage: Stage) -> None:
    dead(stage, 3)
    began = stage.clock()
    assert run(stage).stopped == "the source is empty"
    assert stage.journal() == []
    known = memory(stage)
    assert (known.emptied_at, known.held_until) == (began, 0.0)
    assert known.ended_at == known.ended_well_at == stage.clock()


def test_a_queue_that_was_found_empty_is_remembered_so(stage: Stage) -> None:
    began = stage.clock()
    assert run(stage).stopped == "nothing to do"
    assert memory(stage).emptied_at == began


@pytest.mark.parametrize("judges", [False, True])
def test_a_run_says_that_a_look_has_the_letters_in_hand(stage: Stage, judges: bool) -> None:
    """It found no letter, and "nothing to do" would be false of 111 that a search holds."""
    for _ in range(12):
        dead(stage, 10)
        stage.take(stage.dlq, hide=600)
    report = run(stage, dry_run=judges)
    assert report.ended_well
    assert report.stopped.startswith(
        "120 messages of the queue are in flight: another receiver has"
    )
    stage.clock.advance(601)
    assert run(stage).moved == 120


def test_a_queue_with_a_letter_in_flight_is_not_empty(stage: Stage) -> None:
    dead(stage, 1)
    stage.take(stage.dlq, hide=600)
    assert run(stage).stopped.startswith("1 message of the queue is in flight")
    assert memory(stage).emptied_at is None
    # Nor does a run that moves another letter empty it.
    dead(stage, 1)
    assert run(stage).moved == 1
    assert memory(stage).emptied_at is None


def test_a_dry_run_that_a_person_asked_for_names_each_letter_and_its_decision(
    stage: Stage,
) -> None:
    dead(stage, 2)
    report = run(stage, dry_run=True, asked=True)
    judged = report.to_json()["messages"]
    assert len({letter["message_id"] for letter in judged}) == 2
    assert all(letter["action"] and letter["because"] for letter in judged)
    assert "messages" not in run(stage, dry_run=True).to_json()


def test_a_dry_run_is_no_run_of_the_schedule_and_an_observing_one_is(stage: Stage) -> None:
    dead(stage, 1)
    run(stage, dry_run=True)
    assert memory(stage).ended_at is None
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    run(stage)
    assert memory(stage).ended_at == stage.clock()


def test_letters_that_the_router_leaves_undecided_are_visible_at_once(stage: Stage) -> None:
    dead(stage, 3)
    report = run(stage, router=Other(stage.router, decide=lambda _: RouterAnswer(())))
    assert report.counts[Count.UNDECIDED] == 3
    assert visible(stage) == 3
    assert memory(stage).oldest is not None
    assert memory(stage).emptied_at is None


def test_a_queue_that_gives_no_answer_at_the_end_does_not_undo_the_run(stage: Stage) -> None:
    dead(stage, 1)
    dlq = stage.redriver()._setup.dlq
    depths = iter([dlq.depth()])

    def depth() -> Depth:
        for known in depths:
            return known
        raise QueueUnavailable("denied")

    report = run(stage, dlq=Other(dlq, depth=depth))
    assert (report.moved, report.stopped) == (1, "a queue gave no answer: denied")
    assert not report.ended_well
    assert memory(stage).held_until == 0.0
    assert memory(stage).emptied_at is None


def test_a_run_whose_memory_gives_no_answer_touches_no_letter(stage: Stage) -> None:
    dead(stage, 1)
    lease = Other(stage.redriver()._setup.lease, read=raising(LeaseUnavailable("denied")))
    for report in (
        run(stage, lease=lease),
        redriver(stage, lease=lease).rescue(stage.clock() + 55),
    ):
        assert report.stopped == "the lease cannot be read: denied"
        assert report.counts == {Count.LEASE_UNAVAILABLE: 1}
    assert memory(stage) == SourceMemory(first_step=PAST)


@pytest.mark.parametrize("key", ["orders", "orders#config"])
def test_an_open_circuit_is_named(stage: Stage, key: str) -> None:
    dead(stage, 1)
    stage.set_circuit("OPEN", key)
    report = run(stage)
    assert report.stopped == f"circuit {key} is OPEN"
    assert (report.counts, visible(stage)) == ({}, 1)


# After a run that could not do its work.


@pytest.mark.parametrize(
    ("part", "method", "error"),
    [
        ("journal", "read", JournalUnavailable("denied")),
        ("room", "lanes", RoomUnavailable("denied")),
        ("router", "decide", RouterUnavailable("denied")),
    ],
)
def test_what_a_run_needs_is_asked_before_it_receives_a_letter(
    stage: Stage, part: str, method: str, error: Exception
) -> None:
    dead(stage, 1)
    remember(stage, SourceMemory(ended_at=2.0, ended_well_at=1.0))
    broken = Other(getattr(stage.redriver()._setup, part), **{method: raising(error)})
    changes: dict[str, Any] = {part: broken}
    report = run(stage, **changes)
    assert Figure.RECEIVED not in report.counts
    assert (report.ended_well, report.trouble) == (False, "denied")
    # As soon as it answers, the letter is moved.
    assert run(stage).moved == 1


@pytest.mark.parametrize(("fruitless", "received"), [(0, 30), (1, 10), (4, 10)])
def test_ten_letters_are_tried_after_fruitless_runs_until_one_leaves(
    stage: Stage, fruitless: int, received: int
) -> None:
    dead(stage, 30)
    remember(stage, SourceMemory(fruitless=fruitless, fruitless_at=1.0))
    real = stage.redriver_sqs
    refused = client_error("SendMessageBatch", "AccessDeniedException", "no", status=403)
    stage.redriver_sqs = Other(real, send_message_batch=raising(refused))  # type: ignore[assignment]  # one method fails
    report = run(stage)
    assert report.counts[Figure.RECEIVED] == received
    assert memory(stage).fruitless == fruitless + 1
    stage.redriver_sqs = real
    assert run(stage, asked=True).moved == 30
    assert memory(stage).fruitless == 0


# Rescues.


def rescued(stage: Stage, seconds: float = 55) -> Report:
    return stage.redriver().rescue(stage.clock() + seconds)


def test_a_rescue_counts_its_letters_once_more_as_rescued(stage: Stage) -> None:
    dead(stage, 3)
    report = rescued(stage)
    assert (report.counts[Figure.RESCUED], report.counts[Figure.HELD]) == (3, 3)


def test_a_rescue_has_all_workers(stage: Stage) -> None:
    """Time is short, also after runs that could move nothing."""
    stage.pipeline = replace(stage.pipeline, workers=4)
    dead(stage, 1)
    remember(stage, SourceMemory(fruitless=3, fruitless_at=1.0))
    at_once: list[int] = []

    def in_parallel(calls: Sequence[Callable[[], Any]]) -> list[Any]:
        at_once.append(len(calls))
        return in_turn(calls)

    report = redriver(stage, in_parallel=in_parallel).rescue(stage.clock() + 55)
    assert (report.counts[Figure.RESCUED], at_once[0]) == (1, 4)


def test_a_rescue_asks_for_the_lease_every_two_seconds_until_it_could_send_nothing(
    stage: Stage,
) -> None:
    dead(stage, 1)
    began = stage.clock()
    asked: list[float] = []
    lease = stage.redriver()._setup.lease

    def acquire(owner: str, now: float, until: float) -> None:
        asked.append(now - began)
        assert until == began + 20 + 60

    other: Any = Other(lease, acquire=acquire)
    report = redriver(stage, lease=other).rescue(began + 20)
    assert report.stopped == "another run holds the lease"
    assert asked == [0, 2, 4, 6, 8]
    assert visible(stage) == 1


# The rate that finds itself.


def minutes(stage: Stage, number: int, consumed: Callable[[], None]) -> list[float]:
    """Runs once a minute beside a consumer. Returns the rate that each of them left."""
    rates = []
    advance = stage.clock.advance

    def advance_and_consume(seconds: float) -> None:
        advance(seconds)
        consumed()

    stage.clock.advance = advance_and_consume  # type: ignore[method-assign]
    for _ in range(number):
        began = stage.clock()
        run(stage)
        stage.clock.advance(max(0.0, began + 60 - stage.clock()))
        left = memory(stage).auto_rate
        rates.append(0.0 if left is None else left.rate)
    stage.clock.advance = advance  # type: ignore[method-assign]
    return rates


def work_off(stage: Stage) -> None:
    """The consumer takes everything that is visible."""
    for message in stage.take(stage.main):
        stage.consumer_sqs.delete_message(
            QueueUrl=stage.main, ReceiptHandle=message["ReceiptHandle"]
        )


def test_a_rate_that_finds_itself_goes_on_from_run_to_run(stage: Stage) -> None:
    dead(stage, 5_000)
    rates = minutes(stage, 2, lambda: work_off(stage))
    # Without delays it doubles every ten seconds or so, from 50 a second.
    assert rates[0] >= 200
    assert visible(stage) == 0
    # An hour later it starts again.
    stage.clock.advance(HOUR)
    dead(stage, 100)
    assert minutes(stage, 1, lambda: work_off(stage)) == [50.0]


def test_a_rate_that_finds_itself_falls_while_nobody_consumes(stage: Stage) -> None:
    dead(stage, 4_000)
    assert minutes(stage, 1, lambda: None) == [pytest.approx(5.0, abs=15)]
    left = memory(stage).auto_rate
    assert left is not None
    assert left.because == "the main queue grows"


@pytest.mark.parametrize(
    ("bad", "rate", "because"), [(1, 400.0, "the consumer keeps up"), (30, 5.0, "failures 30%")]
)
def test_a_rate_that_finds_itself_minds_what_the_consumer_reports(
    stage: Stage, bad: int, rate: float, because: str
) -> None:
    stage.pipeline = replace(stage.pipeline, consumer_library=True)
    dynamodb: Any = stage.dynamodb
    outcomes = DynamoDBOutcomes(
        client=dynamodb,
        table=stage.resources.circuits_table,
        pipeline="orders",
        policy=stage.pipeline.circuit,
        breaker=Stores(stage.pipeline, stage.resources, stage.clients, stage.world).breaker,
        outages=None,
        clock=stage.clock,
        count_metric=lambda *_: None,
    )
    dead(stage, 3_000)

    def consumed() -> None:
        work_off(stage)
        outcomes.report("orders", OutcomeCounts(good=100 - bad, bad=bad, last_bad=0))

    [left] = minutes(stage, 1, consumed)
    known = memory(stage).auto_rate
    assert known is not None
    assert (left, known.because) == (rate, because)


def test_a_number_fixes_the_rate(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=50.0)
    dead(stage, 4_000)
    began = stage.clock()
    minutes(stage, 1, lambda: work_off(stage))
    # The burst, and 45 s of the rate.
    sent = 4_000 - visible(stage)
    assert 500 + 43 * 50 <= sent <= 500 + 45 * 50
    assert memory(stage).auto_rate is None
    assert stage.clock() == began + 60


@pytest.mark.parametrize(
    ("letters", "rate", "longest"), [(1_000, None, 20), (900, None, 60), (1_000, 50.0, 60)]
)
def test_letters_of_a_deep_queue_are_delayed_less_by_a_rate_that_finds_itself(
    stage: Stage, letters: int, rate: Any, longest: int
) -> None:
    """Their first backoff is up to a minute; at 50 a second it is a third of that."""
    stage.pipeline = replace(stage.pipeline, policy=RetryPolicy(), fixed_rate=rate)
    dead(stage, letters)
    run(stage)
    assert visible(stage) == 0
    main = redriver(stage)._setup.main
    stage.clock.advance(21)
    assert (main.depth().delayed == 0) == (longest < 21)
    stage.clock.advance(40)
    assert main.depth().delayed == 0
