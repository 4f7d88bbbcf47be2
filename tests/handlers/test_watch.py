"""The function of the watch: what it prints, and what it says."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

import pytest

import handlers.watch
from deadletter.settings.pipeline import Pipeline
from deadletter.settings.resources import Resources
from deadletter.signals.figures import Figure
from deadletter.signals.troubles import Seen, TroubleKind
from deadletter.watch.observation import MetricPoint
from deadletter.watch.row import Failing, WatchRow
from deadletter.watch.watch import Minute

QUIET = WatchRow(first_at=1.0, ran_at=60.0)
CONTEXT = SimpleNamespace(
    function_name="watch",
    memory_limit_in_mb=256,
    invoked_function_arn="arn:aws:lambda:eu-west-1:111122223333:function:watch",
    aws_request_id="id",
)


class OneMinute:
    """A watch that has looked already."""

    def __init__(self, minute: Minute) -> None:
        self._minute = minute

    def run(self) -> Minute:
        return self._minute


@pytest.fixture(autouse=True)
def _told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP", "shop")
    monkeypatch.setattr(handlers.watch, "settings", lambda: (Pipeline("orders"), Resources()))


def run(minute: Minute, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    monkeypatch.setattr(handlers.watch, "watch", lambda: OneMinute(minute))
    context: Any = CONTEXT
    answer: dict[str, Any] = handlers.watch.handler({}, context)
    return answer


def test_each_figure_is_printed_with_its_own_time(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    points = (
        MetricPoint(Figure.REDRIVE_STALLED, 0, 60.0),
        MetricPoint(Figure.REDRIVE_STALLED, 1, 360.0),
    )
    assert run(Minute(row=QUIET, points=points), monkeypatch) == {}
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    published = [(line["_aws"]["Timestamp"], line["RedriveStalled"]) for line in lines]
    assert published == [(60_000, 0), (360_000, 1)]
    assert {(line["app"], line["pipeline"]) for line in lines} == {("shop", "orders")}


def test_trouble_is_logged_and_answered_with_its_reasons(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    logged: list[tuple[str, Any]] = []
    monkeypatch.setattr(
        handlers.watch.logger, "warning", lambda message, extra: logged.append((message, extra))
    )
    why = "AccessDeniedException for dynamodb:Query on deadletter-messages"
    row = WatchRow(
        first_at=1.0,
        ran_at=60.0,
        failing={"lease": Failing(60.0, 1, why)},
        seen=(Seen(TroubleKind.LEASE_UNREAD, {"step": "lease", "why": why}, 60.0),),
    )
    answer = run(Minute(row=row, points=(), rescues=("dlq",)), monkeypatch)
    assert answer == {
        "seen": [{"kind": "lease-unread", "facts": {"step": "lease", "why": why}, "since": 60.0}],
        "rescues": ["dlq"],
        "failing": {"lease": {"since": 60.0, "times": 1, "why": why}},
    }
    assert logged == [("trouble", answer)]
