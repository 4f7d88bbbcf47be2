"""A consumer's version is what its team names it, else a published version of its function."""

from __future__ import annotations

from collections.abc import Mapping

from deadletter.contract import Category
from deadletter.failure.failure import MOST_VERSION, Failure, from_data, version_in
from tests.each_row import each_row


@each_row(
    ("environment", "version"),
    [
        ({}, ""),
        ({"AWS_LAMBDA_FUNCTION_VERSION": "$LATEST"}, ""),
        ({"AWS_LAMBDA_FUNCTION_VERSION": "7"}, "7"),
        ({"AWS_LAMBDA_FUNCTION_VERSION": "7", "DEADLETTER_VERSION": "4.2.1"}, "4.2.1"),
        ({"AWS_LAMBDA_FUNCTION_VERSION": "7", "DEADLETTER_VERSION": ""}, "7"),
        ({"DEADLETTER_VERSION": "f" * 1_000_000}, "f" * MOST_VERSION),
    ],
)
def test_a_version_is_named_by_the_environment(
    environment: Mapping[str, str], version: str
) -> None:
    assert version_in(environment) == version


def test_a_failure_keeps_it_and_an_enemys_row_is_cut() -> None:
    failure = Failure(1.0, 0, Category.TRANSIENT, version="4.2.1")
    assert from_data(failure.to_data()) == failure
    assert "version" not in Failure(1.0, 0, Category.TRANSIENT).to_data()
    assert len(from_data({**failure.to_data(), "version": "x" * 10**6}).version) == MOST_VERSION
