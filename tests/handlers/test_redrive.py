"""The function of the redriver: which run an event asks for, and what it answers."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import handlers.metrics
import handlers.redrive
from deadletter.redrive.report import Report
from deadletter.redrive.shards import DrainShard
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources

CONTEXT = SimpleNamespace(
    function_name="redrive",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:eu-west-1:111122223333:function:redrive",
    aws_request_id="id",
    get_remaining_time_in_millis=lambda: 55_000,
)


class Runs:
    """A redriver that notes what it is asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, dict[str, bool]]] = []

    def run(self, _deadline: float, **options: bool) -> Report:
        self.asked.append(("run", {name: True for name, on in options.items() if on}))
        return Report("orders", "dlq", "down", ended_well=False, trouble="denied")

    def take_part(self, _deadline: float, shard: DrainShard) -> Report:
        self.asked.append((f"shard {shard.number} of {shard.drain}", {}))
        return Report("orders", "dlq", "the source is empty", shard="2 of 4")

    def rescue(self, _deadline: float) -> Report:
        self.asked.append(("rescue", {}))
        return Report("orders", "dlq", "the source is empty")


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch) -> Runs:
    runs = Runs()
    monkeypatch.setenv("APP", "shop")
    monkeypatch.setattr(handlers.redrive, "settings", lambda: (Pipeline("orders"), Resources()))
    monkeypatch.setattr(handlers.redrive, "run_clients", lambda *_: None)
    monkeypatch.setattr(handlers.redrive, "redriver_for", lambda *_, **__: runs)
    return runs


EVENTS: list[tuple[dict[str, Any], tuple[str, dict[str, bool]]]] = [
    ({}, ("run", {})),
    ({"source": "slow"}, ("run", {})),
    ({"dry_run": True}, ("run", {"dry_run": True})),
    ({"asked": True}, ("run", {"asked": True})),
    ({"asked": "yes", "dry_run": 1}, ("run", {})),
    ({"source": "parking:default", "rescue": True}, ("rescue", {})),
    ({"source": "dlq", "drain": "run7", "shard": 2}, ("shard 2 of run7", {})),
    ({"source": "dlq", "hop": 3}, ("run", {"hop": True})),
]


@pytest.mark.parametrize(("event", "asked"), EVENTS)
def test_an_event_asks_for_one_run(
    runs: Runs, event: dict[str, Any], asked: tuple[str, dict[str, bool]]
) -> None:
    context: Any = CONTEXT
    handlers.redrive.handler(event, context)
    assert runs.asked == [asked]


@pytest.mark.parametrize("name", ["recall", "edit"])
@pytest.mark.parametrize("asked", [None, "orders", [], {}, {"run": "x"}])
def test_what_a_person_asks_for_beside_runs_starts_none(runs: Runs, name: str, asked: Any) -> None:
    """A mistyped request is refused: it is no ordinary run, and no error that rings an alarm."""
    context: Any = CONTEXT
    made: Any = SimpleNamespace(dynamodb=None, s3=None)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(handlers.redrive, "run_clients", lambda *_: made)
        answer = handlers.redrive.handler({name: asked, "source": "dlq"}, context)
    assert list(answer) == ["refused"]
    assert runs.asked == []


@pytest.mark.usefixtures("runs")
def test_a_run_that_could_not_do_its_work_answers_with_its_trouble() -> None:
    context: Any = CONTEXT
    answer = handlers.redrive.handler({}, context)
    assert (answer["ended_well"], answer["trouble"]) == (False, "denied")


def test_a_run_publishes_at_once_what_must_survive_it(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line of embedded metrics, in the middle of the run, with the metric's dimensions."""
    published: list[str] = []

    def redriver_for(*_: Any, count_metric: Any, **__: Any) -> Runs:
        count_metric("PossibleDuplicate", 3)
        published.append(capsys.readouterr().out)
        return runs

    monkeypatch.setattr(handlers.redrive, "redriver_for", redriver_for)
    monkeypatch.setattr(handlers.metrics, "settings", lambda: (Pipeline("orders"), Resources()))
    context: Any = CONTEXT
    handlers.redrive.handler({}, context)
    [line] = published
    metric = json.loads(line)
    assert metric["PossibleDuplicate"] == 3
    assert (metric["app"], metric["pipeline"]) == ("shop", "orders")


def test_a_run_publishes_the_age_of_each_letter_a_hundred_a_line(
    monkeypatch: pytest.MonkeyPatch, runs: Runs, capsys: pytest.CaptureFixture[str]
) -> None:
    ages = list(range(250))
    report = Report("orders", "dlq", "done", {"Redriven": 250}, ages=ages)
    monkeypatch.setattr(runs, "run", lambda _deadline, **_options: report)
    context: Any = CONTEXT
    handlers.redrive.handler({}, context)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines() if "_aws" in line]
    published = [line["AgeWhenReceived"] for line in lines if "AgeWhenReceived" in line]
    assert [len(values) for values in published] == [100, 100, 50]
    assert [age for values in published for age in values] == ages
    assert sum("Redriven" in line for line in lines) == 1
    assert {(line["app"], line["pipeline"]) for line in lines} == {("shop", "orders")}
