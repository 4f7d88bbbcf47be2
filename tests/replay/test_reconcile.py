"""The sum of a run is its snapshot, or the run says that it is not."""

from __future__ import annotations

import json
from collections import Counter

from deadletter.replay.names import key_hash
from deadletter.replay.plan import ReplayPlan
from deadletter.replay.ticket import ReplayOutcome, Ticket
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
    assert (stored["messages"], stored["keys"]) == (4, [])
    assert stored["causes"] == [
        {"cause": "", "category": "", "messages": 4, "counts": {"RECOVERED": 4}}
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


def test_what_most_letters_have_comes_first() -> None:
    causes = ["rare", "often", "often", "often", "some", "seen", "some", "seen"]
    bench = ReplayBench([""] * 8, causes=causes)
    bench.work(5)
    bench.consume()
    bench.work(5)
    report = bench.reconcile().report
    in_order = [("often", 3), ("seen", 2), ("some", 2), ("rare", 1)]
    assert [(row["cause"], row["messages"]) for row in report["causes"]] == in_order
    assert [(row["tenant"], row["messages"]) for row in report["tenants"]] == in_order


def test_the_keys_with_most_failures_come_first() -> None:
    failures = {"good": 0, "bad": 1, "alike": 1, "worst": 3}
    keys = [key for key in failures for _ in range(4)]
    bench = ReplayBench(keys, ReplayPlan(pipeline="orders", retry_after=0.0, attempts=1))
    left = Counter(failures)

    def succeeds(number: int) -> bool:
        left[keys[number]] -= 1
        return left[keys[number]] < 0

    bench.work(5)
    bench.consume(succeeds)
    bench.bring_back()
    bench.work(5)
    rows = bench.reconcile().report["keys"]
    failed = [row["messages"] - row["counts"].get("RECOVERED", 0) for row in rows]
    assert failed == [3, 1, 1]
    assert rows[0]["key"] == key_hash("worst")
    assert [row["key"] for row in rows[1:]] == sorted(map(key_hash, ("bad", "alike")))


def test_a_long_course_has_as_many_minutes_as_a_chart_shows() -> None:
    bench = ReplayBench([""])
    # A day has 1,440 of them, and a chart no more.
    minutes = 2 * 1_440 + 1
    tickets = [
        Ticket(
            run=bench.run_id,
            origin=f"origin {number}",
            copy=f"copy {number}",
            shard=0,
            position=0,
            attempt=1,
            at=60.0 * number,
            fate=ReplayOutcome.DELIVERED,
        )
        for number in range(minutes)
    ]
    course = bench.reconcile(all_tickets=lambda: tickets).report["minutes"]
    assert set(course) == {str(180 * number) for number in range(-(-minutes // 3))}
    assert sum(counts["DELIVERED"] for counts in course.values()) == minutes


def test_a_letter_that_is_nowhere_breaks_the_sum() -> None:
    bench = ReplayBench(["", ""])
    pk, sk = bench.names[0].place
    bench.dynamodb.delete_item(TableName="messages", Key={"pk": {"S": pk}, "sk": {"S": sk}})
    reconciled = bench.reconcile()
    assert reconciled.counts == {"MISSING": 1, "OPEN": 1}
    assert reconciled.unaccounted == 2


def test_outcomes_that_no_status_row_has_are_found_in_tickets_and_ledger() -> None:
    bench = ReplayBench([""] * 3)
    bench.work(5)
    for item in bench.dynamodb.items("messages"):
        if item["pk"]["S"].endswith("#status"):
            key = {"pk": item["pk"], "sk": item["sk"]}
            bench.dynamodb.delete_item(TableName="messages", Key=key)
    bench.consume()
    assert bench.reconcile().counts == {"RECOVERED": 3}
    assert set(bench.outcomes().values()) == {ReplayOutcome.RECOVERED}


def test_a_letter_that_is_back_in_the_lane_is_open_again_whatever_its_row_says() -> None:
    bench = ReplayBench(["", ""])
    bench.work(5)
    bench.consume(lambda _number: False)
    bench.bring_back()
    assert set(bench.outcomes().values()) == {ReplayOutcome.SENT}
    reconciled = bench.reconcile()
    assert (reconciled.counts, reconciled.report["returned"]) == ({"OPEN": 2}, 2)
    assert set(bench.outcomes().values()) == {ReplayOutcome.OPEN}


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
