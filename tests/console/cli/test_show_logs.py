"""`dlq show --logs`: what the consumer logged at each receive of one message."""

from __future__ import annotations

import json
import time
from typing import Any
from unittest.mock import Mock

import pytest

from console.cli import output
from console.cli.exit import Exit
from console.operations import life_logs
from deadletter.testing.fakes import client_error
from tests.console.conftest import Cloud, Dlq, FakeLambda, connecting

ORIGIN = "8f14e45f-ceea-467f-9575-2a8c1d6e2b11"


class FakeLogs:
    """Logs Insights: each query is running once, and then has the lines of its request."""

    def __init__(self) -> None:
        self.lines: dict[str, list[str]] = {}
        self.queries: dict[str, dict[str, Any]] = {}
        self.stopped: list[str] = []
        self.looked: dict[str, int] = {}
        self.never_ends = False
        self.group = "/aws/lambda/orders-consumer"

    def start_query(self, **request: Any) -> dict[str, str]:
        if request["logGroupName"] != self.group:
            raise client_error("StartQuery", "ResourceNotFoundException", "no")
        id_ = f"q{len(self.queries)}"
        self.queries[id_] = request
        return {"queryId": id_}

    def get_query_results(self, **request: str) -> dict[str, Any]:
        id_ = request["queryId"]
        self.looked[id_] = self.looked.get(id_, 0) + 1
        if self.never_ends or self.looked[id_] < 2:
            return {"status": "Running", "results": []}
        asked = self.queries[id_]["queryString"]
        lines = [text for of, texts in self.lines.items() if f'"{of}"' in asked for text in texts]
        rows = [
            [{"field": "@timestamp", "value": f"2026-11-22 20:11:4{number}.120"},
             {"field": "@message", "value": f"{text}\n"}, {"field": "@ptr", "value": "x"}]
            for number, text in enumerate(lines)
        ]  # fmt: skip
        return {"status": "Complete", "results": rows}

    def stop_query(self, **request: str) -> dict[str, bool]:
        self.stopped.append(request["queryId"])
        return {"success": True}


@pytest.fixture
def insights(cloud: Cloud, functions: FakeLambda, monkeypatch: pytest.MonkeyPatch) -> FakeLogs:
    """Stands in for CloudWatch Logs of pipeline orders; no time passes between two looks."""
    cloud.deploy("orders")
    fake = FakeLogs()
    connecting(monkeypatch, logs=lambda _: fake)
    monkeypatch.setattr(output, "pause", lambda _: None)
    return fake


def read(dlq: Dlq, status: int = 0) -> dict[str, Any]:
    result = dlq(f"show {ORIGIN} --logs --json", ends=status)
    answer: dict[str, Any] = json.loads(result.stdout)["message"]
    return answer


def test_each_receive_has_the_lines_of_its_invocation(
    cloud: Cloud, dlq: Dlq, insights: FakeLogs
) -> None:
    now = time.time()
    cloud.failed("orders", ORIGIN, at=now - 900, request_id="req-1")
    cloud.failed("orders", ORIGIN, at=now - 300, attempt=1, request_id="req-2")
    insights.lines = {"req-1": ["START", "boom"], "req-2": ["again"], "req-3": ["another's"]}

    answer = read(dlq)

    assert answer["log_group"] == "/aws/lambda/orders-consumer"
    assert [
        (receive["attempt"], receive["state"], [line["message"] for line in receive["lines"]])
        for receive in answer["logs"]
    ] == [(0, "FOUND", ["START", "boom"]), (1, "FOUND", ["again"])]
    assert answer["logs"][0]["lines"][0]["at"] == "2026-11-22T20:11:40Z"
    window = insights.queries["q0"]
    assert window["startTime"] < now - 900 - 899
    assert now - 900 < window["endTime"] < now - 700


def test_at_most_four_queries_run_at_the_same_time(
    cloud: Cloud, dlq: Dlq, insights: FakeLogs
) -> None:
    for life in range(7):
        cloud.failed("orders", ORIGIN, attempt=life, request_id=f"req-{life}")
    running: list[int] = []
    ask = insights.get_query_results

    def counted(**request: str) -> dict[str, Any]:
        ended = sum(looks > 1 for looks in insights.looked.values())
        running.append(len(insights.queries) - ended)
        return ask(**request)

    insights.get_query_results = counted  # type: ignore[method-assign]  # counts, then asks

    assert len(read(dlq)["logs"]) == 7
    assert max(running) == 4


def test_a_receive_without_lines_says_why_there_may_be_none(
    cloud: Cloud, dlq: Dlq, insights: FakeLogs
) -> None:
    cloud.failed("orders", ORIGIN, at=time.time() - 60, request_id="req-1")
    cloud.failed("orders", ORIGIN, attempt=1)

    unknown, known = read(dlq)["logs"]

    assert known["state"] == unknown["state"] == "NOTHING"
    assert "may not keep lines for so long" in known["note"]
    assert "no request id is on record" in unknown["note"]
    assert f'@message like "{ORIGIN}"' in insights.queries["q0"]["queryString"]


def test_queries_that_do_not_end_in_time_or_are_interrupted_are_stopped(
    cloud: Cloud, dlq: Dlq, insights: FakeLogs, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.failed("orders", ORIGIN, request_id="req-1")
    insights.never_ends = True
    monkeypatch.setattr(output, "pause", Mock(side_effect=KeyboardInterrupt))
    dlq(f"show {ORIGIN} --logs", ends=Exit.STOPPED)
    assert insights.stopped == ["q0"]
    monkeypatch.setattr(life_logs, "SECONDS", 0)
    [receive] = read(dlq, status=1)["logs"]
    assert (receive["state"], insights.stopped) == ("UNFINISHED", ["q0", "q1"])


@pytest.mark.parametrize(
    ("facts", "says"),
    [(None, "there is no receive to look for"), ({"request_id": 'x" or 1'}, "is no id that can")],
)
def test_what_cannot_be_searched_for_is_a_note(
    cloud: Cloud, dlq: Dlq, insights: FakeLogs, facts: dict[str, Any] | None, says: str
) -> None:
    cloud.recovered("orders", ORIGIN)
    if facts is not None:
        cloud.failed("orders", ORIGIN, **facts)

    assert any(says in note for note in read(dlq)["notes"])
    assert insights.queries == {}


def test_a_consumer_of_ours_logs_under_the_name_of_its_pipeline_and_another_group_is_named(
    cloud: Cloud, dlq: Dlq, insights: FakeLogs
) -> None:
    cloud.failed("orders", ORIGIN, request_id="req-1")
    insights.group = "/ecs/orders"
    assert any("there is no log group /aws" in note for note in read(dlq)["notes"])
    cloud.redeploy(consumer_function="")
    insights.group = "/aws/lambda/deadletter-orders-consumer"
    assert read(dlq)["log_group"] == insights.group
