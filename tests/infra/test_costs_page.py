"""The monthly costs in README.md and docs/before-you-adopt.md, from what is counted here."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deadletter.contract import Mode
from deadletter.watch import watch
from tests.infra.templates import Stack, Synthesis
from tests.simulation.stage import Stage

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "before-you-adopt.md").read_text()

MINUTES = 43_200  # of 30 days

# us-east-1, on demand; the sources stand in infra/dashboard_costs.py.
SQS_REQUEST = 0.40e-6
READ_UNIT = 0.125e-6
WRITE_UNIT = 0.625e-6
GB_SECOND = 0.0000133334
LAMBDA_REQUEST = 0.20e-6
SCHEDULED_START = 1.00e-6
LOG_GB = 0.50
ALARM = 0.10
KEY = 1.00
TRACE = 5.00e-6

# Assumed, as in the watch's own table: what a run takes beside its long poll, and its log.
RUN_SECONDS = 0.3
LOG_BYTES = 1_000


def row(what: str) -> float:
    """The dollars in the row of the page's table that begins so."""
    [dollars] = re.findall(rf"^\| \**{re.escape(what)}[^|]*\| \**\$([0-9.]+)", PAGE, re.M)
    return float(dollars)


def count(client: Any, name: str, calls: Counter[str]) -> None:
    """Let the calls of one operation be counted from now on."""
    inner = getattr(client, name)

    def call(*args: Any, **more: Any) -> Any:
        calls[name] += 1
        return inner(*args, **more)

    setattr(client, name, call)


def idle_run(mode: Mode) -> tuple[float, float, float, float]:
    """SQS requests, read units, write units and seconds of a run with nothing to do."""
    stage, calls, runs = Stage(), Counter[str](), 60
    stage.pipeline = replace(stage.pipeline, mode=mode)
    for name in ("receive_message", "get_queue_attributes"):
        count(stage.redriver_sqs, name, calls)
    before, lasted = stage.dynamodb.consumed, 0.0
    for _ in range(runs):
        began = stage.clock()
        stage.run()
        lasted += stage.clock() - began
        stage.clock.advance(60 - (stage.clock() - began))
    after = stage.dynamodb.consumed
    assert calls["receive_message"] >= runs
    return (
        calls.total() / runs,
        (after.read_units - before.read_units) / runs,
        (after.write_units - before.write_units) / runs,
        lasted / runs,
    )


@pytest.mark.parametrize("mode", Mode)
def test_a_redriver_with_nothing_to_do_costs_what_the_page_says(mode: Mode) -> None:
    requests, reads, writes, seconds = idle_run(mode)
    memory_gb = 0.5
    run = (
        requests * SQS_REQUEST
        + reads * READ_UNIT
        + writes * WRITE_UNIT
        + (seconds + RUN_SECONDS) * memory_gb * GB_SECOND
        + LAMBDA_REQUEST
        + SCHEDULED_START
        + LOG_BYTES / 1e9 * LOG_GB
    )
    assert run * MINUTES == pytest.approx(row("its redriver, each minute"), abs=0.02)


def test_the_watch_costs_what_its_module_says() -> None:
    assert f"That is ${row('the watch of a pipeline')}" in str(watch.__doc__)


def alarmed(stack: Stack) -> float:
    """What the alarms of a stack cost: each metric that one looks at counts."""
    metrics = 0
    for alarm in stack.of("AWS::CloudWatch::Alarm").values():
        looked_at = alarm["Properties"].get("Metrics", [{"MetricStat": {}}])
        metrics += sum("MetricStat" in each for each in looked_at)
    return metrics * ALARM


def test_alarms_and_keys_cost_what_the_page_says(app: Synthesis) -> None:
    assert alarmed(app["Deadletter-Watched"]) == pytest.approx(row("its nine alarms"))
    shared = app["Deadletter-Shared"]
    keys = len(shared.of("AWS::KMS::Key")) * KEY
    assert alarmed(shared) + keys == pytest.approx(row("the app"))


def test_the_sums_are_right_and_the_readme_rounds_them() -> None:
    parts = ("the watch of a pipeline", "its redriver, each minute", "its nine alarms")
    total = row("a pipeline with nothing to do")
    assert sum(map(row, parts)) == pytest.approx(total)
    assert row("X-Ray") == pytest.approx(2 * MINUTES * TRACE, abs=0.005)
    [said, of_app] = re.findall(r"\*\*Cost\*\*: about \$([0-9.]+) .*? and \$([0-9.]+)", README)[0]
    assert float(said) == pytest.approx(total, abs=0.1)
    assert float(of_app) == row("the app")
