"""`dlq cost`: the estimate for what is deployed."""

from __future__ import annotations

import json
from typing import Any

import pytest

from console.cli.exit import Exit
from deadletter.costs.estimates import PipelineShape, app_month, idle_month, together


@pytest.fixture
def app(cloud: Any) -> Any:
    cloud.deploy("orders")
    cloud.deploy("events", dedicated=["slow"])
    return cloud


def describe(app: Any, pipeline: str, **more: Any) -> None:
    """Add to what the stack says of a pipeline."""
    name = f"/{app.app}/pipelines/{pipeline}"
    known = json.loads(app.ssm.get_parameter(Name=name)["Parameter"]["Value"])
    app.ssm.put_parameter(Name=name, Value=json.dumps({**known, **more}), Overwrite=True)


def month(shape: PipelineShape) -> float:
    return together(idle_month(shape)).dollars


def test_each_pipeline_is_estimated_by_its_queues_and_schedules(app: Any, dlq: Any) -> None:
    describe(app, "events", every={"dlq": 300, "slow": 600}, memory=1024, fifo=True)
    answer = json.loads(dlq("cost", "--json").stdout)
    events, orders = answer["pipelines"]
    assert (events["name"], orders["name"]) == ("events", "orders")
    assert orders["month"] == pytest.approx(month(PipelineShape(queues=3)), abs=0.001)
    slow = PipelineShape(fifo=True, queues=4, every={"dlq": 300, "slow": 600}, memory=1024)
    assert events["month"] == pytest.approx(month(slow), abs=0.001)
    assert sum(orders["services"].values()) == pytest.approx(orders["month"], abs=0.001)
    shared = together(app_month()).dollars
    whole = orders["month"] + events["month"] + shared
    assert answer["month"] == pytest.approx(whole, abs=0.001)


def test_named_pipelines_are_estimated_without_the_app(app: Any, dlq: Any) -> None:
    for words in (("orders",), ("--pipeline", "orders")):
        answer = json.loads(dlq("cost", *words, "--json").stdout)
        assert [each["name"] for each in answer["pipelines"]] == ["orders"]
        assert answer["shared"] == {}
        assert answer["month"] == answer["pipelines"][0]["month"]


def test_a_person_reads_the_month_first(app: Any, dlq: Any) -> None:
    first, second, *rest = dlq("cost").stdout.splitlines()
    assert "about $7.78 a month for 2 pipelines with nothing to do" in first
    assert second.startswith("List prices of us-east-1, ")
    page = "\n".join(rest)
    assert "KMS key 1.00" in page
    assert "brought back, consumer with the library" in page
    assert "An hour of an outage: 0.0" in page


@pytest.mark.parametrize("every", [{"dlq": 0}, {"dlq": "60"}, {"dlq": True}, 60])
def test_a_malformed_schedule_is_named(app: Any, dlq: Any, every: Any) -> None:
    describe(app, "orders", every=every)
    done = dlq("cost", "orders")
    assert done.exit_code == Exit.ABSENT
    assert "every should be Mapping[str, int]" in done.stderr


def test_an_unknown_pipeline_is_refused(app: Any, dlq: Any) -> None:
    done = dlq("cost", "nope")
    assert done.exit_code == Exit.ABSENT
    assert "it has events, orders" in done.stderr
