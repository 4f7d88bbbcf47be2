"""The sum of a run is its snapshot, or the run says that it is not."""

from __future__ import annotations

import json

from deadletter.replay.plan import ReplayPlan
from deadletter.replay.ticket import ReplayOutcome
from tests.replay.bench import ReplayBench


def test_the_sum_of_a_finished_run_is_its_snapshot() -> None:
    bench = ReplayBench(["a", "a", "b", ""])
    bench.work(5)
    bench.consume()
    bench.work(5)
    reconciled = bench.reconcile()
    assert (reconciled.counts, reconciled.unaccounted) == ({"RECOVERED": 4}, 0)
    stored = json.loads(bench.objects.get("report.json") or b"")
    assert stored == reconciled.report
    assert (stored["letters"], stored["keys"]) == (4, [])
    assert stored["causes"] == [
        {"cause": "", "category": "", "letters": 4, "counts": {"RECOVERED": 4}}
    ]
    assert sum(sum(minute.values()) for minute in stored["minutes"].values()) == 4


def test_the_worst_keys_and_the_tries_that_came_back_are_named() -> None:
    bench = ReplayBench(["a", "a", "b"])
    bench.work(5)
    bench.consume(lambda number: number != 0)
    bench.bring_back()
    bench.work(5)
    bench.clock.advance(bench.plan.outcome_timeout + 1)
    bench.work(5)
    report = bench.reconcile().report
    assert report["returned"] == 1
    [worst] = report["keys"]
    assert worst["counts"] == {"UNKNOWN": 1, "RECOVERED": 1}
    assert {"RETURNED": 1} in [
        {name: n for name, n in minute.items() if name == "RETURNED"}
        for minute in report["minutes"].values()
    ]


def test_a_letter_that_is_nowhere_breaks_the_sum() -> None:
    bench = ReplayBench(["", ""])
    pk, sk = bench.names[0].place
    bench.dynamodb.delete_item(TableName="letters", Key={"pk": {"S": pk}, "sk": {"S": sk}})
    reconciled = bench.reconcile()
    assert reconciled.counts == {"MISSING": 1, "OPEN": 1}
    assert reconciled.unaccounted == 2


def test_outcomes_that_no_status_row_has_are_found_in_tickets_and_ledger() -> None:
    bench = ReplayBench([""] * 3)
    bench.work(5)
    for item in bench.dynamodb.items("letters"):
        if item["pk"]["S"].endswith("#status"):
            key = {"pk": item["pk"], "sk": item["sk"]}
            bench.dynamodb.delete_item(TableName="letters", Key=key)
    bench.consume()
    assert bench.reconcile().counts == {"RECOVERED": 3}
    assert set(bench.outcomes().values()) == {ReplayOutcome.RECOVERED}


def test_an_outcome_may_still_come_while_the_run_lives_and_is_unknown_afterwards() -> None:
    bench = ReplayBench([""], ReplayPlan(pipeline="orders", outcome_timeout=600.0))
    bench.work(5)
    assert bench.reconcile().counts == {"SENT": 1}
    bench.abort()
    assert bench.reconcile().counts == {"UNKNOWN": 1}


def test_without_time_the_report_lacks_the_runs_course() -> None:
    bench = ReplayBench([""])
    bench.work(5)
    assert bench.reconcile(seconds=0).report["minutes"] == {}
