"""The consumer tells a replay run what became of each of its letters."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from deadletter.contract import Category
from deadletter.failure.ledger import RecordsUnavailable, Recovery
from deadletter.failure.signals import Permanent, Skip, Transient
from deadletter.processing.idempotency import BusinessKey, Claim, Standing
from deadletter.processing.result import BatchResult
from deadletter.settings.pipeline import Pipeline
from tests.processing.doubles import Desk, Site, record, redriven
from tests.samples import NOW, letter

PERMANENT = Permanent(category=Category.SCHEMA)


def fates(result: BatchResult) -> list[str]:
    return [each.fate.name for each in result.results]


# Through the queue: the ledger says it.


def test_a_parked_letter_of_a_run_is_on_record_with_its_life() -> None:
    site = Site(raises={"m1": PERMANENT})
    assert fates(site.process(record(redriven(letter(), attempt=3, run="r9")))) == ["PARKED"]
    assert site.log.parkings == [("first", 3, NOW, "PERMANENT")]


def test_a_parked_letter_of_no_run_costs_no_second_write() -> None:
    site = Site(raises={"m1": PERMANENT})
    assert fates(site.process(record(redriven(letter(), attempt=3)))) == ["PARKED"]
    assert site.log.parkings == []


def test_a_letter_that_comes_back_is_not_on_record_as_parked() -> None:
    site = Site(raises={"m1": ValueError("x")})
    site.process(record(redriven(letter(), run="r9")))
    assert site.log.parkings == []


def test_a_letter_stays_parked_if_the_ledger_gives_no_answer() -> None:
    site = Site(raises={"m1": PERMANENT})
    site.log.raises = RecordsUnavailable("no answer")
    result = site.process(record(redriven(letter(), run="r9")))
    assert fates(result) == ["PARKED"]
    assert result.counts["LedgerUnavailable"] == 2


@pytest.mark.parametrize(
    ("error", "way"),
    [(None, Recovery.PROCESSED), (Skip(), Recovery.SKIPPED)],
)
def test_the_ledger_says_how_a_letter_was_processed(error: Exception | None, way: Recovery) -> None:
    site = Site(raises={"m1": error} if error else {})
    sent = record(redriven(letter(), attempt=3, run="r9"))
    site.process(sent)
    site.process(sent)
    assert site.log.ways == [way, Recovery.DUPLICATE]


# Delivered directly: the response says it.


class Busy(Desk):
    """Claims that another process holds."""

    def claim(self, key: BusinessKey, owner: str, until: float) -> Claim:
        return replace(super().claim(key, owner, until), standing=Standing.BUSY)


def outcomes(site: Site, *names: str, run: str = "r9") -> dict[str, Any]:
    records = [record(redriven(letter(message_id=name), 3, name, run)) for name in names]
    return site.process(*records, run=run).to_response()


def test_a_run_is_told_the_outcome_of_each_letter_that_it_delivers() -> None:
    site = Site(raises={"m2": ValueError("x"), "m3": Skip()})
    assert outcomes(site, "m1", "m2", "m3") == {
        "batchItemFailures": [{"itemIdentifier": "m2"}],
        "deadletter": {
            "run": "r9",
            "outcomes": {"m1": "recovered", "m2": "failed", "m3": "recovered"},
        },
    }
    assert site.process(record(redriven(letter(), 4, "m1", "r9")), run="r9").to_response() == {
        "batchItemFailures": [],
        "deadletter": {"run": "r9", "outcomes": {"m1": "duplicate"}},
    }


def test_claims_and_ledger_are_those_of_any_delivery() -> None:
    site = Site(raises={"m2": ValueError("x")})
    outcomes(site, "m1", "m2")
    assert site.log.recoveries == [("m1", 3, NOW)]
    assert [(origin, failure.attempt) for origin, failure in site.log.failures] == [("m2", 3)]
    assert site.claims is not None
    assert site.claims.calls.count("claim") == 2


def test_a_letter_that_a_run_delivers_is_neither_refused_nor_hidden_nor_parked() -> None:
    site = Site(
        Pipeline("orders"),
        raises={"m1": Transient(status=503, retry_after=7), "m2": PERMANENT},
    )
    site.circuits.open(until=NOW + 60)
    assert outcomes(site, "m1", "m2") == {
        "batchItemFailures": [{"itemIdentifier": "m1"}, {"itemIdentifier": "m2"}],
        "deadletter": {
            "run": "r9",
            "outcomes": {"m1": "failed", "m2": "failed"},
            "retry_after": 7.0,
        },
    }
    assert (site.outcomes.reported, site.queue.calls, site.lot.sent) == ([], [], [])
    assert site.log.parkings == []


def test_a_letter_that_did_not_reach_its_handler_was_not_tried() -> None:
    class NotCalled(Transient):
        untried = True

    paused, busy = Site(raises={"m1": NotCalled()}), Site()
    busy.claims = Busy()
    assert outcomes(paused, "m1")["deadletter"]["outcomes"] == {"m1": "untried"}
    assert outcomes(busy, "m1")["deadletter"]["outcomes"] == {"m1": "untried"}


def test_an_answer_to_any_other_invocation_has_no_outcomes() -> None:
    assert Site().process(record(letter())).to_response() == {"batchItemFailures": []}
