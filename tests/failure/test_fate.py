"""What the failure of a canary shows about the dependency."""

from __future__ import annotations

from deadletter.failure.failure import Blame
from deadletter.failure.fate import ACKNOWLEDGED, GIVEN_BACK, Evidence, Fate, evidence_of, was_tried
from tests.samples import failed


def test_a_dependency_that_fails_or_refuses_its_caller_is_down() -> None:
    assert {blame: evidence_of(blame) for blame in Blame} == {
        Blame.DEPENDENCY: Evidence.FAILURE,
        Blame.CONFIGURATION: Evidence.FAILURE,
        Blame.NEITHER: Evidence.NEUTRAL,
    }


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
