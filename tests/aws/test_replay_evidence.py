"""What is known about a replay run when it is judged."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.aws.replay_evidence import READ_WITHIN, Surroundings, counted, soonest_expiry
from deadletter.aws.watch_store import DynamoDBWatchStore
from deadletter.aws.wiring.replaying import replay_steps_for
from deadletter.circuit.state import Circuit, CircuitsUnavailable, State
from deadletter.contract import MAIN
from deadletter.failure.causes import Causes, CausesUnavailable
from deadletter.message.queue import QueueUnavailable
from deadletter.processing.collisions import KnownCollisions
from deadletter.redrive.lease import LeaseUnavailable
from deadletter.redrive.source_memory import SourceMemory
from deadletter.redrive.waiting_room import SHARDS
from deadletter.replay.machine import ReplaySteps, replay_event
from deadletter.replay.manifest import ManifestIndex, PartStatus
from deadletter.replay.names import Name
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.run import ReplayRun, RunState
from deadletter.replay.ticket import ReplayOutcome
from deadletter.settings.pipeline import Pipeline
from deadletter.watch.row import QueueRow, WatchRow
from tests.replay.bench import NoExecutions, ReplayBench
from tests.simulation.stage import in_turn
from tests.tables import LETTERS

NOW = 1_800_000_000.0
PLAN = ReplayPlan(pipeline="orders")
RUN = ReplayRun(id="r", pipeline="orders", state=RunState.RUNNING, step_began=NOW - 600)
INDEX = ManifestIndex((3, 2, *([0] * (SHARDS - 2))), "hash")


class Rows:
    """Status rows of one part in each of two shards."""

    def read(self, shard: int) -> Mapping[int, PartStatus]:
        return {0: {0: PartStatus("rs", "10")}, 1: {}}[shard]

    def write(self, shard: int, parts: Mapping[int, PartStatus]) -> None:
        raise AssertionError("judging writes nothing")


def name_of(cause: str) -> Name:
    return Name(
        copy="c",
        origin="o",
        place=("p", "s"),
        key="0" * 16,
        sequence="",
        tenant="",
        cause=cause,
        category="",
        attempt=0,
        size=1,
        first_sent=0,
    )


class Parts:
    """A manifest whose letters all have one cause."""

    def part(self, _shard: int, _part: int) -> Sequence[Name]:
        return [name_of("boom")]


class World:
    """Circuits, queue, causes and collisions, each of which may give no answer."""

    def __init__(self, *, away: bool = False, state: State = State.CLOSED) -> None:
        self.away, self.state = away, state
        bucket = int(NOW // 300)
        self.known: Any = Causes(counts={"boom": {bucket: 4, bucket - 5: 9}, "other": {bucket: 7}})

    def circuits(self) -> Any:
        return self

    def read(self, keys: Sequence[str] = ()) -> Any:
        if self.away:
            raise CircuitsUnavailable("away") if keys else CausesUnavailable("away")
        return (
            {key: replace(Circuit(key), state=self.state) for key in keys} if keys else self.known
        )

    def depth(self) -> Any:
        if self.away:
            raise QueueUnavailable("away")
        return type("Depth", (), {"visible": 12})()


DAY = 86_400.0
FOUR_DAYS = 4 * DAY


def queue_since(filled_at: float, now: float = NOW) -> QueueRow:
    """A queue that has held letters since then, read just now."""
    return QueueRow(messages=3, read_at=now, retention=FOUR_DAYS, filled_at=filled_at)


class Watch:
    """What the watch remembers: a DLQ whose oldest letter is three days old."""

    def __init__(self, *, away: bool = False) -> None:
        self.away = away

    def read(self) -> Any:
        if self.away:
            raise LeaseUnavailable("away")
        row = WatchRow(first_at=0.0, ran_at=NOW, queues={"dlq": queue_since(NOW - 3 * DAY)})
        return row, {}


class Collided(World):
    """Two messages collided before the step began, one since."""

    def read(self, keys: Sequence[str] = ()) -> Any:
        if self.away:
            raise CircuitsUnavailable("away")
        minute = int(NOW // 60)
        return KnownCollisions(0.0, {minute - 30: (9, 2), minute: (9, 1)})


DOWN = "the health URL answers HTTP 503"


def evidence(
    world: World,
    plan: ReplayPlan = PLAN,
    *,
    library: bool = True,
    trouble: Callable[[], str] = lambda: "",
) -> Any:
    anything: Any = world
    collisions: Any = Collided(away=world.away)
    parts: Any = Parts()
    watch: Any = Watch(away=world.away)
    surroundings = Surroundings(
        pipeline=Pipeline("orders", consumer_library=library),
        circuits=anything,
        main=anything,
        causes=anything,
        collisions=collisions,
        watch=watch,
        trouble=trouble,
        clock=lambda: NOW,
    )
    return surroundings.evidence(RUN, plan, index=INDEX, manifest=parts, statuses=Rows())


def test_letters_that_no_row_names_are_open() -> None:
    outcomes, returned, late = counted(INDEX, Rows())
    assert outcomes == {
        ReplayOutcome.RECOVERED: 1,
        ReplayOutcome.SENT: 1,
        ReplayOutcome.OPEN: 3,
    }
    assert (returned, late) == (1, 0)


def test_new_failures_count_for_the_causes_of_the_run_and_since_the_step_began() -> None:
    seen = evidence(World())
    assert (seen.same_causes, seen.collisions, seen.backlog) == (4, 1, 12)
    assert evidence(World(), library=False).same_causes == 0


@pytest.mark.parametrize("state", [State.OPEN, State.HALF_OPEN])
def test_a_circuit_that_is_not_closed_is_seen(state: State) -> None:
    assert evidence(World(state=state)).circuit == str(state)


def test_a_dependency_that_is_down_by_its_health_url_is_seen() -> None:
    assert evidence(World(), trouble=lambda: DOWN).unwell == DOWN
    assert evidence(World()).unwell == ""


def test_the_health_url_is_not_asked_where_its_answer_changes_nothing() -> None:
    """An open circuit holds the run already; another destination is not the dependency."""

    def asked() -> str:
        raise AssertionError("asked")

    assert evidence(World(state=State.OPEN), trouble=asked).circuit == "OPEN"
    assert evidence(World(), replace(PLAN, destination="vip"), trouble=asked).unwell == ""


def test_surroundings_that_give_no_answer_do_not_hold_a_run() -> None:
    seen = evidence(World(away=True))
    assert (seen.circuit, seen.backlog, seen.same_causes, seen.collisions) == ("CLOSED", None, 0, 0)
    assert seen.seconds_to_expiry is None
    assert seen.unfinished == 4


def test_a_run_that_goes_elsewhere_does_not_look_at_the_consumer() -> None:
    seen = evidence(World(state=State.OPEN), replace(PLAN, destination="vip"))
    assert (seen.circuit, seen.backlog, seen.same_causes) == ("CLOSED", None, 0)


def test_a_run_knows_how_soon_sqs_drops_a_letter_that_it_left_behind() -> None:
    assert evidence(World()).seconds_to_expiry == DAY
    elsewhere = replace(PLAN, destination="vip")
    assert evidence(World(), elsewhere).seconds_to_expiry == DAY


def test_the_letter_that_expires_first_counts_by_what_runs_have_seen_of_it() -> None:
    row = WatchRow(
        first_at=0.0,
        ran_at=NOW,
        queues={
            "dlq": queue_since(NOW - DAY),
            "parking:default": queue_since(NOW - 2 * DAY),
            "vip": replace(queue_since(NOW - 3 * DAY), filled_at=None),
            "slow": replace(queue_since(NOW - 3 * DAY), read_at=NOW - READ_WITHIN - 1),
            MAIN: queue_since(NOW - 3 * DAY),
        },
    )
    assert soonest_expiry(row, {}, NOW) == 2 * DAY
    seen = {"dlq": SourceMemory(oldest=NOW - FOUR_DAYS + 60)}
    assert soonest_expiry(row, seen, NOW) == 60
    assert soonest_expiry(replace(row, queues={}), seen, NOW) is None


def steps(bench: ReplayBench) -> ReplaySteps:
    stage = bench.stage
    return replay_steps_for(
        stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        lambda _name, _number: None,
        executions=NoExecutions(),
        router=stage.router,
        in_parallel=in_turn,
    )


@pytest.mark.parametrize(("left", "state"), [(7_200.0, "RUNNING"), (1_800.0, "HELD")])
def test_the_judge_step_holds_a_run_while_sqs_is_about_to_drop_a_letter(
    left: float, state: str
) -> None:
    bench = ReplayBench(["", ""])
    now = bench.clock()
    queues = {"dlq": queue_since(now - FOUR_DAYS + left, now)}
    DynamoDBWatchStore(bench.dynamodb, LETTERS, "orders").write(
        WatchRow(first_at=now, ran_at=now, queues=queues)
    )
    event = {"run": bench.run_id, "step": "judge", "execution": bench.run.execution}
    answer = steps(bench).take(replay_event(event), now + 60)
    assert answer["state"] == bench.run.state == state
    if state == "HELD":
        assert bench.run.because == "SQS drops a message of the pipeline's queues in 1800 s"
