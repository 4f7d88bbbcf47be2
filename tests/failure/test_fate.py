"""What the failure of a canary shows about the dependency."""

from __future__ import annotations

import pytest

from deadletter.failure.failure import PERMANENT, Category
from deadletter.failure.fate import ACKNOWLEDGED, GIVEN_BACK, Evidence, Fate, evidence_of, was_tried
from tests.samples import failed

REFUSES_THE_CALLER = {
    401: "unauthorized",
    403: "forbidden",
    407: "the proxy does not know the caller",
    408: "the request took too long to arrive",
    425: "too early",
    429: "too many requests",
}


@pytest.mark.parametrize("category", [Category.TRANSIENT, Category.INTEGRATION])
def test_every_4xx_that_refuses_the_message_shows_that_the_dependency_works(
    category: Category,
) -> None:
    neutral = {
        status for status in range(300, 600) if evidence_of(category, status) is Evidence.NEUTRAL
    }
    assert neutral == set(range(400, 500)) - REFUSES_THE_CALLER.keys()


@pytest.mark.parametrize("category", Category)
def test_a_failure_without_an_answer_speaks_against_the_dependency_unless_the_letter_is_at_fault(
    category: Category,
) -> None:
    expected = Evidence.NEUTRAL if category in PERMANENT else Evidence.FAILURE
    assert evidence_of(category, None) is expected


@pytest.mark.parametrize("category", sorted(PERMANENT))
def test_a_failure_by_the_letters_own_fault_says_nothing_whatever_the_status(
    category: Category,
) -> None:
    assert evidence_of(category, 503) is Evidence.NEUTRAL


def test_a_letter_was_tried_unless_its_failure_says_that_it_was_given_back() -> None:
    given_back = {
        fate for fate in Fate if not was_tried(failed(error_type=str(fate), message=GIVEN_BACK))
    }
    assert given_back == {
        Fate.BUSY,
        Fate.UNGUARDED,
        Fate.REFUSED,
        Fate.HELD_BACK,
        Fate.LATE,
        Fate.BROKEN,
    }
    # A handler may raise an error of the same name, or with the same text.
    assert was_tried(failed(error_type=str(Fate.BUSY), message="mine"))
    assert was_tried(failed(error_type="ValueError", message=GIVEN_BACK))


def test_only_what_was_processed_or_is_confirmed_as_parked_may_leave_its_queue() -> None:
    assert {Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE, Fate.PARKED} == ACKNOWLEDGED
