"""What a record tells of a message is asked once for all records that are alike."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime

import pytest

from console.operations.matching import FoundMessage, Matcher
from console.operations.selection import choice
from deadletter.contract import Blame
from deadletter.failure.cause_index import CauseEntry
from deadletter.failure.ledger import AboutLetter
from deadletter.settings.pipeline import Pipeline

NOW = datetime(2026, 11, 30, tzinfo=UTC)
AT = NOW.timestamp()
ENTRY = CauseEntry(
    "m1", "a" * 16, AT, AT - 60, category="transient", error_type="Timeout", http_status=503,
    attempt=1, about=AboutLetter({"tenantId": "acme"}),
)  # fmt: skip
OTHERS = {
    "cause=" + "b" * 16: replace(ENTRY, fingerprint="b" * 16),
    "age>1h": replace(ENTRY, first_at=AT - 7_200),
    "category=schema": replace(ENTRY, category="schema"),
    "error=KeyError": replace(ENTRY, error_type="KeyError"),
    "status=404": replace(ENTRY, http_status=404),
    "attempt=2": replace(ENTRY, attempt=2),
    "tenant=cedar": replace(ENTRY, about=AboutLetter({"tenantId": "cedar"})),
    'match={"failure":{"blame":["dependency"]}}': replace(ENTRY, blame=Blame.DEPENDENCY),
}


@pytest.mark.parametrize(("term", "meant"), OTHERS.items())
def test_one_that_differs_in_what_is_asked_is_told_apart(term: str, meant: CauseEntry) -> None:
    pipeline = Pipeline("orders", context={"tenantId": "body.tenant"})
    matcher = Matcher(choice((), (), (term,)), pipeline, NOW)
    found = [FoundMessage("orders", "dlq", each.origin, entry=each) for each in (ENTRY, meant)]
    assert [matcher.matches(each) for each in (*found, *found)] == [False, True, False, True]
