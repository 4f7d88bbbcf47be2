"""A pipeline may keep no text of a failure: not in the ledger, the logs or the parking lot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.contract import LedgerMessage
from deadletter.failure.signals import Permanent
from deadletter.settings.pipeline import Pipeline
from tests.processing.doubles import Site, record
from tests.samples import letter

WORDS = "the warehouse is closed"
UNREADABLE = {"messageId": "m1", "body": 7, "receiptHandle": "h", "attributes": {}}


def written(site: Site, *records: Any) -> str:
    """All that a batch leaves behind: its log lines, ledger rows, metrics and parked letters."""
    result = site.process(*records)
    rows = [failure.to_data() for _, failure in site.log.failures]
    stamps = [str(envelope) for envelope in site.lot.sent]
    return json.dumps([*result.log_lines(), *rows, result.counts, *stamps])


@pytest.mark.parametrize("error", [ValueError(WORDS), Permanent(WORDS)], ids=["back", "parked"])
def test_without_a_ledger_message_no_text_of_the_failure_is_kept(error: Exception) -> None:
    kept = Site(raises={"m1": error})
    assert WORDS in written(kept, record(letter()))
    silent = Site(Pipeline("orders", ledger_message=LedgerMessage.NONE), raises={"m1": error})
    assert WORDS not in written(silent, record(letter()))
    [(_, failure)], [(_, redacted)] = silent.log.failures, kept.log.failures
    assert failure.message == ""
    assert failure.fingerprint == redacted.fingerprint
    assert failure.error_type == type(error).__name__


def test_without_a_ledger_message_an_unreadable_message_leaves_no_text() -> None:
    assert Site().process(UNREADABLE).results[0].diagnosis.message
    silent = Site(Pipeline("orders", ledger_message=LedgerMessage.NONE))
    [result] = silent.process(UNREADABLE).results
    assert result.diagnosis is not None
    assert result.diagnosis.message == ""


def test_without_a_ledger_message_a_defect_of_the_library_leaves_no_text() -> None:
    silent = Site(Pipeline("orders", ledger_message=LedgerMessage.NONE))
    silent.claims.raises["claim"] = ZeroDivisionError(WORDS)
    assert WORDS not in written(silent, record(letter()))
