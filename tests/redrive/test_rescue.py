"""A rescue takes letters out of reach of their queue's retention and changes nothing of them."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import (
    END_OF_TIME,
    PARKED_LANE,
    Mode,
    Reason,
    dedicated_lane,
    lane_partition,
)
from deadletter.message import stamp as stamps
from deadletter.message.letter import from_json
from deadletter.message.stamp import Stamp
from deadletter.redrive.report import Tally
from deadletter.redrive.router_client import RescueVerdicts, rescue_of
from deadletter.redrive.source_memory import SourceMemory
from deadletter.routing.decision import DUE, Hold
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable
from tests.samples import NOW, REDRIVER, letter, received
from tests.simulation.stage import DAY, Stage, attribute, prompt_policy

PARKING = "parking:default"


class NoRouter:
    """A router that is down."""

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        raise RouterUnavailable("down")

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        raise RouterUnavailable("down")


@pytest.fixture
def stage() -> Stage:
    return Stage()


def lane_of(item: dict[str, Any]) -> str:
    return str(item["lane"]["S"]).removeprefix(lane_partition("orders", "")).rpartition("|")[0]


def memory(stage: Stage, source: str) -> SourceMemory:
    return stage.redriver(source)._setup.lease.read()


def parked(stage: Stage, *bodies: str, **attributes: Any) -> None:
    """Letters that the redriver has parked, each by a rule and with its reason."""
    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    for body in bodies or ('{"tenantId": "a"}',):
        stage.put(body, MessageAttributes=attributes)
    stage.fail()
    assert stage.run().counts["MessageMovedToParkingLot"] == len(bodies or ("one",))


# The verdict.


def test_each_kind_of_source_has_its_lane() -> None:
    mail = letter(SentTimestamp="5000")
    assert rescue_of(mail, "dlq", NOW) == Hold(DUE, NOW, "rescued from its queue's retention")
    assert rescue_of(mail, PARKING, NOW).lane == PARKED_LANE
    assert rescue_of(mail, "slow", NOW).lane == dedicated_lane("slow")
    assert rescue_of(mail, PARKING, NOW).due == rescue_of(mail, "slow", NOW).due == END_OF_TIME + 5


def test_a_rescued_letter_keeps_its_stamp_and_a_forged_one_is_not_believed() -> None:
    mark = Stamp("origin", 3, 5, "AIDA", rule="stop", decision="PARK", reason="POISON", at=7)
    attributes = {stamps.NAME: stamps.attribute(mark)}
    ours = letter(attributes=attributes, message_id="ours", SenderId=f"{REDRIVER}:run")
    theirs = letter(attributes=attributes, message_id="theirs")
    source = RescueVerdicts(
        source=PARKING,
        trusted_senders=frozenset({REDRIVER}),
        clock=lambda: NOW,
        tally=Tally(),
    )
    verdicts = source.verdicts([received(ours, PARKING), received(theirs, PARKING)], served=False)
    assert verdicts["ours"].stamp == mark
    assert verdicts["theirs"].stamp.origin == "theirs"
    assert verdicts["theirs"].forged


# From the DLQ.


def test_the_dlq_is_rescued_though_circuit_router_pace_and_backlog_forbid_a_run(
    stage: Stage,
) -> None:
    stage.pipeline = replace(stage.pipeline, rate=0.01, backlog_limit=0)
    for _ in range(150):
        stage.put()
    stage.fail()
    stage.put()
    stage.set_circuit("OPEN")
    report = stage.rescue(router=NoRouter())
    assert (report.stopped, report.counts["Held"]) == ("the source is empty", 150)
    assert report.decisions == {"HOLD": 150}
    assert stage.bodies(stage.dlq) == []
    assert {lane_of(item) for item in stage.waiting()} == {DUE}
    assert report.ended_well


def test_a_letter_rescued_from_the_dlq_is_judged_when_its_circuit_closes(stage: Stage) -> None:
    origin = stage.put()
    stage.fail()
    stage.set_circuit("OPEN")
    stage.rescue()
    assert stage.run().moved == 0
    stage.set_circuit("CLOSED")
    assert stage.run().decisions == {"REDRIVE": 1}
    [mark] = stage.stamps(stage.main)
    assert (mark.origin, mark.attempt) == (origin, 1)


def test_the_delay_of_a_rule_is_still_to_be_served_after_a_rescue(stage: Stage) -> None:
    stage.add_rule("slow", tenantId="a", action="DELAYED_REDRIVE", delay_seconds=3_600)
    stage.put()
    stage.fail()
    stage.rescue()
    assert stage.run().decisions == {"HOLD": 1}
    stage.clock.advance(3_500)
    assert stage.run().moved == 0
    stage.clock.advance(101)
    assert stage.run().decisions == {"REDRIVE": 1}


def test_nothing_is_rescued_where_the_mode_is_observe(stage: Stage) -> None:
    stage.put()
    stage.fail()
    stage.pipeline = replace(stage.pipeline, mode=Mode.OBSERVE)
    report = stage.rescue()
    assert report.stopped == "mode observe moves nothing, not even messages about to be dropped"
    assert report.counts == {}


# From a parking queue.


def test_a_parked_letter_keeps_body_attributes_and_stamp(stage: Stage) -> None:
    body = '{"tenantId": "a", "x": "é\\u0000 ", "y": "%s"}' % ("ž" * 5_000)
    own = {
        "binary": attribute(b"\x00\xff", "Binary.gzip"),
        "number": attribute("1.50", "Number.int"),
        "text": attribute("é\n"),
    }
    parked(stage, body, **own)
    [mark] = stage.stamps(stage.parking)
    [before] = [m for m in stage.sqs.snapshot() if m.queue == "orders-parking"]
    report = stage.rescue(PARKING)
    assert report.counts["Held"] == 1
    assert stage.bodies(stage.parking) == []
    [item] = stage.waiting()
    assert (lane_of(item), item["home"]["S"]) == (PARKED_LANE, PARKING)
    kept = stamps.parse(item["stamp"]["S"])
    assert kept == mark
    assert (mark.reason, mark.rule, mark.attempt) == (Reason.QUARANTINED, "stop", 0)
    data = stage.s3.get_object(Bucket="bodies", Key=item["object"]["S"])["Body"].read()
    mail = from_json(json.loads(data))
    assert mail.body == body
    assert {name: (value.data_type, value.value) for name, value in mail.attributes.items()} == {
        name: (value["DataType"], value.get("BinaryValue", value.get("StringValue")))
        for name, value in before.attributes.items()
    }
    assert mail.system["SenderId"].startswith(REDRIVER)


def test_a_rescued_parked_letter_is_moved_by_no_run(stage: Stage) -> None:
    parked(stage)
    stage.rescue(PARKING)
    stage.dynamodb.delete_item(
        TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "stop"}}
    )
    for _ in range(5):
        stage.clock.advance(30 * DAY)
        for home in ("dlq", "slow"):
            assert stage.run(home=home).moved == 0
        assert stage.rescue(PARKING).moved == 0
    assert [lane_of(item) for item in stage.waiting()] == [PARKED_LANE]


def test_a_run_that_is_no_rescue_does_not_touch_a_parking_queue(stage: Stage) -> None:
    parked(stage)
    for dry_run in (False, True):
        report = stage.run(home=PARKING, dry_run=dry_run)
        assert report.stopped == "parked messages wait for a person; a run can only rescue them"
        assert report.counts == {}
    assert len(stage.bodies(stage.parking)) == 1


def test_no_fifo_group_waits_for_its_parked_letters_and_they_keep_their_stamps() -> None:
    stage = Stage(replace(Stage().pipeline, fifo=True))

    def put(number: int) -> None:
        body = json.dumps({"tenantId": "a", "n": number})
        stage.put(body, MessageGroupId="g", MessageDeduplicationId=str(number))

    stage.add_rule("stop", tenantId="a", action="QUARANTINE")
    for number in range(2):
        put(number)
        stage.fail()
        stage.run()
    marks = {mark.origin: mark for mark in stage.stamps(stage.parking)}
    for _ in range(2):
        stage.rescue(PARKING)
        stage.clock.advance(60)
    kept = [stamps.parse(item["stamp"]["S"]) for item in stage.waiting()]
    assert {mark.origin: mark for mark in kept if mark} == marks
    stage.dynamodb.delete_item(
        TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "stop"}}
    )
    put(2)
    stage.fail()
    assert stage.run().decisions == {"REDRIVE": 1}
    assert len(stage.bodies(stage.main)) == 1


# From a dedicated DLQ.


def test_a_letter_rescued_from_a_dedicated_dlq_waits_for_the_run_of_that_dlq(stage: Stage) -> None:
    stage.add_rule("isolate", tenantId="a", action="DEDICATED_DLQ", queue="slow")
    stage.put()
    stage.fail()
    stage.run()
    assert stage.rescue("slow").counts["Held"] == 1
    assert [lane_of(item) for item in stage.waiting()] == [dedicated_lane("slow")]
    stage.dynamodb.delete_item(
        TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "isolate"}}
    )
    stage.clock.advance(30 * DAY)
    assert stage.run().moved == 0
    assert stage.run(home="slow").moved == 1
    assert stage.waiting() == []


def test_rules_for_dedicated_dlqs_do_not_send_a_letter_of_such_a_lane_back_into_it(
    stage: Stage,
) -> None:
    stage.add_rule("isolate", tenantId="a", action="DEDICATED_DLQ", queue="slow")
    stage.put()
    stage.fail()
    stage.run()
    stage.rescue("slow")
    assert stage.run(home="slow").decisions == {"REDRIVE": 1}


# The pass.


def test_a_rescue_notes_when_its_pass_began_and_nothing_of_ordinary_runs(stage: Stage) -> None:
    stage.put()
    stage.fail()
    began = stage.clock()
    stage.rescue()
    noted = memory(stage, "dlq")
    assert noted.emptied_at == began
    assert (noted.ended_at, noted.ended_well_at, noted.oldest) == (None, None, None)


def test_a_letter_in_flight_elsewhere_keeps_the_queue_from_counting_as_emptied(
    stage: Stage,
) -> None:
    stage.put()
    stage.put()
    stage.fail()
    stage.sqs.receive_message(QueueUrl=stage.dlq, VisibilityTimeout=600)
    assert stage.rescue().counts["Held"] == 1
    assert memory(stage, "dlq").emptied_at is None
    stage.clock.advance(601)
    stage.rescue()
    assert memory(stage, "dlq").emptied_at is not None


def test_letters_of_other_pipelines_do_not_keep_a_rescue_from_its_end(stage: Stage) -> None:
    stage.put()
    stage.fail()
    stage.resources = replace(stage.resources, main_arn="arn:aws:sqs:eu-central-1:1:others")
    report = stage.rescue()
    assert report.moved == 0
    assert report.counts["ForeignMessage"] == 1
    assert memory(stage, "dlq").emptied_at is not None


def test_a_rescue_waits_for_the_lease_and_says_so_when_it_never_gets_it(stage: Stage) -> None:
    stage.put()
    stage.fail()
    lease = stage.redriver()._setup.lease
    assert lease.acquire("another run", stage.clock(), stage.clock() + 20) is not None
    assert stage.rescue().counts["Held"] == 1
    lease.acquire("another run", stage.clock(), stage.clock() + 1_000)
    assert stage.rescue().stopped == "another run holds the lease"


def test_a_rescue_that_meets_its_deadline_has_not_emptied_the_queue(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, policy=prompt_policy())
    stage.put()
    stage.fail()
    report = stage.rescue(seconds=3)
    assert report.stopped == "the deadline is near"
    assert memory(stage, "dlq").emptied_at is None
    assert len(stage.bodies(stage.dlq)) == 1
