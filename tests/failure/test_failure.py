"""Failures, and whether the dependency explains them."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deadletter.contract import Blame, Category
from deadletter.failure.failure import Failure, blame_of_status, from_data
from tests.each_row import each_row
from tests.samples import failed, texts


@each_row(
    ("changes", "explained"),
    [
        ({}, False),
        ({"http_status": 200}, False),
        ({"http_status": 400}, False),
        ({"http_status": 407}, True),
        ({"http_status": 408}, True),
        ({"http_status": 409}, False),
        ({"http_status": 425}, True),
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
        ({"blame": Blame.DEPENDENCY}, True),
        ({"blame": Blame.CONFIGURATION}, True),
        ({"blame": Blame.NEITHER}, False),
        ({"blame": Blame.NEITHER, "http_status": 503}, False),
        ({"http_status": 503, "category": Category.SCHEMA}, False),
        ({"dependency_down": True}, True),
        ({"dependency_down": True, "category": Category.BUSINESS}, True),
    ],
)
def test_a_dependency_that_is_down_or_misconfigured_explains_a_failure(
    changes: dict[str, Any], explained: bool
) -> None:
    assert failed(**changes).explained_by_dependency is explained


def test_schema_and_business_failures_are_permanent() -> None:
    permanent = {category for category in Category if category.course.is_permanent}
    assert permanent == {Category.SCHEMA, Category.BUSINESS}


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
    blame=st.sampled_from(Blame),
    circuit=texts,
    request_id=texts,
    sent_at=st.none() | st.integers(0, 2**40),
    sent_because=texts,
    sent_rule=texts,
)


@given(failures)
def test_a_failure_survives_the_ledger(original: Failure) -> None:
    data = original.to_data()
    stored = {
        key: Decimal(str(value)) if type(value) in (int, float) else value
        for key, value in data.items()
    }
    assert from_data(data) == original
    assert from_data(stored) == original


@each_row(
    "change",
    [
        {"category": "odd"},
        {"attempt": "x"},
        {"at": None},
        {"http_status": "busy"},
        {"receive": "first"},
        {"blame": "somebody"},
        {"blame": None},
    ],
)
def test_malformed_data_is_refused(change: dict[str, Any]) -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_data({**failed().to_data(), **change})
    with pytest.raises((KeyError, TypeError, ValueError)):
        from_data({})


def test_a_failure_that_counts_no_receives_is_of_the_first() -> None:
    assert Failure(1.0, 0, Category.TRANSIENT).receive == 1


DEPENDENCY, CONFIGURATION, NEITHER = Blame.DEPENDENCY, Blame.CONFIGURATION, Blame.NEITHER


def test_a_status_blames_the_dependency_its_configuration_or_neither() -> None:
    by_blame: dict[Blame, set[int]] = {blame: set() for blame in Blame}
    for status in range(300, 600):
        by_blame[blame_of_status(status)].add(status)
    assert by_blame[DEPENDENCY] == {408, 425, 429, 449, *range(500, 600)}
    assert by_blame[CONFIGURATION] == {301, 302, 303, 307, 308, 401, 403, 407}
