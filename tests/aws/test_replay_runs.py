"""The items of replay runs keep their promises on every backend."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import ReadTimeoutError

from deadletter.aws.dynamodb import stored
from deadletter.aws.replay_runs import LARGEST_ITEM, DynamoDBReplayRuns, run_to_item
from deadletter.replay.limiter import Bid, bid_for
from deadletter.replay.run import (
    BadRun,
    ReplayRun,
    RunRefused,
    RunState,
    RunsUnavailable,
    aborted,
    held,
    moved_to,
    resumed,
)
from deadletter.replay.ticket import ReplayOutcome
from deadletter.testing.fakes import client_error
from tests.aws.backends import Aws
from tests.aws.failing import Failing
from tests.tables import LETTERS, create_messages_table

NOW = 1_800_000_000.0
KEY = {"pk": {"S": "orders#runs"}, "sk": {"S": "00112233aabbccdd"}}
RUN = ReplayRun(
    id="00112233aabbccdd",
    pipeline="orders",
    state=RunState.RUNNING,
    generation=4,
    rate=10.0,
    burst=10,
    created=NOW - 10.5,
)

_ids = itertools.count()


@pytest.fixture
def dynamodb(aws: Aws) -> Any:
    create_messages_table(aws.dynamodb)
    return aws.dynamodb


def runs_in(dynamodb: Any) -> DynamoDBReplayRuns:
    return DynamoDBReplayRuns(dynamodb, LETTERS, "orders", lambda: NOW)


@pytest.fixture
def runs(dynamodb: Any) -> DynamoDBReplayRuns:
    runs = runs_in(dynamodb)
    assert runs.create(RUN) == RUN
    return runs


def bid(run: ReplayRun, letters: int, now: float = NOW) -> Bid:
    return bid_for(run, letters, now, f"token {next(_ids)}")


def known(runs: DynamoDBReplayRuns) -> ReplayRun:
    run = runs.read(RUN.id)
    assert run is not None
    return run


def test_a_run_reads_as_it_was_stored(runs: DynamoDBReplayRuns) -> None:
    assert known(runs) == RUN
    assert runs.all() == (RUN,)
    assert runs.read("another") is None


def test_a_run_is_created_once(runs: DynamoDBReplayRuns) -> None:
    assert runs.create(replace(RUN, by="a second start")) == RUN
    assert known(runs) == RUN


def test_a_change_of_an_older_generation_is_refused(runs: DynamoDBReplayRuns) -> None:
    runs.change(RUN, held(RUN, at=NOW, by="ann", because="lunch"))
    with pytest.raises(RunRefused, match="HELD now, by ann"):
        runs.change(RUN, aborted(RUN, at=NOW, by="bob", because="no"))


def test_a_change_stored_twice_is_one_change(runs: DynamoDBReplayRuns) -> None:
    after = held(RUN, at=NOW, by="ann", because="lunch")
    runs.change(RUN, after)
    runs.change(RUN, after)
    assert known(runs) == after


def test_a_change_of_an_unknown_run_is_refused(dynamodb: Any) -> None:
    with pytest.raises(RunRefused, match="unknown"):
        runs_in(dynamodb).change(RUN, held(RUN, at=NOW, by="ann", because="lunch"))


def test_a_hold_does_not_take_back_what_grants_have_used(runs: DynamoDBReplayRuns) -> None:
    granted = runs.bid(RUN, bid(RUN, 10))
    assert granted is not None
    runs.change(RUN, held(RUN, at=NOW, by="ann", because="lunch"))
    assert known(runs).paid == granted.run.paid == NOW


def test_a_new_step_brings_its_allowance_although_the_number_is_the_same(
    runs: DynamoDBReplayRuns,
) -> None:
    canary = replace(moved_to(RUN, RunState.RUNNING, at=NOW, by="x"), allowance=2)
    canary = replace(canary, state=RunState.CANARY)
    runs.change(RUN, canary)
    answer = runs.bid(canary, bid(canary, 2))
    assert answer is not None
    assert answer.is_granted
    next_step = replace(moved_to(canary, RunState.CANARY, at=NOW, by="x"), step=1, allowance=2)
    runs.change(canary, next_step)
    assert known(runs).allowance == 2


def test_an_idle_pace_grants_a_burst_and_then_the_rate(runs: DynamoDBReplayRuns) -> None:
    first = runs.bid(RUN, bid(RUN, 10))
    assert first is not None
    assert first.is_granted
    early = runs.bid(first.run, bid(first.run, 1))
    assert early is not None
    assert not early.is_granted
    later = runs.bid(early.run, bid(early.run, 1, NOW + 0.1))
    assert later is not None
    assert later.is_granted
    assert later.run.paid == pytest.approx(NOW + 0.1, abs=1e-4)
    assert known(runs).paid == pytest.approx(later.run.paid, abs=1e-5)


def test_a_grant_that_believes_the_pace_idle_is_refused_when_it_is_not(
    runs: DynamoDBReplayRuns,
) -> None:
    runs.bid(RUN, bid(RUN, 5))
    refused = runs.bid(RUN, bid(RUN, 5))
    assert refused is not None
    assert not refused.is_granted
    assert refused.run.paid == pytest.approx(NOW - 0.5)


def test_the_same_bid_written_twice_is_granted_once(runs: DynamoDBReplayRuns) -> None:
    mine = bid(RUN, 5)
    first, again = runs.bid(RUN, mine), runs.bid(RUN, mine)
    assert first is not None
    assert again is not None
    assert again.is_granted
    assert again.run.paid == first.run.paid


def test_no_grant_is_written_after_the_switch(runs: DynamoDBReplayRuns) -> None:
    runs.change(RUN, after := held(RUN, at=NOW, by="ann", because="lunch"))
    for run in (RUN, after):
        answer = runs.bid(run, bid(run, 1))
        assert answer is not None
        assert not answer.is_granted
        assert answer.run.state is RunState.HELD
    runs.change(after, resumed(after, at=NOW, by="ann"))
    late = runs.bid(RUN, bid(RUN, 1))
    assert late is not None
    assert not late.is_granted


def test_a_canary_step_grants_no_more_than_its_allowance(runs: DynamoDBReplayRuns) -> None:
    canary = replace(RUN, generation=5, state=RunState.CANARY, allowance=3, step_began=NOW)
    runs.change(RUN, canary)
    first = runs.bid(canary, bid(canary, 2))
    assert first is not None
    assert first.run.allowance == 1
    second = runs.bid(first.run, bid(first.run, 2, NOW + 60))
    assert second is not None
    assert not second.is_granted


def test_a_bid_for_an_unknown_run_has_no_answer(dynamodb: Any) -> None:
    assert runs_in(dynamodb).bid(RUN, bid(RUN, 1)) is None


def test_the_limiters_time_in_the_item_is_that_of_the_last_grant(runs: DynamoDBReplayRuns) -> None:
    first = runs.bid(RUN, bid(RUN, 1, NOW + 7))
    assert first is not None
    second = runs.bid(first.run, bid(first.run, 1, NOW + 8))
    assert second is not None
    assert second.at == NOW + 7


def test_a_run_with_long_texts_fits_into_one_kilobyte(dynamodb: Any) -> None:
    run = ReplayRun(
        id="f" * 16,
        pipeline="a-rather-long-name-of-a-pipeline-of-sixty-characters-in-all",
        state=RunState.WAITING_APPROVAL,
        generation=9_999,
        counted=1_000_000,
        messages=1_000_000,
        manifest="0" * 32,
        known_before=1_000_000,
        failed_before=1_000_000,
        # A run that restores letters has no other outcome.
        counts=dict.fromkeys(
            (each.name for each in ReplayOutcome if each is not ReplayOutcome.RESTORED), 1_000_000
        ),
        restart=99,
        rate=1 / 3,
        paid=NOW + 1 / 3,
        created=NOW + 1 / 3,
        started=NOW + 1 / 3,
        changed=NOW + 1 / 3,
        step_began=NOW + 1 / 3,
        expires=NOW + 1 / 3,
        because="ü" * 5_000,
        by="ü" * 5_000,
    )
    item = {**run_to_item(run, run.pipeline, NOW), "bid": "x" * 40, "at": 1}
    assert size_of(item) <= LARGEST_ITEM
    runs = DynamoDBReplayRuns(dynamodb, LETTERS, run.pipeline, lambda: NOW)
    runs.create(run)
    read = runs.read(run.id)
    assert read is not None
    assert read.because.endswith("…")


def size_of(item: dict[str, Any]) -> int:
    """Bytes of an item, at least as many as DynamoDB counts."""

    def of(value: Any) -> int:
        if isinstance(value, dict):
            return 3 + sum(len(name.encode()) + of(each) + 1 for name, each in value.items())
        return len(str(value).encode())

    return sum(len(name.encode()) + of(value) for name, value in item.items())


def test_a_malformed_item_is_no_run(runs: DynamoDBReplayRuns, dynamodb: Any) -> None:
    dynamodb.put_item(TableName=LETTERS, Item={**KEY, **stored({"state": "SLEEPING"})})
    with pytest.raises(BadRun, match=f"a row cannot be read: {LETTERS} orders#runs {RUN.id}"):
        runs.read(RUN.id)


@pytest.mark.parametrize(
    "error",
    [
        ReadTimeoutError(endpoint_url="https://dynamodb"),
        client_error("UpdateItem", "ThrottlingException", "slow down", status=400),
    ],
)
def test_a_store_that_does_not_answer_is_unavailable(error: Exception) -> None:
    runs = runs_in(Failing(error))
    for call in (
        lambda: runs.read(RUN.id),
        runs.all,
        lambda: runs.create(RUN),
        lambda: runs.change(RUN, held(RUN, at=NOW, by="ann", because="lunch")),
        lambda: runs.bid(RUN, bid(RUN, 1)),
    ):
        with pytest.raises(RunsUnavailable):
            call()
