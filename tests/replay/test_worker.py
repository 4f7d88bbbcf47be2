"""The worker of a replay run: each letter once, in order, and on record wherever it is."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.contract import Partition, config_key, run_lane
from deadletter.failure.failure import TIMEOUT
from deadletter.failure.ledger import LedgerUnavailable
from deadletter.message.letter import Letter
from deadletter.message.stamp import Stamp
from deadletter.outage.health import believed
from deadletter.redrive.lane_claim import LaneClaim
from deadletter.redrive.order import Order
from deadletter.redrive.waiting_room import RoomUnavailable, WaitingRoomEntry
from deadletter.replay.carriers import Delivering, DirectAnswer, DirectFate
from deadletter.replay.limiter import GRANT_SECONDS, MOST_GRANTED
from deadletter.replay.lineup import MOST_TRIES, room_place
from deadletter.replay.plan import DELIVER, DISCARD, MAIN_QUEUE, KeyPolicy, ReplayPlan
from deadletter.replay.run import BadRunRow, RunState, RunsUnavailable, aborted, held, resumed
from deadletter.replay.run_lane import TicketedLane
from deadletter.replay.run_source import ASIDE_SECONDS, Fates, PlannedMove, within
from deadletter.replay.ticket import ReplayOutcome, Ticket, TicketsUnavailable
from deadletter.routing.decision import Hold, Park, Redrive
from deadletter.signals.figures import Count
from deadletter.testing.clock import START
from tests.each_row import each_row
from tests.replay.bench import ReplayBench, orders_pipeline
from tests.simulation.stage import Stage
from tests.simulation.test_regressions import Hooked, takes_effect_and_says_nothing
from tests.tables import LETTERS

RECOVERED, SENT, OPEN = ReplayOutcome.RECOVERED, ReplayOutcome.SENT, ReplayOutcome.OPEN


def plan(**changes: object) -> ReplayPlan:
    return replace(ReplayPlan(pipeline="orders", retry_after=0.0), **changes)  # type: ignore[arg-type]


def numbers_in(bench: ReplayBench, url: str) -> list[int]:
    return sorted(json.loads(body)["number"] for body in bench.stage.bodies(url))


def test_every_letter_is_sent_once_and_its_outcome_is_learned() -> None:
    bench = ReplayBench([""] * 25)
    report = bench.work(5)
    assert (report.sent, report.waiting, report.done) == (25, 25, False)
    assert numbers_in(bench, bench.stage.main) == list(range(25))
    assert bench.in_lane() == []
    assert sorted(bench.consume()) == list(range(25))
    report = bench.work(5)
    assert (report.sent, report.outcomes["RECOVERED"], report.done) == (0, 25, True)
    assert set(bench.outcomes().values()) == {RECOVERED}


def test_a_sent_letter_carries_its_run_and_its_ticket() -> None:
    bench = ReplayBench([""])
    bench.work(5)
    [mark] = bench.stage.stamps(bench.stage.main)
    assert (mark.run, mark.ticket, mark.attempt) == (bench.run_id, bench.names[0].copy, 1)
    [ticket] = bench.tickets.all()
    assert (ticket.copy, ticket.attempt, ticket.fate) == (mark.ticket, 1, SENT)


def test_a_letter_without_a_group_gets_that_of_its_run_and_keeps_it_for_the_run_alone() -> None:
    bench = ReplayBench([""], plan(attempts=1))
    bench.work(5)
    [message] = bench.stage.take(bench.stage.main, hide=1)
    assert message["Attributes"]["MessageGroupId"] == f"replay:{bench.run_id}"
    bench.clock.advance(2)
    bench.consume(lambda _number: False)
    bench.bring_back()
    bench.work(5)
    [parked] = bench.stage.take(bench.stage.parking)
    assert "MessageGroupId" not in parked["Attributes"]


def test_letters_whose_outcomes_are_awaited_keep_no_others_back() -> None:
    """A consumer that is slow to tell does not slow the run down below its pace."""
    bench = ReplayBench(["a"] * 250, plan(outcome_timeout=600.0))
    assert bench.work(20).sent == 250


def test_a_worker_that_is_sending_keeps_what_is_known_on_record() -> None:
    """A person looks at the run, or the worker is killed, long before its last save."""
    bench = ReplayBench([""] * 60, rate=1.0, burst=10)
    began = bench.clock()
    on_record: list[int] = []

    def wait(seconds: float) -> None:
        bench.clock.advance(seconds)
        if bench.clock() > began + 40:
            on_record.append(list(bench.outcomes().values()).count(SENT))

    bench.work(50, wait=wait)
    assert on_record[0] >= 20


@pytest.mark.parametrize("burst", [10, 100])
def test_each_shard_has_its_turn_beside_one_that_has_nothing_to_move(burst: int) -> None:
    """However often the pace lets the worker wait between two turns."""
    bench = ReplayBench([*["a"] * 80, *["b"] * 80], rate=1.0, burst=burst)
    a, b = bench.names[0].shard, bench.names[-1].shard
    empty = next(shard for shard, letters in enumerate(bench.index.shards) if not letters)
    report = bench.work(40, shards=[a, b, empty])
    sent = Counter(ticket.shard for ticket in bench.tickets.all())
    assert abs(sent[a] - sent[b]) <= MOST_GRANTED < report.sent


def test_an_ordered_key_has_one_letter_under_way() -> None:
    bench = ReplayBench(["a", "a", "b", "a", "b"], plan(ordered=True))
    order: list[int] = []
    for _ in range(4):
        bench.work(5)
        order += bench.consume()
    bench.work(5)
    assert [number for number in order if number in (0, 1, 3)] == [0, 1, 3]
    assert [number for number in order if number in (2, 4)] == [2, 4]
    assert set(bench.outcomes().values()) == {RECOVERED}


def test_a_letter_that_dies_again_comes_back_and_is_tried_again() -> None:
    bench = ReplayBench(["a", "a"], plan(ordered=True))
    bench.work(5)
    assert bench.consume(lambda _number: False) == [0]
    bench.bring_back()
    assert len(bench.in_lane()) == 2
    report = bench.work(5)
    assert (report.returned, report.waiting) == (1, 1)
    assert sum(progress.returns_total for progress in bench.progress()) == 1
    assert bench.consume() == [0]
    bench.work(5)
    assert bench.consume() == [1]
    assert bench.work(5).done
    assert bench.in_lane() == []


def test_a_letter_that_came_back_is_not_sent_once_its_second_copy_was_processed() -> None:
    """Another worker may have seen that, and let the key go on."""
    bench = ReplayBench(["a", "a"], plan(ordered=True))
    bench.work(5)
    assert bench.consume(lambda _number: False) == [0]
    bench.bring_back()
    bench.ledger.recovered(bench.names[0].origin, 1, bench.clock())

    class Down:
        def __getattr__(self, name: str) -> Any:
            return getattr(bench.ledger, name)

        def rows(self, origins: Sequence[str]) -> Any:
            raise LedgerUnavailable("throttled")

    assert bench.work(5, ledger=Down()).sent == 0
    bench.work(5)
    assert bench.outcomes()[0] is RECOVERED
    assert bench.consume() == [1]


def test_a_letter_out_of_tries_is_quarantined_and_its_key_goes_on() -> None:
    bench = ReplayBench(["a", "a"], plan(ordered=True, attempts=2))
    for _ in range(2):
        bench.work(5)
        assert bench.consume(lambda number: number == 1) == [0]
        bench.bring_back()
    bench.work(5)
    assert numbers_in(bench, bench.stage.parking) == [0]
    [mark] = bench.stage.stamps(bench.stage.parking)
    assert (mark.reason, mark.attempt) == ("RETRIES_EXHAUSTED", 2)
    assert bench.run_id in (mark.because or "")
    assert bench.consume() == [1]
    report = bench.work(5)
    assert report.done
    assert bench.outcomes() == {0: ReplayOutcome.QUARANTINED, 1: RECOVERED}


def send_without_an_answer(bench: ReplayBench, working: float = 5.0) -> None:
    """The worker works for so many seconds; in the end the intent of that send has run out."""
    sqs = bench.stage.redriver_sqs
    bench.stage.redriver_sqs = Hooked(sqs, "send_message_batch", takes_effect_and_says_nothing)
    bench.work(working)
    bench.stage.redriver_sqs = sqs
    bench.clock.advance(200)


def test_a_key_waits_for_a_send_without_an_answer_as_long_as_it_may_have_an_outcome() -> None:
    """Its only try is used up; its copy has not come back, and may be received once more.

    Nothing but a row of the ledger says that it was sent, and an enemy can write one.
    """
    bench = ReplayBench(["a", "a"], plan(ordered=True, attempts=1))
    send_without_an_answer(bench)
    assert bench.consume(lambda _number: False) == [0]
    bench.bring_back()
    bench.clock.advance(bench.plan.outcome_timeout - 250)
    assert bench.work(5).sent == 0
    assert numbers_in(bench, bench.stage.parking) == []
    bench.clock.advance(250)
    bench.work(5)
    assert numbers_in(bench, bench.stage.parking) == [0]
    assert bench.consume() == [1]
    assert bench.work(5).done
    assert bench.outcomes() == {0: ReplayOutcome.QUARANTINED, 1: RECOVERED}


def test_a_letter_whose_parking_had_no_answer_does_not_wait_for_an_outcome() -> None:
    bench = ReplayBench(["a", "a"], plan(ordered=True, attempts=1))
    bench.work(5)
    bench.consume(lambda _number: False)
    bench.bring_back()
    send_without_an_answer(bench, working=300)
    assert numbers_in(bench, bench.stage.parking) == [0, 0]
    assert bench.consume() == [1]


def test_a_letter_that_another_worker_was_about_to_park_is_parked_before_its_key_goes_on() -> None:
    bench = ReplayBench(["a", "a"], plan(ordered=True, attempts=1))
    take, put_ahead = LaneClaim.take, TicketedLane.put_ahead

    def another_worker_is_first(claim: LaneClaim, *arguments: Any) -> Any:
        with patch.object(LaneClaim, "take", take):
            bench.work(5)
            assert bench.consume(lambda _number: False) == [0]
            bench.bring_back()
            with patch.object(TicketedLane, "put_ahead", puts_and_has_no_answer):
                bench.work(5)
        in_lane.extend(bench.in_lane())
        patched.stop()
        return take(claim, *arguments)

    def puts_and_has_no_answer(room: TicketedLane, tickets: Sequence[Ticket]) -> None:
        put_ahead(room, tickets)
        raise TicketsUnavailable("no answer")

    in_lane: list[str] = []
    patched = patch.object(LaneClaim, "take", another_worker_is_first)
    patched.start()
    bench.work(20)
    assert len(in_lane) == 2
    assert numbers_in(bench, bench.stage.parking) == [0]
    assert bench.consume() == [1]
    assert bench.in_lane() == []


TIMED_OUT = {"error_type": TIMEOUT, "fingerprint": "timeout"}


def tried(bench: ReplayBench, times: int, **failure: Any) -> None:
    """Each letter fails so often, and comes back each time."""
    for _ in range(times):
        bench.work(5)
        assert bench.consume(lambda _number: False, **failure)
        bench.bring_back()


@pytest.mark.parametrize("policy", KeyPolicy)
def test_a_try_that_fails_by_the_dependency_is_no_try_of_the_run(policy: KeyPolicy) -> None:
    """However many: the ledger goes back eight lives."""
    bench = ReplayBench(["a", "a"], plan(ordered=True, attempts=2, on_failure=policy))
    tried(bench, 12, **TIMED_OUT)
    tried(bench, 1)
    tried(bench, 2, http_status=503)
    bench.work(5)
    assert sum(progress.returns_total for progress in bench.progress()) == 15
    assert bench.consume() == [0]
    bench.work(5)
    bench.consume()
    assert bench.work(5).done
    assert set(bench.outcomes().values()) == {RECOVERED}


def test_a_letter_that_fails_by_itself_between_an_outage_runs_out_of_tries() -> None:
    bench = ReplayBench([""], plan(attempts=2))
    for failure in ({}, TIMED_OUT, {}):
        tried(bench, 1, **failure)
    bench.work(5)
    assert bench.consume() == []
    assert bench.outcomes() == {0: ReplayOutcome.QUARANTINED}
    [parked] = bench.stage.stamps(bench.stage.parking)
    assert parked.because == f"run {bench.run_id}: it failed in each of 2 tries"


def test_a_life_that_leaves_no_record_is_a_try() -> None:
    """A letter that kills its consumer must not come back for ever."""
    bench = ReplayBench([""], plan(attempts=2))
    tried(bench, 1, **TIMED_OUT)
    for _ in range(2):
        bench.work(5)
        bench.bring_back()
        bench.clock.advance(31)
        bench.bring_back()
    bench.work(5)
    assert bench.outcomes() == {0: ReplayOutcome.QUARANTINED}


@pytest.mark.parametrize("excused", [MOST_TRIES - 1, MOST_TRIES, 10**30])
def test_no_letter_is_tried_for_ever_whatever_explains_its_failures(excused: int) -> None:
    """Its tickets are followed so far and no further."""

    def move(attempt: int, excused: int) -> PlannedMove:
        decision, stamp = Redrive(0, "run r"), Stamp("o", attempt)
        terms = {"key_stops": False, "let_go": False, "forgiven": False, "too_old": False}
        return within(decision, stamp, plan(attempts=2), excused=excused, **terms)

    assert isinstance(move(MOST_TRIES, excused).decision, Redrive)
    assert isinstance(move(MOST_TRIES + 1, excused).decision, Park)
    # What no router says takes no try away.
    assert isinstance(move(3, -5).decision, Park)


def test_with_stop_on_failure_the_key_waits_in_order_and_resumes_with_the_failed_letter() -> None:
    bench = ReplayBench(["a", "a", "b"], plan(ordered=True, attempts=1, on_failure=KeyPolicy.STOP))
    bench.work(5)
    assert sorted(bench.consume(lambda number: number == 2)) == [0, 2]
    bench.bring_back()
    for _ in range(2):
        report = bench.work(5)
        assert (report.sent, report.stopped_keys, report.done) == (0, 1, False)
    assert len(bench.in_lane()) == 2
    run = bench.run
    bench.runs.change(run, stopped := held(run, at=bench.clock(), by="ann", because="a failed"))
    bench.runs.change(stopped, resumed(stopped, at=bench.clock(), by="ann"))
    bench.work(5)
    assert bench.consume() == [0]
    bench.work(5)
    assert bench.consume() == [1]
    assert bench.work(5).done


def resume(bench: ReplayBench) -> None:
    """A person holds the run and resumes it."""
    run = bench.run
    bench.runs.change(run, stopped := held(run, at=bench.clock(), by="ann", because="it fails"))
    bench.runs.change(stopped, resumed(stopped, at=bench.clock(), by="ann"))


def test_a_key_goes_on_behind_a_letter_that_is_nowhere_once_a_person_resumes_the_run() -> None:
    """No ticket says of which try the letter was: all there is to tell is that resume."""
    bench = ReplayBench(["a", "a"], plan(ordered=True, on_unknown=KeyPolicy.STOP))
    pk, sk = bench.names[0].place
    bench.dynamodb.delete_item(TableName="messages", Key={"pk": {"S": pk}, "sk": {"S": sk}})
    for _ in range(2):
        report = bench.work(5)
        assert (report.sent, report.stopped_keys) == (0, 1)
    resume(bench)
    assert bench.work(5).sent == 1
    assert bench.consume() == [1]


def test_a_failure_after_the_resume_stops_its_key_again_for_each_worker() -> None:
    bench = ReplayBench(["a", "a", "a"], plan(ordered=True, on_failure=KeyPolicy.STOP))
    resume(bench)
    bench.work(5)
    bench.consume()
    bench.work(5)
    bench.ledger.parked(bench.names[1].origin, 1, bench.clock(), "PERMANENT")
    for _ in range(2):
        report = bench.work(5)
        assert (report.sent, report.stopped_keys) == (0, 1)
    assert bench.outcomes() == {0: RECOVERED, 1: ReplayOutcome.PARKED, 2: OPEN}


def test_a_letter_that_came_back_waits_longer_before_each_try() -> None:
    """An endpoint that fails holds the run before it uses up the few tries of its letters."""
    bench = ReplayBench(["a"], plan(retry_after=30.0))
    assert bench.work(5).sent == 1
    [tried] = bench.tried_at()
    for pause in (30.0, 60.0):
        bench.consume(lambda _number: False)
        bench.bring_back()
        # A worker of its own each time: the pause is kept by the ticket.
        assert bench.work(tried + pause - 5 - bench.clock()).sent == 0
        assert bench.work(20).sent == 1
        assert bench.tried_at()[-1] >= tried + pause
        tried = bench.tried_at()[-1]


def test_a_try_from_before_the_resume_is_late_when_it_comes_back() -> None:
    bench = ReplayBench(["a", "b"], plan())
    bench.work(5)
    run = bench.run
    bench.runs.change(run, stopped := held(run, at=bench.clock(), by="ann", because="it fails"))
    # The clock of the person who resumes it is a minute slow.
    bench.runs.change(stopped, resumed(stopped, at=bench.clock() - 60, by="ann"))
    bench.consume(lambda number: number == 0)
    bench.bring_back()
    bench.work(5)
    assert sum(progress.late_total for progress in bench.progress()) == 1


def test_a_try_from_after_the_resume_is_not_late() -> None:
    bench = ReplayBench(["a"], plan())
    run = bench.run
    bench.runs.change(run, stopped := held(run, at=bench.clock(), by="ann", because="it fails"))
    # Here it is a minute fast.
    bench.runs.change(stopped, resumed(stopped, at=bench.clock() + 60, by="ann"))
    bench.work(5)
    bench.consume(lambda _number: False)
    bench.bring_back()
    bench.work(5)
    [progress] = bench.progress()
    assert (progress.returns_total, progress.late_total) == (1, 0)


def test_a_try_that_came_back_late_is_counted_once_however_many_workers_see_it() -> None:
    bench = ReplayBench(["a"], plan(retry_after=300.0))
    bench.work(5)
    resume(bench)
    bench.consume(lambda _number: False)
    bench.bring_back()
    for _ in range(3):
        bench.work(5)
        assert sum(progress.late_total for progress in bench.progress()) == 1


def test_a_letter_whose_item_cannot_be_read_is_left_alone_longer_each_time() -> None:
    """A person's edit broke it. It is not given up: the next worker looks at it again."""
    bench = ReplayBench(["a"])
    pk, sk = bench.names[0].place
    bench.dynamodb.update_item(
        TableName=LETTERS,
        Key={"pk": {"S": pk}, "sk": {"S": sk}},
        UpdateExpression="SET message = :none",
        ExpressionAttributeValues={":none": {"S": "no message"}},
    )
    looks: list[float] = []
    room = bench.room

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(room, name)

        def read(self, *asked: Any) -> Any:
            looks.append(bench.clock() - START)
            return room.read(*asked)

    report = bench.work(120, room=Watched())
    assert looks == pytest.approx([0.0, 3.0, 9.0, 18.0, 30.0], abs=0.5)
    assert (report.sent, report.done) == (0, False)
    assert bench.outcomes() == {0: OPEN}
    bench.work(20, room=Watched())
    assert len(looks) > 5


def test_a_worker_waits_for_a_shard_that_another_has_and_does_not_ask_all_the_time() -> None:
    bench = ReplayBench(["a"])
    [name] = bench.names
    assert bench.claim(name.shard).take([name.copy], bench.clock()) is not None
    waits: list[float] = []
    bench.work(20, wait=lambda seconds: (waits.append(seconds), bench.clock.advance(seconds)))
    assert numbers_in(bench, bench.stage.main) == []
    assert sum(seconds < 0.5 for seconds in waits) <= 7


def test_an_outcome_that_nobody_learns_is_unknown_after_its_time() -> None:
    bench = ReplayBench(["a", "a"], plan(ordered=True, outcome_timeout=60.0))
    bench.work(5)
    bench.clock.advance(61)
    bench.work(5)
    assert bench.outcomes() == {0: ReplayOutcome.UNKNOWN, 1: SENT}
    # What comes back later is parked: nothing of it may stay in the run's lane.
    bench.consume(lambda _number: False)
    bench.bring_back()
    assert 0 in numbers_in(bench, bench.stage.parking)


def test_a_letter_leaves_its_runs_lane_only_behind_a_ticket() -> None:
    """Else the run would say that it is missing."""
    bench = ReplayBench([""])
    room = TicketedLane(bench.room, bench.tickets, bench.tally)
    [name] = bench.names
    place = WaitingRoomEntry(
        name.copy, room_place(name.place), run_lane(bench.run_id), name.shard, 0.0
    )
    [received] = bench.room.read([place], START + 60).letters
    with pytest.raises(RoomUnavailable, match="only behind a ticket"):
        room.postpone(Order(received, Hold("due", START, "later"), Stamp(name.origin)))
    assert len(bench.in_lane()) == 1


def test_a_held_run_sends_nothing_more() -> None:
    bench = ReplayBench([""] * 5)
    bench.runs.change(bench.run, held(bench.run, at=START, by="ann", because="lunch"))
    report = bench.work(5)
    assert (report.sent, report.stopped) == (0, "the run is HELD: lunch")
    assert len(bench.in_lane()) == 5


def test_a_worker_of_an_older_generation_learns_of_the_switch_before_it_sends() -> None:
    bench = ReplayBench([""] * 5)
    worker = bench.worker()
    bench.runs.change(bench.run, aborted(bench.run, at=START, by="ann", because="wrong letters"))
    report = worker.run(bench.clock() + 20)
    assert (report.sent, report.stopped) == (0, "the run is ABORTED: wrong letters")
    assert bench.stage.bodies(bench.stage.main) == []


class Stalls:
    """A store behind one of whose calls the worker stands still, and a person holds the run."""

    def __init__(self, real: Any, call: str, seconds: float, bench: ReplayBench) -> None:
        self._real = real
        self._call = call
        self._seconds = seconds
        self._bench = bench

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._real, name)
        if name != self._call:
            return method

        def act(*arguments: Any, **options: Any) -> Any:
            answer = method(*arguments, **options)
            run = self._bench.run
            if run.may_send:
                after = held(run, at=self._bench.clock(), by="ann", because="lunch")
                self._bench.runs.change(run, after)
                self._bench.clock.advance(self._seconds)
            return answer

        return act


@each_row("seconds", [1.0, 2.0, 3.0, 10.0, 60.0, 600.0])
def test_a_grant_of_a_worker_that_stood_still_is_thrown_away_after_two_seconds(
    seconds: float,
) -> None:
    bench = ReplayBench([""] * 25)
    bids = Stalls(bench.runs, "bid", seconds, bench)
    report = bench.work(700, bids=bids)
    sent = numbers_in(bench, bench.stage.main)
    assert (report.sent, bool(sent)) == (len(sent), seconds < GRANT_SECONDS)
    assert len(bench.in_lane()) == 25 - len(sent)


@pytest.mark.parametrize("seconds", [1.0, 3.0, 600.0])
def test_a_worker_that_stood_still_delivers_nothing_after_two_seconds(seconds: float) -> None:
    bench = ReplayBench([""] * 5, plan(destination=DELIVER))
    consumer = Takes()
    carrier = Delivering(
        consumer=consumer,
        room=bench.room,
        run=bench.run_id,
        clock=bench.clock,
        tally=bench.tally,
    )
    bench.work(700, bids=Stalls(bench.runs, "bid", seconds, bench), carrier=carrier)
    assert bool(consumer.taken) == (seconds < GRANT_SECONDS)


class Takes:
    """A consumer that takes everything."""

    timeout = 30.0

    def __init__(self) -> None:
        self.taken = 0

    def deliver(self, letters: Sequence[Letter], run: str) -> DirectAnswer:
        self.taken += len(letters)
        return DirectAnswer({each.message_id: DirectFate.RECOVERED for each in letters})


@each_row("judging", [0.0, 1.5])
@each_row("seconds", [0.4, 3.0, 10.0])
def test_a_worker_that_stood_still_parks_nothing_after_two_seconds(
    seconds: float, judging: float
) -> None:
    """What a rule stops needs no grant: it goes within two seconds of a look at the run."""
    bench = ReplayBench([""] * 3)
    bench.stage.add_rule("stop", pattern='{"body": {"number": [0, 1, 2]}}', action="QUARANTINE")

    class Slow:
        def decide(self, questions: Any) -> Any:
            bench.clock.advance(judging)
            return bench.stage.router.decide(questions)

    bench.work(30, tickets=Stalls(bench.tickets, "put", seconds, bench), router=Slow())
    assert bool(numbers_in(bench, bench.stage.parking)) == (seconds < GRANT_SECONDS)


def test_a_worker_whose_grants_come_too_late_leaves_the_letter_alone_for_a_while() -> None:
    bench = ReplayBench([""])
    asked: list[float] = []

    class Slow:
        def bid(self, *bid: Any, **more: Any) -> Any:
            asked.append(bench.clock())
            answer = bench.runs.bid(*bid, **more)
            bench.clock.advance(GRANT_SECONDS + 1.0)
            return answer

    bench.work(30, bids=Slow())
    pauses = [later - before for before, later in pairwise(asked)]
    assert numbers_in(bench, bench.stage.main) == []
    assert pauses
    assert min(pauses) >= GRANT_SECONDS + 1.0 + ASIDE_SECONDS


def test_a_worker_whose_store_gives_no_answer_says_so() -> None:
    """The next step waits for it, instead of judging what was not done."""
    bench = ReplayBench([""] * 3)

    class Down:
        def bid(self, *_: Any, **_more: Any) -> Any:
            raise RunsUnavailable("throttled")

    report = bench.work(5, bids=Down())
    assert (report.ended_well, report.sent) == (False, 0)
    assert report.stopped == "a store of the run gave no answer: throttled"
    assert bench.work(5).ended_well


def test_an_outcome_is_looked_up_less_and_less_often_while_nobody_knows_it() -> None:
    bench = ReplayBench([""])
    looks: list[float] = []

    class Watched:
        def __getattr__(self, name: str) -> Any:
            return getattr(bench.ledger, name)

        def rows(self, origins: Sequence[str]) -> Any:
            if origins:
                looks.append(bench.clock())
            return bench.ledger.rows(origins)

    bench.work(60, ledger=Watched())
    pauses = [later - before for before, later in pairwise(looks)]
    assert pauses[-1] >= 10
    assert all(2.2 * before >= later for before, later in pairwise(pauses[1:]))


def test_a_run_whose_row_says_that_it_is_paid_for_days_ahead_is_a_bad_row() -> None:
    """An enemy's row, or a clock that was wrong once: the run would wait, and say nothing."""
    bench = ReplayBench([""])
    bench.dynamodb.update_item(
        TableName="messages",
        Key={"pk": {"S": Partition.RUNS.of("orders")}, "sk": {"S": bench.run_id}},
        UpdateExpression="SET paid = :paid",
        ExpressionAttributeValues={":paid": {"N": str(bench.clock() + 3 * 86_400)}},
    )
    with pytest.raises(BadRunRow, match=f"{bench.run_id}: its messages are paid for until"):
        bench.work(20)


def test_a_canary_sends_its_letters_and_returns_when_their_outcomes_are_known() -> None:
    bench = ReplayBench([""] * 10, state=RunState.CANARY, allowance=2)
    worker = bench.worker(wait=lambda seconds: (bench.clock.advance(seconds), bench.consume()))
    report = worker.run(bench.clock() + 20)
    assert (report.sent, report.outcomes["RECOVERED"]) == (2, 2)
    assert bench.clock() < START + 10
    assert report.stopped == "the canary step has sent its messages"


def test_a_canary_has_few_letters_judged_that_it_does_not_send() -> None:
    bench = ReplayBench(["a"] * 30, state=RunState.CANARY, allowance=2)
    judged: list[str] = []

    class Noted:
        def decide(self, questions: Any) -> Any:
            judged.extend(question.letter.message_id for question in questions)
            return bench.stage.router.decide(questions)

    assert bench.work(20, router=Noted()).sent == 2
    assert len(judged) <= 3


def test_an_open_circuit_stops_the_worker_and_keeps_its_letters() -> None:
    bench = ReplayBench([""] * 5)
    bench.stage.set_circuit("OPEN")
    report = bench.work(5)
    assert (report.sent, report.stopped) == (0, "circuit orders is OPEN")
    assert len(bench.in_lane()) == 5


def test_a_health_url_that_turns_red_stops_the_worker_within_fifteen_seconds() -> None:
    """It is asked at most once in ten seconds, however long the worker goes on."""
    bench = ReplayBench([""] * 200, rate=2.0, burst=2)
    began, asked = bench.clock(), []

    def page() -> str:
        asked.append(bench.clock() - began)
        return "the health URL answers HTTP 503" if asked[-1] >= 40 else ""

    report = bench.work(120, trouble=believed(page, bench.clock))
    assert report.stopped == "the dependency is down: the health URL answers HTTP 503"
    assert max(bench.tried_at()) - began < 40 + 15
    assert all(later - earlier >= 10 for earlier, later in pairwise(asked))
    assert len(asked) in (5, 6)


EXPIRED = ReplayOutcome.EXPIRED


def test_no_letter_is_sent_that_grew_too_old_while_its_run_was_held() -> None:
    """Three of ten are sent; a person resumes the run after the message TTL."""
    bench = ReplayBench(
        [""] * 10, stage=Stage(orders_pipeline(message_ttl=3_600.0)), rate=1.0, burst=1
    )
    bench.work(6.5)
    sent = bench.consume()
    bench.runs.change(bench.run, held(bench.run, at=bench.clock(), by="ann", because="wait"))
    bench.clock.advance(3_600)
    bench.runs.change(bench.run, resumed(bench.run, at=bench.clock(), by="ann"))
    while not bench.work(20).done:
        assert bench.consume() == []
    assert len(sent) < 5
    assert Counter(bench.outcomes().values()) == {RECOVERED: len(sent), EXPIRED: 10 - len(sent)}
    parked = bench.stage.stamps(bench.stage.parking)
    assert {mark.reason for mark in parked} == {"EXPIRED"}


@pytest.mark.parametrize("source", ["dlq", "parking:default"])
def test_no_letter_past_its_own_expiry_is_sent_by_a_run(source: str) -> None:
    expiries = [str(int(START) + seconds) for seconds in (-1, 60, 7_200)]
    bench = ReplayBench(
        [*expiries, "soon"], plan(source=source), stage=Stage(orders_pipeline(expires="body.key"))
    )
    bench.clock.advance(3_600)
    bench.work(5)
    assert sorted(bench.consume()) == [2, 3]
    assert bench.work(5).done
    assert bench.outcomes() == {0: EXPIRED, 1: EXPIRED, 2: RECOVERED, 3: RECOVERED}
    assert numbers_in(bench, bench.stage.parking) == [0, 1]
    # The one that is no time counts as none, and says so.
    assert bench.tally.count_of(Count.UNREADABLE_EXPIRY) == 1


def test_a_released_letter_is_sent_however_long_it_was_parked() -> None:
    """Its age in the parking lot is a person's: it was given up in time."""
    bench = ReplayBench(
        ["", ""], plan(source="parking:default"), stage=Stage(orders_pipeline(message_ttl=3_600.0))
    )
    bench.clock.advance(7_200)
    bench.work(5)
    assert sorted(bench.consume()) == [0, 1]


def test_a_worker_that_throws_letters_away_does_not_ask_whether_the_dependency_works() -> None:
    bench = ReplayBench([""] * 3, plan(destination=DISCARD))
    report = bench.work(5, trouble=lambda: "down")
    assert "down" not in report.stopped


def test_a_worker_does_not_await_outcomes_while_a_circuit_is_open() -> None:
    bench = ReplayBench([""] * 5)
    bench.work(5)
    bench.stage.set_circuit("OPEN", config_key("orders"))
    report = bench.work(60)
    assert (report.waiting, report.stopped) == (5, "circuit orders#config is OPEN")


def test_a_main_queue_that_is_behind_stops_the_worker() -> None:
    bench = ReplayBench([""] * 5, stage=Stage(orders_pipeline(backlog_limit=2)))
    for _ in range(3):
        bench.stage.put()
    report = bench.work(5)
    assert report.stopped == "3 messages wait in the main queue already"
    assert report.sent == 0


def test_a_rule_stops_letters_of_a_run_too() -> None:
    bench = ReplayBench([""] * 3)
    bench.stage.add_rule("stop", pattern='{"body": {"number": [1]}}', action="QUARANTINE")
    bench.stage.add_rule("wait", pattern='{"body": {"number": [2]}}', action="HOLD")
    bench.work(5)
    bench.consume()
    assert bench.work(5).done
    assert bench.outcomes() == {
        0: RECOVERED,
        1: ReplayOutcome.QUARANTINED,
        2: ReplayOutcome.STOPPED,
    }
    assert numbers_in(bench, bench.stage.parking) == [1]
    assert bench.in_lane() == []
    assert len(bench.stage.waiting()) == 1


def test_letters_for_another_queue_have_no_outcome() -> None:
    bench = ReplayBench([""] * 3, plan(destination="slow"))
    report = bench.work(5)
    assert (report.done, report.outcomes["DELIVERED"]) == (True, 3)
    assert numbers_in(bench, bench.stage.dedicated) == [0, 1, 2]
    assert {mark.run for mark in bench.stage.stamps(bench.stage.dedicated)} == {None}


def test_a_consumer_without_the_library_tells_no_outcome() -> None:
    bench = ReplayBench([""] * 3, stage=Stage(orders_pipeline(consumer_library=False)))
    report = bench.work(5)
    assert (report.done, report.outcomes["DELIVERED"]) == (True, 3)


@each_row(
    ("destination", "library", "sent", "found"),
    [
        (MAIN_QUEUE, True, SENT, SENT),
        (MAIN_QUEUE, False, ReplayOutcome.DELIVERED, ReplayOutcome.DELIVERED),
        (DELIVER, True, ReplayOutcome.DELIVERED, SENT),
        (DELIVER, False, ReplayOutcome.DELIVERED, ReplayOutcome.DELIVERED),
        (DISCARD, True, ReplayOutcome.DISCARDED, ReplayOutcome.DISCARDED),
        ("another-queue", True, ReplayOutcome.DELIVERED, ReplayOutcome.DELIVERED),
    ],
)
def test_an_outcome_is_awaited_where_a_ledger_will_know_it(
    destination: str, library: bool, sent: ReplayOutcome, found: ReplayOutcome
) -> None:
    fates = Fates(plan(destination=destination), library)
    assert (fates.sent, fates.found_sent) == (sent, found)


def test_a_letter_that_is_nowhere_is_unaccounted_for() -> None:
    bench = ReplayBench(["", ""])
    pk, sk = bench.names[0].place
    bench.dynamodb.delete_item(TableName="messages", Key={"pk": {"S": pk}, "sk": {"S": sk}})
    bench.work(5)
    bench.consume()
    bench.work(5)
    assert bench.outcomes() == {0: ReplayOutcome.MISSING, 1: RECOVERED}


@pytest.mark.parametrize("shards", [[0, 2, 4, 6], [1, 3, 5, 7]])
def test_a_worker_moves_the_letters_of_its_shards_alone(shards: list[int]) -> None:
    bench = ReplayBench([""] * 30)
    report = bench.work(5, shards=shards)
    assert report.sent == sum(bench.index.shards[shard] for shard in shards) > 0
    assert len(bench.in_lane()) == 30 - report.sent


def test_a_fifo_pipeline_keeps_the_order_of_its_groups() -> None:
    stage = Stage(orders_pipeline(fifo=True))
    bench = ReplayBench(["a", "b", "a", "a"], plan(ordered=True), stage=stage)
    order: list[int] = []
    for _ in range(4):
        bench.work(5)
        order += bench.consume()
    bench.work(5)
    assert [number for number in order if number != 1] == [0, 2, 3]
    assert set(bench.outcomes().values()) == {RECOVERED}


def test_a_step_of_which_too_much_fails_ends_early_before_letters_run_out_of_tries() -> None:
    limits = plan(minimum=10, error_rate=0.4)
    bench = ReplayBench([""] * 60, limits, rate=1.0, burst=10)
    first = bench.work(15).sent
    assert 10 <= first < 30
    bench.consume(lambda _number: False)
    bench.bring_back()
    report = bench.work(120)
    assert report.stopped == f"{first} of {first} tries failed in this step"
    assert report.sent < 20
    assert report.ended_well


def test_in_its_last_three_seconds_a_worker_moves_no_letter() -> None:
    bench = ReplayBench([""] * 3)
    report = bench.work(3.0)
    assert (report.sent, report.stopped, report.ended_well) == (0, "the deadline is near", True)
    assert bench.work(3.1).sent == 3


def test_a_worker_looks_at_the_dependency_every_five_seconds() -> None:
    bench = ReplayBench([""])
    looks: list[float] = []

    def trouble() -> str:
        looks.append(bench.clock() - START)
        return ""

    bench.work(33.0, trouble=trouble)
    assert looks[0] == 0.0
    pauses = [later - before for before, later in pairwise(looks)]
    assert min(pauses) >= 5.0
    assert max(pauses) < 6.5


def test_a_main_queue_at_its_limit_is_not_behind() -> None:
    bench = ReplayBench([""], stage=Stage(orders_pipeline(backlog_limit=2)))
    for _ in range(2):
        bench.stage.put()
    assert bench.work(5).sent == 1


def test_a_worker_reports_how_its_letters_stand() -> None:
    stops = plan(ordered=True, attempts=1, on_failure=KeyPolicy.STOP)
    bench = ReplayBench(["a", "a", "b", "b", "", ""], stops)
    bench.work(5)
    bench.consume(lambda number: number in (2, 4))
    bench.bring_back()
    report = bench.work(5)
    assert report.to_json() == {
        # The second letter of one key; the other key has stopped behind its first.
        "sent": 1,
        "outcomes": {"OPEN": 2, "QUARANTINED": 1, "RECOVERED": 2, "SENT": 1},
        "returned": 2,
        "waiting": 1,
        "stopped_keys": 1,
        "stopped": "the deadline is near",
        "done": False,
        "ended_well": True,
    }


def meanwhile(acts: Callable[[], object]) -> Any:
    """Something happens in front of the first claim that a worker makes, after it has looked."""
    take = LaneClaim.take

    def take_later(claim: LaneClaim, *arguments: Any) -> Any:
        patched.stop()
        acts()
        return take(claim, *arguments)

    patched = patch.object(LaneClaim, "take", take_later)
    return patched


@pytest.mark.parametrize("is_back", [True, False])
def test_a_letter_that_another_worker_has_sent_meanwhile_is_followed_and_not_sent_again(
    is_back: bool,
) -> None:
    bench = ReplayBench([""])

    def another_worker() -> None:
        assert bench.work(5).sent == 1
        assert bench.consume(lambda _number: not is_back) == [0]
        bench.bring_back()

    meanwhile(another_worker).start()
    report = bench.work(10)
    # Of one that has died again the new copy is sent: it is a try of its own.
    assert (report.sent, report.returned) == (is_back, is_back)
    assert bench.consume() == ([0] if is_back else [])
    bench.work(5)
    assert bench.outcomes() == {0: RECOVERED}
    assert len(list(bench.tickets.all())) == 1 + is_back


def test_a_letter_that_has_left_meanwhile_is_at_its_end_as_its_ticket_says() -> None:
    bench = ReplayBench([""])
    bench.stage.add_rule("stop", pattern='{"body": {"number": [0]}}', action="QUARANTINE")
    meanwhile(lambda: bench.work(5)).start()
    assert bench.work(5).done
    assert bench.outcomes() == {0: ReplayOutcome.QUARANTINED}
    assert numbers_in(bench, bench.stage.parking) == [0]


def test_what_the_tickets_know_is_learned_again_if_the_rows_are_lost() -> None:
    bench = ReplayBench([""] * 3, stage=Stage(orders_pipeline(consumer_library=False)))
    assert bench.work(5).sent == 3
    for item in bench.dynamodb.items(LETTERS):
        if item["pk"]["S"].endswith("#status"):
            key = {"pk": item["pk"], "sk": item["sk"]}
            bench.dynamodb.delete_item(TableName=LETTERS, Key=key)
    report = bench.work(5)
    assert (report.sent, report.done) == (0, True)
    assert report.outcomes == {"DELIVERED": 3, "OPEN": 0}
    assert set(bench.outcomes().values()) == {ReplayOutcome.DELIVERED}


def test_a_letter_that_the_router_says_nothing_of_stays_and_the_others_are_sent() -> None:
    bench = ReplayBench([""] * 3)
    silent_on = bench.names[1].copy
    asked: list[float] = []

    class Silent:
        def decide(self, questions: Any) -> Any:
            answer = bench.stage.router.decide(questions)
            if any(question.letter.message_id == silent_on for question in questions):
                asked.append(bench.clock() - START)
            verdicts = (each for each in answer.verdicts if each.message_id != silent_on)
            return replace(answer, verdicts=tuple(verdicts))

    report = bench.work(20, router=Silent())
    assert (report.sent, bench.in_lane()) == (2, [silent_on])
    assert asked == pytest.approx([0.0, 3.0, 9.0], abs=0.5)
    assert bench.work(5).sent == 1


def test_a_letter_that_would_wait_for_the_pipelines_circuit_lets_the_whole_run_wait() -> None:
    bench = ReplayBench([""] * 2)

    class Opens:
        def decide(self, questions: Any) -> Any:
            answer = bench.stage.router.decide(questions)
            wait = Hold("circuit:orders", START, "circuit orders is OPEN")
            verdicts = (replace(each, decision=wait) for each in answer.verdicts)
            return replace(answer, verdicts=tuple(verdicts))

    report = bench.work(20, router=Opens())
    assert (report.sent, report.stopped) == (0, "circuit orders is OPEN")
    assert len(bench.in_lane()) == 2
    assert bench.work(5).sent == 2
