"""A run that forgets its letters leaves nothing of them, neither here nor from earlier runs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from deadletter.aws.errors import ignore
from deadletter.aws.objects import S3RunObjects, runs_with_objects
from deadletter.aws.replay_runs import DynamoDBReplayPlans, DynamoDBReplayRuns
from deadletter.aws.replay_tickets import DynamoDBTickets
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.aws.wiring.stores import Stores
from deadletter.contract import Category, Reason
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import AboutLetter
from deadletter.replay.carriers import Discarding
from deadletter.replay.machine import ReplaySteps, replay_event
from deadletter.replay.plan import DISCARD, ReplayPlan, plan_from_text
from deadletter.replay.run import ReplayRun, RunRefused, RunState, aborted
from deadletter.replay.ticket import ReplayOutcome, Ticket
from deadletter.routing.selection import Selection
from tests.replay.bench import NoExecutions, ReplayBench, orders_pipeline
from tests.simulation.stage import Stage, in_turn
from tests.tables import BUCKET, LETTERS

SECRET = "4111-x"
FORGETS = ReplayPlan(
    pipeline="orders",
    source="lane:parked",
    destination=DISCARD,
    keep_export=False,
    forget=True,
    who="ann",
    why="a request",
)


class History:
    """What earlier runs have left of a letter, under other ids, and of another letter."""

    def __init__(self, bench: ReplayBench, origin: str) -> None:
        self.bench = bench
        self.run("earlier", origin, "copy-1", tickets=True)
        self.run("expired", origin, "copy-0", tickets=False)
        self.run("others", "somebody", "copy-9", tickets=True)
        self.objects("silent").put("report.json", b"{}")

    def run(self, run: str, origin: str, copy: str, *, tickets: bool) -> None:
        kept = {"message": {"body": SECRET}, "stamp": {"origin": origin}}
        self.objects(run).put(f"discarded/{copy}.json", json.dumps(kept).encode())
        edited = {"origin": origin, "before": {"body": SECRET}}
        self.objects(run).put(f"edits/{copy}-1763.json", json.dumps(edited).encode())
        self.objects(run).put("report.json", b"{}")
        # One that was cut off in the middle says of nobody that it is his.
        self.objects(run).put("edits/torn-1.json", b"{")
        if tickets:
            ticket = Ticket(
                run=run,
                origin=origin,
                copy=copy,
                shard=0,
                position=0,
                attempt=1,
                at=self.bench.clock(),
                fate=ReplayOutcome.DISCARDED,
            )
            self.tickets(run).put([ticket])

    def objects(self, run: str) -> S3RunObjects:
        return S3RunObjects(self.bench.stage.s3, BUCKET, "orders", run)  # type: ignore[arg-type]

    def tickets(self, run: str) -> DynamoDBTickets:
        return DynamoDBTickets(
            self.bench.dynamodb,
            LETTERS,
            pipeline="orders",
            run=run,
            clock=self.bench.clock,
            in_parallel=in_turn,
        )

    def names(self, run: str) -> list[str]:
        return [entry.name for entry in self.objects(run).listed("")]


def thrown_away(plan: ReplayPlan) -> ReplayBench:
    """A run whose two letters are discarded, with what the ledger knows of them."""
    bench = ReplayBench(["", "a"], plan)
    about = AboutLetter(context={"card": SECRET})
    for name in bench.names:
        bench.ledger.failed(name.origin, Failure(bench.clock(), 0, Category.TRANSIENT), about)
    discarding = Discarding(
        objects=bench.objects,
        plan=plan,
        records=bench.ledger,
        clock=bench.clock,
        tally=bench.tally,
    )
    assert bench.work(10, carrier=discarding).done
    return bench


def execute(
    stage: Stage, plan: ReplayPlan, note_bad_row: Callable[[str], None] = ignore
) -> ReplayRun:
    """Have a run go through all its steps, as its state machine does; returns how it ended."""
    client: Any = stage.dynamodb
    DynamoDBReplayPlans(client, LETTERS, "orders", stage.clock).store(plan, None)
    runs = DynamoDBReplayRuns(client, LETTERS, "orders", stage.clock)
    runs.create(ReplayRun(id=plan.run_id, pipeline="orders", created=stage.clock()))
    steps = steps_of(stage, note_bad_row)
    step, loops = "preflight", 0
    for _ in range(100):
        run = runs.read(plan.run_id)
        assert run is not None
        if step == "done":
            return run
        event = {"run": run.id, "step": step, "execution": run.execution, "loops": loops}
        answer = steps.take(replay_event(event), stage.clock() + 900)
        loops = answer.get("loops", loops)
        step = answer.get("next", "judge")
        if step == "wait":
            stage.clock.advance(answer["wait_seconds"])
            step = "judge"
    raise AssertionError(f"the run does not end: {run}")


def steps_of(stage: Stage, note_bad_row: Callable[[str], None] = ignore) -> ReplaySteps:
    return replay_steps_for(
        stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        lambda _name, _number: None,
        executions=NoExecutions(),
        router=stage.router,
        in_parallel=in_turn,
        note_bad_row=note_bad_row,
    )


def reconciled(bench: ReplayBench, *, seconds: float = 900.0) -> str:
    """Take the step as the deployed function does; returns what its execution does next."""
    steps = steps_of(bench.stage)
    event = {"run": bench.run_id, "step": "reconcile", "execution": bench.run.execution}
    return str(steps.take(replay_event(event), bench.clock() + seconds)["next"])


def test_all_that_is_kept_of_its_letters_is_erased_before_the_run_is_done() -> None:
    bench = thrown_away(FORGETS)
    mine, other = bench.names
    history = History(bench, mine.origin)
    # A consumer that knew nothing of its first life has noted it under the id of a later copy.
    for known_as in ("copy-1", "somebody"):
        bench.ledger.failed(known_as, Failure(bench.clock(), 0, Category.TRANSIENT))
    assert reconciled(bench) == "judge"
    assert bench.run.state is RunState.DONE
    rows = bench.ledger.rows([mine.origin, other.origin, "copy-1", "somebody"])
    assert list(rows) == ["somebody"]
    # Whether the tickets still say whose copy it was, or only the object itself.
    assert history.names("earlier") == ["edits/torn-1.json", "report.json"]
    assert history.names("expired") == ["edits/torn-1.json", "report.json"]
    # Nothing of another letter.
    assert history.names("others") == [
        *("discarded/copy-9.json", "edits/copy-9-1763.json"),
        *("edits/torn-1.json", "report.json"),
    ]
    assert SECRET not in json.dumps(bench.stage.dynamodb.items(LETTERS), default=str)


def test_a_person_who_aborts_a_broken_run_has_seen_its_sum() -> None:
    bench = ReplayBench([""])
    pk, sk = bench.names[0].place
    bench.dynamodb.delete_item(TableName=LETTERS, Key={"pk": {"S": pk}, "sk": {"S": sk}})
    bench.work(5)
    event = {"run": bench.run_id, "step": "judge", "execution": bench.run.execution}
    assert steps_of(bench.stage).take(replay_event(event), bench.clock())["next"] == "reconcile"
    seen = bench.run
    assert reconciled(bench) == "judge"
    assert (bench.run.state, bench.run.counts["MISSING"]) == (RunState.BROKEN, 1)
    assert bench.run.generation == seen.generation + 1
    ended = aborted(seen, at=bench.clock(), by="ann", because="it is broken")
    with pytest.raises(RunRefused, match="changed meanwhile"):
        bench.runs.change(seen, ended)
    bench.abort()


def test_each_change_by_a_step_is_one_generation_later() -> None:
    """By it a change is refused that was made by an earlier look, and a late grant is void."""
    generations: list[tuple[int, int]] = []
    change = DynamoDBReplayRuns.change

    def noted(runs: DynamoDBReplayRuns, before: ReplayRun, after: ReplayRun) -> None:
        generations.append((before.generation, after.generation))
        change(runs, before, after)

    with patch.object(DynamoDBReplayRuns, "change", noted):
        run = execute(Stage(), replace(FORGETS, source="dlq"))
    assert (run.state, run.left) == (RunState.DONE, True)
    assert generations == [(number, number + 1) for number in range(run.generation)]


def test_ids_that_the_run_found_no_letter_of_are_forgotten_too() -> None:
    """A letter that was processed long ago has a row, and maybe copies of edits."""
    bench = ReplayBench([], replace(FORGETS, selection=Selection(ids=("gone",))))
    bench.ledger.failed("gone", Failure(bench.clock(), 0, Category.TRANSIENT))
    history = History(bench, "gone")
    assert reconciled(bench) == "judge"
    assert bench.ledger.rows(["gone"]) == {}
    assert history.names("earlier") == ["edits/torn-1.json", "report.json"]


def test_a_discard_that_does_not_forget_erases_nothing() -> None:
    bench = thrown_away(replace(FORGETS, forget=False))
    history = History(bench, bench.names[0].origin)
    before = {run: history.names(run) for run in ("earlier", "expired")}
    assert reconciled(bench) == "judge"
    assert bench.run.state is RunState.DONE
    assert {run: history.names(run) for run in before} == before
    assert len(bench.ledger.rows([name.origin for name in bench.names])) == 2


def test_a_replay_whose_plan_says_forget_erases_nothing() -> None:
    """Only who may throw letters away may have them forgotten."""
    assert not replace(FORGETS, destination="main").forgets


def test_a_step_without_time_is_taken_again_and_the_run_is_not_done_before() -> None:
    bench = thrown_away(FORGETS)
    history = History(bench, bench.names[0].origin)
    assert reconciled(bench, seconds=5.0) == "wait"
    assert bench.run.state is not RunState.DONE
    assert len(bench.ledger.rows([name.origin for name in bench.names])) == 2
    assert reconciled(bench) == "judge"
    assert bench.run.state is RunState.DONE
    assert history.names("earlier") == ["edits/torn-1.json", "report.json"]


def test_runs_are_found_by_their_objects_one_request_each() -> None:
    bench = ReplayBench([])
    for run in ("a" * 16, "a" * 15 + "0", "b" * 16):
        for number in range(3):
            S3RunObjects(bench.stage.s3, BUCKET, "orders", run).put(f"x/{number}", b"")  # type: ignore[arg-type]
    S3RunObjects(bench.stage.s3, BUCKET, "orders-eu", "c" * 16).put("x", b"")  # type: ignore[arg-type]
    found = set(runs_with_objects(bench.stage.s3, BUCKET, "orders"))  # type: ignore[arg-type]
    assert found - {bench.run_id} == {"a" * 16, "a" * 15 + "0", "b" * 16}


@pytest.mark.parametrize("forget", [True, False])
def test_a_plan_is_read_as_it_was_written(forget: bool) -> None:
    plan = replace(FORGETS, forget=forget)
    assert plan_from_text(plan.to_text()) == plan


def test_a_plan_of_an_earlier_version_still_has_its_runs_id() -> None:
    """Its text is hashed: a new word in it would abort each run that is under way."""
    assert "forget" not in replace(FORGETS, forget=False).to_text()


def stage_with_context() -> Stage:
    return Stage(orders_pipeline(context={"card": "body.card"}))


def dead(stage: Stage, card: str, size: int = 0) -> str:
    """A letter in the DLQ whose last failure would park it."""
    origin = stage.put(json.dumps({"card": card, "filling": "x" * size}))
    stage.fail()
    for life in range(3):
        poison = Failure(stage.clock(), life, Category.SCHEMA, fingerprint="f")
        ledger = Stores(stage.pipeline, stage.resources, stage.clients, stage.world).ledger
        ledger.failed(origin, poison, AboutLetter(context={"card": card}))
    return origin


def everything(stage: Stage) -> str:
    """What every queue, table and bucket of the pipeline has, as text."""
    objects: Any = stage.s3
    keys = [entry["Key"] for entry in objects.list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    bodies = [objects.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in keys]
    messages = [message.body for message in stage.sqs.snapshot()]
    return repr((messages, stage.dynamodb.items(LETTERS), bodies))


@pytest.mark.parametrize("size", [0, 20_000])
def test_letters_with_a_key_are_forgotten_out_of_the_dlq_and_the_others_stay(size: int) -> None:
    """Whether their bodies wait in the table or in the bucket, and although they are poison."""
    stage = stage_with_context()
    mine, other = dead(stage, SECRET, size), dead(stage, "5500-y", size)
    assert SECRET in everything(stage)
    selection = Selection(pattern={"context": {"card": [SECRET]}}, include=tuple(Reason))
    run = execute(stage, replace(FORGETS, source="dlq", selection=selection))
    assert (run.state, run.counts.get("DISCARDED")) == (RunState.DONE, 1)
    ledger = Stores(stage.pipeline, stage.resources, stage.clients, stage.world).ledger
    assert list(ledger.rows([mine, other])) == [other]
    left = everything(stage)
    # What the person typed stands in the plan, which expires; nothing else does.
    plan = replace(FORGETS, source="dlq", selection=selection).to_text()
    assert SECRET not in left.replace(plan, "")
    assert "5500-y" in left
