"""Whole runs of the redriver on the in-memory AWS."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import Mode
from deadletter.message.letter import compact_json
from deadletter.message.stamp import Stamp
from deadletter.routing.decision import Redrive
from deadletter.routing.router import LaneAnswer, Question, RouterAnswer, RouterUnavailable, Verdict
from deadletter.routing.wire import question_to_json
from deadletter.settings.backoff import Backoff
from deadletter.settings.pipeline import Pipeline, RetryPolicy
from deadletter.testing.fakes import client_error
from tests.simulation.stage import Stage, attribute, prompt_policy


@pytest.fixture
def stage() -> Stage:
    return Stage()


def changed(stage: Stage, **changes: Any) -> Stage:
    stage.pipeline = replace(stage.pipeline, **changes)
    return stage


def slow_policy(seconds: float, attempts: int = 3) -> RetryPolicy:
    return RetryPolicy(Backoff(base=seconds, factor=1, cap=seconds, floor=seconds), attempts)


class NoRouter:
    """A router that is down."""

    asked = 0

    def decide(self, questions: Sequence[Question]) -> RouterAnswer:
        self.asked += 1
        raise RouterUnavailable("down")

    def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
        raise RouterUnavailable("down")


def test_a_dead_letter_goes_back_to_the_main_queue_with_its_stamp(stage: Stage) -> None:
    letter = stage.put()
    stage.fail()
    report = stage.run()
    assert report.counts["Redriven"] == 1
    assert report.stopped == "the source is empty"
    assert stage.bodies(stage.dlq) == []
    [mark] = stage.stamps(stage.main)
    assert (mark.origin, mark.attempt, mark.sender) == (letter, 1, "AIDAPRODUCER")


def test_a_letter_that_keeps_failing_is_parked_after_its_last_attempt(stage: Stage) -> None:
    letter = stage.put()
    for _ in range(3):
        stage.fail()
        stage.run()
    stage.fail()
    report = stage.run()
    assert report.decisions == {"PARK:RETRIES_EXHAUSTED": 1}
    [mark] = stage.stamps(stage.parking)
    assert (mark.origin, mark.attempt, mark.reason) == (letter, 3, "RETRIES_EXHAUSTED")
    assert str(mark.because).startswith("3 of 3 attempts used")
    assert stage.bodies(stage.main) == stage.bodies(stage.dlq) == []


def test_a_body_that_cannot_be_read_is_parked_and_its_neighbours_go_on(stage: Stage) -> None:
    for body in ("{", '{"tenantId": "a"}', "[" * 100_000, "9" * 5_000, '{"a": 1, "a": 2}'):
        stage.put(body)
    stage.fail()
    report = stage.run()
    assert report.decisions == {"PARK:MALFORMED": 4, "REDRIVE": 1}
    assert len(stage.bodies(stage.parking)) == 4


def test_a_long_delay_is_spent_in_the_waiting_room_and_served_once(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    stage.put()
    stage.fail()
    assert stage.run().decisions == {"HOLD": 1}
    assert stage.bodies(stage.dlq) == []
    assert len(stage.waiting()) == 1
    assert stage.run().moved == 0
    stage.clock.advance(3_601)
    report = stage.run()
    assert report.decisions == {"REDRIVE": 1}
    [mark] = stage.stamps(stage.main)
    assert mark.attempt == 1
    assert stage.waiting() == []


def test_a_letter_of_a_mebibyte_passes_through_the_waiting_room_whole(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    body = '{"tenantId": "a", "x": "%s"}' % ("é" * 524_000)
    stage.put(body)
    stage.fail()
    stage.run()
    assert stage.bodies(stage.dlq) == []
    stage.clock.advance(3_601)
    stage.run()
    assert stage.bodies(stage.main) == [body]
    assert stage.s3.list_objects_v2(Bucket="bodies").get("KeyCount") == 0


def test_a_quarantined_tenant_is_parked_and_the_others_are_not(stage: Stage) -> None:
    stage.add_rule("bad-tenant", tenantId="b", action="quarantine")
    stage.put('{"tenantId": "a"}')
    stage.put('{"tenantId": "b"}')
    stage.fail()
    report = stage.run()
    assert report.decisions == {"REDRIVE": 1, "PARK:QUARANTINED": 1}
    [mark] = stage.stamps(stage.parking)
    assert mark.rule == "bad-tenant"


def test_a_rule_that_cannot_be_understood_matches_nothing_and_says_so(stage: Stage) -> None:
    stage.add_rule("typo", tenantId="a", action="DELETE")
    stage.put()
    stage.fail()
    report = stage.run()
    assert report.decisions == {"REDRIVE": 1}
    assert report.counts["RuleInvalid"] == 1
    assert report.refused_rules["typo"].startswith("action is unknown; allowed are")
    assert "DELETE" not in str(report.to_json())


def test_a_rule_that_has_used_up_its_matches_stops_and_rings(stage: Stage) -> None:
    stage.add_rule("bounded", tenantId="a", action="QUARANTINE", max_matches="1")
    for _ in range(2):
        stage.put('{"tenantId": "a"}')
    stage.fail()
    report = stage.run()
    assert report.decisions == {"PARK:QUARANTINED": 1, "REDRIVE": 1}
    assert report.counts["RuleLimitReached"] == 1
    assert report.limited_rules == ("bounded",)
    stage.put('{"tenantId": "a"}')
    stage.fail()
    # Counted in the ledger too: it holds, and rings, from one run to the next.
    later = stage.run()
    assert "PARK:QUARANTINED" not in later.decisions
    assert later.limited_rules == ("bounded",)


def test_a_diverted_letter_goes_to_its_dedicated_queue_and_back_from_there(stage: Stage) -> None:
    stage.add_rule("isolate", tenantId="a", action="DEDICATED_DLQ", queue="slow")
    stage.put()
    stage.fail()
    assert stage.run().decisions == {"DIVERT": 1}
    assert len(stage.bodies(stage.dedicated)) == 1
    assert stage.run(home="slow").decisions == {"REDRIVE": 1}
    assert len(stage.bodies(stage.main)) == 1


def test_a_held_letter_waits_until_its_rule_ends(stage: Stage) -> None:
    stage.add_rule("wait", tenantId="a", action="HOLD")
    stage.put()
    stage.fail()
    assert stage.run().decisions == {"HOLD": 1}
    stage.clock.advance(3_600)
    assert stage.run().moved == 0
    stage.dynamodb.delete_item(
        TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "wait"}}
    )
    assert stage.run().decisions == {"REDRIVE": 1}
    assert len(stage.bodies(stage.main)) == 1


def test_nothing_is_received_while_the_circuit_is_open(stage: Stage) -> None:
    stage.put()
    stage.fail()
    stage.set_circuit("OPEN")
    report = stage.run()
    assert report.stopped == "circuit orders is OPEN"
    assert report.counts == {}


def test_a_circuit_that_cannot_be_understood_holds(stage: Stage) -> None:
    stage.put()
    stage.fail()
    stage.set_circuit("half open, I think")
    assert stage.run().moved == 0


def test_an_old_letter_is_parked_as_expired(stage: Stage) -> None:
    stage.put()
    stage.fail()
    stage.clock.advance(12 * 86_400)
    assert stage.run().decisions == {"PARK:EXPIRED": 1}


def test_a_letter_with_ten_attributes_goes_unmarked_and_the_ledger_remembers(
    stage: Stage,
) -> None:
    letter = stage.put(MessageAttributes={f"a{n}": attribute(str(n)) for n in range(10)})
    for life in range(3):
        stage.fail()
        report = stage.run()
        assert report.counts["RedriveUnmarked"] == 1, life
        stage.clock.advance(6)
    stage.fail()
    assert stage.run().decisions == {"PARK:RETRIES_EXHAUSTED": 1}
    rows = [item for item in stage.dynamodb.items("messages") if "stamp" in item]
    assert all(letter in row["stamp"]["S"] for row in rows)
    assert len(rows) == 4


def test_a_stamp_that_a_producer_wrote_is_ignored_and_counted(stage: Stage) -> None:
    forged = '{"origin":"someone-else","attempt":0,"first_sent":1}'
    stage.put(MessageAttributes={"Redrive": attribute(forged)})
    stage.fail()
    report = stage.run()
    assert report.counts["ForgedStamp"] == 1
    [mark] = stage.stamps(stage.main)
    assert mark.origin != "someone-else"


@pytest.mark.parametrize("others", [0, 9])
def test_a_producers_own_attribute_of_our_name_arrives_in_each_life(
    stage: Stage, others: int
) -> None:
    own = attribute("batch 7", "String.kind")
    more = {f"a{number}": attribute("x") for number in range(others)}
    stage.put(MessageAttributes={"Redrive": own, **more})
    for life in range(3):
        stage.fail()
        counts = stage.run().counts
        assert counts.get("AttributeRenamed", 0) == (1 if life == 0 else 0)
        assert counts.get("ForgedStamp", 0) == (1 if life == 0 else 0)
        assert counts.get("RedriveUnmarked", 0) == (1 if others == 9 else 0)
        stage.clock.advance(6)
    [message] = stage.sqs.snapshot()
    carried = dict(message.attributes)
    carried.pop("Redrive", None)
    assert carried == {"Redrive-original": own, **more}


def test_observing_decides_and_moves_nothing(stage: Stage) -> None:
    changed(stage, mode=Mode.OBSERVE)
    stage.put()
    stage.fail()
    report = stage.run()
    assert report.decisions == {"REDRIVE": 1}
    assert report.moved == 0
    assert len(stage.take(stage.dlq)) == 1


def test_a_dry_run_leaves_every_letter_visible(stage: Stage) -> None:
    for _ in range(30):
        stage.put()
    stage.fail()
    assert stage.run(dry_run=True).decisions == {"REDRIVE": 30}
    assert len(stage.take(stage.dlq)) == 30


def test_a_router_that_is_down_is_asked_twice_and_every_letter_stays(stage: Stage) -> None:
    for _ in range(12):
        stage.put()
    stage.fail()
    router = NoRouter()
    report = stage.run(router=router)
    assert report.stopped == "the router gave no answer: down"
    assert (report.ended_well, report.trouble) == (False, "down")
    assert report.counts["RouterUnavailable"] == router.asked == 2
    assert len(stage.take(stage.dlq)) == 12


def test_a_verdict_that_is_missing_or_doubled_leaves_its_letter(stage: Stage) -> None:
    ids = [stage.put(f'{{"tenantId": "a", "n": {n}}}') for n in range(3)]
    stage.fail()

    class Careless:
        def decide(self, questions: Sequence[Question]) -> RouterAnswer:
            def say(message_id: str) -> Verdict:
                return Verdict(message_id, Redrive(0, "why not"), Stamp(message_id, 1, 1))

            return RouterAnswer((say(ids[0]), say(ids[1]), say(ids[1]), say("never-asked")))

        def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
            return LaneAnswer(())

    report = stage.run(router=Careless())
    assert report.counts["Undecided"] == 2
    assert stage.bodies(stage.main) == ['{"tenantId": "a", "n": 0}']
    assert len(stage.bodies(stage.dlq)) == 2


def test_a_target_queue_that_is_gone_leaves_the_letter_in_the_dlq(stage: Stage) -> None:
    stage.put("{")
    stage.put()
    stage.fail()
    stage.sqs.delete_queue(QueueUrl=stage.parking)
    report = stage.run()
    assert report.counts["RedriveFailure"] == 1
    assert report.counts["Redriven"] == 1
    assert stage.bodies(stage.dlq) == ["{"]


def test_a_queue_that_takes_less_than_a_letter_leaves_it_in_the_dlq(stage: Stage) -> None:
    stage.put('{"tenantId": "%s"}' % ("a" * 5_000))
    stage.put()
    stage.fail()
    stage.sqs.set_queue_attributes(QueueUrl=stage.main, Attributes={"MaximumMessageSize": "1024"})
    report = stage.run()
    assert report.counts["Unsendable"] == 1
    assert report.counts["Redriven"] == 1
    assert len(stage.bodies(stage.dlq)) == 1


def test_a_letter_of_another_pipelines_queue_stays(stage: Stage) -> None:
    other = stage.sqs.create_queue(
        QueueName="other",
        Attributes={
            "RedrivePolicy": json.dumps(
                {"deadLetterTargetArn": stage.arn(stage.dlq), "maxReceiveCount": 1}
            ),
            "VisibilityTimeout": "1",
        },
    )["QueueUrl"]
    stage.put(url=other)
    stage.take(other)
    stage.clock.advance(2)
    stage.take(other)
    assert len(stage.bodies(stage.dlq)) == 1
    report = stage.run()
    assert report.counts["ForeignMessage"] == 1
    assert len(stage.bodies(stage.dlq)) == 1


def test_an_idle_run_ends_within_two_seconds_and_writes_only_that_it_took_place(
    stage: Stage,
) -> None:
    began, before = stage.clock(), stage.dynamodb.consumed
    report = stage.run()
    assert report.stopped == "nothing to do"
    assert stage.clock() - began <= 2
    assert stage.dynamodb.consumed.write_units - before.write_units == 1


def test_a_run_that_moves_a_few_letters_waits_for_no_others(stage: Stage) -> None:
    for number in range(23):
        stage.put(f'{{"n": {number}}}')
    assert stage.fail() == 23
    began = stage.clock()
    assert stage.run().counts["Redriven"] == 23
    assert stage.clock() == began


def test_no_router_request_is_larger_than_lambda_takes(stage: Stage) -> None:
    for number in range(12):
        stage.put('{"tenantId": "%s"}' % ('\\"\\\\' * 150_000 + str(number)))
    stage.fail()
    inner = stage.router
    sizes = []

    class Lambda:
        def decide(self, questions: Sequence[Question]) -> RouterAnswer:
            sizes.append(len(compact_json({"letters": [question_to_json(q) for q in questions]})))
            assert sizes[-1] <= 6_000_000
            return inner.decide(questions)

        def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
            return inner.open_lanes(lanes)

    assert stage.run(router=Lambda()).counts["Redriven"] == 12
    assert len(sizes) > 1


def test_a_second_run_finds_the_lease_taken_and_gives_its_letters_back(stage: Stage) -> None:
    stage.put()
    stage.fail()
    stage.dynamodb.put_item(
        TableName="messages",
        Item={
            "pk": {"S": "orders#lease"},
            "sk": {"S": "dlq"},
            "own": {"S": "somebody"},
            "until": {"N": str(int(stage.clock()) + 60)},
        },
    )
    assert stage.run().stopped == "another run holds the lease"
    assert len(stage.take(stage.dlq)) == 1


def test_nothing_is_sent_while_the_main_queue_has_too_much_waiting(stage: Stage) -> None:
    changed(stage, backlog_limit=5)
    stage.put()
    stage.fail()
    for _ in range(6):
        stage.put()
    report = stage.run()
    assert report.stopped == "6 messages wait in the main queue already"
    assert len(stage.take(stage.dlq)) == 1


def test_the_pace_holds_over_several_runs(stage: Stage) -> None:
    changed(stage, fixed_rate=1.0)
    for _ in range(100):
        stage.put()
    stage.fail()
    began = stage.clock()
    sent = 0
    for _ in range(3):
        sent += stage.run(seconds=30).counts.get("Redriven", 0)
    assert sent <= 10 + (stage.clock() - began) + 1
    assert sent >= 40


def test_the_straight_path_costs_little_to_write(stage: Stage) -> None:
    changed(stage, fixed_rate=1_000_000.0)
    for _ in range(1_000):
        stage.put()
    stage.fail()
    before = stage.dynamodb.consumed
    report = stage.run()
    after = stage.dynamodb.consumed
    assert report.counts["Redriven"] == 1_000
    assert (after.write_requests - before.write_requests) / 1_000 <= 0.05
    assert (after.write_units - before.write_units) / 1_000 <= 0.06
    assert stage.journal() == []


def test_every_attribute_of_a_letter_survives_a_re_drive(stage: Stage) -> None:
    attributes = {
        "text": attribute("žluťoučký"),
        "number": attribute("1e-7", "Number.float"),
        "bytes": attribute(bytes(range(256)), "Binary.gzip"),
    }
    trace = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1;Lineage=a87bd80c:1|68fd508a:5"
    stage.put(
        MessageAttributes=attributes,
        MessageGroupId="tenant-a",
        MessageSystemAttributes={"AWSTraceHeader": attribute(trace)},
    )
    stage.fail()
    stage.run()
    [message] = stage.take(stage.main)
    message["MessageAttributes"].pop("Redrive")
    assert message["MessageAttributes"] == attributes
    assert message["Attributes"]["MessageGroupId"] == "tenant-a"
    kept = "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=1"
    assert message["Attributes"]["AWSTraceHeader"] == kept


FIFO = Pipeline("orders", fifo=True, policy=prompt_policy(), workers=1, dedicated=("slow",))


def put_fifo(stage: Stage, group: str, number: int) -> str:
    return stage.put(
        f'{{"n": {number}}}',
        MessageGroupId=group,
        MessageDeduplicationId=f"{group}{number}",
    )


def fail_fifo(stage: Stage) -> None:
    for _ in range(20):
        stage.take(stage.main)
        stage.clock.advance(31)


def numbers(stage: Stage, url: str) -> list[str]:
    found = []
    while messages := stage.take(url):
        for message in messages:
            found.append(message["Body"])
            stage.sqs.delete_message(QueueUrl=url, ReceiptHandle=message["ReceiptHandle"])
    return found


def test_a_fifo_group_keeps_its_order_through_a_re_drive() -> None:
    stage = Stage(FIFO)
    for number in range(25):
        put_fifo(stage, "g", number)
    fail_fifo(stage)
    assert stage.run().counts["Redriven"] == 25
    assert numbers(stage, stage.main) == [f'{{"n": {number}}}' for number in range(25)]


def test_a_fifo_group_that_has_to_wait_waits_as_a_whole_and_blocks_no_other() -> None:
    stage = Stage(replace(FIFO, context={"tenantId": "system.MessageGroupId"}))
    stage.add_rule("slow", tenantId="g", action="DELAYED_REDRIVE", delay_seconds=600)
    for number in range(15):
        put_fifo(stage, "g", number)
        put_fifo(stage, "h", number)
    fail_fifo(stage)
    report = stage.run()
    assert report.counts["Held"] == 15
    assert report.counts["Redriven"] == 15
    assert numbers(stage, stage.main) == [f'{{"n": {number}}}' for number in range(15)]
    stage.clock.advance(601)
    assert stage.run().counts["Redriven"] == 15
    assert numbers(stage, stage.main) == [f'{{"n": {number}}}' for number in range(15)]


def test_a_fifo_letter_that_comes_later_queues_up_behind_its_waiting_group() -> None:
    stage = Stage(replace(FIFO, policy=slow_policy(3_600)))
    put_fifo(stage, "g", 0)
    fail_fifo(stage)
    stage.run()
    stage.pipeline = FIFO
    put_fifo(stage, "g", 1)
    fail_fifo(stage)
    assert stage.run().counts["Held"] == 1
    stage.clock.advance(3_601)
    stage.run()
    assert numbers(stage, stage.main) == ['{"n": 0}', '{"n": 1}']


def test_a_run_is_idle_again_when_the_waiting_room_has_nothing_due(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    stage.put()
    stage.fail()
    stage.run()
    began = stage.clock()
    assert stage.run().stopped == "nothing to do"
    assert stage.clock() - began <= 2


def test_a_lane_that_has_long_been_empty_is_looked_into_no_more(stage: Stage) -> None:
    stage.add_rule("wait", tenantId="a", action="HOLD")
    stage.put()
    stage.fail()
    stage.run()
    stage.dynamodb.delete_item(
        TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "wait"}}
    )
    stage.clock.advance(10)
    assert stage.run().decisions == {"REDRIVE": 1}
    lanes = [item for item in stage.dynamodb.items("messages") if item["pk"]["S"] == "orders#lanes"]
    assert len(lanes) == 1
    stage.clock.advance(90_000)
    stage.run()
    lanes = [item for item in stage.dynamodb.items("messages") if item["pk"]["S"] == "orders#lanes"]
    assert lanes == []


MEBIBYTE = 1024 * 1024


def full_body(tenant: str = "a") -> str:
    """A body that leaves not a byte for an attribute."""
    start = f'{{"tenantId": "{tenant}", "x": "'
    return start + "x" * (MEBIBYTE - len(start) - 2) + '"}'


@pytest.mark.parametrize(
    ("action", "columns", "place"),
    [
        ("DEFAULT", {}, "main"),
        ("QUARANTINE", {}, "parking"),
        ("DEDICATED_DLQ", {"queue": "slow"}, "dedicated"),
        ("HOLD", {}, "main"),
        ("DELAYED_REDRIVE", {"delay_seconds": 3_600}, "main"),
    ],
)
def test_a_letter_of_exactly_one_mebibyte_survives_every_decision(
    stage: Stage, action: str, columns: dict[str, Any], place: str
) -> None:
    stage.add_rule("one", tenantId="a", action=action, **columns)
    body = full_body()
    letter = stage.put(body)
    stage.fail()
    stage.run()
    if action in ("HOLD", "DELAYED_REDRIVE"):
        assert stage.bodies(stage.dlq) == []
        stage.dynamodb.delete_item(
            TableName="rules", Key={"pipeline": {"S": "orders"}, "rule_id": {"S": "one"}}
        )
        stage.clock.advance(3_601)
        stage.run()
    assert stage.bodies(getattr(stage, place)) == [body]
    stamps = [item for item in stage.dynamodb.items("messages") if "stamp" in item]
    assert [letter in stamp["stamp"]["S"] for stamp in stamps] == [True]


def test_where_only_the_stamp_finds_no_room_the_letter_goes_without_it(stage: Stage) -> None:
    stage.put(f'{{"tenantId": "{"a" * 900}"}}')
    stage.fail()
    stage.sqs.set_queue_attributes(QueueUrl=stage.main, Attributes={"MaximumMessageSize": "1024"})
    report = stage.run()
    assert report.counts["RedriveUnmarked"] == report.counts["Redriven"] == 1


def test_two_copies_alike_both_come_back_on_fifo() -> None:
    """A deduplication id made from anything but the copy would swallow the second one."""
    stage = Stage(FIFO)
    for number in range(2):
        stage.put("{}", MessageGroupId="g", MessageDeduplicationId=f"send{number}")
    fail_fifo(stage)
    assert stage.run().counts["Redriven"] == 2
    assert numbers(stage, stage.main) == ["{}", "{}"]


def test_a_ledger_row_that_cannot_be_understood_keeps_its_own_letter_only(stage: Stage) -> None:
    stage.pipeline = replace(stage.pipeline, consumer_library=True)
    strange, plain = stage.put(), stage.put('{"tenantId": "b"}')
    stage.dynamodb.put_item(
        TableName="messages",
        Item={
            "pk": {"S": f"orders#ledger#{strange}"},
            "sk": {"S": "ledger"},
            "attempt": {"S": "many"},
        },
    )
    stage.fail()
    report = stage.run()
    assert report.counts["Undecided"] == 1
    assert [mark.origin for mark in stage.stamps(stage.main)] == [plain]
    assert len(stage.bodies(stage.dlq)) == 1


def test_a_body_that_is_gone_from_s3_stops_no_other_letter_in_the_room(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    gone = stage.put(f'{{"tenantId": "{"a" * 9_000}"}}')
    for number in range(20):
        stage.put(f'{{"tenantId": "{number}"}}')
    stage.fail()
    stage.run()
    stage.s3.delete_object(Bucket="bodies", Key=f"waiting/orders/{gone}")
    stage.clock.advance(3_601)
    report = stage.run()
    assert report.counts["BadRow"] == 1
    assert report.bad_rows == (f"messages orders#message#{gone} message",)
    assert report.counts["Redriven"] == 20


def test_a_hold_rule_that_becomes_a_typo_lets_nothing_go(stage: Stage) -> None:
    stage.add_rule("wait", tenantId="a", action="HOLD")
    stage.put()
    stage.fail()
    stage.run()
    stage.add_rule("wait", tenantId="a", action="HODL")
    stage.clock.advance(60)
    report = stage.run()
    assert report.moved == 0
    assert len(stage.waiting()) == 1


def test_under_an_open_circuit_no_letter_is_looked_at_and_a_rescue_moves_them(
    stage: Stage,
) -> None:
    changed(stage, message_ttl=30 * 86_400)
    stage.put()
    stage.fail()
    stage.set_circuit("OPEN")
    stage.clock.now = (stage.clock.now // 3_600 + 1) * 3_600
    stage.clock.advance(13 * 86_400)
    assert stage.run().stopped == "circuit orders is OPEN"
    [letter] = stage.sqs.snapshot()
    # By the consumer, before it died.
    assert letter.receive_count == 1
    rescued = stage.rescue()
    assert rescued.counts["Rescued"] == 1
    stage.clock.advance(2 * 86_400)
    assert stage.run().stopped == "circuit orders is OPEN"
    stage.set_circuit("CLOSED")
    assert stage.run().counts["Redriven"] == 1


def test_nothing_is_sent_that_the_function_cannot_live_to_mark(stage: Stage) -> None:
    """Lambda ends the function at its deadline, a minute before the locks end."""
    stage.put()
    stage.fail()
    inner = stage.router

    class Slow:
        def decide(self, questions: Sequence[Question]) -> RouterAnswer:
            stage.clock.advance(53)
            return inner.decide(questions)

        def open_lanes(self, lanes: Sequence[str]) -> LaneAnswer:
            return inner.open_lanes(lanes)

    report = stage.run(router=Slow())
    assert report.counts["TooLateToSend"] == 1
    assert len(stage.bodies(stage.dlq)) == 1


def test_a_table_that_stores_part_of_a_batch_breaks_no_fifo_order() -> None:
    stage = Stage(replace(FIFO, policy=slow_policy(3_600)))
    for number in range(3):
        put_fifo(stage, "g", number)
    fail_fifo(stage)
    real = stage.dynamodb.batch_write_item
    refused = []

    def throttled(**options: Any) -> Any:
        if '"n": 0' in repr(options) and len(refused) < 5:
            refused.append(1)
            return {"UnprocessedItems": options["RequestItems"]}
        return real(**options)

    stage.dynamodb.batch_write_item = throttled  # type: ignore[method-assign]
    stage.run()
    for _ in range(4):
        stage.clock.advance(3_601)
        stage.run()
    assert numbers(stage, stage.main) == [f'{{"n": {number}}}' for number in range(3)]


def test_a_room_that_refuses_letters_leaves_no_intents_behind(stage: Stage) -> None:
    changed(stage, policy=slow_policy(3_600))
    for _ in range(5):
        stage.put()
    stage.fail()
    stage.s3.put_object = refusing  # type: ignore[method-assign]
    stage.dynamodb.update_item = refusing_lanes(stage.dynamodb.update_item)  # type: ignore[method-assign]
    assert stage.run().counts["RoomUnavailable"] == 1
    assert stage.journal() == []


def refusing(**_: Any) -> Any:
    raise client_error("PutObject", "AccessDenied", "no", status=403)


def refusing_lanes(real: Any) -> Any:
    def update_item(**options: Any) -> Any:
        if options["Key"]["pk"]["S"].endswith("#lanes"):
            raise client_error("UpdateItem", "AccessDenied", "no")
        return real(**options)

    return update_item
