"""The dispatcher's Lambda handler: the consumer library around Dispatcher.deliver."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Letterbox
from deadletter.testing.letterbox import VISIBILITY
from handlers import dispatch
from tests.webhook import dispatcher_at_work
from tests.webhook.dispatcher_at_work import PIPELINE


@pytest.fixture
def letterbox_settings() -> Pipeline:
    return PIPELINE


@pytest.fixture
def deployed(letterbox: Letterbox, monkeypatch: pytest.MonkeyPatch) -> Iterator[Letterbox]:
    with dispatcher_at_work.deployed(letterbox, monkeypatch) as box:
        yield box


def test_a_message_without_a_tenant_is_parked_and_one_without_an_endpoint_comes_back(
    deployed: Letterbox,
    capsys: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    nobodys = deployed.send({"secret": "Rumpelstiltskin"})
    unknown = deployed.send({"tenantId": "a"})
    ran = deployed.run(dispatch.handler)
    # The error of the one without a tenant is new: it parks no first receive.
    assert set(ran.returned) == {nobodys, unknown}
    deployed.clock.advance(VISIBILITY)
    capsys.readouterr()
    caplog.clear()
    ran = deployed.run(dispatch.handler)
    assert ran.response == {"batchItemFailures": [{"itemIdentifier": unknown}]}
    [parked] = deployed.parked
    assert parked.stamp.origin == nobodys
    assert deployed.ledger(unknown).failures[0].category == "integration"
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    counted = {name: line[name] for line in lines if "_aws" in line for name in line}
    assert {"MessageMovedToParkingLot", "ProcessingFailure"} <= counted.keys()
    written = [line for line in lines if "_aws" in line]
    assert {(line["app"], line["pipeline"]) for line in written} == {("shop", "test")}
    named = [line["_aws"]["CloudWatchMetrics"][0]["Dimensions"] for line in written]
    assert {tuple(names) for [names] in named} == {
        ("app", "pipeline"),
        ("app", "pipeline", "category"),
    }
    by_category = {
        line["category"]: line["FailuresByCategory"] for line in written if "category" in line
    }
    assert by_category == {"schema": 1, "integration": 1}
    logged = {vars(entry)["message_id"]: entry.getMessage() for entry in caplog.records}
    assert logged == {nobodys: "parked", unknown: "not processed"}
    assert "Rumpelstiltskin" not in str([vars(entry) for entry in caplog.records])


def test_a_canary_gets_a_word_on_each_circuit(deployed: Letterbox) -> None:
    deployed.send({"tenantId": "a"})
    ran = deployed.run(dispatch.handler, permit="owner")
    # The message named no tenant, so no endpoint was called.
    assert ran.response["deadletter"] == {"circuits": {}}
    assert len(ran.returned) == 1
