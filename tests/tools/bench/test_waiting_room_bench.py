"""The benchmark of the waiting room counts what the production code does, and audits it."""

from __future__ import annotations

import pytest

from tools.bench import waiting_room
from tools.bench.sqs_stub import Audit, Behaviour


@pytest.mark.nightly
def test_full_chunks_come_out_of_the_room_at_few_calls_a_letter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The calls that a run has at all cost more, the fewer letters there are."""
    monkeypatch.setattr(waiting_room, "LATENCY", 0.0)
    costs = waiting_room.measure(800, Behaviour(latency=0.0))
    assert costs.audit == Audit(arrived=800, unfinished=0, lost=0, duplicated=0, changed=0)
    assert costs.runs == 1
    assert costs.calls <= 0.5
    assert costs.dynamodb["batch_get_item"] <= 25
    assert not costs.s3


def test_a_figure_over_its_limit_fails_the_bench(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(waiting_room, "LATENCY", 0.0)
    assert waiting_room.main(["3"]) == 1
    assert "calls a letter, at most 0.4" in capsys.readouterr().out
