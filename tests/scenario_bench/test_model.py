"""The simulated Lambda and dependency, checked against what can be calculated by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.scenario_bench.dependency import Dependencies
from tests.scenario_bench.event_source import (
    BATCH,
    CHANGE_SECONDS,
    ENVIRONMENTS,
    FUNCTION_TIMEOUT,
    MAPPING,
    MAPPING_ARN,
    POLL_SECONDS,
    Environment,
    EventSource,
)
from tests.scenario_bench.scenario import Scenario, Spell, Trouble
from tests.scenario_bench.systems import VISIBILITY
from tests.scenario_bench.timeline import Timeline
from tests.scenario_bench.traffic import messages_of
from tests.simulation.stage import Stage

STEADY = Scenario(name="steady", title="", rate=5, lasts=100)


class Mapped:
    """A mapping whose consumer takes `seconds` for each message and succeeds."""

    def __init__(self, seconds: float) -> None:
        self.timeline = Timeline()
        self.began = self.timeline.now
        self.stage = Stage(clock=self.timeline)
        stage = self.stage
        policy = {"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 5}
        stage.sqs.set_queue_attributes(
            QueueUrl=stage.main,
            Attributes={
                "VisibilityTimeout": str(VISIBILITY),
                "RedrivePolicy": json.dumps(policy),
            },
        )
        self.seconds = seconds
        self.done: list[float] = []
        self.batches: list[int] = []
        arn = stage.arn(stage.main)
        self.source = EventSource(self.timeline, stage.sqs, stage.main, arn, self._start, Random(1))
        self.timeline.spawn(self.source.run)

    def _start(self, environment: Environment) -> Any:
        def consume(records: Any, _deadline: float, _permit: str | None) -> dict[str, Any]:
            self.batches.append(len(records))
            for _ in records:
                environment.work(self.seconds)
                self.done.append(self.timeline.now - self.began)
            return {"batchItemFailures": []}

        return consume

    def put(self, number: int) -> None:
        for _ in range(number):
            self.stage.put()

    def until(self, seconds: float) -> None:
        self.timeline.run_until(self.began + seconds)


def test_processes_take_turns_in_the_order_of_time() -> None:
    timeline, seen = Timeline(0.0), []

    def process(name: str, pause: float) -> None:
        for _ in range(3):
            timeline.advance(pause)
            seen.append((timeline.now, name))

    timeline.spawn(partial(process, "slow", 2.0))
    timeline.spawn(partial(process, "quick", 1.5))
    timeline.run_until(10.0)
    assert seen == sorted(seen)
    assert timeline.now == 10.0


def test_a_killed_process_never_goes_on() -> None:
    timeline, seen = Timeline(0.0), []

    def process() -> None:
        timeline.advance(1.0)
        seen.append("alive")

    timeline.kill(timeline.spawn(process))
    timeline.run_until(10.0)
    assert seen == []


def test_a_message_alone_waits_for_the_next_poll() -> None:
    mapped = Mapped(seconds=0.0)
    for at in range(50):
        mapped.timeline.spawn(mapped.stage.put, mapped.began + 10.0 + at * 1.013)
    mapped.until(100.0)
    lags = [done - (10.0 + at * 1.013) for at, done in enumerate(mapped.done)]
    assert len(lags) == 50
    assert max(lags) <= POLL_SECONDS + 1e-6
    assert sum(lags) / 50 == pytest.approx(POLL_SECONDS / 2, rel=0.2)


def test_a_backlog_is_worked_off_by_all_environments_with_full_batches() -> None:
    mapped = Mapped(seconds=0.2)
    mapped.put(1_000)
    mapped.until(60.0)
    # Ten rounds of ten batches; each round waits for its batches, and less than one poll.
    rounds = 1_000 / ENVIRONMENTS / BATCH
    assert rounds * BATCH * 0.2 <= max(mapped.done) <= rounds * (BATCH * 0.2 + POLL_SECONDS)
    assert set(mapped.batches) == {BATCH}


def test_a_lower_limit_admits_fewer_batches_at_once() -> None:
    mapped = Mapped(seconds=0.2)
    mapped.source.concurrency = 2
    mapped.put(100)
    mapped.until(60.0)
    assert 5 * 2.0 <= max(mapped.done) <= 5 * (2.0 + POLL_SECONDS)


def test_a_mapping_delivers_until_its_change_has_settled_and_refuses_another() -> None:
    mapped = Mapped(seconds=0.0)
    mapped.source.update_event_source_mapping(UUID=MAPPING, Enabled=False)
    assert mapped.source.get_event_source_mapping()["State"] == "Disabling"
    with pytest.raises(ClientError, match="ResourceInUseException"):
        mapped.source.update_event_source_mapping(UUID=MAPPING, Enabled=True)
    mapped.put(1)
    mapped.until(CHANGE_SECONDS[0] - 1)
    assert len(mapped.done) == 1
    mapped.until(CHANGE_SECONDS[1] + 1)
    assert mapped.source.get_event_source_mapping()["State"] == "Disabled"
    mapped.put(1)
    mapped.until(300.0)
    assert len(mapped.done) == 1


def test_a_tag_of_a_mapping_takes_no_json() -> None:
    source = Mapped(seconds=0.0).source
    source.tag_resource(Resource=MAPPING_ARN, Tags={"paused": "g=1/c=10/t=1790000000"})
    with pytest.raises(ClientError, match="ValidationException"):
        source.tag_resource(Resource=MAPPING_ARN, Tags={"paused": '{"g": 1}'})
    assert source.list_tags(Resource=MAPPING_ARN)["Tags"] == {"paused": "g=1/c=10/t=1790000000"}
    source.untag_resource(Resource=MAPPING_ARN, TagKeys=["paused"])
    assert source.list_tags(Resource=MAPPING_ARN)["Tags"] == {}


def test_an_invocation_that_takes_too_long_is_killed_and_its_messages_come_back() -> None:
    mapped = Mapped(seconds=4.0)
    mapped.put(10)
    mapped.until(FUNCTION_TIMEOUT + 1.0)
    assert (mapped.source.killed, len(mapped.done)) == (1, 7)
    mapped.seconds = 0.1
    mapped.until(VISIBILITY - 1.0)
    assert len(mapped.done) == 7
    mapped.until(VISIBILITY + 30.0)
    assert len(mapped.done) == 17
    assert mapped.stage.bodies(mapped.stage.main) == []


def test_the_same_seed_sends_the_same_messages() -> None:
    scenario = replace(STEADY, poison=0.3, keys=50, tenants=5)
    messages = messages_of(scenario, 1)
    assert messages == messages_of(scenario, 1)
    assert messages != messages_of(scenario, 2)
    assert len(messages) == 500
    assert sum(message.poison for message in messages) == pytest.approx(150, rel=0.2)


def test_a_brown_out_fails_its_share_of_the_requests_and_only_in_its_time() -> None:
    spell = Spell(begins=10, ends=20, trouble=Trouble.ERROR, share=0.3)
    dependencies = Dependencies(replace(STEADY, spells=(spell,)), Random(1))
    message = {"endpoint": "e0", "tenant": "t0"}
    answers = [dependencies.request("payments", message, 15.0) for _ in range(1_000)]
    assert sum(answer.error is not None for answer in answers) == pytest.approx(300, rel=0.1)
    assert dependencies.request("payments", message, 20.0).error is None
    assert dependencies.request("mail", message, 15.0).error is None


def test_only_the_key_of_a_spell_is_dead() -> None:
    spell = Spell(begins=0, ends=10, key="e7")
    dependencies = Dependencies(replace(STEADY, spells=(spell,)), Random(1))
    assert dependencies.request("payments", {"endpoint": "e7", "tenant": "t"}, 5.0).error
    assert not dependencies.request("payments", {"endpoint": "e8", "tenant": "t"}, 5.0).error
    assert (len(dependencies.requests), len(dependencies.dead)) == (2, 1)
