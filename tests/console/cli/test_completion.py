"""What the shell completes: names of pipelines, rules and replay runs."""

from __future__ import annotations

from typing import Any

import pytest
from typer.testing import CliRunner

from console.cli import completion
from console.cli.main import app
from deadletter.replay.run import ReplayRun


@pytest.fixture(autouse=True)
def _a_slow_machine_may_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(completion, "_PATIENCE", 60.0)


def completed(words: str) -> list[str]:
    """What bash offers for the last word of a command line."""
    environment = {
        "_DLQ_COMPLETE": "complete_bash",
        "COMP_WORDS": words,
        "COMP_CWORD": str(words.count(" ")),
    }
    return CliRunner().invoke(app, [], env=environment, prog_name="dlq").stdout.split()


@pytest.mark.parametrize(
    ("words", "names"),
    [
        ("dlq status or", ["orders", "orders-eu"]),
        ("dlq circuit list --pipeline inv", ["invoices"]),
        ("dlq status orders inv", ["invoices"]),
        ("dlq rules disable st", ["stop-acme"]),
    ],
)
def test_names_are_completed(cloud: Any, words: str, names: list[str]) -> None:
    cloud.deploy("orders", "orders-eu", "invoices")
    cloud.rule("stop-acme", action="HOLD", tenantId="acme")
    assert completed(words) == names


def test_runs_are_completed(cloud: Any) -> None:
    cloud.deploy("orders")
    run = cloud.replay(ReplayRun(id="r1b2c3", pipeline="orders"))
    assert completed("dlq show r1") == [run.id]


def test_options_before_the_command_count(cloud: Any) -> None:
    cloud.app = "billing"
    cloud.deploy("orders")
    assert completed("dlq --app billing status o") == ["orders"]
    assert completed("dlq status o") == []


def test_without_an_answer_nothing_is_completed() -> None:
    assert completed("dlq --region nowhere --profile nope status o") == []
