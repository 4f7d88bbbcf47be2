"""What the ledger knows of a letter, and what it refuses to guess."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from deadletter import stamp as stamps
from deadletter.failure import Failure
from deadletter.ledger import NO_ROW, UNREADABLE, Row, row_from_item
from deadletter.stamp import Stamp
from tests.domain.samples import NOW, failed

MARK = Stamp("origin", 2, 1)


def test_a_row_is_read_whole() -> None:
    one = failed(http_status=404)
    item = {
        "failures": [{**one.to_data(), "at": Decimal(str(one.at)), "attempt": Decimal(0)}],
        "attempt": Decimal(3),
        "released_at": Decimal("1789999999.5"),
        "stamp": stamps.attribute(MARK).value,
        "ttl": Decimal(1),
    }
    assert row_from_item(item) == Row((one,), 3, 1789999999.5, MARK)


def test_an_item_that_says_nothing_is_an_empty_row() -> None:
    assert row_from_item({}) == NO_ROW


@pytest.mark.parametrize(
    "item",
    [
        {"failures": None},
        {"failures": 5},
        {"failures": ["x"]},
        {"failures": [{}]},
        {"failures": [{**failed().to_data(), "category": "new in the next version"}]},
        {"attempt": "many"},
        {"attempt": None},
        {"released_at": "yesterday"},
        {"stamp": "{}"},
        {"stamp": "not a stamp"},
        {"stamp": {"origin": "o"}},
    ],
)
def test_a_row_that_cannot_be_understood_is_not_an_empty_row(item: dict[str, Any]) -> None:
    assert row_from_item(item) is UNREADABLE


def lives(*fingerprints: str, **common: Any) -> tuple[Failure, ...]:
    return tuple(
        failed(attempt=number, fingerprint=one, **common) for number, one in enumerate(fingerprints)
    )


@pytest.mark.parametrize(
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
def test_lives_are_counted_by_what_the_dependency_does_not_explain(
    failures: tuple[Failure, ...], expected: dict[str, int]
) -> None:
    assert Row(failures).lives_by_fingerprint() == expected


def test_what_was_before_a_release_is_forgiven() -> None:
    before, at, after = (failed(at=moment, attempt=n) for n, moment in enumerate((1.0, 2.0, 3.0)))
    row = Row((before, at, after), released_at=2.0)
    assert row.since_release == (at, after)
    assert row.last == after
    assert row.lives_by_fingerprint() == {"f1": 2}
    assert Row((before,), released_at=2.0).last is None
    assert NO_ROW.last is None
