"""The response, the counts and the log of one batch."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from deadletter.contract import Blame, Category
from deadletter.failure.classify import Diagnosis
from deadletter.failure.fate import Fate
from deadletter.processing.result import (
    BatchResult,
    MessageResult,
    NoticedTrouble,
    Trouble,
    Troubles,
    outcomes_of,
)

DOWN = Diagnosis(Category.TRANSIENT, "Timeout", "slow", http_status=503, blame=Blame.DEPENDENCY)


def failed(
    message_id: str = "m1",
    *,
    fate: Fate = Fate.FAILED,
    category: Category = Category.TRANSIENT,
    **more: Any,
) -> MessageResult:
    return MessageResult(message_id, fate, replace(DOWN, category=category), **more)


def test_the_log_line_of_a_failure_has_its_facts() -> None:
    [line] = BatchResult((failed(wait=12.34),)).log_lines()
    assert line == {
        "what": "not processed",
        "message_id": "m1",
        "fate": "ProcessingFailure",
        "category": "transient",
        "blame": "dependency",
        "error_type": "Timeout",
        "why": "slow",
        "fingerprint": DOWN.fingerprint,
        "http_status": 503,
        "wait": 12.3,
    }


def test_a_log_line_leaves_out_what_is_unknown() -> None:
    without_status = Diagnosis(Category.TRANSIENT, "Timeout", "slow")
    lines = BatchResult(
        (
            MessageResult("m1", Fate.BUSY),
            MessageResult("m2", Fate.LATE, wait=0.0),
            MessageResult("m3", Fate.PARKED, without_status),
        )
    ).log_lines()
    assert lines[0] == {"what": "not processed", "message_id": "m1", "fate": str(Fate.BUSY)}
    assert lines[1]["wait"] == 0.0
    assert lines[2]["what"] == "parked"
    assert "http_status" not in lines[2]
    assert "wait" not in lines[2]


def test_processed_skipped_and_repeated_messages_are_not_logged() -> None:
    fates = (Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE)
    assert BatchResult(tuple(MessageResult("m", fate) for fate in fates)).log_lines() == []


def test_the_log_line_of_a_trouble_says_why_only_if_it_is_known() -> None:
    troubles = (
        NoticedTrouble("m1", Trouble.LEASE_LOST),
        NoticedTrouble("m2", Trouble.NOT_PARKED, "AccessDenied"),
    )
    assert BatchResult(troubles=troubles).log_lines() == [
        {"what": "trouble", "message_id": "m1", "trouble": "LeaseLost"},
        {
            "what": "trouble",
            "message_id": "m2",
            "trouble": "ParkingUnavailable",
            "why": "AccessDenied",
        },
    ]


def test_the_counts_add_up_fates_troubles_and_recoveries() -> None:
    result = BatchResult(
        (failed("m1"), failed("m2"), MessageResult("m3", Fate.PROCESSED)),
        (NoticedTrouble("m1", Trouble.LEDGER), NoticedTrouble("m2", Trouble.LEDGER)),
        recovered=(1, 3),
    )
    assert result.counts == {
        "ProcessingFailure": 2,
        "Processed": 1,
        "LedgerUnavailable": 2,
        "RedriveSuccess": 2,
    }
    assert BatchResult().counts == {}


def test_each_recovered_letter_says_how_many_re_drives_it_took() -> None:
    assert BatchResult(recovered=(1, 3)).samples == {"AttemptsBeforeRecovery": (1, 3)}
    assert BatchResult().samples == {}


def test_failures_are_counted_by_category_whether_they_come_back_or_are_parked() -> None:
    results = (
        failed("m1"),
        failed("m2", fate=Fate.PARKED, category=Category.SCHEMA),
        failed("m3", category=Category.SCHEMA),
        failed("m4", fate=Fate.UNGUARDED),
        MessageResult("m5", Fate.PROCESSED),
    )
    assert BatchResult(results).failures_by_category == {"transient": 1, "schema": 2}
    assert BatchResult().failures_by_category == {}


def test_only_a_canarys_response_speaks_of_circuits() -> None:
    assert BatchResult((failed(),)).to_response() == {
        "batchItemFailures": [{"itemIdentifier": "m1"}]
    }
    assert BatchResult((failed(),), canary=True).to_response()["deadletter"] == {
        "circuits": {},
    }


def test_a_failure_outweighs_successes_circuit_by_circuit() -> None:
    bad = outcomes_of("dependency/bank", Blame.DEPENDENCY, 1.0)
    good = outcomes_of("dependency/bank", None, 1.0)
    well = outcomes_of("orders", None, 1.0)
    for outcomes in ((*bad, *good, *well), (*good, *well, *bad)):
        result = MessageResult("m1", Fate.PROCESSED, outcomes=outcomes)
        assert BatchResult((result,)).circuits == {
            "dependency/bank": "failure",
            "dependency/bank#config": "success",
            "orders": "success",
            "orders#config": "success",
        }


def test_an_error_is_neither_printed_nor_compared() -> None:
    """Its text may quote the message."""
    first, second = failed(error=ValueError("Rumpelstiltskin")), failed(error=None)
    assert "Rumpelstiltskin" not in repr(first)
    assert first == second


def test_a_broken_configuration_is_counted() -> None:
    wrong_key = Diagnosis(Category.INTEGRATION, "Refused", blame=Blame.CONFIGURATION, message="")
    result = BatchResult((failed(), MessageResult("m2", Fate.FAILED, wrong_key)))
    assert result.counts == {"ProcessingFailure": 2, "ConfigurationFailure": 1}
    # One that never reached the handler is another trouble.
    untried = MessageResult("m3", Fate.UNGUARDED, wrong_key)
    assert BatchResult((untried,)).counts == {"IdempotencyUnavailable": 1}


def broken() -> None:
    raise ZeroDivisionError("Rumpelstiltskin")


def test_an_unexpected_error_is_noticed_by_its_type_and_place_alone() -> None:
    """Only the library's own errors are known to quote no message."""
    troubles = Troubles(1_790_000_000.0)
    with troubles.noticing(LookupError, Trouble.LEDGER, "m1"):
        raise LookupError("the table gave no answer")
    with troubles.noticing(LookupError, Trouble.LEDGER, "m2"):
        broken()
    place = f"tests/processing/test_result.py:{broken.__code__.co_firstlineno + 1} in broken"
    assert troubles.noticed == (
        NoticedTrouble("m1", Trouble.LEDGER, "the table gave no answer"),
        NoticedTrouble("m2", Trouble.BROKEN, f"ZeroDivisionError at {place}"),
    )
    assert troubles.has(Trouble.LEDGER)
    assert not troubles.has(Trouble.CLAIMS)
