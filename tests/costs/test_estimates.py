"""The estimates are made of what was counted: each count is counted here again."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from deadletter.circuit.state import CircuitPolicy
from deadletter.consumer import consumer, runtime
from deadletter.settings.pipeline import Pipeline
from deadletter.signals.figures import Count, Figure
from deadletter.testing.fakes import MemoryDynamoDB
from deadletter.testing.letterbox import Letterbox
from handlers.metrics import report_lines
from infra.prices import NOTHING, Price, Usage
from tests.aws.test_watch import NoOutages
from tests.aws.test_watch import Stage as WatchedStage
from tests.costs import estimates, page
from tests.costs.estimates import idle_month, million_letters, outage, together
from tests.redrive.test_waits_in_place import spent
from tests.simulation.stage import Stage
from tests.simulation.test_probe import ProbedFunction, refused, stage_for
from tests.tables import CIRCUITS, create_tables

ROOT = Path(__file__).parents[2]

LETTERS = 10


def test_a_usage_adds_up_and_costs_what_its_parts_cost() -> None:
    used = Usage({Price.METRIC: 2, Price.KEY: 1}) + Usage({Price.METRIC: 1}) * 2
    assert used.of == {Price.METRIC: 4, Price.KEY: 1}
    assert used.dollars == pytest.approx(4 * 0.30 + 1.00)
    assert used.by_service == pytest.approx({"metrics": 1.20, "KMS keys": 1.00})
    assert NOTHING.dollars == 0
    assert Price.READ_UNIT.dollars == 0.125e-6


def test_the_page_has_these_tables() -> None:
    text = page.PAGE.read_text()
    assert page.written(text) == text, "python -m tests.costs.page"


def test_a_page_that_lacks_a_table_is_refused() -> None:
    text = page.PAGE.read_text().replace("<!-- cost: outage -->", "")
    with pytest.raises(SystemExit, match="0 places for the table outage"):
        page.written(text)


def test_a_run_less_often_costs_less_and_a_fifo_queue_more() -> None:
    plain = together(idle_month()).dollars
    slow = together(idle_month(estimates.PipelineShape(every={"dlq": 300}))).dollars
    fifo = together(idle_month(estimates.PipelineShape(fifo=True))).dollars
    assert slow < plain < fifo


def test_a_probe_takes_the_transitions_of_its_round() -> None:
    states = json.loads((ROOT / "statemachines" / "circuit_breaker.asl.json").read_text())["States"]
    [again] = [
        choice["Next"] for choice in states["Judge"]["Choices"] if choice["StringEquals"] == "probe"
    ]
    round_ = [again]
    while (following := states[round_[-1]].get("Next")) is not None:
        round_.append(following)
    assert (round_[0], round_[-1]) == ("Cooldown", "Judge")
    assert len(round_) == estimates.PROBE_TRANSITIONS
    hour = outage(1)["state transitions"].of[Price.TRANSITION]
    assert hour == 18 + 3 * 3600 / CircuitPolicy().cooldown_cap


def test_a_probe_that_fails_uses_what_is_said() -> None:
    probe = ProbedFunction(stage_for(), answer=refused)
    for number in range(5):
        probe.stage.put(str(number), url=probe.stage.dlq)
    probe.trip()
    for _ in range(5):
        before = probe.stage.dynamodb.consumed
        assert probe().state == "OPEN"
        cost = probe.stage.dynamodb.consumed - before
        assert (cost.read_units, cost.write_units) == (
            estimates.PROBE_READS,
            estimates.PROBE_WRITES,
        )


def test_a_watch_in_an_outage_publishes_so_many_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(NoOutages, "start", lambda *_: None)
    stage = WatchedStage()
    stage.sqs.send_message(QueueUrl=stage.resources.dlq_url, MessageBody="{}")
    stage.dynamodb.put_item(
        TableName=CIRCUITS,
        Item={
            "pipeline": {"S": "orders"},
            "circuit_key": {"S": "orders"},
            "state": {"S": "OPEN"},
            "troubled": {"S": "orders"},
            "generation": {"N": "3"},
            "opened_at": {"N": str(stage.clock())},
            "until": {"N": str(stage.clock() + 60)},
        },
    )
    published = {key for _ in range(60) for key in stage.minute()}
    # The execution is there in an outage: only this test has none.
    beside = published - {(Figure.REDRIVE_STALLED, None), (Count.OUTAGE_RESTARTED, None)}
    assert len(beside) == estimates.WATCH_METRICS


def test_runs_that_move_letters_publish_so_many_metrics() -> None:
    stage, published = Stage(), set[str]()
    for _ in range(20):
        stage.put()
        stage.fail()
        for line in map(json.loads, report_lines(stage.run(), "app", stage.clock())):
            [directive] = line["_aws"]["CloudWatchMetrics"]
            published |= {metric["Name"] for metric in directive["Metrics"]}
        stage.clock.advance(100)
    assert {"Received", "Redriven"} < published
    assert len(published) <= estimates.RUN_METRICS


# What the consumer library writes.


class Costs:
    """Messages of a pipeline with a ledger and its indexes, and the write units that they take."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.box = Letterbox(
            Pipeline("orders", context={"tenantId": "body.tenantId"}, idempotency_key="body.order")
        )
        self.dynamodb = MemoryDynamoDB(self.box.clock)
        create_tables(self.dynamodb)
        self.box.dynamodb = self.dynamodb
        monkeypatch.setattr(runtime, "current_runtime", lambda: self.box.runtime)
        self.fails = False
        self.fail_once = set[int]()
        self.handler = consumer(self._handle)

    def _handle(self, record: Any) -> None:
        order = json.loads(record["body"])["order"]
        if self.fails or order in self.fail_once:
            self.fail_once.discard(order)
            raise LookupError("the order has no account at the bank yet: it may come later")

    def units(self, act: Callable[[], object]) -> float:
        """The write units of each letter while `act` happens."""
        before = self.dynamodb.consumed.write_units
        act()
        return (self.dynamodb.consumed.write_units - before) / LETTERS

    def work(self) -> None:
        """Consume until nothing comes back any more."""
        quiet = 0
        while quiet < 60:
            quiet = 0 if self.box.run(self.handler).received else quiet + 1
            self.box.clock.advance(10 if quiet else 0)


BODY = {"tenantId": "t1", "order": 12_345, "lines": ["x" * 40] * 8}


@pytest.fixture
def costs(monkeypatch: pytest.MonkeyPatch) -> Costs:
    return Costs(monkeypatch)


@pytest.mark.parametrize(
    ("how", "together", "seconds"),
    [
        ("in batches of ten", 10, 0.1),
        pytest.param("in batches of ten, in order", 10, 0.1, marks=pytest.mark.nightly),
        pytest.param("one a second", 1, 1, marks=pytest.mark.nightly),
        ("one in ten seconds", 1, 10),
    ],
)
def test_messages_that_succeed_take_what_is_said(
    costs: Costs, how: str, together: int, seconds: float
) -> None:
    if how.endswith("in order"):
        # Each key has ten messages, one of a batch.
        ordering = {"ordering_key": "body.account", "sequence": "body.order"}
        costs.box.settings = replace(costs.box.settings, **ordering)
    costs.fail_once.update(range(50, 2_000, 100))
    before = costs.dynamodb.consumed
    for batch in range(2_000 // together):
        for number in range(together):
            order = batch * together + number
            costs.box.send({**BODY, "order": order, "account": f"{batch // 10}.{number}"})
        costs.box.run(costs.handler, batch_size=together)
        costs.box.clock.advance(seconds)
    used = costs.dynamodb.consumed - before
    units = (used.write_units / 2_000, used.read_units / 2_000)
    assert units == pytest.approx(estimates.LIBRARY[how], abs=0.02)


def test_a_message_that_dies_and_comes_back_takes_what_is_said(costs: Costs) -> None:
    costs.fails = True
    bodies = [{**BODY, "order": number} for number in range(LETTERS)]
    ids = [costs.box.send(body) for body in bodies]
    died = costs.units(costs.work)
    assert len(costs.box.dead) == LETTERS
    life = estimates.LIFE_WRITES + estimates.RECEIVES * estimates.CLAIM_WRITES
    assert died == pytest.approx(life, abs=0.4)
    costs.fails = False
    for body, origin in zip(bodies, ids, strict=True):
        costs.box.redrive(body, origin=origin)
    back = estimates.RECOVERY_WRITES + estimates.CLAIMED_WRITES
    assert costs.units(costs.work) == pytest.approx(back, abs=0.3)


def test_a_letter_of_a_fifo_queue_takes_what_is_said() -> None:
    assert spent() == pytest.approx(estimates.FIFO, abs=0.02)


def test_a_million_letters_cost_more_with_the_library_and_most_in_a_replay() -> None:
    dollars = {what: usage.dollars for what, usage in million_letters().items()}
    without, with_, *_, replayed, kept = dollars.values()
    assert without < with_ < 0.4 < replayed < 5
    assert kept < 0.10
