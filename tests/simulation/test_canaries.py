"""Bodies, attributes and what an endpoint was called never reach a line that a function writes.

The handlers themselves, on the in-memory AWS; what they print is what CloudWatch would keep.
"""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

import handlers.redrive
import handlers.route
from deadletter.aws.wiring.judging import router_for
from deadletter.testing.fakes import MemoryDynamoDB
from tests.e2e.canaries import ALL, ATTRIBUTE, BODY, SECRET, leaks
from tests.simulation.stage import Stage
from tests.tables import LETTERS


@dataclass
class Context:
    """What Powertools and the handlers read of Lambda's context."""

    function_name: str = "deadletter-orders-redrive"
    memory_limit_in_mb: int = 128
    invoked_function_arn: str = "arn:aws:lambda:eu-west-1:111122223333:function:x"
    aws_request_id: str = "request"

    def get_remaining_time_in_millis(self) -> int:
        return 55_000


Handler = Callable[[dict[str, Any]], Any]


@pytest.fixture
def stage() -> Stage:
    return Stage()


@pytest.fixture
def log(monkeypatch: pytest.MonkeyPatch) -> io.StringIO:
    """What the redriver's logger writes, which holds on to the output of when it was made."""
    written = io.StringIO()
    monkeypatch.setattr(handlers.redrive.logger.registered_handler, "stream", written)
    return written


@pytest.fixture
def redrive(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Handler:
    """The redrive function, whose router is asked directly."""
    module = handlers.redrive
    monkeypatch.setenv("APP", "deadletter")
    monkeypatch.setattr(module, "settings", lambda: (stage.pipeline, stage.resources))
    monkeypatch.setattr(module, "run_clients", lambda *_: stage.clients)
    monkeypatch.setattr(module, "world", lambda: stage.world)
    composed = module.redriver_for

    def with_direct_router(*parts: Any, **more: Any) -> Any:
        return composed(*parts, **more, router=stage.router)

    monkeypatch.setattr(module, "redriver_for", with_direct_router)
    return lambda event: module.handler(event, Context())


@pytest.fixture
def route(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> Handler:
    module = handlers.route
    parts = (stage.pipeline, stage.resources, stage.clients, stage.world)
    monkeypatch.setattr(module, "router", lambda: router_for(*parts))
    return lambda event: module.handler(event, Context())


def plant(stage: Stage) -> None:
    """Letters that go back, are parked, wait, and can't be read, each with canaries."""
    attributes = {
        "note": {"DataType": "String", "StringValue": ATTRIBUTE},
        "secret": {"DataType": "Binary", "BinaryValue": SECRET.encode()},
        # Ours by name, and a lie.
        "Redrive": {"DataType": "String", "StringValue": json.dumps({"o": ATTRIBUTE})},
    }
    for body in (
        json.dumps({"tenantId": "good", "note": BODY}),
        json.dumps({"tenantId": "stopped", "note": BODY}),
        json.dumps({"tenantId": "slow", "note": BODY}),
        f'{{"tenantId": "{BODY}"',
        f'{{"tenantId": "a", "{BODY}": 1, "{BODY}": 2}}',
        BODY,
    ):
        stage.put(body, stage.dlq, MessageAttributes=attributes)
    stage.add_rule("stop", tenantId="stopped", action="QUARANTINE")
    stage.add_rule("slow", tenantId="slow", action="DELAYED_REDRIVE", delay_seconds=3600)


def written(dynamodb: MemoryDynamoDB) -> list[tuple[str, str]]:
    """The rows that we wrote, without the letters in the waiting room themselves."""
    return [
        (
            "row",
            json.dumps({key: item for key, item in row.items() if key != "message"}, default=str),
        )
        for row in dynamodb.items(LETTERS)
    ]


def test_a_run_writes_no_word_of_its_letters(
    stage: Stage, redrive: Handler, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(stage)
    report = redrive({"source": "dlq"})
    decided = {decision.partition(":")[0] for decision in report["decisions"]}
    assert decided == {"REDRIVE", "PARK", "HOLD"}
    assert "run ended" in log.getvalue()
    metrics = capsys.readouterr().out
    assert "MessageMovedToParkingLot" in metrics
    texts = [("log", log.getvalue()), ("metrics", metrics), ("answer", json.dumps(report))]
    assert leaks([*texts, *written(stage.dynamodb)]) == []


def test_a_rescue_writes_no_word_of_its_letters(
    stage: Stage, redrive: Handler, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    plant(stage)
    redrive({"source": "dlq"})
    plant(stage)
    reports = [redrive({"source": name, "rescue": True}) for name in ("dlq", "parking:default")]
    assert [report["decisions"] for report in reports] == [{"HOLD": 6}, {"HOLD": 4}]
    metrics = capsys.readouterr().out
    texts = [("log", log.getvalue()), ("metrics", metrics), ("answer", json.dumps(reports))]
    assert leaks([*texts, *written(stage.dynamodb)]) == []


def test_what_we_write_onto_a_letter_is_no_word_of_it(stage: Stage, redrive: Handler) -> None:
    plant(stage)
    redrive({"source": "dlq"})
    marks = [
        ("stamp", message.attributes["Redrive"]["StringValue"])
        for message in stage.sqs.snapshot()
        # No other actor has sent anything to these.
        if message.queue in (stage.main.rpartition("/")[2], stage.parking.rpartition("/")[2])
    ]
    assert len(marks) == 5
    assert leaks(marks) == []


def test_the_router_answers_with_decisions_and_no_word_of_the_letters(
    route: Handler, log: io.StringIO, capsys: pytest.CaptureFixture[str]
) -> None:
    letters = [
        {
            "id": f"m{number}",
            "body": body,
            "attributes": {"note": {"type": "String", "text": ATTRIBUTE}},
            "system": {"SentTimestamp": "1789999000000"},
        }
        for number, body in enumerate([BODY, json.dumps({"tenantId": BODY}), f'["{BODY}'])
    ]
    answer = route({"letters": letters})
    assert len(answer["verdicts"]) == len(letters)
    output = log.getvalue() + capsys.readouterr().out
    assert leaks([("log", output), ("answer", json.dumps(answer))]) == []


@pytest.mark.parametrize("canary", ALL, ids=lambda canary: canary.rpartition("-")[0])
@pytest.mark.parametrize("before", ["", "x", "xx", "xyz"])
def test_a_leak_is_seen_in_plain_and_in_base64(canary: str, before: str) -> None:
    for text in (
        f"{before}{canary}!",
        base64.b64encode(f"{before}{canary}!".encode()).decode(),
        json.dumps({before: [canary]}),
    ):
        assert leaks([("log", f"failed: {text}")]) == [f"{canary.rpartition('-')[0]} in log"]
    assert leaks([("log", canary[:-1])]) == []
