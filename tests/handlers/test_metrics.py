"""What the functions publish, as CloudWatch reads it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.aws import emf
from deadletter.contract import Metric
from handlers.metrics import count_metric_of


@pytest.fixture(autouse=True)
def _stage(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP", "shop-dev")


def published(line: str) -> tuple[dict[str, str], dict[str, Any], list[dict[str, str]]]:
    """The dimensions of one line, its values, and what is declared of them."""
    document = json.loads(line)
    [directive] = document.pop("_aws")["CloudWatchMetrics"]
    assert directive["Namespace"] == "Deadletter"
    [names] = directive["Dimensions"]
    return {name: document.pop(name) for name in names}, document, directive["Metrics"]


@pytest.mark.parametrize(
    ("metric", "unit"), [(Metric.RULE_INVALID, "Count"), (Metric.OLDEST_LETTER_AGE, "Seconds")]
)
def test_a_metric_names_its_app_its_pipeline_and_its_unit(
    capsys: pytest.CaptureFixture[str], metric: Metric, unit: str
) -> None:
    count_metric_of("orders", metric, 2)
    dimensions, values, declared = published(capsys.readouterr().out)
    assert dimensions == {"app": "shop-dev", "pipeline": "orders"}
    assert values == {metric: [2.0]}
    assert declared == [{"Name": metric, "Unit": unit}]


def test_the_consumer_library_publishes_under_the_same_dimensions() -> None:
    line = emf.line({Metric.PROCESSED: 3}, app="shop-dev", pipeline="orders", at=1.5)
    dimensions, values, declared = published(line)
    assert dimensions == {"app": "shop-dev", "pipeline": "orders"}
    assert values == {"Processed": 3}
    assert declared == [{"Name": "Processed", "Unit": "Count"}]
