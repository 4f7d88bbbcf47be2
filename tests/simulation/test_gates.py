"""Circuits gate the redriver: nothing while open, slowly afterwards; bounces open one."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import pytest

from deadletter.aws.wiring.moving import redriver_for
from deadletter.circuit.state import CircuitPolicy
from deadletter.redrive.report import Report
from deadletter.settings.pipeline import Pipeline
from tests.simulation.stage import Stage, in_turn, prompt_policy
from tests.tables import CIRCUITS


@dataclass
class Executions:
    """Executions that were started."""

    started: list[str] = field(default_factory=list)

    def start(self, key: str, generation: int, restart: int) -> None:
        self.started.append(f"{key}-{generation}-{restart}")

    def running(self) -> set[str]:
        return set()


@pytest.fixture
def stage() -> Stage:
    policy = CircuitPolicy(ramp=300, minimum=20, consecutive=10)
    return Stage(
        Pipeline("orders", policy=prompt_policy(), circuit=policy, workers=1, fixed_rate=10.0)
    )


@pytest.fixture
def executions() -> Executions:
    return Executions()


def run(stage: Stage, executions: Executions, *, dry_run: bool = False) -> Report:
    redriver = redriver_for(
        stage.pipeline,
        stage.resources,
        stage.clients,
        stage.world,
        router=stage.router,
        in_parallel=in_turn,
        outages=executions,
    )
    return redriver.run(stage.clock() + 20, dry_run=dry_run)


def die(stage: Stage, letters: int) -> None:
    for number in range(letters):
        stage.put(f"{number}", url=stage.dlq)


def state_of(stage: Stage) -> str:
    items = stage.dynamodb.items(CIRCUITS)
    return str(items[0]["state"]["S"]) if items else "CLOSED"


def close(stage: Stage, ago: float) -> None:
    """A circuit that closed so many seconds ago."""
    stage.dynamodb.put_item(
        TableName=CIRCUITS,
        Item={
            "pipeline": {"S": "orders"},
            "circuit_key": {"S": "orders"},
            "state": {"S": "CLOSED"},
            "closed_at": {"N": str(stage.clock() - ago)},
        },
    )


@pytest.mark.parametrize(("ago", "share"), [(0, 0.2), (61, 0.4), (130, 0.6), (299, 1.0)])
def test_after_closing_rate_and_burst_follow_the_ramp(
    stage: Stage, executions: Executions, ago: float, share: float
) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=1.0)
    die(stage, 150)
    close(stage, ago)
    began = stage.clock()
    report = run(stage, executions)
    lasted = stage.clock() - began
    assert report.counts["Redriven"] == pytest.approx(10 * share + lasted * share, abs=2)


def test_the_ramp_leaves_the_next_run_no_more_than_its_rate(
    stage: Stage, executions: Executions
) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=1.0)
    die(stage, 150)
    close(stage, 0)
    first = run(stage, executions).counts["Redriven"]
    second = run(stage, executions).counts["Redriven"]
    assert first + second <= 0.2 * 10 + 0.2 * 60


def test_while_open_nothing_is_received(stage: Stage, executions: Executions) -> None:
    die(stage, 3)
    stage.set_circuit("OPEN")
    report = run(stage, executions)
    assert report.counts.get("Received", 0) == 0


def test_a_dry_run_sees_to_no_outage(stage: Stage, executions: Executions) -> None:
    stage.set_circuit("OPEN")
    run(stage, executions, dry_run=True)
    assert executions.started == []


def bounce(stage: Stage, executions: Executions, letters: int) -> Report:
    """Letters that are re-driven, die again, and are seen by a second run."""
    die(stage, letters)
    run(stage, executions)
    stage.clock.advance(20)
    stage.fail()
    return run(stage, executions)


def test_letters_that_come_back_open_the_circuit_of_a_silent_consumer(
    stage: Stage, executions: Executions
) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=50.0)
    report = bounce(stage, executions, 30)
    assert report.counts["RedriveBounced"] == 30
    assert state_of(stage) == "OPEN"
    assert executions.started == ["orders-1-0"]


def test_a_few_that_come_back_may_be_their_own_fault(stage: Stage, executions: Executions) -> None:
    report = bounce(stage, executions, 4)
    assert report.counts["RedriveBounced"] == 4
    assert stage.dynamodb.items(CIRCUITS) == []


def test_those_that_did_not_come_back_speak_for_the_consumer(
    stage: Stage, executions: Executions
) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=500.0)
    die(stage, 12)
    run(stage, executions)
    stage.fail()
    die(stage, 200)
    report = run(stage, executions)
    assert report.counts["RedriveBounced"] == 12
    assert state_of(stage) == "CLOSED"


@pytest.mark.parametrize("change", [{"consumer_library": True}, {"circuit_key": "body.to"}])
def test_bounces_count_only_where_nothing_better_reports(
    stage: Stage, executions: Executions, change: dict[str, object]
) -> None:
    stage.pipeline = replace(stage.pipeline, fixed_rate=50.0, **change)  # type: ignore[arg-type]
    bounce(stage, executions, 30)
    assert state_of(stage) == "CLOSED"
