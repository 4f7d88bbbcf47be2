"""What the failure of a canary shows about the dependency."""

from __future__ import annotations

from deadletter.contract import Blame, config_key
from deadletter.failure.fate import (
    ACKNOWLEDGED,
    GIVEN_BACK,
    Evidence,
    Fate,
    shown_by,
    was_tried,
)
from tests.each_row import each_row
from tests.samples import failed


@each_row(
    ("blame", "circuit", "bad"),
    [
        (Blame.DEPENDENCY, "", {"orders", "https://a"}),
        (Blame.CONFIGURATION, "", {"orders#config", "https://a#config"}),
        (Blame.NEITHER, "", set()),
        (Blame.DEPENDENCY, "dependency/bank", {"dependency/bank"}),
        (Blame.CONFIGURATION, "dependency/bank", {"dependency/bank#config"}),
        (Blame.NEITHER, "dependency/bank", set()),
    ],
)
def test_a_failure_speaks_of_one_dependency_and_of_one_kind_of_circuit(
    blame: Blame, circuit: str, bad: set[str]
) -> None:
    failure = failed(blame=blame, circuit=circuit)
    keys = {"orders", "https://a", "dependency/bank", "dependency/mail"}
    everything = keys | {config_key(key) for key in keys}
    expected = {key: Evidence.FAILURE if key in bad else Evidence.NEUTRAL for key in everything}
    assert {key: shown_by(failure, key) for key in everything} == expected


def test_a_letter_was_tried_unless_its_failure_says_that_it_was_given_back() -> None:
    given_back = {
        fate for fate in Fate if not was_tried(failed(error_type=str(fate), message=GIVEN_BACK))
    }
    assert given_back == {
        Fate.BUSY,
        Fate.UNGUARDED,
        Fate.REFUSED,
        Fate.HELD_BACK,
        Fate.BEHIND,
        Fate.LATE,
        Fate.BROKEN,
    }
    # A handler may raise an error of the same name, or with the same text.
    assert was_tried(failed(error_type=str(Fate.BUSY), message="mine"))
    assert was_tried(failed(error_type="ValueError", message=GIVEN_BACK))


def test_only_what_was_processed_or_is_confirmed_as_parked_may_leave_its_queue() -> None:
    done = {Fate.PROCESSED, Fate.SKIPPED, Fate.DUPLICATE, Fate.SUPERSEDED}
    assert {*done, Fate.PARKED} == ACKNOWLEDGED
