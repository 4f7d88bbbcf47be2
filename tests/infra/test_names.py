"""Names are stable, fit where they are used, and never meet."""

from __future__ import annotations

from typing import Any

import pytest

from deadletter.signals.pages import APP_PAGES, PIPELINE_PAGES
from infra.alarms import of_pipeline
from infra.context import read
from infra.kinds import APP_LENGTH, ID_LENGTH, PIPELINE_LENGTH
from infra.names import Names
from infra.queues import Addresses
from infra.refusal import Refused
from infra.settings import AppDeployment
from tests.infra.conftest import Synthesize, typed
from tests.infra.templates import filled

APP, PIPELINE, ID = "a" * APP_LENGTH, "p" * PIPELINE_LENGTH, "i" * ID_LENGTH

# Service -> the most characters of a name that it allows.
MOST = {
    "AWS::Lambda::Function": ("FunctionName", 64),
    "AWS::Scheduler::Schedule": ("Name", 64),
    "AWS::SQS::Queue": ("QueueName", 80),
    "AWS::StepFunctions::StateMachine": ("StateMachineName", 80),
    "AWS::S3::Bucket": ("BucketName", 63),
    "AWS::SNS::Topic": ("TopicName", 256),
    "AWS::CloudWatch::Alarm": ("AlarmName", 255),
    "AWS::Logs::LogGroup": ("LogGroupName", 512),
}


def test_an_app_and_pipelines_with_the_longest_names_are_deployable(synthesize: Synthesize) -> None:
    pipelines = [
        {"name": PIPELINE, "fifo": True, "parking": {"POISON": ID[:13]}},
        # With an id of its own, a DLQ has a schedule: 64 characters for all three.
        {"name": PIPELINE[:19], "dedicated": {ID[:15]: False}, "parking": {"POISON": ID}},
    ]
    assert len(APP) == 24
    app = synthesize({"app": APP, "pipelines": pipelines})
    for kind, (key, most) in MOST.items():
        names = [
            # The longest account and region there are.
            filled(resource["Properties"][key]).replace("eu-west-1", "ap-northeast-1")
            for _, resource in app.of(kind)
            if key in resource["Properties"]
        ]
        assert names, kind
        assert max(map(len, names)) <= most, kind
    assert len(Names(APP, PIPELINE[:19]).schedule(ID[:15])) == 64
    assert len(Names(APP, PIPELINE, fifo=True).parking(ID[:13])) == 80


def test_the_longest_description_fits_into_an_alarm() -> None:
    app = AppDeployment(app=APP, runbook="r" * 500, owner="o" * 80)
    # A duration that is no whole day is written in seconds.
    odd = 6 * 86400 + 1
    tuning = {"alarms.letter_expiry": odd, "alarms.circuit_open_after": 86340}
    settings = typed(
        PIPELINE,
        circuit_key="body.x",
        alarms={"age": odd, "depth": 10**12},
        tuning={**tuning, "alarms.parked_after": odd},
    )
    subject = of_pipeline(app, settings, Addresses.of(app, settings))
    for page in (*PIPELINE_PAGES, *APP_PAGES):
        text = subject.description(page)
        assert len(text) <= 1024, page.alarm
        # Plain: no character of it may be taken for another one.
        assert text.isascii(), page.alarm


@pytest.mark.parametrize(
    ("pipeline", "sentence"),
    [
        (
            {"name": PIPELINE, "dedicated": {ID: False}},
            f"the name of schedule {APP}-{PIPELINE}-dlq_{ID} has 74 characters; allowed: 64",
        ),
        (
            {"name": PIPELINE, "fifo": True, "parking": {"POISON": ID}},
            f"the name of queue {APP}-{PIPELINE}-parking_{ID}.fifo has 83 characters; allowed: 80",
        ),
    ],
)
def test_names_that_are_too_long_together_are_refused(
    pipeline: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(Refused) as refused:
        read({"app": APP, "pipelines": [pipeline]})
    ending = "so shorten the app's name, the pipeline's name or the id."
    assert str(refused.value) == f"Pipeline {PIPELINE}: {sentence}, {ending}"


def test_the_name_of_an_app_has_at_most_24_characters() -> None:
    with pytest.raises(Refused, match=r"app is \"a+\"; allowed: .*, at most 24 characters"):
        read({"app": APP + "a", "pipelines": [{"name": "orders"}]})


def test_an_id_can_not_be_mistaken_for_a_part_of_a_pipelines_name() -> None:
    assert Names("app", "orders").parking("main") != Names("app", "orders-parking").main
    assert Names("app", "orders").dlq("dlq") != Names("app", "orders-dlq").dlq()


def test_queues_of_a_fifo_pipeline_end_in_fifo() -> None:
    names = Names("app", "orders", fifo=True)
    assert names.main == "app-orders-main.fifo"
    assert names.dlq("vip") == "app-orders-dlq_vip.fifo"
    assert names.parking() == "app-orders-parking.fifo"
