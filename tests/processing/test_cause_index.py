"""The consumer keeps the index of causes: who fails is in it, and who is processed leaves it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from deadletter.consumer import runtime
from deadletter.consumer.runtime import Runtime
from deadletter.contract import ENDPOINT_KEY, LedgerKeeps
from deadletter.failure.ledger import AboutLetter, RecordsUnavailable
from deadletter.failure.signals import Permanent, Skip
from deadletter.processing.lambda_event import invoker_of
from deadletter.processing.result import Trouble
from deadletter.settings.pipeline import Pipeline
from deadletter.testing import Context
from deadletter.testing.clock import Clock
from tests.processing.doubles import DEADLINE, Site, record, redriven
from tests.samples import NOW, letter

WEBHOOK = Pipeline("orders", context={"tenantId": "body.tenant"}, circuit_key=ENDPOINT_KEY)
LETTER = letter(body='{"tenant": "t-1"}')


def test_a_failure_says_what_its_letter_is_about() -> None:
    site = Site(WEBHOOK, raises={"m1": ValueError("no")})
    site.process(record(LETTER))
    assert site.log.about == {
        "m1": AboutLetter({"tenantId": "t-1"}, "t-1/default", len(LETTER.body))
    }


def test_of_a_hashed_context_no_value_reaches_the_ledger() -> None:
    hashed = replace(WEBHOOK, ledger=LedgerKeeps.HASHED)
    site = Site(hashed, raises={"m1": ValueError("no")})
    site.process(record(LETTER))
    assert "t-1" not in str(site.log.about)
    assert "hash:" in str(site.log.about)


def test_a_message_that_cannot_be_read_says_nothing_of_itself() -> None:
    site = Site(WEBHOOK)
    site.process({"messageId": "m1", "body": 7, "receiptHandle": "h", "attributes": {}})
    assert site.log.about == {"m1": None}


def test_a_failure_keeps_the_id_of_its_invocation() -> None:
    site = Site(raises={"m1": ValueError("no")})
    consumer = site.consumer()
    consumer.process([record(LETTER)], deadline=DEADLINE, request_id="invocation-1")
    consumer.process([record(LETTER)], deadline=DEADLINE)
    assert [failure.request_id for _, failure in site.log.failures] == ["invocation-1", ""]


def test_a_failure_keeps_the_version_of_its_consumer() -> None:
    site = Site(raises={"m1": ValueError("no")})
    replace(site.consumer(), version="4.2.1").process([record(LETTER)], deadline=DEADLINE)
    assert [failure.version for _, failure in site.log.failures] == ["4.2.1"]


def test_the_version_is_read_from_the_environment_once(monkeypatch: pytest.MonkeyPatch) -> None:
    consumer = Site().consumer()
    monkeypatch.setenv("DEADLETTER_VERSION", "4.2.1")
    monkeypatch.setattr(
        runtime, "runtime_from", lambda _: Runtime(consumer, Clock(), print, app="a")
    )
    found = runtime.current_runtime.__wrapped__().consumer
    assert found is not None
    assert (found.version, consumer.version) == ("4.2.1", "")


def test_the_id_of_an_invocation_is_read_from_lambdas_context() -> None:
    context = Context(Clock(), NOW + 3)
    assert invoker_of(context)["request_id"] == context.aws_request_id
    assert invoker_of(None)["request_id"] == ""


@pytest.mark.parametrize("error", [None, Skip()], ids=["processed", "skipped"])
def test_a_message_that_is_processed_at_a_later_receive_leaves_the_index(
    error: Exception | None,
) -> None:
    site = Site(raises={} if error is None else {"m1": error})
    result = site.process(record(LETTER, receive=2))
    assert site.log.left_index == ["m1"]
    assert (site.log.recoveries, result.counts.get("RedriveSuccess", 0)) == ([], 0)


def test_a_duplicate_of_a_processed_message_leaves_the_index_too() -> None:
    """The process that handled it may have died before it wrote anything."""
    site = Site()
    site.process(record(LETTER))
    site.process(record(LETTER, receive=2))
    assert site.log.left_index == ["m1"]


def test_a_message_that_is_processed_at_once_costs_no_write() -> None:
    site = Site()
    site.process(record(LETTER))
    assert site.log.left_index == []


def test_a_redriven_letter_leaves_the_index_with_its_recovery() -> None:
    site = Site()
    site.process(record(redriven(LETTER), receive=2))
    assert (site.log.left_index, len(site.log.recoveries)) == ([], 1)


def test_a_ledger_without_an_answer_changes_nothing_for_a_processed_message() -> None:
    site = Site()
    site.log.raises = RecordsUnavailable("no answer")
    result = site.process(record(LETTER, receive=2))
    assert result.results[0].acknowledged
    assert result.troubles[0].trouble is Trouble.LEDGER
    assert site.handled == ["m1"]


def test_a_parked_letter_is_noted_also_if_no_run_waits_for_it() -> None:
    site = Site(raises={"m1": Permanent("no")})
    site.process(record(LETTER))
    assert site.log.notes == [("m1", NOW, "PERMANENT", "")]
    assert site.log.parkings == []


def test_a_letter_is_parked_all_the_same_if_no_note_of_it_can_be_written() -> None:
    site = Site(raises={"m1": Permanent("no")})
    site.log.raises = RecordsUnavailable("no answer")
    result = site.process(record(LETTER))
    assert result.results[0].acknowledged
    assert len(site.lot.sent) == 1
