"""The simulated Lambda and dependency, checked against what can be calculated by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial
from random import Random
from typing import Any

import pytest
from botocore.exceptions import ClientError

from deadletter.failure.classify import diagnose
from tests.scenario_bench.dependency import RETRY_AFTER, Answer, Dependencies
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
from tests.scenario_bench.measure import send
from tests.scenario_bench.scenario import LINES, Burst, Scenario, Spell, Trouble
from tests.scenario_bench.systems import MOVE_TASK_EVERY, VISIBILITY, NativeRedrive
from tests.scenario_bench.timeline import Timeline
from tests.scenario_bench.traffic import Book, messages_of
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


def asked(dependencies: Dependencies, count: int, begin: float, seconds: float) -> list[Answer]:
    """So many requests, evenly spread."""
    message = {"id": 0, "endpoint": "e0", "tenant": "t0"}
    return [
        dependencies.request("payments", message, begin + seconds * number / count)
        for number in range(count)
    ]


def test_a_dependency_serves_its_capacity_in_each_second_and_answers_503_to_the_rest() -> None:
    dependencies = Dependencies(replace(STEADY, capacity=10, spells=()), Random(1))
    answers = asked(dependencies, 300, begin=50.0, seconds=10.0)
    assert sum(answer.error is None for answer in answers) == 10 * 10
    refused = [answer.error for answer in answers if answer.error is not None]
    assert {getattr(error, "status_code", None) for error in refused} == {503}
    assert len(dependencies.dead) == 200
    # At less than its capacity it serves each of them.
    assert all(answer.error is None for answer in asked(dependencies, 50, 100.0, 10.0))


def test_a_capacity_holds_after_an_outage_too() -> None:
    spell = Spell(begins=10, ends=20)
    dependencies = Dependencies(replace(STEADY, capacity=10, spells=(spell,)), Random(1))
    assert all(answer.error is not None for answer in asked(dependencies, 50, 10.0, 10.0))
    assert sum(answer.error is None for answer in asked(dependencies, 200, 20.0, 10.0)) == 100


def test_a_rate_limit_answers_429_with_retry_after_and_counts_what_it_accepts() -> None:
    spell = Spell(begins=10, ends=20, trouble=Trouble.THROTTLED, limit=4)
    dependencies = Dependencies(replace(STEADY, spells=(spell,)), Random(1))
    answers = asked(dependencies, 100, begin=10.0, seconds=10.0)
    errors = [answer.error for answer in answers if answer.error is not None]
    assert (len(errors), len(dependencies.accepted)) == (60, 40)
    for error in errors:
        diagnosis = diagnose(error, None, now=0.0)
        assert (diagnosis.http_status, diagnosis.retry_after) == (429, RETRY_AFTER)
    assert asked(dependencies, 20, 20.0, 1.0)[-1].error is None


def test_a_spell_may_be_about_tenants_big_messages_or_every_second_message() -> None:
    plain = {"id": 2, "endpoint": "e0", "tenant": "t5", "needs": ("payments",)}
    tenants = Spell(begins=0, ends=10, tenants=("t0", "t1"))
    big = Spell(begins=0, ends=10, big=True)
    odd = Spell(begins=0, ends=10, odd=True)
    assert not any(spell.affects(plain, 5.0) for spell in (tenants, big, odd))
    assert tenants.affects({**plain, "tenant": "t1"}, 5.0)
    assert big.affects({**plain, LINES: "x"}, 5.0)
    assert odd.affects({**plain, "id": 3}, 5.0)


def test_a_burst_of_poison_lies_in_a_row_in_its_group_and_changes_no_other_message() -> None:
    burst = Burst(begins=50, ends=51, rate=22, key="e3", poison=True)
    calm = replace(STEADY, keys=20)
    messages = messages_of(replace(calm, bursts=(burst,)), 1)
    poison = [message.number for message in messages if message.poison]
    group = [message.number for message in messages if message.group == "e3"]
    assert len(poison) == 22
    assert len(messages) == 500 + 22
    at = group.index(poison[0])
    # The other traffic has a message or two of that second in the group.
    assert len(set(group[at : at + 24]) & set(poison)) == 22


def test_big_messages_are_the_share_that_was_asked_for_and_really_big() -> None:
    messages = messages_of(replace(STEADY, big=0.1), 1)
    sizes = [len(json.dumps(message.body)) for message in messages]
    assert sum(size > 20_000 for size in sizes) == pytest.approx(50, rel=0.3)
    assert all(size < 300 for size in sizes if size <= 20_000)


@pytest.mark.parametrize("fifo", [False, True])
def test_a_move_task_every_five_minutes_brings_back_what_died(fifo: bool) -> None:
    # Five receives fail in 12 min, and the sixth is a death at 15 min: minute 15 moves nothing yet.
    spells = (Spell(begins=0, ends=1_000),)
    dead = replace(STEADY, rate=1, lasts=1, fifo=fifo, spells=spells)
    system = NativeRedrive(dead, 1, Book(messages_of(dead, 1)))
    system.prepare()
    system.timeline.spawn(lambda: send(system))
    died = 5 * VISIBILITY + 10.0
    system.timeline.run_until(system.began + died)
    assert (len(system.deaths), system.moves, dict(system.book.processed_at)) == (1, 1, {})
    system.timeline.run_until(system.began + 4 * MOVE_TASK_EVERY + 2.0)
    assert system.moves == 2
    assert system.book.processed_at[0] == pytest.approx(4 * MOVE_TASK_EVERY, abs=2.0)
    assert system.stage.bodies(system.stage.dlq) == []
    system.timeline.close()
