"""A run is repeated from its originals: all of it once more, in order, and nothing but it."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.clients import ConsumerClients
from deadletter.aws.objects import S3RunObjects
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.run_letters import DynamoDBPlacedLetters
from deadletter.aws.wiring.consuming import consumer_for
from deadletter.contract import originals_object
from deadletter.message.letter import MAX_BYTES, from_api, to_event
from deadletter.processing.delivery import Delivery
from deadletter.redrive.waiting_room import RoomUnavailable
from deadletter.replay import bringing_back as repeating_module
from deadletter.replay import objects
from deadletter.replay.machine import ReplaySteps, replay_event
from deadletter.replay.names import from_lines
from deadletter.replay.objects import NO_ROOM, ObjectsUnavailable, lines_in, packed, without
from deadletter.replay.plan import AGAIN, ReplayPlan
from deadletter.replay.run import ReplayRun, RunState, aborted, held, resumed
from tests.replay.bench import orders_pipeline
from tests.replay.test_forgetting import steps_of
from tests.replay.test_originals import Calls, EachCall, crashes, kept
from tests.simulation.stage import Stage
from tests.tables import BUCKET, LETTERS

LETTERS_OF_RUN = 12
QUICK = ReplayPlan(pipeline="orders", canary=(), ramp=(1.0,), rate=100.0, burst=40, retry_after=0.0)


class Shop:
    """A pipeline whose consumer uses the library; `handled` are the numbers that it has handled."""

    def __init__(self, *, fifo: bool = False, **settings: Any) -> None:
        self.stage = Stage(orders_pipeline(fifo=fifo, **settings))
        self.handled: list[int] = []
        self.fails: set[int] = set()

    @property
    def runs(self) -> DynamoDBReplayRuns:
        client: Any = self.stage.dynamodb
        return DynamoDBReplayRuns(client, LETTERS, "orders", self.stage.clock)

    def steps(self, note_bad_row: Callable[[str], None] = lambda _: None) -> ReplaySteps:
        return steps_of(self.stage, note_bad_row)

    def dead(self, number: int = LETTERS_OF_RUN, size: int = 0, full: int = 0) -> list[str]:
        """Letters that have died without a word, of three ordering keys on FIFO.

        The first `full` of them have as many attributes as SQS allows.
        """
        origins = []
        for each in range(number):
            group = {"MessageGroupId": f"g{each % 3}", "MessageDeduplicationId": str(each)}
            options: Any = group if self.stage.pipeline.fifo else {}
            if each < full:
                one = {"DataType": "String", "StringValue": "x"}
                options = {**options, "MessageAttributes": {f"a{name}": one for name in range(10)}}
            body = json.dumps({"n": each, "order": f"o{each}", "filling": "x" * size})
            origins.append(self.stage.put(body, **options))
        while self.stage.take(self.stage.main, hide=1):
            self.stage.clock.advance(2)
        self.stage.take(self.stage.main)
        return origins

    def start(self, plan: ReplayPlan, origins: Sequence[str] | None = None) -> ReplayRun:
        client: Any = self.stage.dynamodb
        plan = replace(plan, counted=None if origins is None else len(origins))
        DynamoDBReplayPlans(client, LETTERS, "orders", self.stage.clock).store(plan, origins)
        run = ReplayRun(id=plan.run_id, pipeline="orders", created=self.stage.clock())
        self.runs.create(run)
        return run

    def run(
        self, plan: ReplayPlan, origins: Sequence[str] | None = None, rounds: int = 120
    ) -> ReplayRun:
        """Start a run and take its steps to its end, while the consumer works."""
        return self.go_on(self.start(plan, origins).id, rounds)

    def go_on(self, run_id: str, rounds: int = 120) -> ReplayRun:
        steps, step, loops = self.steps(), "preflight", 0
        for _ in range(rounds):
            run = self.runs.read(run_id)
            assert run is not None
            if step == "done" or run.state is RunState.WAITING_APPROVAL:
                return run
            event = {"run": run.id, "step": step, "execution": run.execution, "loops": loops}
            answer = steps.take(replay_event(event), self.stage.clock() + 900)
            loops, step = answer.get("loops", loops), answer.get("next", "judge")
            if step == "wait":
                self.stage.clock.advance(answer["wait_seconds"])
                step = "judge"
            self.consume()
            if self.fails:
                self.stage.clock.advance(31)
                self.stage.take(self.stage.main)
                self.stage.run()
        raise AssertionError(f"the run does not end: {self.runs.read(run_id)}")

    def consume(self) -> None:
        stage = self.stage
        sqs: Any = stage.consumer_sqs
        dynamodb: Any = stage.dynamodb
        consumer = consumer_for(
            stage.pipeline,
            stage.resources,
            ConsumerClients(sqs=sqs, sending=sqs, dynamodb=dynamodb),
            stage.world,
            handle=self._handle,
            count_metric=lambda *_: None,
        )
        while messages := sqs.receive_message(
            QueueUrl=stage.main,
            MaxNumberOfMessages=10,
            MessageSystemAttributeNames=["All"],
            MessageAttributeNames=["All"],
        ).get("Messages", []):
            records = [
                to_event(
                    from_api(message),
                    receipt_handle=message["ReceiptHandle"],
                    source_arn=stage.resources.main_arn,
                )
                for message in messages
            ]
            done = consumer.process(records, deadline=stage.clock() + 25)
            for message, result in zip(messages, done.results, strict=True):
                if result.acknowledged:
                    handle = message["ReceiptHandle"]
                    sqs.delete_message(QueueUrl=stage.main, ReceiptHandle=handle)

    def _handle(self, delivery: Delivery) -> None:
        number = json.loads(delivery.letter.body)["n"]
        if number in self.fails:
            raise ValueError("the fix is wrong")
        self.handled.append(number)


def repeating(run: ReplayRun, **changes: Any) -> ReplayPlan:
    return replace(QUICK, source=f"originals:{run.id}", **changes)


def in_order(numbers: Sequence[int]) -> bool:
    """Whether the numbers of each group follow one another."""
    groups: defaultdict[int, list[int]] = defaultdict(list)
    for number in numbers:
        groups[number % 3].append(number)
    return all(group == sorted(group) for group in groups.values())


def recovered(shop: Shop, size: int = 0, full: int = 0) -> ReplayRun:
    """A run that has brought back twelve letters."""
    shop.dead(size=size, full=full)
    run = shop.run(replace(QUICK, ordered=shop.stage.pipeline.fifo))
    assert (run.state, run.counts["RECOVERED"]) == (RunState.DONE, LETTERS_OF_RUN)
    assert sorted(shop.handled) == [*range(LETTERS_OF_RUN)]
    shop.handled.clear()
    return run


@pytest.mark.parametrize("size", [0, 20_000])
@pytest.mark.parametrize("key", [None, "body.order"])
@pytest.mark.parametrize("fifo", [False, True])
def test_twelve_of_twelve_run_again_after_a_second(fifo: bool, key: str | None, size: int) -> None:
    """On FIFO too: SQS swallows what it has seen within five minutes, and answers that it is OK."""
    shop = Shop(fifo=fifo, idempotency_key=key)
    first = recovered(shop, size)
    shop.stage.clock.advance(1)
    run = shop.run(repeating(first, accept=AGAIN, ordered=fifo))
    assert (run.state, run.messages) == (RunState.DONE, LETTERS_OF_RUN)
    assert run.counts["RECOVERED"] == LETTERS_OF_RUN
    assert sorted(shop.handled) == [*range(LETTERS_OF_RUN)]
    assert in_order(shop.handled) or not fifo
    # And again, and again in order.
    shop.handled.clear()
    last = shop.run(repeating(first, accept=AGAIN, ordered=fifo, why="once more"))
    assert last.counts["RECOVERED"] == LETTERS_OF_RUN
    assert sorted(shop.handled) == [*range(LETTERS_OF_RUN)]
    assert in_order(shop.handled) or not fifo


def not_made(shop: Shop, run: ReplayRun) -> list[str]:
    """The letters that the run says it has not made."""
    client: Any = shop.stage.s3
    names = S3RunObjects(client, BUCKET, "orders", run.id).get(NO_ROOM) or b""
    return [name.origin for name in from_lines(names)]


@pytest.mark.parametrize("key", [None, "body.order"])
@pytest.mark.parametrize("fifo", [False, True])
def test_a_letter_without_room_for_a_new_key_is_not_made_and_is_named(
    fifo: bool, key: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Sent without it, the consumer would skip it, and the run would count it as a duplicate."""
    monkeypatch.setattr(objects, "MOST_LETTERS", 5)
    monkeypatch.setattr(repeating_module, "MADE_TOGETHER", 2)
    shop = Shop(fifo=fifo, idempotency_key=key)
    first = recovered(shop, full=3)
    full = {
        each.name.origin
        for each in kept(shop.stage, first.id).values()
        if len(each.letter.attributes) == 10
    }
    assert len(full) == 3
    run = shop.run(repeating(first, accept=AGAIN, ordered=fifo))
    assert (run.state, run.messages, dict(run.counts)["RECOVERED"]) == (RunState.DONE, 9, 9)
    assert sorted(shop.handled) == [*range(3, LETTERS_OF_RUN)]
    assert sorted(not_made(shop, run)) == sorted(full)
    assert len(kept(shop.stage, first.id)) == LETTERS_OF_RUN
    # Without a new key there is nothing to lose: it is sent as ever.
    shop.handled.clear()
    old = shop.run(repeating(first, ordered=fifo))
    assert (old.messages, not_made(shop, old)) == (LETTERS_OF_RUN, [])


def test_a_letter_that_a_new_key_makes_too_large_is_not_made() -> None:
    shop = Shop()
    shop.dead(1, size=MAX_BYTES - 600)
    first = shop.run(QUICK)
    assert first.counts["RECOVERED"] == 1
    run = shop.run(repeating(first, accept=AGAIN))
    assert (run.state, run.messages, len(not_made(shop, run))) == (RunState.DONE, 0, 1)


def test_a_pass_that_is_cut_off_names_each_letter_without_room_once() -> None:
    shop = Shop()
    first = recovered(shop, full=3)
    run = shop.start(repeating(first, accept=AGAIN))
    put, tries = S3RunObjects.put, itertools.count()

    def torn(objects: S3RunObjects, name: str, data: bytes) -> None:
        if name == NO_ROOM and next(tries) == 0:
            raise ObjectsUnavailable("no answer")
        put(objects, name, data)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(S3RunObjects, "put", torn)
        taken(shop, run, "preflight")
        with pytest.raises(ObjectsUnavailable):
            taken(shop, run, "snapshot")
    assert shop.go_on(run.id).messages == 9
    assert len(not_made(shop, run)) == 3


@pytest.mark.parametrize("key", [None, "body.order"])
@pytest.mark.parametrize("fifo", [False, True])
def test_without_a_new_key_the_consumer_skips_what_it_has_processed(
    fifo: bool, key: str | None
) -> None:
    shop = Shop(fifo=fifo, idempotency_key=key)
    first = recovered(shop)
    run = shop.run(repeating(first))
    assert run.state is RunState.DONE
    assert run.counts["DUPLICATE"] == LETTERS_OF_RUN
    assert shop.handled == []


def test_only_what_a_person_has_counted_is_sent_again() -> None:
    shop = Shop()
    first = recovered(shop)
    found = kept(shop.stage, first.id).values()
    chosen = {each.name.origin: json.loads(each.letter.body)["n"] for each in found}
    origins = sorted(chosen)[:5]
    run = shop.run(repeating(first, accept=AGAIN), origins)
    assert (run.counted, run.messages, run.counts["RECOVERED"]) == (None, 5, 5)
    assert sorted(shop.handled) == sorted(chosen[origin] for origin in origins)


def test_a_run_that_repeats_waits_for_an_approval_as_ever() -> None:
    shop = Shop()
    first = recovered(shop)
    run = shop.run(repeating(first, accept=AGAIN, approve=True))
    assert (run.state, run.messages) == (RunState.WAITING_APPROVAL, LETTERS_OF_RUN)
    assert shop.handled == []


def test_what_is_left_of_an_aborted_one_is_parked_and_its_originals_stay() -> None:
    shop = Shop()
    first = recovered(shop)
    run = shop.run(repeating(first, accept=AGAIN, approve=True))
    ended = aborted(run, at=shop.stage.clock(), by="ann", because="no")
    shop.runs.change(run, ended)
    done = shop.go_on(run.id)
    assert done.counts["LEFT"] == LETTERS_OF_RUN
    assert len(shop.stage.waiting()) == LETTERS_OF_RUN
    assert {item["lane"]["S"].split("|")[1] for item in shop.stage.waiting()} == {"parked"}
    assert len(kept(shop.stage, first.id)) == LETTERS_OF_RUN


def test_a_run_that_repeats_keeps_no_originals_of_its_own() -> None:
    shop = Shop()
    first = recovered(shop)
    run = shop.run(repeating(first, accept=AGAIN))
    assert kept(shop.stage, run.id) == {}


def test_letters_that_fail_again_are_parked_and_repeated_from_the_same_originals() -> None:
    shop = Shop()
    first = recovered(shop)
    shop.fails = {3}
    run = shop.run(repeating(first, accept=AGAIN))
    parked = run.counts.get("PARKED", 0) + run.counts.get("QUARANTINED", 0)
    assert (run.counts["RECOVERED"], parked) == (LETTERS_OF_RUN - 1, 1)
    shop.fails = set()
    shop.handled.clear()
    again = shop.run(repeating(first, accept=AGAIN, why="fixed"))
    assert again.counts["RECOVERED"] == LETTERS_OF_RUN


def test_a_letter_that_was_forgotten_is_not_sent_again() -> None:
    shop = Shop()
    first = recovered(shop)
    client: Any = shop.stage.s3
    objects = S3RunObjects(client, BUCKET, "orders", first.id, originals_object)
    gone = next(iter(kept(shop.stage, first.id).values())).name.origin
    for stored in objects.listed(""):
        rest = without(objects.get(stored.name) or b"", {gone})
        assert rest is not None
        objects.put(stored.name, rest)
    run = shop.run(repeating(first, accept=AGAIN))
    assert run.counts["RECOVERED"] == LETTERS_OF_RUN - 1


def test_a_damaged_object_is_named_and_never_sent_and_the_others_are() -> None:
    shop = Shop()
    first = recovered(shop)
    client: Any = shop.stage.s3
    objects = S3RunObjects(client, BUCKET, "orders", first.id, originals_object)
    [whole] = objects.listed("")
    lines = lines_in(objects.get(whole.name) or b"")
    torn = lines[0].replace(b'"stamp"', b'"stomp"')
    objects.put(whole.name, packed([torn, *lines[1:]]))
    objects.put("a-bomb.jsonl.gz", packed([b"x" * 1_000_000] * 9))
    noted: list[str] = []
    run = shop.start(repeating(first, accept=AGAIN))
    steps = shop.steps(noted.append)
    for step in ("preflight", "snapshot", "freeze"):
        event = {"run": run.id, "step": step, "execution": run.execution, "loops": 0}
        steps.take(replay_event(event), shop.stage.clock() + 900)
    folder = f"originals/orders/{first.id}"
    assert sorted(noted) == sorted([f"{folder}/a-bomb.jsonl.gz", f"{folder}/{whole.name}:1"])
    assert shop.go_on(run.id).counts["RECOVERED"] == LETTERS_OF_RUN - 1
    assert len(shop.handled) == LETTERS_OF_RUN - 1


def taken(shop: Shop, run: ReplayRun, *steps: str) -> None:
    for step in steps:
        event = {"run": run.id, "step": step, "execution": run.execution, "loops": 0}
        shop.steps().take(replay_event(event), shop.stage.clock() + 900)


@pytest.mark.parametrize("ended_by", ["freeze", "abort"])
def test_a_pass_that_was_paused_puts_nothing_into_a_run_that_has_gone_on(ended_by: str) -> None:
    """Its letter would be sent a second time, or lie in the lane of a run that has ended."""
    shop = Shop()
    first = recovered(shop)
    run = shop.start(repeating(first, accept=AGAIN))
    late: list[Any] = []
    put = DynamoDBPlacedLetters.put

    def paused(letters: DynamoDBPlacedLetters, orders: Any) -> None:
        late.append((letters, orders))
        put(letters, orders)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(DynamoDBPlacedLetters, "put", paused)
        taken(shop, run, "preflight", "snapshot")
    if ended_by == "abort":
        now = shop.runs.read(run.id)
        assert now is not None
        shop.runs.change(now, aborted(now, at=shop.stage.clock(), by="ann", because="no"))
    ended = shop.go_on(run.id)
    assert ended.state in (RunState.DONE, RunState.ABORTED)
    before = len(shop.stage.waiting()), list(shop.handled)
    [(letters, orders)] = late
    with pytest.raises(RoomUnavailable, match="no more messages"):
        letters.put(orders)
    assert (len(shop.stage.waiting()), list(shop.handled)) == before


def test_what_a_person_edits_while_the_run_is_held_is_not_made_anew() -> None:
    shop = Shop()
    first = recovered(shop)
    run = shop.start(repeating(first, accept=AGAIN))
    taken(shop, run, "preflight", "snapshot")
    edited = shop.stage.waiting()[0]
    client: Any = shop.stage.dynamodb
    client.put_item(TableName=LETTERS, Item={**edited, "edit": edited["message"]})
    for change in (held, resumed):
        now = shop.runs.read(run.id)
        assert now is not None
        options = {"because": "a look"} if change is held else {}
        shop.runs.change(now, change(now, at=shop.stage.clock(), by="ann", **options))
    objects: Any = S3RunObjects(shop.stage.s3, BUCKET, "orders", run.id)  # type: ignore[arg-type]
    objects.delete([stored.name for stored in objects.listed("taken/")])
    taken(shop, run, "snapshot")
    assert sum("edit" in item for item in shop.stage.waiting()) == 1


def test_two_runs_that_repeat_go_one_after_the_other() -> None:
    """The ledger could not tell whose outcome is whose."""
    shop = Shop()
    first = recovered(shop)
    one = shop.start(repeating(first, accept=AGAIN))
    shop.stage.clock.advance(1)
    two = shop.start(repeating(first, accept=AGAIN, why="typed twice, with another reason"))
    taken(shop, two, "preflight", "snapshot")
    assert shop.stage.waiting() == []
    assert shop.go_on(one.id).counts["RECOVERED"] == LETTERS_OF_RUN
    assert shop.go_on(two.id).counts["RECOVERED"] == LETTERS_OF_RUN
    assert len(shop.handled) == 2 * LETTERS_OF_RUN


@pytest.mark.slow_because("a whole run for each third call at which it can be cut off")
@pytest.mark.parametrize(
    ("fifo", "every"),
    [
        (False, 3),
        *(pytest.param(fifo, 1, marks=pytest.mark.nightly) for fifo in (False, True)),
    ],
)
def test_a_repetition_that_is_cut_off_at_any_call_goes_on_and_sends_each_letter_once(
    fifo: bool, every: int
) -> None:
    shop = Shop()
    run = ReplayRun(id="", pipeline="orders")

    def cut_off(calls: Calls) -> None:
        nonlocal shop, run
        shop = Shop(fifo=fifo)
        shop.dead(4, size=1)
        first = shop.run(replace(QUICK, ordered=fifo))
        assert first.state is RunState.DONE
        shop.handled.clear()
        run = shop.start(repeating(first, accept=AGAIN, ordered=fifo))
        taken(shop, run, "preflight")
        table, bucket = shop.stage.dynamodb, shop.stage.s3
        shop.stage.dynamodb = EachCall(table, calls)  # type: ignore[assignment]
        shop.stage.s3 = EachCall(bucket, calls)  # type: ignore[assignment]
        try:
            taken(shop, run, "snapshot", "freeze")
        finally:
            shop.stage.dynamodb, shop.stage.s3 = table, bucket

    ended = 0
    for where in crashes(cut_off, every):
        ended += 1
        done = shop.go_on(run.id)
        assert (done.state, done.messages) == (RunState.DONE, 4), where
        assert done.counts["RECOVERED"] == 4, where
        assert sorted(shop.handled) == [*range(4)], where
        assert in_order(shop.handled) or not fifo, where
        assert shop.stage.waiting() == [], where
    assert ended > 30 / every
