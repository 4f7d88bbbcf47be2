"""Lines of embedded metrics, within the limits of CloudWatch."""

from __future__ import annotations

import json
from typing import Any

import pytest

from deadletter.contract import CATEGORY_DIMENSION
from deadletter.signals import emf
from deadletter.signals.figures import Figure

WHERE: dict[str, Any] = {"app": "shop", "pipeline": "orders", "at": 1.5}
ATTEMPTS = str(Figure.ATTEMPTS_BEFORE_RECOVERY)


@pytest.mark.parametrize("letters", [1, 100, 101, 250])
def test_every_letter_keeps_its_value_and_no_line_has_more_than_a_hundred(letters: int) -> None:
    """CloudWatch drops what is beyond: a sample of a large batch would be wrong."""
    attempts = list(range(letters))
    lines = emf.lines_of_batch({"Processed": letters}, {ATTEMPTS: attempts}, {}, **WHERE)
    documents = [json.loads(line) for line in lines]
    assert [value for document in documents for value in document[ATTEMPTS]] == attempts
    assert max(len(document[ATTEMPTS]) for document in documents) <= 100
    assert [document.get("Processed") for document in documents] == [
        letters,
        *[None] * ((letters - 1) // 100),
    ]


def test_a_failure_is_published_under_its_category_and_a_category_without_failures_is_not() -> None:
    lines = emf.lines_of_batch({}, {}, {"schema": 2, "transient": 1}, **WHERE)
    documents = [json.loads(line) for line in lines]
    assert [(each[CATEGORY_DIMENSION], each["FailuresByCategory"]) for each in documents] == [
        ("schema", 2),
        ("transient", 1),
    ]
    for document in documents:
        [directive] = document["_aws"]["CloudWatchMetrics"]
        assert directive["Dimensions"] == [["app", "pipeline", "category"]]


def test_a_batch_about_which_nothing_is_said_writes_no_line() -> None:
    assert list(emf.lines_of_batch({}, {ATTEMPTS: []}, {}, **WHERE)) == []


def test_a_line_with_too_many_values_is_refused() -> None:
    with pytest.raises(ValueError, match="101 values of AttemptsBeforeRecovery"):
        emf.line({ATTEMPTS: [1] * 101}, **WHERE)


def test_defects_of_the_library_are_one_figure_and_the_line_names_each() -> None:
    [line] = emf.lines_of_batch(
        {"Processed": 3, "LeaseLost": 1, "LedgerUnavailable": 2}, {}, {}, **WHERE
    )
    document = json.loads(line)
    assert document["_aws"]["Timestamp"] == 1_500
    [directive] = document["_aws"]["CloudWatchMetrics"]
    assert [each["Name"] for each in directive["Metrics"]] == ["Processed", "ConsumerTrouble"]
    assert (document["ConsumerTrouble"], document["LeaseLost"]) == (3, 1)
