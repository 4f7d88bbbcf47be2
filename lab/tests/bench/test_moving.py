"""The benchmark of moving letters runs each way, counts what it did, and says what is wrong."""

from __future__ import annotations

import csv
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from lab.bench import cases, moving, page
from lab.bench.figures import FigureGoal, goals
from lab.bench.letters import Audited, LetterSeries
from lab.bench.record import Drained, read_rows
from lab.bench.replay import taken
from lab.bench.share import at_share
from lab.bench.stub import Conditions
from lab.bench.webhooks import TENANTS, posting

LETTERS = LetterSeries(number=40, body_bytes=200)
FEW = Conditions(letters=LETTERS, latency=0.0)
CLEAN = Audited()


@pytest.fixture(scope="module")
def ours() -> Drained:
    return cases.drained("ways", "ours", FEW)


def test_our_own_handlers_bring_every_letter_and_are_counted(ours: Drained) -> None:
    assert ours.audit == CLEAN
    assert ours.requests["SendMessageBatch"] >= 4
    for figure in ("invocations", "write_requests", "read_units", "cpu", "gb_seconds", "rate"):
        assert getattr(ours, figure) > 0, figure
    assert moving.faults([ours]) == []


def test_what_the_naive_threads_lose_is_found_and_memory_is_that_of_the_way() -> None:
    ballast = bytearray(b"x" * 200_000_000)
    row = cases.drained("failing", "threads", replace(FEW, failing=0.5))
    assert row.audit.lost > 0
    assert 10 < row.peak_mb < 150 < len(ballast)


@pytest.mark.nightly
def test_rules_lead_to_other_queues_and_intents_stand_when_the_run_begins() -> None:
    rules, dedicated = cases.DIVERTING_RULES, cases.DEDICATED
    conditions = replace(FEW, rules=rules, dedicated=dedicated, intents=3)
    pipeline = {**cases.UNPACED, "dedicated": cases.DEDICATED}
    row = cases.drained("uneven", "ours", conditions, pipeline=pipeline)
    assert row.audit == CLEAN
    # One letter in four has no rule: a batch for each of four destinations, at least.
    assert row.requests["SendMessageBatch"] >= 4


@pytest.mark.nightly
def test_fifo_letters_and_letters_that_wait_arrive_in_order_when_time_has_passed() -> None:
    groups = replace(FEW, letters=replace(LETTERS, groups=4))
    pipeline = {**cases.HOUR_OF_BACKOFF, "fifo": True}
    row = cases.drained("groups", "ours", groups, pipeline=pipeline, waits=True)
    assert row.audit == CLEAN
    assert row.runs >= 2
    backoff: dict[str, Any] = {"pipeline": cases.HOUR_OF_BACKOFF, "waits": True}
    room = cases.drained("room", "ours", FEW, is_counted_from_wait=True, **backoff)
    assert room.audit == CLEAN
    assert room.requests.get("DeleteMessageBatch", 0) == 0
    assert room.requests["SendMessageBatch"] >= 4
    assert room.seconds < 20


@pytest.mark.nightly
def test_shards_are_started_and_their_effort_is_counted() -> None:
    many = replace(FEW, letters=replace(LETTERS, number=6_000), latency=0.02)
    row = cases.drained("shards 2", "ours", many, shards=2)
    assert row.audit == CLEAN
    assert row.shards == 1


def test_a_process_gets_its_share_of_a_core_and_ends() -> None:
    spins = "import time\nwhile time.process_time() < 0.5: pass\nprint(time.monotonic())"
    began = time.monotonic()
    with (
        subprocess.Popen([sys.executable, "-c", spins], stdout=subprocess.PIPE) as process,
        at_share(process.pid, 0.25),
    ):
        output, _ = process.communicate()
    # Half a second of CPU takes two seconds.
    assert float(output) - began >= 0.8 * 0.5 / 0.25


def test_a_goal_is_reached_or_not_and_says_so() -> None:
    assert FigureGoal("calls", "≤", 0.305, 0.30504).is_reached
    assert FigureGoal("calls", "≥", 0.7, 0.7).is_reached
    assert FigureGoal("calls", "≥", 0.7, None).is_reached is None
    assert str(FigureGoal("calls", "≤", 0.305, 0.306)).endswith("0.306 NO")


def test_figures_that_compare_take_the_rows_that_they_are_about(ours: Drained) -> None:
    rows = [
        ours,
        replace(ours, way="threads", cpu=ours.cpu / 3),
        replace(ours, case="many", letters=100_000, cpu=1.05, peak_mb=90.0),
        replace(ours, case="many", letters=1_000, cpu=9.0, peak_mb=84.0),
        replace(ours, case="many", letters=10_000, cpu=1.0),
        *(replace(ours, case=f"shards {n}", rate=100.0 * n - 10) for n in (1, 2, 4)),
        replace(ours, case="beside 100 ms", way="lumigo", rate=100.0),
        *(replace(ours, case=f"beside 100 ms, {n} shards", rate=50.0 * n) for n in (1, 2, 4)),
        replace(ours, case="room", letters=100, requests={"Query": 5, "ReceiveMessage": 6}),
    ]
    found = {goal.what: goal.measured for goal in goals(rows)}
    assert found["CPU against 16 naive threads"] == pytest.approx(3.0)
    assert found["letters/s against lumigo-cli, one process"] is None
    assert found["… of most letters against fewer"] == pytest.approx(1.05)
    assert found["resident memory with most letters, MB"] == 90.0
    assert found["… growth from 1,000, MB"] == 6.0
    assert found["2 shards at 100 ms, of linear"] == pytest.approx(190 / 90 / 2)
    assert found["… with the shards that help, a core each, 100 ms"] == 2.0
    assert found["waiting room out: SQS and DynamoDB calls a letter"] == 0.11


def test_figures_are_written_and_a_lost_letter_fails(
    ours: Drained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(moving, "RECORD", tmp_path / "bench.json")
    rows = [ours]

    def ways() -> Iterator[Drained]:
        yield from rows

    monkeypatch.setattr(cases, "SHORT", (ways,))
    monkeypatch.setattr(cases, "LONG", ())
    assert moving.main([]) == 0
    [kept] = read_rows(tmp_path / "bench.json")
    assert kept.measured
    assert replace(kept, measured="") == ours
    rows[0] = replace(ours, audit=Audited(lost=1))
    assert moving.main([]) == 1
    assert "lost=1" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        moving.main(["speed"])


def test_what_one_run_leaves_is_a_fault_only_where_more_runs_may_follow(ours: Drained) -> None:
    left = replace(ours, audit=Audited(unfinished=1))
    assert moving.faults([left]) != []
    assert moving.faults([replace(left, case="failing")]) == []
    assert moving.faults([replace(ours, case="failing", audit=Audited(disordered=1))]) != []


def test_the_page_has_the_tables_that_the_benchmark_writes(ours: Drained) -> None:
    rows = [ours, replace(ours, rate=ours.rate * 3), replace(ours, rate=ours.rate * 2)]
    rows.append(replace(ours, case="pace"))
    made, text = page.tables(rows), page.PAGE.read_text()
    for name, table in made.items():
        assert len({line.count("|") for line in table.strip().splitlines()}) == 1, name
        [stands] = re.findall(rf"<!-- bench: {name} -->\n(.*?)<!-- end -->", text, re.DOTALL)
        assert stands.strip().splitlines()[0] == table.strip().splitlines()[0], name
    assert f"| {ours.rate * 2:,.0f} |" in made["ways"]
    assert f"| full pace | {ours.billed:.4g} | {ours.read_units:.4g} |" in made["used"]
    assert page.written(page.written(text, rows), rows) == page.written(text, rows)
    head, *rows_of_cases = page.cases(rows)
    with page.CASES.open() as file:
        assert next(csv.reader(file)) == list(head)
    assert [row[0] for row in rows_of_cases] == ["ways", "pace"]
    whats = [line.split(" | ")[0].removeprefix("| ") for line in made["figures"].splitlines()]
    assert all(what in text for what in whats)


def test_a_snapshot_of_the_stubs_queue_has_every_letter() -> None:
    _, days, *_, puts, _, dollars = taken(30, workers=4, days=30).split()
    assert (days, puts) == ("30", "1")
    assert float(dollars) > 0


def test_two_batches_of_webhooks_need_one_connection_to_each_endpoint() -> None:
    with posting() as made:
        for _ in range(2):
            made.batch()
    assert made.connections == made.look_ups == len(TENANTS)
