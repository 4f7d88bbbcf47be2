"""What becomes of each message of a batch, also when a step raises an error."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from deadletter.circuit.state import (
    BUCKETS,
    NO_END,
    Circuit,
    OutcomeBucket,
    Override,
    Permit,
    State,
)
from deadletter.contract import Blame, Category, Mode
from deadletter.failure.blame import teams_word
from deadletter.failure.fate import Fate
from deadletter.failure.signals import Permanent, Skip, Transient
from deadletter.message import stamp as stamps
from deadletter.message.envelope import Envelope
from deadletter.message.letter import Attribute, Letter
from deadletter.message.queue import SendResult
from deadletter.message.stamp import Stamp
from deadletter.processing.batch import FINISHING_SECONDS, unhandled
from deadletter.processing.delivery import Delivery
from deadletter.processing.guard import CLAIM_MARGIN_SECONDS
from deadletter.processing.idempotency import BusinessKey, Claim, payload_of
from deadletter.processing.result import BatchResult
from deadletter.processing.unguarded import process_unguarded
from deadletter.processing.visibility import LastReceive
from deadletter.settings.backoff import Backoff
from deadletter.settings.json_fields import BadSettings
from deadletter.settings.pipeline import Pipeline
from tests.each_row import each_row
from tests.processing.doubles import DEADLINE, UNAVAILABLE, Desk, Site, record, redriven
from tests.samples import NOW, letter

FIFO = Pipeline("orders", fifo=True)
BROKEN = {"messageId": "m2", "body": 7, "receiptHandle": "handle of m2", "attributes": {}}


def fates(result: BatchResult) -> list[str]:
    return [message.fate.name for message in result.results]


def grouped(message_id: str, group: str = "g") -> dict[str, Any]:
    arn = "arn:aws:sqs:eu-west-1:111122223333:orders.fifo"
    return record(letter(message_id=message_id, MessageGroupId=group), arn=arn)


def three(receive: int = 1) -> list[dict[str, Any]]:
    return [record(letter(message_id=name), receive) for name in ("m1", "m2", "m3")]


# Success.


def test_a_message_is_claimed_before_its_handler_and_done_after() -> None:
    site = Site()
    seen: list[Mapping[str, str]] = []
    result = site.process(record(letter()), handle=lambda _: seen.append(site.claims.states()))
    assert seen == [{"origin:m1": "claimed"}]
    assert site.claims.states() == {"origin:m1": "done"}
    assert site.claims.untils == [DEADLINE + CLAIM_MARGIN_SECONDS]
    assert result.to_response() == {"batchItemFailures": []}
    assert result.counts == {"Processed": 1}


def test_a_successful_batch_costs_only_claims_one_read_and_one_report() -> None:
    site = Site()
    site.process(*three())
    assert site.claims.calls == ["claim", "done"] * 3
    assert site.outcomes.reported == [("orders", 3, 0)]
    assert (site.log.failures, site.log.asked) == ([], [])
    assert site.circuits.reads == [["orders", "orders#config"]]
    assert site.queue.calls == []


def test_the_handler_gets_the_unchanged_record_and_its_delivery() -> None:
    site = Site(Pipeline("orders", context={"tenantId": "body.tenantId"}))
    seen = []
    redriven_record = record(redriven(letter(), attempt=2))
    site.process(redriven_record, handle=seen.append)
    [delivery] = seen
    assert delivery.record is redriven_record
    assert delivery.stamp == Stamp("first", 2, 1)
    assert delivery.document.value["context"] == {"tenantId": "a"}


def test_a_redriven_letter_that_is_processed_is_recorded_as_recovered() -> None:
    site = Site()
    result = site.process(record(redriven(letter(), attempt=2)))
    assert site.log.recoveries == [("first", 2, NOW)]
    assert result.counts == {"Processed": 1, "RedriveSuccess": 1}
    assert result.samples == {"AttemptsBeforeRecovery": (2,)}


def test_a_canary_from_the_dlq_recovers_in_the_life_it_died_in() -> None:
    site = Site()
    dead = letter(DeadLetterQueueSourceArn="arn:aws:sqs:eu-west-1:111122223333:orders")
    result = site.process(record(dead), permit="p")
    assert site.log.recoveries == [("m1", 0, NOW)]
    assert result.counts["RedriveSuccess"] == 1


def test_a_letter_that_carries_its_own_origin_id_again_was_dead_by_its_attempt() -> None:
    """A canary is tried in place: its copy is the first one, and its stamp counts an attempt."""
    site = Site()
    site.process(record(redriven(letter(), attempt=1, origin="m1")))
    assert site.log.recoveries == [("m1", 1, NOW)]


def test_a_full_letter_that_carries_its_stamp_is_not_looked_up() -> None:
    site = Site(raises={"m1": ValueError("x")})
    nine = dict(list(full().attributes.items())[:9])
    site.process(record(redriven(replace(full(), attributes=nine), attempt=2)))
    assert site.log.asked == []
    [(origin, failure)] = site.log.failures
    assert (origin, failure.attempt) == ("first", 2)


@each_row("count", ["0", "-1", "many", "", "1.5"])
def test_a_receive_that_is_not_counted_is_the_first(count: str) -> None:
    site = Site(raises={"m1": ValueError("x")})
    odd = record(letter())
    odd["attributes"]["ApproximateReceiveCount"] = count
    site.process(odd)
    [(_, failure)] = site.log.failures
    assert failure.receive == 1


def test_a_message_that_was_never_dead_is_not_recovered() -> None:
    site = Site()
    site.process(record(letter(), receive=4))
    assert site.log.recoveries == []


def test_a_skip_is_acknowledged_and_is_no_outcome_of_the_dependency() -> None:
    site = Site(raises={"m1": Skip("known")})
    result = site.process(record(redriven(letter())))
    assert fates(result) == ["SKIPPED"]
    assert result.failed == ()
    assert site.claims.states() == {"origin:first": "done"}
    assert site.log.recoveries
    assert site.outcomes.reported == []


# Duplicates.


def test_a_duplicate_is_acknowledged_without_its_handler_and_counted() -> None:
    site = Site()
    site.process(record(letter()))
    result = site.process(record(letter(), receive=2))
    assert site.handled == ["m1"]
    assert result.failed == ()
    assert result.counts == {"dedup.skip": 1}
    assert site.outcomes.reported == [("orders", 1, 0)]


def test_a_duplicate_of_a_redriven_letter_records_the_recovery() -> None:
    """The process that handled it died before it recorded the recovery."""
    site = Site()
    site.claims.rows = {}
    redriven_record = record(redriven(letter()))
    site.process(redriven_record)
    site.log.recoveries.clear()
    assert site.process(redriven_record).counts == {"dedup.skip": 1, "RedriveSuccess": 1}


def test_a_message_claimed_by_another_process_comes_back_without_blame() -> None:
    site = Site()

    def meanwhile(_: object) -> None:
        assert fates(site.process(record(letter()))) == ["BUSY"]

    result = site.process(record(letter()), handle=meanwhile)
    assert fates(result) == ["PROCESSED"]
    [(_, failure)] = site.log.failures
    assert (failure.error_type, failure.explained_by_dependency) == ("BusyElsewhere", True)


def test_a_collision_is_processed_and_counted() -> None:
    site = Site()
    site.claims.collision = True
    assert site.process(record(letter())).counts == {"Processed": 1, "IdempotencyCollision": 1}
    assert site.handled == ["m1"]


def test_without_claims_every_receive_is_processed() -> None:
    site = Site(unguarded=True)
    site.process(record(letter()))
    site.process(record(letter()))
    assert site.handled == ["m1", "m1"]


# Failure.


def test_a_failure_is_recorded_with_all_its_facts() -> None:
    site = Site(raises={"m1": Transient("slow", status=503)})
    result = site.process(record(redriven(letter(), attempt=2), receive=3))
    [(origin, failure)] = site.log.failures
    assert origin == "first"
    assert (failure.at, failure.attempt, failure.receive) == (NOW, 2, 3)
    assert (failure.queue, failure.category) == ("orders", Category.TRANSIENT)
    assert (failure.http_status, failure.error_type) == (503, "Transient")
    assert failure.message == "slow"
    assert failure.fingerprint
    assert not failure.dependency_down
    assert result.failed == ("m1",)
    assert result.counts == {"ProcessingFailure": 1}
    assert site.claims.states() == {"origin:first": "withdraw"}


def test_a_failure_does_not_affect_other_messages() -> None:
    site = Site(raises={"m2": ValueError("x")})
    result = site.process(*three())
    assert fates(result) == ["PROCESSED", "FAILED", "PROCESSED"]
    assert site.outcomes.reported == [("orders", 2, 0)]


def test_a_pause_that_the_dependency_asked_for_explains_a_failure_and_shows_nothing() -> None:
    """Three lives in a pause of its endpoint would else make a letter POISON."""

    class NotCalled(Transient):
        untried = True

    site = Site(raises={"m1": NotCalled("paused", status=429)})
    [result] = site.process(record(letter())).results
    [(_, failure)] = site.log.failures
    assert (failure.explained_by_dependency, result.outcomes) == (True, ())


def test_a_failure_is_explained_by_a_circuit_that_is_not_closed() -> None:
    site = Site(raises={"m1": ValueError("x"), "m2": ValueError("x")})
    site.circuits.open()
    site.process(*three(), permit="p")
    assert [failure.dependency_down for _, failure in site.log.failures] == [True, True]
    assert len(site.circuits.reads) == 1


def test_a_failure_is_not_blamed_on_the_letter_if_the_circuit_is_unknown() -> None:
    site = Site(raises={"m1": ValueError("x")})
    site.circuits.raises = UNAVAILABLE["circuits"]()
    result = site.process(record(letter()))
    [(_, failure)] = site.log.failures
    assert failure.dependency_down
    assert result.counts["CircuitsUnavailable"] == 1


@pytest.mark.parametrize("error", [TimeoutError(), ConnectionRefusedError(), ValueError("x")])
def test_an_unknown_failure_comes_back_after_its_backoff(error: Exception) -> None:
    site = Site(raises={"m1": error})
    site.process(record(letter(), receive=2))
    [[(handle, seconds)]] = site.queue.calls
    assert handle == "handle of m1"
    assert 1 <= seconds <= 20


def test_one_call_hides_all_failed_messages() -> None:
    error = Transient(retry_after=30)
    site = Site(raises={"m1": error, "m3": error})
    site.process(*three())
    [waits] = site.queue.calls
    assert [handle for handle, _ in waits] == ["handle of m1", "handle of m3"]


def test_a_message_comes_back_no_earlier_than_its_retry_after() -> None:
    site = Site(raises={"m1": Transient(retry_after=234.2)})
    site.process(record(letter()))
    assert site.queue.calls == [[("handle of m1", 235)]]


def test_a_record_without_a_receipt_handle_is_not_hidden() -> None:
    error = Transient(retry_after=30)
    site = Site(raises={"m1": error, "m2": error})
    bare = {name: value for name, value in record(letter()).items() if name != "receiptHandle"}
    site.process(bare, record(letter(message_id="m2")))
    [hidden] = site.queue.calls
    assert [handle for handle, _ in hidden] == ["handle of m2"]


def test_no_message_is_hidden_for_longer_than_sqs_allows() -> None:
    patient = Pipeline("orders", retry=Backoff(cap=86_400.0))
    site = Site(patient, raises={"m1": Transient(retry_after=86_400.0)})
    site.process(record(letter()))
    [[(_, seconds)]] = site.queue.calls
    assert 40_000 < seconds <= 43_200 - 600


@each_row("body", ["", "{", "[" * 100_000, "9" * 5_000, "NaN", '"\\ud800"', "{}"])
def test_a_body_that_is_not_an_object_reaches_the_handler(body: str) -> None:
    site = Site()
    assert fates(site.process(record(letter(body)))) == ["PROCESSED"]


@pytest.mark.parametrize(
    "bad",
    [
        BROKEN,
        {"messageId": "m2"},
        {"messageId": "m2", "body": "", "messageAttributes": {"a": {"dataType": "Binary"}}},
        {"messageId": "m2", "body": "", "attributes": None},
    ],
)
def test_a_record_that_is_no_letter_fails_alone(bad: dict[str, Any]) -> None:
    site = Site()
    result = site.process(record(letter()), bad, record(letter(message_id="m3")))
    assert fates(result) == ["PROCESSED", "FAILED", "PROCESSED"]
    [(origin, failure)] = site.log.failures
    assert (origin, failure.category) == ("m2", Category.SCHEMA)
    assert site.outcomes.reported == [("orders", 2, 0)]


def test_a_record_that_trips_a_bug_of_ours_comes_back_alone() -> None:
    class Odd(dict[str, Any]):
        def get(self, key: str, default: Any = None) -> Any:
            if key == "messageAttributes":
                raise ZeroDivisionError
            return super().get(key, default)

    site = Site()
    odd = Odd(record(letter(message_id="m2")))
    result = site.process(record(letter()), odd, record(letter(message_id="m3")))
    assert fates(result) == ["PROCESSED", "BROKEN", "PROCESSED"]
    assert isinstance(result.results[1].error, ZeroDivisionError)
    assert result.failed == ("m2",)


@each_row("bad", [{}, {"messageId": None, "body": ""}, "no record", None, 7])
def test_a_record_without_an_id_brings_the_whole_batch_back(bad: Any) -> None:
    """Lambda deletes what the response does not name, and reads an empty id as the whole batch."""
    site = Site()
    result = site.process(record(letter()), bad)
    assert result.to_response() == {"batchItemFailures": [{"itemIdentifier": ""}]}
    assert site.log.failures == []


# A letter that could not carry its stamp.


def full(message_id: str = "m1") -> Letter:
    ten = {f"a{number}": Attribute("String", "x") for number in range(10)}
    return letter(message_id=message_id, attributes=ten)


def test_a_full_letter_that_fails_is_looked_up_in_the_ledger() -> None:
    site = Site(raises={"m1": ValueError("x")})
    site.log.stamps["m1"] = Stamp("first", 3, 1)
    site.process(record(full()))
    [(origin, failure)] = site.log.failures
    assert (origin, failure.attempt) == ("first", 3)


def test_a_failure_says_which_decision_began_its_life() -> None:
    site = Site(raises={"m1": ValueError("x"), "m2": ValueError("x")})
    site.log.stamps["m1"] = Stamp(
        "first", 1, 1, rule="slow", decision="REDRIVE", because="attempt 1, backoff of 9 s", at=7
    )
    site.process(record(full()), record(letter(message_id="m2")))
    failures = dict(site.log.failures)
    sent, first = failures["first"], failures["m2"]
    assert (sent.sent_at, sent.sent_because) == (7, "attempt 1, backoff of 9 s")
    assert sent.sent_rule == "slow"
    assert (first.sent_at, first.sent_because, first.sent_rule) == (None, "", "")


def test_a_full_letter_with_a_forged_stamp_is_looked_up_too() -> None:
    site = Site(raises={"m1": ValueError("x")})
    forged = {**full().attributes, "Redrive": Attribute("String", "{}")}
    del forged["a0"]
    site.process(record(replace(full(), attributes=forged)))
    assert site.log.asked == ["m1"]


def test_a_full_letter_that_was_dead_is_recovered_by_its_kept_stamp() -> None:
    site = Site()
    site.log.stamps = {"m1": Stamp("first", attempt=2)}
    assert site.process(record(full())).counts["RedriveSuccess"] == 1
    [(origin, attempt, _)] = site.log.recoveries
    assert (origin, attempt) == ("first", 2)


def test_a_full_letter_from_the_dlq_that_the_ledger_does_not_know_recovers_as_itself() -> None:
    site = Site()
    arn = "arn:aws:sqs:eu-west-1:111122223333:orders"
    dead = replace(full(), system={**full().system, "DeadLetterQueueSourceArn": arn})
    site.process(record(dead), permit="p")
    assert site.log.recoveries == [("m1", 0, NOW)]


def test_a_full_letter_in_its_first_life_is_not_recovered() -> None:
    site = Site()
    site.process(record(full()))
    assert (site.log.asked, site.log.recoveries) == (["m1"], [])


def test_a_letter_that_fills_a_message_is_looked_up_too() -> None:
    site = Site(raises={"m1": ValueError("x")})
    site.process(record(letter("x" * (1024 * 1024 - 500))))
    assert site.log.asked == ["m1"]


def test_a_letter_with_room_for_a_stamp_is_not_looked_up() -> None:
    site = Site(raises={"m1": ValueError("x")})
    site.process(record(letter()))
    assert site.log.asked == []


# Parking.


@pytest.mark.parametrize("category", [Category.SCHEMA, Category.BUSINESS])
def test_a_permanent_failure_is_parked_and_acknowledged(category: Category) -> None:
    site = Site(raises={"m1": Permanent("no such product", category=category)})
    result = site.process(record(redriven(letter(), attempt=2)))
    [envelope] = site.lot.sent
    stamp = stamps.parse(envelope.attributes["Redrive"].value)
    assert stamp is not None
    assert (stamp.origin, stamp.attempt, stamp.at) == ("first", 2, int(NOW))
    assert (stamp.decision, stamp.reason) == ("PARK", "PERMANENT")
    assert str(category) in str(stamp.because)
    assert envelope.body == letter().body
    assert result.failed == ()
    assert result.counts == {"MessageMovedToParkingLot": 1}
    assert len(site.log.failures) == 1
    assert (site.outcomes.reported, site.queue.calls) == ([], [])


def test_a_permanent_failure_is_parked_in_the_queue_of_its_category() -> None:
    queues = {"business": "later", "schema": "schema", "KEY_CONFLICT": "schema"}
    for category, lot in ((Category.SCHEMA, "schema"), (Category.BUSINESS, "later")):
        error = Permanent("no such product", category=category)
        site = Site(Pipeline("orders", parking=queues), raises={"m1": error}, lot_id=lot)
        assert site.process(record(letter())).failed == ()
        assert len(site.lot.sent) == 1


@pytest.mark.parametrize(
    ("answer", "why"),
    [("refused", "AccessDenied"), ("failed", "InternalError"), ("silence", "no answer")],
)
def test_a_letter_that_the_parking_lot_did_not_confirm_comes_back(answer: str, why: str) -> None:
    site = Site(raises={"m1": Permanent()})
    site.lot.answer = answer
    result = site.process(record(letter()))
    assert result.failed == ("m1",)
    assert [noticed.why for noticed in result.troubles] == [why]
    assert result.counts == {"ProcessingFailure": 1, "ParkingUnavailable": 1}
    site.lot.answer = "confirmed"
    assert site.process(record(letter(), receive=2)).failed == ()


@pytest.mark.parametrize(
    ("answer", "published"),
    [("silence", [("PossibleDuplicate", 1)]), ("refused", []), ("failed", [])],
)
def test_a_letter_that_may_have_been_parked_is_counted_before_it_can_be_parked_again(
    answer: str, published: list[tuple[str, int]]
) -> None:
    """At once: the process may end before the batch is reported."""
    site = Site(raises={"m1": Permanent()})
    site.lot.answer = answer
    site.process(record(letter()))
    assert site.published == published
    site.lot.answer = "confirmed"
    site.process(record(letter(), receive=2))
    assert len(site.lot.sent) == 2
    assert site.published == published


def test_a_letter_whose_parking_process_died_is_counted_before_it_is_parked_again() -> None:
    site = Site(raises={"m1": Permanent()})
    site.claims.taken_over = True
    before_the_send: list[tuple[str, int]] = []
    send = site.lot.send

    def watched(batch: Sequence[Envelope]) -> SendResult:
        before_the_send.extend(site.published)
        return send(batch)

    site.lot.send = watched  # type: ignore[method-assign]
    assert site.process(record(letter())).failed == ()
    assert before_the_send == [("PossibleDuplicate", 1)]


def test_a_letter_that_a_rule_sent_back_is_parked_without_that_rule() -> None:
    """The rule did not park it: its failure did."""
    site = Site(raises={"m1": Permanent()})
    sent = stamps.attribute(Stamp("first", 1, 1, rule="slow", decision="REDRIVE"))
    back = redriven(letter())
    site.process(record(replace(back, attributes={"Redrive": sent})))
    [envelope] = site.lot.sent
    stamp = stamps.parse(envelope.attributes["Redrive"].value)
    assert stamp is not None
    assert (stamp.rule, stamp.decision, stamp.reason) == (None, "PARK", "PERMANENT")


def test_a_copy_that_was_parked_is_not_parked_again() -> None:
    """Its acknowledgement was lost: it fails again, and is acknowledged without another send."""
    site = Site(raises={"m1": Permanent()})
    site.process(record(letter()))
    result = site.process(record(letter(), receive=2))
    assert len(site.lot.sent) == 1
    assert result.failed == ()


def test_a_parked_letter_that_a_person_releases_is_processed() -> None:
    """The letter's own key is not claimed by parking: the released letter would be a duplicate."""
    site = Site(raises={"m1": Permanent()})
    site.process(record(letter()))
    released = redriven(replace(letter(), message_id="m9"), attempt=0, origin="m1")
    result = site.process(record(released))
    assert site.handled == ["m1", "m9"]
    assert result.counts == {"Processed": 1, "RedriveSuccess": 1}


@pytest.mark.parametrize("error", [ValueError("x"), Transient(status=503), Transient(status=404)])
def test_no_other_failure_is_parked(error: Exception) -> None:
    site = Site(raises={"m1": error})
    assert site.process(record(letter())).failed == ("m1",)
    assert site.lot.sent == []


def test_in_mode_observe_nothing_is_parked() -> None:
    site = Site(Pipeline("orders", mode=Mode.OBSERVE), raises={"m1": Permanent()})
    assert site.process(record(letter())).failed == ("m1",)
    assert site.lot.sent == []


def test_a_letter_without_room_for_its_stamp_is_left_to_the_redriver() -> None:
    site = Site(raises={"m1": Permanent()})
    assert site.process(record(full())).failed == ("m1",)
    assert site.lot.sent == []


def test_an_unknown_parking_queue_parks_nothing() -> None:
    site = Site(Pipeline("orders", parking={"PERMANENT": "x"}), raises={"m1": Permanent()})
    result = site.process(record(letter()))
    assert result.failed == ("m1",)
    assert result.counts["ParkingUnavailable"] == 1


# FIFO.


def test_the_first_failure_of_a_group_returns_the_rest_of_it() -> None:
    site = Site(FIFO, raises={"m2": Transient(retry_after=100)})
    batch = [grouped("m1"), grouped("m2"), grouped("x1", "h"), grouped("m3"), grouped("x2", "h")]
    result = site.process(*batch)
    assert fates(result) == ["PROCESSED", "FAILED", "PROCESSED", "HELD_BACK", "PROCESSED"]
    assert result.failed == ("m2", "m3")
    assert site.handled == ["m1", "m2", "x1", "x2"]
    # The message that was held back is recorded without blame: without a row it would be a CRASH.
    assert [(origin, failure.error_type) for origin, failure in site.log.failures] == [
        ("m2", "Transient"),
        ("m3", "GroupHeldBack"),
    ]
    assert site.log.failures[1][1].explained_by_dependency
    # They are hidden for the same time: else the rest would block the group for longer.
    assert site.queue.calls == [[("handle of m2", 100), ("handle of m3", 100)]]


def test_an_untried_message_holds_back_the_rest_of_its_group() -> None:
    site = Site(FIFO)
    site.claims.raises["claim"] = UNAVAILABLE["claims"]()
    assert fates(site.process(grouped("m1"), grouped("m2"))) == ["UNGUARDED", "HELD_BACK"]


def test_an_unreadable_record_holds_back_its_group() -> None:
    broken = {**BROKEN, "attributes": {"MessageGroupId": "g"}}
    assert fates(Site(FIFO).process(broken, grouped("m3"))) == ["FAILED", "HELD_BACK"]


def test_a_parked_letter_holds_back_no_message() -> None:
    site = Site(FIFO, raises={"m1": Permanent()})
    assert fates(site.process(grouped("m1"), grouped("m2"))) == ["PARKED", "PROCESSED"]


def test_a_tenant_of_a_fair_queue_is_no_fifo_group() -> None:
    site = Site(raises={"m1": ValueError()})
    assert fates(site.process(grouped("m1"), grouped("m2"))) == ["FAILED", "PROCESSED"]


# The circuit.


def test_outcomes_are_reported_once_for_each_dependency() -> None:
    pipeline = Pipeline("orders", circuit_key="body.tenantId")
    site = Site(pipeline, raises={"m2": TimeoutError(), "m4": Permanent()})
    bodies = {"m1": "a", "m2": "a", "m3": "b", "m4": "c"}
    site.process(*[record(letter(f'{{"tenantId":"{t}"}}', n)) for n, t in bodies.items()])
    assert sorted(site.outcomes.reported) == [("a", 1, 1), ("b", 1, 0)]


def test_refused_credentials_count_against_the_configuration_not_the_dependency() -> None:
    site = Site(raises={"m1": Transient(status=403)})
    site.raises["m2"] = type("Unauthorized", (Exception,), {"status": 401})()
    result = site.process(*three()[:2])
    assert site.outcomes.totals == {"orders#config": (0, 2)}
    assert result.counts == {"ProcessingFailure": 2, "ConfigurationFailure": 2}
    assert {failure.blame for _, failure in site.log.failures} == {Blame.CONFIGURATION}


def test_a_success_counts_for_the_configuration_only_while_failures_count_against_it() -> None:
    pipeline = Pipeline("orders")
    number = pipeline.circuit.bucket_of(NOW)
    bucket, old = OutcomeBucket(number, bad=1), OutcomeBucket(number - BUCKETS, bad=1)
    for circuit, counted in (
        (Circuit("orders#config"), False),
        (Circuit("orders#config", buckets=(old,)), False),
        (Circuit("orders#config", streak=1), True),
        (Circuit("orders#config", buckets=(bucket,)), True),
    ):
        site = Site(pipeline)
        site.circuits.circuits["orders#config"] = circuit
        site.process(*three())
        keys = [key for key, _, _ in site.outcomes.reported]
        assert keys == (["orders", "orders#config"] if counted else ["orders"])


def test_a_success_after_a_refusal_in_one_batch_counts_for_the_configuration() -> None:
    site = Site(raises={"m1": Transient(status=403)})
    site.process(*three())
    assert site.outcomes.totals == {"orders": (2, 0), "orders#config": (2, 1)}


def test_an_open_circuit_for_configuration_refuses_too() -> None:
    site = Site()
    site.circuits.open("orders#config", until=NOW + 30)
    assert fates(site.process(*three())) == ["REFUSED"] * 3
    assert site.handled == []


def test_what_the_team_says_of_an_error_is_reported_and_recorded() -> None:
    site = Site(raises={"m1": KeyError("stock"), "m2": TimeoutError()})
    site.team = teams_word(dependency_errors=KeyError, ignored_errors=TimeoutError)
    site.process(*three())
    assert site.outcomes.totals == {"orders": (1, 1)}
    assert [failure.blame for _, failure in site.log.failures] == ["dependency", "neither"]


@pytest.mark.parametrize(("untried", "reported"), [(True, []), (False, [("orders", 0, 1)])])
def test_a_dependency_that_got_no_request_is_not_blamed(untried: bool, reported: list[Any]) -> None:
    error = type("Unfit", (Exception,), {"status": 503, "untried": untried})()
    site = Site(raises={"m1": error})
    site.process(record(letter()))
    assert site.outcomes.reported == reported


def test_a_canary_that_fails_by_its_own_fault_says_nothing() -> None:
    site = Site(raises={"m1": KeyError("customer"), "m2": TimeoutError()})
    shown = [site.process(item, permit="p").circuits.get("orders") for item in three()]
    assert shown == [None, "failure", "success"]


def test_letters_are_refused_until_their_open_circuit_may_close() -> None:
    site = Site()
    site.circuits.open(until=NOW + 40)
    result = site.process(*three())
    assert fates(result) == ["REFUSED"] * 3
    assert site.handled == site.claims.calls == site.outcomes.reported == []
    assert {failure.error_type for _, failure in site.log.failures} == {"RefusedWhileOpen"}
    [hidden] = site.queue.calls
    assert [handle for handle, _ in hidden] == [f"handle of m{n}" for n in (1, 2, 3)]
    assert all(50 <= seconds <= 60 for _, seconds in hidden)
    assert result.counts == {"RefusedWhileOpen": 3}


def test_a_message_asks_again_soon_whether_a_person_still_holds_its_circuit_open() -> None:
    site = Site()
    override = Override(State.OPEN, "ada", "until I say so", NO_END)
    site.circuits.circuits["orders"] = Circuit(
        "orders", State.OPEN, open_until=NO_END, forced=override
    )
    site.process(record(letter()))
    [[(_, seconds)]] = site.queue.calls
    assert seconds == 60


def test_an_open_circuit_of_one_key_refuses_only_its_letters() -> None:
    site = Site(Pipeline("orders", circuit_key="body.tenantId"))
    site.circuits.open("b", until=NOW + 60)
    batch = [record(letter(f'{{"tenantId":"{t}"}}', f"m{t}")) for t in "ab"]
    assert fates(site.process(*batch)) == ["PROCESSED", "REFUSED"]
    assert len(site.circuits.reads) == 1


def test_the_circuits_of_a_whole_batch_are_read_at_once() -> None:
    site = Site(Pipeline("orders", circuit_key="body.to"))
    bodies = ('{"to": "b"}', '{"to": "a"}', '{"to": "b"}', "no key")
    site.process(*(record(letter(body, f"m{n}")) for n, body in enumerate(bodies)), {})
    [read] = site.circuits.reads
    assert read == ["a", "a#config", "b", "b#config", "orders", "orders#config"]


def test_an_unknown_circuit_refuses_nothing() -> None:
    site = Site()
    site.circuits.raises = UNAVAILABLE["circuits"]()
    assert fates(site.process(*three())) == ["PROCESSED"] * 3
    assert len(site.circuits.reads) == 1


# The canary.


def test_only_the_canary_is_not_refused() -> None:
    site = Site()
    for owner, until, refused in (
        ("p", NOW + 9, False),
        ("another", NOW + 9, True),
        ("p", NOW, True),
    ):
        permit = Permit(owner, until)
        site.circuits.circuits["orders"] = Circuit("orders", State.HALF_OPEN, permit=permit)
        stamp = stamps.attribute(Stamp("first", 1, 1, canary="p"))
        canary = redriven(letter())
        canary = replace(canary, attributes={**canary.attributes, stamps.NAME: stamp})
        result = site.process(record(canary))
        assert fates(result) == ["REFUSED" if refused else "PROCESSED"]


def test_a_canary_is_judged_by_its_probe_alone() -> None:
    site = Site(raises={"m1": Transient(status=503)})
    site.circuits.open(until=NOW + 60)
    result = site.process(record(letter()), permit="p")
    assert site.handled == ["m1"]
    assert result.to_response() == {
        "batchItemFailures": [{"itemIdentifier": "m1"}],
        "deadletter": {"circuits": {"orders": "failure"}},
    }
    assert (site.outcomes.reported, site.queue.calls) == ([], [])
    assert len(site.log.failures) == 1


def test_a_canary_is_never_parked() -> None:
    site = Site(raises={"m1": Permanent()})
    result = site.process(record(letter()), permit="p")
    assert result.failed == ("m1",)
    assert result.to_response()["deadletter"] == {"circuits": {}}
    assert site.lot.sent == []


def test_a_processed_canary_is_a_success_and_a_duplicate_is_neutral() -> None:
    site = Site()
    first = site.process(record(letter()), permit="p").to_response()
    again = site.process(record(letter()), permit="p").to_response()
    well = {"orders": "success", "orders#config": "success"}
    assert first == {
        "batchItemFailures": [],
        "deadletter": {"circuits": well},
    }
    assert again == {"batchItemFailures": [], "deadletter": {"circuits": {}}}


def test_a_canary_that_is_refused_its_credentials_says_nothing_of_the_dependency() -> None:
    site = Site(raises={"m1": Transient(status=401)})
    response = site.process(record(letter()), permit="p").to_response()
    assert response["deadletter"]["circuits"] == {"orders#config": "failure"}


@pytest.mark.parametrize("error", [Skip(), Permanent(category=Category.SCHEMA)])
def test_a_canary_without_evidence_is_neutral(error: Exception) -> None:
    site = Site(raises={"m1": error})
    assert site.process(record(letter()), permit="p").circuits == {}


def test_a_canary_without_a_guard_is_neutral() -> None:
    site = Site()
    site.claims.raises["claim"] = UNAVAILABLE["claims"]()
    result = site.process(record(letter()), permit="p")
    assert (result.circuits, result.failed) == ({}, ("m1",))


# What becomes of the message after an error.


Break = Callable[[Site, Exception], None]


def break_claim(site: Site, error: Exception) -> None:
    site.claims.raises["claim"] = error


def break_done(site: Site, error: Exception) -> None:
    site.claims.raises["done"] = error


def break_release(site: Site, error: Exception) -> None:
    site.claims.raises["withdraw"] = error


def break_log(site: Site, error: Exception) -> None:
    site.log.raises = error


def break_circuits(site: Site, error: Exception) -> None:
    site.circuits.raises = error


def break_outcomes(site: Site, error: Exception) -> None:
    site.outcomes.raises = error


def break_queue(site: Site, error: Exception) -> None:
    site.queue.raises = error


def break_lot(site: Site, error: Exception) -> None:
    site.lot.raises = error


BREAKS: list[tuple[Break, str]] = [
    (break_claim, "claims"),
    (break_done, "claims"),
    (break_release, "claims"),
    (break_log, "ledger"),
    (break_circuits, "circuits"),
    (break_outcomes, "circuits"),
    (break_queue, "queue"),
    (break_lot, "queue"),
]


@each_row("bug", [False, True])
@each_row(("how", "port"), BREAKS)
def test_no_error_loses_a_message_or_repeats_an_effect(how: Break, port: str, bug: bool) -> None:
    """A message leaves its queue only processed, or parked with a confirmation."""
    site = Site(raises={"m2": ValueError("x"), "m3": Permanent()})
    how(site, UNAVAILABLE["a bug" if bug else port]())
    result = site.process(*three())
    if how is break_claim:
        assert site.handled == []
        assert result.failed == ("m1", "m2", "m3")
        return
    # The effect of the first message has happened, so it must not come back.
    assert site.handled == ["m1", "m2", "m3"]
    parked = {"m3"} if site.lot.sent else set()
    assert set(result.failed) == {"m2", "m3"} - parked
    assert "m1" not in result.failed


@each_row(
    ("how", "port", "metric"),
    [
        (break_claim, "claims", "IdempotencyUnavailable"),
        (break_done, "claims", "IdempotencyUnavailable"),
        (break_release, "claims", "IdempotencyUnavailable"),
        (break_log, "ledger", "LedgerUnavailable"),
        (break_circuits, "circuits", "CircuitsUnavailable"),
        (break_queue, "queue", "VisibilityUnchanged"),
        (break_lot, "queue", "ParkingUnavailable"),
        (break_log, "a bug", "ConsumerLibraryError"),
        (break_claim, "a bug", "ConsumerLibraryError"),
    ],
)
def test_each_error_is_counted_and_logged(how: Break, port: str, metric: str) -> None:
    site = Site(raises={"m2": ValueError("x"), "m3": Permanent()})
    how(site, UNAVAILABLE[port]())
    result = site.process(*three())
    assert result.counts[metric] >= 1
    assert any(metric in line.values() for line in result.log_lines())


def test_a_claim_whose_withdrawal_has_no_answer_still_counts_as_ours() -> None:
    """Without a newer owner there is no reason not to park; the claim ends by its lease."""
    site = Site(raises={"m2": ValueError("x"), "m3": Permanent()})
    site.claims.raises["withdraw"] = UNAVAILABLE["claims"]()
    result = site.process(*three())
    assert fates(result) == ["PROCESSED", "FAILED", "PARKED"]


def test_a_parking_claim_without_an_answer_parks_nothing() -> None:
    """Else a copy that comes back could be parked twice."""

    class NoParking(Desk):
        def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
            if key.text.startswith("parked:"):
                raise UNAVAILABLE["claims"]()
            return super().claim(key, owner, until)

    site = Site(raises={"m1": Permanent()}, claims=NoParking())
    assert fates(site.process(record(letter()))) == ["FAILED"]
    assert site.lot.sent == []


def test_without_claims_a_permanent_failure_is_parked() -> None:
    site = Site(unguarded=True, raises={"m1": Permanent()})
    assert fates(site.process(record(letter()))) == ["PARKED"]
    assert len(site.lot.sent) == 1


def test_a_copy_that_another_process_is_parking_comes_back() -> None:
    site = Site(raises={"m1": Permanent()})
    copy = record(letter())
    site.claims.rows["parked:m1", payload_of(letter())] = "claimed"
    assert fates(site.process(copy)) == ["FAILED"]
    assert site.lot.sent == []


def test_every_failure_keeps_the_error_of_its_handler() -> None:
    """For callers that show tracebacks."""
    error, final = ValueError("x"), Permanent()
    site = Site(raises={"m2": error, "m3": final})
    assert [result.error for result in site.process(*three()).results] == [None, error, final]


def test_circuits_that_cannot_be_read_are_asked_once_a_batch() -> None:
    site = Site(raises={"m1": ValueError("x"), "m2": ValueError("x"), "m3": ValueError("x")})
    site.circuits.raises = UNAVAILABLE["circuits"]()
    site.process(*three())
    assert len(site.circuits.reads) == 1


def test_a_letter_whose_stamp_is_unknown_stays_processed() -> None:
    site = Site()
    site.log.raises = UNAVAILABLE["ledger"]()
    assert fates(site.process(record(full()))) == ["PROCESSED"]


def test_an_unavailable_ledger_costs_no_message() -> None:
    site = Site(raises={"m2": ValueError("x")})
    site.log.raises = UNAVAILABLE["ledger"]()
    result = site.process(record(redriven(letter())), *three()[1:])
    assert fates(result) == ["PROCESSED", "FAILED", "PROCESSED"]
    assert result.counts["LedgerUnavailable"] == 2


@pytest.mark.parametrize("dead_letter", [full(), letter("x" * (1024 * 1024 - 800))])
def test_a_letter_is_not_parked_while_its_stamp_is_unknown(dead_letter: Letter) -> None:
    site = Site(raises={"m1": Permanent()})
    site.log.raises = UNAVAILABLE["ledger"]()
    result = site.process(record(dead_letter))
    assert result.failed == ("m1",)
    assert result.counts == {"ProcessingFailure": 1, "LedgerUnavailable": 2}


def test_a_process_that_lost_its_lease_counts_it_and_parks_nothing() -> None:
    site = Site(raises={"m2": Permanent()})
    site.claims.fenced = True
    result = site.process(*three()[:2])
    assert fates(result) == ["PROCESSED", "FAILED"]
    assert result.counts["LeaseLost"] == 2
    assert site.lot.sent == []


def test_messages_that_could_not_be_hidden_are_counted() -> None:
    site = Site(raises={"m1": ValueError(), "m2": ValueError()})
    site.queue.failing = 2
    assert site.process(*three()).counts["VisibilityUnchanged"] == 2


def test_no_message_is_begun_shortly_before_the_deadline() -> None:
    """If the process is killed during an effect, whether it happened is unknown."""
    site = Site()

    def slow(_: object) -> None:
        site.clock.now = DEADLINE - FINISHING_SECONDS

    result = site.process(*three(), handle=slow)
    assert fates(result) == ["PROCESSED", "LATE", "LATE"]
    assert site.queue.calls == [[("handle of m2", 0), ("handle of m3", 0)]]
    assert [late.wait for late in result.results[1:]] == [0.0, 0.0]


def test_a_function_with_one_second_uses_most_of_it() -> None:
    site = Site()
    result = site.consumer().process([record(letter())], deadline=site.clock.now + 1.0)
    assert fates(result) == ["PROCESSED"]


@each_row(
    ("seconds", "end", "fate"),
    [
        (30.0, 26.99, "PROCESSED"),
        (30.0, 27.0, "LATE"),
        # A fifth of the time, if that is less than three seconds.
        (1.0, 0.79, "PROCESSED"),
        (1.0, 0.81, "LATE"),
        (0.0, 0.0, "LATE"),
    ],
)
def test_the_last_three_seconds_or_fifth_of_the_time_begin_no_message(
    seconds: float, end: float, fate: str
) -> None:
    site = Site()
    site.clock.now = 0.0
    consumer = site.consumer(lambda _: setattr(site.clock, "now", end))
    first, second = consumer.process(three()[:2], deadline=seconds).results
    assert first.fate.name == ("PROCESSED" if seconds else "LATE")
    assert second.fate.name == fate


@pytest.mark.parametrize(("end", "recorded"), [(28.19, 2), (28.2, 0)])
def test_the_last_two_seconds_record_no_untried_message(end: float, recorded: int) -> None:
    site = Site()
    site.clock.now = 0.0
    consumer = site.consumer(lambda _: setattr(site.clock, "now", end))
    result = consumer.process(three(), deadline=30.0)
    assert fates(result) == ["PROCESSED", "LATE", "LATE"]
    assert len(site.log.failures) == recorded


def test_the_time_that_a_batch_takes_counts_to_the_twelve_hours_of_its_messages() -> None:
    """SQS counts them from the receive, and refuses a longer wait altogether."""
    site = Site(Pipeline("orders", retry=Backoff(cap=86_400.0)))

    def slow(_: object) -> None:
        site.clock.advance(20)
        raise Transient(retry_after=86_400.0)

    site.process(record(letter()), handle=slow)
    assert site.queue.calls == [[("handle of m1", 42_580)]]


@pytest.mark.parametrize("delay", [0.3, 10.0])
def test_untried_messages_are_recorded_only_while_there_is_time(delay: float) -> None:
    """If the process is killed while recording, the processed messages come back too."""
    site = Site()
    site.log.takes = delay, site.clock
    batch = [record(letter(message_id=f"m{number}")) for number in range(10)]

    def slow(_: object) -> None:
        site.clock.now = DEADLINE - FINISHING_SECONDS

    result = site.process(*batch, handle=slow)
    assert fates(result) == ["PROCESSED", *["LATE"] * 9]
    assert 1 <= len(site.log.failures) < 9
    assert len(site.queue.calls[0]) == 9
    assert site.clock.now - delay < DEADLINE - 0.6 * FINISHING_SECONDS


def test_a_message_given_back_untried_is_recorded_under_its_origin_and_in_its_life() -> None:
    site = Site()
    site.circuits.open()
    site.log.stamps["m2"] = Stamp("kept", 5, 1)
    dead = redriven(letter(message_id="m1"), attempt=2)
    site.process(record(dead), record(full("m2")), record(letter(message_id="m3")))
    recorded = [(origin, failure.attempt) for origin, failure in site.log.failures]
    assert recorded == [("first", 2), ("kept", 5), ("m3", 0)]
    assert all(failure.dependency_down for _, failure in site.log.failures)
    assert {failure.message for _, failure in site.log.failures} == {"given back untried"}


def test_an_unavailable_ledger_is_not_called_for_each_untried_message() -> None:
    site = Site()
    site.claims.raises = {"claim": UNAVAILABLE["claims"]()}
    site.log.raises = UNAVAILABLE["ledger"]()
    assert site.process(*three()).counts["LedgerUnavailable"] == 1


def test_a_message_that_trips_a_bug_of_ours_is_recorded_without_blame() -> None:
    site = Site()
    site.claims.raises = {"claim": UNAVAILABLE["a bug"]()}
    site.process(record(letter()))
    [(origin, failure)] = site.log.failures
    assert (origin, failure.error_type) == ("m1", "ConsumerLibraryError")
    assert failure.explained_by_dependency


async def _awaited(_: object) -> None:
    raise AssertionError("a coroutine that is not awaited does not run")


def _yielding(_: object) -> Iterator[None]:
    yield


async def _yielding_later(_: object) -> AsyncIterator[None]:
    yield


@pytest.mark.parametrize("handle", [_awaited, _yielding, _yielding_later])
def test_a_handler_that_is_async_or_a_generator_has_processed_nothing(handle: Any) -> None:
    """It returned before it began: if the message were acknowledged, it would be lost."""
    site = Site()
    result = site.process(record(letter()), handle=handle)
    assert result.failed == ("m1",)
    assert site.claims.states() == {"origin:m1": "withdraw"}
    [(_, failure)] = site.log.failures
    assert failure.error_type == "TypeError"
    assert process_unguarded([record(letter())], handle, NOW).failed == ("m1",)


@pytest.mark.parametrize("error", [SystemExit(2), asyncio.CancelledError()])
def test_a_handler_that_exits_or_is_cancelled_fails_only_its_message(error: BaseException) -> None:
    """argparse exits for a bad argument; a cancelled task raises CancelledError in its handler."""
    site = Site(raises={"m2": error})
    result = site.process(*three())
    assert fates(result) == ["PROCESSED", "FAILED", "PROCESSED"]
    [(_, failure)] = site.log.failures
    assert (failure.category, failure.error_type) == (Category.TRANSIENT, type(error).__name__)

    def each(message: Mapping[str, Any]) -> None:
        if message["messageId"] == "m2":
            raise error

    assert process_unguarded(three(), each, NOW).failed == ("m2",)


def test_an_interrupt_ends_the_process() -> None:
    site = Site(raises={"m1": KeyboardInterrupt()})
    with pytest.raises(KeyboardInterrupt):
        site.process(record(letter()))


def test_a_forged_stamp_is_ignored_and_counted() -> None:
    forged = redriven(letter(), attempt=9)
    site = Site()
    result = site.process(
        record(replace(forged, system={**forged.system, "SenderId": "AIDAPRODUCER"}))
    )
    assert result.counts == {"Processed": 1, "ForgedStamp": 1}
    assert site.log.recoveries == []
    [line] = result.log_lines()
    assert line["why"] == "the attribute Redrive is reserved: give yours another name"


def test_a_parked_letter_keeps_its_own_attribute_of_our_name() -> None:
    own = Attribute("Binary.x", b"7")
    site = Site(raises={"m1": Permanent("no such product")})
    result = site.process(record(letter(attributes={"Redrive": own})))
    [envelope] = site.lot.sent
    assert envelope.attributes["Redrive-original"] == own
    assert result.counts == {
        "MessageMovedToParkingLot": 1,
        "ForgedStamp": 1,
        "AttributeRenamed": 1,
    }
    assert "to Redrive-original" in [line.get("why") for line in result.log_lines()]


def test_the_log_says_that_the_name_is_reserved_without_the_attributes_value() -> None:
    site = Site()
    result = site.process(record(letter(attributes={"Redrive": Attribute("String", "secret")})))
    assert "secret" not in str(result.log_lines())


def test_a_pipeline_with_an_invalid_key_expression_consumes_nothing() -> None:
    with pytest.raises(BadSettings, match="idempotency_key"):
        Site(Pipeline("orders", idempotency_key="[")).consumer()


def test_log_lines_contain_no_message_content() -> None:
    body = '{"tenantId": "a", "secret": "Rumpelstiltskin"}'
    site = Site(
        raises={"m1": ValueError(f"cannot read {body}"), "m2": Permanent("Rumpelstiltskin")}
    )
    result = site.process(*[record(letter(body, name)) for name in ("m1", "m2", "m3")])
    assert len(result.log_lines()) == 2
    assert "Rumpelstiltskin" not in str(result.log_lines())
    assert "Rumpelstiltskin" not in repr(result)


def test_a_bug_of_ours_that_quotes_the_message_is_logged_without_it() -> None:
    site = Site()
    site.claims.raises = {"claim": ZeroDivisionError("Rumpelstiltskin")}
    result = site.process(record(letter('{"name": "Rumpelstiltskin"}')))
    assert fates(result) == ["BROKEN"]
    assert "Rumpelstiltskin" not in str(result.log_lines())


# Switched off.


def test_a_record_that_is_no_letter_reaches_the_handler_when_switched_off() -> None:
    def each(_: object) -> None:
        raise ValueError

    assert process_unguarded([{"messageId": "m1"}], each, NOW).failed == ("m1",)


def test_failures_are_still_partial_when_switched_off() -> None:
    site = Site()
    seen: list[str] = []

    def each(message: Mapping[str, Any]) -> None:
        seen.append(message["messageId"])
        if message["messageId"] == "m2":
            raise Permanent("x")
        if message["messageId"] == "m3":
            raise Skip

    result = process_unguarded(three(), each, NOW)
    assert seen == ["m1", "m2", "m3"]
    assert result.to_response() == {"batchItemFailures": [{"itemIdentifier": "m2"}]}
    assert fates(result) == ["PROCESSED", "FAILED", "SKIPPED"]
    assert isinstance(result.results[1].error, Permanent)
    assert site.claims.calls == []


def test_an_interrupt_ends_the_process_when_switched_off() -> None:
    def each(_: object) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        process_unguarded([record(letter())], each, NOW)


def test_messages_without_a_group_are_no_group_when_switched_off() -> None:
    def each(message: Mapping[str, Any]) -> None:
        if message["messageId"] == "m1":
            raise ValueError

    alone = [
        {**record(letter(message_id=name)), "eventSourceARN": "arn:aws:sqs:eu-west-1:1:q.fifo"}
        for name in ("m1", "m2")
    ]
    assert process_unguarded(alone, each, NOW).failed == ("m1",)


def test_a_handler_that_rewrites_its_record_leaks_no_content_when_switched_off() -> None:
    def each(message: Any) -> None:
        message["body"] = {"name": message["body"].strip('"')}
        message["eventSourceARN"] = None
        raise ValueError(f"no customer {message['body']['name']}")

    batch = [grouped("m1"), grouped("m2")]
    batch[0]["body"] = '"rumpelstiltskin"'
    result = process_unguarded(batch, each, NOW)
    assert "rumpelstiltskin" not in str(result.log_lines())
    assert fates(result) == ["FAILED", "HELD_BACK"]


def test_the_order_of_a_group_is_kept_when_switched_off() -> None:
    def each(message: Mapping[str, Any]) -> None:
        if message["messageId"] == "m1":
            raise ValueError

    batch = [grouped("m1"), grouped("m2"), grouped("x", "h")]
    result = process_unguarded(batch, each, NOW)
    assert result.failed == ("m1", "m2")
    # A message without a result would be deleted unprocessed.
    assert fates(result) == ["FAILED", "HELD_BACK", "PROCESSED"]
    fair = [record(letter(message_id=name, MessageGroupId="g")) for name in ("m1", "m2")]
    assert process_unguarded(fair, each, NOW).failed == ("m1",)


def test_every_fate_is_either_acknowledged_or_named_in_the_response() -> None:
    assert {fate for fate in Fate if BatchResult((_of(fate),)).failed} == {
        *(Fate.FAILED, Fate.BUSY, Fate.UNGUARDED, Fate.REFUSED, Fate.HELD_BACK),
        *(Fate.BEHIND, Fate.LATE, Fate.UNFINISHED, Fate.BROKEN),
    }


def _of(fate: Fate) -> Any:
    from deadletter.processing.result import MessageResult

    return MessageResult("m1", fate)


def test_a_consumer_without_a_handler_fails_every_message() -> None:
    site = Site()
    result = replace(site.consumer(), handle=unhandled).process(
        [record(letter())], deadline=DEADLINE
    )
    assert result.failed == ("m1",)
    assert site.lot.sent == []


def test_what_waits_is_hidden_before_what_may_come_back_at_once() -> None:
    """If time is short, a message that comes back too early costs more than one that waits."""
    site = Site(raises={"m1": ValueError("x"), "m2": Transient(retry_after=60)})
    site.queue.most = 5
    site.last_receive = LastReceive(site.queue, site.clock)

    def handle(delivery: Delivery) -> None:
        if delivery.letter.message_id == "m2":
            site.clock.now = DEADLINE - FINISHING_SECONDS
        site.handle(delivery)

    # The first one dies of this receive, and those behind the second are given back untried.
    dies = record(letter(message_id="m1"), 5)
    messages = [record(letter(message_id=f"m{number}")) for number in range(2, 25)]
    site.process(dies, *messages, handle=handle)
    first = site.queue.calls[0]
    assert first[:2] == [("handle of m2", 60), ("handle of m1", 0)]
    assert all(len(call) <= 10 for call in site.queue.calls)
    assert sum(map(len, site.queue.calls)) == 24
