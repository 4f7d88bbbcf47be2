"""The report of a run, in numbers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest

from deadletter.contract import Metric, Reason
from deadletter.failure.failure import FailureKind
from deadletter.redrive.report import Report, Tally, decision_name
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive


@pytest.mark.parametrize(
    ("decision", "name"),
    [
        (Redrive(0, "x"), "REDRIVE"),
        (Hold("due", 1.0, "x"), "HOLD"),
        (Divert("slow", "x"), "DIVERT"),
        (Park(Reason.POISON, "x"), "PARK:POISON"),
    ],
)
def test_a_decision_has_one_name_everywhere(decision: Decision, name: str) -> None:
    assert decision_name(decision) == name


def test_the_main_metrics_of_a_run_without_letters_are_zero() -> None:
    report = Tally().report("orders", "dlq", "nothing to do")
    assert report == Report("orders", "dlq", "nothing to do")
    assert report.metrics() == {
        "Redriven": 0,
        "RedriveFailure": 0,
        "MessageMovedToParkingLot": 0,
        "Held": 0,
        "Diverted": 0,
        "DominantFailure": 0,
    }
    assert report.moved == 0


def test_a_report_holds_what_was_counted() -> None:
    tally = Tally()
    tally.count(Metric.RECEIVED, 12)
    tally.count(Metric.REDRIVEN, 5)
    tally.count(Metric.MOVED_TO_PARKING)
    tally.count(Metric.HELD, 2)
    tally.count(Metric.DIVERTED, 3)
    tally.count(Metric.REDRIVE_FAILURE, 1)
    tally.count(Metric.LEFT_IN_PLACE, 0)
    tally.count_decision(Redrive(0, "x"))
    tally.count_decision(Park(Reason.POISON, "x"))
    tally.count_decision(Park(Reason.POISON, "y"))
    report = tally.report("orders", "slow", "the source is empty")
    assert report.moved == 11
    assert Metric.LEFT_IN_PLACE not in report.counts
    assert report.metrics() == {
        "Received": 12,
        "Redriven": 5,
        "MessageMovedToParkingLot": 1,
        "Held": 2,
        "Diverted": 3,
        "RedriveFailure": 1,
        "MoveFailed": 1,
        "DominantFailure": 0,
    }
    assert json.loads(json.dumps(report.to_json())) == {
        "pipeline": "orders",
        "source": "slow",
        "stopped": "the source is empty",
        "ended_well": True,
        "received": 12,
        "moved": 11,
        "failed": 1,
        "left": 0,
        "possible_duplicates": 0,
        "decisions": {"REDRIVE": 1, "PARK:POISON": 2},
        "counts": {
            name: number
            for name, number in report.metrics().items()
            if number and name != "MoveFailed"
        },
        "shadow_matches": {},
        "refused_rules": {},
        "limited_rules": [],
    }


def test_a_rule_refused_in_every_chunk_counts_once() -> None:
    tally = Tally()
    for _ in range(3):
        tally.add_rule_notes({"typo": "why"}, {"dry": 2})
    tally.add_rule_notes({"other": "why"}, {})
    report = tally.report("orders", "dlq", "done")
    assert report.metrics()["RuleInvalid"] == 2
    assert report.refused_rules == {"typo": "why", "other": "why"}
    assert report.shadow_matches == {"dry": 6}


def test_a_rule_whose_limit_every_chunk_reports_counts_once() -> None:
    tally = Tally()
    for _ in range(3):
        tally.add_rule_notes({}, {}, ["spent"])
    tally.add_rule_notes({}, {}, ["another"])
    report = tally.report("orders", "dlq", "done")
    assert report.metrics()["RuleLimitReached"] == 2
    assert report.limited_rules == ("another", "spent")


def kind(fingerprint: str, letters: int) -> FailureKind:
    return FailureKind(fingerprint, f"{fingerprint}Error", letters)


@pytest.mark.parametrize(
    ("chunks", "dominant"),
    [
        ([], None),
        # More than half, and more than ten.
        ([([kind("a", 11)], 21)], kind("a", 11)),
        ([([kind("a", 11)], 22)], None),
        ([([kind("a", 10)], 10)], None),
        # No chunk alone has a dominant failure.
        ([([kind("a", 6), kind("b", 4)], 10), ([kind("a", 5)], 11)], kind("a", 11)),
        ([([kind("a", 11)], 11), ([kind("b", 12)], 12)], kind("b", 12)),
        # Letters without a recorded failure count too.
        ([([kind("a", 40)], 40), ([], 40)], None),
    ],
)
def test_a_failure_dominates_a_run_if_more_than_half_of_its_letters_had_it(
    chunks: list[tuple[list[FailureKind], int]], dominant: FailureKind | None
) -> None:
    tally = Tally()
    for kinds, letters in chunks:
        tally.count_failures(kinds, of=letters)
    report = tally.report("orders", "dlq", "done")
    assert report.dominant == dominant
    assert report.metrics()["DominantFailure"] == (dominant.letters if dominant else 0)
    in_json = json.loads(json.dumps(report.to_json())).get("dominant_failure")
    assert in_json == (dominant and asdict(dominant))


def test_a_report_does_not_change_after_it_was_made() -> None:
    tally = Tally()
    report = tally.report("orders", "dlq", "done")
    tally.count(Metric.REDRIVEN)
    tally.count_decision(Redrive(0, "x"))
    assert report == Report("orders", "dlq", "done")


def test_no_count_of_parallel_workers_is_lost() -> None:
    tally = Tally()

    def work() -> None:
        for _ in range(500):
            tally.count(Metric.REDRIVEN)
            tally.count_decision(Redrive(0, "x"))

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(work)
    report = tally.report("orders", "dlq", "done")
    assert report.counts[Metric.REDRIVEN] == report.decisions["REDRIVE"] == 2_000
