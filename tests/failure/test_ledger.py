"""The rows of the ledger, and rows that cannot be read."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import Blame, Reason
from deadletter.failure.failure import Failure
from deadletter.failure.ledger import (
    LIVES,
    NO_ROW,
    RECEIVES,
    UNREADABLE,
    AboutLetter,
    LedgerRow,
    Recovery,
    is_free,
    row_from_item,
    slot,
)
from deadletter.message import stamp as stamps
from deadletter.message.stamp import Stamp
from tests.each_row import each_row
from tests.samples import NOW, failed

MARK = Stamp("origin", 2, 1)


def test_every_field_of_a_row_is_read() -> None:
    first, second = (
        failed(http_status=404),
        failed(at=NOW - 30, attempt=1, receive=2, queue="orders"),
    )
    item = {
        "f1_0": second.to_data(),
        "f0_1": {**first.to_data(), "at": Decimal(str(first.at)), "attempt": Decimal(0)},
        "attempt": Decimal(3),
        "stamp": stamps.attribute(MARK).value,
        "recovered_at": Decimal("1790000001.5"),
        "recovered_attempt": Decimal(2),
        "ttl": Decimal(1),
    }
    assert row_from_item(item) == LedgerRow(
        (first, second), 3, MARK, recovered_at=1790000001.5, recovered_attempt=2
    )


def test_what_a_row_says_of_its_letter_once_is_read() -> None:
    row = row_from_item(
        {
            "context": {"tenantId": "t-1"},
            "endpoint": "t-1/default",
            "size": Decimal(1_204),
            "first_at": Decimal("1790000001.5"),
            "parked_at": Decimal("1790000002.5"),
            "parked_as": "QUARANTINED",
            "parked_rule": "stop-t-1",
        }
    )
    assert row.about == AboutLetter({"tenantId": "t-1"}, "t-1/default", 1_204)
    assert (row.first_at, row.parked_at) == (1790000001.5, 1790000002.5)
    assert (row.parked_as, row.parked_rule) == (Reason.QUARANTINED, "stop-t-1")


@each_row(
    ("name", "value"),
    [
        ("context", "t-1"),
        ("size", "large"),
        ("first_at", None),
        ("parked_at", "yesterday"),
        ("parked_as", "TIRED"),
        ("parked_as", [1]),
    ],
)
def test_a_malformed_fact_that_is_only_for_people_keeps_no_letter_from_its_decision(
    name: str, value: Any
) -> None:
    """UNREADABLE would leave the letter in the DLQ."""
    assert row_from_item({name: value}) == NO_ROW


def test_failures_are_ordered_by_time() -> None:
    many = [failed(at=NOW + n % 7, attempt=n, fingerprint=str(n)) for n in range(20)]
    row = row_from_item({f"f{n}_0": failure.to_data() for n, failure in enumerate(many)})
    assert [failure.at for failure in row.failures] == sorted(failure.at for failure in many)
    assert row.last is not None
    assert row.last.at == NOW + 6


def test_the_attempt_is_at_least_that_of_the_last_failure() -> None:
    item = {"f4_1": failed(at=10.0, attempt=4).to_data(), "attempt": Decimal(2)}
    assert row_from_item(item).attempt == 4
    assert row_from_item({**item, "attempt": Decimal(7)}).attempt == 7


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(1, 20)), max_size=200))
def test_a_row_has_a_fixed_number_of_slots(history: list[tuple[int, int]]) -> None:
    written = {slot(failed(attempt=life, receive=receive)) for life, receive in history}
    assert len(written) <= LIVES * RECEIVES
    # No two of the last lives share a slot.
    newest = range(40, 40 + LIVES)
    assert len({slot(failed(attempt=life, receive=5)) for life in newest}) == LIVES
    wider = {slot(failed(attempt=life), lives=20) for life in range(20)}
    assert len(wider) == 20


def test_an_item_without_attributes_is_an_empty_row() -> None:
    assert row_from_item({}) == NO_ROW


@each_row(
    "item",
    [
        {"f0_0": None},
        {"f0_0": 5},
        {"f1_1": "x"},
        {"f1_1": {}},
        {"f12_34": {**failed().to_data(), "category": "new in the next version"}},
        {"f0_0": failed().to_data(), "f0_1": [failed().to_data()]},
        {"recovered_at": "once"},
        {"recovered_attempt": "the first"},
        {"attempt": "many"},
        {"attempt": None},
        {"stamp": "{}"},
        {"stamp": "not a stamp"},
        {"stamp": {"origin": "o"}},
    ],
)
def test_a_malformed_row_is_unreadable_and_not_empty(item: dict[str, Any]) -> None:
    assert row_from_item(item) is UNREADABLE


def lives(*fingerprints: str, **common: Any) -> tuple[Failure, ...]:
    return tuple(
        failed(attempt=number, fingerprint=fingerprint, **common)
        for number, fingerprint in enumerate(fingerprints)
    )


@each_row(
    ("failures", "expected"),
    [
        ((), {}),
        (lives("a", "a", "a"), {"a": 3}),
        (lives("a", "b", "a"), {"a": 2, "b": 1}),
        # Five receives in one life are one life.
        (tuple(failed(attempt=0, at=NOW + n) for n in range(5)), {"f1": 1}),
        (lives("a", "a", "a", dependency_down=True), {}),
        (lives("a", "a", "a", http_status=503), {}),
        (lives("", "", ""), {}),
        ((*lives("a", "a"), failed(attempt=2, fingerprint="a", http_status=429)), {"a": 2}),
    ],
)
def test_lives_count_only_failures_that_the_dependency_does_not_explain(
    failures: tuple[Failure, ...], expected: dict[str, int]
) -> None:
    assert LedgerRow(failures).lives_by_fingerprint() == expected


def test_a_life_uses_an_attempt_by_its_own_failures_alone() -> None:
    refused, tried = failed(attempt=0, blame=Blame.CONFIGURATION), failed(attempt=1)
    row = LedgerRow((refused, tried))
    assert (row.used_attempt(0), row.used_attempt(1)) == (False, True)
    # What is not on record may have been tried.
    assert row.used_attempt(2)


def test_a_retry_is_free_after_a_life_that_was_spared_or_used_no_attempt() -> None:
    row = LedgerRow((failed(attempt=0, blame=Blame.CONFIGURATION), failed(attempt=1)))
    lives = (Stamp("origin", 0, 1), Stamp("origin", 1, 1), Stamp("origin", 1, 1, spared=2))
    assert [is_free(mark, row) for mark in lives] == [True, False, True]


@each_row(
    ("attempt", "receive", "name"),
    [(0, 1, "f0_1"), (0, 2, "f0_0"), (7, 3, "f7_0"), (8, 1, "f0_1"), (9, 4, "f1_0")],
)
def test_a_row_keeps_eight_lives_and_two_receives_of_each(
    attempt: int, receive: int, name: str
) -> None:
    """More would make each write of the row dearer than a KB or two."""
    assert slot(failed(attempt=attempt, receive=receive)) == name


def test_a_row_that_cannot_be_read_is_not_an_empty_one() -> None:
    assert row_from_item({"attempt": "many"}).unreadable
    assert not NO_ROW.unreadable
    assert not row_from_item({}).unreadable


@pytest.mark.parametrize("way", Recovery)
def test_only_what_is_known_as_processed_speaks_of_the_dependency(way: Recovery) -> None:
    row = row_from_item({"recovered_as": str(way)})
    assert row.recovered_as is way
    assert row.recovered_unasked is (way is not Recovery.PROCESSED)


@each_row(
    ("row", "outcome"),
    [
        (LedgerRow(recovered_at=1.0, recovered_attempt=1), None),
        (LedgerRow(recovered_at=1.0, recovered_attempt=3), None),
        (
            LedgerRow(recovered_at=1.0, recovered_attempt=2, recovered_as=Recovery.SKIPPED),
            "recovered",
        ),
        (
            LedgerRow(recovered_at=1.0, recovered_attempt=1, ended_attempt=2, ended_as="parked"),
            "parked",
        ),
        # A failed receive is not the end of the life.
        (LedgerRow((failed(attempt=2),)), None),
    ],
)
def test_a_row_says_how_one_life_ended_in_the_consumer(row: LedgerRow, outcome: str | None) -> None:
    assert row.outcome_in(2) == outcome


def test_a_failure_without_a_count_of_receives_is_of_the_first() -> None:
    data = failed().to_data()
    del data["receive"]
    row = row_from_item({"f0_1": data})
    assert row.last is not None
    assert row.last.receive == 1
