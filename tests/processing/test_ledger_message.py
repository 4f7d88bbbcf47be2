"""A pipeline may keep no text of a failure: not in the ledger, the logs or the parking lot."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.contract import LedgerKeeps
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
    silent = Site(Pipeline("orders", ledger=LedgerKeeps.NONE), raises={"m1": error})
    assert WORDS not in written(silent, record(letter()))
    [(_, failure)], [(_, redacted)] = silent.log.failures, kept.log.failures
    assert failure.message == ""
    assert failure.fingerprint == redacted.fingerprint
    assert failure.error_type == type(error).__name__


def test_without_a_ledger_message_an_unreadable_message_leaves_no_text() -> None:
    assert Site().process(UNREADABLE).results[0].diagnosis.message
    silent = Site(Pipeline("orders", ledger=LedgerKeeps.NONE))
    [result] = silent.process(UNREADABLE).results
    assert result.diagnosis is not None
    assert result.diagnosis.message == ""


def test_without_a_ledger_message_a_defect_of_the_library_leaves_no_text() -> None:
    silent = Site(Pipeline("orders", ledger=LedgerKeeps.NONE))
    silent.claims.raises["claim"] = ZeroDivisionError(WORDS)
    assert WORDS not in written(silent, record(letter()))


@pytest.mark.parametrize("kept", LedgerKeeps)
def test_log_and_ledger_say_where_an_unexpected_error_was_raised(kept: LedgerKeeps) -> None:
    site = Site(Pipeline("orders", ledger=kept))
    result = site.process(record(letter()), handle=lambda _: price_of({}))
    [line] = result.log_lines()
    place = f"tests/processing/test_ledger_message.py:{PRICE_OF.co_firstlineno + 1} in price_of"
    assert line["place"] == place
    assert line["traceback"][0] == "KeyError"
    assert line["traceback"][-1] == f"  {place}"
    assert json.loads(json.dumps(line)) == {**line, "traceback": list(line["traceback"])}
    [(_, failure)] = site.log.failures
    assert failure.place == place


def price_of(order: dict[str, int]) -> int:
    return order["price"]


PRICE_OF = price_of.__code__
