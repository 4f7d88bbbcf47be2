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

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

from lab.bench import cases, moving, page, replay
from lab.bench.figures import Drained, FigureGoal, Medians, Started, goals
from lab.bench.lean_queue import Audited, LetterSeries
from lab.bench.lean_stub import MAIN, SOURCE, Conditions, LeanStub
from lab.bench.peers import Peer
from lab.bench.record import Occasion, Record, read_record
from lab.bench.share import at_share

FEW = Conditions(letters=LetterSeries(number=40, body_bytes=200), latency=0.0)
CLEAN = Audited(arrived=40, unfinished=0, lost=0, duplicated=0, changed=0)


@pytest.fixture(scope="module")
def ours() -> Drained:
    return cases.drained("ways", "deadletter", FEW)


@pytest.fixture
def stub() -> Iterator[LeanStub]:
    with LeanStub(FEW) as process:
        yield process


def client(stub: LeanStub, service: Any) -> Any:
    return boto3.client(
        service,
        endpoint_url=stub.endpoint,
        region_name="us-east-1",
        aws_access_key_id="AKIA",
        aws_secret_access_key="unused",
        config=Config(retries={"total_max_attempts": 1}),
    )


def test_our_own_handlers_bring_every_letter_and_are_counted(ours: Drained) -> None:
    assert ours.audit == CLEAN
    assert ours.trouble == ""
    assert ours.requests["SendMessageBatch"] >= 4
    assert ours.invocations > 0
    assert ours.write_requests > 0
    assert ours.read_units > 0
    assert ours.cpu > 0
    assert ours.gb_seconds > 0
    assert moving.faults([ours]) == []


def test_the_peak_of_memory_is_not_that_of_the_process_that_measures(ours: Drained) -> None:
    ballast = bytearray(b"x" * 200_000_000)
    row = cases.drained("ways", "threads", FEW)
    assert len(ballast) > 0
    assert row.audit == CLEAN
    assert 10 < row.peak_mb < 150


@pytest.mark.parametrize("way", ["messages", "batches"])
def test_the_naive_ways_bring_every_letter_too(way: str) -> None:
    row = cases.drained("ways", way, FEW)
    assert row.audit == CLEAN
    assert row.invocations == row.write_requests == 0


def test_what_the_naive_threads_lose_is_found() -> None:
    conditions = replace(FEW, failing_entries={"SendMessageBatch": 0.5})
    row = cases.drained("failing", "threads", conditions)
    assert row.audit.lost > 0
    assert row.audit.lost + row.audit.arrived == 40


@pytest.mark.nightly
def test_three_matching_rules_and_four_destinations_are_really_used() -> None:
    conditions = replace(FEW, letters=LetterSeries(number=40, body_bytes=200, tenants=4))
    row = cases.drained(
        "uneven",
        "deadletter",
        conditions,
        pipeline={**cases.UNPACED, "dedicated": cases.DEDICATED},
        rules=cases.DIVERTING_RULES,
    )
    assert row.audit == CLEAN
    # One letter in four has no rule: a batch for each of four destinations, at least.
    assert row.requests["SendMessageBatch"] >= 4


@pytest.mark.nightly
def test_intents_on_record_are_there_when_the_run_begins() -> None:
    # The lease of a queue whose first runs are over, and the intents.
    assert len(cases.of_earlier_runs(3, 1e9)) == 1 + 3
    assert len(cases.of_earlier_runs(0, 1e9)) == 1
    row = cases.drained("standing", "deadletter", FEW, intents=3)
    assert row.audit == CLEAN
    assert row.intents_left > 0


@pytest.mark.nightly
def test_the_stubs_clock_runs_as_fast_as_asked_and_seconds_are_its_own() -> None:
    conditions = replace(FEW, pace=20.0)
    # Thirty letters may go at once: ten seconds of a slow rate.
    pipeline = {**cases.UNPACED, "fixed_rate": 3.0}
    row = cases.drained(
        "pace", "deadletter", conditions, pipeline=pipeline, scheduled=True, run_seconds=55.0
    )
    assert row.audit == CLEAN
    assert row.seconds >= 2.5


def test_the_stub_throttles_fails_and_bills_as_asked() -> None:
    conditions = Conditions(
        letters=LetterSeries(number=10, body_bytes=100_000),
        latency=0.0,
        throttles={"DeleteMessage": 1.0},
    )
    with LeanStub(conditions) as stub:
        sqs = client(stub, "sqs")
        received = sqs.receive_message(QueueUrl=stub.url(SOURCE), MaxNumberOfMessages=2)
        (first, _) = received["Messages"]
        assert len(first["Body"]) == 100_000
        with pytest.raises(ClientError) as refused:
            sqs.delete_message(QueueUrl=stub.url(SOURCE), ReceiptHandle=first["ReceiptHandle"])
        assert refused.value.response["Error"]["Code"] == "ThrottlingException"
        spent = stub.spent()
        # 200 KB are four times 64 KB.
        assert spent.billed == 4 + 1
        assert spent.sqs == {"ReceiveMessage": 1, "DeleteMessage": 1}
        depth = sqs.get_queue_attributes(QueueUrl=stub.url(SOURCE), AttributeNames=["All"])
        assert depth["Attributes"]["ApproximateNumberOfMessages"] == "8"
        assert sqs.list_queues()["QueueUrls"] == [stub.url(SOURCE), stub.url(MAIN)]


def test_a_row_of_the_ledger_is_there_for_each_letter_and_can_be_written(stub: LeanStub) -> None:
    dynamodb = client(stub, "dynamodb")
    name = f"orders#ledger#{LetterSeries(number=40).id(7)}"
    keys = [{"pk": {"S": name}, "sk": {"S": "row"}}, {"pk": {"S": "none"}, "sk": {"S": "row"}}]

    def read() -> Any:
        return dynamodb.batch_get_item(RequestItems={"letters": {"Keys": keys}})["Responses"]

    (row,) = read()["letters"]
    assert row["pk"] == {"S": name}
    key = {"pk": row["pk"], "sk": row["sk"]}
    keys[0] = key
    dynamodb.update_item(
        TableName="letters",
        Key=key,
        UpdateExpression="SET extra = :b",
        ExpressionAttributeValues={":b": {"B": b"\x00\xff"}},
    )
    (changed,) = read()["letters"]
    assert changed == {**row, "extra": {"B": b"\x00\xff"}}
    spent = stub.spent()
    assert spent.write_requests == 1
    assert spent.dynamodb == {"BatchGetItem": 2, "UpdateItem": 1}
    with pytest.raises(dynamodb.exceptions.ConditionalCheckFailedException):
        dynamodb.put_item(
            TableName="letters", Item=key, ConditionExpression="attribute_not_exists(pk)"
        )


def goal(bound: str, limit: float, measured: float | None) -> FigureGoal:
    return FigureGoal(
        "calls", bound, {"thin": limit}, {} if measured is None else {"thin": measured}
    )


def test_a_goal_is_reached_or_not_and_says_so(ours: Drained) -> None:
    assert goal("≤", 0.305, 0.3049).is_reached("thin")
    assert goal("≤", 0.305, 0.306).is_reached("thin") is False
    assert goal("≥", 0.7, 0.7).is_reached("thin")
    assert goal("≥", 0.7, None).is_reached("thin") is None
    assert goal("≥", 0.7, 0.7).is_reached("boto3") is None
    assert "NO" in str(goal("≤", 0.305, 0.4))
    threads = replace(ours, way="threads", cpu=ours.cpu / 3)
    figures = Medians([ours, replace(ours, cpu=ours.cpu * 3), threads])
    ratio = figures.ratio("cpu", ("ways", "deadletter thin"), ("ways", "threads"))
    assert ratio == pytest.approx(6.0)
    measured = {goal.what: goal.measured for goal in goals([ours, threads])}
    assert measured["CPU against 16 naive threads"] == pytest.approx({"thin": 3.0})
    assert measured["letters/s against lumigo-cli, one process"] == {}


def test_figures_that_compare_take_the_rows_that_they_are_about(ours: Drained) -> None:
    thin = replace(ours, way="deadletter thin")
    rows = [
        replace(thin, case="many", letters=10_000, cpu=1.0),
        replace(thin, case="many", letters=100_000, cpu=1.05, peak_mb=90.0),
        replace(thin, case="memory", peak_mb=84.0),
        *(replace(thin, case=f"shards {n}", rate=100.0 * n - 10) for n in (1, 2, 4)),
        replace(thin, case="beside 100 ms", way="lumigo", rate=100.0),
        *(replace(thin, case=f"beside 100 ms, {n} shards", rate=50.0 * n) for n in (1, 2, 4)),
        replace(thin, case="room", letters=100, requests={"Query": 5, "ReceiveMessage": 6}),
    ]
    starts = [Started(function="route", transport="thin", cpu_ms=ms) for ms in (150, 190, 999)]
    found = {goal.what: goal.measured.get("thin") for goal in goals(rows, starts)}
    assert found["… of most letters against fewer"] == pytest.approx(1.05)
    assert found["resident memory with most letters, MB"] == 90.0
    assert found["… growth from 1,000, MB"] == 6.0
    assert found["2 shards at 100 ms, of linear"] == pytest.approx(190 / 90 / 2)
    assert found["… with the shards that help, a core each, 100 ms"] == 2.0
    assert found["waiting room out: SQS and DynamoDB calls a letter"] == 0.11
    assert found["CPU of import and clients, route, ms"] == 190


def test_figures_are_written_and_a_lost_letter_fails(
    ours: Drained, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: Any
) -> None:
    monkeypatch.setattr(moving, "BUILD", tmp_path)
    rows = [ours]
    monkeypatch.setattr(cases, "SHORT", {"ways": lambda: iter(rows)})
    started = Started(function="route", transport="thin", cpu_ms=180.0)
    monkeypatch.setattr(cases, "CASES", {**cases.SHORT, "start": lambda: iter([started])})
    assert moving.main([]) == 0
    assert moving.main(["start"]) == 0
    record = read_record(tmp_path / "bench.json")
    assert record.rows == rows
    assert record.starts == [started]
    assert list(record.cases) == ["ways", "start"]
    rows[0] = replace(ours, audit=replace(CLEAN, lost=1))
    assert moving.main([]) == 1
    output = capsys.readouterr()
    assert "lost=1" in output.err
    assert "route thin: 180 ms of CPU  0:00" in output.out
    with pytest.raises(SystemExit):
        moving.main(["speed"])


def test_what_one_run_leaves_is_a_fault_only_where_more_runs_may_follow(ours: Drained) -> None:
    left = replace(ours, audit=replace(CLEAN, unfinished=1))
    assert moving.faults([left]) != []
    assert moving.faults([replace(left, case="failing")]) == []
    disordered = replace(ours, case="failing", audit=replace(CLEAN, disordered=1))
    assert moving.faults([disordered]) != []


STAMP = Occasion(
    started="2026-11-23T20:00:00+00:00",
    commit="abc1234",
    machine="2 cores",
    load=0.1,
    seconds=1.0,
    turns=3,
)


def test_a_case_that_is_measured_again_replaces_what_was_there(ours: Drained) -> None:
    two = [replace(ours, case="shards 1"), replace(ours, case="shards 2")]
    record = Record().with_case("ways", STAMP, [ours]).with_case("shards", STAMP, two)
    again = record.with_case("shards", STAMP, two[:1])
    assert [row.case for row in again.rows] == ["ways", "shards 1"]


def test_the_page_has_the_tables_that_the_benchmark_writes(ours: Drained) -> None:
    rows = [ours, replace(ours, rate=ours.rate * 3), replace(ours, rate=ours.rate * 2)]
    record = Record().with_case("ways", STAMP, rows)
    record = record.with_case("pace", STAMP, [replace(ours, case="pace")])
    made = page.tables(record)
    for name, text in made.items():
        lines = text.strip().splitlines()
        assert len({line.count("|") for line in lines}) == 1, name
    assert f"| {ours.rate * 2:,.0f} |" in made["ways"]
    assert "ours, thin" in made["ways"]
    starts = ours.invocations + ours.runs / ours.letters
    assert f"| full pace, thin | {ours.billed:.4g} | {ours.read_units:.4g} |" in made["used"]
    assert f"| {starts:.4g} | {ours.gb_seconds:.4g} |" in made["used"]
    assert "| ways, pace | 2026-11-23 | `abc1234` |" in made["runs"]
    text = page.PAGE.read_text()
    assert page.written(page.written(text, record), record) == page.written(text, record)
    for name, table in made.items():
        (stands,) = re.findall(rf"<!-- bench: {name} -->\n(.*?)<!-- end -->", text, re.DOTALL)
        assert stands.strip().splitlines()[0] == table.strip().splitlines()[0], name
    head, *rows_of_cases = page.cases(record)
    with page.CASES.open() as file:
        assert next(csv.reader(file)) == list(head)
    assert [row[0] for row in rows_of_cases] == ["ways", "pace"]
    whats = [line.split(" | ")[0].removeprefix("| ") for line in made["figures"].splitlines()]
    assert all(what in text for what in whats)


@pytest.mark.nightly
def test_fifo_letters_and_letters_that_wait_arrive_in_order_when_time_has_passed() -> None:
    letters = LetterSeries(number=40, body_bytes=200, groups=4)
    row = cases.drained(
        "groups",
        "deadletter",
        replace(FEW, letters=letters),
        pipeline={**cases.HOUR_OF_BACKOFF, "fifo": True},
        waits=True,
    )
    assert row.audit == CLEAN
    assert row.runs >= 2
    room = cases.drained(
        "room",
        "deadletter",
        replace(FEW, letters=LetterSeries(number=40, body_bytes=200, tenants=1)),
        pipeline=cases.HOUR_OF_BACKOFF,
        waits=True,
        is_counted_from_wait=True,
    )
    assert room.audit == CLEAN
    assert room.requests.get("DeleteMessageBatch", 0) == 0
    assert room.requests["SendMessageBatch"] >= 4
    assert room.seconds < 60


@pytest.mark.nightly
def test_shards_are_started_and_their_effort_is_counted() -> None:
    letters = LetterSeries(number=6_000, body_bytes=200)
    row = cases.drained(
        "shards 2",
        "deadletter",
        replace(FEW, letters=letters, latency=0.02),
        shards=2,
    )
    assert row.audit == Audited(arrived=6_000, unfinished=0, lost=0, duplicated=0, changed=0)
    assert row.shards == 1


def test_a_peer_is_told_the_queues_and_knows_whether_it_is_installed(tmp_path: Path) -> None:
    peer = Peer(("run",), tmp_path / "tool", ("7",))
    assert not peer.is_installed()
    (tmp_path / "tool").mkdir()
    assert peer.is_installed()
    assert peer.command("http://stub", "a", "b") == [
        *("run", str(tmp_path / "tool"), "http://stub", "a", "b", "7"),
    ]


def test_a_snapshot_of_the_stubs_queue_has_every_letter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "LETTERS", 30)
    alone, in_threads = replay.snapshot().figures
    assert alone.letters == in_threads.letters == 30
    assert alone.sqs_calls >= 0.2
    assert alone.writes >= 1.0


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
