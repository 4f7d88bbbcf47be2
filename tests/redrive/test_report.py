"""The report of a run, in numbers."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict

import pytest

from deadletter.contract import Reason
from deadletter.failure.failure import FailureKind
from deadletter.redrive.report import Report, Tally, decision_name
from deadletter.routing.decision import Decision, Divert, Hold, Park, Redrive
from deadletter.signals.figures import Count, Figure
from handlers.metrics import report_lines
from tests.each_row import each_row


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


def test_a_run_without_letters_publishes_nothing() -> None:
    report = Tally().report("orders", "dlq", "nothing to do")
    assert report == Report("orders", "dlq", "nothing to do")
    assert report.metrics() == {}
    assert list(report_lines(report, "app", 1.0)) == []
    assert report.moved == 0


def test_a_report_holds_what_was_counted() -> None:
    tally = Tally()
    tally.count(Figure.RECEIVED, 12)
    tally.count(Figure.REDRIVEN, 5)
    tally.count(Figure.MOVED_TO_PARKING)
    tally.count(Figure.HELD, 2)
    tally.count(Figure.DIVERTED, 3)
    tally.count(Figure.REDRIVE_FAILURE, 1)
    tally.count(Count.LEFT_IN_PLACE, 0)
    tally.count_decisions([Redrive(0, "x")])
    tally.count_decisions([Park(Reason.POISON, "x")])
    tally.count_decisions([Park(Reason.POISON, "y")])
    report = tally.report("orders", "slow", "the source is empty")
    assert report.moved == 11
    assert Count.LEFT_IN_PLACE not in report.counts
    assert report.metrics() == {
        "Received": 12,
        "Redriven": 5,
        "MessageMovedToParkingLot": 1,
        "Held": 2,
        "Diverted": 3,
        "RedriveFailure": 1,
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
        "possible_duplicates_of_killed_runs": 0,
        "decisions": {"REDRIVE": 1, "PARK:POISON": 2},
        "counts": report.metrics(),
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
    assert report.counts["RuleInvalid"] == 2
    assert report.refused_rules == {"typo": "why", "other": "why"}
    assert report.shadow_matches == {"dry": 6}


def test_a_rule_whose_limit_every_chunk_reports_counts_once() -> None:
    tally = Tally()
    for _ in range(3):
        tally.add_rule_notes({}, {}, ["spent"])
    tally.add_rule_notes({}, {}, ["another"])
    report = tally.report("orders", "dlq", "done")
    assert report.counts["RuleLimitReached"] == 2
    assert report.limited_rules == ("another", "spent")


def kind(fingerprint: str, letters: int) -> FailureKind:
    return FailureKind(fingerprint, f"{fingerprint}Error", letters)


@each_row(
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
    assert report.counts.get("DominantFailure", 0) == (dominant.messages if dominant else 0)
    in_json = json.loads(json.dumps(report.to_json())).get("dominant_failure")
    assert in_json == (dominant and asdict(dominant))


def test_a_report_does_not_change_after_it_was_made() -> None:
    tally = Tally()
    report = tally.report("orders", "dlq", "done")
    tally.count(Figure.REDRIVEN)
    tally.count_decisions([Redrive(0, "x")])
    assert report == Report("orders", "dlq", "done")


def test_no_count_of_parallel_workers_is_lost() -> None:
    tally = Tally()

    def work() -> None:
        for _ in range(500):
            tally.count(Figure.REDRIVEN)
            tally.count_decisions([Redrive(0, "x")])

    with ThreadPoolExecutor(4) as pool:
        for _ in range(4):
            pool.submit(work)
    report = tally.report("orders", "dlq", "done")
    assert report.counts[Figure.REDRIVEN] == report.decisions["REDRIVE"] == 2_000


# Whether a run could do its work.


def ends(tally: Tally) -> tuple[bool, str]:
    report = tally.report("orders", "dlq", "done")
    return report.ended_well, report.trouble


def test_a_run_without_letters_ends_well() -> None:
    tally = Tally()
    assert ends(tally) == (True, "")
    assert tally.fruitless is None


def test_a_run_none_of_whose_letters_left_its_place_has_not_ended_well() -> None:
    tally = Tally()
    tally.count_tried(2)
    tally.count_tried(1)
    assert tally.fruitless is True
    # Letters that stay for a fault of their own need a person, the redriver does not.
    assert ends(tally) == (True, "")
    tally.count_futile(1)
    assert ends(tally) == (False, "none of 3 messages could be moved")
    tally.count_gone(1)
    assert tally.fruitless is False
    assert ends(tally) == (True, "")


def test_a_target_that_took_none_of_its_letters_is_trouble_although_others_moved() -> None:
    tally = Tally()
    tally.count_tried(5)
    tally.count_gone(2)
    tally.count_target("slow", 2, 2)
    tally.count_target("parking", 0, 0)
    assert ends(tally) == (True, "")
    tally.count_target("main", 3, 0)
    assert tally.fruitless is True
    assert ends(tally) == (False, "none of 3 messages could be moved to main")
    tally.count_target("main", 2, 1)
    assert tally.fruitless is False
    assert ends(tally) == (True, "")


def test_one_letter_that_the_main_queue_refused_is_enough() -> None:
    tally = Tally()
    tally.count_tried(2)
    tally.count_gone(1)
    tally.count_target("main", 1, 0)
    assert tally.fruitless is True


def test_another_target_that_took_nothing_is_trouble_and_no_fruitless_run() -> None:
    tally = Tally()
    tally.count_tried(3)
    tally.count_gone(1)
    tally.count_target("main", 1, 1)
    tally.count_target("slow", 2, 0)
    assert tally.fruitless is False
    assert ends(tally) == (False, "none of 2 messages could be moved to slow")


def test_letters_received_for_nothing_are_those_that_did_not_arrive() -> None:
    tally = Tally()
    assert tally.futile == 0
    tally.count_target("main", 10, 7)
    tally.count_futile(2)
    tally.count_target("slow", 1, 0)
    assert tally.futile == 6


def test_a_run_that_fails_names_its_first_trouble() -> None:
    tally = Tally()
    tally.fail("")
    assert ends(tally) == (False, "the run could not do its work")
    tally.fail("denied")
    tally.note_trouble("later")
    assert ends(tally) == (False, "denied")


def test_trouble_that_is_noted_does_not_end_a_run_badly() -> None:
    tally = Tally()
    tally.note_trouble("denied")
    assert ends(tally) == (True, "denied")


# The oldest letter.


def test_the_oldest_letter_that_stays_is_kept_in_seconds() -> None:
    tally = Tally()
    assert tally.oldest_left is None
    # A letter without a SentTimestamp says nothing.
    tally.note_left([None, 0])
    assert tally.oldest_left is None
    tally.note_left([7_500, None, 9_000])
    assert tally.oldest_left == 7.5
    tally.note_left([8_000])
    assert tally.oldest_left == 7.5
    tally.note_left([1_000])
    assert tally.oldest_left == 1.0


# What is published at once.


def test_what_was_published_during_the_run_is_not_published_twice() -> None:
    published: list[tuple[str, int]] = []
    tally = Tally(lambda metric, number: published.append((str(metric), number)))
    tally.count_now(Figure.REDRIVEN, 5)
    tally.count_now(Figure.REDRIVEN)
    tally.count_now(Figure.HELD, 0)
    tally.count(Figure.REDRIVEN, 3)
    tally.count(Figure.RECEIVED)
    assert published == [("Redriven", 5), ("Redriven", 1)]
    assert tally.count_of(Figure.REDRIVEN) == 9
    report = tally.report("orders", "dlq", "done")
    assert report.counts == {"Redriven": 9, "Received": 1}
    assert report.published == {"Redriven": 6}
    assert report.metrics() == {"Redriven": 3, "Received": 1}
    assert report.metrics()["Redriven"] == 3


def test_each_received_letter_is_published_with_its_age_if_that_is_known() -> None:
    tally = Tally()
    tally.count_received([940_000, None, 0], 1000.4)
    tally.count_received([1_000_900], 1000.4)
    report = tally.report("orders", "dlq", "done")
    assert report.metrics()["Received"] == 4
    assert report.samples() == {"AgeWhenReceived": (60, 0)}
    assert "ages" not in report.to_json()


def test_the_metrics_that_need_a_person_are_named_when_they_were_counted() -> None:
    tally = Tally()
    tally.count(Count.UNSENDABLE)
    tally.count(Count.UNDECIDED, 0)
    tally.count(Figure.REDRIVEN)
    assert tally.report("orders", "dlq", "done").troubles == ["Unsendable"]
    tally.count_failures([kind("a", 11)], of=11)
    assert tally.report("orders", "dlq", "done").troubles == ["Unsendable", "DominantFailure"]


def test_the_returned_report_names_what_stayed_and_what_may_be_twice() -> None:
    tally = Tally()
    tally.count(Count.LEFT_IN_PLACE, 4)
    tally.count(Figure.POSSIBLE_DUPLICATE, 2)
    tally.fail("denied")
    returned = tally.report("orders", "dlq", "done").to_json()
    assert (returned["received"], returned["moved"], returned["failed"]) == (0, 0, 0)
    assert (returned["left"], returned["possible_duplicates"]) == (4, 2)
    assert (returned["ended_well"], returned["trouble"]) == (False, "denied")
    assert "dominant_failure" not in returned
