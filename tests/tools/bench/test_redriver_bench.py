"""The benchmark of the redriver counts what the production code does, and audits it."""

from __future__ import annotations

import json

import pytest

from deadletter.contract import Metric
from tools.bench import redriver
from tools.bench.sqs_stub import Audit, Behaviour


def test_every_letter_of_a_small_run_is_counted_and_audited() -> None:
    figures = redriver.measure("small", 30, behaviour=Behaviour(latency=0.0))
    assert figures.audit == Audit(arrived=30, unfinished=0, lost=0, duplicated=0, changed=0)
    assert figures.counts[Metric.REDRIVEN] == 30
    assert figures.sqs["SendMessageBatch"] >= 3
    assert figures.sqs_calls == sum(figures.sqs.values()) / 30
    assert figures.invocations >= 1
    assert figures.writes > 0


def test_a_figure_over_its_limit_fails_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(redriver, "LETTERS", 1)
    assert redriver.main(["full", "--json"]) == 1
    output = capsys.readouterr()
    assert "SQS calls a letter, at most 0.32" in output.err
    assert json.loads(output.out)["figures"][0]["letters"] == 1


def test_the_table_has_a_row_for_each_measurement_and_the_comparison(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    costs = redriver.measure("small", 1, behaviour=Behaviour(latency=0.0))
    case = redriver.CaseResult([costs, costs], comparison="twice the same")
    monkeypatch.setattr(redriver, "CASES", {"fake": lambda: case})
    assert redriver.main([]) == 0
    header, *rows, comparison = capsys.readouterr().out.splitlines()
    assert len(header.split("  ")) > 1
    assert [row.split()[0] for row in rows] == ["small", "small"]
    assert comparison == "twice the same"


def test_an_unknown_case_is_refused_with_the_known_ones(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with pytest.raises(SystemExit):
        redriver.main(["speed"])
    assert "pace, full, uneven, intents, failing, memory" in capsys.readouterr().err
