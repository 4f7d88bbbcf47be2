"""What a pipeline with nothing to do costs: counted, added up, and as the pages say it."""

from __future__ import annotations

import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deadletter.contract import Mode
from deadletter.watch import watch
from handlers.metrics import report_lines
from infra import idle
from infra.idle import MONTH, month, of
from infra.prices import Price, Usage
from tests.costs.estimates import PipelineShape, app_month, idle_month, together
from tests.infra.templates import Synthesis
from tests.simulation.stage import Stage

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text()
PAGE = (ROOT / "docs" / "before-you-adopt.md").read_text()

MOST_DOLLARS, MOST_OF_WEBHOOKS = 1.85, 2.15
"""A month, for a pipeline with nothing to do; and for one whose consumer is ours."""


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


def idle_hour(mode: Mode) -> tuple[float, float, float, float]:
    """SQS requests, read units, write units and seconds of a run with nothing to do."""
    stage, calls, runs = Stage(), Counter[str](), 60
    stage.pipeline = replace(stage.pipeline, mode=mode)
    for name in ("receive_message", "get_queue_attributes"):
        count(stage.redriver_sqs, name, calls)
    before, lasted = stage.dynamodb.consumed, 0.0
    for _ in range(runs):
        began = stage.clock()
        report = stage.run()
        assert list(report_lines(report, "app", stage.clock())) == []
        lasted += stage.clock() - began
        stage.clock.advance(60 - (stage.clock() - began))
    after = stage.dynamodb.consumed
    return (
        calls.total() / runs,
        (after.read_units - before.read_units) / runs,
        (after.write_units - before.write_units) / runs,
        lasted / runs,
    )


def test_an_idle_run_uses_what_the_estimate_says_and_publishes_nothing() -> None:
    requests, reads, writes, seconds = idle_hour(Mode.ENFORCE)
    assert requests == idle.RUN_REQUESTS
    assert reads == pytest.approx(idle.RUN_READS, abs=0.01)
    assert writes == idle.RUN_WRITES
    assert seconds == pytest.approx(idle.RUN_WAITS, abs=0.01)


def test_observing_an_empty_queue_costs_no_more() -> None:
    enforce, observe = idle_hour(Mode.ENFORCE), idle_hour(Mode.OBSERVE)
    assert all(less <= more for less, more in zip(observe, enforce, strict=True))


def test_the_watch_costs_what_its_module_says() -> None:
    of_watch = idle_month()["watch"] + idle_month()["heartbeat metric"]
    assert f"That is ${of_watch.dollars:.2f}" in str(watch.__doc__)


# Added up over the templates: whatever is deployed and has a price by the month.

SHAPES = {
    "Deadletter-Watched": PipelineShape(),
    "Deadletter-OrderEvents": PipelineShape(fifo=True, queues=4),
    "Deadletter-Theirs": PipelineShape(),
}


@pytest.mark.parametrize("name", SHAPES)
def test_a_deployed_pipeline_with_nothing_to_do_costs_at_most_what_is_promised(
    app: Synthesis, name: str
) -> None:
    shape = SHAPES[name]
    used = month(app[name].template, queues=shape.queues, fifo=shape.fifo)
    estimated = together(idle_month(shape))
    assert used.dollars <= MOST_DOLLARS, used.by_service
    assert used.by_service == pytest.approx(estimated.by_service)


def test_a_dlq_with_a_schedule_of_its_own_costs_its_runs(app: Synthesis) -> None:
    shape = PipelineShape(queues=6, every={"dlq": 60, "slow": 60}, webhook=True)
    used = month(app["Deadletter-Orders"].template, queues=shape.queues)
    assert used.by_service == pytest.approx(together(idle_month(shape)).by_service)


def test_aws_polls_the_queue_of_our_consumer_all_the_time() -> None:
    webhook = together(idle_month(PipelineShape(webhook=True))).dollars
    assert webhook - together(idle_month()).dollars == pytest.approx(0.26, abs=0.005)
    assert webhook <= MOST_OF_WEBHOOKS
    assert together(idle_month(PipelineShape(fifo=True, webhook=True))).dollars <= MOST_OF_WEBHOOKS


def test_kms_is_asked_only_under_a_customers_key(app: Synthesis, sandboxed: Synthesis) -> None:
    for name in ("Deadletter-Orders", "Deadletter-Shared"):
        tables = of(app[name].template, "AWS::DynamoDB::Table")
        assert not any(table["SSESpecification"]["SSEEnabled"] for table in tables)
        assert Price.KEY_REQUEST not in month(app[name].template).of
    asked = month(sandboxed["Mail-Hasty"].template).of[Price.KEY_REQUEST]
    assert asked == together(idle_month(PipelineShape(key=True))).of[Price.KEY_REQUEST]
    assert asked == 3 * 3 * MONTH / 300


def test_more_memory_a_trace_a_run_and_more_metrics_of_an_alarm_cost_more(app: Synthesis) -> None:
    template = json.loads(json.dumps(app["Deadletter-Watched"].template))
    functions = {each["FunctionName"]: each for each in of(template, "AWS::Lambda::Function")}
    functions["deadletter-watched-redrive"]["MemorySize"] = 1024
    functions["deadletter-watched-route"]["TracingConfig"]["Mode"] = "Active"
    next(of(template, "AWS::CloudWatch::Alarm"))["Metrics"] = [
        *({"MetricStat": {}}, {"MetricStat": {}}),
        {"Expression": "a + b"},
    ]
    more = Usage({Price.TRACE: MONTH / 60, Price.ALARM: 1})
    estimated = together(idle_month(PipelineShape(memory=1024))) + more
    used = month(template)
    assert used.by_service == pytest.approx(estimated.by_service)


def test_the_app_costs_its_alarms_its_key_and_its_dashboard(app: Synthesis) -> None:
    used = month(app["Deadletter-Shared"].template)
    assert used.by_service == pytest.approx(together(app_month()).by_service)


def test_a_metric_each_minute_or_a_trace_each_run_is_too_much() -> None:
    """What the limit is for: each of these was once deployed."""
    nothing_to_do = together(idle_month())
    for wasteful in (
        Usage({Price.METRIC: 1}),
        Usage({Price.TRACE: 2 * MONTH / 60}),
        Usage({Price.ALARM: 4}),
    ):
        assert (nothing_to_do + wasteful).dollars > MOST_DOLLARS


# The pages.


def test_the_pages_say_what_is_added_up() -> None:
    parts, total = idle_month(), together(idle_month()).dollars
    assert row("its automatic retry, each minute") == pytest.approx(
        parts["redrive"].dollars, abs=0.005
    )
    of_watch = parts["watch"] + parts["heartbeat metric"]
    assert row("the monitor of a pipeline") == pytest.approx(of_watch.dollars, abs=0.005)
    assert row("its nine alarms") == pytest.approx(parts["alarms"].dollars)
    assert row("a pipeline with nothing to do") == pytest.approx(total, abs=0.005)
    [webhook] = re.findall(r"webhook consumer \$([0-9.]+):", PAGE)
    with_pollers = together(idle_month(PipelineShape(webhook=True))).dollars
    assert float(webhook) == pytest.approx(with_pollers, abs=0.005)
    of_app = together(app_month(dashboard=False)).dollars
    assert row("the app") == pytest.approx(of_app)
    [said, said_of_app] = re.findall(
        r"a pipeline costs\s\[about \$([0-9.]+) a month\].*? share \$([0-9.]+)\. ", README
    )[0]
    assert float(said) == pytest.approx(total, abs=0.05)
    assert float(said_of_app) == pytest.approx(of_app)
