"""Why a letter failed, and whether the letter is to blame."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.failure.failure import PERMANENT, Category, Failure, from_data
from tests.samples import failed, texts


@pytest.mark.parametrize(
    ("changes", "explained"),
    [
        ({}, False),
        ({"http_status": 200}, False),
        ({"http_status": 400}, False),
        ({"http_status": 407}, False),
        ({"http_status": 408}, True),
        ({"http_status": 409}, False),
        ({"http_status": 429}, True),
        ({"http_status": 499}, False),
        ({"http_status": 500}, True),
        ({"http_status": 503}, True),
        ({"http_status": 599}, True),
        ({"http_status": 600}, False),
        ({"error_type": "Timeout"}, True),
        ({"error_type": "ConnectionRefused"}, True),
        ({"error_type": "timeout"}, False),
        ({"error_type": "ValueError"}, False),
        ({"dependency_down": True}, True),
        ({"dependency_down": True, "category": Category.BUSINESS}, True),
    ],
)
def test_a_busy_or_silent_dependency_explains_a_failure(
    changes: dict[str, Any], explained: bool
) -> None:
    assert failed(**changes).explained_by_dependency is explained


def test_time_cures_neither_schema_nor_business() -> None:
    assert {Category.SCHEMA, Category.BUSINESS} == PERMANENT


failures = st.builds(
    Failure,
    at=st.integers(0, 2**40).map(float),
    attempt=st.integers(0, 1_000),
    category=st.sampled_from(Category),
    error_type=texts,
    message=texts,
    http_status=st.none() | st.integers(100, 599),
    fingerprint=texts,
    dependency_down=st.booleans(),
    receive=st.integers(1, 1_000),
    queue=texts,
)


@given(failures)
def test_a_failure_comes_back_from_the_ledger_as_it_was(one: Failure) -> None:
    data = one.to_data()
    stored = {
        key: Decimal(str(value)) if type(value) in (int, float) else value
        for key, value in data.items()
    }
    assert from_data(data) == one
    assert from_data(stored) == one


@pytest.mark.parametrize(
    "change",
    [
        {"category": "odd"},
        {"attempt": "x"},
        {"at": None},
        {"http_status": "busy"},
        {"receive": "first"},
    ],
)
def test_what_is_no_failure_raises(change: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_data({**failed().to_data(), **change})
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_data({})
