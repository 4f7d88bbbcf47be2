"""What the functions publish, as CloudWatch reads it."""

from __future__ import annotations

import json

import pytest

from deadletter.signals.figures import Count, Figure
from handlers.metrics import count_metric_of


@pytest.mark.parametrize(
    ("figure", "unit"), [(Figure.CIRCUIT_OPENED, "Count"), (Figure.OLDEST_MESSAGE_AGE, "Seconds")]
)
def test_a_figure_names_its_app_its_pipeline_and_its_unit(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], figure: Figure, unit: str
) -> None:
    monkeypatch.setenv("APP", "shop-dev")
    count_metric_of("orders", figure, 2)
    document = json.loads(capsys.readouterr().out)
    [directive] = document["_aws"]["CloudWatchMetrics"]
    assert directive == {
        "Namespace": "Deadletter",
        "Dimensions": [["app", "pipeline"]],
        "Metrics": [{"Name": figure, "Unit": unit}],
    }
    assert (document["app"], document["pipeline"], document[figure]) == ("shop-dev", "orders", 2)


def test_a_count_is_a_line_of_the_log_and_no_metric(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("APP", "shop-dev")
    count_metric_of("orders", Count.RULE_INVALID, 2)
    document = json.loads(capsys.readouterr().out)
    assert document == {"app": "shop-dev", "pipeline": "orders", "RuleInvalid": 2}
